"""What a site's promises cost its accounts: held before they are made, paid when they are over.

Holds come first: a promise with a price is journaled only when the ledger has it held, so no crash
leaves one that nobody can pay. Payments come last: what an event of the journal makes due is
settled when the disk has the event. In between the two books may differ by what a crash cut off,
and ``begin`` puts that right from the journal, which decides.

Who pays what (docs/accounting.md): a reservation its price; cancelled after its start, the part of
its time that was used; before, nothing. A job of the queue the part of its limit that it used; one
with terms, once it has begun and unless it ends late, the price that its policy agreed with it.
What a site ends for reasons of its own costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.calendar_events import ReservationChanged
from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
)
from gridtravel.gridcore.jobs.job import JobState

if TYPE_CHECKING:
    from gridtravel.gridcore.jobs.job import JobView
    from gridtravel.gridcore.timing.instants import Instant
    from gridtravel.gridio.ledger.ledger import Ledger, Shortfall


def reference_of(reservation_id: str) -> str:
    """What a reservation's hold is called in the ledger."""
    return f"reservation/{reservation_id}"


def reference_of_job(job_id: str) -> str:
    """The same for a job of the queue."""
    return f"job/{job_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dues:
    """What is to be settled together."""

    paid: Mapping[str, tuple[int, str]]
    """By reference: the amount, and why so much."""
    changed: frozenset[str]
    """Ids of reservations whose price has changed."""


class Cashier:
    """Between one site's promises and its ledger; without a ledger nothing costs anything."""

    def __init__(self, ledger: Ledger | None, site: str) -> None:
        self.ledger = ledger
        self._site = site
        self._due: dict[str, tuple[int, str]] = {}
        self._changed: set[str] = set()

    @property
    def collects(self) -> bool:
        """True when accounts pay here."""
        return self.ledger is not None

    # -- before a promise --------------------------------------------------------------------------

    def hold(self, entry: Reservation, now: Instant) -> Decline | None:
        """Hold the price of a reservation that is about to be granted or changed; ``None``: it is
        held, or nothing has to be.
        """
        reference = reference_of(entry.reservation_id)
        return self._hold(reference, entry.request.account, entry.price_millicredits, now)

    def hold_for_job(
        self, job_id: str, account: str, price_millicredits: int, now: Instant
    ) -> Decline | None:
        """The same for a job of the queue that is about to be accepted: the most it may cost."""
        return self._hold(reference_of_job(job_id), account, price_millicredits, now)

    def _hold(
        self, reference: str, account: str, millicredits: int, now: Instant
    ) -> Decline | None:
        if self.ledger is None:
            return None
        if not millicredits and self.ledger.hold_of(reference) is None:
            return None
        short = self.ledger.hold(reference, account, millicredits, now)
        return None if short is None else self._too_poor(short)

    def _too_poor(self, short: Shortfall) -> Decline:
        told = (
            f"{self._site}: account {short.account} has {short.available} millicredits available,"
            f" {short.wanted} are needed"
        )
        return Decline(rule=DeclineRule.BUDGET, message=told, site=self._site)

    # -- after an event ----------------------------------------------------------------------------

    def note_reservation(self, before: Reservation, event: ReservationChanged) -> None:
        """An entry has changed; ``before``: as it was."""
        after = before.after(event.event)
        if self.ledger is None or after.state.is_live:
            return
        amount, why = 0, event.event.value
        if before.state is ReservationState.COMMITTED:
            used_s = min(max(event.at, before.start), before.end) - before.start
            amount = part(before.price_millicredits, used_s, before.interval.duration_s)
        self._due[reference_of(before.reservation_id)] = amount, why

    def note_price(self, entry: Reservation) -> None:
        """An entry has moved, and may cost another price now."""
        if self.ledger is not None:
            self._changed.add(entry.reservation_id)

    def note_job(self, view: JobView, *, by_site: bool) -> None:
        """A job of the queue is over; ``by_site``: for reasons of the site's."""
        reference = reference_of_job(view.job_id)
        if self.ledger is None or (hold := self.ledger.hold_of(reference)) is None:
            return
        used_s = 0
        if view.started_precise is not None and view.ended_at is not None and not by_site:
            used_s = min(max(view.ended_at - int(view.started_precise), 0), view.spec.limit_s)
        amount = part(hold.millicredits, used_s, view.spec.limit_s)
        if view.terms is not None:
            has_run = view.started_precise is not None and not by_site
            amount = hold.millicredits if has_run and not _is_late(view) else 0
        self._due[reference] = amount, view.state.value.lower()

    @property
    def has_dues(self) -> bool:
        """True when something is to be settled, once the journal is on disk."""
        return bool(self._due or self._changed)

    def put_back(self, dues: Dues) -> None:
        """They could not be settled; another time."""
        self._due = {**dues.paid, **self._due}
        self._changed |= dues.changed

    def take_dues(self) -> Dues:
        """What is due by the events so far. Settle it when the disk has them."""
        taken = Dues(paid=dict(self._due), changed=frozenset(self._changed))
        self._due.clear()
        self._changed.clear()
        return taken

    def settle(self, dues: Dues, entries: Mapping[str, Reservation], now: Instant) -> None:
        """Carry out what was due. What was given back comes first, so a changed promise can be
        held from it."""
        if self.ledger is None:
            return
        for reference, (amount, why) in dues.paid.items():
            hold = self.ledger.hold_of(reference)
            if hold is not None and hold.charged is None:
                self.ledger.charge(reference, min(amount, hold.millicredits), now, why)
        for reservation_id in dues.changed:
            entry = entries.get(reservation_id)
            if entry is not None and entry.state.is_live:
                self.hold(entry, now)

    def begin(
        self, entries: Mapping[str, Reservation], active_jobs: Iterable[str], now: Instant
    ) -> None:
        """After a restart, when the journal was read: settle what it says is over, and let go of
        what it does not know, which was held for a promise that was never made.
        """
        if self.ledger is None:
            return
        self.settle(self.take_dues(), entries, now)
        kept = {reference_of_job(job_id) for job_id in active_jobs}
        for entry in entries.values():
            if entry.state.is_live:
                kept.add(reference_of(entry.reservation_id))
                self.hold(entry, now)
        for reference in self.ledger.open_holds():
            if reference not in kept:
                self.ledger.release(reference, now, "never promised")


def _is_late(view: JobView) -> bool:
    """True for a job that ended after its promised deadline. One on shared nodes that is ended
    then has had what it was promised: else its end counts as the site's.
    """
    terms = view.terms
    if terms is None or terms.deadline is None or view.ended_at is None:
        return False
    if terms.node_numbers and view.state is JobState.TIMED_OUT:
        return False
    return view.ended_at > terms.deadline


def part(price: int, used_s: int, whole_s: int) -> int:
    """The price of a part of the time, rounded up to whole millicredits."""
    return -(-price * used_s // whole_s)

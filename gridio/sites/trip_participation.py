"""A participant of trips: what a site or a manager does about the legs it holds.

- A hold of a trip that has acceptors does not simply expire. It is *in doubt* when its lifetime is
  over, and the acceptors are asked: it commits when the trip was committed, and lets go when it was
  not. A doubt has an end, which the nodes' owner sets; then the hold is *withdrawn*, for good, and
  if it turns out that the trip was decided, the whole of it is cancelled.
- Whether a committed leg runs is settled from ten seconds before its start on: that its trip was
  not cancelled, and, where all legs begin together, that each of them is ready, until the start.
  Who has learned it writes it down. Who has not goes on asking until the last second in which the
  leg may begin, also after a restart.

It never guesses. Agents and managers hand in their book (docs/protocol.md, section 3).
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Begin,
    Reservation,
    ReservationEvent,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridcore.trips.registers import CHECK_BEFORE_S, CLOCKS_APART_S
from gridtravel.gridcore.trips.trip_consensus import Outcome
from gridtravel.gridio.sites.background import BackgroundTasks
from gridtravel.gridio.sites.trip_keeping import Proposers
from gridtravel.gridio.sites.trip_voting import (
    OutsidersVoting,
    RaceVoting,
    TravellersVoting,
    TripQuestions,
    TripVoting,
    Votes,
)
from gridtravel.gridio.system.clock import Clock

log = logging.getLogger(__name__)

CHECK_TURN_S: Final = 1
"""Each participant asks this long after the one before it: the first settles the question."""
RETRY_FIRST_S: Final = 0.5
RETRY_MAX_S: Final = 8.0
"""Between two rounds of a doubt: doubling from the first to the longest, with a fraction that
depends on the site's name, so that two in doubt do not outbid each other for ever.
"""
BEGIN_RETRY_MAX_S: Final = 1.0
"""The longest pause between two questions about a leg that is about to begin."""
RACE_RETRY_FIRST_S: Final = 0.2
RACE_RETRY_MAX_S: Final = 5.0
"""Between two questions of a copy in a race, as for a doubt."""
BEGIN_WITHIN_S: Final = 25
"""So long after its start a leg still asks whether it runs. It leaves time to launch what runs."""


class LegBook(Protocol):
    """What a participant has to do with its owner's book. Whatever changes it is durable when the
    call returns.
    """

    @property
    def site(self) -> str:
        """Name under which the others know it."""

    def leg(self, reservation_id: str) -> Reservation | None:
        """An entry, or what it is remembered as."""

    def is_open(self, reservation_id: str) -> bool:
        """True for a hold about which nothing is decided."""

    def undecided_until(self, hold: Reservation) -> Instant:
        """When a hold's time has gone by: at its start, or at that of what it was to replace."""

    def replacement_of(self, reservation_id: str) -> Reservation | None:
        """The hold that is to replace an entry."""

    def is_ready(self, reservation_id: str) -> bool:
        """True when everything is there that a committed leg needs to begin."""

    def runs(self, reservation_id: str) -> bool:
        """True when it was learned, and written down, that the leg runs."""

    async def commit(self, reservation_id: str, manifest: Manifest) -> None:
        """Commit a hold past its lifetime, because its trip was committed; ``manifest``: what came
        with that.
        """

    async def end(self, reservation_id: str, event: ReservationEvent, reason: str = "") -> None:
        """EXPIRE or WITHDRAW a hold, RELEASE a leg; nothing where that is over already."""

    async def note_runs(self, reservation_id: str) -> None:
        """Write down that a leg runs."""

    async def durable(self) -> None:
        """Return when everything that the book says now is safe."""


class TripParticipant:
    """The doubts of one site or manager. All methods belong to its event loop."""

    def __init__(
        self,
        book: LegBook,
        clock: Clock,
        background: BackgroundTasks,
        *,
        ports: Callable[[Sequence[Acceptor]], Mapping[str, Votes]],
        proposers: Proposers,
        doubt_max_s: int,
    ) -> None:
        """``ports``: the ways to acceptors, by their names; its own is there without a wire.
        ``doubt_max_s``: how long a hold may be in doubt after its lifetime.
        """
        self._book = book
        self._clock = clock
        self._background = background
        self._ports = ports
        self._proposers = proposers
        self._doubt_max_s = doubt_max_s
        self.in_doubt: set[str] = set()
        """Holds that are asked about."""
        self._due: list[tuple[Instant, str]] = []
        """Heap of (instant, reservation): when to ask whether a committed leg runs."""
        self._unready: dict[str, None] = {}
        """Committed legs whose readiness has not been said yet."""
        self._left_behind: dict[str, tuple[TripRef, Instant]] = {}
        """By attempt: those that a change has left with legs elsewhere, and until when they can be
        called off.
        """
        self._withdrawn: dict[str, Reservation] = {}
        """Holds that were let go without knowing what became of their trip."""

    def must_ask(self, reservation: Reservation) -> bool:
        """True when others decide with it: a hold may not simply expire, nor a leg just begin."""
        trip = reservation.request.trip
        return trip is not None and bool(trip.acceptors)

    # -- what the owner's book says ----------------------------------------------------------------

    def note_committed(self, leg: Reservation) -> None:
        """A leg is committed, or has another time."""
        if self.must_ask(leg):
            heapq.heappush(self._due, (self._check_at(leg), leg.reservation_id))
            if _trip(leg).begin is Begin.TOGETHER:
                self._unready[leg.reservation_id] = None

    def note_withdrawn(self, hold: Reservation) -> None:
        """A hold was let go in doubt."""
        self._withdrawn[hold.reservation_id] = hold

    def note_moved(self, old: Reservation, new: Reservation) -> None:
        """A leg has its new form. Where the change dropped other sites, each site that goes on has
        the old attempt called off: the dropped ones ask about that before their start, and the
        traveller may be gone.
        """
        self.note_committed(new)
        before, after = old.request.trip, new.request.trip
        if before is None or after is None or before.instance == after.instance:
            return
        if before.acceptors and not set(before.participants) <= set(after.participants):
            self._left_behind[before.instance] = (before, old.start)

    # -- time --------------------------------------------------------------------------------------

    def next_due(self) -> Instant | None:
        """When time alone gives something to do."""
        return self._due[0][0] if self._due else None

    def look(self, now: Instant) -> None:
        """Begin whatever is due, beside everything else."""
        while self._due and self._due[0][0] <= now:
            _, reservation_id = heapq.heappop(self._due)
            leg = self._book.leg(reservation_id)
            if (
                leg is not None
                and leg.state is ReservationState.COMMITTED
                and self._check_at(leg) <= now
                and not self._book.runs(reservation_id)
            ):
                name = f"runs {reservation_id} {_trip(leg).instance}"
                self._background.start(name, partial(self._check, leg))
        self._say_what_is_ready(now)
        for trip, until in self._left_behind.values():
            if now < until:
                name = f"called off {trip.instance}"
                self._background.start(name, partial(self._call_off, trip, until))
        self._left_behind.clear()
        for reservation_id, hold in self._withdrawn.items():
            if now < _trip(hold).ends_at:
                name = f"withdrawn {reservation_id}"
                self._background.start(name, partial(self._follow, hold))
        self._withdrawn.clear()

    # -- holds in doubt ----------------------------------------------------------------------------

    def settle_soon(self, hold: Reservation) -> None:
        """Find out what became of the hold's trip, beside everything else."""
        if hold.reservation_id not in self.in_doubt:
            self.in_doubt.add(hold.reservation_id)
            name = f"doubt {hold.reservation_id}"
            self._background.start(name, partial(self._settle, hold))

    async def _settle(self, hold: Reservation) -> None:
        book, reservation_id = self._book, hold.reservation_id
        until = book.undecided_until(hold)
        if hold.hold_expires_at is not None:
            until = min(until, hold.hold_expires_at + self._doubt_max_s)
        questions = self._questions(_trip(hold).acceptors, _trip(hold).instance)
        try:
            outcome = await self._find_out(
                _trip(hold),
                questions,
                Outcome.ABORT,
                until,
                lambda: book.is_open(reservation_id),
            )
            if not book.is_open(reservation_id):
                return
            if outcome is None:
                log.warning("hold %s is withdrawn: no majority answered", reservation_id)
                await book.end(reservation_id, ReservationEvent.WITHDRAW)
                return
            log.info("the trip of hold %s was decided: %s", reservation_id, outcome)
            if outcome is Outcome.COMMIT:
                await book.commit(reservation_id, questions.manifest)
            else:
                await book.end(reservation_id, ReservationEvent.EXPIRE)
        finally:
            self.in_doubt.discard(reservation_id)

    async def _follow(self, hold: Reservation) -> None:
        """After a withdrawal: a trip that was decided meanwhile is cancelled whole. A leg that the
        hold was to change is no part of that trip in its old form either.
        """
        trip = _trip(hold)
        outcome = await self._find_out(trip, trip.instance, Outcome.ABORT, trip.ends_at)
        if outcome is not Outcome.COMMIT:
            return
        log.warning("the trip of the withdrawn hold %s was decided", hold.reservation_id)
        old_id = hold.request.replaces
        if old_id is not None:
            await self._book.end(old_id, ReservationEvent.RELEASE, "its trip was changed")
        await self._find_out(trip, trip.cancellation, Outcome.COMMIT, trip.ends_at)

    async def _call_off(self, trip: TripRef, until: Instant) -> None:
        await self._find_out(trip, trip.cancellation, Outcome.COMMIT, until)

    # -- legs that are about to begin --------------------------------------------------------------

    def _check_at(self, leg: Reservation) -> Instant:
        trip = _trip(leg)
        check_at = leg.start - CHECK_BEFORE_S
        if self._book.site in trip.participants:
            turn = trip.participants.index(self._book.site)
            check_at += min(turn * CHECK_TURN_S, CHECK_BEFORE_S // 2)
        return check_at

    async def _check(self, leg: Reservation) -> None:
        """Whether a leg runs. A change of the leg that is still open is settled first: it may be a
        leg of a later attempt by then, and is asked about before its new start.
        """
        book, reservation_id = self._book, leg.reservation_id
        if self._clock.now() >= _late(leg):
            await self._release(reservation_id, "nobody was here when it should have begun")
            return
        while (hold := book.replacement_of(reservation_id)) is not None:
            if not self.must_ask(hold) or leg.start <= self._clock.now():
                break
            self.settle_soon(hold)
            await self._clock.sleep_until(self._clock.now_precise() + RETRY_FIRST_S)
        trip, until = _trip(leg), _late(leg)

        async def find_out(question: str, settle_from: Instant) -> Outcome | None:
            return await self._find_out(
                trip,
                question,
                Outcome.ABORT,
                until,
                lambda: self._is_still(leg),
                settle_from=settle_from,
                pause_max_s=BEGIN_RETRY_MAX_S,
            )

        outcome = await find_out(trip.cancellation, trip.starts_at - CHECK_BEFORE_S)
        if outcome is Outcome.COMMIT:
            if self._is_still(leg):
                await self._release(reservation_id, "the trip was cancelled")
            return
        missing = ""
        if trip.begin is Begin.TOGETHER and outcome is not None:
            beside = {
                trip.readiness(each.leg): each.leg for each in trip.legs if each.start == leg.start
            }
            known = await self._learn_who_is_ready(leg, list(beside))
            still_open = [each for each in beside if each not in known]
            answers = await asyncio.gather(*(find_out(each, leg.start) for each in still_open))
            known |= {n: a for n, a in zip(still_open, answers, strict=True) if a is not None}
            not_ready = [n for q, n in beside.items() if known.get(q) is not Outcome.COMMIT]
            missing = next(iter(not_ready), "")
            if len(known) < len(beside):
                outcome = None
        if not self._is_still(leg):
            return
        if outcome is None and trip.begin is Begin.TOGETHER:
            await self._release(reservation_id, "nobody could be asked whether the others begin")
        elif missing:
            await self._release(reservation_id, f"leg {missing} was not ready to begin")
        else:
            await book.note_runs(reservation_id)

    async def _learn_who_is_ready(
        self, leg: Reservation, questions: Sequence[str]
    ) -> dict[str, Outcome]:
        """The readiness of the legs that begin with this one, as far as it is known by the start:
        one message to each acceptor asks for all that are open. What is open then has to be settled
        one by one.
        """
        trip, known = _trip(leg), dict[str, Outcome]()
        ports = self._ports(trip.acceptors)
        wait_s = RETRY_FIRST_S
        fraction = _fraction(f"{self._book.site} {trip.instance}")
        while self._is_still(leg) and self._clock.now() < leg.start:
            first, *others = (each for each in questions if each not in known)
            known |= await TripQuestions(first, ports).learn_with(others)
            if len(known) == len(questions):
                break
            pause_s = wait_s * fraction
            await self._clock.sleep_until(min(self._clock.now_precise() + pause_s, leg.start))
            wait_s = BEGIN_RETRY_MAX_S
        return known

    def _say_what_is_ready(self, now: Instant) -> None:
        for reservation_id in list(self._unready):
            leg = self._book.leg(reservation_id)
            is_waited_for = (
                leg is not None
                and leg.state is ReservationState.COMMITTED
                and now < _late(leg)
                and _trip(leg).is_leg_of(self._book.site)  # of a part, the manager says it
            )
            if is_waited_for and not self._book.is_ready(reservation_id):
                continue
            del self._unready[reservation_id]
            if leg is not None and is_waited_for:
                # Of this attempt: it may just be saying so for the one that a change replaced.
                name = f"ready {_trip(leg).instance} {reservation_id}"
                self._background.start(name, partial(self._say_ready, leg))

    async def _say_ready(self, leg: Reservation) -> None:
        """Have the acceptors remember that a leg is ready."""
        trip = _trip(leg)
        await self._book.durable()  # who says so must never find itself with a hold again
        question = TravellersVoting(trip.readiness(trip.leg), self._ports(trip.acceptors))
        wait_s = RETRY_FIRST_S
        while self._is_committed(leg.reservation_id) and self._clock.now() < _late(leg):
            if await question.propose_first() or await question.learn():
                return
            now = self._clock.now_precise()
            await self._clock.sleep_until(now + wait_s)
            # No long pause reaches into the time in which the others ask for it.
            is_soon = now + 2 * RETRY_MAX_S >= leg.start - CHECK_BEFORE_S
            wait_s = min(2 * wait_s, BEGIN_RETRY_MAX_S if is_soon else RETRY_MAX_S)

    async def _release(self, reservation_id: str, reason: str) -> None:
        if self._is_committed(reservation_id):
            log.info("%s does not run: %s", reservation_id, reason)
            await self._book.end(reservation_id, ReservationEvent.RELEASE, reason)

    # -- races of copies ---------------------------------------------------------------------------

    async def claim(self, race: Race, is_wanted: Callable[[], bool]) -> bool:
        """Ask the acceptors of the race until it is known whether this site's copy runs
        (``gridcore.jobs.races``). The scheduler has given the copy its nodes, and they are kept
        meanwhile: a site that is cut off wastes them until the copy's time is over, and never runs
        a second copy. Said again after a restart it leads to the same answer: what was won stays
        won.
        """
        voting = RaceVoting(race, lambda question: self._questions(race.acceptors, question))
        wait_s = RACE_RETRY_FIRST_S
        while is_wanted():
            won = await voting.claim()
            if won is not None:
                return won
            fraction = _fraction(race.question(race.copy))
            await self._clock.sleep_until(self._clock.now_precise() + wait_s * fraction)
            wait_s = min(2 * wait_s, RACE_RETRY_MAX_S)
        return False

    # -- inside ------------------------------------------------------------------------------------

    async def _find_out(
        self,
        trip: TripRef,
        question: str | TripQuestions,
        wish: Outcome,
        until: Instant,
        is_wanted: Callable[[], bool] = lambda: True,
        *,
        settle_from: Instant = 0,
        pause_max_s: float = RETRY_MAX_S,
    ) -> Outcome | None:
        """Learn an outcome, or have ``wish`` chosen where none was; ``None``: not before ``until``,
        or nobody wants to know any more. Before ``settle_from`` it only learns. Where others have
        to settle it, whose clocks may be behind ours, it asks them a little later: they would
        refuse, and so would the next ones, again and again.
        """
        questions = question
        if isinstance(questions, str):
            questions = self._questions(trip.acceptors, questions)
        if settle_from and isinstance(questions, OutsidersVoting):
            settle_from += CLOCKS_APART_S
        wait_s = RETRY_FIRST_S
        fraction = _fraction(f"{self._book.site} {trip.instance}")
        while is_wanted() and self._clock.now() < until:
            outcome = await questions.learn()
            if outcome is None and self._clock.now() >= settle_from:
                outcome = await questions.settle(wish)
            if outcome is not None:
                return outcome
            pause_s = min(wait_s, pause_max_s) * fraction
            await self._clock.sleep_until(min(self._clock.now_precise() + pause_s, until))
            wait_s = min(2 * wait_s, RETRY_MAX_S)
        return None

    def _questions(self, acceptors: Sequence[Acceptor], question: str) -> TripQuestions:
        """One question, as this site may ask it."""
        ports = self._ports(acceptors)
        if self._book.site in ports:
            return TripVoting(question, ports, self._proposers.next())
        return OutsidersVoting(question, ports, self._proposers.next())

    def _is_still(self, leg: Reservation) -> bool:
        """True for a committed leg that no change has made part of a later attempt meanwhile."""
        kept = self._book.leg(leg.reservation_id)
        is_committed = kept is not None and kept.state is ReservationState.COMMITTED
        return kept is not None and is_committed and kept.request.trip == leg.request.trip

    def _is_committed(self, reservation_id: str) -> bool:
        leg = self._book.leg(reservation_id)
        return leg is not None and leg.state is ReservationState.COMMITTED


def _trip(reservation: Reservation) -> TripRef:
    trip = reservation.request.trip
    assert trip is not None, "only what belongs to a trip is asked about"
    return trip


def _late(leg: Reservation) -> Instant:
    """From when on a leg may not begin any more."""
    return min(leg.start + BEGIN_WITHIN_S, leg.end)


def _fraction(text: str) -> float:
    """From a half to one, fixed by ``text``: two proposers that wait for such different parts of a
    pause do not outbid each other for ever.
    """
    return 0.5 + hashlib.sha256(text.encode()).digest()[0] / 510

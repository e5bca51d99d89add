"""What is written down at a far end about our reservations, and what it says together with the
batch system.

The batch system's own list is the truth about what occupies room. It cannot keep the request, the
difference between a hold and a commit, or that a name must not be used again; these lie in files
beside the areas, so that a later run, from another laptop as well, knows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridcore.timing.instants import Instant, Interval
from gridtravel.gridio.batch.systems import BatchReservation, public_id
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.records import EventCodec

RESOURCE_CLASS: Final = "node"
_KIND: Final = "wish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A request as it is written down, before the batch system is asked."""

    request: ReservationRequest
    asked_at: Instant
    """On the far end's clock."""


_CODEC: Final = EventCodec({_KIND: Wish})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name of ours in the book."""

    name: str
    wish: Wish
    granted_start: Instant | None
    """As the batch system granted it; ``None``: it refused, or has not answered."""
    is_committed: bool = False
    is_released: bool = False
    job_name: str = ""
    """Of the job that came with the request; empty: none did."""
    is_idle: bool = False
    """That job has given up waiting for what it needs to begin."""

    def as_reservation(
        self, kept: BatchReservation | None, *, site: str, owner: str, now: Instant
    ) -> Reservation | None:
        """The entry as its owner sees it, ``kept`` being what the batch system has under its name;
        ``None``: nothing was ever granted.
        """
        request = self.wish.request
        start = kept.start if kept else self.granted_start
        if start is None:
            return None
        end = kept.end if kept else start + request.duration_s
        return Reservation(
            reservation_id=public_id(site, self.name),
            site=site,
            owner=owner,
            request=request,
            resource_class=RESOURCE_CLASS,
            nodes=kept.nodes if kept else request.nodes_min,
            interval=Interval(start, end),
            state=self._state(kept, end, now),
            created_at=self.wish.asked_at,
            job_id=public_id(site, self.job_name) if self._shows_job else "",
        )

    @property
    def _shows_job(self) -> bool:
        """A job that may yet be let go with its hold is nobody's to ask about."""
        return bool(self.job_name) and (self.is_committed or self.is_idle)

    def _state(self, kept: BatchReservation | None, end: Instant, now: Instant) -> ReservationState:
        if self.is_released:
            return ReservationState.RELEASED
        if now >= end:
            return ReservationState.COMPLETED if self.is_committed else ReservationState.EXPIRED
        if kept is None:
            return ReservationState.RELEASED  # It was deleted at the site.
        return ReservationState.COMMITTED if self.is_committed else ReservationState.HELD


def to_line(wish: Wish) -> str:
    """The wish as one line of ASCII."""
    return _CODEC.encode(wish, at=wish.asked_at).body.decode()


def read_entries(lines: Iterable[str]) -> dict[str, Entry]:
    """What ``b_entry`` printed, by name."""
    entries: dict[str, Entry] = {}
    name, marks, granted, job_name = "", frozenset[str](), "", ""
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "entry":
            name, *words = rest.split()
            marks, granted, job_name = frozenset(words), "", ""
        elif kind == "granted":
            granted = rest.strip()
        elif kind == "job":
            job_name = rest.strip()
        elif kind == "request" and name:
            wish = _CODEC.decode(Record(kind=_KIND, at=0, body=rest.encode()))
            assert isinstance(wish, Wish), "the codec knows one kind"
            entries[name] = Entry(
                name=name,
                wish=wish,
                granted_start=int(granted) if is_count(granted) else None,
                is_committed="committed" in marks,
                is_released="released" in marks,
                job_name=job_name,
                is_idle="idle" in marks,
            )
    return entries

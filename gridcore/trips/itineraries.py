"""What the travel agent has arranged: a trip, its legs, and the states both pass through.

Values only; a change makes a new itinerary. Everything that affects the life of a trip is the table
``TRANSITIONS``. The sites' own books decide what is booked; an itinerary is the traveller's copy.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.reservations import Decline, check_id
from gridtravel.gridcore.errors import ConflictError, InputError
from gridtravel.gridcore.timing.instants import Instant, Interval

if TYPE_CHECKING:
    from collections.abc import Mapping


class TripState(enum.StrEnum):
    """Where a trip stands. A trip is whole or absent: no state means that some legs are booked and
    others not."""

    PLANNED = "PLANNED"
    """Searched for or quoted; no site has promised anything."""
    HELD = "HELD"
    """Every leg is held, and the outcome is not decided. Holds end by themselves."""
    BOOKED = "BOOKED"
    """Every leg is committed."""
    RUNNING = "RUNNING"
    """At least one leg has started."""
    COMPLETED = "COMPLETED"
    """Every leg ended well."""
    FAILED = "FAILED"
    """A leg failed and could not be healed; no leg runs any more."""
    CANCELLED = "CANCELLED"
    """Undone by its user."""
    DECLINED = "DECLINED"
    """Nothing fitted; ``Itinerary.decline`` says why and what would."""
    ABSENT = "ABSENT"
    """The booking was undone before it was decided: no leg exists anywhere."""

    @property
    def is_over(self) -> bool:
        """True when nothing more will happen to the trip."""
        return not TRANSITIONS[self]


_T = TripState

TRANSITIONS: Final[Mapping[TripState, tuple[TripState, ...]]] = MappingProxyType(
    {
        _T.PLANNED: (_T.HELD, _T.DECLINED, _T.CANCELLED, _T.ABSENT),
        _T.HELD: (_T.BOOKED, _T.PLANNED, _T.DECLINED, _T.CANCELLED, _T.ABSENT),
        _T.BOOKED: (_T.RUNNING, _T.COMPLETED, _T.FAILED, _T.CANCELLED),
        _T.RUNNING: (_T.COMPLETED, _T.FAILED, _T.CANCELLED),
        _T.COMPLETED: (),
        _T.FAILED: (),
        _T.CANCELLED: (),
        _T.DECLINED: (),
        _T.ABSENT: (),
    }
)
"""What may follow each state. HELD goes back to PLANNED when a site declined a leg and the search
goes on."""


class LegState(enum.StrEnum):
    """Where one leg stands, as far as the travel agent knows."""

    PLANNED = "PLANNED"
    HELD = "HELD"
    BOOKED = "BOOKED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    RELEASED = "RELEASED"
    """Undone, by its user or because another leg could not be had."""


class Transport(enum.StrEnum):
    """How a site was reached. Callers cannot tell the difference otherwise."""

    GRPC = "grpc"
    SSH = "ssh"
    INPROC = "inproc"


class InputWay(enum.StrEnum):
    """Who moves what a stage of a pipeline takes over from the one before."""

    SITES = "sites"
    """The site of the stage, from the other site, without the laptop."""
    LAPTOP = "laptop"
    """The laptop, while it follows the trip: the other site cannot be asked by anybody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One site's part of a trip."""

    name: str
    """Unique within the trip: the machine, or the stage of a pipeline."""
    machine: str
    """The metajob's name for where it is."""
    site: str
    nodes: int
    interval: Interval
    transport: Transport
    price_millicredits: int = 0
    price_holds_until: Instant | None = None
    """While it is only planned: first second, on the site's clock, at which the site no longer
    keeps to the price; ``None``: it has not said that it keeps to it.
    """
    state: LegState = LegState.PLANNED
    reservation_id: str | None = None
    """As the site named it; ``None`` while only planned."""
    job_id: str | None = None
    """The job bound to the reservation; ``None`` before it is submitted, or when the trip runs
    nothing."""
    contact: str = ""
    """``host:port`` where the leg's first node can be reached by the other legs; empty: none."""
    zone: str = ""
    """IANA name of the zone where the site stands, for showing its local time; empty: not known."""

    input_by: InputWay | None = None
    """Of a later stage of a pipeline; ``None``: it has no stage before it."""

    def __post_init__(self) -> None:
        check_id("leg name", self.name)
        check_id("machine", self.machine)
        check_id("site", self.site)
        if self.nodes < 1:
            raise InputError(f"leg {self.name} has {self.nodes} nodes", hint="at least 1")
        if self.price_millicredits < 0:
            raise InputError(f"leg {self.name} has a negative price: {self.price_millicredits}")
        if self.reservation_id is None and self.state in (LegState.HELD, LegState.BOOKED):
            raise InputError(f"leg {self.name} is {self.state} without a reservation")

    @property
    def start(self) -> Instant:
        """First second of the leg."""
        return self.interval.start

    @property
    def end(self) -> Instant:
        """First second after the leg."""
        return self.interval.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Itinerary:
    """A trip as its user sees it."""

    trip_id: str
    name: str
    state: TripState
    legs: tuple[Leg, ...] = ()
    """In the metajob's order of machines or stages; empty when declined."""
    decline: Decline | None = None
    """Only with DECLINED, and always then."""
    kept_by: tuple[str, ...] = ()
    """Sites that keep the trip's outcome, or would; empty: its only site, or the laptop's log."""

    def __post_init__(self) -> None:
        check_id("trip id", self.trip_id)
        if len({leg.name for leg in self.legs}) < len(self.legs):
            raise InputError(f"trip {self.trip_id} has two legs of the same name")
        if (self.decline is not None) != (self.state is TripState.DECLINED):
            raise InputError(
                f"trip {self.trip_id} is {self.state}",
                hint="a refusal belongs to the state DECLINED, and to no other",
            )
        if not self.legs and self.state in (TripState.HELD, TripState.BOOKED, TripState.RUNNING):
            raise InputError(f"trip {self.trip_id} is {self.state} without legs")

    @property
    def start(self) -> Instant | None:
        """First second of the first leg; ``None`` without legs."""
        return min((leg.start for leg in self.legs), default=None)

    @property
    def end(self) -> Instant | None:
        """First second after the last leg; ``None`` without legs."""
        return max((leg.end for leg in self.legs), default=None)

    @property
    def price_millicredits(self) -> int:
        """What all legs cost together."""
        return sum(leg.price_millicredits for leg in self.legs)

    @property
    def price(self) -> int:
        """``price_millicredits`` under the name that ``--json`` gives it."""
        return self.price_millicredits

    @property
    def nodes(self) -> int:
        """Nodes of all legs together."""
        return sum(leg.nodes for leg in self.legs)

    def leg(self, name: str) -> Leg | None:
        """The leg called ``name``; ``None`` when there is none."""
        return next((leg for leg in self.legs if leg.name == name), None)

    def moved_to(self, state: TripState) -> Itinerary:
        """The trip in ``state``; the same state again changes nothing; ``ConflictError`` when not
        allowed.

        DECLINED needs its reason: see ``declined``.
        """
        if state is self.state:
            return self
        if state not in TRANSITIONS[self.state]:
            raise ConflictError(
                f"trip {self.trip_id} is {self.state} and cannot become {state}",
                hint=f"see where it stands: gur status {self.trip_id}",
            )
        return replace(self, state=state)

    def declined(self, decline: Decline) -> Itinerary:
        """The trip as refused: no legs, and the reason with what would work instead."""
        if TripState.DECLINED not in TRANSITIONS[self.state]:
            raise ConflictError(
                f"trip {self.trip_id} is {self.state} and cannot be declined",
                hint=f"see where it stands: gur status {self.trip_id}",
            )
        return replace(self, state=TripState.DECLINED, legs=(), decline=decline)

    def with_leg(self, leg: Leg) -> Itinerary:
        """The trip with ``leg`` in place of the one of the same name, or added at the end."""
        if self.leg(leg.name) is None:
            return replace(self, legs=(*self.legs, leg))
        return replace(self, legs=tuple(leg if old.name == leg.name else old for old in self.legs))

"""Parties with one safeguard removed each, to show that the checkers of simulated worlds see the
damage. Nothing of the product has a switch for this: these are subclasses, in tests only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gridtravel.agents.cashier import Cashier
from gridtravel.agents.journal.events import AgentEvent
from gridtravel.agents.node_agent import NodeAgent
from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationRequest
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.itineraries import Leg
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.planning import Plan
from gridtravel.gridio.journal.contract import Ticket
from gridtravel.gridio.sites.trip_participation import TripParticipant
from gridtravel.simulator.checks.checkers import PAID, RESOLVED
from gridtravel.simulator.checks.site_ledger import ACKNOWLEDGED, BURIED, TWICE
from gridtravel.simulator.checks.trip_checkers import ATOMIC, LOGGED
from gridtravel.simulator.grid.exhaustive import LAPTOP, one_trip, points_of
from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.simulated_site import SimulatedSite
from gridtravel.simulator.grid.world import PlannedCrash, WorldPlan, WorldTypes, live
from gridtravel.simulator.kernel.network import NetworkConditions
from gridtravel.simulator.kernel.processes import PointKind
from gridtravel.travel_agent import trip_context as trip_context_module
from gridtravel.travel_agent.booking.holds import LegHolds
from gridtravel.travel_agent.log.events import TripDecided
from gridtravel.travel_agent.log.trip_log import JournaledTripLog

WORLDS_MAX = 60
"""Within so many worlds the damage must show."""


def random_worlds() -> Iterator[WorldPlan]:
    """Small ones with all kinds of faults."""
    for seed in range(1, WORLDS_MAX + 1):
        yield random_plan(seed, sites_most=6, loss=0.3)


def late_worlds() -> Iterator[WorldPlan]:
    """One trip, whose messages are often later than anybody waits."""
    conditions = NetworkConditions(late=0.4, late_most_s=60.0)
    for seed in range(1, WORLDS_MAX + 1):
        yield replace(one_trip(seed), conditions=conditions, storm_s=120.0)


def lost_laptops() -> Iterator[WorldPlan]:
    """One trip, whose laptop is lost for good at one message after the other."""
    whole = live(one_trip())
    for point in points_of(whole, (PointKind.SENT, PointKind.RECEIVED)):
        if point.party == LAPTOP:
            yield one_trip(crashes=(PlannedCrash(at=point, back_after_s=None),))


@dataclass(frozen=True)
class Ablation:
    """A safeguard that is gone, and how to take it away."""

    name: str
    rules: tuple[str, ...]
    """What the checkers must find broken: one of these."""
    types: WorldTypes = field(default_factory=WorldTypes)
    patches: Mapping[tuple[Any, str], Any] = field(default_factory=dict)
    """(class or module, attribute) -> what stands there instead."""
    worlds: Callable[[], Iterator[WorldPlan]] = random_worlds

    def take_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Until the end of the test."""
        for (owner, attribute), weaker in self.patches.items():
            monkeypatch.setattr(owner, attribute, weaker)


def _site_with(**classes: Any) -> WorldTypes:
    return WorldTypes(site=type("WeakSite", (SimulatedSite,), classes))


class NoTombstones(Calendar):
    """A release of what was never seen is forgotten at once."""

    def decide_release_request(
        self, request_id: str, by: str, now: Instant
    ) -> tuple[CalendarEvent, ...]:
        """Bury nothing."""
        known = self.find_request(by, request_id)
        return self.decide_release(known.reservation_id, by, now) if known is not None else ()


class EndlessHolds(Calendar):
    """Holds live for ever."""

    def due_holds(self, now: Instant) -> list[Reservation]:
        """None."""
        return []

    def next_expiry(self, *, passing_over: Any = ()) -> Instant | None:
        """Never."""
        return None


class Forgetful(Calendar):
    """The same request again is a new one."""

    def _known_request(
        self, request: ReservationRequest, owner: str, amended_id: str | None = None
    ) -> Reservation | Decline | None:
        return None

    def _check_new(self, reservation: Reservation) -> None:
        return

    def _note_request(self, reservation: Reservation) -> None:
        key = f"{reservation.request.request_id}#{reservation.reservation_id}"
        self._by_request[reservation.owner, key] = (reservation.reservation_id, reservation.request)
        self._requests.setdefault(reservation.reservation_id, []).append(key)

    def validate(self) -> None:
        """Its keys are its own."""


class HastyAgent(NodeAgent):
    """Answers before the disk has it."""

    def record(self, events: Sequence[AgentEvent], *, manifest: Manifest = NO_CONTACTS) -> Ticket:
        """A ticket that is good at once."""
        ticket = super().record(events, manifest=manifest)
        return _GoodAtOnce(ticket.sequence)


@dataclass
class _GoodAtOnce:
    sequence: int

    async def durable(self) -> None:
        """Believe it."""


async def _release_nothing(self: LegHolds, leg: Leg) -> None:
    """In place of ``LegHolds.release_leg``."""


async def _let_nothing_go(
    self: LegHolds, plan: Plan, held: Mapping[str, Reservation], attempt: int
) -> None:
    """In place of ``LegHolds.let_go``."""


_write = JournaledTripLog.write


async def _write_all_but_the_decision(self: JournaledTripLog, event: Any) -> None:
    """In place of ``JournaledTripLog.write``."""
    if not isinstance(event, TripDecided):
        await _write(self, event)


def _asks_nobody(self: TripParticipant, hold: Reservation) -> bool:
    """In place of ``TripParticipant.must_ask``: every hold expires by itself."""
    return False


ABLATIONS = [
    Ablation(
        "undo",
        rules=(LOGGED,),
        patches={
            (LegHolds, "release_leg"): _release_nothing,
            (LegHolds, "let_go"): _let_nothing_go,
        },
    ),
    Ablation(
        "tombstones",
        rules=(BURIED,),
        types=_site_with(calendar_type=NoTombstones),
        worlds=late_worlds,
    ),
    Ablation("hold expiry", rules=(RESOLVED,), types=_site_with(calendar_type=EndlessHolds)),
    Ablation(
        "decision record",
        rules=(LOGGED, ATOMIC),
        patches={(JournaledTripLog, "write"): _write_all_but_the_decision},
    ),
    Ablation("idempotency", rules=(TWICE,), types=_site_with(calendar_type=Forgetful)),
    Ablation(
        "asking the acceptors",
        rules=(ATOMIC,),
        patches={(TripParticipant, "must_ask"): _asks_nobody},
        worlds=lost_laptops,
    ),
    Ablation(
        "acceptors",
        rules=(ATOMIC,),
        patches={(trip_context_module, "acceptors_of"): lambda destinations, keepers: ()},
        worlds=lost_laptops,
    ),
    Ablation("durable before told", rules=(ACKNOWLEDGED,), types=_site_with(agent_type=HastyAgent)),
    Ablation(
        "settling after a restart",
        rules=(PAID,),
        patches={(Cashier, "begin"): lambda self, entries, active_jobs, now: None},
    ),
]

"""Changes of trips with one safeguard removed each; see ``tests.support.sim_ablations``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gridtravel.gridcore.booking.reservations import Decline, Reservation
from gridtravel.gridcore.trips.machines import MachineRequest
from gridtravel.gridio.sites.trip_participation import TripParticipant
from gridtravel.simulator.checks.trip_checkers import ATOMIC, LOGGED
from gridtravel.simulator.grid.exhaustive import LAPTOP, SITES, one_trip, points_of
from gridtravel.simulator.grid.world import PlannedCrash, WorldPlan, live
from gridtravel.simulator.kernel.processes import PointKind
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from gridtravel.travel_agent import trip_context as trip_context_module
from gridtravel.travel_agent.booking.amend import TripChange
from gridtravel.travel_agent.booking.amendment import TripAmendment
from gridtravel.travel_agent.booking.holds import LegHolds
from gridtravel.travel_agent.search.sweep import Search
from gridtravel.travel_agent.trip_context import TripContext
from tests.support.sim_ablations import Ablation

CHANGE = TripChange(earliest_start=WORLD_BEGIN + 660, duration_s=90)
"""Later and shorter; old and new overlap."""
CHANGE_AFTER_S = 2.0
_METAJOB = one_trip().laptops[0].wishes[0].metajob
WITHOUT_SOUTH = TripChange(
    metajob=replace(
        _METAJOB,
        machines=tuple(
            MachineRequest(machine=name, nodes_min=3, nodes_max=3) for name in SITES[:2]
        ),
    )
)
"""The trip goes on at two of its three sites."""


def one_changed_trip(
    change: TripChange = CHANGE, *, crashes: tuple[PlannedCrash, ...] = ()
) -> WorldPlan:
    """The world of ``one_trip``, whose user changes the trip as soon as it is booked."""
    plan = one_trip(crashes=crashes)
    (laptop,) = plan.laptops
    (wish,) = laptop.wishes
    changed = replace(wish, change=change, amend_after_s=CHANGE_AFTER_S)
    return replace(plan, laptops=(replace(laptop, wishes=(changed,)),))


def lost_in_a_change(change: TripChange) -> Iterator[WorldPlan]:
    """One trip that is changed, whose laptop is lost for good at one message after the other."""
    whole = live(one_changed_trip(change))
    for point in points_of(whole, (PointKind.SENT, PointKind.RECEIVED)):
        if point.party == LAPTOP:
            yield one_changed_trip(change, crashes=(PlannedCrash(at=point, back_after_s=None),))


_hold = TripAmendment._hold


async def _break_before_make(
    self: TripAmendment, search: Search, holds: LegHolds, trip: TripContext, may_leave_keepers: bool
) -> Decline | None:
    """In place of ``TripAmendment._hold``: what is booked is released first."""
    await self._release(self._log.story.legs, trip)
    return await _hold(self, search, holds, trip, may_leave_keepers)


def _asks_about_no_change(self: TripParticipant, hold: Reservation) -> bool:
    """In place of ``TripParticipant.must_ask``: the hold of a change expires by itself."""
    trip = hold.request.trip
    return trip is not None and bool(trip.acceptors) and hold.request.replaces is None


def _calls_nothing_off(self: TripParticipant, old: Reservation, new: Reservation) -> None:
    """In place of ``TripParticipant.note_moved``: only the leg itself is looked after."""
    self.note_committed(new)


CHANGE_ABLATIONS = [
    Ablation(
        "make before break",
        rules=(LOGGED,),
        patches={(TripAmendment, "_hold"): _break_before_make},
        worlds=lambda: iter([one_changed_trip()]),
    ),
    Ablation(
        "asking about a change",
        rules=(ATOMIC,),
        patches={(TripParticipant, "must_ask"): _asks_about_no_change},
        worlds=lambda: lost_in_a_change(CHANGE),
    ),
    Ablation(
        "acceptors of a change",
        rules=(ATOMIC,),
        patches={(trip_context_module, "acceptors_of"): lambda destinations, keepers: ()},
        worlds=lambda: lost_in_a_change(CHANGE),
    ),
    Ablation(
        "calling off what was left behind",
        rules=(ATOMIC,),
        patches={(TripParticipant, "note_moved"): _calls_nothing_off},
        worlds=lambda: lost_in_a_change(WITHOUT_SOUTH),
    ),
]

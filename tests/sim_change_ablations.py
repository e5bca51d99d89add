"""Changes of trips with one safeguard removed each; see ``tests.sim_ablations``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agents.trip_keeper import TripKeeper
from gridcore.machines import MachineRequest
from gridcore.planning import Plan
from gridcore.reservations import Decline, Reservation
from simulator.exhaustive import CHANGE, LAPTOP, SITES, one_trip, points_of
from simulator.lives import PointKind
from simulator.random_worlds import random_plan
from simulator.trip_checkers import ATOMIC, LOGGED
from simulator.worlds import PlannedCrash, WorldPlan, live
from tests.sim_ablations import Ablation
from travel_agent import trip_parts as trip_parts_module
from travel_agent.amending import Amending
from travel_agent.changing import TripChange
from travel_agent.holding import LegHolds
from travel_agent.searching import Search
from travel_agent.trip_parts import TripParts

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
LEFT_ALONE_SEED = 6242
"""A world in which a pipeline moved away from the only site that kept its outcome, which was dead
meanwhile, came back, and ran the old stages beside the new.
"""


def lost_in_a_change(change: TripChange) -> Iterator[WorldPlan]:
    """One trip that is changed, whose laptop is lost for good at one message after the other."""
    whole = live(one_trip(change=change))
    for point in points_of(whole, (PointKind.SENT, PointKind.RECEIVED)):
        if point.party == LAPTOP:
            yield one_trip(change=change, crashes=(PlannedCrash(at=point, back_after_s=None),))


_hold = Amending._hold


async def _break_before_make(
    self: Amending, search: Search, holds: LegHolds, parts: TripParts, may_leave_keepers: bool
) -> Decline | None:
    """In place of ``Amending._hold``: what is booked is released first."""
    await self._release(self._log.story.legs, parts)
    return await _hold(self, search, holds, parts, may_leave_keepers)


def _asks_about_no_change(self: TripKeeper, hold: Reservation) -> bool:
    """In place of ``TripKeeper.must_ask``: the hold of a change expires by itself."""
    trip = hold.request.trip
    return trip is not None and bool(trip.acceptors) and hold.request.replaces is None


def _calls_nothing_off(self: TripKeeper, old: Reservation, new: Reservation) -> None:
    """In place of ``TripKeeper.note_moved``: only the leg itself is looked after."""
    self.note_committed(new)


def _leaves_whomever(self: Amending, plan: Plan, parts: TripParts) -> Decline | None:
    """In place of ``Amending._leaves_keepers``: a change may leave every site of the trip."""
    return None


CHANGE_ABLATIONS = [
    Ablation(
        "staying with those who keep the outcome",
        rules=(ATOMIC,),
        patches={(Amending, "_leaves_keepers"): _leaves_whomever},
        worlds=lambda: iter([random_plan(LEFT_ALONE_SEED, sites_most=20, loss=0.5)]),
    ),
    Ablation(
        "make before break",
        rules=(LOGGED,),
        patches={(Amending, "_hold"): _break_before_make},
        worlds=lambda: iter([one_trip(change=CHANGE)]),
    ),
    Ablation(
        "asking about a change",
        rules=(ATOMIC,),
        patches={(TripKeeper, "must_ask"): _asks_about_no_change},
        worlds=lambda: lost_in_a_change(CHANGE),
    ),
    Ablation(
        "acceptors of a change",
        rules=(ATOMIC,),
        patches={(trip_parts_module, "acceptors_of"): lambda destinations: ()},
        worlds=lambda: lost_in_a_change(CHANGE),
    ),
    Ablation(
        "calling off what was left behind",
        rules=(ATOMIC,),
        patches={(TripKeeper, "note_moved"): _calls_nothing_off},
        worlds=lambda: lost_in_a_change(WITHOUT_SOUTH),
    ),
]

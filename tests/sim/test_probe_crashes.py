"""The paper's search in simulated grids: killed wherever it may be, it leaves no test reservation.

The sites are loaded so that the window slides and nodes shift; the checkers of the simulated world
look at every book once it is quiet (``simulator.checks.checkers``).
"""

from __future__ import annotations

from dataclasses import replace

from gridtravel.gridcore.booking.calendar_events import ReservationGranted
from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridcore.jobs.tasks import TaskSpec
from gridtravel.gridcore.trips.machines import MachineRequest
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern
from gridtravel.simulator.cli.torture import story_of
from gridtravel.simulator.grid.exhaustive import LAPTOP, LATER_S, SITES
from gridtravel.simulator.grid.simulated_laptop import LaptopPlan, TripWish
from gridtravel.simulator.grid.simulated_site import SitePlan
from gridtravel.simulator.grid.world import LocalWish, PlannedCrash, WorldPlan, WorldRecord, live
from gridtravel.simulator.kernel.network import NetworkConditions
from gridtravel.simulator.kernel.processes import CrashPoint, PointKind
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from gridtravel.travel_agent.choices import SearchChoice


def probing_world(*crashes: PlannedCrash, seed: int = 1) -> WorldPlan:
    """A trip of six nodes over three sites, whose own users have the first room."""
    metajob = Metajob(
        name="slide",
        usage_pattern=UsagePattern.MULTIPLE,
        nodes_total=6,
        machines=tuple(MachineRequest(machine=name, nodes_min=1, nodes_max=3) for name in SITES),
        duration_s=120,
        earliest_start=WORLD_BEGIN + 600,
        latest_end=WORLD_BEGIN + 3600,
        task=TaskSpec(command=("run",)),
    )
    busy = [
        LocalWish(
            site=name,
            name=f"own-{name}-{part}",
            at_s=0.2,
            nodes=nodes,
            limit_s=length_s,
            is_reservation=True,
            ahead_s=ahead_s,
        )
        for name, *parts in (
            (SITES[0], (4, 500, 300), (2, 900, 200)),
            (SITES[1], (3, 500, 250), (4, 780, 200)),
            (SITES[2], (4, 590, 100), (1, 700, 900)),
        )
        for part, (nodes, ahead_s, length_s) in enumerate(parts)
    ]
    laptop = LaptopPlan(
        name=LAPTOP,
        wishes=(TripWish(at_s=2.0, metajob=metajob),),
        search=SearchChoice.PROBE,
    )
    return WorldPlan(
        seed=seed,
        sites=tuple(SitePlan(name=name) for name in SITES),
        laptops=(laptop,),
        local_wishes=tuple(busy),
        crashes=crashes,
        storm_s=30.0,
    )


def clean(plan: WorldPlan) -> WorldRecord:
    """Live a world in which every promise must be kept."""
    record = live(plan)
    broken = [str(each) for each in record.event_log.violations]
    assert record.is_clean, "\n".join([*broken, *story_of(record)])
    return record


def test_it_slides_without_inquiring_and_books() -> None:
    """The world is worth crashing in: several rounds of test reservations, and the trip is booked
    with nothing but set and cancel.
    """
    record = clean(probing_world())
    assert list(record.outcomes.values()) == ["BOOKED"]
    messages = record.event_log.messages
    assert messages["Inquire"] == 0
    assert messages["Reserve"] >= 3 + 2 * 3 + 3
    assert messages["Release"] >= messages["Reserve"] - 3


def test_killed_at_any_await_it_leaves_no_test_reservation() -> None:
    """At every await, message and write of the laptop: it never comes back, or resumes after the
    holds' lifetimes. Once quiet no book has a hold, and the trip is whole or absent.
    """
    seen: dict[str, int] = {}
    whole = live(probing_world())
    counts = whole.counts_of[LAPTOP]
    for kind in PointKind:
        for number in range(1, counts[kind] + 1):
            point = CrashPoint(party=LAPTOP, kind=kind, number=number)
            back_after_s = None if number % 2 else LATER_S
            crash = PlannedCrash(at=point, back_after_s=back_after_s)
            record = clean(probing_world(crash))
            for outcome in record.outcomes.values() or ["ABSENT"]:
                seen[outcome] = seen.get(outcome, 0) + 1
    assert set(seen) == {"BOOKED", "ABSENT"}


def test_bad_weather_leaves_none_either(sim_seed: int) -> None:
    """Questions and answers are lost, doubled and late while it probes."""
    conditions = NetworkConditions(loss=0.15, double=0.1, late=0.05, notice=0.5)
    for seed in range(sim_seed * 100, sim_seed * 100 + 12):
        clean(replace(probing_world(seed=seed), conditions=conditions))


def test_the_checkers_see_a_hold_that_is_left() -> None:
    """The tests above can fail: while the search is under way there are test reservations in the
    books, in the state that the checkers look for.
    """
    record = live(probing_world())
    held = [
        event.reservation.request.request_id
        for line in record.event_log.lines
        for event in line.parts
        if isinstance(event, ReservationGranted)
        and event.reservation.state is ReservationState.HELD
    ]
    assert sum(".test-" in each for each in held) >= 3 + 2 * 3

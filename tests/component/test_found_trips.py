"""The checkers of races, groups, inputs and absences find damage in the journals of real daemons,
and find nothing where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.agents.journal.events import (
    CODEC,
    InputArrived,
    JobAccepted,
    JobOver,
    JobRunning,
    LegRuns,
)
from gridtravel.gridcore.booking.calendar_events import ReservationChanged, ReservationGranted
from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Begin,
    Reservation,
    ReservationEvent,
    ReservationState,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec, JobState
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.journal.contract import Record
from gridtravel.manager.book.events import GroupCommitted, GroupEnded, GroupHeld, Part
from gridtravel.manager.core import CODEC as MANAGER_CODEC
from gridtravel.simulator.checks.begin_checkers import TOGETHER
from gridtravel.simulator.checks.group_checkers import GROUPED, check_groups
from gridtravel.simulator.checks.race_checkers import ENDED, ONE_RUNS, outcomes_of_races
from gridtravel.simulator.checks.site_ledger import TWICE
from gridtravel.simulator.checks.trip_checkers import ATOMIC, check_trips
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from gridtravel.simulator.processes.autopsy import FED, check_programs
from gridtravel.simulator.processes.crash_trips import NO_INPUT
from gridtravel.simulator.processes.found_books import FoundWorld
from gridtravel.simulator.processes.laptops import LiveLaptop
from gridtravel.simulator.processes.live_grid import Absence
from gridtravel.travel_agent.log.events import RaceOpened, TripBooked, TripOpened
from gridtravel.travel_agent.log.trip_log import CODEC as TRIP_CODEC
from tests.support.builders import a_request

TRIP = "trip-01234567890123456789012345"
BEGIN = WORLD_BEGIN + 100
"""Start of every leg."""
LENGTH_S = 12
COMMIT, COMPLETE = ReservationEvent.COMMIT, ReservationEvent.COMPLETE
RELEASE = ReservationEvent.RELEASE
INPUT = InputFile(path="large.dat", size_bytes=4, sha256="0" * 64)


def a_leg(leg: str, site: str, *, sites: Sequence[str], held_by: str = "") -> Reservation:
    """A hold of a leg at a site, or of a part of it at ``held_by``."""
    trip = TripRef(
        trip_id=TRIP,
        leg=leg,
        participants=tuple(sites),
        acceptors=(Acceptor(site=sites[-1], endpoint="127.0.0.1:1"),),
        legs=tuple(TripLeg(leg=each, site=each, start=BEGIN) for each in sites),
        ends_at=BEGIN + LENGTH_S,
        begin=Begin.TOGETHER,
    )
    place = held_by or site
    request = a_request(f"{place}.{leg}", start=BEGIN, duration_s=LENGTH_S, nodes=1)
    return Reservation(
        reservation_id=f"{place}.1",
        site=place,
        owner="ada",
        request=replace(request, trip=trip),
        resource_class="node",
        nodes=1,
        state=ReservationState.HELD,
        interval=Interval(BEGIN, BEGIN + LENGTH_S),
        created_at=WORLD_BEGIN,
        hold_expires_at=WORLD_BEGIN + 3,
    )


def changes(
    leg: Reservation, *events: ReservationEvent, runs: bool = True, at: int = BEGIN - 9
) -> list[Record]:
    """A site's journal of it: held, what became of it, and that it runs."""
    trip = leg.request.trip
    assert trip is not None
    records = [CODEC.encode(ReservationGranted(reservation=leg), at=WORLD_BEGIN)]
    for number, event in enumerate(events):
        change = ReservationChanged(
            reservation_id=leg.reservation_id, event=event, at=WORLD_BEGIN + number
        )
        second = BEGIN + 26 if number else WORLD_BEGIN + 1
        records.append(CODEC.encode(change, at=second))
        if not number and runs:
            begun = LegRuns(reservation_id=leg.reservation_id, instance=trip.instance)
            records.append(CODEC.encode(begun, at=at))
    return records


def a_world(*absences: tuple[str, float, float]) -> FoundWorld:
    """Nobody was dead but these: site, and between which seconds of the world."""
    found: dict[str, list[Absence]] = {}
    for site, from_s, until_s in absences:
        span = Absence(WORLD_BEGIN + from_s, WORLD_BEGIN + until_s)
        found.setdefault(site, []).append(span)
    return FoundWorld({}, WORLD_BEGIN + 1000.0, found)


def rules(world: FoundWorld) -> set[str]:
    """What was found to be broken."""
    return {each.rule for each in world.event_log.violations}


def a_group(world: FoundWorld, *, beta: tuple[ReservationEvent, ...], runs: bool = True) -> None:
    """``north`` over two sites, and ``gamma`` beside it; what ``beta`` did with its part."""
    sites = ("north", "gamma")
    parts = {
        child: a_leg("north", "north", sites=sites, held_by=child) for child in ("alpha", "beta")
    }
    world.add_site("alpha", 4, changes(parts["alpha"], COMMIT, COMPLETE))
    world.add_site("beta", 4, changes(parts["beta"], *beta, runs=runs))
    world.add_site("gamma", 4, changes(a_leg("gamma", "gamma", sites=sites), COMMIT, COMPLETE))
    group = a_leg("north", "north", sites=sites)
    asked = tuple(
        Part(child=child, request_id=f"r.{child}", nodes=1, reservation_id=f"{child}.1")
        for child in parts
    )
    manager = world.add_manager(
        "north",
        8,
        [
            MANAGER_CODEC.encode(GroupHeld(reservation=group, parts=asked), at=WORLD_BEGIN),
            MANAGER_CODEC.encode(GroupCommitted(group_id="north.1", at=0), at=WORLD_BEGIN + 2),
            MANAGER_CODEC.encode(
                GroupEnded(group_id="north.1", event=COMPLETE, at=0), at=BEGIN + LENGTH_S
            ),
        ],
    )
    check_trips(world, is_final=True)
    check_groups(world, "north", manager.ledger)


def test_a_whole_group_is_a_whole_leg() -> None:
    """Its parts stand for nothing by themselves, and the trip is whole and began together."""
    world = a_world()
    a_group(world, beta=(COMMIT, COMPLETE))
    assert rules(world) == set()
    assert world.event_log.counts["begun together"] == 1


def test_a_part_that_was_let_go_is_found() -> None:
    """The manager keeps its group, and one of its sites does not."""
    world = a_world()
    a_group(world, beta=(RELEASE,), runs=False)
    assert GROUPED in rules(world)


def test_a_part_that_does_not_begin_is_found() -> None:
    """Committed to its end, and its site never stored that it runs, though nobody was away."""
    world = a_world()
    a_group(world, beta=(COMMIT, COMPLETE), runs=False)
    assert rules(world) == {TOGETHER}


def test_a_part_of_no_group_is_found() -> None:
    """What a manager asked for and never held is kept by nobody."""
    world = a_world()
    part = a_leg("north", "north", sites=("north", "gamma"), held_by="alpha")
    world.add_site("alpha", 4, changes(part, COMMIT, COMPLETE, runs=False))
    check_groups(world, "north", world.add_manager("north", 4, []).ledger)
    assert rules(world) == {GROUPED}


def co_start(
    world: FoundWorld,
    *,
    arrives: int | None = WORLD_BEGIN + 20,
    alpha_runs: bool = True,
    beta_runs: bool = True,
    beta_end: ReservationEvent = COMPLETE,
    alpha_end: ReservationEvent = COMPLETE,
    exit_code: int = 0,
) -> None:
    """Two legs of one start. The one at ``alpha`` waits for a file, which ``arrives`` then."""
    sites = ("alpha", "beta")
    leg = a_leg("alpha", "alpha", sites=sites)
    spec = JobSpec(
        request_id="job-1",
        name="job",
        account="ada",
        nodes=1,
        limit_s=LENGTH_S,
        argv=("true",),
        reservation_id=leg.reservation_id,
        inputs=(INPUT,),
    )
    accepted = JobAccepted(
        job_id="1.alpha", owner="ada", spec=spec, at=WORLD_BEGIN, came_with_hold=True
    )
    over = JobOver(
        job_id="1.alpha",
        at=BEGIN + 5,
        state=JobState.COMPLETED if exit_code == 0 else JobState.FAILED,
        exit_code=exit_code,
        reason="",
    )
    records = changes(leg, COMMIT, alpha_end, runs=alpha_runs)
    records.insert(2, CODEC.encode(accepted, at=WORLD_BEGIN + 2))
    if arrives is not None:
        came = InputArrived(reservation_id="alpha.1", path=INPUT.path, sha256=INPUT.sha256)
        records.insert(3, CODEC.encode(came, at=arrives))
    records.append(CODEC.encode(over, at=BEGIN + 27))
    world.add_site("alpha", 4, records)
    beta = a_leg("beta", "beta", sites=sites)
    world.add_site("beta", 4, changes(beta, COMMIT, beta_end, runs=beta_runs))
    check_trips(world, is_final=True)


def test_a_leg_that_does_not_begin_alone_is_found() -> None:
    """Where it is known who was dead, nobody is forgiven who was not."""
    world = a_world()
    co_start(world, beta_runs=False)
    assert rules(world) == {TOGETHER}


def test_a_site_that_was_dead_all_the_time_is_forgiven() -> None:
    """From before the question whether it runs until nobody may begin any more; not for less."""
    for until_s, found in ((130.0, set[str]()), (95.0, {TOGETHER})):
        world = a_world(("beta", 85.0, until_s))
        co_start(world, beta_runs=False)
        assert rules(world) == found


def test_nobody_begins_when_a_file_had_not_come() -> None:
    """All legs are let go: as it should be, where the file had not come by the start."""
    world = a_world()
    neither = {"alpha_runs": False, "beta_runs": False}
    co_start(world, arrives=None, alpha_end=RELEASE, beta_end=RELEASE, **neither)
    assert rules(world) == set()
    assert world.event_log.counts["did not begin, none: a leg was not ready"] == 1


def test_legs_that_were_ready_and_do_not_begin_are_found() -> None:
    """The file was there in time, and nobody was away."""
    world = a_world()
    neither = {"alpha_runs": False, "beta_runs": False}
    co_start(world, alpha_end=RELEASE, beta_end=RELEASE, **neither)
    assert rules(world) == {TOGETHER}


def test_one_that_begins_beside_one_without_its_file_is_found() -> None:
    """That a file had not come is no reason once anybody begins."""
    world = a_world()
    co_start(world, arrives=None, alpha_runs=False, alpha_end=RELEASE)
    assert TOGETHER in rules(world)


def test_a_torn_trip_is_found() -> None:
    """One leg was released long before its start, and the other kept."""
    world = a_world()
    sites = ("alpha", "beta")
    world.add_site("alpha", 4, changes(a_leg("alpha", "alpha", sites=sites), RELEASE))
    world.add_site("beta", 4, changes(a_leg("beta", "beta", sites=sites), COMMIT, COMPLETE))
    check_trips(world, is_final=True)
    assert ATOMIC in rules(world)


@pytest.mark.parametrize(
    ("exit_code", "has_begun", "found"),
    [(0, True, set[str]()), (0, False, {TOGETHER}), (NO_INPUT, True, {FED})],
)
def test_programs_begin_where_it_was_settled_and_with_their_input(
    tmp_path: Path, exit_code: int, has_begun: bool, found: set[str]
) -> None:
    """By the programs' own word: one that never began, and one that missed its file."""
    world = a_world()
    co_start(world, exit_code=exit_code)
    (tmp_path / "races").mkdir()
    if has_begun:
        (tmp_path / f"{TRIP}.alpha").write_text(f"{BEGIN + 1}\n")
    check_programs(world, tmp_path, tmp_path / "races")
    assert rules(world) == found


def race_world(
    folder: Path,
    *,
    ran: Sequence[str],
    over: Sequence[str] = ("alpha", "beta"),
    booked: bool = True,
) -> FoundWorld:
    """A race of two copies that ran at these sites."""
    laptop = LiveLaptop("laptop-0", folder, trip_id=TRIP)
    acceptors = (Acceptor(site="alpha", endpoint="127.0.0.1:1"),)
    copies = ("alpha", "beta")
    told = [
        TripOpened(trip_id=TRIP, name="race", metajob_json=""),
        RaceOpened(copies=copies, acceptors=acceptors, ends_at=BEGIN + 60, sites=copies),
        *([TripBooked(legs=())] if booked else []),
    ]
    laptop._kept = [TRIP_CODEC.encode(event, at=BEGIN) for event in told]
    world = FoundWorld({"laptop-0": laptop}, WORLD_BEGIN + 1000.0, {})
    for site in copies:
        race = Race(trip_id=TRIP, copy=site, copies=copies, acceptors=acceptors, ends_at=BEGIN + 60)
        spec = JobSpec(
            request_id=f"{TRIP}.{site}",
            name="race",
            account="ada",
            nodes=1,
            limit_s=LENGTH_S,
            argv=("true",),
            race=race,
        )
        job_id = f"1.{site}"
        accepted = JobAccepted(job_id=job_id, owner="ada", spec=spec, at=BEGIN)
        records = [CODEC.encode(accepted, at=BEGIN)]
        if site in ran:
            running = JobRunning(job_id=job_id, started_precise=BEGIN + 1.0)
            records.append(CODEC.encode(running, at=BEGIN + 1))
        if site in over:
            ended = JobOver(
                job_id=job_id, at=BEGIN + 2, state=JobState.COMPLETED, exit_code=0, reason=""
            )
            records.append(CODEC.encode(ended, at=BEGIN + 2))
        world.add_site(site, 4, records)
    return world


@pytest.mark.parametrize(
    ("ran", "over", "booked", "found"),
    [
        (["alpha"], ["alpha", "beta"], True, set[str]()),
        (["alpha", "beta"], ["alpha", "beta"], True, {TWICE}),
        ([], ["alpha", "beta"], True, {ONE_RUNS}),
        ([], ["alpha", "beta"], False, set[str]()),
        (["beta"], ["alpha", "beta"], False, {ONE_RUNS}),
        (["alpha"], ["alpha"], True, {ENDED}),
    ],
    ids=["one", "two", "none", "called off", "called off and ran", "left"],
)
def test_exactly_one_copy_of_a_race_ran(
    tmp_path: Path, ran: list[str], over: list[str], booked: bool, found: set[str]
) -> None:
    """Two copies, none of a race that was booked, one of a race that was not, and one left over."""
    world = race_world(tmp_path, ran=ran, over=over, booked=booked)
    outcomes_of_races(world)
    assert rules(world) == found


def test_programs_of_a_race_are_counted(tmp_path: Path) -> None:
    """Whatever the journals say."""
    world = race_world(tmp_path, ran=["alpha"])
    races = tmp_path / "races"
    races.mkdir()
    for site in ("alpha", "beta"):
        (races / f"laptop-0.{site}").write_text(f"{BEGIN + 1}\n")
    check_programs(world, tmp_path, races)
    assert rules(world) == {TWICE}


def test_a_race_that_is_lost_with_its_laptop_may_run_or_not(tmp_path: Path) -> None:
    """Nobody was told anything, so that either is right."""
    for ran in ([], ["alpha"]):
        world = race_world(tmp_path, ran=ran, booked=False)
        (laptop,) = world.laptops.values()
        laptop.is_lost, laptop.state = True, TripState.PLANNED
        outcomes_of_races(world)
        assert rules(world) == set()

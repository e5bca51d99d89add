"""The checkers over what real processes left find damage, each kind of it, in doctored journals.

The journals are those of a simulated trip over three sites that went well: read as if real daemons
had left them nothing is found, and after each change that no daemon may make, that very thing is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gridtravel.agents.journal.events import CODEC, JobOver, JobRunning, JobStarting
from gridtravel.gridcore.booking.calendar_events import ReservationChanged, ReservationGranted
from gridtravel.gridcore.booking.reservations import ReservationEvent
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.journal.contract import Record
from gridtravel.simulator.checks.site_ledger import ACKNOWLEDGED, EARLY, OVER_COMMITTED, TWICE
from gridtravel.simulator.checks.trip_checkers import ATOMIC, LOGGED, SHOWN
from gridtravel.simulator.grid.exhaustive import LAPTOP, SITES, one_trip
from gridtravel.simulator.grid.simulated_laptop import SimulatedLaptop
from gridtravel.simulator.grid.simulated_site import SimulatedSite
from gridtravel.simulator.grid.world import WorldTypes, live
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from gridtravel.simulator.processes.autopsy import OWNED_UP, RESOLVED, Finding, examine
from gridtravel.simulator.processes.disks import Cut
from gridtravel.simulator.processes.found_books import FoundWorld, trips_in
from gridtravel.simulator.processes.laptops import LiveLaptop
from gridtravel.simulator.processes.live_grid import ClockSpan
from gridtravel.travel_agent.log.events import TripEnded
from gridtravel.travel_agent.log.trip_log import CODEC as TRIP_CODEC

NODES = 4
FIRST = SITES[0]


@dataclass(slots=True)
class Left:
    """What everybody left; tests change it."""

    journals: dict[str, list[Record]]
    log: list[Any]
    trip_id: str
    began: dict[str, list[float]] = field(default_factory=dict)
    shown: TripState = TripState.COMPLETED
    cuts: list[Cut] = field(default_factory=list)

    def change(self, site: str, change: Callable[[Any], Any]) -> None:
        """Each event of a journal becomes what ``change`` makes of it; ``None``: it is left out."""
        records = []
        for record in self.journals[site]:
            event = change(CODEC.decode(record))
            if event is not None:
                records.append(CODEC.encode(event, at=record.at))
        self.journals[site] = records


@cache
def _lived() -> tuple[dict[str, list[Record]], list[Any], str]:
    sites: list[SimulatedSite] = []
    laptops: list[SimulatedLaptop] = []

    class SeenSite(SimulatedSite):
        def start(self) -> None:
            sites.append(self)
            super().start()

    class SeenLaptop(SimulatedLaptop):
        def start(self) -> None:
            laptops.append(self)
            super().start()

    assert live(one_trip(), WorldTypes(site=SeenSite, laptop=SeenLaptop)).is_clean
    ((trip_id, disk),) = laptops[0].journals.disks.items()
    assert laptops[0].name == LAPTOP
    journals = {each.name: list(each.disk.records) for each in sites}
    return journals, [TRIP_CODEC.decode(record) for record in disk.records], trip_id


@pytest.fixture
def left() -> Left:
    """Of a trip that was booked, ran and ended well."""
    journals, log, trip_id = _lived()
    found = Left({name: list(each) for name, each in journals.items()}, list(log), trip_id)
    for name, records in journals.items():
        events = [CODEC.decode(record) for record in records]
        (start,) = [each.started_precise for each in events if isinstance(each, JobRunning)]
        found.began[f"{trip_id}.{name}"] = [start]
    return found


def look(left: Left, folder: Path, spans: tuple[ClockSpan, ...] = ()) -> Finding:
    """All checkers."""
    evidence = folder / "evidence"
    evidence.mkdir()
    for name, moments in left.began.items():
        (evidence / name).write_text("".join(f"{moment}\n" for moment in moments))
    laptop = LiveLaptop("laptop", folder, trip_id=left.trip_id, state=TripState.BOOKED)
    laptop.shown = left.shown
    legs = [leg for event in left.log for leg in getattr(event, "legs", ())]
    kept = {leg.reservation_id: leg.site for leg in legs if getattr(leg, "reservation_id", None)}
    laptop.told_legs = [(site, key) for key, site in kept.items()]
    laptop._kept = [TRIP_CODEC.encode(event, at=WORLD_BEGIN + 1) for event in left.log]
    world = FoundWorld({"laptop": laptop}, WORLD_BEGIN + 1000.0)
    for name, records in left.journals.items():
        world.add_site(name, NODES, records, spans)
    return examine(world, left.cuts, evidence)


def rules(finding: Finding) -> set[str]:
    """What was found to be broken."""
    return {each.rule for each in finding.broken}


def test_what_went_well_is_found_to_be_well(left: Left, tmp_path: Path) -> None:
    """Nothing broken, and the trip booked."""
    finding = look(left, tmp_path)
    assert finding.broken == []
    assert finding.excused == []
    assert finding.outcomes == {left.trip_id: "BOOKED"}


def test_a_lost_commit_is_found(left: Left, tmp_path: Path) -> None:
    """One site forgot its commit, and let the hold go: the trip is torn."""

    def forget(event: Any) -> Any:
        if isinstance(event, ReservationChanged):
            is_commit = event.event is ReservationEvent.COMMIT
            return replace(event, event=ReservationEvent.EXPIRE) if is_commit else None
        return event

    left.change(FIRST, forget)
    assert {ATOMIC, ACKNOWLEDGED} <= rules(look(left, tmp_path))


def test_a_leg_that_was_never_journaled_is_found(left: Left, tmp_path: Path) -> None:
    """The laptop's log names a reservation and a job that no journal has."""
    left.journals[FIRST] = []
    assert ACKNOWLEDGED in rules(look(left, tmp_path))


def test_a_hold_that_never_ends_is_found(left: Left, tmp_path: Path) -> None:
    """Neither committed nor let go."""
    changed = ReservationChanged
    left.change(FIRST, lambda each: None if isinstance(each, changed) else each)
    assert RESOLVED in rules(look(left, tmp_path))


def test_too_many_promises_are_found(left: Left, tmp_path: Path) -> None:
    """More nodes promised than there are; the same request booked twice."""
    granted = [
        each for each in left.journals[FIRST] if isinstance(CODEC.decode(each), ReservationGranted)
    ]
    event = CODEC.decode(granted[0])
    again = replace(event.reservation, reservation_id="north.99", nodes=NODES)
    twin = CODEC.encode(ReservationGranted(reservation=again), at=granted[0].at)
    left.journals[FIRST].insert(left.journals[FIRST].index(granted[0]) + 1, twin)
    assert {OVER_COMMITTED, TWICE} <= rules(look(left, tmp_path))


def test_two_jobs_on_one_node_are_found(left: Left, tmp_path: Path) -> None:
    """A second start on nodes that are still taken."""
    events = [CODEC.decode(each) for each in left.journals[FIRST]]
    number = next(i for i, each in enumerate(events) if isinstance(each, JobStarting))
    left.journals[FIRST].insert(number + 1, left.journals[FIRST][number])
    assert OVER_COMMITTED in rules(look(left, tmp_path))


def test_an_early_start_is_found(left: Left, tmp_path: Path) -> None:
    """By the journal."""

    def earlier(event: Any) -> Any:
        if isinstance(event, JobRunning):
            return replace(event, started_precise=event.started_precise - 2)
        return event

    left.change(FIRST, earlier)
    assert EARLY in rules(look(left, tmp_path))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        pytest.param(lambda moments: [moments[0] - 2], EARLY, id="before its time"),
        pytest.param(lambda moments: [moments[0], moments[0] + 1], TWICE, id="twice"),
    ],
)
def test_what_the_programs_themselves_saw_is_believed(
    left: Left, tmp_path: Path, change: Callable[[list[float]], list[float]], rule: str
) -> None:
    """Whatever the journals say."""
    key = f"{left.trip_id}.{FIRST}"
    left.began[key] = change(left.began[key])
    assert rule in rules(look(left, tmp_path))


def test_a_job_that_is_said_to_have_run_must_have_begun(left: Left, tmp_path: Path) -> None:
    """The journal says that it ended well, its program never wrote a word."""

    def well(event: Any) -> Any:
        if isinstance(event, JobOver):
            return replace(event, state=JobState.COMPLETED, exit_code=0)
        return event

    left.change(FIRST, well)
    left.began[f"{left.trip_id}.{FIRST}"] = []
    assert ACKNOWLEDGED in rules(look(left, tmp_path))


def test_a_program_that_ran_without_a_promise_is_found(left: Left, tmp_path: Path) -> None:
    """Nobody had committed anything of it."""
    left.began[f"trip-{'0' * 26}.{FIRST}"] = [WORLD_BEGIN + 1.0]
    assert EARLY in rules(look(left, tmp_path))


def test_a_status_that_lies_is_found(left: Left, tmp_path: Path) -> None:
    """Shown as absent, and booked by the books."""
    left.shown = TripState.ABSENT
    assert SHOWN in rules(look(left, tmp_path))


def test_a_log_that_lies_is_found(left: Left, tmp_path: Path) -> None:
    """The laptop wrote that the trip was absent; its user had been told that it was booked."""
    left.log.append(TripEnded(state=TripState.ABSENT.value, message=""))
    assert LOGGED in rules(look(left, tmp_path))


def a_cut(left: Left, kept: int | None, **others: Any) -> Cut:
    """The first site's journal was cut."""
    records = left.journals[FIRST]
    cut = Cut(
        site=FIRST,
        number=0,
        noted=len(records),
        before=list(records),
        kept=kept,
        **others,
    )
    if kept is not None:
        left.journals[FIRST] = records[:kept]
    return cut


def test_a_cut_journal_must_be_owned_up_to(left: Left, tmp_path: Path) -> None:
    """Gone on without a word; and a refusal that names nothing."""
    left.cuts = [a_cut(left, 1)]
    assert rules(look(left, tmp_path)) == {OWNED_UP}
    left.cuts = [a_cut(left, None, words="something is wrong")]
    (tmp_path / "again").mkdir()
    assert OWNED_UP in rules(look(left, tmp_path / "again"))


def test_what_was_cut_off_is_excused_and_nothing_else(left: Left, tmp_path: Path) -> None:
    """A daemon that said what it had lost may have torn the trips that the lost part names; what
    happened elsewhere is not excused.
    """
    left.cuts = [a_cut(left, 1, is_owned_up=True)]
    finding = look(left, tmp_path)
    assert finding.broken == []
    assert {each.rule for each in finding.excused} >= {ATOMIC, ACKNOWLEDGED}
    left.began[f"trip-{'0' * 26}.{SITES[1]}"] = [WORLD_BEGIN + 1.0]
    (tmp_path / "again").mkdir()
    assert EARLY in rules(look(left, tmp_path / "again"))


def test_an_older_clock_is_taken_into_account(left: Left, tmp_path: Path) -> None:
    """A site that was two seconds behind began two seconds late by the true clock, and no doubt
    comes out of it.
    """
    spans = (ClockSpan(after_records=0, behind_s=2.0),)
    for moments in left.began.values():
        moments[0] += 2
    assert look(left, tmp_path, spans).broken == []


def test_a_job_that_nobody_started_is_found(left: Left, tmp_path: Path) -> None:
    """It runs by the journal, and the start was never written; unless a cut took that away."""
    left.change(FIRST, lambda each: None if isinstance(each, JobStarting) else each)
    assert ACKNOWLEDGED in rules(look(left, tmp_path))


def test_a_cut_names_the_trips_of_its_jobs(left: Left) -> None:
    """Also where only a job's or a reservation's name was in what is lost."""
    number = next(
        i
        for i, each in enumerate(left.journals[FIRST])
        if isinstance(CODEC.decode(each), JobRunning)
    )
    cut = a_cut(left, number)
    del cut.before[number + 1 :]
    assert [type(CODEC.decode(each)) for each in cut.lost] == [JobRunning]
    assert trips_in(cut) == {left.trip_id}

"""Which deaths a campaign of crashes is made of."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gridtravel.gridio.journal.contract import Record
from gridtravel.simulator.processes.crash_points import (
    AT_CLUSTER,
    HALF_STAGED,
    LAPTOP,
    PHASE_OF,
    Phase,
    Point,
    TripKind,
    crashes_of,
    points_of,
    spread_over,
)
from gridtravel.simulator.processes.crash_trips import LEGS, SITES_OF, metajob_text
from gridtravel.simulator.processes.diary import Entry, read_diary, words_of
from gridtravel.simulator.processes.live_batch import CLUSTER
from gridtravel.simulator.processes.live_grid import MANAGER
from gridtravel.simulator.processes.mortal import Fate, Sentence, Stage
from gridtravel.simulator.processes.rounds import Return
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from tests.support.metajob_builders import PACIFIC

DIARY = [
    Entry("laptop", "trip-opened"),
    Entry("alpha", "trip-registered,granted"),
    Entry("laptop", "trip-decided"),
    Entry("alpha", "vote:outcome"),
    Entry("alpha", "vote:ready"),
    Entry("alpha", "vote:ready"),
    Entry("alpha", "job-running"),
    Entry("alpha", "job-over"),
]


def test_every_write_up_to_the_start_is_a_point() -> None:
    """Each once, counted by who writes and what it says; nothing that comes after the start."""
    points = points_of(TripKind.RACE, DIARY)
    assert [str(each) for each in points] == [
        "laptop trip-opened 1",
        "alpha trip-registered,granted 1",
        "laptop trip-decided 1",
        "alpha vote:outcome 1",
        "alpha vote:ready 1",
        "alpha vote:ready 2",
        "alpha job-running 1",
    ]
    assert [each.phase for each in points][1::2] == [Phase.HELD, Phase.DECIDED, Phase.READY]


def test_what_nobody_writes_down_is_a_point_too() -> None:
    """Half of a large file at each site of a co-start; what shows at a site without an agent."""
    staged = points_of(TripKind.CO_START, DIARY)
    assert Point("alpha", HALF_STAGED, 1) in staged
    without_agent = points_of(TripKind.NO_AGENT, DIARY)
    assert {each.words for each in without_agent if each.writer == CLUSTER} == set(AT_CLUSTER)


@pytest.mark.parametrize("kind", list(TripKind))
def test_who_writes_dies_on_both_sides_of_each_write(kind: TripKind) -> None:
    """The laptop also when others write, a site when the laptop does, and a group's manager."""
    points = points_of(kind, DIARY)
    crashes = crashes_of(kind, points)
    deaths = {(each.at, each.victim, each.stage) for each in crashes}
    assert len(deaths) == len(crashes)
    for point in points:
        if point.words not in (HALF_STAGED, *AT_CLUSTER):
            assert {(point, point.writer, stage) for stage in Stage} <= deaths
        assert (point, LAPTOP, Stage.AFTER) in deaths
        has_manager = (point, MANAGER, Stage.AFTER) in deaths
        assert has_manager == (kind is TripKind.GROUP)
    backs = {each.back for each in crashes if each.victim == LAPTOP}
    assert (Return.NEVER in backs) == (kind is not TripKind.NO_AGENT)


def test_a_part_of_the_crashes_is_spread_over_all() -> None:
    """The first, and others at the same distance; never more than there are."""
    crashes = crashes_of(TripKind.RACE, points_of(TripKind.RACE, DIARY))
    assert spread_over(crashes, len(crashes) + 5) == crashes
    some = spread_over(crashes, 4)
    assert some == [crashes[len(crashes) * each // 4] for each in range(4)]


def test_every_phase_has_a_write_that_shows_it() -> None:
    """From the first hold to the start, none is left out."""
    assert set(PHASE_OF.values()) == set(Phase)


@pytest.mark.parametrize("kind", list(TripKind))
def test_the_trips_are_metajobs(kind: TripKind, tmp_path: Path) -> None:
    """Each reads as ``gur`` reads it, and every leg has its machine."""
    staged = tmp_path / "large.dat"
    staged.write_bytes(b"1234")
    text = metajob_text(kind, earliest=2_000_000_000, evidence="/e/", staged=staged)
    found = parse_metajob(text, now=1_999_999_990, zone=PACIFIC, form="toml").metajob
    assert {each.machine for each in found.machines} == set(LEGS[kind])
    assert found.is_race == (kind is TripKind.RACE)
    assert set(SITES_OF[kind]) >= set(LEGS[kind]) - {MANAGER, CLUSTER}


def test_a_write_is_called_by_what_it_says() -> None:
    """Votes by their question, changes by what they are, everything else by its kind, each once."""

    def record(kind: str, body: str) -> Record:
        return Record(kind=kind, at=1, body=body.encode())

    vote = '{"state": {"instance": "t/1/%s", "vote": %s}}'
    assert words_of([record("granted", "{}"), record("granted", "{}")]) == "granted"
    assert words_of([record("changed", '{"event": "COMMIT"}')]) == "changed:commit"
    assert words_of([record("acceptor-changed", vote % ("ready/a", '"x"'))]) == "vote:ready"
    assert words_of([record("acceptor-changed", vote % ("cancel", "null"))]) == "promise:cancel"


def test_a_diary_is_read_from_where_it_was(tmp_path: Path) -> None:
    """In order; a diary that nobody has begun is empty."""
    path = tmp_path / "diary"
    assert read_diary(path) == []
    path.write_text("alpha granted\nlaptop trip-decided\n")
    assert read_diary(path, len("alpha granted\n")) == [Entry("laptop", "trip-decided")]


def test_only_the_writes_that_were_meant_are_counted(tmp_path: Path) -> None:
    """The second of those words, whatever lies between; and the file may name somebody else."""
    fate = Fate()
    fate.path = tmp_path / "fate"
    sentence = Sentence(Stage.AFTER, 2, "leg-runs", tmp_path / "pid")
    fate.path.write_text(str(sentence))
    writes = ("leg-runs", "granted", "leg-runs", "leg-runs")
    assert [fate.at_write(each) for each in writes] == [None, None, sentence, None]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_sentence_is_carried_out_on_somebody_else(tmp_path: Path) -> None:
    """Whose process id is in the file; nobody, when it was never started or has ended."""
    pid_file = tmp_path / "pid"
    sentence = Sentence(Stage.AFTER, 1, "granted", pid_file)
    sentence.carry_out()
    child = os.fork()
    if child == 0:
        signal.pause()
    pid_file.write_text(str(child))
    sentence.carry_out()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    sentence.carry_out()

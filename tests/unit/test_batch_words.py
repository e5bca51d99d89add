"""What batch systems say, read: the texts are those of Grid Engine 8.1.9 and Slurm 22.05."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.reservations import DeclineRule
from gridtravel.gridcore.errors import InputError, NotFoundError, UnavailableError
from gridtravel.gridio.batch.batch_calendar import ENDS_MAX, LADDER_MAX, candidates, ladder
from gridtravel.gridio.batch.gridengine import GridEngine
from gridtravel.gridio.batch.options import BatchOptions
from gridtravel.gridio.batch.slurm import Slurm
from gridtravel.gridio.batch.systems import (
    JOB_PREFIX,
    RESERVATION_PREFIX,
    BatchReservation,
    BatchSystem,
    job_name,
    name_of,
    public_id,
    reservation_name,
)

START = 1_795_259_663
DAY_S = 86_400

QRSTAT = """<?xml version='1.0'?>
<qrstat xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qrstat/qrstat.xsd">
   <ar_summary>
      <id>1</id>
      <name>gur.abc</name>
      <owner>root</owner>
      <state>w</state>
      <start_time>2026-11-21T11:14:23</start_time>
      <end_time>2026-11-21T11:15:23</end_time>
      <granted_slots_list>
         <granted_slots  queue_instance="all.q@ge1" slots="3"/>
         <granted_slots  queue_instance="all.q@ge2" slots="2"/>
      </granted_slots_list>
   </ar_summary>
   <ar_summary>
      <id>2</id>
      <name>gur.gone</name>
      <state>d</state>
      <start_time>2026-11-21T11:14:23</start_time>
      <end_time>2026-11-21T11:15:23</end_time>
   </ar_summary>
   <ar_unknown>
      <id>3</id>
   </ar_unknown>
</qrstat>
"""

SCONTROL = (
    "ReservationName=gur.abc StartTime=2026-11-21T11:14:23 EndTime=2026-11-21T11:15:23"
    " Duration=00:01:00 Nodes=n[1-3] NodeCnt=3 CoreCnt=6 Features=(null) PartitionName=batch Flags="
    " TRES=cpu=6 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE\n"
)


def test_lists() -> None:
    """Slots of all hosts are one reservation's; what is being deleted, or unknown, occupies
    nothing.
    """
    five = BatchReservation(name="gur.abc", start=START, end=START + 60, nodes=5)
    three = BatchReservation(name="gur.abc", start=START, end=START + 60, nodes=3)
    assert GridEngine().read_list(QRSTAT) == [five]
    assert Slurm().read_list(SCONTROL) == [three]
    for system in (GridEngine(), Slurm()):
        assert system.read_list("") == []


def test_ends() -> None:
    """Ends of all that is listed, of jobs too where they are told; a job without a limit has
    none.
    """
    assert GridEngine().read_ends(QRSTAT) == [START + 60, START + 60]
    jobs = "EndTime=2026-11-21T11:14:23\nEndTime=N/A\n"
    assert Slurm().read_ends(SCONTROL + jobs) == [START + 60, START]


def test_broken_answers_are_a_fault() -> None:
    """Half an answer is never taken for an empty one."""
    with pytest.raises(UnavailableError):
        GridEngine().read_list(QRSTAT[:-60])
    with pytest.raises(UnavailableError):
        Slurm().read_list("ReservationName=gur.abc StartTime=soon EndTime=later NodeCnt=1")


def test_jobs() -> None:
    """Waiting, running, broken; a job that is over is missing, though Slurm lists it a while."""
    job = "<job_list><JB_name>{}</JB_name><state>{}</state></job_list>"
    states = {"w": "qw", "h": "hqw", "t": "t", "r": "r", "d": "dr", "e": "Eqw"}
    jobs = "".join(job.format(name, state) for name, state in states.items())
    text = f"<?xml version='1.0'?>\n<job_info><job_info>{jobs}</job_info></job_info>"
    expected = {"w": "waiting", "h": "waiting", "t": "running", "r": "running", "d": "running"}
    assert GridEngine().read_jobs(text) == expected | {"e": "broken"}
    lines = "w|PENDING|Reservation\nr|RUNNING|None\nc|COMPLETED|None\nf|FAILED|NonZeroExitCode\n"
    broken = "e|PENDING|launch failed requeued held\n"
    assert Slurm().read_jobs(lines + broken) == {"w": "waiting", "r": "running", "e": "broken"}


def test_sizes() -> None:
    """Slots of the queue that is used, or of all; nodes of a partition."""
    queue = "<cluster_queue_summary><name>{}</name><total>{}</total></cluster_queue_summary>"
    queues = queue.format("all.q", 4) + queue.format("big.q", 64)
    text = f"<?xml version='1.0'?>\n<job_info>{queues}</job_info>"
    assert GridEngine().read_size(text, "") == 68
    assert GridEngine().read_size(text, "big.q@host1") == 64
    assert Slurm().read_size("4\n12\n", "") == 16


@pytest.mark.parametrize(
    ("system", "words", "rule", "nodes_now"),
    [
        (
            GridEngine(),
            'denied: "bob" must be manager or in userset "arusers"',
            DeclineRule.POLICY,
            0,
        ),
        (GridEngine(), "start time is in the past", DeclineRule.START_TOO_SOON, 0),
        (GridEngine(), "advance_reservation: no suitable queues", DeclineRule.NO_ROOM, 0),
        (
            GridEngine(),
            'Your job cannot run in PE "mpi" because it only offers 2 slots'
            " verification: no suitable queues",
            DeclineRule.NO_ROOM,
            2,
        ),
        (
            GridEngine(),
            'job rejected: the requested parallel environment "nope" does not exist',
            DeclineRule.POLICY,
            0,
        ),
        (
            Slurm(),
            "Error creating the reservation: Invalid user id",
            DeclineRule.POLICY,
            0,
        ),
        (
            Slurm(),
            "Error creating the reservation: Requested nodes are busy",
            DeclineRule.NO_ROOM,
            0,
        ),
        (Slurm(), "only 3 nodes", DeclineRule.NO_ROOM, 3),
        (
            Slurm(),
            "Error creating the reservation: Invalid time specified",
            DeclineRule.START_TOO_SOON,
            0,
        ),
        (Slurm(), "something new", DeclineRule.POLICY, 0),
    ],
)
def test_refusals(system: BatchSystem, words: str, rule: DeclineRule, nodes_now: int) -> None:
    """Shortage is told apart from what asking again will not change; unknown words are kept."""
    refusal = system.read_refusal(words)
    assert (refusal.rule, refusal.nodes_now) == (rule, nodes_now)
    assert words in refusal.words


def test_reservations_are_not_for_users_of_slurm() -> None:
    """The refusal names what would help."""
    refusal = Slurm().read_refusal("Error creating the reservation: Invalid user id")
    assert "not for this login" in refusal.words
    assert "operator" in refusal.hint


def test_stamps_are_utc_to_the_second() -> None:
    """As the commands take them with TZ=UTC."""
    assert GridEngine().stamp(START) == "202611211114.23"
    assert Slurm().stamp(START) == "2026-11-21T11:14:23"


def test_names_come_from_request_ids() -> None:
    """The same request has the same name in any run; no other text is taken for a name of ours."""
    name = reservation_name("trip-1.cluster.1")
    assert name == reservation_name("trip-1.cluster.1") != reservation_name("trip-1.cluster.2")
    assert name.startswith(RESERVATION_PREFIX)
    assert name_of("lab", public_id("lab", name), prefix=RESERVATION_PREFIX) == name
    job = job_name("trip-1.cluster.job")
    for wrong in (name, f"west.{name}", "lab.17", "lab.gur.*", f"lab.{name}/../x", f"lab.{name}\n"):
        with pytest.raises(NotFoundError):
            name_of("lab", wrong, prefix=RESERVATION_PREFIX)
    with pytest.raises(NotFoundError):
        name_of("lab", public_id("lab", job), prefix=RESERVATION_PREFIX)
    assert name_of("lab", public_id("lab", job), prefix=JOB_PREFIX) == job


@pytest.mark.parametrize("length_s", [0, 1, 59, 3_600, DAY_S, 14 * DAY_S, 400 * DAY_S])
def test_ladder(length_s: int) -> None:
    """In order, without doubles, from the first start, bounded, ever wider; up to two weeks to the
    very last start.
    """
    starts = ladder(START, START + length_s)
    assert starts == sorted(set(starts))
    assert (starts[0], len(starts) <= LADDER_MAX) == (START, True)
    assert starts[-1] <= START + length_s
    if length_s <= 14 * DAY_S:
        assert starts[-1] == START + length_s
    assert ladder(START, START - 1) == []


def test_two_sites_try_the_same_moments() -> None:
    """Sites that are asked one after the other still have most starts in common."""
    one, other = (set(ladder(START + late, START + DAY_S)) for late in (0, 3))
    assert len(one & other) >= len(one) - 3


def test_ends_are_candidates() -> None:
    """The earliest ends within the window come on top, so many and no more."""
    ends = [START - 5, *(START + each for each in range(1, 1_000, 7)), START + DAY_S + 1]
    found = candidates(START, START + DAY_S, ends)
    assert found == sorted(set(found))
    assert {START + 1, START + 8} <= set(found)
    assert len(found) <= LADDER_MAX + ENDS_MAX
    assert not {START - 5, START + DAY_S + 1} & set(found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"system": "pbs"},
        {"folder": "a b"},
        {"folder": "../up"},
        {"folder": "$HOME/x"},
        {"queue": "all.q; rm"},
        {"parallel_environment": ""},
        {"environment": {"A B": "x"}},
        {"environment": {"PATH": "/bin\nid"}},
    ],
)
def test_options_that_cannot_be(wrong: dict[str, object]) -> None:
    """What could mean something to a shell is refused when the list of machines is read."""
    with pytest.raises(InputError):
        BatchOptions(**({"system": "slurm"} | wrong))  # type: ignore[arg-type]

"""First fit, backfill and promotion on imprecise calendars, scene by scene."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.capacity.ladders import EXACT, SlotLadder
from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.simulator.imprecise.imprecise_calendar import ImpreciseCalendar
from gridtravel.simulator.imprecise.slotted_scheduler import SlottedScheduler
from gridtravel.simulator.imprecise.slotted_tree import PromotionRule, SlottedTree
from gridtravel.simulator.replay.loop import policy, replay
from gridtravel.simulator.replay.slotted_replay import serve
from gridtravel.simulator.replay.swf import TraceJob

TEN_S = SlotLadder.parse("*x10")


def job(name: str, nodes: int, limit_s: int) -> Job:
    """A job of somebody."""
    return Job(name, nodes, limit_s, 0, "u", "a", "nodes")


def cluster(nodes: int, ladder: SlotLadder = TEN_S, speed_permille: int = 1000) -> SlottedScheduler:
    """An empty cluster."""
    return SlottedScheduler(ImpreciseCalendar(nodes, ladder, speed_permille=speed_permille))


def names(jobs: list[Job]) -> list[str]:
    """Their ids."""
    return [each.job_id for each in jobs]


def test_jobs_start_with_a_slot() -> None:
    """Who comes inside a slot starts with the next one, and the cycle says when that is."""
    site = cluster(4)
    site.submit(job("first", 4, 25))
    assert site.cycle(3) == ([], 10)
    started = site.cycle(10)
    assert (names(started.starts), started.next_wakeup) == (["first"], None)
    assert started.starts[0].state is JobState.STARTING


def test_an_early_end_lets_others_start_in_order() -> None:
    """Jobs wait in order of arrival; room of a job that ended early is offered in that order."""
    site = cluster(4)
    for each in (job("runs", 4, 100), job("second", 3, 50), job("third", 1, 50)):
        site.submit(each)
    assert names(site.cycle(0).starts) == ["runs"]
    assert [site.waiting[name].planned_start for name in ("second", "third")] == [100, 100]
    assert site.job_ended("runs", 20).ended_at == 20
    assert names(site.cycle(20).starts) == ["second", "third"]


def test_a_job_that_is_given_up_leaves_its_room() -> None:
    """A cancelled job's slots are backfilled."""
    site = cluster(1)
    for name in ("runs", "cancelled", "last"):
        site.submit(job(name, 1, 10))
    site.cycle(0)
    site.give_up(site.waiting["cancelled"])
    site.cycle(0)
    assert site.waiting["last"].planned_start == 10


def test_fast_nodes_are_booked_for_less_time() -> None:
    """A limit is told for the reference node; nodes of double speed are held half as long."""
    site = cluster(1, speed_permille=2000)
    site.submit(job("runs", 1, 100))
    site.submit(job("next", 1, 100))
    site.cycle(0)
    assert site.waiting["next"].planned_start == 50


def test_what_never_fits_is_dropped_and_unknown_jobs_are_named() -> None:
    """A job larger than the cluster gets no place; an end of nobody is a fault."""
    site = cluster(1)
    site.submit(job("large", 2, 10))
    assert site.cycle(0) == ([], None)
    with pytest.raises(NotFoundError, match="ghost"):
        site.job_ended("ghost", 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(1, 5), st.integers(0, 30)),
        min_size=1,
        max_size=25,
    )
)
def test_on_the_exact_ladder_it_is_conservative_backfilling(
    wishes: list[tuple[int, int, int, int]],
) -> None:
    """Start by start the production scheduler's schedule: one type of calendar, two ladders."""
    jobs = [
        TraceJob(number, submit, run_s, procs, run_s + slack_s, 1, 1)
        for number, (submit, run_s, procs, slack_s) in enumerate(sorted(wishes))
    ]
    slotted = serve([("all", each) for each in jobs], [("all", 5)], EXACT)
    assert slotted.starts == replay(jobs, 5, policy("conservative"))


def tree(rule: PromotionRule, **nodes: int) -> SlottedTree:
    """Clusters below one manager."""
    return SlottedTree({name: cluster(count) for name, count in nodes.items()}, rule)


def test_large_and_long_jobs_are_promoted() -> None:
    """More nodes than the bound, or so long or longer: the manager's; the rest stays at home,
    however full home is.
    """
    grid = tree(PromotionRule(nodes_max=2, duration_min_s=100), north=4, south=4)
    for each in (job("fills", 4, 60), job("wide", 3, 50), job("long", 1, 100), job("small", 2, 50)):
        grid.submit(each, "north")
    assert names(grid.cycle(0).starts) == ["fills", "wide", "long"]
    assert grid.places == {"fills": "north", "wide": "south", "long": "south", "small": "north"}
    assert grid.promoted_count == 3


def test_who_would_wait_too_long_is_bumped_up() -> None:
    """Home's first slot may be as far off as the patience; beyond that a peer is looked for, and
    home keeps the job when no peer is earlier.
    """
    grid = tree(PromotionRule(patience_s=30), north=1, south=1)
    for name in ("runs", "waits", "bumped", "stays"):
        grid.submit(job(name, 1, 30), "north")
    grid.cycle(0)
    assert grid.places == {"runs": "north", "waits": "north", "bumped": "south", "stays": "south"}


def test_ties_go_home_then_to_who_lent_least() -> None:
    """The paper's prototype favoured low numbers; here lending is shared out."""
    grid = tree(PromotionRule(nodes_max=0), first=1, second=1, third=1)
    grid.submit(job("own", 1, 50), "third")
    assert names(grid.cycle(0).starts) == ["own"]
    assert grid.places["own"] == "third"
    for turn, name in enumerate(("guest", "other")):
        grid.submit(job(name, 1, 20), "third")
        grid.cycle(20 * turn)
        assert grid.places[name] == ("first", "second")[turn]
        grid.job_ended(name, 20 * turn + 20)
    assert (grid.trade.accounts["first"].lent, grid.trade.accounts["second"].lent) == (20, 20)
    assert grid.trade.accounts["third"].borrowed == 40
    grid.trade.validate()


def test_the_manager_backfills_first_and_across_members() -> None:
    """Room that appears in the north goes to the manager's waiting job of the south before the
    north's own, although that came earlier.
    """
    grid = tree(PromotionRule(nodes_max=1), north=2, south=2)
    grid.submit(job("n", 2, 100), "north")
    grid.submit(job("s", 2, 80), "south")
    grid.cycle(0)
    grid.submit(job("own", 1, 60), "north")
    grid.submit(job("guest", 2, 60), "south")
    grid.cycle(0)
    assert grid.places["guest"] == "south"
    grid.job_ended("n", 10)
    assert names(grid.cycle(10).starts) == ["guest"]
    assert grid.places["guest"] == "north"
    assert grid.members["north"].waiting["own"].planned_start == 70
    for each in grid.members.values():
        each.calendar.validate()


def test_the_manager_moves_its_job_earlier_where_it_is() -> None:
    """A promoted job uses new room of its own member like any other."""
    grid = tree(PromotionRule(nodes_max=0), north=2)
    grid.submit(job("runs", 2, 100), "north")
    grid.submit(job("waits", 2, 10), "north")
    grid.cycle(0)
    grid.job_ended("runs", 30)
    assert names(grid.cycle(30).starts) == ["waits"]


def test_a_job_too_large_for_all_is_dropped() -> None:
    """Nobody has so many nodes: it gets no place and leaves nothing behind."""
    grid = tree(PromotionRule(), north=2)
    grid.submit(job("huge", 3, 10), "north")
    assert grid.cycle(0) == ([], None)
    assert grid.homes == {}


def test_a_job_too_large_for_home_goes_up() -> None:
    """A request larger than its manager's nodes is forwarded (2.3)."""
    grid = tree(PromotionRule(), north=1, south=4)
    grid.submit(job("wide", 3, 10), "north")
    grid.cycle(0)
    assert grid.places["wide"] == "south"


def test_a_replay_says_which_job_fits_nowhere() -> None:
    """A workload with a job larger than every member is refused; progress is told on the way."""
    told: list[int] = []
    jobs = [TraceJob(number, number, 1, 1, 1, 1, 1) for number in range(500)]
    serve([("all", each) for each in jobs], [("all", 1)], TEN_S, progress=told.append)
    assert told == [500]
    with pytest.raises(InputError, match="job 7 can never start"):
        serve([("all", TraceJob(7, 0, 1, 2, 1, 1, 1))], [("all", 1)], TEN_S)


def test_a_tree_refuses_what_makes_no_sense() -> None:
    """No members, an unknown home, an end of nobody, a bound below zero."""
    with pytest.raises(InputError):
        SlottedTree({}, PromotionRule())
    with pytest.raises(InputError):
        PromotionRule(patience_s=-1)
    grid = tree(PromotionRule(), north=1)
    with pytest.raises(NotFoundError):
        grid.submit(job("lost", 1, 1), "west")
    with pytest.raises(NotFoundError):
        grid.job_ended("ghost", 0)

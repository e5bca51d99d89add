"""Every shortcut of the scheduler that is said to change no answer, against its plain form.

Few processors and few distinct times, so that nearly everything happens at once; estimates that are
too long, exact and too short. The plain forms look at everybody in every second; the scheduler is
called when something happens and when it asked to be, and looks at no more than it must. What they
spare:

* ``scheduler``: ``next_wakeup``, the watch over limits, sorting out where nobody is on hold; *
``job_queue``: a fixed order that keeps itself, a newcomer at the tail that changes nothing; *
``backfill``: a pass that looks at newcomers only, demands refused once, places that stay; *
``compression``: the loose stretch, and moves that book what old and new place do not share; *
``pool``, ``node_drains``: whatever costs time only where there are drains; *
``slotted_scheduler``, ``slotted_tree``, ``simulator.imprecise.imprecise_calendar``: new room, and
who need not be
  looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.capacity.node_sets import NodeSetProfile
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.admission.registry import BACKFILLING
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.compression import FAR
from gridtravel.local_sched.scheduling.config import OverrunRule, SchedulerConfig, SchedulerMode
from gridtravel.local_sched.scheduling.job_queue import SHORTEST_FIRST, QueueOrder
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridtravel.simulator.imprecise.imprecise_calendar import ImpreciseCalendar
from gridtravel.simulator.imprecise.slotted_scheduler import SlottedScheduler
from gridtravel.simulator.imprecise.slotted_tree import PromotionRule, SlottedTree
from gridtravel.simulator.replay.loop import CLASS_NAME, NAMED_PREFIX, ReplayWorld, TieRule, policy
from gridtravel.simulator.replay.slotted_replay import serve
from gridtravel.simulator.replay.swf import TraceJob
from tests.property.test_scheduler_chaos import CONFIGS, NODES, OVERRUN, Chaos, steps
from tests.support.plain_easy import PlainEasy
from tests.support.plain_machine import STEP_S, Rank, first_come, shortest_first
from tests.support.plain_plans import PLAIN_RULES, PlainPlans, PlainRule
from tests.support.plain_slots import PlainSlots

FEWER = settings(max_examples=settings().max_examples // 3)
"""Each example is a whole schedule, twice."""

MORE = settings(max_examples=max(300, settings().max_examples))
"""Where slots are whole few cases are hard ones."""

PROCS_MAX = 6
TIMES = ([2], [1, 2], [1, 2, 4], [2, 3], [3, 6, 9], [1, 5, 10])
"""Of one case; sums and differences of few numbers meet often."""


@st.composite
def cases(draw: st.DrawFn, *, overruns: bool = True) -> tuple[int, list[TraceJob]]:
    """A machine and up to twenty jobs."""
    procs = draw(st.integers(1, PROCS_MAX))
    times = draw(st.sampled_from(TIMES))
    gaps = st.sampled_from(draw(st.sampled_from([[0, 0, 1], [0, 1, 2], [0, *times]])))
    ends = ["exact", "exact", "early", *(["late"] if overruns else [])]
    jobs, submit = [], draw(gaps)
    for number in range(draw(st.integers(1, 20))):
        estimate_s = draw(st.sampled_from(times))
        run_s = {
            "exact": estimate_s,
            "early": draw(st.integers(1, estimate_s)),
            "late": estimate_s + draw(st.sampled_from(times)),
        }[draw(st.sampled_from(ends))]
        jobs.append(TraceJob(number, submit, run_s, draw(st.integers(1, procs)), estimate_s, 0, 0))
        submit += draw(gaps)
    return procs, jobs


class EverySecond(ReplayWorld):
    """A machine whose scheduler is called in every second, whatever it asked for."""

    def cycle(self, now: Instant) -> None:
        """The same, and again a second later."""
        super().cycle(now)
        self.wakeup = now + 1


def served(
    jobs: list[TraceJob],
    procs: int,
    config: SchedulerConfig,
    ties: TieRule,
    world: type[ReplayWorld] = ReplayWorld,
    *,
    keeps_nodes: bool = False,
) -> list[Instant]:
    """The start of each job by the production scheduler."""
    profile = (NodeSetProfile if keeps_nodes else AvailabilityProfile)(procs)
    pool = ResourcePool(CLASS_NAME, profile, config.backfill, config.order)
    overrun = OverrunRule(step_s=STEP_S, trusts_limits=ties is TieRule.SEQUENTIAL)
    config = SchedulerConfig(order=config.order, backfill=config.backfill, overrun=overrun)
    machine = world(jobs, LocalScheduler({CLASS_NAME: pool}, config), ties)
    machine.run()
    machine.scheduler.validate()
    return machine.starts


# -- policies and tie rules ------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TieRule)
@pytest.mark.parametrize("name", BACKFILLING)
@given(case=cases())
@FEWER
def test_every_policy_is_its_plain_form(
    name: str, ties: TieRule, case: tuple[int, list[TraceJob]]
) -> None:
    """Start by start, jobs that outstay their estimate included."""
    procs, jobs = case
    rule = PLAIN_RULES[name]
    plain = PlainPlans(jobs=jobs, procs=procs, ties=ties, rule=rule, is_every_second=True).run()
    assert served(jobs, procs, policy(name), ties) == plain
    if name.startswith("easy"):
        easy = PlainEasy(
            jobs=jobs, procs=procs, ties=ties, filler_rank=rule.filler_rank, is_every_second=True
        )
        assert easy.run() == plain, "with places and without them EASY is the same"


@pytest.mark.parametrize("ties", TieRule)
@given(case=cases(overruns=False), name=st.sampled_from(list(BACKFILLING)))
@FEWER
def test_every_policy_with_kept_nodes_is_its_plain_form(
    ties: TieRule, case: tuple[int, list[TraceJob]], name: str
) -> None:
    """Particular processors for the whole stay; sets of nodes know no overruns."""
    procs, jobs = case
    rule = PLAIN_RULES[name]._replace(keeps_nodes=True)
    plain = PlainPlans(jobs=jobs, procs=procs, ties=ties, rule=rule, is_every_second=True).run()
    assert served(jobs, procs, policy(NAMED_PREFIX + name), ties, keeps_nodes=True) == plain


@st.composite
def ranks(draw: st.DrawFn, *, may_change: bool) -> tuple[Rank, bool]:
    """An order of the queue, and whether it stays as it is while jobs wait."""
    if draw(st.booleans()):
        return draw(st.sampled_from([first_come, shortest_first])), True
    places = draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
    slopes = [0, 0, 1, 2] if may_change and draw(st.booleans()) else [0]

    def rank(job: TraceJob, now: int) -> float:
        slope = slopes[job.job_id % len(slopes)]
        return places[job.job_id % 4] - slope * (now - job.submit)

    return rank, slopes == [0]


def an_order(rank: Rank, jobs: Sequence[TraceJob], *, is_fixed: bool = True) -> QueueOrder:
    """The rank as the scheduler asks for it."""
    return QueueOrder(
        name="of the test",
        key=lambda job, now: (rank(jobs[int(job.job_id)], now), job.sequence),
        is_fixed=is_fixed,
    )


@pytest.mark.parametrize("ties", TieRule)
@pytest.mark.parametrize("depth", [0, 1, 2, 3, None])
@given(
    case=cases(),
    order=ranks(may_change=True),
    fillers=st.one_of(st.none(), ranks(may_change=False)),
    keeps_planned_starts=st.booleans(),
)
@FEWER
def test_every_depth_and_order_is_its_plain_form(
    depth: int | None,
    ties: TieRule,
    case: tuple[int, list[TraceJob]],
    order: tuple[Rank, bool],
    fillers: tuple[Rank, bool] | None,
    keeps_planned_starts: bool,
) -> None:
    """Also orders in which newcomers go in front, and those that change with time, where it counts
    when one looks.
    """
    procs, jobs = case
    rank, is_fixed = order
    filler_rank = None if fillers is None else fillers[0]
    rule = PlainRule(depth, keeps_planned_starts or depth is not None, rank, filler_rank)
    backfill = BackfillRule(
        depth=depth,
        keeps_planned_starts=rule.keeps_planned_starts,
        fillers=None if filler_rank is None else an_order(filler_rank, jobs),
        compression_jobs_max=None,
    )
    config = SchedulerConfig(order=an_order(rank, jobs, is_fixed=is_fixed), backfill=backfill)
    plain = PlainPlans(jobs=jobs, procs=procs, ties=ties, rule=rule, is_every_second=True).run()
    world = ReplayWorld if is_fixed else EverySecond
    assert served(jobs, procs, config, ties, world) == plain


def case_of(*rows: tuple[int, int, int, int]) -> list[TraceJob]:
    """Jobs from (submit, run, processors, estimate)."""
    return [
        TraceJob(number, submit, run_s, procs, estimate_s, 0, 0)
        for number, (submit, run_s, procs, estimate_s) in enumerate(rows)
    ]


@pytest.mark.parametrize("ties", TieRule)
def test_a_moved_place_lets_one_before_it_move_as_well(ties: TieRule) -> None:
    """Depth 2. An early end lets the second place move from 10 to 8; the room it leaves is what the
    first was waiting for, and the newcomer must not get in between.
    """
    jobs = case_of(
        (0, 8, 3, 8), (0, 10, 2, 10), (0, 5, 2, 12), (1, 5, 7, 5), (2, 2, 4, 2), (6, 5, 1, 5)
    )
    config = SchedulerConfig(backfill=BackfillRule(depth=2))
    assert served(jobs, 7, config, ties) == [0, 0, 0, 10, 8, 15]


def test_who_comes_together_is_planned_in_the_order_of_the_queue() -> None:
    """A place for each as it comes; of several in one second the first in the queue comes first,
    here the shortest.
    """
    jobs = case_of((0, 5, 1, 5), (1, 20, 1, 20), (1, 10, 1, 10))
    config = SchedulerConfig(order=SHORTEST_FIRST)
    assert served(jobs, 1, config, TieRule.BATCH) == [0, 15, 5]


@pytest.mark.parametrize("name", ["easy", "conservative", "replan"])
def test_a_place_without_a_step_wakes_the_scheduler(name: str) -> None:
    """The place begins when the job before it is taken for gone, and is as large: nothing else
    happens then, and the plan shows no step. Nobody ends before 30.
    """
    jobs = case_of((0, 30, 2, 10), (1, 10, 2, 10))
    assert served(jobs, 2, policy(name), TieRule.SEQUENTIAL) == [0, 10]


def test_a_place_that_went_by_is_dealt_again() -> None:
    """The second job's only second goes by because the first stays longer. It is planned behind
    that, and is not left with a place that is over while others take theirs.
    """
    jobs = case_of((0, 5, 2, 2), (1, 1, 2, 1), (2, 9, 2, 9))
    assert served(jobs, 2, policy("conservative"), TieRule.BATCH) == [0, 5, 6]


# -- a live site -----------------------------------------------------------------------------------

DEPTHS = {
    "fcfs": BackfillRule(depth=0),
    "depth-3": BackfillRule(depth=3),
    "bounded": BackfillRule(compression_jobs_max=2),
}
SITES = {
    **CONFIGS,
    **{each: SchedulerConfig(overrun=OVERRUN, backfill=rule) for each, rule in DEPTHS.items()},
    "shortest": SchedulerConfig(overrun=OVERRUN, order=SHORTEST_FIRST),
}


class Watched(Chaos):
    """A site in trouble whose starts and stops are written down."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        self.starts: dict[tuple[str, Instant], None] = {}
        self.stops: dict[str, Instant] = {}
        self.wakeup: Instant | None = None

    def cycle(self) -> None:
        """One cycle, without the checks of ``Chaos``, which would call it twice."""
        result = self.site.cycle()
        self.wakeup = result.next_wakeup
        for job in result.starts:
            self.starts[job.job_id, self.site.now] = None
        for job in result.stops:
            self.stops.setdefault(job.job_id, self.site.now)

    def seen(self) -> tuple[object, ...]:
        """Everything that people notice."""
        scheduler = self.site.scheduler
        return (
            list(self.starts),
            self.stops,
            {job.job_id: job.planned_start for job in scheduler.waiting.values()},
            {job.job_id: job.booked_until for job in scheduler.running.values()},
        )


class CalledEverySecond(Watched):
    """Whatever it asked for: that is what ``Chaos`` does."""


class CalledWhenItAsks(Watched):
    """Time passes from wakeup to wakeup."""

    def do(self, step: tuple[Any, ...]) -> None:
        """One step."""
        if step[0] != "pass":
            super().do(step)
            return
        until = self.site.now + step[1]
        while self.wakeup is not None and self.wakeup < until:
            assert self.wakeup > self.site.now
            self.site.now = self.wakeup
            self.cycle()
        self.site.now = until
        self.cycle()


class TrustingNothing(Watched):
    """Before each cycle everything that was noted to spare work is forgotten."""

    def cycle(self) -> None:
        """Look at everybody, as if anything might have changed."""
        scheduler, now = self.site.scheduler, self.site.now
        scheduler._has_caps = True
        scheduler._limit_watch.next_at = -FAR
        scheduler.reservation_jobs._as_of = -1
        for pool in scheduler.pools.values():
            queue, backfill = pool.queue, pool.backfill
            pool.has_new_holds = pool.drains.are_any = True
            backfill._is_blocked = False
            backfill._same_until = backfill.next_planned = -FAR
            backfill._compression.availability_grew(now, FAR)
            if backfill.rule.depth is not None or not backfill.rule.keeps_planned_starts:
                backfill.availability_grew(now, FAR)
                queue.is_reordered = True
            if queue.order.is_fixed:
                assert queue.jobs == sorted(queue.jobs, key=lambda job: queue.order.key(job, now))
        super().cycle()


numbers = st.integers(0, 3)
times = st.sampled_from([1, 2, 3, 5, 5, 10])
everyday = (
    st.tuples(st.just("submit"), st.integers(1, NODES), times, st.just(99)),
    st.tuples(st.just("submit"), st.integers(1, NODES), times, st.just(99)),
    st.tuples(st.just("end"), numbers),
    st.tuples(st.just("pass"), times),
    st.tuples(st.just("pass"), times),
)
reserving = (
    st.tuples(st.just("reserve"), st.integers(1, NODES), times, st.sampled_from([0, 1, 2, 5])),
    st.tuples(st.just("release"), numbers),
)
troubles: Mapping[str, tuple[st.SearchStrategy[tuple[Any, ...]], ...]] = {
    "none": (),
    "reservations": reserving,
    "bindings": (
        *reserving,
        st.tuples(st.just("submit"), st.integers(1, NODES), times, numbers),
        st.tuples(st.just("bind"), numbers, numbers, st.booleans()),
        st.tuples(st.just("list"), numbers, numbers),
    ),
    "drains": (
        st.tuples(
            st.just("fix"),
            st.sets(st.integers(0, NODES - 1), min_size=1),
            st.sampled_from([2, 5, 10]),
            times,
        ),
        st.tuples(st.just("release"), numbers),
    ),
    "nodes": (st.tuples(st.just("node"), st.integers(0, NODES - 1), st.booleans()),),
    "orders": (
        st.tuples(st.just("hold"), numbers, st.booleans()),
        st.tuples(st.just("cancel"), numbers),
        st.tuples(st.just("requeue"), numbers),
    ),
    "suspensions": (
        st.tuples(st.just("mode"), st.just(SchedulerMode.SUSPENDED)),
        st.tuples(st.just("mode"), st.just(SchedulerMode.RUNNING)),
        st.tuples(st.just("mode"), st.just(SchedulerMode.RUNNING)),
    ),
}
"""What else happens at a site; one kind at a time, so that it happens often."""


def histories(trouble: str) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """What is done to a site with such trouble; or anything at all, as in ``Chaos``."""
    if trouble == "any":
        return st.lists(steps, min_size=5, max_size=40)
    return st.lists(st.one_of(*everyday, *troubles[trouble]), min_size=8, max_size=30)


def look_the_same(usual: Watched, plain: Watched, history: list[tuple[Any, ...]]) -> None:
    """After every step people notice the same of both."""
    for step in history:
        usual.do(step)
        plain.do(step)
        assert usual.seen() == plain.seen()


@pytest.mark.parametrize("trouble", [*troubles, "any"])
@given(name=st.sampled_from(list(SITES)), data=st.data())
def test_what_a_live_site_notes_to_spare_work_changes_nothing(
    trouble: str, name: str, data: st.DataObject
) -> None:
    """With all notes forgotten the same jobs start, stop and are planned at the same time."""
    history = data.draw(histories(trouble))
    look_the_same(Watched(SITES[name]), TrustingNothing(SITES[name]), history)


@pytest.mark.parametrize("trouble", [*troubles, "any"])
@given(name=st.sampled_from(list(SITES)), data=st.data())
def test_a_live_site_is_called_often_enough(trouble: str, name: str, data: st.DataObject) -> None:
    """Called when something happens and when it asked to be, it does what it does when it is called
    in every second.
    """
    history = data.draw(histories(trouble))
    look_the_same(CalledWhenItAsks(SITES[name]), CalledEverySecond(SITES[name]), history)


# -- whole slots -----------------------------------------------------------------------------------

LADDERS = ("exact", "*x3", "2x1, *x4", "4x1, 2x2, *x8", "3x2, *x6", "2x2, 2x4, *x16")


@given(case=cases(overruns=False), ladder=st.sampled_from(LADDERS))
@MORE
def test_whole_slots_are_their_plain_form(case: tuple[int, list[TraceJob]], ladder: str) -> None:
    """Start by start, however often slots were split and places moved meanwhile."""
    nodes, jobs = case
    slots = SlotLadder.parse(ladder)
    plain = PlainSlots(jobs=jobs, nodes=nodes, ladder=slots).run()
    assert serve([("all", job) for job in jobs], [("all", nodes)], slots).starts == plain


def looking_at_everybody(
    jobs: list[tuple[str, TraceJob]],
    members: list[tuple[str, int]],
    ladder: SlotLadder,
    rule: PromotionRule,
) -> tuple[list[Instant], list[str]]:
    """Start and place of each job in a tree that looks at all its members in every second."""
    tree = SlottedTree(
        {name: SlottedScheduler(ImpreciseCalendar(nodes, ladder)) for name, nodes in members}, rule
    )
    starts, places = [-1] * len(jobs), [""] * len(jobs)
    now, over = 0, 0
    while over < len(jobs):
        ending = [each for each, start in enumerate(starts) if start + jobs[each][1].run_s == now]
        for each in sorted(each for each in ending if starts[each] >= 0):
            tree.job_ended(str(each), now)
            over += 1
        for each, (home, job) in enumerate(jobs):
            if job.submit == now:
                tree.submit(Job(str(each), job.procs, job.estimate_s, now, "u", "a", "nodes"), home)
        tree._wakeups = dict.fromkeys(tree.members, now)
        for started in tree.cycle(now).starts:
            each = int(started.job_id)
            starts[each], places[each] = now, tree.places[started.job_id]
        now += 1
    return starts, places


@given(
    case=cases(overruns=False),
    others=st.lists(st.integers(1, 4), max_size=2),
    ladder=st.sampled_from(LADDERS),
    rule=st.builds(
        PromotionRule,
        nodes_max=st.sampled_from([None, 0, 1, 2]),
        duration_min_s=st.sampled_from([None, 2, 4]),
        patience_s=st.sampled_from([None, 0, 3, 10]),
    ),
)
def test_a_tree_looks_at_its_members_often_enough(
    case: tuple[int, list[TraceJob]], others: list[int], ladder: str, rule: PromotionRule
) -> None:
    """Who is not due need not be looked at: the same starts at the same members."""
    largest, jobs = case
    members = [(f"member-{number}", nodes) for number, nodes in enumerate([largest, *others])]
    at_home = [(members[job.job_id % len(members)][0], job) for job in jobs]
    slots = SlotLadder.parse(ladder)
    run = serve(at_home, members, slots, rule)
    assert (run.starts, run.places) == looking_at_everybody(at_home, members, slots, rule)

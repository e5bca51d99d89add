"""The scheduler in small scenes a reader can draw: four nodes, a few jobs, seconds that count."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.reservations import Decline, Reservation
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.local_sched.scheduling.config import (
    JobLimits,
    OverrunRule,
    SchedulerConfig,
    SchedulerMode,
)
from gridtravel.local_sched.scheduling.jobs import WaitReason
from gridtravel.local_sched.scheduling.queries import backfill_windows, estimate, why
from tests.support.scheduler_worlds import EASY, FCFS, SmallSite


def test_conservative_gives_every_job_a_place_on_arrival() -> None:
    """Three wide jobs are planned one behind the other, and a narrow one beside the first."""
    site = SmallSite()
    first, second, third = (site.submit(4, 100) for _ in range(3))
    assert [job.job_id for job in site.cycle().starts] == [first.job_id]
    assert (second.planned_start, third.planned_start) == (100, 200)
    site.now = 10
    site.end(first)
    site.cycle()
    assert second.started_at == 10
    assert third.planned_start == 110


def test_easy_backfills_beside_the_head_only() -> None:
    """A short job passes the blocked head, one that would delay it does not."""
    site = SmallSite(EASY)
    site.submit(3, 100)
    head = site.submit(4, 50)
    short, long = site.submit(1, 100), site.submit(1, 101)
    site.cycle()
    assert head.planned_start == 100
    assert (short.started_at, long.started_at) == (0, None)
    assert why(site.scheduler, long.job_id, 0).reason == str(WaitReason.BEHIND_OTHERS)


def test_fcfs_lets_nobody_overtake() -> None:
    """Depth 0: behind a blocked head everybody waits, however small, and is told so."""
    site = SmallSite(FCFS)
    site.submit(3, 100)
    site.submit(4, 50)
    small = site.submit(1, 1)
    site.cycle()
    assert small.started_at is None
    assert why(site.scheduler, small.job_id, 0).reason == str(WaitReason.QUEUE_BLOCKED)


def test_nodes_get_names_at_the_start_and_give_them_back() -> None:
    """Lowest idle names first; a job's names are free for the next one when it ends."""
    site = SmallSite()
    wide, narrow = site.submit(3, 100), site.submit(1, 100)
    site.cycle()
    assert site.scheduler.node_names(wide) == ("node-0", "node-1", "node-2")
    assert site.scheduler.node_names(narrow) == ("node-3",)
    site.end(wide)
    again = site.submit(2, 10)
    site.cycle()
    assert site.scheduler.node_names(again) == ("node-0", "node-1")


def test_cancelled_job_leaves_its_place_to_others() -> None:
    """Cancel gives up the plan at once; a running job cannot be cancelled, only stopped."""
    site = SmallSite()
    first, second, third = (site.submit(4, 100) for _ in range(3))
    site.cycle()
    site.scheduler.cancel(second.job_id, 0)
    site.cycle()
    assert second.state is JobState.CANCELLED
    assert third.planned_start == 100
    with pytest.raises(ConflictError):
        site.scheduler.cancel(first.job_id, 0)
    with pytest.raises(NotFoundError):
        site.scheduler.cancel("nobody", 0)


def test_reservation_comes_after_all_queued_jobs() -> None:
    """Policy 1 of the paper: also jobs without a place of their own (EASY) are planned before
    it.
    """
    for config in (EASY, SchedulerConfig()):
        site = SmallSite(config)
        for _ in range(3):
            site.submit(4, 100)
        site.cycle()
        assert site.reserved(4, 50, 0).start == 300


def test_bound_job_runs_inside_its_reservation() -> None:
    """It takes no room from the queue, starts with the reservation, is cut at its end."""
    site = SmallSite()
    reservation = site.reserved(3, 100, 50)
    inside = site.submit(3, 500, bound_to=reservation.reservation_id)
    beside = site.submit(1, 200)
    site.cycle()
    assert (inside.started_at, beside.started_at) == (None, 0)
    assert why(site.scheduler, inside.job_id, 0).reason == str(WaitReason.RESERVATION_AHEAD)
    result = site.cycle(50)
    assert [job.job_id for job in result.starts] == [inside.job_id]
    assert (inside.reservation_id, inside.booked_until) == (reservation.reservation_id, 150)
    assert result.next_wakeup == 150
    assert [job.job_id for job in site.cycle(150).stops] == [inside.job_id]


def test_overdue_job_inside_holds_its_nodes_against_the_plan() -> None:
    """Until its end is reported nobody starts on the nodes, though the reservation is over."""
    site = SmallSite()
    reservation = site.reserved(4, 100, 0)
    inside = site.submit(4, 100, bound_to=reservation.reservation_id)
    site.cycle()
    waiting = site.submit(4, 10)
    site.cycle(100)
    assert waiting.started_at is None
    site.cycle(101)
    assert waiting.started_at is None
    site.now = 105
    site.end(inside)
    site.cycle()
    assert waiting.started_at == 105


def test_listed_jobs_alone_may_use_a_reservation() -> None:
    """reservation -> jobs shuts out other bound jobs until the list is empty again; strangers
    always.
    """
    site = SmallSite()
    reservation = site.reserved(2, 100, 0)
    key = reservation.reservation_id
    mine = site.submit(1, 50, bound_to=key)
    other = site.submit(1, 50, bound_to=key)
    stranger = site.submit(1, 50, owner="bob", bound_to=key)
    site.scheduler.bind_reservation(key, [other.job_id])
    site.cycle()
    assert (mine.started_at, other.started_at, stranger.started_at) == (None, 0, None)
    assert mine.reason is WaitReason.RESERVATION_CLOSED
    site.scheduler.bind_reservation(key, [])
    site.cycle(1)
    assert (mine.started_at, stranger.started_at) == (1, None)


def test_listed_job_of_the_open_queue_keeps_its_place_until_it_starts_inside() -> None:
    """It may run in either; what comes first counts, and its place is free for others then."""
    site = SmallSite()
    site.submit(2, 1000)
    reservation = site.reserved(2, 500, 100)
    open_job, behind = site.submit(3, 100), site.submit(4, 10)
    site.scheduler.bind_reservation(reservation.reservation_id, [open_job.job_id])
    site.cycle()
    assert open_job.planned_start == 1000
    site.cycle(100)
    assert open_job.started_at is None, "three nodes do not fit into two"
    narrow = site.submit(2, 100)
    site.scheduler.bind_reservation(reservation.reservation_id, [narrow.job_id])
    site.cycle(101)
    assert (narrow.started_at, narrow.reservation_id) == (101, reservation.reservation_id)
    assert behind.planned_start == 1100


def test_job_bound_to_a_cancelled_reservation_says_so() -> None:
    """It waits with a reason, and goes back to the open queue when it is unbound."""
    site = SmallSite()
    reservation = site.reserved(2, 100, 50)
    bound = site.submit(2, 10, bound_to=reservation.reservation_id)
    site.release(reservation)
    site.cycle()
    assert bound.reason is WaitReason.RESERVATION_OVER
    site.scheduler.bind_job(bound.job_id, [], 0)
    site.cycle()
    assert bound.started_at == 0


def test_running_job_keeps_its_nodes_when_its_reservation_is_cancelled() -> None:
    """The nodes are the job's own from then on, so nothing is planned on them."""
    site = SmallSite()
    reservation = site.reserved(4, 100, 0)
    inside = site.submit(4, 100, bound_to=reservation.reservation_id)
    site.cycle()
    site.now = 10
    site.release(reservation)
    waiting = site.submit(4, 10)
    result = site.cycle()
    assert result.stops == []
    assert (inside.booked_until, waiting.planned_start) == (100, 100)


def test_overrun_is_tolerated_only_while_nobody_needs_the_nodes() -> None:
    """Grace when idle nodes abound; stopped at the limit when a place would be lost; planned
    around.
    """
    lonely = SmallSite(SchedulerConfig(overrun=OverrunRule(step_s=30, grace_s=120)))
    lonely.submit(4, 100)
    lonely.cycle()
    assert lonely.cycle(100).stops == []
    assert lonely.cycle(101).stops == []
    assert lonely.cycle(131).stops == []
    assert [job.job_id for job in lonely.cycle(221).stops] == ["j1"]

    wanted = SmallSite()
    wanted.submit(4, 100)
    following = wanted.submit(4, 10)
    wanted.cycle()
    assert [job.job_id for job in wanted.cycle(100).stops] == ["j1"]
    wanted.cycle(101)
    assert following.planned_start == 131, "its nodes are booked on in steps of 30 s"


def test_failed_node_leaves_the_plan_and_comes_back() -> None:
    """A place that needs it gets later, the job on it is named, and repair makes room again."""
    site = SmallSite()
    first, second = site.submit(2, 100), site.submit(4, 100)
    site.cycle()
    hit = site.scheduler.node_down("node", "node-0", 10)
    assert hit == [first]
    site.cycle(10)
    assert why(site.scheduler, second.job_id, 10).planned_start is None
    assert why(site.scheduler, second.job_id, 10).reason == str(WaitReason.TOO_FEW_NODES)
    small = site.submit(1, 10)
    site.cycle(11)
    assert site.scheduler.node_names(small) == ("node-2",)
    assert site.scheduler.node_down("node", "node-0", 12) == [first]
    site.scheduler.node_up("node", "node-0", 20)
    site.cycle(20)
    assert second.planned_start == 100
    with pytest.raises(InputError):
        site.scheduler.node_down("node", "elsewhere", 20)


def test_requeued_job_keeps_its_rank() -> None:
    """A job that lost its node runs again from the start, before those that came after it."""
    site = SmallSite(EASY)
    first, second = site.submit(4, 100), site.submit(4, 50)
    site.cycle()
    site.now = 10
    site.scheduler.node_down("node", "node-3", 10)
    site.scheduler.requeue(first.job_id, 10)
    site.scheduler.node_up("node", "node-3", 11)
    site.cycle(11)
    assert (first.started_at, second.planned_start) == (11, 111)


def test_held_job_is_passed_over_and_returns_to_its_turn() -> None:
    """It gives up its place, blocks nobody, and is served by its old rank afterwards."""
    site = SmallSite()
    site.submit(4, 100)
    held, other = site.submit(4, 100), site.submit(4, 100)
    site.cycle()
    site.scheduler.hold(held.job_id, WaitReason.HELD)
    site.cycle(1)
    assert (held.planned_start, held.reason) == (None, WaitReason.HELD)
    assert other.planned_start == 100
    site.scheduler.hold(held.job_id, None)
    site.cycle(2)
    assert (other.planned_start, held.planned_start) == (100, 200), "promises come before ranks"


def test_hold_outlasts_a_binding() -> None:
    """A held job that is unbound from its reservation is held in the open queue as well."""
    site = SmallSite()
    reservation = site.reserved(1, 100, 500)
    job = site.submit(1, 10, bound_to=reservation.reservation_id)
    site.scheduler.hold(job.job_id, WaitReason.HELD)
    site.cycle()
    assert job.reason is WaitReason.HELD
    site.scheduler.bind_job(job.job_id, [], 0)
    site.cycle()
    assert (job.started_at, job.reason) == (None, WaitReason.HELD)


def test_caps_pass_a_job_over_with_its_reason() -> None:
    """A user at the cap waits; the next user's job starts; the cap frees it again."""
    site = SmallSite(SchedulerConfig(limits=JobLimits(jobs_running_max_per_user=1)))
    first, second = site.submit(1, 100), site.submit(1, 100)
    other = site.submit(1, 100, owner="bob")
    site.cycle()
    assert (first.started_at, second.started_at, other.started_at) == (0, None, 0)
    assert why(site.scheduler, second.job_id, 0).reason == str(WaitReason.USER_LIMIT)
    site.now = 5
    site.end(first)
    site.cycle()
    assert second.started_at == 5


def test_suspended_site_starts_nothing_and_catches_up() -> None:
    """Places that fell due meanwhile are dealt anew when the site goes on."""
    site = SmallSite()
    site.scheduler.mode = SchedulerMode.SUSPENDED
    first, second = site.submit(4, 100), site.submit(4, 100)
    site.cycle(10)
    assert first.started_at is None
    site.scheduler.mode = SchedulerMode.RUNNING
    result = site.cycle(500)
    assert (result.starts, second.planned_start) == ([first], 600)


def test_reservation_goes_behind_jobs_that_missed_their_places() -> None:
    """While the site is suspended queued jobs keep their turn: nobody reserves in front of them."""
    site = SmallSite()
    site.submit(4, 100)
    site.submit(4, 100)
    site.cycle()
    site.scheduler.mode = SchedulerMode.SUSPENDED
    site.now = 90
    site.end(site.scheduler.running["j1"])
    site.cycle(400)
    assert site.reserved(4, 50, 0).start == 500


def test_jobs_that_missed_their_places_go_on_in_their_order() -> None:
    """The site was suspended over two places. The first starts when it goes on, the second is
    planned behind that, and in front of whoever comes later.
    """
    site = SmallSite()
    first, second, third = (site.submit(4, 100) for _ in range(3))
    site.cycle()
    site.scheduler.mode = SchedulerMode.SUSPENDED
    site.now = 90
    site.end(first)
    site.cycle(400)
    site.scheduler.mode = SchedulerMode.RUNNING
    assert site.cycle().starts == [second]
    assert third.planned_start == 500
    newcomer = site.submit(4, 100)
    site.cycle(401)
    assert newcomer.planned_start == 600


def test_a_reservation_goes_behind_a_short_job_that_missed_its_place() -> None:
    """A place that is over is none, however little ago it began."""
    site = SmallSite()
    first = site.submit(4, 100)
    site.submit(4, 10)
    site.cycle()
    site.scheduler.mode = SchedulerMode.SUSPENDED
    site.now = 90
    site.end(first)
    site.cycle(115)
    assert site.reserved(4, 50, 0).start == 125


def test_late_cycle_does_not_cost_a_job_its_place() -> None:
    """Two seconds late, with a reservation right behind: the job starts and keeps the end of
    its place.
    """
    site = SmallSite()
    site.submit(4, 100)
    job = site.submit(4, 50)
    site.cycle()
    assert site.reserved(4, 100, 0).start == 150
    site.now = 100
    site.end(site.scheduler.running["j1"])
    site.cycle(102)
    assert (job.started_at, job.booked_until) == (102, 150)


def test_restored_jobs_occupy_what_they_occupied() -> None:
    """After a restart a running job has its nodes, its room and its limit again."""
    before = SmallSite()
    job = before.submit(3, 100)
    before.cycle()
    after = SmallSite()
    again = after.submit(3, 100)
    after.scheduler.cancel(again.job_id, 0)
    job.state = JobState.QUEUED
    names = before.scheduler.node_names(job)
    after.calendar.advance(40)
    after.scheduler.restore_running(job, 100, "", names)
    waiting = after.submit(2, 10)
    after.cycle(40)
    assert after.scheduler.node_names(job) == names
    assert waiting.planned_start == 100
    after.now = 60
    after.end(job)
    after.cycle()
    assert waiting.started_at == 60


def test_queries_show_the_room_that_is_left() -> None:
    """Backfill window, estimate and why agree with the plan and change nothing."""
    site = SmallSite()
    site.submit(3, 100)
    wide = site.submit(4, 50)
    site.cycle()
    windows = backfill_windows(site.scheduler, "node", 0)
    assert [(window.nodes, window.duration_s) for window in windows] == [(1, 100)]
    assert estimate(site.scheduler, "node", 1, 100, 0) == 0
    assert estimate(site.scheduler, "node", 1, 101, 0) == 150
    assert estimate(site.scheduler, "node", 5, 1, 0) is None
    told = why(site.scheduler, wide.job_id, 0)
    assert (told.planned_start, told.is_promised, told.jobs_before) == (100, True, 0)
    assert why(site.scheduler, "j1", 0).reason == ""
    with pytest.raises(NotFoundError):
        why(site.scheduler, "nobody", 0)


def test_reservation_that_does_not_fit_is_declined_with_the_earliest_start() -> None:
    """The refusal names when it would fit, after the queue."""
    site = SmallSite()
    site.submit(4, 1000)
    site.cycle()
    answer = site.reserve(4, 100, 0, 500)
    assert isinstance(answer, Decline)
    assert answer.earliest == 1000


def test_a_drain_that_grows_in_a_cycle_leaves_its_node_to_nobody() -> None:
    """Two reservations of one node; the first is cancelled in the second in which a job elsewhere
    reaches its limit and is still there. The drain of the other takes the node over, so that no
    node is idle, although one is free by promise."""
    site = SmallSite(FCFS, 2)
    overdue = site.submit(1, 3)
    site.cycle(0)
    first = site.fix(["node-1"], 5, 3)
    assert isinstance(first, Reservation)
    assert isinstance(site.fix(["node-1"], 10, 2), Reservation)
    waiting = site.submit(1, 20)
    site.cycle(1)
    site.now = 3
    site.release(first)
    assert site.cycle().starts == []
    site.end(overdue)
    assert site.cycle().starts == [waiting]

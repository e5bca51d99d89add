"""A small site for scheduler tests: calendar, scheduler, and a resource manager that obeys."""

from __future__ import annotations

from gridtravel.gridcore.booking.calendar_rules import ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationRequest
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.reservations.fixed_nodes import decide_fixed_nodes, fixed_request
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.scheduler import CycleResult, LocalScheduler
from gridtravel.local_sched.scheduling.shortpools import Shortpool
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler

CONSERVATIVE = SchedulerConfig()
EASY = SchedulerConfig(backfill=BackfillRule(depth=1))
FCFS = SchedulerConfig(backfill=BackfillRule(depth=0))
REPLAN = SchedulerConfig(backfill=BackfillRule(keeps_planned_starts=False))


class SmallSite:
    """One class of nodes from instant 0 on. Jobs are launched at once and end when the test
    says so.
    """

    def __init__(
        self,
        config: SchedulerConfig = CONSERVATIVE,
        nodes: int = 4,
        shortpool: Shortpool | None = None,
    ) -> None:
        self.calendar = Calendar("here", [ResourceClass(name="node", nodes=nodes)])
        self.scheduler: LocalScheduler = site_scheduler(
            self.calendar, config, shortpools={"node": shortpool} if shortpool else None
        )
        self.now: Instant = 0
        self.serial = 0

    def cycle(self, now: Instant | None = None) -> CycleResult:
        """Time passes to ``now``; what ends with its reservation is swept first, as an agent
        does.
        """
        self.now = self.now if now is None else now
        self.calendar.advance(self.now)
        for event in self.calendar.decide_sweep(self.now):
            self.calendar.apply(event)
        result = self.scheduler.cycle(self.now)
        self.scheduler.validate()
        self.calendar.validate()
        return result

    def submit(self, nodes: int, limit_s: int, *, owner: str = "ann", bound_to: str = "") -> Job:
        """A job of ``owner``, not yet planned."""
        self.serial += 1
        job = Job(f"j{self.serial}", nodes, limit_s, self.now, owner, f"{owner}-account", "node")
        job.bound_to = (bound_to,) if bound_to else ()
        self.scheduler.submit(job, self.now)
        return job

    def end(self, job: Job, exit_code: int = 0) -> None:
        """The job's processes are gone."""
        self.scheduler.job_ended(job.job_id, self.now, exit_code)

    def reserve(
        self,
        nodes: int,
        duration_s: int,
        earliest: Instant,
        latest_end: Instant = 10_000,
        *,
        owner: str = "ann",
    ) -> Reservation | Decline:
        """A user-settable reservation, made where queued jobs leave room."""
        self.serial += 1
        request = ReservationRequest(
            request_id=f"r{self.serial}",
            account="any",
            nodes_min=nodes,
            nodes_max=nodes,
            duration_s=duration_s,
            earliest_start=earliest,
            latest_end=latest_end,
        )
        availability = {"node": self.scheduler.free_after_queue("node", self.now)}
        answer, events = self.calendar.decide_reserve(
            request, owner, None, self.now, availability=availability
        )
        for event in events:
            self.calendar.apply(event)
        return answer

    def reserved(self, *arguments: int, **more: str) -> Reservation:
        """``reserve`` where it must succeed."""
        answer = self.reserve(*arguments, **more)  # type: ignore[arg-type]
        assert isinstance(answer, Reservation), answer
        return answer

    def fix(self, names: list[str], start: Instant, duration_s: int) -> Reservation | Decline:
        """The site reserves nodes by name, as its agent does."""
        self.serial += 1
        request = fixed_request(f"f{self.serial}", names, start, start + duration_s)
        decision = decide_fixed_nodes(self.calendar, self.scheduler, names, request, self.now)
        for event in decision.events:
            self.calendar.apply(event)
        if isinstance(decision.answer, Reservation):
            self.scheduler.drain_nodes(decision.answer, names, self.now)
        return decision.answer

    def release(self, reservation: Reservation) -> None:
        """The reservation is cancelled."""
        events = self.calendar.decide_release(reservation.reservation_id, None, self.now)
        for event in events:
            self.calendar.apply(event)

    def running(self) -> list[str]:
        """Ids of running jobs, in order of start."""
        return [
            job.job_id
            for job in self.scheduler.running.values()
            if job.state in (JobState.STARTING, JobState.RUNNING)
        ]

"""Do user-settable reservations disturb the batch stream? The paper's claim, on a real log.

"None of the 2000+ user accounts on Blue Horizon interrupted, interfered or delayed the overall
batch scheduling process with user-settable reservation capability" (GUR and Catalina paper, section
3).

Here as many accounts ask all the time, each for as much as its limits allow, and leave their nodes
idle, which is the worst they can do. The log is served by the production scheduler on a production
calendar, once without them and once with them; reservations are made by the production rules, after
all queued jobs and within the limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from gridtravel.gridcore.booking.calendar_rules import ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Reservation, ReservationRequest
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.reservations.user_reservations import (
    AccountLimits,
    UserReservationLimits,
    decide_reserve_within_limits,
)
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.site_scheduler import SplitWatch, site_scheduler
from gridtravel.simulator.replay.loop import CLASS_NAME, ReplayWorld, TieRule
from gridtravel.simulator.replay.metrics import ScheduleMetrics, measure
from gridtravel.simulator.replay.swf import TraceJob

CATALINA_LIMITS = UserReservationLimits(
    default=AccountLimits(reservations_max=2, nodes_max=4, duration_max_s=3600),
    window_s=86_400,
    window_node_seconds_max=115_200,
)
"""The defaults of the original (USER_SET_LIMITS_DICT_STRING)."""
PLAN_CHECKS_EVERY = 50
"""Every so many reservations the plan of the whole queue is compared before and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Petitioners:
    """Who asks for reservations, and how often."""

    accounts: int = 2000
    interval_s: int = 600
    """Mean seconds between two requests, all accounts together."""
    ahead_max_s: int = 86_400
    """A request begins at most so far ahead, and may slide as far again."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.accounts < 1 or self.interval_s < 1 or self.ahead_max_s < 1:
            raise InputError("accounts, interval_s and ahead_max_s are at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationStudy:
    """Both schedules and what the petitioners got."""

    without: ScheduleMetrics
    with_reservations: ScheduleMetrics
    asked: int
    granted: int
    reserved_node_seconds: int
    plans_compared: int
    """How often the plan of the queue was compared around a reservation."""
    starts_delayed: int
    """Planned starts that were later after one of those; the promise is 0."""


class PetitionedWorld(ReplayWorld):
    """A replayed machine with a calendar, and accounts that ask for reservations all the time."""

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        procs: int,
        config: SchedulerConfig,
        limits: UserReservationLimits,
        petitioners: Petitioners,
        slot_rule: SlotRule | None = None,
    ) -> None:
        origin = jobs[0].submit if jobs else 0
        self.calendar = Calendar(
            "study",
            [ResourceClass(name=CLASS_NAME, nodes=procs)],
            origin=origin,
            slot_rule=slot_rule,
        )
        self.calendar.take_slots(origin)
        super().__init__(jobs, site_scheduler(self.calendar, config), TieRule.BATCH)
        self.splits = SplitWatch(self.calendar.slots, self.scheduler)
        self.limits = limits
        self.petitioners = petitioners
        self.source = Random(petitioners.seed)
        self.happen = self.everything_and_requests
        self.last_submit = jobs[-1].submit if jobs else 0
        self.next_request: Instant | None = origin
        self.asked = self.granted = self.reserved_node_seconds = 0
        self.plans_compared = self.starts_delayed = 0

    def next_event(self) -> Instant | None:
        """Also the next split of slots, and the next request until the last job has come. Jobs may
        be left that wait for the end of a reservation.
        """
        event = super().next_event()
        if event is None and self.scheduler.waiting:
            event = self.wakeup
        if event is None:
            return None
        event = min(event, self.calendar.slots.next_split)
        return event if self.next_request is None else min(event, self.next_request)

    def everything_and_requests(self, now: Instant) -> None:
        """Ends and arrivals; then, with the queue planned, who asks at this instant."""
        self.everything(now)
        ending = self.calendar.next_end()
        if ending is not None and ending <= now:
            self.calendar.advance(now)
            for event in self.calendar.decide_sweep(now):
                self.calendar.apply(event)
        if self.calendar.slots.next_split <= now:
            self.calendar.advance(now)
            self.splits.look(now)
        if self.next_request is not None and self.next_request <= now:
            self.cycle(now)
            self.ask(now)
            gap_s = self.source.expovariate(1 / self.petitioners.interval_s)
            following = now + max(1, int(gap_s))
            self.next_request = following if following <= self.last_submit else None

    def ask(self, now: Instant) -> None:
        """One account asks for all it may have, somewhere in the time ahead."""
        self.asked += 1
        account = self.limits.default
        duration_s = account.duration_max_s or 3600
        earliest = now + self.source.randrange(self.petitioners.ahead_max_s)
        name = f"account-{self.source.randrange(self.petitioners.accounts)}"
        request = ReservationRequest(
            request_id=f"ask-{self.asked}",
            account=name,
            nodes_min=1,
            nodes_max=account.nodes_max or 1,
            duration_s=duration_s,
            earliest_start=earliest,
            latest_end=earliest + self.petitioners.ahead_max_s + duration_s,
        )
        is_compared = self.granted % PLAN_CHECKS_EVERY == 0
        availability, before = self.scheduler.plan_of_queue(CLASS_NAME, now)
        answer, events = decide_reserve_within_limits(
            self.calendar,
            self.limits,
            request,
            name,
            None,
            now,
            availability={CLASS_NAME: availability},
        )
        for event in events:
            self.calendar.apply(event)
        if isinstance(answer, Reservation):
            self.granted += 1
            self.reserved_node_seconds += answer.nodes * answer.interval.duration_s
            if is_compared:
                after = self.scheduler.plan_of_queue(CLASS_NAME, now)[1]
                self.plans_compared += 1
                self.starts_delayed += sum(after[job] > start for job, start in before.items())


def study_reservations(
    jobs: Sequence[TraceJob],
    procs: int,
    config: SchedulerConfig,
    limits: UserReservationLimits = CATALINA_LIMITS,
    petitioners: Petitioners | None = None,
    slot_rule: SlotRule | None = None,
    progress: Callable[[int], None] | None = None,
) -> ReservationStudy:
    """Serve the log without and with petitioners; the first of both also runs on a calendar.
    ``slot_rule``: how reservations take their time; ``None``: exactly.
    """
    petitioners = petitioners or Petitioners()
    worlds = []
    for asks in (False, True):
        world = PetitionedWorld(jobs, procs, config, limits, petitioners, slot_rule)
        if not asks:
            world.next_request = None
        world.run(progress)
        worlds.append(world)
    plain, petitioned = worlds
    return ReservationStudy(
        without=measure(jobs, plain.starts, procs),
        with_reservations=measure(jobs, petitioned.starts, procs),
        asked=petitioned.asked,
        granted=petitioned.granted,
        reserved_node_seconds=petitioned.reserved_node_seconds,
        plans_compared=petitioned.plans_compared,
        starts_delayed=petitioned.starts_delayed,
    )

"""A stage of a pipeline takes over the files of the one before it, from site to site.

The job of the later stage is submitted with a ``Handover``: which stage, at which site, which
files. Its own site then does the rest, without the laptop: it asks the other site what became of
that stage, fetches the files once it has ended well, and only then lets the job start, at its
reserved start. When the stage before has failed, or the files cannot be had until the job could no
longer run its full time, the job fails and says why, its leg is released, and the stages behind it
hear of that in turn.

Who may have the files is decided by the site that gives them (``access.may_take``): the site,
proven by its certificate, that its own job of the stage before names; those files and no others; as
long as it is among the participants of the trip. The receiving site in turn asks only for the trip
of the job's own reservation, by that trip's id, which nobody learns who does not travel with it; so
a user who names somebody else's stage asks a site that finds no such leg (docs/protocol.md,
section 6).

What a restart must know is journaled: a job whose ``Handover`` is not done waits, and the fetching
goes on with the parts that have arrived.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from gridtravel.agents.journal.events import HandoverDone
from gridtravel.gridcore.booking.reservations import TripRef
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import GridError, InputError, NotFoundError, UnavailableError
from gridtravel.gridcore.jobs.handovers import Handover
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.ports import FileStatus, OutputChunk, SitePort
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridio.sites.transfers import (
    as_announced,
    deliver,
    handed_files,
    some_at_once,
    what_is_there,
)
from gridtravel.local_sched.scheduling.reservation_jobs import START_SLACK_S

if TYPE_CHECKING:
    from gridtravel.agents.jobs.runner import JobRunner
    from gridtravel.agents.journal.events import AgentEvent
    from gridtravel.agents.journal.job_table import JobTable
    from gridtravel.gridcore.booking.calendars import Calendar
    from gridtravel.gridcore.ports import SiteServices
    from gridtravel.gridio.journal.contract import Ticket
    from gridtravel.gridio.sites.neighbours import Neighbours
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.local_sched.scheduling.scheduler import LocalScheduler

log = logging.getLogger(__name__)

LEG_QUESTION: Final = "leg"
"""What became of a leg of a trip (docs/queries.md)."""
ASK_EVERY_MIN_S: Final = 1.0
ASK_EVERY_MAX_S: Final = 30.0
ASK_FRACTION: Final = 20
"""The stage before is asked about after a twentieth of the time that is left, within these bounds:
seldom while the start is far, each second when it is near.
"""


class HandoverReceiver:
    """What this site fetches for jobs of its own."""

    def __init__(
        self,
        *,
        calendar: Calendar,
        scheduler: LocalScheduler,
        jobs: JobTable,
        runner: JobRunner,
        clock: Clock,
        neighbours: Neighbours,
        record: Callable[[Sequence[AgentEvent]], Ticket],
        own: SiteServices,
        itself: Caller,
    ) -> None:
        """``own``: this site's services, for stages that stay here, where ``itself`` calls them,
        and for what is done in the name of a job's owner.
        """
        self._calendar = calendar
        self._scheduler = scheduler
        self._jobs = jobs
        self._runner = runner
        self._clock = clock
        self._neighbours = neighbours
        self._record = record
        self._own = own
        self._itself = itself
        self._under_way: set[str] = set()
        self._group: asyncio.TaskGroup | None = None

    def open(self, group: asyncio.TaskGroup) -> None:
        """Files are fetched by tasks of ``group`` from now on; a leg that a crash left behind
        after its job had failed is released.
        """
        self._group = group
        reservations = self._calendar.reservations
        for view in self._jobs.views.values():
            kept = reservations.get(view.spec.reservation_id)
            failed = view.state is JobState.FAILED and view.started_at is None
            if view.spec.waits_for_files and failed and kept is not None and kept.state.is_live:
                leg = view.spec.reservation_id
                group.create_task(self._runner.release_leg(leg), name="handover")

    def look(self) -> None:
        """Begin whatever waits and is not under way: after a submission, and after a restart."""
        for job_id in self._jobs.awaiting:
            if job_id not in self._under_way and self._group is not None:
                self._under_way.add(job_id)
                self._group.create_task(self._see_to(job_id), name="handover")

    async def _see_to(self, job_id: str) -> None:
        """One job, until its files are there, it fails, or somebody cancels it."""
        view = self._jobs.views[job_id]
        handover = view.spec.handover
        assert handover is not None, "only such jobs are awaiting"
        try:
            reason = await self._take_over(view, handover)
        finally:
            self._under_way.discard(job_id)
        if not self._is_awaiting(job_id):
            return
        if reason:
            await self._runner.give_up(job_id, reason)
            return
        done = HandoverDone(job_id=job_id, at=self._clock.now())
        ticket = self._record([done])
        self._scheduler.hold(job_id, self._jobs.hold_reason(job_id))
        await ticket.durable()

    async def _take_over(self, view: JobView, handover: Handover) -> str:
        """Ask and fetch; the reason why it can never be, or nothing when it is done."""
        own_site = self._calendar.site
        leg = self._calendar.reservations.get(view.spec.reservation_id)
        trip = None if leg is None else leg.request.trip
        if trip is None or handover.site not in trip.participants:
            return f"its reservation belongs to no trip that {handover.site} takes part in"
        if handover.site == own_site:
            return await self._from(self._own.site_port(self._itself), view, handover, trip)
        return await self._from(self._neighbours.way_to(handover).site, view, handover, trip)

    async def _from(self, giver: SitePort, view: JobView, handover: Handover, trip: TripRef) -> str:
        """The same, from this site. What fails may be mended until the time is over."""
        before = f"stage {handover.leg} at {handover.site}"
        why = f"{before} has not ended"
        while self._is_awaiting(view.job_id):
            deadline = self._deadline(view)
            if self._clock.now() > deadline:
                return f"{format_utc(deadline)} was too late to start: {why}"
            try:
                stage = await _ask_about(giver, trip, handover.leg)
                if stage.job is JobState.COMPLETED:
                    return await self._fetch(giver, stage.area, view, handover)
                if stage.job is not None and stage.job.is_over:
                    return f"{before} ended as {stage.job}"
                if stage.job is None and stage.is_over:
                    return f"{before} ran nothing"
                why = f"{before} has not ended" if stage.job else f"{before} has no job"
            except _TimeOverError:
                why = f"the files of {before} were still on their way"
                continue
            except InputError as fault:
                return f"{before}: {fault}"
            except GridError as fault:
                why = f"{before}: {fault}"
            await self._pause(view)
        return ""

    async def _fetch(self, giver: SitePort, area: str, view: JobView, handover: Handover) -> str:
        """Every file that is handed over, as far as it has not arrived before."""
        if not handover.files:
            return ""
        own, own_area = self._own_port(view), view.spec.reservation_id
        there = await what_is_there(own, own_area)
        for handed in handover.files:
            try:
                found = await giver.list_files(area, handed.source, with_checksums=True)
            except NotFoundError:
                return f"stage {handover.leg} at {handover.site} left no file {handed.source!r}"

            async def bring(pair: tuple[FileStatus, FileStatus]) -> None:
                source, target = pair
                read = partial(self._read, view, giver, area, source)
                await deliver(own, own_area, target, read, there.get(target.path))

            await some_at_once(bring, handed_files(found, handed.source, handed.destination))
        return ""

    async def _read(
        self, view: JobView, giver: SitePort, area: str, source: FileStatus, offset: int
    ) -> AsyncIterator[OutputChunk]:
        """A file's content, as long as somebody waits for it."""
        chunks = giver.get_file(area, source.path, offset)
        async for chunk in as_announced(chunks, source, offset):
            if not self._is_awaiting(view.job_id) or self._clock.now() > self._deadline(view):
                raise _TimeOverError(
                    f"nobody waits for {source.path!r} any more", hint="its time is over"
                )
            yield chunk

    # -- inside ------------------------------------------------------------------------------------

    def _own_port(self, view: JobView) -> SitePort:
        """This site's services for the job's owner."""
        return self._own.site_port(_owner_of(view))

    def _is_awaiting(self, job_id: str) -> bool:
        return job_id in self._jobs.awaiting

    def _deadline(self, view: JobView) -> Instant:
        """Until when the job may start; its reservation may have been moved, or be gone."""
        leg = self._calendar.reservations.get(view.spec.reservation_id)
        return 0 if leg is None else leg.start + START_SLACK_S

    async def _pause(self, view: JobView) -> None:
        now = self._clock.now_precise()
        left_s = (self._deadline(view) - now) / ASK_FRACTION
        await self._clock.sleep_until(now + min(max(left_s, ASK_EVERY_MIN_S), ASK_EVERY_MAX_S))


def _owner_of(view: JobView) -> Caller:
    return Caller(subject=f"login:{view.owner}", login=view.owner)


class _TimeOverError(GridError):
    """The job does not wait any more, or could no longer start."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where the stage before stands."""

    area: str
    job: JobState | None
    """``None``: it has none, or none any more."""
    is_over: bool
    """Its time has gone by: no job will come."""


async def _ask_about(giver: SitePort, trip: TripRef, leg: str) -> _Stage:
    answer = await giver.query(LEG_QUESTION, {"trip": trip.trip_id, "leg": leg})
    match answer:
        case {"reservation": str(area), "state": None, "is_over": bool(is_over)}:
            return _Stage(area, None, is_over)
        case {"reservation": str(area), "state": str(state), "is_over": bool(is_over)} if (
            state in set(JobState)
        ):
            return _Stage(area, JobState(state), is_over)
        case _:
            raise UnavailableError("the site answers in an unknown way")

"""The files that a leg's job waits for: seen whole, once, and remembered; or missed, and told.

A file counts when its content has the checksum that came with the job. It is read when it has
arrived, not at the start, when reading a gigabyte would cost the start. What came in while nobody
looked (before the job was known, or just before a crash) is looked for once, then and after a
restart.

A job whose last input has not come by the last second in which it may begin fails and names it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from gridtravel.agents.journal.events import InputArrived, InputsNamed
from gridtravel.gridcore.errors import GridError, InputError, NotFoundError
from gridtravel.gridcore.jobs.inputs import InputFile, check_inputs
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.reservation_jobs import START_SLACK_S

if TYPE_CHECKING:
    from gridtravel.agents.jobs.runner import JobRunner
    from gridtravel.agents.jobs.work_dirs import WorkDirs
    from gridtravel.agents.journal.events import AgentEvent
    from gridtravel.agents.journal.job_table import JobTable
    from gridtravel.gridcore.booking.calendars import Calendar
    from gridtravel.gridcore.ports import FileStatus
    from gridtravel.gridio.journal.contract import Ticket
    from gridtravel.local_sched.scheduling.scheduler import LocalScheduler

log = logging.getLogger(__name__)


class InputKeeper:
    """What has arrived of the inputs of this site's jobs. All methods belong to its event loop."""

    def __init__(
        self,
        *,
        calendar: Calendar,
        scheduler: LocalScheduler,
        jobs: JobTable,
        runner: JobRunner,
        work_dirs: WorkDirs,
        record: Callable[[Sequence[AgentEvent]], Ticket],
    ) -> None:
        self._calendar = calendar
        self._scheduler = scheduler
        self._jobs = jobs
        self._runner = runner
        self._work_dirs = work_dirs
        self._record = record
        self._looked_for: dict[str, tuple[InputFile, ...]] = {}
        """Jobs whose areas have been looked into for these inputs."""
        self._group: asyncio.TaskGroup | None = None

    def open(self, group: asyncio.TaskGroup) -> None:
        """Areas are looked into by tasks of ``group`` from now on."""
        self._group = group

    # -- what arrives ------------------------------------------------------------------------------

    async def arrived(self, reservation_id: str, file: FileStatus) -> None:
        """A transfer into the area has ended, and its content was read for its checksum."""
        path = str(PurePosixPath(file.path))
        legs = self._jobs.legs
        is_known = legs.has_arrived(reservation_id, path, file.sha256)
        is_of_interest = legs.is_remembered(reservation_id, path) or any(
            each.path == path for each in self._expected(reservation_id)
        )
        if is_of_interest and not is_known:
            await self._note([(path, file.sha256)], reservation_id)

    async def name(self, view: JobView, inputs: Sequence[InputFile]) -> None:
        """The files that the traveller has brought from the stage before are these."""
        if not view.spec.relayed_from:
            if not set(inputs) <= set(view.spec.inputs):
                raise InputError(f"the inputs of job {view.job_id} are named, and are others")
            await self._record([]).durable()
            return
        check_inputs((*view.spec.inputs, *inputs))
        ticket = self._record([InputsNamed(job_id=view.job_id, inputs=tuple(inputs))])
        self._let_go(view.job_id)
        await ticket.durable()

    def _expected(self, reservation_id: str) -> list[InputFile]:
        """Inputs of whatever is, or is to be, the job of this leg."""
        change = self._calendar.replacement_of(reservation_id)
        holds = [reservation_id] if change is None else [reservation_id, change.reservation_id]
        held = self._jobs.legs.held
        specs = [held[each].spec for each in holds if each in held]
        specs += [
            view.spec for view in self._waiting() if view.spec.reservation_id == reservation_id
        ]
        return [each for spec in specs for each in spec.inputs]

    async def _note(self, found: Sequence[tuple[str, str]], reservation_id: str) -> None:
        """Write down what is there, and let go whose last file this was."""
        events = [
            InputArrived(reservation_id=reservation_id, path=path, sha256=sha256)
            for path, sha256 in found
        ]
        ticket = self._record(events)
        for view in self._waiting():
            if view.spec.reservation_id == reservation_id:
                self._let_go(view.job_id)
        await ticket.durable()

    def _let_go(self, job_id: str) -> None:
        self._scheduler.hold(job_id, self._jobs.hold_reason(job_id))

    # -- what was there before ---------------------------------------------------------------------

    def look(self) -> None:
        """Look for what may have come while nobody looked, beside everything else; once for each
        job that waits.
        """
        for view in self._waiting():
            is_new = self._looked_for.get(view.job_id) != view.spec.inputs
            if is_new and self._group is not None and self._jobs.legs.lacking(view.spec):
                self._looked_for[view.job_id] = view.spec.inputs
                self._group.create_task(self._look_for(view.job_id), name="inputs")

    async def _look_for(self, job_id: str) -> None:
        spec = self._jobs.views[job_id].spec
        area = spec.reservation_id
        for wanted in self._jobs.legs.lacking(spec):
            try:
                sha256 = await self._content_of(area, wanted)
            except GridError as fault:
                log.info("input %r of %s cannot be read: %s", wanted.path, job_id, fault)
                continue
            if sha256 == wanted.sha256:
                await self._note([(wanted.path, sha256)], area)

    async def _content_of(self, area: str, wanted: InputFile) -> str:
        """The checksum of what lies at an input's place; empty: nothing of its size."""
        try:
            found = await self._work_dirs.list_files(area, wanted.path, with_checksums=False)
            if [each.size_bytes for each in found if not each.is_folder] != [wanted.size_bytes]:
                return ""
            (whole,) = await self._work_dirs.list_files(area, wanted.path, with_checksums=True)
        except (NotFoundError, ValueError):
            return ""
        return whole.sha256

    # -- what never came ---------------------------------------------------------------------------

    async def give_up(self, now: Instant) -> None:
        """Jobs that still lack something when they can no longer begin fail."""
        for view in list(self._waiting()):
            if self._deadline(view) < now and (lacks := self._jobs.lacks(view.job_id)):
                await self._runner.give_up(view.job_id, lacks)

    def next_due(self) -> Instant | None:
        """When the next such job fails unless its files come."""
        waiting = (view for view in self._waiting() if self._jobs.lacks(view.job_id))
        return min((self._deadline(view) + 1 for view in waiting), default=None)

    # -- inside ------------------------------------------------------------------------------------

    def _waiting(self) -> list[JobView]:
        """Jobs in the queue that have inputs, there or not."""
        for gone in [each for each in self._looked_for if each not in self._scheduler.waiting]:
            del self._looked_for[gone]
        views = (self._jobs.views[job_id] for job_id in self._scheduler.reservation_jobs.waiting)
        return [
            view
            for view in views
            if view.state is JobState.QUEUED and (view.spec.inputs or view.spec.relayed_from)
        ]

    def _deadline(self, view: JobView) -> Instant:
        """Until when the job may start; its reservation may have been moved, or be gone."""
        leg = self._calendar.reservations.get(view.spec.reservation_id)
        return 0 if leg is None else leg.start + START_SLACK_S

"""The site port of a site that has only a batch system's commands: jobs, their output, and files.

A job that is waited for is polled, since a batch system notifies nobody; all who wait at once share
one question.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NoReturn

from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationRequest
from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridcore.ports import FileStatus, OutputChunk
from gridtravel.gridio.batch.batch_calendar import BatchCalendar
from gridtravel.gridio.batch.batch_jobs import JOBS, BatchJobs
from gridtravel.gridio.batch.far_areas import FarAreas
from gridtravel.gridio.batch.shell import Shell
from gridtravel.gridio.batch.systems import JOB_PREFIX, BatchSystem, name_of
from gridtravel.gridio.system.clock import Clock

POLL_S: Final = 2.0
"""How often a job that is waited for is asked about: gentle to a batch system's master."""
LISTED_MAX: Final = 100

_ALL: Final = f"set -- $(ls -t jobs | head -n {LISTED_MAX})\n{JOBS}"
_CANCEL: Final = (
    'date +%s > "jobs/$1/cancelled"\n'
    '[ ! -s "jobs/$1/id" ] || b_kill "$(cat "jobs/$1/id")" || exit 1\n' + JOBS
)


class BatchSitePort:
    """``SitePort`` over a batch system's commands, for the account that runs them."""

    def __init__(
        self,
        shell: Shell,
        system: BatchSystem,
        calendar: BatchCalendar,
        jobs: BatchJobs,
        clock: Clock,
        *,
        site: str,
    ) -> None:
        self._shell = shell
        self._system = system
        self._calendar = calendar
        self._jobs = jobs
        self._clock = clock
        self._site = site
        self._areas = FarAreas(shell)
        self._seen: dict[str, tuple[float, JobView]] = {}
        """Jobs that are waited for, and when they were asked about."""

    async def set_reservation(
        self, request: ReservationRequest, *, is_dry_run: bool
    ) -> Reservation | Decline:
        """See ``SitePort``."""
        if is_dry_run:
            return await self._calendar.dry_run(request)
        granted = await self._calendar.reserve(request, ttl_s=0)
        if isinstance(granted, Decline):
            return granted
        return await self._calendar.commit(granted.reservation_id)

    async def reservations(self, *, everybody: bool) -> list[Reservation]:
        """The account's own, also for ``everybody``: those of others have no names of ours."""
        return await self._calendar.reservations()

    async def bind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """A job is bound when it is submitted, and for good."""
        self._cannot("bind jobs to a reservation later")

    async def unbind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """See ``bind``."""
        self._cannot("take jobs out of a reservation")

    async def bind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """See ``bind``."""
        self._cannot("bind a job to several reservations")

    async def unbind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """See ``bind``."""
        self._cannot("take a job out of its reservations")

    async def submit(self, spec: JobSpec) -> JobView | Decline:
        """Hand the job in, once; without a reservation it waits in the batch system's queue."""
        if (refusal := self._jobs.refuse(spec)) is not None:
            return refusal
        reservation: Reservation | None = None
        if spec.reservation_id:
            reservation = await self._calendar.reservation(spec.reservation_id)
        return await self._jobs.queue(spec, reservation)

    async def name_inputs(self, reservation_id: str, inputs: Sequence[InputFile]) -> JobView:
        """See ``SitePort``. Each counts when it has its name there, which it has only when it is
        whole.
        """
        reservation = await self._calendar.reservation(reservation_id)
        if not reservation.job_id or (view := await self._view(reservation.job_id)).state.is_over:
            raise NotFoundError(
                f"{self._site}: no job in {reservation_id} waits for files",
                hint="see what became of it: gur status",
            )
        return await self._jobs.name_inputs(view.job_id, inputs)

    async def cancel_job(self, job_id: str) -> JobView:
        """See ``SitePort``."""
        view = await self._view(job_id)
        if view.state.is_over:
            return view
        answer = await self._shell.ask(_CANCEL, name_of(self._site, job_id, prefix=JOB_PREFIX))
        (view,) = self._jobs.views(answer.parts, answer.user, answer.now)
        return view

    async def jobs(self, *, job_ids: Sequence[str] = (), everybody: bool = False) -> list[JobView]:
        """See ``SitePort``; the account's own, the newest first."""
        if not job_ids:
            answer = await self._shell.ask(_ALL)
            return self._jobs.views(answer.parts, answer.user, answer.now)
        names = [name_of(self._site, each, prefix=JOB_PREFIX) for each in job_ids]
        answer = await self._shell.ask(JOBS, *names)
        views = self._jobs.views(answer.parts, answer.user, answer.now)
        missing = set(job_ids) - {each.job_id for each in views}
        if missing:
            raise NotFoundError(
                f"{self._site} knows no job {min(missing)}",
                hint="it may be over and forgotten by the batch system; see: gur status",
            )
        return views

    async def watch_job(self, job_id: str) -> AsyncIterator[JobView]:
        """See ``SitePort``; changes that come and go between two questions are not seen."""
        last: JobView | None = None
        while last is None or not last.state.is_over:
            if last is not None:
                await self._pause()
            view = await self._view(job_id)
            if last is None or view.state is not last.state:
                yield view
            last = view

    async def follow_output(
        self, job_id: str, stream: str, offset: int
    ) -> AsyncIterator[OutputChunk]:
        """See ``SitePort``."""
        if stream not in ("stdout", "stderr"):
            raise InputError(f"a job has no {stream!r}", hint="stdout or stderr")
        while True:
            view = await self._view(job_id)
            area = view.spec.reservation_id or job_id
            while content := await self._areas.read_on(area, f"{job_id}.{stream}", offset):
                yield OutputChunk(offset=offset, content=content)
                offset += len(content)
            if view.state.is_over:
                return
            await self._pause()

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """A batch system answers none of a site's questions."""
        self._cannot(f"answer the question {name!r}")

    async def order(self, name: str, arguments: Mapping[str, str]) -> object:
        """A batch system takes its orders from its administrators."""
        self._cannot(f"take the order {name!r}")

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """See ``SitePort``."""
        return await self._areas.list_files(self._area(area), path, with_checksums=with_checksums)

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """See ``SitePort``."""
        async for chunk in self._areas.get_file(self._area(area), path, offset):
            yield chunk

    async def put_file(
        self, area: str, path: str, chunks: AsyncIterator[OutputChunk], *, mode: int, sha256: str
    ) -> FileStatus:
        """See ``SitePort``."""
        return await self._areas.put_file(self._area(area), path, chunks, mode=mode, sha256=sha256)

    # -- inside ------------------------------------------------------------------------------------

    def _area(self, area: str) -> str:
        """The area, once it is sure that its name is one of ours."""
        name_of(self._site, area)
        return area

    async def _view(self, job_id: str) -> JobView:
        """The job, as of less than a poll ago."""
        now = self._clock.now_precise()
        asked_at, view = self._seen.get(job_id, (0.0, None))
        if view is None or not 0 <= now - asked_at < POLL_S / 2:
            (view,) = await self.jobs(job_ids=[job_id])
            self._seen[job_id] = (self._clock.now_precise(), view)
        return view

    async def _pause(self) -> None:
        await self._clock.sleep_until(self._clock.now_precise() + POLL_S)

    def _cannot(self, what: str) -> NoReturn:
        raise InputError(
            f"{self._site} is reached by its {self._system.name} commands, which cannot {what}",
            hint="docs/batch-sites.md says what such a site can do",
        )

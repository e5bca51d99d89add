"""The two ports of a site that has several ways: each verb goes by the way that is open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gridcore.jobs import JobSpec, JobView
from gridcore.ports import FileStatus, OutputChunk, SiteDescription
from gridcore.reservations import Availability, Decline, Reservation, ReservationRequest
from gridcore.summaries import CalendarSummary, SummaryDelta
from gridcore.trip_consensus import AcceptorAnswer, VoteQuestion

if TYPE_CHECKING:
    from travel_agent.fallback_site import FallbackSite


class FallbackCalendar:
    """``CalendarPort`` by whichever way is open."""

    def __init__(self, ways: FallbackSite) -> None:
        self._ways = ways

    async def describe(self) -> SiteDescription:
        """What the site is."""
        return await self._ways.ask(lambda to: to.calendar.describe())

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Look, without any effect."""
        return await self._ways.ask(lambda to: to.calendar.inquire(requests))

    async def reserve(self, request: ReservationRequest, *, ttl_s: int) -> Reservation | Decline:
        """Phase one."""
        return await self._ways.ask(lambda to: to.calendar.reserve(request, ttl_s=ttl_s))

    async def commit(self, reservation_id: str) -> Reservation | Decline:
        """Phase two."""
        return await self._ways.ask(lambda to: to.calendar.commit(reservation_id))

    async def release(self, reservation_id: str) -> None:
        """Undo a hold or cancel a reservation."""
        await self._ways.ask(lambda to: to.calendar.release(reservation_id))

    async def release_request(self, request_id: str) -> None:
        """Undo whatever a request booked or may yet book."""
        await self._ways.ask(lambda to: to.calendar.release_request(request_id))

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """New window or size in one step."""
        return await self._ways.ask(lambda to: to.calendar.amend(reservation_id, request))

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """One question to an acceptor."""
        return await self._ways.ask(lambda to: to.calendar.vote(question))

    def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """A full summary, then changes."""
        return self._ways.listen(lambda to: to.calendar.subscribe())


class FallbackSitePort:
    """``SitePort`` by whichever way is open."""

    def __init__(self, ways: FallbackSite) -> None:
        self._ways = ways

    async def set_reservation(
        self, request: ReservationRequest, *, is_dry_run: bool
    ) -> Reservation | Decline:
        """The site's user-settable reservation."""
        return await self._ways.ask(
            lambda to: to.site.set_reservation(request, is_dry_run=is_dry_run)
        )

    async def reservations(self, *, everybody: bool) -> list[Reservation]:
        """The caller's reservations, or all."""
        return await self._ways.ask(lambda to: to.site.reservations(everybody=everybody))

    async def bind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """Only these jobs may use the reservation."""
        await self._ways.ask(lambda to: to.site.bind(reservation_id, job_ids))

    async def unbind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """Undo ``bind``."""
        await self._ways.ask(lambda to: to.site.unbind(reservation_id, job_ids))

    async def bind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """The job may run only inside these reservations."""
        await self._ways.ask(lambda to: to.site.bind_job(job_id, reservation_ids))

    async def unbind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """Undo ``bind_job``."""
        await self._ways.ask(lambda to: to.site.unbind_job(job_id, reservation_ids))

    async def submit(self, spec: JobSpec) -> JobView | Decline:
        """Queue a job."""
        return await self._ways.ask(lambda to: to.site.submit(spec))

    async def cancel_job(self, job_id: str) -> JobView:
        """End a job."""
        return await self._ways.ask(lambda to: to.site.cancel_job(job_id))

    async def jobs(self, *, job_ids: Sequence[str] = (), everybody: bool = False) -> list[JobView]:
        """The caller's jobs, or those named."""
        return await self._ways.ask(lambda to: to.site.jobs(job_ids=job_ids, everybody=everybody))

    def watch_job(self, job_id: str) -> AsyncIterator[JobView]:
        """The job now, then at each change."""
        return self._ways.listen(lambda to: to.site.watch_job(job_id))

    def follow_output(self, job_id: str, stream: str, offset: int) -> AsyncIterator[OutputChunk]:
        """Output from ``offset`` on."""
        return self._ways.listen(lambda to: to.site.follow_output(job_id, stream, offset))

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """One of the site's read-only questions."""
        return await self._ways.ask(lambda to: to.site.query(name, arguments))

    async def order(self, name: str, arguments: Mapping[str, str]) -> object:
        """An administrator's order about the site itself."""
        return await self._ways.ask(lambda to: to.site.order(name, arguments))

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """Files of an area."""
        return await self._ways.ask(
            lambda to: to.site.list_files(area, path, with_checksums=with_checksums)
        )

    def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """Content of a file from ``offset`` on."""
        return self._ways.listen(lambda to: to.site.get_file(area, path, offset))

    async def put_file(
        self, area: str, path: str, chunks: AsyncIterator[OutputChunk], *, mode: int, sha256: str
    ) -> FileStatus:
        """Write a file."""
        return await self._ways.tell_once(
            lambda to: to.site.put_file(area, path, chunks, mode=mode, sha256=sha256)
        )

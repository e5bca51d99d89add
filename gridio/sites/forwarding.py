"""Ports that decide nothing: whatever is asked of them goes to somebody else, as one ``Call``.

The verbs stand here once, with their types. Who forwards says how a call is carried (to another
port, by whichever way is open, over a wire) and overrides the verbs that it changes on the way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary, SummaryDelta
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridcore.ports import (
    CalendarPort,
    FileStatus,
    OutputChunk,
    SiteDescription,
    SitePort,
)
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion

Port = TypeVar("Port")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[Port, R]):
    """One verb of a port, and the words that it is said with."""

    verb: str
    words: tuple[Any, ...]
    named: Mapping[str, Any]

    def at(self, port: Port) -> R:
        """Say it to ``port``."""
        return cast(R, getattr(port, self.verb)(*self.words, **self.named))


def call(
    verb: Callable[Concatenate[Port, P], R], *words: P.args, **named: P.kwargs
) -> Call[Port, R]:
    """``verb`` of a port's Protocol, said with these words, whose types are checked against it."""
    return Call(verb.__name__, words, named)


class Forwarding(ABC, Generic[Port]):
    """How the calls of a port are carried."""

    @abstractmethod
    async def ask(self, call: Call[Port, Awaitable[T]]) -> T:
        """Carry a question, and bring its answer."""

    @abstractmethod
    def listen(self, call: Call[Port, AsyncIterator[T]]) -> AsyncIterator[T]:
        """Carry a question, and bring its answers one by one."""

    async def tell(self, call: Call[Port, Awaitable[T]]) -> T:
        """Carry what can be said only once, because saying it uses it up."""
        return await self.ask(call)


class ForwardingCalendar(Forwarding[CalendarPort]):
    """A ``CalendarPort`` that forwards."""

    async def describe(self) -> SiteDescription:
        """See ``CalendarPort``."""
        return await self.ask(call(CalendarPort.describe))

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """See ``CalendarPort``."""
        return await self.ask(call(CalendarPort.inquire, requests))

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: HeldJob | None = None
    ) -> Reservation | Decline:
        """See ``CalendarPort``."""
        return await self.ask(call(CalendarPort.reserve, request, ttl_s=ttl_s, job=job))

    async def commit(
        self, reservation_id: str, *, manifest: Manifest = NO_CONTACTS
    ) -> Reservation | Decline:
        """See ``CalendarPort``."""
        return await self.ask(call(CalendarPort.commit, reservation_id, manifest=manifest))

    async def release(self, reservation_id: str) -> None:
        """See ``CalendarPort``."""
        await self.ask(call(CalendarPort.release, reservation_id))

    async def release_request(self, request_id: str) -> None:
        """See ``CalendarPort``."""
        await self.ask(call(CalendarPort.release_request, request_id))

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """See ``CalendarPort``."""
        return await self.ask(call(CalendarPort.amend, reservation_id, request))

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """See ``CalendarPort``."""
        return await self.ask(call(CalendarPort.vote, question))

    def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """See ``CalendarPort``."""
        return self.listen(call(CalendarPort.subscribe))


class ForwardingSite(Forwarding[SitePort]):
    """A ``SitePort`` that forwards."""

    async def set_reservation(
        self, request: ReservationRequest, *, is_dry_run: bool
    ) -> Reservation | Decline:
        """See ``SitePort``."""
        return await self.ask(call(SitePort.set_reservation, request, is_dry_run=is_dry_run))

    async def reservations(self, *, everybody: bool) -> list[Reservation]:
        """See ``SitePort``."""
        return await self.ask(call(SitePort.reservations, everybody=everybody))

    async def bind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """See ``SitePort``."""
        await self.ask(call(SitePort.bind, reservation_id, job_ids))

    async def unbind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """See ``SitePort``."""
        await self.ask(call(SitePort.unbind, reservation_id, job_ids))

    async def bind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """See ``SitePort``."""
        await self.ask(call(SitePort.bind_job, job_id, reservation_ids))

    async def unbind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """See ``SitePort``."""
        await self.ask(call(SitePort.unbind_job, job_id, reservation_ids))

    async def submit(self, spec: JobSpec) -> JobView | Decline:
        """See ``SitePort``."""
        return await self.ask(call(SitePort.submit, spec))

    async def name_inputs(self, reservation_id: str, inputs: Sequence[InputFile]) -> JobView:
        """See ``SitePort``."""
        return await self.ask(call(SitePort.name_inputs, reservation_id, inputs))

    async def cancel_job(self, job_id: str) -> JobView:
        """See ``SitePort``."""
        return await self.ask(call(SitePort.cancel_job, job_id))

    async def jobs(self, *, job_ids: Sequence[str] = (), everybody: bool = False) -> list[JobView]:
        """See ``SitePort``."""
        return await self.ask(call(SitePort.jobs, job_ids=job_ids, everybody=everybody))

    def watch_job(self, job_id: str) -> AsyncIterator[JobView]:
        """See ``SitePort``."""
        return self.listen(call(SitePort.watch_job, job_id))

    def follow_output(self, job_id: str, stream: str, offset: int) -> AsyncIterator[OutputChunk]:
        """See ``SitePort``."""
        return self.listen(call(SitePort.follow_output, job_id, stream, offset))

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """See ``SitePort``."""
        return await self.ask(call(SitePort.query, name, arguments))

    async def order(self, name: str, arguments: Mapping[str, str]) -> object:
        """See ``SitePort``."""
        return await self.ask(call(SitePort.order, name, arguments))

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """See ``SitePort``."""
        return await self.ask(call(SitePort.list_files, area, path, with_checksums=with_checksums))

    def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """See ``SitePort``."""
        return self.listen(call(SitePort.get_file, area, path, offset))

    async def put_file(
        self, area: str, path: str, chunks: AsyncIterator[OutputChunk], *, mode: int, sha256: str
    ) -> FileStatus:
        """See ``SitePort``."""
        return await self.tell(
            call(SitePort.put_file, area, path, chunks, mode=mode, sha256=sha256)
        )

"""``SitePort`` over a wire: values out, values back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing

from gridcore.jobs import JobSpec, JobView
from gridcore.ports import FileStatus, OutputChunk
from gridcore.reservations import Decline, Reservation, ReservationRequest
from gridio.clock import Clock
from gridio.rpc import verbs
from gridio.rpc.codec import decode_answer, decode_reservation, encode_request
from gridio.rpc.codec_checks import build
from gridio.rpc.codec_site import (
    decode_chunk,
    decode_file,
    decode_job,
    decode_json,
    decode_submission,
    encode_chunks,
    encode_spec,
)
from gridio.rpc.wire import Wire, understood
from gridwire.v1 import site_pb2 as pb


class WireSite:
    """The site at the other end of ``wire``, for its own users and for the legs of a trip."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock

    async def set_reservation(
        self, request: ReservationRequest, *, is_dry_run: bool
    ) -> Reservation | Decline:
        """The site's user-settable reservation in one step."""
        question = build(
            pb.SetReservationRequest, request=encode_request(request), is_dry_run=is_dry_run
        )
        asked_at = self._clock.now_precise()
        answer = await self._wire.ask(verbs.SET_RESERVATION, question)
        return understood(self._wire, decode_answer, answer, asked_at)

    async def reservations(self, *, everybody: bool) -> list[Reservation]:
        """The caller's reservations; ``everybody``: all that the caller may see."""
        asked_at = self._clock.now_precise()
        question = pb.ListReservationsRequest(everybody=everybody)
        answer = await self._wire.ask(verbs.LIST_RESERVATIONS, question)
        return [
            understood(self._wire, decode_reservation, each, asked_at)
            for each in answer.reservations
        ]

    async def bind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """Only these jobs (and those bound before) may use the reservation."""
        question = build(pb.BindRequest, reservation_id=reservation_id, job_ids=job_ids)
        await self._wire.ask(verbs.BIND, question)

    async def unbind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """Undo ``bind``."""
        question = build(pb.BindRequest, reservation_id=reservation_id, job_ids=job_ids)
        await self._wire.ask(verbs.UNBIND, question)

    async def bind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """The job may run only inside the union of these reservations."""
        question = build(pb.BindJobRequest, job_id=job_id, reservation_ids=reservation_ids)
        await self._wire.ask(verbs.BIND_JOB, question)

    async def unbind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """Undo ``bind_job``."""
        question = build(pb.BindJobRequest, job_id=job_id, reservation_ids=reservation_ids)
        await self._wire.ask(verbs.UNBIND_JOB, question)

    async def submit(self, spec: JobSpec) -> JobView | Decline:
        """Queue a job."""
        answer = await self._wire.ask(verbs.SUBMIT, build(pb.SubmitRequest, spec=encode_spec(spec)))
        return understood(self._wire, decode_submission, answer)

    async def cancel_job(self, job_id: str) -> JobView:
        """End a job."""
        answer = await self._wire.ask(verbs.CANCEL_JOB, build(pb.CancelJobRequest, job_id=job_id))
        return understood(self._wire, decode_job, answer)

    async def jobs(self, *, job_ids: Sequence[str] = (), everybody: bool = False) -> list[JobView]:
        """The caller's jobs, or those named."""
        question = build(pb.ListJobsRequest, job_ids=job_ids, everybody=everybody)
        answer = await self._wire.ask(verbs.LIST_JOBS, question)
        return [understood(self._wire, decode_job, each) for each in answer.jobs]

    async def watch_job(self, job_id: str) -> AsyncIterator[JobView]:
        """The job now, then at each change, until it is over."""
        question = build(pb.WatchJobRequest, job_id=job_id)
        messages = self._wire.listen(verbs.WATCH_JOB, question)
        async with aclosing(messages):
            async for message in messages:
                yield understood(self._wire, decode_job, message)

    async def follow_output(
        self, job_id: str, stream: str, offset: int
    ) -> AsyncIterator[OutputChunk]:
        """``stdout`` or ``stderr`` from ``offset`` on."""
        question = build(pb.FollowOutputRequest, job_id=job_id, stream=stream, offset=offset)
        messages = self._wire.listen(verbs.FOLLOW_OUTPUT, question)
        async with aclosing(messages):
            async for message in messages:
                yield understood(self._wire, decode_chunk, message)

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """One of the site's read-only questions; the answer is JSON-like."""
        question = build(pb.QueryRequest, name=name, arguments=dict(arguments))
        answer = await self._wire.ask(verbs.QUERY, question)
        return understood(self._wire, decode_json, answer.json)

    async def order(self, name: str, arguments: Mapping[str, str]) -> object:
        """An administrator's order; the answer is JSON-like."""
        question = build(pb.QueryRequest, name=name, arguments=dict(arguments))
        answer = await self._wire.ask(verbs.ORDER, question)
        return understood(self._wire, decode_json, answer.json)

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """Files of an area below ``path``."""
        question = build(pb.ListFilesRequest, area=area, path=path, with_checksums=with_checksums)
        answer = await self._wire.ask(verbs.LIST_FILES, question)
        return [understood(self._wire, decode_file, each) for each in answer.files]

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """Content of a file from ``offset`` on."""
        question = build(pb.GetFileRequest, area=area, path=path, offset=offset)
        messages = self._wire.listen(verbs.GET_FILE, question)
        async with aclosing(messages):
            async for message in messages:
                yield understood(self._wire, decode_chunk, message)

    async def put_file(
        self, area: str, path: str, chunks: AsyncIterator[OutputChunk], *, mode: int, sha256: str
    ) -> FileStatus:
        """Write a file."""
        head = build(pb.PutFileHead, area=area, path=path, mode=mode, sha256=sha256)
        answer = await self._wire.tell(verbs.PUT_FILE, _parts(head, chunks))
        return understood(self._wire, decode_file, answer)


async def _parts(
    head: pb.PutFileHead, chunks: AsyncIterator[OutputChunk]
) -> AsyncIterator[pb.PutFileRequest]:
    yield pb.PutFileRequest(head=head)
    async for chunk in chunks:
        for message in encode_chunks(chunk):
            yield pb.PutFileRequest(chunk=message)
    yield pb.PutFileRequest()

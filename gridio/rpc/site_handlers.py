"""The site service, message in and message out, on top of any ``SitePort``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator

from google.protobuf.message import Message

from gridcore.errors import UnavailableError
from gridcore.ports import OutputChunk, SitePort
from gridio.clock import Clock
from gridio.rpc import verbs
from gridio.rpc.codec import decode_id, decode_request, encode_answer, encode_reservation
from gridio.rpc.codec_checks import ITEMS_MAX, count, label, refuse, text
from gridio.rpc.codec_site import (
    MODE_MAX,
    decode_chunk,
    decode_ids,
    decode_path,
    decode_sha256,
    decode_spec,
    encode_chunks,
    encode_file,
    encode_job,
    encode_json,
    encode_submission,
)
from gridio.rpc.handlers import Handlers, closing
from gridwire.v1 import common_pb2
from gridwire.v1 import site_pb2 as pb

STREAM_NAMES = ("stdout", "stderr")


class SiteHandlers(Handlers[SitePort]):
    """One method for each verb; ``port`` belongs to the caller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        super().__init__(
            unary={
                verbs.SET_RESERVATION: self.set_reservation,
                verbs.LIST_RESERVATIONS: self.list_reservations,
                verbs.BIND: self.bind,
                verbs.UNBIND: self.unbind,
                verbs.BIND_JOB: self.bind_job,
                verbs.UNBIND_JOB: self.unbind_job,
                verbs.SUBMIT: self.submit,
                verbs.CANCEL_JOB: self.cancel_job,
                verbs.LIST_JOBS: self.list_jobs,
                verbs.QUERY: self.query,
                verbs.ORDER: self.order,
                verbs.LIST_FILES: self.list_files,
            },
            reply_stream={
                verbs.WATCH_JOB: self.watch_job,
                verbs.FOLLOW_OUTPUT: self.follow_output,
                verbs.GET_FILE: self.get_file,
            },
            request_stream={verbs.PUT_FILE: self.put_file},
        )

    async def set_reservation(
        self, port: SitePort, message: pb.SetReservationRequest
    ) -> common_pb2.ReservationOrDecline:
        """The user-settable reservation."""
        request = decode_request(message.request)
        answer = await port.set_reservation(request, is_dry_run=message.is_dry_run)
        return encode_answer(answer, self._clock.now_precise())

    async def list_reservations(
        self, port: SitePort, message: pb.ListReservationsRequest
    ) -> pb.ListReservationsReply:
        """The caller's reservations, or everybody's."""
        found = await port.reservations(everybody=message.everybody)
        now = self._clock.now_precise()
        return pb.ListReservationsReply(
            reservations=[encode_reservation(each, now) for each in found]
        )

    async def bind(self, port: SitePort, message: pb.BindRequest) -> pb.BindReply:
        """Jobs to a reservation."""
        reservation_id = decode_id("reservation_id", message.reservation_id)
        await port.bind(reservation_id, decode_ids("job_ids", message.job_ids))
        return pb.BindReply()

    async def unbind(self, port: SitePort, message: pb.BindRequest) -> pb.BindReply:
        """The reverse of ``bind``."""
        reservation_id = decode_id("reservation_id", message.reservation_id)
        await port.unbind(reservation_id, decode_ids("job_ids", message.job_ids))
        return pb.BindReply()

    async def bind_job(self, port: SitePort, message: pb.BindJobRequest) -> pb.BindReply:
        """A job to reservations."""
        job_id = decode_id("job_id", message.job_id)
        await port.bind_job(job_id, decode_ids("reservation_ids", message.reservation_ids))
        return pb.BindReply()

    async def unbind_job(self, port: SitePort, message: pb.BindJobRequest) -> pb.BindReply:
        """The reverse of ``bind_job``."""
        job_id = decode_id("job_id", message.job_id)
        await port.unbind_job(job_id, decode_ids("reservation_ids", message.reservation_ids))
        return pb.BindReply()

    async def submit(self, port: SitePort, message: pb.SubmitRequest) -> pb.SubmitReply:
        """Queue a job."""
        return encode_submission(await port.submit(decode_spec(message.spec)))

    async def cancel_job(self, port: SitePort, message: pb.CancelJobRequest) -> pb.Job:
        """End a job."""
        return encode_job(await port.cancel_job(decode_id("job_id", message.job_id)))

    async def list_jobs(self, port: SitePort, message: pb.ListJobsRequest) -> pb.ListJobsReply:
        """The caller's jobs, everybody's, or those named."""
        job_ids = decode_ids("job_ids", message.job_ids)
        found = await port.jobs(job_ids=job_ids, everybody=message.everybody)
        return pb.ListJobsReply(jobs=[encode_job(each) for each in found])

    async def query(self, port: SitePort, message: pb.QueryRequest) -> pb.QueryReply:
        """A read-only question."""
        answer = await port.query(label("name", message.name), _arguments(message))
        return pb.QueryReply(json=encode_json(answer))

    async def order(self, port: SitePort, message: pb.QueryRequest) -> pb.QueryReply:
        """An administrator's order."""
        answer = await port.order(label("name", message.name), _arguments(message))
        return pb.QueryReply(json=encode_json(answer))

    async def list_files(self, port: SitePort, message: pb.ListFilesRequest) -> pb.ListFilesReply:
        """Files of an area."""
        found = await port.list_files(
            decode_id("area", message.area),
            decode_path("path", message.path),
            with_checksums=message.with_checksums,
        )
        return pb.ListFilesReply(files=[encode_file(each) for each in found])

    async def watch_job(
        self, port: SitePort, message: pb.WatchJobRequest
    ) -> AsyncGenerator[Message, None]:
        """The job now, then at each change."""
        async with closing(port.watch_job(decode_id("job_id", message.job_id))) as views:
            async for view in views:
                yield encode_job(view)

    async def follow_output(
        self, port: SitePort, message: pb.FollowOutputRequest
    ) -> AsyncGenerator[Message, None]:
        """Output of a job."""
        if message.stream not in STREAM_NAMES:
            refuse("stream", f"must be one of {', '.join(STREAM_NAMES)}")
        job_id = decode_id("job_id", message.job_id)
        chunks = port.follow_output(job_id, message.stream, count("offset", message.offset))
        async with closing(chunks):
            async for chunk in chunks:
                for piece in encode_chunks(chunk):
                    yield piece

    async def get_file(
        self, port: SitePort, message: pb.GetFileRequest
    ) -> AsyncGenerator[Message, None]:
        """Content of a file."""
        area, path = decode_id("area", message.area), decode_path("path", message.path)
        async with closing(port.get_file(area, path, count("offset", message.offset))) as chunks:
            async for chunk in chunks:
                for piece in encode_chunks(chunk):
                    yield piece

    async def put_file(
        self, port: SitePort, parts: AsyncIterable[pb.PutFileRequest]
    ) -> pb.FileStatus:
        """Write a file: its head, then its content."""
        iterator = aiter(parts)
        first = await anext(iterator, None)
        if first is None or first.WhichOneof("part") != "head":
            refuse("part", "must be the head of the file at first")
        head = first.head
        status = await port.put_file(
            decode_id("area", head.area),
            decode_path("path", head.path),
            _chunks(iterator),
            mode=count("mode", head.mode, 0, MODE_MAX),
            sha256=decode_sha256("sha256", head.sha256),
        )
        return encode_file(status)


async def _chunks(parts: AsyncIterator[pb.PutFileRequest]) -> AsyncIterator[OutputChunk]:
    """Content until the empty part that says it is whole.

    The end of the stream alone does not say so: to a gRPC server an upload that was cancelled may
    look as if its sender had finished, and half a file would be taken for the file.
    """
    async for part in parts:
        which = part.WhichOneof("part")
        if which is None:
            return
        if which != "chunk":
            refuse("part", "must be content after the head of the file")
        yield decode_chunk(part.chunk)
    raise UnavailableError("the upload broke off", hint="send the rest")


def _arguments(message: pb.QueryRequest) -> dict[str, str]:
    """The arguments of a question or an order, in order of their names."""
    if len(message.arguments) > ITEMS_MAX:
        refuse("arguments", f"has more than {ITEMS_MAX} entries")
    return {
        label("arguments", name): text("arguments", value)
        for name, value in sorted(message.arguments.items())
    }

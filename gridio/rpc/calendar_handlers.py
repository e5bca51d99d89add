"""The calendar service, message in and message out, on top of any ``CalendarPort``.

Who asks, deadlines, faults and metadata are not here but around it (``calls.py``), so that the same
handlers serve a gRPC server and the wire within one process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.protobuf.message import Message

from gridcore.ports import CalendarPort
from gridio.clock import Clock
from gridio.rpc import verbs
from gridio.rpc.codec import decode_id, decode_request, encode_answer
from gridio.rpc.codec_calendar import (
    decode_inquiry,
    encode_answers,
    encode_description,
    encode_news,
)
from gridio.rpc.codec_checks import refuse
from gridio.rpc.codec_votes import decode_vote_question, encode_vote_answer
from gridio.rpc.handlers import Handlers, closing
from gridwire.v1 import calendar_pb2 as pb
from gridwire.v1 import common_pb2


class CalendarHandlers(Handlers[CalendarPort]):
    """One method for each verb; ``port`` belongs to the caller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        super().__init__(
            unary={
                verbs.DESCRIBE: self.describe,
                verbs.INQUIRE: self.inquire,
                verbs.RESERVE: self.reserve,
                verbs.COMMIT: self.commit,
                verbs.RELEASE: self.release,
                verbs.AMEND: self.amend,
                verbs.VOTE: self.vote,
            },
            reply_stream={verbs.SUBSCRIBE: self.subscribe},
        )

    async def describe(self, port: CalendarPort, _: pb.DescribeRequest) -> pb.SiteDescription:
        """What the site is."""
        return encode_description(await port.describe())

    async def inquire(self, port: CalendarPort, message: pb.InquireRequest) -> pb.InquireReply:
        """Look, without any effect."""
        return encode_answers(await port.inquire(decode_inquiry(message)))

    async def vote(self, port: CalendarPort, message: pb.VoteRequest) -> pb.VoteReply:
        """One question to an acceptor."""
        return encode_vote_answer(await port.vote(decode_vote_question(message)))

    async def reserve(
        self, port: CalendarPort, message: pb.ReserveRequest
    ) -> common_pb2.ReservationOrDecline:
        """Phase one."""
        request = decode_request(message.request)
        answer = await port.reserve(request, ttl_s=message.ttl_s)
        return encode_answer(answer, self._clock.now_precise())

    async def commit(
        self, port: CalendarPort, message: pb.CommitRequest
    ) -> common_pb2.ReservationOrDecline:
        """Phase two."""
        answer = await port.commit(decode_id("reservation_id", message.reservation_id))
        return encode_answer(answer, self._clock.now_precise())

    async def release(self, port: CalendarPort, message: pb.ReleaseRequest) -> pb.ReleaseReply:
        """Undo a reservation, or whatever a request booked."""
        which = message.WhichOneof("what")
        if which == "reservation_id":
            await port.release(decode_id("reservation_id", message.reservation_id))
        elif which == "request_id":
            await port.release_request(decode_id("request_id", message.request_id))
        else:
            refuse("what", "is missing")
        return pb.ReleaseReply()

    async def amend(
        self, port: CalendarPort, message: pb.AmendRequest
    ) -> common_pb2.ReservationOrDecline:
        """New window or size."""
        reservation_id = decode_id("reservation_id", message.reservation_id)
        answer = await port.amend(reservation_id, decode_request(message.request))
        return encode_answer(answer, self._clock.now_precise())

    async def subscribe(
        self, port: CalendarPort, _: pb.SubscribeRequest
    ) -> AsyncGenerator[Message, None]:
        """A full summary, then changes."""
        async with closing(port.subscribe()) as all_news:
            async for news in all_news:
                yield encode_news(news)

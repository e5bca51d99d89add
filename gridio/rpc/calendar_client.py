"""``CalendarPort`` over a wire: values out, values back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from gridcore.ports import SiteDescription
from gridcore.reservations import Availability, Decline, Reservation, ReservationRequest
from gridcore.summaries import CalendarSummary, SummaryDelta
from gridcore.trip_consensus import AcceptorAnswer, VoteQuestion
from gridio.clock import Clock
from gridio.rpc import verbs
from gridio.rpc.codec import decode_answer, encode_request
from gridio.rpc.codec_calendar import (
    decode_answers,
    decode_description,
    decode_news,
    encode_inquiry,
)
from gridio.rpc.codec_checks import build
from gridio.rpc.codec_votes import decode_vote_answer, encode_vote_question
from gridio.rpc.wire import Wire, understood
from gridwire.v1 import calendar_pb2 as pb


class WireCalendar:
    """The calendar of the site at the other end of ``wire``."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock

    async def describe(self) -> SiteDescription:
        """What the site is."""
        answer = await self._wire.ask(verbs.DESCRIBE, pb.DescribeRequest())
        return understood(self._wire, decode_description, answer)

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Look, without any effect; one answer a request, in order."""
        answer = await self._wire.ask(verbs.INQUIRE, encode_inquiry(requests))
        return understood(self._wire, decode_answers, answer, len(requests))

    async def reserve(self, request: ReservationRequest, *, ttl_s: int) -> Reservation | Decline:
        """Phase one: a hold."""
        question = build(pb.ReserveRequest, request=encode_request(request), ttl_s=ttl_s)
        asked_at = self._clock.now_precise()
        answer = await self._wire.ask(verbs.RESERVE, question)
        return understood(self._wire, decode_answer, answer, asked_at)

    async def commit(self, reservation_id: str) -> Reservation | Decline:
        """Phase two."""
        question = build(pb.CommitRequest, reservation_id=reservation_id)
        asked_at = self._clock.now_precise()
        answer = await self._wire.ask(verbs.COMMIT, question)
        return understood(self._wire, decode_answer, answer, asked_at)

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """One question to an acceptor."""
        answer = await self._wire.ask(verbs.VOTE, encode_vote_question(question))
        return understood(self._wire, decode_vote_answer, answer)

    async def release(self, reservation_id: str) -> None:
        """Undo a hold or cancel a reservation."""
        question = build(pb.ReleaseRequest, reservation_id=reservation_id)
        await self._wire.ask(verbs.RELEASE, question)

    async def release_request(self, request_id: str) -> None:
        """Undo whatever the request booked or may yet book."""
        await self._wire.ask(verbs.RELEASE, build(pb.ReleaseRequest, request_id=request_id))

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """New window or size in one step."""
        question = build(
            pb.AmendRequest, reservation_id=reservation_id, request=encode_request(request)
        )
        asked_at = self._clock.now_precise()
        answer = await self._wire.ask(verbs.AMEND, question)
        return understood(self._wire, decode_answer, answer, asked_at)

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """A full summary, then changes."""
        messages = self._wire.listen(verbs.SUBSCRIBE, pb.SubscribeRequest())
        async with aclosing(messages):
            async for news in messages:
                yield understood(self._wire, decode_news, news)

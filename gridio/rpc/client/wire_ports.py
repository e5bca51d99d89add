"""The ports of a site over a wire: values out, values back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import aclosing
from typing import TypeVar, cast

from gridtravel.gridcore.booking.reservations import Availability, Decline, ReservationRequest
from gridtravel.gridcore.ports import CalendarPort, FileStatus, OutputChunk, SitePort
from gridtravel.gridio.rpc import verbs
from gridtravel.gridio.rpc.codec.calendar_messages import check_number
from gridtravel.gridio.rpc.codec.checks import build
from gridtravel.gridio.rpc.codec.site_messages import CHUNK, FILE, cut
from gridtravel.gridio.rpc.port_verbs import PORT_VERBS
from gridtravel.gridio.rpc.wire import Wire, understood
from gridtravel.gridio.sites.forwarding import (
    Call,
    Forwarding,
    ForwardingCalendar,
    ForwardingSite,
    Port,
)
from gridtravel.gridio.system.clock import Clock
from gridwire.v1 import site_pb2 as pb

T = TypeVar("T")


class _WirePort(Forwarding[Port]):
    """A port whose calls become messages (``PORT_VERBS``)."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock

    async def ask(self, call: Call[Port, Awaitable[T]]) -> T:
        """One question, one answer."""
        meant = PORT_VERBS[call.verb]
        question = meant.words.message(call)
        asked_at = self._clock.now_precise()
        answer = await self._wire.ask(meant.verb, question)
        return cast(T, understood(self._wire, meant.answer.decode, answer, asked_at))

    async def listen(self, call: Call[Port, AsyncIterator[T]]) -> AsyncIterator[T]:
        """One question, many answers."""
        meant = PORT_VERBS[call.verb]
        question = meant.words.message(call)
        asked_at = self._clock.now_precise()
        async with aclosing(self._wire.listen(meant.verb, question)) as messages:
            async for message in messages:
                yield understood(self._wire, meant.answer.decode, message, asked_at)


class WireCalendar(_WirePort[CalendarPort], ForwardingCalendar):
    """The calendar of the site at the other end of ``wire``."""

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """See ``CalendarPort``; as many answers as requests, or it is the site's fault."""
        answers = await super().inquire(requests)
        understood(self._wire, check_number, answers, len(requests))
        return answers


class WireSite(_WirePort[SitePort], ForwardingSite):
    """The site at the other end of ``wire``, for its own users and for the legs of a trip."""

    async def put_file(
        self, area: str, path: str, chunks: AsyncIterator[OutputChunk], *, mode: int, sha256: str
    ) -> FileStatus:
        """See ``SitePort``; the one verb whose question is a stream."""
        head = build(pb.PutFileHead, {"area": area, "path": path, "mode": mode, "sha256": sha256})
        answer = await self._wire.tell(verbs.PUT_FILE, _parts(head, chunks))
        return understood(self._wire, FILE.decode, answer)


async def _parts(
    head: pb.PutFileHead, chunks: AsyncIterator[OutputChunk]
) -> AsyncIterator[pb.PutFileRequest]:
    yield pb.PutFileRequest(head=head)
    async for chunk in chunks:
        for piece in cut(chunk):
            yield pb.PutFileRequest(chunk=build(pb.Chunk, CHUNK.fields(piece)))
    yield pb.PutFileRequest()

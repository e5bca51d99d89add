"""The client's end of a session: questions of one caller on one stream, answers as they come.

A call of its own costs gRPC more than the booking that it asks for; a message on a stream that is
open already costs half as much, and questions that are asked together share one. A session is no
promise: when it breaks, each question on it fails as a call of its own would, and the next one
opens another session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

from gridtravel.gridio.rpc.client.failures import CallFailedError
from gridtravel.gridio.rpc.codec.faults import FAULT_KEY
from gridtravel.gridio.rpc.outbox import Outbox
from gridwire.v1 import session_pb2 as pb

METHOD: Final = "/gridwire.v1.SessionService/Converse"

CONTENT_BYTES_MAX: Final = 256 * 1024
"""A larger question is asked by a call of its own: it would only hold the others up."""

Call: TypeAlias = "grpc.aio.StreamStreamCall[pb.Questions, pb.Answers]"

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class SessionUnknownError(Exception):
    """The server knows no sessions: it is older than this release."""


def open_session(channel: grpc.aio.Channel) -> Session:
    """A session on ``channel``; it need not be connected yet."""
    converse: Any = channel.stream_stream(
        METHOD,
        request_serializer=pb.Questions.SerializeToString,
        response_deserializer=pb.Answers.FromString,
    )
    return Session(converse)


class Session:
    """One stream, opened now. Belongs to the running loop; ``close`` ends it."""

    def __init__(self, converse: Callable[[], Call]) -> None:
        # Only the two tasks know the call: the connection ends when nobody refers to it any more.
        call = converse()
        self._outbox: Outbox[pb.Question] = Outbox()
        self._waiting: dict[int, asyncio.Future[pb.Answer]] = {}
        """Number -> who waits for its answer."""
        self._count = 0
        self._is_over = False
        loop = asyncio.get_running_loop()
        self._reader = loop.create_task(self._read(call), name="session-reader")
        self._writer = loop.create_task(self._write(call), name="session-writer")

    @property
    def is_over(self) -> bool:
        """True when nothing can be asked any more."""
        return self._is_over

    async def ask(
        self, method: str, content: bytes, *, limit_s: float, request_id: str
    ) -> pb.Answer:
        """The answer to one question, which may be a fault of the site (``answer_or_fault``).
        ``CallFailedError``: there is none. A caller who gives up lets the site know.
        """
        self._count = number = self._count + 1
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[pb.Answer] = loop.create_future()
        self._waiting[number] = answer
        timer = loop.call_later(limit_s, self._expire, number)
        self._outbox.put(
            pb.Question(
                number=number,
                method=method,
                limit_s=limit_s,
                request_id=request_id,
                content=content,
            )
        )
        try:
            return await answer
        except asyncio.CancelledError:
            self._forget(number)
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """End the stream; callers that wait are told that the call was cancelled."""
        self._reader.cancel()
        self._writer.cancel()
        await asyncio.gather(self._reader, self._writer, return_exceptions=True)
        self._end(grpc.StatusCode.CANCELLED, "the connection was closed")

    def _expire(self, number: int) -> None:
        """Nobody answered in time."""
        answer = self._waiting.get(number)
        self._forget(number)
        if answer is not None and not answer.done():
            answer.set_exception(
                CallFailedError(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            )

    def _forget(self, number: int) -> None:
        """Tell the site that nobody waits for an answer, unless it has come."""
        if self._waiting.pop(number, None) is not None and not self._is_over:
            self._outbox.put(pb.Question(number=number))

    async def _read(self, call: Call) -> None:
        """Hand answers to those who wait, until the stream ends."""
        code: grpc.StatusCode
        details: str | None
        try:
            async for message in call:
                for each in message.answers:
                    answer = self._waiting.pop(each.number, None)
                    if answer is not None and not answer.done():
                        answer.set_result(each)
            code, details = await call.code(), await call.details()
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details()
        except asyncio.CancelledError:
            code, details = grpc.StatusCode.CANCELLED, "the connection was closed"
        except Exception as fault:
            # Whatever it was, a reader that ended in silence would leave its callers waiting.
            code, details = grpc.StatusCode.UNAVAILABLE, f"the connection broke ({fault})"
        call.cancel()
        if code is grpc.StatusCode.INTERNAL:
            # Faults of the site are answers; this is gRPC's word for a stream that broke under it.
            code = grpc.StatusCode.UNAVAILABLE
        self._end(code, details)

    async def _write(self, call: Call) -> None:
        """Send what is asked, until the stream ends; the reader learns why it did.

        Also a cancellation is not kept: with it, this task would keep the call, and the connection.
        """
        ends = (grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError)
        with contextlib.suppress(*ends):
            while questions := await self._outbox.take():
                await call.write(pb.Questions(questions=questions))

    def _end(self, code: grpc.StatusCode, details: str | None) -> None:
        self._is_over = True
        self._outbox.close()
        # gRPC never wakes who writes to a stream whose beginning could not be sent.
        self._writer.cancel()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(_fault_of_end(code, details))
                answer.exception()  # Its asker may have been cancelled: then nobody looks.


def answer_or_fault(answer: pb.Answer) -> bytes:
    """The content of an answer; ``CallFailedError`` when it is a status."""
    if not answer.code:
        return answer.content
    metadata = ((FAULT_KEY, answer.fault),) if answer.HasField("fault") else ()
    code = _CODES.get(answer.code, grpc.StatusCode.UNKNOWN)
    raise CallFailedError(code, answer.details, metadata)


def _fault_of_end(code: grpc.StatusCode, details: str | None) -> Exception:
    """What the end of a session means to a question without an answer."""
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return SessionUnknownError()
    if code is grpc.StatusCode.OK:
        # An orderly end: the site stops, and what it did not answer it did not begin.
        return CallFailedError(grpc.StatusCode.UNAVAILABLE, "the site is stopping")
    return CallFailedError(code, details)

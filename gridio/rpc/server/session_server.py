"""The server's end of sessions: each question is answered as a call of its own would be.

Who asks is proven for each question anew, from what the connection showed when the session was
opened: a certificate may end, or an entry of the grid-mapfile go, while a session lasts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from gridtravel.gridcore.callers import Caller
from gridtravel.gridio.rpc.codec.faults import FAULT_KEY
from gridtravel.gridio.rpc.outbox import Outbox
from gridtravel.gridio.rpc.server.calls import (
    CallRunner,
    Carrier,
    Context,
    ReaderGoneError,
    Status,
    readable,
    reader,
    write,
)
from gridtravel.gridio.rpc.verbs import AnyVerb
from gridtravel.gridio.rpc.wire import MESSAGE_BYTES_MAX
from gridtravel.gridio.system.clock import Clock
from gridwire.v1 import session_pb2 as pb

SESSION_SERVICE: Final = "gridwire.v1.SessionService"

QUESTIONS_MAX: Final = 256
"""Questions of one session that are not answered yet; more are not read before some are."""

ANSWER_BYTES_MAX: Final = MESSAGE_BYTES_MAX - 4096
"""Longest content of an answer: what its frame adds must still fit."""

_UNREADABLE: Final = Status(
    code=grpc.StatusCode.INVALID_ARGUMENT, details="the questions cannot be read", metadata=()
)
_UNKNOWN: Final = Status(
    code=grpc.StatusCode.UNIMPLEMENTED, details="Method not found!", metadata=()
)
_TOO_LARGE: Final = Status(
    code=grpc.StatusCode.RESOURCE_EXHAUSTED,
    details="the answer is larger than max",
    metadata=(),
)
_TOO_MANY: Final = Status(
    code=grpc.StatusCode.RESOURCE_EXHAUSTED, details="too many calls at once", metadata=()
)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answerer:
    """One verb of a service, and how it is answered."""

    verb: AnyVerb
    handle: Callable[[Any, Any], Any]
    port_of: Callable[[Caller], Any]


class SessionService:
    """All sessions of one server; ``verbs`` by their name on the wire, each with one answer.

    ``questions_max``: bound of unanswered questions in all sessions together.
    """

    def __init__(
        self,
        runner: CallRunner,
        verbs: Mapping[str, Answerer],
        *,
        clock: Clock,
        questions_max: int,
    ) -> None:
        self.runner = runner
        self.verbs = verbs
        self.clock = clock
        self.questions_max = questions_max
        self.questions = 0
        """Not answered yet, in all sessions."""
        self._sessions: set[_Session] = set()
        self._is_draining = False

    def generic_handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """What a gRPC server registers."""
        method = grpc.stream_stream_rpc_method_handler(
            self._converse,
            request_deserializer=_questions,
            response_serializer=pb.Answers.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SESSION_SERVICE, {"Converse": method})

    def drain(self) -> None:
        """Read no more questions; a session ends when those that were read are answered."""
        self._is_draining = True
        for session in self._sessions:
            session.drain()

    async def _converse(
        self, questions: AsyncIterator[pb.Questions | None], context: Context
    ) -> None:
        if self._is_draining:
            return
        session = _Session(self, Carrier.of(context))
        self._sessions.add(session)
        is_readable = True
        try:
            is_readable = await session.run(questions, context)
        except* ReaderGoneError:
            _log.debug("reader gone", extra={"verb": "Converse"})
        finally:
            self._sessions.discard(session)
        if not is_readable:
            await context.abort(_UNREADABLE.code, _UNREADABLE.details)


class _Session:
    """One stream: a task reads, one writes, and each question has one of its own."""

    def __init__(self, service: SessionService, carrier: Carrier) -> None:
        self._service = service
        self._carrier = carrier
        self._outbox: Outbox[pb.Answer] = Outbox()
        self._answering: dict[int, asyncio.Task[None]] = {}
        """Number -> the task that makes the answer."""
        self._open = 0
        """Questions that were read and whose answers are not written yet."""
        self._room = asyncio.Event()
        self._reading: asyncio.Task[bool] | None = None
        self._is_draining = False

    def drain(self) -> None:
        """See ``SessionService.drain``."""
        self._is_draining = True
        if self._reading is not None:
            self._reading.cancel()

    async def run(self, questions: AsyncIterator[pb.Questions | None], context: Context) -> bool:
        """Until the caller has no more questions and all are answered. False: it sent something
        that cannot be read.
        """
        itself = asyncio.current_task()
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._write(context))
                async with asyncio.TaskGroup() as answering:
                    self._reading = group.create_task(self._read(questions, answering))
                    is_readable = await self._reading
                    if itself is not None and itself.cancelling():
                        raise asyncio.CancelledError  # Draining has taken it for its own.
                self._outbox.close()
                await writing
        finally:
            self._service.questions -= self._open
        return is_readable

    async def _read(
        self, questions: AsyncIterator[pb.Questions | None], group: asyncio.TaskGroup
    ) -> bool:
        try:
            async for message in questions:
                if message is None:
                    return False
                for question in message.questions:
                    await self._take(question, group)
        except asyncio.CancelledError:
            if not self._is_draining:
                raise
        return True

    async def _take(self, question: pb.Question, group: asyncio.TaskGroup) -> None:
        number = question.number
        if not question.method:
            task = self._answering.get(number)
            if task is not None:
                task.cancel()
            return
        while self._open >= QUESTIONS_MAX:
            self._room.clear()
            await self._room.wait()
        self._count(1)
        task = group.create_task(self._answer(question))
        self._answering[number] = task
        task.add_done_callback(lambda ended: self._ended(number, ended))

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        if self._answering.get(number) is task:
            del self._answering[number]
        if task.cancelled():
            self._count(-1)

    def _count(self, change: int) -> None:
        self._open += change
        self._service.questions += change
        if change < 0:
            self._room.set()

    async def _answer(self, question: pb.Question) -> None:
        outcome = await self._outcome(question)
        answer = pb.Answer(number=question.number, time_precise=self._service.clock.now_precise())
        if isinstance(outcome, Message):
            answer.content = outcome.SerializeToString()
            if len(answer.content) > ANSWER_BYTES_MAX:
                answer.ClearField("content")
                outcome = _TOO_LARGE
        if isinstance(outcome, Status):
            answer.code, answer.details = outcome.code.value[0], outcome.details
            for key, value in outcome.metadata:
                if key == FAULT_KEY:
                    answer.fault = value
        self._outbox.put(answer)

    async def _outcome(self, question: pb.Question) -> Message | Status:
        service = self._service
        answerer = service.verbs.get(question.method)
        if answerer is None:
            return _UNKNOWN
        if service.questions > service.questions_max:
            return _TOO_MANY

        async def run() -> Message:
            port = answerer.port_of(service.runner.caller(self._carrier))
            words = readable(reader(answerer.verb)(question.content))
            reply: Message = await answerer.handle(port, words)
            return reply

        return await service.runner.judge(
            answerer.verb,
            run,
            request_id=question.request_id,
            limit_s=question.limit_s or None,
            address=self._carrier.address,
        )

    async def _write(self, context: Context) -> None:
        while answers := await self._outbox.take():
            await write(context, pb.Answers(answers=answers))
            self._count(-len(answers))


def _questions(content: bytes) -> pb.Questions | None:
    """``None`` for bytes that are none, because gRPC would tell the parser's words."""
    try:
        return pb.Questions.FromString(content)
    except DecodeError:
        return None

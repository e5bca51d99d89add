"""Around each call that a server answers: who asks, until when, the site's clock, faults, the log.

The handlers know nothing of it. Every call, also a refused one, ends with the site's precise clock
in the metadata ``grid-time``, from which callers measure skew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from gridcore.callers import Caller
from gridcore.errors import DeadlineError, GridError, InputError, NotAuthorisedError
from gridio.clock import Clock
from gridio.connections import IdentityNotProvenError
from gridio.ids import IdSource
from gridio.logs import REQUEST_KEY, SITE_KEY, logging_context
from gridio.rpc.faults import Metadata, code_of, details_of, metadata_of
from gridio.rpc.handlers import AnyVerb, Handlers
from gridio.rpc.peers import Identify, Peer
from gridio.rpc.verbs import Kind
from gridio.rpc.wire import REQUEST_ID_KEY, TIME_KEY

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

REQUEST_ID_LENGTH_MAX: Final = 64
"""Characters; a longer one is replaced by ours."""

DEADLINE_MARGIN: Final = 2.0
"""A server gives a verb this many times the client's default; then nobody waits any more."""

UPLOAD_SILENCE_MAX_S: Final = 300.0
"""Longest pause between two parts of an upload: longer, and its sender is gone."""

_log = logging.getLogger(__name__)


class ReaderGoneError(Exception):
    """Whoever asked for a stream has left; nobody is there to be told anything."""


class CallRunner:
    """Makes gRPC method handlers of a service's handlers."""

    def __init__(
        self,
        identify: Identify,
        prove: Callable[[Context], Peer],
        *,
        clock: Clock,
        ids: IdSource,
        site: str,
    ) -> None:
        self._identify = identify
        self._prove = prove
        self._clock = clock
        self._ids = ids
        self._site = site
        self._run_id = ids.new_id("call")
        self._calls = 0

    def generic_handler(
        self, service: str, handlers: Handlers[Any], port_of: Callable[[Caller], Any]
    ) -> grpc.GenericRpcHandler[Any, Any]:
        """What a gRPC server registers for ``service``; ``port_of`` makes the port of a caller."""
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for verb, unary in handlers.unary.items():
            methods[verb.method] = grpc.unary_unary_rpc_method_handler(
                self._unary(verb, unary, port_of),
                request_deserializer=_reader(verb),
                response_serializer=verb.answer.SerializeToString,
            )
        for verb, stream in handlers.reply_stream.items():
            methods[verb.method] = grpc.unary_stream_rpc_method_handler(
                self._reply_stream(verb, stream, port_of),
                request_deserializer=_reader(verb),
                response_serializer=verb.answer.SerializeToString,
            )
        for verb, upload in handlers.request_stream.items():
            methods[verb.method] = grpc.stream_unary_rpc_method_handler(
                self._unary(verb, upload, port_of),
                request_deserializer=_reader(verb),
                response_serializer=verb.answer.SerializeToString,
            )
        return grpc.method_handlers_generic_handler(service, methods)

    def _unary(self, verb: AnyVerb, handle: Any, port_of: Callable[[Caller], Any]) -> Any:
        """One answer: to one question, or to an upload."""

        async def answer(question: Any, context: Context) -> Message | None:
            async def run() -> Message:
                caller = self._caller(context)
                is_upload = verb.kind is Kind.REQUEST_STREAM
                words = _audible(question) if is_upload else _readable(question)
                reply: Message = await handle(port_of(caller), words)
                return reply

            reply: Message | None = await self._run(verb, context, run)
            return reply

        return answer

    def _reply_stream(self, verb: AnyVerb, handle: Any, port_of: Callable[[Caller], Any]) -> Any:
        """Many answers. Each is written before the next is asked for, so a reader that stalls stops
        the service's iterator and nothing piles up here.
        """

        async def answer(question: Message | None, context: Context) -> None:
            async def run() -> None:
                caller = self._caller(context)
                words = _readable(question)
                async with aclosing(handle(port_of(caller), words)) as replies:
                    async for reply in replies:
                        await _write(context, reply)

            await self._run(verb, context, run)

        return answer

    async def _run(self, verb: AnyVerb, context: Context, run: Callable[[], Any]) -> Any:
        with logging_context(**{SITE_KEY: self._site, REQUEST_KEY: self._request_id(context)}):
            started_at = self._clock.now_precise()
            try:
                async with asyncio.timeout(_limit_s(verb, context)):
                    answer = await run()
            except GridError as fault:
                self._log_refusal(verb, context, fault)
                status = code_of(fault), details_of(fault), metadata_of(fault)
            except TimeoutError:
                late = DeadlineError(f"{verb.method} took too long", hint="asking again is safe")
                self._log_refusal(verb, context, late)
                status = code_of(late), details_of(late), metadata_of(late)
            except ReaderGoneError:
                _log.debug("reader gone", extra={"verb": verb.method})
                return None
            except Exception:
                status = self._defect(verb)
            else:
                context.set_trailing_metadata(self._time())
                if _log.isEnabledFor(logging.DEBUG):
                    lasted_s = round(self._clock.now_precise() - started_at, 6)
                    _log.debug("answered", extra={"verb": verb.method, "lasted_s": lasted_s})
                return answer
        code, details, metadata = status
        await context.abort(code, details, trailing_metadata=(*self._time(), *metadata))

    def _caller(self, context: Context) -> Caller:
        """Who asks, as the channel proves it and this site maps it."""
        try:
            peer = self._prove(context)
        except NotAuthorisedError as fault:
            raise IdentityNotProvenError(fault.message, hint=fault.hint) from fault
        return self._identify(peer)

    def _time(self) -> Metadata:
        return ((TIME_KEY, f"{self._clock.now_precise():.6f}"),)

    def _request_id(self, context: Context) -> str:
        """The caller's own id for what this belongs to, so that logs of several sites can be put
        together; a new one when there is none or it is unusable.
        """
        for key, value in context.invocation_metadata() or ():
            if key == REQUEST_ID_KEY and isinstance(value, str):
                if 0 < len(value) <= REQUEST_ID_LENGTH_MAX and value.isprintable():
                    return value
                break
        self._calls += 1
        return f"{self._run_id}.{self._calls}"

    def _log_refusal(self, verb: AnyVerb, context: Context, fault: GridError) -> None:
        _log.info(
            "refused",
            extra={
                "verb": verb.method,
                "peer": context.peer(),
                "code": code_of(fault).name,
                "why": str(fault),
            },
        )

    def _defect(self, verb: AnyVerb) -> tuple[grpc.StatusCode, str, Metadata]:
        """An exception that is no fault of the grid: the caller learns an id, the log the rest."""
        fault_id = self._ids.new_id("fault")
        _log.exception("defect", extra={"verb": verb.method, "fault": fault_id})
        told = GridError(
            f"internal error {fault_id}", hint="whoever runs the site finds this id in its log"
        )
        return grpc.StatusCode.INTERNAL, details_of(told), metadata_of(told)


async def _write(context: Context, reply: Message) -> None:
    """Send one answer of a stream.

    When its reader has gone, gRPC either cancels the call or fails the write with an exception of
    its inner parts, whichever comes first; neither is a defect of ours.
    """
    try:
        await context.write(reply)
    except Exception as fault:
        raise ReaderGoneError from fault


def _limit_s(verb: AnyVerb, context: Context) -> float:
    """Seconds that this call may run: what its client still waits, but never without bound."""
    limit_s = verb.deadline_s * (DEADLINE_MARGIN if verb.kind is Kind.UNARY else 1.0)
    remaining_s = context.time_remaining()
    return limit_s if remaining_s is None else min(limit_s, max(0.0, remaining_s))


async def _audible(parts: AsyncIterable[Any]) -> AsyncIterator[Any]:
    """``parts``, with a bound on the silence between two of them."""
    iterator = aiter(parts)
    while True:
        try:
            async with asyncio.timeout(UPLOAD_SILENCE_MAX_S):
                part = await anext(iterator)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise DeadlineError("the upload fell silent", hint="send the rest again") from None
        yield _readable(part)


def _reader(verb: AnyVerb) -> Callable[[bytes], Message | None]:
    """Parses a question; ``None`` for bytes that are none, because gRPC would tell the client the
    text of the parser's exception.
    """
    parse = verb.question.FromString

    def read(content: bytes) -> Message | None:
        try:
            message: Message = parse(content)
        except DecodeError:
            return None
        return message

    return read


def _readable(message: Message | None) -> Message:
    if message is None:
        raise InputError("the message cannot be read", hint="it does not follow gridwire.v1")
    return message

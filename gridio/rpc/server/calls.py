"""Around each call that a server answers: who asks, until when, the site's clock, faults, the log.

The handlers know nothing of it. Every call, also a refused one, ends with the site's precise clock
in the metadata ``grid-time``, from which callers measure skew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import DeadlineError, GridError, InputError, NotAuthorisedError
from gridtravel.gridio.rpc.codec.faults import Metadata, code_of, details_of, metadata_of
from gridtravel.gridio.rpc.server.handlers import Handler
from gridtravel.gridio.rpc.server.peers import Identify, Peer
from gridtravel.gridio.rpc.verbs import AnyVerb, Kind
from gridtravel.gridio.rpc.wire import REQUEST_ID_KEY, TIME_KEY
from gridtravel.gridio.sites.connections import IdentityNotProvenError
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.gridio.system.logs import REQUEST_KEY, SITE_KEY, logging_context

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Shown: TypeAlias = "Mapping[str, Iterable[bytes]]"

REQUEST_ID_LENGTH_MAX: Final = 64
"""Characters; a longer one is replaced by ours."""

DEADLINE_MARGIN: Final = 2.0
"""A server gives a verb this many times the client's default; then nobody waits any more."""

UPLOAD_SILENCE_MAX_S: Final = 300.0
"""Longest pause between two parts of an upload: longer, and its sender is gone."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ReaderGoneError(Exception):
    """The caller of a stream has gone, so no fault can be sent to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """What gRPC knows of the other end of a connection."""

    address: str
    """``context.peer()``."""
    shown: Shown
    """``context.auth_context()``: the certificate, where there is one."""

    @classmethod
    def of(cls, context: Context) -> Carrier:
        """The carrier of a call or a session."""
        return cls(address=context.peer(), shown=context.auth_context())


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a call ended that has no answer."""

    code: grpc.StatusCode
    details: str
    metadata: Metadata

    @classmethod
    def of(cls, fault: GridError) -> Status:
        """What travels of ``fault``."""
        return cls(code=code_of(fault), details=details_of(fault), metadata=metadata_of(fault))


class CallRunner:
    """Makes gRPC method handlers of a service's handlers."""

    def __init__(
        self,
        identify: Identify,
        prove: Callable[[Carrier], Peer],
        *,
        address_of: Callable[[str], str],
        clock: Clock,
        ids: IdSource,
        site: str,
    ) -> None:
        """``address_of``: where gRPC's name for a peer comes from, for logs."""
        self._identify = identify
        self._prove = prove
        self._address_of = address_of
        self._clock = clock
        self._ids = ids
        self._site = site
        self._run_id = ids.new_id("call")
        self._calls = 0

    def generic_handler(
        self, service: str, handlers: Mapping[AnyVerb, Handler], port_of: Callable[[Caller], Any]
    ) -> grpc.GenericRpcHandler[Any, Any]:
        """What a gRPC server registers for ``service``; ``port_of`` makes the port of a caller."""
        kinds = {
            Kind.UNARY: (self._unary, grpc.unary_unary_rpc_method_handler),
            Kind.REPLY_STREAM: (self._reply_stream, grpc.unary_stream_rpc_method_handler),
            Kind.REQUEST_STREAM: (self._unary, grpc.stream_unary_rpc_method_handler),
        }
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for verb, handle in handlers.items():
            around, method_handler = kinds[verb.kind]
            methods[verb.method] = method_handler(
                around(verb, handle, port_of),
                request_deserializer=reader(verb),
                response_serializer=verb.answer.SerializeToString,
            )
        return grpc.method_handlers_generic_handler(service, methods)

    def _unary(self, verb: AnyVerb, handle: Handler, port_of: Callable[[Caller], Any]) -> Any:
        """One answer: to one question, or to an upload."""

        async def answer(question: Any, context: Context) -> Message | None:
            async def run() -> Message:
                caller = self.caller(Carrier.of(context))
                is_upload = verb.kind is Kind.REQUEST_STREAM
                words = _audible(question) if is_upload else readable(question)
                reply: Message = await handle(port_of(caller), words)
                return reply

            reply: Message | None = await self._run(verb, context, run)
            return reply

        return answer

    def _reply_stream(
        self, verb: AnyVerb, handle: Handler, port_of: Callable[[Caller], Any]
    ) -> Any:
        """Many answers. Each is written before the next is asked for, so a reader that stalls stops
        the service's iterator and nothing piles up here.
        """

        async def answer(question: Message | None, context: Context) -> None:
            async def run() -> None:
                caller = self.caller(Carrier.of(context))
                words = readable(question)
                async with aclosing(handle(port_of(caller), words)) as replies:
                    async for reply in replies:
                        await write(context, reply)

            await self._run(verb, context, run)

        return answer

    async def _run(self, verb: AnyVerb, context: Context, run: Callable[[], Any]) -> Any:
        """A call of its own."""
        try:
            outcome = await self.judge(
                verb,
                run,
                request_id=_said_id(context),
                limit_s=context.time_remaining(),
                address=context.peer(),
            )
        except ReaderGoneError:
            _log.debug("reader gone", extra={"verb": verb.method})
            return None
        time = ((TIME_KEY, f"{self._clock.now_precise():.6f}"),)
        if isinstance(outcome, Status):
            await context.abort(
                outcome.code, outcome.details, trailing_metadata=(*time, *outcome.metadata)
            )
        context.set_trailing_metadata(time)
        return outcome

    async def judge(
        self,
        verb: AnyVerb,
        run: Callable[[], Awaitable[T]],
        *,
        request_id: str,
        limit_s: float | None,
        address: str,
    ) -> T | Status:
        """What ``run`` answers, or what its fault is to the caller, within the time that the caller
        still waits (``limit_s``) and never without bound. ``request_id``: as the caller says.
        """
        with logging_context(**{SITE_KEY: self._site, REQUEST_KEY: self._known_as(request_id)}):
            started_at = self._clock.now_precise()
            try:
                async with asyncio.timeout(_bounded_s(verb, limit_s)):
                    answer = await run()
            except GridError as fault:
                self._log_refusal(verb, address, fault)
                return Status.of(fault)
            except TimeoutError:
                late = DeadlineError(f"{verb.method} took too long", hint="asking again is safe")
                self._log_refusal(verb, address, late)
                return Status.of(late)
            except ReaderGoneError:
                raise
            except Exception:
                return self._defect(verb)
            if _log.isEnabledFor(logging.DEBUG):
                lasted_s = round(self._clock.now_precise() - started_at, 6)
                _log.debug("answered", extra={"verb": verb.method, "lasted_s": lasted_s})
            return answer

    def caller(self, carrier: Carrier) -> Caller:
        """Who asks, as the channel proves it and this site maps it."""
        try:
            peer = self._prove(carrier)
        except NotAuthorisedError as fault:
            raise IdentityNotProvenError(fault.message, hint=fault.hint) from fault
        return self._identify(peer)

    def _known_as(self, said: str) -> str:
        """The caller's own id for what this belongs to, so that logs of several sites can be put
        together; a new one when there is none or it is unusable.
        """
        if 0 < len(said) <= REQUEST_ID_LENGTH_MAX and said.isprintable():
            return said
        self._calls += 1
        return f"{self._run_id}.{self._calls}"

    def _log_refusal(self, verb: AnyVerb, address: str, fault: GridError) -> None:
        _log.info(
            "refused",
            extra={
                "verb": verb.method,
                "peer": self._address_of(address),
                "code": code_of(fault).name,
                "why": str(fault),
            },
        )

    def _defect(self, verb: AnyVerb) -> Status:
        """An exception that is no fault of the grid: the caller learns an id, the log the rest."""
        fault_id = self._ids.new_id("fault")
        _log.exception("defect", extra={"verb": verb.method, "fault": fault_id})
        told = GridError(
            f"internal error {fault_id}", hint="whoever runs the site finds this id in its log"
        )
        return Status(
            code=grpc.StatusCode.INTERNAL, details=details_of(told), metadata=metadata_of(told)
        )


async def write(context: Context, reply: Message) -> None:
    """Send one answer of a stream.

    When its reader has gone, gRPC either cancels the call or fails the write with an exception of
    its inner parts, whichever comes first; neither is a defect of ours.
    """
    try:
        await context.write(reply)
    except Exception as fault:
        raise ReaderGoneError from fault


def _bounded_s(verb: AnyVerb, said_s: float | None) -> float:
    """Seconds that this call may run: what its client still waits, but never without bound."""
    limit_s = verb.deadline_s * (DEADLINE_MARGIN if verb.kind is Kind.UNARY else 1.0)
    return limit_s if said_s is None else min(limit_s, max(0.0, said_s))


def _said_id(context: Context) -> str:
    """The request id that came with a call of its own."""
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID_KEY and isinstance(value, str):
            return value
    return ""


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
        yield readable(part)


def reader(verb: AnyVerb) -> Callable[[bytes], Message | None]:
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


def readable(message: Message | None) -> Message:
    """``message``, unless it could not be parsed."""
    if message is None:
        raise InputError("the message cannot be read", hint="it does not follow gridwire.v1")
    return message

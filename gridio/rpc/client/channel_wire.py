"""A gRPC channel as a wire: deadlines, retries, faults in our words, and the site's clock.

The channel is made at the first call, because it belongs to the loop that runs then, and kept for
life; gRPC reconnects by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from gridtravel.gridcore.errors import DeadlineError, GridError, UnavailableError
from gridtravel.gridcore.number_text import read_decimal
from gridtravel.gridio.rpc.client.diagnosis import DIAGNOSIS_DEADLINE_S, Destination, diagnose
from gridtravel.gridio.rpc.client.failures import CallFailedError
from gridtravel.gridio.rpc.client.session_client import (
    CONTENT_BYTES_MAX,
    Session,
    SessionUnknownError,
    answer_or_fault,
    open_session,
)
from gridtravel.gridio.rpc.codec.faults import fault_from, is_from_site
from gridtravel.gridio.rpc.verbs import DESCRIBE, A, AnyVerb, Kind, Q, Verb
from gridtravel.gridio.rpc.wire import REQUEST_ID_KEY, TIME_KEY
from gridtravel.gridio.sites.connections import (
    ClockSkew,
    IdentityNotProvenError,
    SkewMeter,
    UnreachableError,
)
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.logs import current_request
from gridtravel.gridio.trust.credentials import Credential
from gridwire.v1 import calendar_pb2

RECONNECT_WAIT_S: Final = 0.3
"""How long an attempt waits for the channel to come back before it is made anyway."""

ROUTE_WAIT_S: Final = 5.0
"""The same when the route was just opened: connecting through it may take several round trips."""

ROUTE_LOOK_S: Final = 0.2
"""How often it is looked at meanwhile whether the route still leads there."""

NAME_SHOWN_MAX: Final = 80
"""Characters of a name that a site gives itself."""

_State = grpc.ChannelConnectivity


class Route(Protocol):
    """What has to be opened before a channel can connect, where an address is not enough: an SSH
    login. It is opened before each attempt, outside the call's deadline, because a person may be
    typing a password.
    """

    @property
    def is_open(self) -> bool:
        """True while it leads there, as far as is known."""
        ...

    async def open(self) -> bool:
        """Open it, unless it is open; True when it was opened now. A ``GridError`` says why not."""
        ...

    async def probe(self, context: ssl.SSLContext | None, server_name: str) -> bytes:
        """See ``diagnosis.Probe``; nothing where it does not lead anywhere any more."""
        ...


class ChannelWire:
    """Carries messages over ``open_channel()``'s channel to ``destination``."""

    def __init__(
        self,
        destination: Destination,
        open_channel: Callable[[], grpc.aio.Channel],
        *,
        credential: Credential | None,
        clock: Clock,
        route: Route | None = None,
    ) -> None:
        self._route = route
        self._destination = destination
        self._open_channel = open_channel
        self._credential = credential
        self._clock = clock
        self._channel: grpc.aio.Channel | None = None
        self._session: Session | None = None
        self._has_sessions = True
        """False once the site has said that it knows none."""
        self._methods: dict[str, Any] = {}
        self._skew = SkewMeter()
        self._has_told_name = not destination.site or bool(destination.server_name)
        """True when nothing need be asked about the site's name: its certificate says it, it has
        told it, or any will do.
        """
        self._was_reached = False
        """False before the first answer, and while the site was given up."""
        self._is_closed = False

    @property
    def endpoint(self) -> str:
        """``host:port`` or ``unix:/path``, with the site's name."""
        name = self._destination.site
        return f"{name} ({self._destination.endpoint})" if name else self._destination.endpoint

    def skew_s(self) -> ClockSkew | None:
        """The best estimate of the site's clock minus ours."""
        return self._skew.estimate(self._clock.now_precise())

    async def close(self) -> None:
        """End the channel and every call on it."""
        self._is_closed = True
        channel, self._channel = self._channel, None
        self._methods.clear()
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if channel is not None:
            await channel.close(None)

    async def ask(self, verb: Verb[Q, A], question: Q) -> A:
        """One question, one answer, within the verb's deadline whatever happens."""
        await self._hear_name()
        return await self._answer_to(verb, question)

    async def _answer_to(self, verb: Verb[Q, A], question: Q) -> A:
        loop = asyncio.get_running_loop()
        await self._ensure_route_open()
        give_up_at = loop.time() + verb.deadline_s
        attempt = 0
        while True:
            attempt += 1
            sent_at = self._clock.now_precise()
            try:
                return await self._attempt(verb, question, max(0.001, give_up_at - loop.time()))
            except CallFailedError as error:
                self._measure(sent_at, _time_in(error.metadata))
                why = await self._why(verb, error)
                if attempt >= verb.attempts_max or not self._may_retry(error, why):
                    raise self._given_up(why) from error
                await self._reconnected(give_up_at)
                if loop.time() >= give_up_at:
                    raise self._given_up(why) from error
            await self._ensure_route_open()

    async def _attempt(self, verb: Verb[Q, A], question: Q, limit_s: float) -> A:
        """Within a session, unless the question is large or the site knows none."""
        sent_at = self._clock.now_precise()
        if self._has_sessions:
            content = question.SerializeToString()
            if len(content) <= CONTENT_BYTES_MAX:
                try:
                    reply = await self._open().ask(
                        verb.path, content, limit_s=limit_s, request_id=current_request()
                    )
                except SessionUnknownError:
                    self._has_sessions = False
                else:
                    self._measure(sent_at, reply.time_precise)
                    return verb.answer.FromString(answer_or_fault(reply))
        call = self._method(verb)(question, timeout=limit_s, metadata=_metadata())
        try:
            answer: A = await call
        except grpc.aio.AioRpcError as error:
            raise CallFailedError.of(error) from error
        self._measure(sent_at, _time_in(await call.trailing_metadata()))
        return answer

    async def listen(self, verb: Verb[Q, A], question: Q) -> AsyncGenerator[A, None]:
        """One question, many answers. Asked again only while none has come."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + verb.deadline_s
        attempt = 0
        has_begun = False
        while True:
            attempt += 1
            await self._hear_name()
            call = self._method(verb)(question, timeout=verb.deadline_s, metadata=_metadata())
            try:
                async for answer in call:
                    has_begun = self._was_reached = True
                    yield answer
                return
            except grpc.aio.AioRpcError as error:
                failed = CallFailedError.of(error)
                why = await self._why(verb, failed)
                if has_begun or attempt >= verb.attempts_max:
                    raise self._given_up(why) from error
                if not self._may_retry(failed, why):
                    raise why from error
            finally:
                call.cancel()
            await self._reconnected(give_up_at)

    async def tell(self, verb: Verb[Q, A], parts: AsyncIterable[Q]) -> A:
        """Many parts, one answer; each part is written before the next is asked for."""
        await self._hear_name()
        sent_at = self._clock.now_precise()
        call = self._method(verb)(timeout=verb.deadline_s, metadata=_metadata())
        try:
            async for part in parts:
                try:
                    await call.write(part)
                except (asyncio.InvalidStateError, grpc.aio.AioRpcError):
                    break  # The site has answered already; the status says why.
            else:
                await call.done_writing()
            answer: A = await call
        except grpc.aio.AioRpcError as error:
            failed = CallFailedError.of(error)
            self._measure(sent_at, _time_in(failed.metadata))
            raise await self._why(verb, failed) from error
        finally:
            call.cancel()
        return answer

    async def _hear_name(self) -> None:
        """Have the route open, and have heard from the site that it is the one that was meant,
        where no certificate says so.
        """
        await self._ensure_route_open()
        if self._has_told_name:
            return
        described = await self._answer_to(DESCRIBE, calendar_pb2.DescribeRequest())
        meant = self._destination.site
        if described.site != meant:
            raise IdentityNotProvenError(
                f"{self._destination.endpoint} is not {meant}: the site that answers there calls"
                f" itself {_shown(described.site)}",
                hint="correct the machine in your list: its site, or the way that leads there",
            )
        self._has_told_name = True

    async def _ensure_route_open(self) -> None:
        """Have the route open, where there must be one."""
        if self._route is not None and await self._route.open():
            # What is at its end now may be another site.
            self._has_told_name = not self._destination.site or bool(self._destination.server_name)
            self._opened()
            await self._reconnected(asyncio.get_running_loop().time() + ROUTE_WAIT_S, ROUTE_WAIT_S)

    def _opened(self) -> grpc.aio.Channel:
        """The channel, made at its first use."""
        if self._is_closed:
            raise UnavailableError(f"the connection to {self.endpoint} is closed")
        if self._channel is None:
            self._channel = self._open_channel()
        return self._channel

    def _open(self) -> Session:
        """The session, a new one when there is none or it is over."""
        if self._session is None or self._session.is_over:
            self._session = open_session(self._opened())
        return self._session

    def _method(self, verb: AnyVerb) -> Any:
        method = self._methods.get(verb.path)
        if method is None:
            channel = self._opened()
            make = {
                Kind.UNARY: channel.unary_unary,
                Kind.REPLY_STREAM: channel.unary_stream,
                Kind.REQUEST_STREAM: channel.stream_unary,
            }[verb.kind]
            method = self._methods[verb.path] = make(
                verb.path,
                request_serializer=verb.question.SerializeToString,
                response_deserializer=verb.answer.FromString,
            )
        return method

    async def _reconnected(self, give_up_at: float, wait_max_s: float = RECONNECT_WAIT_S) -> None:
        """Wait for the channel to be ready again, but not for long."""
        channel = self._channel
        if channel is None:
            return
        wait_s = min(wait_max_s, give_up_at - asyncio.get_running_loop().time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, wait_s)):
                await self._ready(channel)

    async def _ready(self, channel: grpc.aio.Channel) -> None:
        """The channel is ready, or what it tried over the route has come to its end."""
        while (state := channel.get_state(try_to_connect=True)) is not _State.READY:
            is_lost = self._route is not None and not self._route.is_open
            if is_lost and state is _State.TRANSIENT_FAILURE:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROUTE_LOOK_S):
                    await channel.wait_for_state_change(state)

    async def _why(self, verb: AnyVerb, error: CallFailedError) -> GridError:
        """What ``error`` means, with the reason when the transport does not know it."""
        attempted = f"{verb.method} at {self.endpoint}"
        told = fault_from(error.code, error.details, error.metadata, attempted=attempted)
        is_in_doubt = isinstance(told, UnavailableError) and not is_from_site(error.metadata)
        if is_in_doubt and not isinstance(told, DeadlineError):
            found = await self._diagnosis(attempted)
            if found is not None:
                return found
        return told

    def _given_up(self, why: GridError) -> GridError:
        """``why``, after the last attempt."""
        if isinstance(why, UnreachableError):
            self._was_reached = False
        return why

    async def _diagnosis(self, attempted: str) -> GridError | None:
        try:
            async with asyncio.timeout(2 * DIAGNOSIS_DEADLINE_S):
                return await diagnose(
                    self._destination,
                    self._credential,
                    attempted=attempted,
                    clock=self._clock,
                    probe=None if self._route is None else self._route.probe,
                )
        except (OSError, ValueError, TimeoutError):
            return None  # The first fault stands; this one is about the search for its reason.

    def _may_retry(self, error: CallFailedError, why: GridError) -> bool:
        """True when the site was not reached, or was lost before it answered, and when another try
        can help. What the site itself says of being unavailable is an answer. A site that was
        reached before may be restarting, and is tried again; one that was never reached, or did not
        come back while it was last waited for, is not.
        """
        if error.code is not grpc.StatusCode.UNAVAILABLE or is_from_site(error.metadata):
            return False
        if isinstance(why, UnreachableError) and not self._was_reached:
            return False
        return why.may_retry

    def _measure(self, sent_at: float, site_time: float | None) -> None:
        """Take notice of the site's clock, which only the site itself can have told."""
        if site_time is not None:
            self._was_reached = True
            self._skew.measure(
                sent_at=sent_at, received_at=self._clock.now_precise(), site_time=site_time
            )


def _time_in(metadata: Iterable[Any] | None) -> float | None:
    """The site's clock, as an answer or a fault brought it."""
    for key, value in metadata or ():
        if key == TIME_KEY:
            try:
                return read_decimal(str(value))
            except ValueError:
                return None
    return None


def _shown(name: str) -> str:
    """A name that a site gave itself, as text."""
    return repr("".join(sign if sign.isprintable() else "?" for sign in name[:NAME_SHOWN_MAX]))


def _metadata() -> tuple[tuple[str, str], ...] | None:
    request_id = current_request()
    return ((REQUEST_ID_KEY, request_id),) if request_id else None

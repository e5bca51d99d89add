"""A wire within one process: the bytes of gRPC without gRPC.

Every message is serialised and parsed again, and every fault goes through the table of codes, so
what arrives is what would have arrived over a network. Simulations and the conformance suite use
it; it needs no socket, no thread and no real time.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeVar

from google.protobuf.message import Message

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import GridError, NotFoundError
from gridtravel.gridcore.ports import SiteServices
from gridtravel.gridio.rpc.codec.faults import code_of, details_of, fault_from, metadata_of
from gridtravel.gridio.rpc.server.handlers import Handler, handlers_of
from gridtravel.gridio.rpc.verbs import CALENDAR_SERVICE, SITE_SERVICE, A, AnyVerb, Q, Verb
from gridtravel.gridio.system.clock import Clock

M = TypeVar("M", bound=Message)

_log = logging.getLogger(__name__)


class LocalWire:
    """Carries ``caller``'s messages to ``services``, whose clock is ``clock``."""

    def __init__(
        self, services: SiteServices, caller: Caller, *, clock: Clock, endpoint: str
    ) -> None:
        self._endpoint = endpoint
        site_port = getattr(services, "site_port", None)
        self._ports: dict[str, Any] = {CALENDAR_SERVICE: services.calendar_port(caller)}
        self._handlers = handlers_of(CALENDAR_SERVICE, clock)
        if site_port is not None:
            self._ports[SITE_SERVICE] = site_port(caller)
            self._handlers |= handlers_of(SITE_SERVICE, clock)

    @property
    def endpoint(self) -> str:
        """Where it leads, for messages."""
        return self._endpoint

    async def ask(self, verb: Verb[Q, A], question: Q) -> A:
        """One question, one answer."""
        handle = self._of(verb)
        try:
            answer = await handle(self._ports[verb.service], _carried(question))
        except Exception as fault:
            raise self._carried_fault(fault, verb) from fault
        return verb.answer.FromString(answer.SerializeToString())

    async def listen(self, verb: Verb[Q, A], question: Q) -> AsyncGenerator[A, None]:
        """One question, many answers."""
        handle = self._of(verb)
        answers = handle(self._ports[verb.service], _carried(question))
        try:
            async with aclosing(answers):
                async for answer in answers:
                    yield verb.answer.FromString(answer.SerializeToString())
        except Exception as fault:
            raise self._carried_fault(fault, verb) from fault

    async def tell(self, verb: Verb[Q, A], parts: AsyncIterable[Q]) -> A:
        """Many parts, one answer."""
        handle = self._of(verb)
        broken: list[Exception] = []
        try:
            answer = await handle(self._ports[verb.service], _carried_each(parts, broken))
        except Exception as fault:
            if broken:
                raise broken[0] from None
            raise self._carried_fault(fault, verb) from fault
        return verb.answer.FromString(answer.SerializeToString())

    def _of(self, verb: AnyVerb) -> Handler:
        try:
            return self._handlers[verb]
        except KeyError:
            raise NotFoundError(
                f"{verb.method} at {self._endpoint}: it does not offer this",
                hint="a manager runs no jobs",
            ) from None

    def _carried_fault(self, fault: Exception, verb: AnyVerb) -> GridError:
        attempted = f"{verb.method} at {self._endpoint}"
        if not isinstance(fault, GridError):
            _log.error("%s failed", attempted, exc_info=fault)
            return GridError(f"{attempted}: internal error", hint="the site's log tells more")
        return fault_from(
            code_of(fault), details_of(fault), metadata_of(fault), attempted=attempted
        )


def _carried(message: M) -> M:
    return type(message).FromString(message.SerializeToString())


async def _carried_each(parts: AsyncIterable[Q], broken: list[Exception]) -> AsyncIterator[Q]:
    """``parts``; an exception of their source is noted, because it is not the site's."""
    try:
        async for part in parts:
            yield _carried(part)
    except Exception as fault:
        broken.append(fault)
        raise

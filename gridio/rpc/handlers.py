"""What a service does for each of its verbs: messages in, messages out, no transport."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
)
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from gridio.rpc.verbs import Verb

Port = TypeVar("Port")
T = TypeVar("T")

AnyVerb = Verb[Any, Any]


class Handlers(Generic[Port]):
    """The verbs of one service, by the number of messages that go each way."""

    def __init__(
        self,
        *,
        unary: Mapping[AnyVerb, Callable[[Port, Any], Awaitable[Message]]],
        reply_stream: Mapping[AnyVerb, Callable[[Port, Any], AsyncGenerator[Message, None]]],
        request_stream: Mapping[AnyVerb, Callable[[Port, AsyncIterable[Any]], Awaitable[Message]]]
        | None = None,
    ) -> None:
        self.unary = dict(unary)
        self.reply_stream = dict(reply_stream)
        self.request_stream = dict(request_stream or {})


@asynccontextmanager
async def closing(iterator: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """``iterator``, closed at the end when it can be closed: a subscription must not outlive its
    reader.
    """
    try:
        yield iterator
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()

"""A session ends whatever its stream was about to do."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from gridtravel.gridio.rpc.client.failures import CallFailedError
from gridtravel.gridio.rpc.client.session_client import Session

PATIENCE_S = 60.0


class UnsentCall:
    """A stream whose beginning never went out: whoever writes waits, also when it was cancelled."""

    def __init__(self) -> None:
        self._fault: grpc.aio.AioRpcError | None = None
        self._ended = asyncio.Event()
        self.writers = 0

    async def write(self, _: object) -> None:
        """As gRPC does before it has sent its metadata."""
        self.writers += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.writers -= 1

    def __aiter__(self) -> UnsentCall:
        return self

    async def __anext__(self) -> object:
        await self._ended.wait()
        raise self._fault or asyncio.CancelledError

    def cancel(self) -> bool:
        """Ends the reading, not the writing."""
        self._ended.set()
        return True

    def fail(self) -> None:
        """Nobody listens at the other end."""
        nothing = grpc.aio.Metadata()
        self._fault = grpc.aio.AioRpcError(
            grpc.StatusCode.UNAVAILABLE, nothing, nothing, "refused", ""
        )
        self._ended.set()


async def asked(call: UnsentCall) -> tuple[Session, asyncio.Task[Any]]:
    """A session with a question that is on its way."""
    session = Session(lambda: cast(Any, call))
    question = asyncio.create_task(session.ask("Vote", b"", limit_s=60.0, request_id="request-1"))
    for _ in range(5):
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
    return session, question


async def test_closing_does_not_wait_for_what_was_never_sent() -> None:
    """A daemon that stops closes its connections to sites that it could not reach yet; it must not
    stand there for ever.
    """
    call = UnsentCall()
    session, question = await asked(call)
    assert call.writers == 1
    async with asyncio.timeout(PATIENCE_S):
        await session.close()
    with pytest.raises(CallFailedError):
        await question
    assert call.writers == 0


async def test_a_stream_that_failed_leaves_no_writer_behind() -> None:
    """Nobody listens: the question fails, and nothing of the session waits any more."""
    call = UnsentCall()
    session, question = await asked(call)
    call.fail()
    with pytest.raises(CallFailedError):
        await question
    for _ in range(5):
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
    assert session.is_over
    assert call.writers == 0

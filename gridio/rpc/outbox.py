"""What waits to be written to a stream: whatever has gathered during one write goes with the next.

gRPC takes one write at a time on a stream, and each costs as much as a small call; so one task
writes, and answers that become ready together, or questions that are asked together, share a
message. No delay is added: a lone frame goes at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

F = TypeVar("F", bound=Message)

MESSAGE_BYTES: Final = 64 * 1024
"""A message takes no more frames when it has reached this."""


class Outbox(Generic[F]):
    """Frames in the order in which they were put. One task takes; any may put."""

    def __init__(self) -> None:
        self._frames: deque[F] = deque()
        self._taker: asyncio.Future[None] | None = None
        self._is_closed = False

    def put(self, frame: F) -> None:
        """Let ``frame`` go with the next message."""
        self._frames.append(frame)
        self._wake()

    def close(self) -> None:
        """No frame comes any more; those that are there are still taken."""
        self._is_closed = True
        self._wake()

    async def take(self) -> list[F]:
        """The frames of the next message, as soon as there are any; none when it is closed."""
        while not self._frames and not self._is_closed:
            self._taker = asyncio.get_running_loop().create_future()
            try:
                await self._taker
            finally:
                self._taker = None
        taken: list[F] = []
        size_bytes = 0
        while self._frames and size_bytes < MESSAGE_BYTES:
            frame = self._frames.popleft()
            size_bytes += frame.ByteSize()
            taken.append(frame)
        return taken

    def _wake(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

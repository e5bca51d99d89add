"""Bytes between a caller's connection and gRPC's, both ways, until either ends.

The first bytes of the caller are held until there is another side; what kind of side it is to be
may depend on them. Neither side is read while the other does not take what it was given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

BUFFER_BYTES: Final = 1 << 19
"""What waits in each direction before its sender is not read any more."""


LINGER_S: Final = 5.0
"""How long a side that was closed may take to read what is still meant for it."""


class Relay:
    """One connection. ``on_first`` is told the first bytes, once; ``on_end`` that both sides are
    closed, and with them their descriptors.
    """

    def __init__(self, on_first: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_first = on_first
        self._on_end = on_end
        self._held: list[bytes] = []
        self.outer = _Side(self)
        self.inner = _Side(self)
        self.is_over = False
        """True from the moment that either side has ended."""

    def join(self) -> None:
        """The inner side is connected: pass on what was held, and everything that comes."""
        if self.is_over:
            self.inner.abort()
            return
        self.outer.other, self.inner.other = self.inner, self.outer
        for piece in self._held:
            self.inner.write(piece)
        self._held.clear()
        self.outer.resume_reading()

    def close(self, last_words: bytes = b"") -> None:
        """End both sides; ``last_words`` still reach the caller if it reads."""
        if self.is_over:
            return
        self.is_over = True
        if last_words:
            self.outer.write(last_words)
        self.outer.close()
        self.inner.close()

    def lost(self) -> None:
        """One side is closed: the other has no business any more."""
        self.close()
        if not self.outer.is_open and not self.inner.is_open:
            self._on_end()

    def received(self, piece: bytes) -> None:
        """Bytes of the caller before there is another side."""
        self._held.append(piece)
        if len(self._held) == 1:
            self.outer.pause_reading()
            self._on_first(piece)


class _Side(asyncio.Protocol):
    """One of the two connections of a relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=BUFFER_BYTES)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._relay.received(data)
        else:
            self.other.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._relay.lost()

    @property
    def is_open(self) -> bool:
        """True while it has a descriptor."""
        return self._transport is not None

    def write(self, piece: bytes) -> None:
        """Send, or keep until it can be sent."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(piece)

    def pause_reading(self) -> None:
        """Twice is the same as once."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Twice is the same as once."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """When what was written is sent, or after ``LINGER_S``."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        """At once."""
        if self._transport is not None:
            self._transport.abort()

"""Bytes between callers' connections and gRPC's own, both ways: the program of a process beside
the daemon, so that they do not wait for the daemon's event loop, nor it for them.

It knows no rules and reads nothing of what it passes on. Orders come over a socket of whole
messages, each the number of a connection: with two descriptors, to carry it (the caller's end,
then gRPC's); without, to end it. Back comes each number whose connection is over. The process ends
with that socket, thus with the daemon. Standard library alone.
"""

from __future__ import annotations

import select
import signal
import socket
import struct
from collections import deque
from typing import Final

NUMBER: Final = struct.Struct("!Q")
"""Of a connection; never used twice."""
ORDERS_DESCRIPTOR: Final = 3
"""Where the process finds its orders."""
ENDS: Final = 2
"""Descriptors that come with a connection."""
BUFFER_BYTES: Final = 1 << 18
"""Read at once; what of it the other end does not take waits, and nothing more is read."""


class _End:
    """One of the two sockets of a connection."""

    __slots__ = ("descriptor", "events", "number", "other", "socket", "unsent")

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self.descriptor = descriptor
        self.socket = socket.socket(fileno=descriptor)
        self.socket.setblocking(False)
        self.other = self
        self.unsent = b""
        """What this end has not taken yet. The other is not read meanwhile."""
        self.events = 0
        """What is waited for."""


class Relay:
    """Every connection that is being carried."""

    def __init__(self, orders: socket.socket) -> None:
        """``orders``: see above; it does not block."""
        self._orders = orders
        self._poll = select.epoll()
        self._poll.register(orders.fileno(), select.EPOLLIN)
        self._ends: dict[int, _End] = {}
        """By descriptor."""
        self._carried: dict[int, _End] = {}
        """gRPC's end, by number."""
        self._untold: deque[int] = deque()
        """Numbers that are over, while the daemon does not listen."""
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)

    def run(self) -> None:
        """Until there is nobody to give orders."""
        orders = self._orders.fileno()
        while True:
            for descriptor, events in self._poll.poll():
                if descriptor == orders:
                    if events & select.EPOLLOUT:
                        self._tell()
                    if events & ~select.EPOLLOUT and not self._take_order():
                        return
                    continue
                end = self._ends.get(descriptor)
                if end is not None and events & select.EPOLLOUT and end.unsent:
                    self._send_rest(end)
                if end is not None and events & ~select.EPOLLOUT and not end.other.unsent:
                    self._pass_on(end)

    def _take_order(self) -> bool:
        """False: there will be no more."""
        try:
            message, received, flags, _ = socket.recv_fds(
                self._orders, NUMBER.size, ENDS, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return True
        except OSError:
            message, received, flags = b"", [], 0
        if not message:
            for number in list(self._carried):
                self._end_as_ordered(number)
            return False
        (number,) = NUMBER.unpack(message)
        ends = [_End(number, each) for each in received]
        if len(ends) == ENDS:
            self._carry(*ends)
        elif flags & socket.MSG_CTRUNC:  # this process may have no more descriptors
            for end in ends:
                end.socket.close()
            self._is_over(number)
        else:
            self._end_as_ordered(number)
        return True

    def _carry(self, outer: _End, inner: _End) -> None:
        outer.other, inner.other = inner, outer
        self._carried[inner.number] = inner
        for end in (outer, inner):
            self._ends[end.descriptor] = end
            self._expect(end)

    def _end_as_ordered(self, number: int) -> None:
        """What gRPC has just said to the caller still goes out."""
        inner = self._carried.get(number)
        if inner is not None and not inner.other.unsent:
            self._pass_on(inner)
        if inner is not None:
            self._end(inner)

    def _pass_on(self, end: _End) -> None:
        other = end.other
        try:
            count = end.socket.recv_into(self._buffer)
            if count == 0:
                self._end(end)
                return
        except BlockingIOError:
            return
        except OSError:
            self._end(end)
            return
        try:
            sent = other.socket.send(self._view[:count])
        except BlockingIOError:
            sent = 0
        except OSError:
            self._end(end)
            return
        if sent < count:
            other.unsent = bytes(self._view[sent:count])
            self._expect(end)
            self._expect(other)

    def _send_rest(self, end: _End) -> None:
        try:
            end.unsent = end.unsent[end.socket.send(end.unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._end(end)
            return
        if not end.unsent:
            self._expect(end)
            self._expect(end.other)

    def _expect(self, end: _End) -> None:
        """Wait for what can be done with this end. One with which nothing can be done is taken out,
        because the kernel would report its end again and again.
        """
        events = (0 if end.other.unsent else select.EPOLLIN) | (
            select.EPOLLOUT if end.unsent else 0
        )
        if events and not end.events:
            self._poll.register(end.descriptor, events)
        elif end.events and not events:
            self._poll.unregister(end.descriptor)
        elif events != end.events:
            self._poll.modify(end.descriptor, events)
        end.events = events

    def _end(self, end: _End) -> None:
        """Both ends are closed; twice is the same as once."""
        if self._carried.pop(end.number, None) is None:
            return
        for each in (end, end.other):
            if each.events:
                self._poll.unregister(each.descriptor)
            del self._ends[each.descriptor]
            each.socket.close()
        self._is_over(end.number)

    def _is_over(self, number: int) -> None:
        self._untold.append(number)
        self._tell()

    def _tell(self) -> None:
        """Say which connections are over, as far as the daemon listens."""
        events = select.EPOLLIN
        while self._untold:
            try:
                self._orders.send(NUMBER.pack(self._untold[0]))
            except BlockingIOError:
                events |= select.EPOLLOUT
                break
            except OSError:  # it is gone, which the next order says
                self._untold.clear()
                break
            self._untold.popleft()
        self._poll.modify(self._orders.fileno(), events)


def main() -> None:
    """The whole process. A signal meant for the daemon is not for it: it ends after it."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    orders = socket.socket(fileno=ORDERS_DESCRIPTOR)
    orders.setblocking(False)
    Relay(orders).run()

"""The process that carries the bytes of connections (``relay``), as its daemon sees it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gridtravel import gridio
from gridtravel.gridio.rpc.server.relay import NUMBER, ORDERS_DESCRIPTOR

GONE_LIMIT_S: Final = 2.0
"""How long the process may take to end; then it is killed."""
BOOT: Final = (
    "import sys; sys.path.append(sys.argv[1]);"
    "from gridtravel.gridio.rpc.server.relay import main;"
    "main()"
)

_log = logging.getLogger(__name__)


class RelayProcess:
    """At most one process, started when it is needed. All methods belong to one event loop."""

    def __init__(self, on_over: Callable[[int], None]) -> None:
        """``on_over`` is told each number whose connection is over, whoever ended it."""
        self._on_over = on_over
        self._channel: socket.socket | None = None
        self._pid = 0
        self._carried: set[int] = set()
        self._unsent: deque[tuple[int, tuple[socket.socket, ...]]] = deque()
        """Orders that the channel did not take yet, each with the sockets that belong to it."""

    def start(self) -> None:
        """Start the process, unless it runs; an ``OSError`` when that cannot be."""
        if self._channel is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ours.setblocking(False)
            self._pid = _spawn(theirs.fileno())
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = ours
        asyncio.get_running_loop().add_reader(ours, self._receive)

    def carry(self, number: int, outer: socket.socket, inner: socket.socket) -> None:
        """Pass bytes on between the two from now on. They are the process's, and closed here. An
        ``OSError``: it cannot be started; then they are the caller's still.
        """
        self.start()
        self._carried.add(number)
        self._order(number, outer, inner)

    def end(self, number: int) -> None:
        """End a connection, which ``on_over`` is told later."""
        if number in self._carried:
            self._order(number)

    async def close(self) -> None:
        """End every connection, and the process."""
        pid = self._pid
        self._let_go()
        if pid:
            gone = asyncio.create_task(asyncio.to_thread(_wait, pid))
            try:
                async with asyncio.timeout(GONE_LIMIT_S):
                    await asyncio.shield(gone)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                await gone

    def _order(self, number: int, *ends: socket.socket) -> None:
        self._unsent.append((number, ends))
        if len(self._unsent) == 1:
            self._send()

    def _send(self) -> None:
        assert self._channel is not None, "start() comes first"
        loop = asyncio.get_running_loop()
        while self._unsent:
            number, ends = self._unsent[0]
            descriptors = [each.fileno() for each in ends]
            try:
                socket.send_fds(self._channel, [NUMBER.pack(number)], descriptors)
            except BlockingIOError:
                loop.add_writer(self._channel, self._send)
                return
            except OSError:  # it is gone, which _receive finds
                break
            self._unsent.popleft()
            for each in ends:
                each.close()
        loop.remove_writer(self._channel)

    def _receive(self) -> None:
        """Some connections are over; with the process, all are."""
        while self._channel is not None:
            try:
                message = self._channel.recv(NUMBER.size)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                _log.error("relay ended", extra={"connections": len(self._carried)})
                pid = self._pid
                self._let_go()
                _wait(pid)
                return
            (number,) = NUMBER.unpack(message)
            self._carried.discard(number)
            self._on_over(number)

    def _let_go(self) -> None:
        if self._channel is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._channel)
            loop.remove_writer(self._channel)
            self._channel.close()
        self._channel, self._pid = None, 0
        for _, ends in self._unsent:
            for each in ends:
                each.close()
        self._unsent.clear()
        carried, self._carried = self._carried, set()
        for number in carried:
            self._on_over(number)


def _wait(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _spawn(channel: int) -> int:
    package_root = Path(gridio.__file__).parents[2]
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", BOOT, str(package_root)],
        {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, channel, ORDERS_DESCRIPTOR),
        ],
        setsid=True,
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )

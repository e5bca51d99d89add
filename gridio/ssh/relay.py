"""One connection of the local socket and the SSH channel it is copied to, both ways."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final

import paramiko

PIECE_BYTES: Final = 1 << 18


class Relay:
    """Copies until either side ends, in two threads, then closes both."""

    def __init__(
        self, connection: socket.socket, channel: paramiko.Channel, first: bytes, name: str
    ) -> None:
        """``first``: bytes that came through the channel before there was a connection."""
        self._connection = connection
        self._channel = channel
        self._first = first
        self._threads = [
            threading.Thread(target=work, name=f"{name} {way}", daemon=True)
            for work, way in ((self._copy_out, "out"), (self._copy_in, "in"))
        ]

    @property
    def is_alive(self) -> bool:
        """True while it copies towards us."""
        return self._threads[1].is_alive() and not self._channel.closed

    def start(self) -> None:
        """Begin to copy."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End both sides; the threads notice."""
        with contextlib.suppress(OSError, EOFError):
            self._channel.close()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def join(self, patience_s: float) -> None:
        """Wait for the threads, each at most ``patience_s``."""
        for thread in self._threads:
            thread.join(patience_s)

    def _copy_out(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            while piece := self._connection.recv(PIECE_BYTES):
                self._channel.sendall(piece)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def _copy_in(self) -> None:
        try:
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                self._connection.sendall(self._first)
                while piece := self._channel.recv(PIECE_BYTES):
                    self._connection.sendall(piece)
        finally:
            self.close()
            self._threads[0].join()
            self._connection.close()

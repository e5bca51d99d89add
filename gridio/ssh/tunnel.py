"""From a local socket to the agent's, through a login that is made when a call needs it.

Only ``open``, and so only a call, logs in and starts a bridge; it has the bridge running and heard
from it before gRPC connects to the local socket. A connection that gRPC makes by itself is closed
at once. So a refused key is tried once a call and not five times a second, and every fault of the
login reaches the caller in its own words.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path
from typing import Final

import paramiko

from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridio.rpc.client.diagnosis import FIRST_WORDS_S
from gridtravel.gridio.sites.connections import UnreachableError
from gridtravel.gridio.ssh.far_end import bridge_command, start_bridge
from gridtravel.gridio.ssh.handshake import first_words, shake_hands
from gridtravel.gridio.ssh.login import Login, in_thread
from gridtravel.gridio.ssh.private_socket import PrivateSocket
from gridtravel.gridio.ssh.prompting import Prompter
from gridtravel.gridio.ssh.target import SshTarget

PIECE_BYTES: Final = 1 << 18
RELAY_END_S: Final = 1.0
"""How long a relay that is ending may take."""
JOIN_S: Final = 3.0
"""How long closing waits for threads: one may be asking the user, who has just pressed Ctrl-C."""


class Tunnel:
    """One login and its bridges; a ``gridio.rpc.client.channel_wire.Route``."""

    def __init__(
        self,
        target: SshTarget,
        *,
        agent_socket: str = "",
        config: Path | None = None,
        prompter: Prompter | None = None,
    ) -> None:
        """``agent_socket``: path at the far end; empty: the usual place. ``config``: instead of
        ``~/.ssh/config``.
        """
        self._target = target
        self._command = bridge_command(agent_socket)
        self._name = f"ssh {target.host}"
        self._config = config
        self._prompter = prompter
        self._lock = threading.Lock()
        """Guards what follows: the threads and the event loop meet here."""
        self._login: Login | None = None
        self._spare: tuple[paramiko.Channel, bytes] | None = None
        """A bridge that runs and waits for its connection, with what it has said already."""
        self._relays: list[_Relay] = []
        self._local: PrivateSocket | None = None
        self._is_closed = False
        self._opening: asyncio.Future[None] | None = None

    @property
    def endpoint(self) -> str:
        """``unix:/path`` of the local end, which listens from now on."""
        if self._local is None:
            self._local = PrivateSocket(self._welcome)
        return f"unix:{self._local.path}"

    @property
    def is_open(self) -> bool:
        """See ``Route``."""
        return self._leads_there()

    async def probe(self, context: ssl.SSLContext | None, server_name: str) -> bytes:
        """See ``Route``. A bridge of its own over the login that there is; none is made for it."""
        return await in_thread(self._name, lambda: self._try(context, server_name))

    async def open(self) -> bool:
        """See ``Route``. Callers at the same time share one attempt."""
        if self._is_closed:
            raise UnavailableError(f"the connection to {self._target.host} is closed")
        if self._leads_there():
            return False
        if self._opening is None:
            self._opening = in_thread(self._name, self._dig)
            self._opening.add_done_callback(self._opened)
        await asyncio.shield(self._opening)
        return True

    async def close(self) -> None:
        """End bridges, login, socket and threads. Twice is the same as once."""
        with self._lock:
            self._is_closed = True
            login, self._login, self._spare = self._login, None, None
            relays, self._relays = self._relays, []
        local, self._local = self._local, None

        def end() -> None:
            if local is not None:
                local.close()
            for relay in relays:
                relay.close()
            if login is not None:
                login.close()
            for relay in relays:
                relay.join(JOIN_S)

        waits = [
            in_thread(self._name, end),
            *([self._opening] if self._opening is not None else []),
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JOIN_S):
                await asyncio.gather(*map(asyncio.shield, waits), return_exceptions=True)

    # -- in threads --------------------------------------------------------------------------------

    def _dig(self) -> None:
        """Have a bridge running. A login that turns out to be dead is made once more."""
        login = self._login
        if login is not None and login.is_alive:
            try:
                self._start(login)
                return
            except UnreachableError:
                login.close()
        elif login is not None:
            login.close()
        login = Login(self._target, config=self._config, prompter=self._prompter)
        with self._lock:
            if self._is_closed:
                raise UnavailableError(f"the connection to {self._target.host} is closed")
            self._login = login
        try:
            login.connect()
        except BaseException:
            login.close()
            raise
        self._start(login)

    def _start(self, login: Login) -> None:
        channel = login.open_session()
        try:
            said = start_bridge(channel, self._command, self._target.host)
        except BaseException:
            channel.close()
            raise
        with self._lock:
            if not self._is_closed:
                self._spare = channel, said
                return
        channel.close()

    def _try(self, context: ssl.SSLContext | None, server_name: str) -> bytes:
        with self._lock:
            login, relays = self._login, list(self._relays)
        if login is None or not login.is_alive:
            return b""
        for relay in relays:
            relay.join(RELAY_END_S)  # The server may allow one session at a time.
        with contextlib.suppress(GridError, paramiko.SSHException):
            channel = login.open_session()
            with contextlib.closing(channel):
                said = start_bridge(channel, self._command, self._target.host)
                if context is None:
                    return first_words(channel, said, FIRST_WORDS_S)
                return shake_hands(channel, said, context, server_name)
        return b""

    def _welcome(self, connection: socket.socket) -> None:
        """gRPC has connected: give it the bridge that waits, or close the connection."""
        with self._lock:
            spare, self._spare = self._spare, None
            if spare is None or self._is_closed:
                connection.close()
                return
            channel, said = spare
            relay = _Relay(connection, channel, said, self._name)
            self._relays = [each for each in self._relays if each.is_alive]
            self._relays.append(relay)
            relay.start()

    # -- inside ------------------------------------------------------------------------------------

    def _leads_there(self) -> bool:
        with self._lock:
            if self._login is None or not self._login.is_alive:
                return False
            if self._spare is not None and not self._spare[0].closed:
                return True
            return any(relay.is_alive for relay in self._relays)

    def _opened(self, opening: asyncio.Future[None]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # Looked at here, since there may be no waiter left to see it.


class _Relay:
    """One connection of the local socket and the SSH channel it is copied to, both ways.

    Copies until either side ends, in two threads, then closes both.
    """

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

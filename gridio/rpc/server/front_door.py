"""Where a daemon's callers come in: its port on the network, and its local socket.

gRPC gives no access to a connection before there is a call on it: it can neither ask the kernel
whose it is (SO_PEERCRED) nor turn it away. So this front door accepts, asks ``admission`` who may
come in, and connects them, once they have said something, with sockets of the server's own from an
end bound to a name of ours; gRPC reports that name as the call's peer, and the front door remembers
whose it is. The bytes are carried by a process beside the daemon (``relay``). TLS and HTTP/2 go
through unread, except for a look at the very first byte: at the local socket it tells a caller who
wants the site to prove its name (TLS) from one to whom the socket's place is proof enough.

The server's own sockets lie in a folder of mode 0700. A process that gets there nevertheless (the
same user, or root) has no name that the front door gave, and proves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from gridtravel.gridcore.errors import InputError, NotAuthorisedError, UnavailableError
from gridtravel.gridio.rpc.refusal_line import refusal_line
from gridtravel.gridio.rpc.server.admission import Admission, ConnectionLimits, Guest, Refused
from gridtravel.gridio.rpc.server.local_socket import BACKLOG, LocalSocket, login_of_uid, uid_at
from gridtravel.gridio.rpc.server.relay_process import RelayProcess

PLAIN: Final = "b.sock"
"""Local callers who know the server by its socket's place."""
PROVING: Final = "t.sock"
"""Local callers who want to see the server's certificate."""
NETWORK: Final = "n.sock"
"""Callers from the network: both ends show certificates."""

TLS_FIRST_BYTE: Final = b"\x16"
"""Of a TLS connection: the record that opens a handshake. HTTP/2 begins with ``P``."""

UNREAD_BYTES_MAX: Final = 1 << 16
"""Of a caller that is turned away; who has sent more finds the connection reset."""
PAUSE_S: Final = 1.0
"""Before the next try to accept, where the system has no room."""

FOLDER_PREFIX: Final = "grid-door-"
PORT_MAX: Final = 65_535
REFUSALS_LOGGED_EVERY_S: Final = 10.0

_Admit: TypeAlias = Callable[[socket.socket, Any], None]
"""Lets a connection in, or turns it away; with its name as ``accept`` gives it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitting:
    """How many a daemon lets in."""

    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    admins: Collection[str] = ()
    """Logins for whom places at the local socket are kept, beside root and the daemon's own."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Visit:
    """A connection that was let in."""

    guest: Guest
    number: int
    address: str
    """For logs."""
    silent: socket.socket | None
    """The caller's end while it has not said anything; then the relay has it."""


class FrontDoor:
    """The public sockets of one daemon and the way from there to its gRPC server."""

    def __init__(
        self,
        *,
        address: str = "",
        local: LocalSocket | None = None,
        admitting: Admitting,
        proves_locally: bool = False,
        login_of: Callable[[int], str] = login_of_uid,
    ) -> None:
        """``address``: ``host:port`` on the network, port 0 for any; empty: none.
        ``proves_locally``: the server has a certificate to show at the local socket.
        """
        self._address = address
        self._local = local
        self._admins = frozenset(admitting.admins)
        self._limits = admitting.limits
        self._proves_locally = proves_locally
        self._login_of = login_of
        self._admission = Admission(admitting.limits)
        self._folder: Path | None = None
        self._listeners: list[socket.socket] = []
        self._inode: int | None = None
        self._relay = RelayProcess(self._is_over)
        self._visits: dict[Guest, _Visit] = {}
        self._numbered: dict[int, _Visit] = {}
        """The number is also the name of our end of a connection to gRPC."""
        self._count = 0
        self._refused = 0
        """Since it was last logged."""
        self._refusals_logged_at = -math.inf
        self.port = 0
        """On the network, once ``open`` has found it."""

    def prepare(self) -> Path:
        """Make the private folder, in which the gRPC server is to listen at ``PLAIN``, ``PROVING``
        and ``NETWORK``.
        """
        if self._local is not None:
            self._local.prepare()
            self._folder = self._local.private_folder
        else:
            self._folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        return self._folder

    def open(self) -> None:
        """Accept connections. The gRPC server listens already."""
        try:
            self._relay.start()
        except OSError as fault:
            raise UnavailableError(f"cannot start the relay: {fault.strerror}") from fault
        if self._address:
            for listener in _network_listeners(self._address):
                self.port = listener.getsockname()[1]
                self._listeners.append(listener)
                self._listen(listener, self._admit_from_network)
        if self._local is not None:
            listener = self._local.listen()
            self._inode = self._local.path.stat().st_ino
            self._listeners.append(listener)
            self._listen(listener, self._admit_local)

    def shut(self) -> None:
        """Let nobody in any more; who is in may stay."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener)
            listener.close()
        self._listeners = []

    async def close(self) -> None:
        """End every connection, remove the socket and the private folder."""
        self.shut()
        for visit in list(self._visits.values()):
            if visit.silent is not None:
                self._end(visit)
        await self._relay.close()
        if self._local is not None:
            with contextlib.suppress(OSError):
                if self._inode == self._local.path.stat().st_ino:
                    self._local.path.unlink()
        self._inode = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    # -- for the server ----------------------------------------------------------------------------

    def guest_at(self, peer: str) -> Guest:
        """Whose connection a gRPC peer such as ``unix:/…/7`` is; ``NotAuthorisedError`` when it did
        not come through this door.
        """
        visit = self._visit_at(peer)
        if visit is None:
            raise NotAuthorisedError(
                "the connection did not come through the front door",
                hint="connect to the daemon's local socket itself",
            )
        return visit.guest

    def address_of(self, peer: str) -> str:
        """Where a gRPC peer comes from, for logs."""
        visit = self._visit_at(peer)
        return peer if visit is None else visit.address

    def _visit_at(self, peer: str) -> _Visit | None:
        folder, _, number = peer.removeprefix("unix:").rpartition("/")
        is_ours = folder == str(self._folder) and number.isdecimal()
        return self._numbered.get(int(number)) if is_ours else None

    def login_of(self, guest: Guest) -> str:
        """The login of a local guest who asks something."""
        assert guest.uid is not None, "a guest from the network has no login here"
        guest.has_asked = True
        return self._login_of(guest.uid)

    def proven(self, guest: Guest, subject: str) -> None:
        """A guest from the network asks something with this certificate. ``UnavailableError``: it
        has too many connections already.
        """
        refused = self._admission.proven(guest, subject)
        if refused is not None:
            self._log_refusal(refused, guest.address)
            raise UnavailableError(refused.reason, hint=refused.next_step)

    # -- who comes ---------------------------------------------------------------------------------

    def _listen(self, listener: socket.socket, admit: _Admit) -> None:
        if listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener, admit)

    def _accept(self, listener: socket.socket, admit: _Admit) -> None:
        """All who wait, at most so many at a time as may wait."""
        for _ in range(BACKLOG):
            try:
                connection, name = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as fault:  # no more descriptors, or memory
                _log.warning("cannot accept", extra={"why": str(fault)})
                loop = asyncio.get_running_loop()
                loop.remove_reader(listener)
                loop.call_later(PAUSE_S, self._listen, listener, admit)
                return
            connection.setblocking(False)
            admit(connection, name)

    def _admit_local(self, connection: socket.socket, _: object) -> None:
        uid = uid_at(connection)
        try:
            login = self._login_of(uid)
        except NotAuthorisedError:
            login = str(uid)
        is_admin = uid in (0, os.geteuid()) or login in self._admins
        outcome, leaves = self._admission.admit_local(
            uid, login=login, is_admin=is_admin, now=asyncio.get_running_loop().time()
        )
        self._let_in(connection, outcome, leaves, "local")

    def _admit_from_network(self, connection: socket.socket, name: tuple[Any, ...]) -> None:
        host, port = name[0], name[1]
        outcome, leaves = self._admission.admit_from(host, asyncio.get_running_loop().time())
        address = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        # What the relay passes on must not wait to be joined by more.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._let_in(connection, outcome, leaves, address)

    def _let_in(
        self,
        connection: socket.socket,
        outcome: Guest | Refused,
        leaves: Guest | None,
        address: str,
    ) -> None:
        if leaves is not None:
            self._end(self._visits[leaves])
        if isinstance(outcome, Refused):
            self._log_refusal(outcome, address)
            _hang_up(connection, refusal_line(outcome.reason, outcome.next_step))
            return
        self._count += 1
        visit = _Visit(guest=outcome, number=self._count, address=address, silent=connection)
        self._visits[visit.guest] = self._numbered[visit.number] = visit
        loop = asyncio.get_running_loop()
        loop.add_reader(connection, self._lead, visit)
        loop.call_later(self._limits.silence_s, self._check, visit)

    def _check(self, visit: _Visit) -> None:
        """Long after its beginning, a connection must have asked something."""
        if not visit.guest.has_asked and visit.guest in self._visits:
            _log.info("connection asked nothing", extra={"peer": visit.address})
            self._end(visit)

    def _end(self, visit: _Visit) -> None:
        if visit.silent is None:
            self._relay.end(visit.number)
        else:
            asyncio.get_running_loop().remove_reader(visit.silent)
            _hang_up(visit.silent)
            self._is_over(visit.number)

    def _is_over(self, number: int) -> None:
        visit = self._numbered.pop(number)
        del self._visits[visit.guest]
        self._admission.gone(visit.guest)

    def _log_refusal(self, refused: Refused, address: str) -> None:
        """Somebody who asks without end must not fill the log."""
        self._refused += 1
        now = asyncio.get_running_loop().time()
        if now >= self._refusals_logged_at + REFUSALS_LOGGED_EVERY_S:
            _log.warning(
                "connections refused",
                extra={"count": self._refused, "why": refused.reason, "peer": address},
            )
            self._refused, self._refusals_logged_at = 0, now

    # -- the way to gRPC ---------------------------------------------------------------------------

    def _lead(self, visit: _Visit) -> None:
        """The caller has said something: connect it with the socket of gRPC that is for it."""
        assert visit.silent is not None, "it is listened to until it has said something"
        try:
            first = visit.silent.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        target = self._target(visit.guest, first)
        if target is None:
            self._end(visit)
            return
        asyncio.get_running_loop().remove_reader(visit.silent)
        inner = socket.socket(socket.AF_UNIX)
        try:
            inner.setblocking(False)
            self._connect(inner, visit.number, target)
            self._relay.carry(visit.number, visit.silent, inner)
        except OSError as fault:
            _log.warning("no way to the server", extra={"why": str(fault), "peer": visit.address})
            inner.close()
            self._end(visit)
            return
        visit.silent = None

    def _target(self, guest: Guest, first: bytes) -> str | None:
        """Where a caller belongs who begins with this byte."""
        is_tls = first[:1] == TLS_FIRST_BYTE
        if not first:
            return None
        if guest.uid is None:
            return NETWORK if is_tls else None
        if is_tls:
            return PROVING if self._proves_locally else None
        return PLAIN

    def _connect(self, inner: socket.socket, number: int, target: str) -> None:
        assert self._folder is not None, "prepare() comes first"
        name = self._folder / str(number)
        inner.bind(str(name))
        try:
            inner.connect(str(self._folder / target))
        finally:
            # The kernel keeps the name with the socket; the file has done its work.
            name.unlink()


def _hang_up(connection: socket.socket, last_words: bytes = b"") -> None:
    """What the caller has said already is read, because the kernel would end a connection with
    unread bytes by a reset, which can overtake the last words.
    """
    with contextlib.suppress(OSError):
        connection.send(last_words)
        connection.recv(UNREAD_BYTES_MAX)
    connection.close()


def _network_listeners(address: str) -> list[socket.socket]:
    """A listening socket for each address that ``host:port`` stands for, all at one port."""
    host, _, port_text = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port_text.isdecimal() or int(port_text) > PORT_MAX:
        raise InputError(f"cannot listen at {address[:80]!r}", hint="write host:port")
    port = int(port_text)
    listeners: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
        for family, *_, where in dict.fromkeys(found):
            listener = socket.create_server(
                (where[0], port),
                family=family,
                backlog=BACKLOG,
                dualstack_ipv6=where[0] == "::" and socket.has_dualstack_ipv6(),
            )
            listeners.append(listener)
            listener.setblocking(False)
            port = listener.getsockname()[1]
    except OSError as fault:
        for listener in listeners:
            listener.close()
        raise UnavailableError(
            f"cannot listen at {address}: {fault.strerror}",
            hint="another server has the port, or the address is not of this machine",
        ) from fault
    return listeners

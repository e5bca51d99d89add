"""Where a daemon's callers come in: its port on the network, and its local socket.

gRPC gives no access to a connection before there is a call on it: it can neither ask the kernel
whose it is (SO_PEERCRED) nor turn it away. So this front door accepts, asks ``admission`` who may
come in, and passes the bytes on to sockets of the server's own from an end bound to a name of ours;
gRPC reports that name as the call's peer, and the front door remembers whose it is. TLS and HTTP/2
go through unread, except for the very first byte at the local socket: it tells a caller who wants
the site to prove its name (TLS) from one to whom the socket's place is proof enough.

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
from typing import Final, cast

from gridtravel.gridcore.errors import InputError, NotAuthorisedError, UnavailableError
from gridtravel.gridio.rpc.refusal_line import refusal_line
from gridtravel.gridio.rpc.server.admission import Admission, ConnectionLimits, Guest, Refused
from gridtravel.gridio.rpc.server.local_socket import BACKLOG, LocalSocket, login_of_uid, uid_at
from gridtravel.gridio.rpc.server.relay import Relay

PLAIN: Final = "b.sock"
"""Local callers who know the server by its socket's place."""
PROVING: Final = "t.sock"
"""Local callers who want to see the server's certificate."""
NETWORK: Final = "n.sock"
"""Callers from the network: both ends show certificates."""

TLS_FIRST_BYTE: Final = 0x16
"""Of a TLS connection: the record that opens a handshake. HTTP/2 begins with ``P``."""

FOLDER_PREFIX: Final = "grid-door-"
PORT_MAX: Final = 65_535
REFUSALS_LOGGED_EVERY_S: Final = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitting:
    """How many a daemon lets in."""

    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    admins: Collection[str] = ()
    """Logins for whom places at the local socket are kept, beside root and the daemon's own."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Visit:
    """A connection on its way through."""

    guest: Guest
    relay: Relay
    address: str
    """For logs."""
    name: str = ""
    """Of our end of its connection to gRPC, once there is one."""


class _Entrance(asyncio.Protocol):
    """A connection of which nobody knows yet whether it is let in."""

    def __init__(self, admit: Callable[[asyncio.Transport], asyncio.Protocol | None]) -> None:
        self._admit = admit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)
        protocol = self._admit(accepted)
        if protocol is not None:
            accepted.set_protocol(protocol)
            protocol.connection_made(accepted)


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
        self._servers: list[asyncio.Server] = []
        self._inode: int | None = None
        self._visits: dict[Guest, _Visit] = {}
        self._named: dict[str, _Visit] = {}
        """Name of our end of each connection that gRPC has -> what it belongs to."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self._last_gone = asyncio.Event()
        """Set when nobody is in any more."""
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

    async def open(self) -> None:
        """Accept connections. The gRPC server listens already."""
        loop = asyncio.get_running_loop()
        if self._address:
            for listener in _network_listeners(self._address):
                self.port = listener.getsockname()[1]
                factory = self._from_network
                server = await loop.create_server(factory, sock=listener, backlog=BACKLOG)
                self._servers.append(server)
        if self._local is not None:
            listener = self._local.listen()
            self._inode = self._local.path.stat().st_ino
            factory = self._from_local
            server = await loop.create_unix_server(factory, sock=listener, backlog=BACKLOG)
            self._servers.append(server)

    def shut(self) -> None:
        """Let nobody in any more; who is in may stay."""
        for server in self._servers:
            server.close()
        self._servers = []

    async def close(self) -> None:
        """End every connection, remove the socket and the private folder."""
        self.shut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for visit in list(self._visits.values()):
            visit.relay.close()
            visit.relay.outer.abort()
            visit.relay.inner.abort()
        if self._visits:
            self._last_gone.clear()
            await self._last_gone.wait()
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
        visit = self._named.get(peer.removeprefix("unix:"))
        if visit is None:
            raise NotAuthorisedError(
                "the connection did not come through the front door",
                hint="connect to the daemon's local socket itself",
            )
        return visit.guest

    def address_of(self, peer: str) -> str:
        """Where a gRPC peer comes from, for logs."""
        visit = self._named.get(peer.removeprefix("unix:"))
        return peer if visit is None else visit.address

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

    def _from_local(self) -> asyncio.Protocol:
        return _Entrance(self._admit_local)

    def _from_network(self) -> asyncio.Protocol:
        return _Entrance(self._admit_from_network)

    def _admit_local(self, transport: asyncio.Transport) -> asyncio.Protocol | None:
        uid = uid_at(transport.get_extra_info("socket"))
        try:
            login = self._login_of(uid)
        except NotAuthorisedError:
            login = str(uid)
        is_admin = uid in (0, os.geteuid()) or login in self._admins
        outcome, leaves = self._admission.admit_local(
            uid, login=login, is_admin=is_admin, now=asyncio.get_running_loop().time()
        )
        return self._let_in(transport, outcome, leaves, "local")

    def _admit_from_network(self, transport: asyncio.Transport) -> asyncio.Protocol | None:
        name = transport.get_extra_info("peername")
        if not name:
            transport.abort()
            return None
        host, port = name[0], name[1]
        outcome, leaves = self._admission.admit_from(host, asyncio.get_running_loop().time())
        address = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        return self._let_in(transport, outcome, leaves, address)

    def _let_in(
        self,
        transport: asyncio.Transport,
        outcome: Guest | Refused,
        leaves: Guest | None,
        address: str,
    ) -> asyncio.Protocol | None:
        """The protocol that takes the connection over; ``None``: it was turned away."""
        if leaves is not None:
            self._visits[leaves].relay.close()
        if isinstance(outcome, Refused):
            self._log_refusal(outcome, address)
            transport.write(refusal_line(outcome.reason, outcome.next_step))
            transport.close()
            return None
        guest = outcome
        relay = Relay(lambda first: self._lead(visit, first), lambda: self._gone(visit))
        visit = self._visits[guest] = _Visit(guest=guest, relay=relay, address=address)
        asyncio.get_running_loop().call_later(self._limits.silence_s, self._check, visit)
        return relay.outer

    def _check(self, visit: _Visit) -> None:
        """Long after its beginning, a connection must have asked something."""
        if not visit.guest.has_asked and not visit.relay.is_over:
            _log.info("connection asked nothing", extra={"peer": visit.address})
            visit.relay.close()

    def _gone(self, visit: _Visit) -> None:
        self._visits.pop(visit.guest, None)
        self._named.pop(visit.name, None)
        self._admission.gone(visit.guest)
        if not self._visits:
            self._last_gone.set()

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

    def _lead(self, visit: _Visit, first: bytes) -> None:
        """The caller has said something: connect it with the socket of gRPC that is for it."""
        is_tls = first[0] == TLS_FIRST_BYTE
        if visit.guest.uid is None:
            target = NETWORK if is_tls else None
        elif is_tls:
            target = PROVING if self._proves_locally else None
        else:
            target = PLAIN
        if target is None:
            visit.relay.close()
            return
        task = asyncio.get_running_loop().create_task(self._connect(visit, target))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, visit: _Visit, target: str) -> None:
        assert self._folder is not None, "prepare() comes first"
        self._count += 1
        name = str(self._folder / str(self._count))
        inner = socket.socket(socket.AF_UNIX)
        try:
            inner.setblocking(False)
            inner.bind(name)
            visit.name = name
            self._named[name] = visit
            loop = asyncio.get_running_loop()
            await loop.sock_connect(inner, str(self._folder / target))
            # The kernel keeps the name with the socket; the file has done its work.
            os.unlink(name)
            await loop.create_unix_connection(lambda: visit.relay.inner, sock=inner)
        except OSError as fault:
            _log.warning("no way to the server", extra={"why": str(fault), "peer": visit.address})
            inner.close()
            visit.relay.close()
            return
        visit.relay.join()


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

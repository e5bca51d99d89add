"""One SSH login, with the logins it goes through: from names to an authenticated transport.

``Login`` blocks and belongs into a thread (``in_thread``). Its ``close`` may be called from any
other at any time, and makes whatever is going on fail soon.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import paramiko

from gridtravel.gridcore.errors import GridError, InputError, UnavailableError
from gridtravel.gridio.sites.connections import IdentityNotProvenError, UnreachableError
from gridtravel.gridio.ssh.known_hosts import HostKey, KnownHosts, known_hosts_name
from gridtravel.gridio.ssh.prompting import Prompter
from gridtravel.gridio.ssh.proving import prove_identity
from gridtravel.gridio.ssh.target import JUMPS_MAX, Hop, SshTarget, resolve

T = TypeVar("T")

AUTH_TIMEOUT_S: Final = 180.0
"""A person may have to find a telephone first."""
CHANNEL_TIMEOUT_S: Final = 10.0
KEEPALIVE_S: Final = 30
"""Small enough for the gateways that forget silent connections."""
SESSION_TRIES: Final = 10
SESSION_RETRY_S: Final = 0.2
"""A server that allows one session may not have noticed yet that the last one has ended."""
SILENCE_MAX_MS: Final = 40_000
"""How long sent bytes may stay unacknowledged before the connection counts as dead."""
PROXY_END_S: Final = 3.0
WINDOW_BYTES: Final = 4 << 20
"""Of a channel, towards us: 40 MB/s at a tenth of a second of round trip."""

LOG_CHANNEL: Final = "gridtravel.gridio.ssh.paramiko"
# The library logs tracebacks of what is told to the user in our own words.
logging.getLogger(LOG_CHANNEL).setLevel(logging.CRITICAL)


class Login:
    """A login at ``target``, made by ``connect``."""

    def __init__(
        self, target: SshTarget, *, config: Path | None = None, prompter: Prompter | None = None
    ) -> None:
        self._target = target
        self._config = config
        self._prompter = prompter
        self._closers: list[Callable[[], object]] = []
        self._transport: paramiko.Transport | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def is_alive(self) -> bool:
        """True until the connection is known to be broken."""
        return self._transport is not None and self._transport.is_active() and not self._is_closed

    def connect(self) -> None:
        """Log in, through jump hosts where the configuration says so.

        ``UnreachableError``: no SSH server was reached. ``IdentityNotProvenError``: it is not whom
        we know (``known_hosts``), or does not take us for whom we say we are. ``InputError``: the
        configuration cannot be right.
        """
        transport: paramiko.Transport | None = None
        for hop in route(self._target, self._config):
            try:
                transport = self._log_in(hop, self._reach(hop, transport))
            except GridError:
                raise
            except EOFError as fault:
                raise UnavailableError(f"{hop.address}: the login was given up") from fault
            except paramiko.AuthenticationException as fault:
                raise IdentityNotProvenError(
                    f"{hop.address} ended the login: {fault}",
                    hint="with many keys in the agent, name one: IdentityFile and IdentitiesOnly",
                ) from fault
            except (OSError, paramiko.SSHException) as fault:
                raise _broken(hop, fault) from fault
        self._transport = transport

    def open_session(self) -> paramiko.Channel:
        """A channel to execute something. ``UnreachableError``: the connection is dead;
        ``UnavailableError``: it lives, but the server allows no more channels.
        """
        if self._transport is None:
            raise UnreachableError(f"{self._target.host}: there is no SSH connection")
        tries = SESSION_TRIES
        try:
            while True:
                tries -= 1
                try:
                    return self._transport.open_session(
                        window_size=WINDOW_BYTES, timeout=CHANNEL_TIMEOUT_S
                    )
                except paramiko.ChannelException:
                    if not tries:
                        raise
                    threading.Event().wait(SESSION_RETRY_S)
        except paramiko.ChannelException as fault:
            raise UnavailableError(
                f"the SSH server {self._target.host} allows no session: {fault.text}",
                hint="its MaxSessions may be used up, or the account may run nothing",
            ) from fault
        except (EOFError, OSError, paramiko.SSHException) as fault:
            raise UnreachableError(
                f"the SSH connection to {self._target.host} is broken: {fault}"
            ) from fault

    def close(self) -> None:
        """End it and what it goes through. Twice is the same as once."""
        with self._lock:
            self._is_closed = True
            closers, self._closers = self._closers, []
        for close in reversed(closers):
            close()

    def _keep(self, close: Callable[[], object]) -> None:
        """``close`` is called with the login; at once when that is over already."""
        with self._lock:
            if not self._is_closed:
                self._closers.append(close)
                return
        close()
        raise UnreachableError(f"the SSH connection to {self._target.host} was closed")

    def _reach(
        self, hop: Hop, previous: paramiko.Transport | None
    ) -> socket.socket | paramiko.Channel:
        """Something that carries bytes to the hop's SSH server."""
        if previous is not None:
            try:
                channel = previous.open_channel(
                    "direct-tcpip",
                    (hop.host, hop.port),
                    ("127.0.0.1", 0),
                    timeout=hop.connect_timeout_s,
                )
            except paramiko.ChannelException as fault:
                raise UnreachableError(
                    f"the jump host does not get through to {hop.host}:{hop.port}: {fault.text}"
                ) from fault
            return channel
        if hop.proxy_command:
            return self._start_proxy(hop)
        connection = socket.create_connection((hop.host, hop.port), hop.connect_timeout_s)
        self._keep(connection.close)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MAX_MS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _start_proxy(self, hop: Hop) -> socket.socket:
        """ProxyCommand: a program of the user's choice whose input and output lead there."""
        ours, theirs = socket.socketpair()
        with theirs:
            program = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {hop.proxy_command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
            )

        def end() -> None:
            ours.close()
            program.terminate()
            try:
                program.wait(PROXY_END_S)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()

        self._keep(end)
        return ours

    def _log_in(self, hop: Hop, carrier: socket.socket | paramiko.Channel) -> paramiko.Transport:
        """Shake hands, look at the host's key, and only then say who we are."""
        name = known_hosts_name(hop.key_name or hop.host, 22 if hop.key_name else hop.port)
        known = KnownHosts.load(hop.known_hosts)
        transport = paramiko.Transport(carrier)
        self._keep(transport.close)
        transport.set_log_channel(LOG_CHANNEL)
        transport.banner_timeout = transport.handshake_timeout = hop.connect_timeout_s
        transport.auth_timeout = AUTH_TIMEOUT_S
        options = transport.get_security_options()
        options.key_types = _known_first(tuple(options.key_types), known.kinds_of(name))
        transport.start_client(timeout=hop.connect_timeout_s)
        key = transport.get_remote_server_key()
        known.check(name, HostKey(kind=key.get_name(), blob=key.asbytes()))
        prove_identity(transport, hop, self._prompter)
        transport.set_keepalive(KEEPALIVE_S)
        return transport


def route(target: SshTarget, config: Path | None, *, depth: int = 0) -> list[Hop]:
    """All logins on the way, the target's own last. As with OpenSSH, of several jump hosts in a row
    only the first one's own jump hosts count.
    """
    if depth == JUMPS_MAX:
        raise InputError(f"the jump hosts before {target.host} lead round in a circle")
    hop = resolve(target, config)
    if not hop.jumps:
        return [hop]
    first, *others = (SshTarget.parse(each) for each in hop.jumps)
    return [
        *route(first, config, depth=depth + 1),
        *(resolve(each, config) for each in others),
        hop,
    ]


def in_thread(name: str, work: Callable[[], T]) -> asyncio.Future[T]:
    """Run ``work`` in a daemon thread of its own: the loop's own threads would keep the program
    from ending while it waits for the user to type a password.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, fault: BaseException | None) -> None:
        if future.done():
            return
        if fault is not None:
            future.set_exception(fault)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            result, fault = work(), None
        except Exception as found:
            result, fault = None, found
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, result, fault)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def _known_first(offered: tuple[str, ...], kinds: list[str]) -> tuple[str, ...]:
    """Ask the server for a key of a kind that is on file, if it has one."""
    signatures = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
    wanted = [name for kind in kinds for name in signatures.get(kind, (kind,)) if name in offered]
    return tuple(dict.fromkeys([*wanted, *offered]))


def _broken(hop: Hop, fault: Exception) -> UnreachableError:
    """Why no SSH server was reached."""
    where = f"{hop.host}:{hop.port}"
    if isinstance(fault, socket.gaierror):
        return UnreachableError(
            f"the SSH host name {hop.host} is not known ({fault.strerror})",
            hint="check the name and the network",
        )
    if isinstance(fault, TimeoutError):
        return UnreachableError(
            f"the SSH server {where} does not answer",
            hint="a firewall may be in the way, or the machine is off",
        )
    if isinstance(fault, ConnectionRefusedError):
        return UnreachableError(
            f"no SSH server listens at {where} (connection refused)", hint="check host and port"
        )
    if isinstance(fault, paramiko.SSHException) and not isinstance(fault, OSError):
        return UnreachableError(f"no SSH connection to {where}: {fault or 'it broke off'}")
    words = getattr(fault, "strerror", None) or str(fault) or "it broke off"
    return UnreachableError(f"no SSH connection to {where}: {words}", hint="check the network")

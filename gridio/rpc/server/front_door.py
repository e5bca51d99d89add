"""The local socket of a daemon: who connects is known by the uid that the kernel reports.

gRPC gives no access to an accepted socket, so it cannot ask SO_PEERCRED. This front door accepts on
the public socket, asks, and passes the bytes on to the server's private socket from an end bound to
a name of ours; gRPC reports that name as the call's peer, and the front door remembers whose it is.
No HTTP/2 is parsed here, and clients notice nothing. Costs about 0.1 ms a call.

The private socket lies in a folder of mode 0700. A process that gets there nevertheless (the same
user, or root) has no name that the front door gave, and proves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import logging
import os
import pwd
import shutil
import socket
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import InputError, NotAuthorisedError, UnavailableError

SOCKET_PATH_MAX: Final = 107
"""Bytes of a Unix socket's path: Linux's sun_path has 108, the last of them zero."""

CONNECTIONS_MAX: Final = 256
"""Connections at once; each takes four file descriptors. More are closed at the door."""

PRIVATE_FOLDER_SUFFIX: Final = ".d"
PRIVATE_SOCKET: Final = "b.sock"
NAME_LONGEST: Final = "9" * 12
"""Our ends of connections are numbered; a daemon never gets this far."""

PIECE_BYTES: Final = 1 << 18
BACKLOG: Final = 64

PRIVATE_MODE: Final = 0o600
GROUP_MODE: Final = 0o660

_CREDENTIALS = struct.Struct("3i")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSocket:
    """Where a daemon listens for the logins of its machine."""

    path: Path
    group: str = ""
    """Members of this group may connect too (mode 0660); empty: the daemon's own user (0600)."""

    def __post_init__(self) -> None:
        check_socket_path(self.private_folder / NAME_LONGEST)

    @property
    def private_folder(self) -> Path:
        """Where the server's own end is; only the daemon's user gets there."""
        return self.path.with_name(self.path.name + PRIVATE_FOLDER_SUFFIX)

    def check(self, made: Path, *, is_served: bool = False) -> None:
        """Raise what would keep a daemon from listening here. ``made``: a folder that the daemon
        makes for itself; ``is_served``: it runs already.
        """
        folder = self.path.parent
        if folder.resolve() == made.resolve() and not folder.exists():
            return
        if not folder.is_dir():
            raise InputError(
                f"there is no folder {folder} for the local socket",
                hint=f"mkdir {folder}, or name another path",
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(
                f"this daemon's user may make nothing in {folder}",
                hint="let it write there, or name another path",
            )
        private = self.private_folder
        if private.is_symlink() or (private.exists() and not private.is_dir()):
            raise InputError(f"{private} is in the way of the socket", hint=f"remove {private}")
        if not is_served:
            _find_stale(self.path)

    def check_group(self) -> None:
        """Raise what would keep a daemon from giving the socket to its group."""
        if not self.group:
            return
        gid = group_id(self.group)
        if os.geteuid() != 0 and gid not in (os.getegid(), *os.getgroups()):
            raise InputError(
                f"this daemon's user is not in the group {self.group!r}",
                hint=f"usermod -aG {self.group} USER, or start the daemon as root",
            )


def group_id(name: str) -> int:
    """The number of a group; ``InputError`` where this machine has none of that name."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise InputError(
            f"this machine has no group {name[:80]!r}",
            hint="name another one for the local socket",
        ) from None


def login_of_uid(uid: int) -> str:
    """The login of ``uid``; ``NotAuthorisedError`` for a uid that this machine has no name for."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise NotAuthorisedError(f"this machine has no login for the user id {uid}") from None


class FrontDoor:
    """The public socket of one daemon and the way from there to its gRPC server."""

    def __init__(
        self, public: LocalSocket, *, login_of: Callable[[int], str] = login_of_uid
    ) -> None:
        self._public = public
        self._login_of = login_of
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self._inode: int | None = None
        self._uids: dict[str, int] = {}
        """Name of our end of each open connection -> the uid at its other end."""
        self._connections: set[asyncio.Task[None]] = set()
        self._count = 0

    def prepare(self) -> str:
        """Make the private folder; the address where the gRPC server is to listen.

        The folder lies beside the public socket, so that the next start finds and clears what a
        killed daemon left.
        """
        path = self._public.path
        if _find_stale(path):
            path.unlink(missing_ok=True)
        folder = self._public.private_folder
        try:
            if folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder)
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)
        except OSError as fault:
            raise UnavailableError(
                f"cannot make the folder {folder}: {fault.strerror}",
                hint="choose another path for the local socket",
            ) from fault
        self._folder = folder
        return f"unix:{self._private}"

    async def open(self) -> None:
        """Accept connections. The gRPC server listens already.

        The socket gets its mode before it gets its name, so that it is never open to others, not
        even for a moment.
        """
        path = self._public.path
        beside = path.with_name(path.name + "~")
        listener = socket.socket(socket.AF_UNIX)
        try:
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
            listener.bind(str(beside))
            self._restrict(beside)
            listener.listen(BACKLOG)
            listener.setblocking(False)
            self._inode = beside.stat().st_ino
            beside.rename(path)
        except OSError as fault:
            listener.close()
            raise UnavailableError(
                f"cannot listen at {path}: {fault.strerror}", hint="check its folder and rights"
            ) from fault
        except InputError:
            listener.close()
            beside.unlink()
            raise
        self._server = await asyncio.start_unix_server(self._welcome, sock=listener)

    async def close(self) -> None:
        """Stop accepting, end every connection, remove the socket and the private folder."""
        if self._server is not None:
            self._server.close()
            self._server = None
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        with contextlib.suppress(OSError):
            if self._inode == self._public.path.stat().st_ino:
                self._public.path.unlink()
        self._inode = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def login_at(self, peer: str) -> str:
        """The login behind a gRPC peer such as ``unix:/…/7``; ``NotAuthorisedError`` when the
        connection did not come through this door.
        """
        uid = self._uids.get(peer.removeprefix("unix:"))
        if uid is None:
            raise NotAuthorisedError(
                "the connection did not come through the front door",
                hint=f"connect to unix:{self._public.path}",
            )
        return self._login_of(uid)

    @property
    def _private(self) -> Path:
        assert self._folder is not None, "prepare() comes first"
        return self._folder / PRIVATE_SOCKET

    def _restrict(self, path: Path) -> None:
        if not self._public.group:
            path.chmod(PRIVATE_MODE)
            return
        gid = group_id(self._public.group)
        path.chmod(PRIVATE_MODE)
        os.chown(path, -1, gid)
        path.chmod(GROUP_MODE)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= CONNECTIONS_MAX:
            _log.warning("local connection turned away", extra={"connections": CONNECTIONS_MAX})
            writer.close()
            return
        self._connections.add(task)
        try:
            await self._lead(reader, writer)
        except (OSError, EOFError) as fault:
            _log.debug("local connection ended", extra={"why": str(fault)})
        finally:
            self._connections.discard(task)
            writer.close()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy both directions until either ends."""
        raw = writer.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        _, uid, _ = _CREDENTIALS.unpack(raw)
        self._count += 1
        name = str(self._private.with_name(str(self._count)))
        inner = socket.socket(socket.AF_UNIX)
        try:
            inner.setblocking(False)
            inner.bind(name)
            self._uids[name] = uid
            await asyncio.get_running_loop().sock_connect(inner, str(self._private))
            # The kernel keeps the name with the socket; the file has done its work.
            os.unlink(name)
            inner_reader, inner_writer = await asyncio.open_unix_connection(sock=inner)
            try:
                await _copy_both_ways((reader, writer), (inner_reader, inner_writer))
            finally:
                inner_writer.close()
        finally:
            inner.close()
            self._uids.pop(name, None)


def check_socket_path(path: Path) -> None:
    """Refuse a path that does not fit into a socket's address."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_MAX:
        raise InputError(
            f"the path of a local socket has at most {SOCKET_PATH_MAX} bytes: {path} has {length}",
            hint="choose a folder nearer to the root, such as /run/grid",
        )


def _find_stale(path: Path) -> bool:
    """True when a killed daemon left its socket here; a fault for a live one, and for no socket."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError as fault:
        raise UnavailableError(f"cannot look at {path}: {fault.strerror}") from fault
    if not stat.S_ISSOCK(mode):
        raise InputError(f"{path} exists and is no socket", hint="choose another path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError as fault:
            raise UnavailableError(f"cannot listen at {path}: {fault.strerror}") from fault
    raise UnavailableError(
        f"another daemon listens at {path}", hint="stop it, or choose another path"
    )


async def _copy_both_ways(
    outer: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    inner: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Copy until either side ends: gRPC never closes only one direction."""
    inward = asyncio.ensure_future(_copy(outer[0], inner[1]))
    outward = asyncio.ensure_future(_copy(inner[0], outer[1]))
    inward.add_done_callback(lambda _: outward.cancel())
    outward.add_done_callback(lambda _: inward.cancel())
    try:
        await asyncio.gather(inward, outward, return_exceptions=True)
    finally:
        inward.cancel()
        outward.cancel()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()

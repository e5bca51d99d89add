"""A daemon's Unix socket for the logins of its machine: its place, its rights, what is left of it.

The public socket is what callers see. Beside it lies a folder of mode 0700 with the sockets at
which gRPC itself listens, so that the next start finds and clears what a killed daemon left.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import InputError, NotAuthorisedError, UnavailableError

SOCKET_PATH_MAX: Final = 107
"""Bytes of a Unix socket's path: Linux's sun_path has 108, the last of them zero."""

PRIVATE_FOLDER_SUFFIX: Final = ".d"
NAME_LONGEST: Final = "9" * 12
"""Our ends of connections are numbered; a daemon never gets this far."""

BACKLOG: Final = 512

PRIVATE_MODE: Final = 0o600
GROUP_MODE: Final = 0o660

_CREDENTIALS = struct.Struct("3i")


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
        """Where the server's own ends are; only the daemon's user gets there."""
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

    def prepare(self) -> None:
        """Clear what a killed daemon left, and make the private folder."""
        if _find_stale(self.path):
            self.path.unlink(missing_ok=True)
        folder = self.private_folder
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

    def listen(self) -> socket.socket:
        """The socket, listening. It gets its mode before it gets its name, so that it is never open
        to others, not even for a moment.
        """
        beside = self.path.with_name(self.path.name + "~")
        listener = socket.socket(socket.AF_UNIX)
        try:
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
            listener.bind(str(beside))
            self._restrict(beside)
            listener.listen(BACKLOG)
            listener.setblocking(False)
            beside.rename(self.path)
        except OSError as fault:
            listener.close()
            raise UnavailableError(
                f"cannot listen at {self.path}: {fault.strerror}",
                hint="check its folder and rights",
            ) from fault
        except InputError:
            listener.close()
            beside.unlink()
            raise
        return listener

    def _restrict(self, path: Path) -> None:
        if not self.group:
            path.chmod(PRIVATE_MODE)
            return
        gid = group_id(self.group)
        path.chmod(PRIVATE_MODE)
        os.chown(path, -1, gid)
        path.chmod(GROUP_MODE)


def group_id(name: str) -> int:
    """The number of a group; ``InputError`` where this machine has none of that name."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise InputError(
            f"this machine has no group {name[:80]!r}",
            hint="name another one for the local socket",
        ) from None


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


def check_socket_path(path: Path) -> None:
    """Refuse a path that does not fit into a socket's address."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_MAX:
        raise InputError(
            f"the path of a local socket has at most {SOCKET_PATH_MAX} bytes: {path} has {length}",
            hint="choose a folder nearer to the root, such as /run/grid",
        )


def uid_at(connection: socket.socket) -> int:
    """The uid of the process that connected, at that moment, as the kernel says."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return int(uid)


def login_of_uid(uid: int) -> str:
    """The login of ``uid``; ``NotAuthorisedError`` for a uid that this machine has no name for."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise NotAuthorisedError(
            f"this machine has no login for the user id {uid}",
            hint="ask whoever runs the machine for a login",
        ) from None

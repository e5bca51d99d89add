"""What a daemon needs of its machine, asked before anything is made: an address, a local socket, a
state folder, a credential in its own name, commands that exist.

``gurd check-config`` and the daemons at their start ask the same. Each check names what is wrong
and the next step; the caller says of which key of the configuration (``config_file.at_key``).
Nothing here changes anything.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.trust.credentials import (
    Credential,
    Usage,
    load_credential,
    require_credential,
)
from gridtravel.gridio.trust.identity import GridIdentity, Role

PORT_MAX: Final = 65_535


def split_listen(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[address]:port``; port 0: any that is free."""
    host, colon, port = address.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if is_bracketed else host
    is_host = bool(bare) and (is_bracketed == (":" in bare)) and not set(bare) & set("[]/ \t\n")
    if not colon or not is_host or not is_count(port) or int(port) > PORT_MAX:
        raise InputError(
            f"{address[:80]!r} is no address to listen at",
            hint='write host:port, such as "0.0.0.0:7101"; [::]:7101 for IPv6; port 0 is any',
        )
    return bare, int(port)


def check_listen(address: str, *, is_served: bool = False) -> None:
    """The address is one of this machine, and its port is free (``is_served``: the daemon itself
    has it, so that is not asked).
    """
    host, port = split_listen(address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "no host name"
        raise InputError(
            f"the host {host[:80]!r} to listen at is not known ({why})",
            hint="name an address of this machine, or 0.0.0.0 for all of them",
        ) from None
    if is_served:
        return
    # A host may have several addresses; the server takes those that it can have.
    refusals = [_refusal(family, where) for family, _, _, _, where in found]
    if None in refusals:
        return
    number = next(iter(refusals))
    if number == errno.EADDRINUSE:
        raise UnavailableError(
            f"cannot listen at {address}: another program has the port",
            hint=f"find it with: ss -ltnp 'sport = :{port}'; or take another port",
        )
    if number == errno.EACCES:
        raise InputError(
            f"cannot listen at {address}: this user may not have the port",
            hint="take a port above 1023",
        )
    raise InputError(
        f"cannot listen at {address}: {os.strerror(number or 0)}",
        hint="name an address of this machine, or 0.0.0.0 for all of them",
    )


def check_state_folder(
    state: Path, *, files: Sequence[str] = (), folders: Sequence[str] = ()
) -> None:
    """The folder is there or can be made, and is the daemon's to write in. ``files`` and
    ``folders``: what the daemon keeps in it, and must not find as the other.
    """
    above = next(each for each in (state, *state.absolute().parents) if os.path.lexists(each))
    if not above.is_dir():
        raise InputError(
            f"{above} is no folder", hint="remove it, or name another folder for the state"
        )
    if not os.access(above, os.W_OK | os.X_OK):
        what = f"write in {state}" if above == state else f"make {state}: {above} is not its own"
        raise InputError(
            f"this daemon's user may not {what}", hint="chown the folder, or name another one"
        )
    for name in files:
        if (state / name).is_dir():
            raise InputError(
                f"{state / name} is a folder, where the daemon keeps a file",
                hint="remove it, or name another folder for the state",
            )
    for name in folders:
        if os.path.lexists(state / name) and not (state / name).is_dir():
            raise InputError(
                f"{state / name} is in the way of a folder of the daemon",
                hint="remove it, or name another folder for the state",
            )


def prove(folder: Path, role: Role, name: str, now: Instant) -> Credential:
    """The credential in ``folder``, which serves at ``now`` and says who the daemon is: others
    know it by that.
    """
    next_step = f"gurd ca {role.word} DIR {name} --host HOST --out {folder}"
    if not folder.is_dir():
        raise InputError(f"there is no credential at {folder}", hint=next_step)
    credential = require_credential(load_credential(folder), now, Usage.SERVER)
    identity = GridIdentity.parse(credential.subject)
    if identity is None or (identity.role, identity.name) != (role, name):
        raise InputError(
            f"the certificate of {credential.subject} is not that of the {role.word} {name!r}",
            hint=f"let the grid's authority issue it: {next_step}",
        )
    return credential


def check_command(words: Sequence[str]) -> None:
    """The first word of a command is a file that this user may run; no words are no command."""
    if not words:
        return
    path = Path(words[0])
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"the command {path} {what}", hint="name a program by its whole path")
    if not os.access(path, os.X_OK):
        raise InputError(f"the command {path} may not be run", hint=f"chmod +x {path}")


def _refusal(family: int, where: object) -> int | None:
    """What the system says to a server at this address; ``None``: it may have it."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)  # type: ignore[arg-type]  # as getaddrinfo gave it
            probe.listen(1)
    except OSError as fault:
        return fault.errno
    return None

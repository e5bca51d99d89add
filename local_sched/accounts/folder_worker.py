"""A process that becomes an account and makes ``folder_calls`` for the daemon, one after another.

Started as root by ``account_files`` with ``python -I -S``, because the account may not be allowed
to read Python or this package; it gives root up before it takes the first order. It runs nothing of
the account's. Since it has changed its account and executes nothing afterwards, the kernel lets no
other process of the account look into it or take its descriptors; that account can kill and stop
it, and then harms its own requests.

An order is one message on the socket, JSON with the call and its arguments, and descriptors beside
it. The answer is one message or several; the last has ``"over": true``. Standard library alone.
"""

from __future__ import annotations

import json
import os
import resource
import socket

from gridtravel.local_sched.accounts.folder_calls import (
    CALLS,
    DESCRIPTORS_A_REPLY,
    FolderMissingError,
    FolderRefusedError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MESSAGE_BYTES_MAX = 192 * 1024
"""Longest message, in bytes: 32 entries of the longest paths, and what Linux takes by itself."""
DESCRIPTORS_MAX = DESCRIPTORS_A_REPLY
SOCKET_DESCRIPTOR = 3
_MISSING, _REFUSED, _FAULT = "missing", "refused", "fault"


def become(uid: int, gid: int, groups: list[int]) -> None:
    """Give root up, for good."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def serve(channel: socket.socket) -> None:
    """Take orders until the daemon hangs up."""
    while True:
        message, received, _, _ = socket.recv_fds(channel, MESSAGE_BYTES_MAX, DESCRIPTORS_MAX)
        if not message:
            return
        order = json.loads(message)
        arguments = order["arguments"]
        if received:
            arguments["descriptors"] = received
        last: dict[str, Any] = {"over": True}
        try:
            for facts, descriptors in CALLS[order["call"]](**arguments):
                try:
                    _send(channel, facts, descriptors)
                finally:
                    for each in descriptors:
                        os.close(each)
        except FolderMissingError:
            last["fault"] = [_MISSING, 0, ""]
        except FolderRefusedError as fault:
            last["fault"] = [_REFUSED, 0, str(fault)]
        except OSError as fault:
            last["fault"] = [_FAULT, fault.errno or 0, fault.strerror or str(fault)]
        finally:
            for each in received:
                os.close(each)
        _send(channel, last, [])


def raise_told(fault: list[Any]) -> None:
    """Raise what a worker has told: the same that the call would have raised here."""
    kind, number, text = fault
    if kind == _MISSING:
        raise FolderMissingError
    if kind == _REFUSED:
        raise FolderRefusedError(text)
    raise OSError(number, text)


def _send(channel: socket.socket, facts: dict[str, Any], descriptors: list[int]) -> None:
    socket.send_fds(channel, [json.dumps(facts).encode("ascii")], descriptors)


def main(uid: str, gid: str, groups: str) -> None:
    """Serve on the socket that the daemon has left open."""
    os.closerange(SOCKET_DESCRIPTOR + 1, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    channel = socket.socket(fileno=SOCKET_DESCRIPTOR)
    become(int(uid), int(gid), json.loads(groups))
    serve(channel)

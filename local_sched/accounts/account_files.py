"""The daemon's way into the folders of accounts: every call of ``folder_calls``, with the rights of
the account that the folder belongs to.

For another account than the daemon's the call is made by a worker process that has become that
account; files come back as descriptors, so that their content never passes through it. A worker
serves one account, one call at a time, and ends when nothing was asked of it for a while. For the
daemon's own account the call is made here, in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gridtravel import local_sched
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.local_sched.accounts.folder_calls import CALLS
from gridtravel.local_sched.accounts.folder_worker import (
    DESCRIPTORS_MAX,
    MESSAGE_BYTES_MAX,
    SOCKET_DESCRIPTOR,
    raise_told,
)
from gridtravel.local_sched.accounts.run_accounts import RunAccount, account_of_number

if TYPE_CHECKING:
    from gridtravel.local_sched.accounts.folder_calls import Reply

log = logging.getLogger(__name__)

WORKERS_MAX: Final = 32
"""Workers at a time, some 9 MB each; those that are idle give way to other accounts."""
IDLE_S: Final = 60.0
"""A worker that nobody asks ends after so many seconds."""
REPLY_LIMIT_S: Final = 60.0
"""Longest wait for a part of an answer. A process of the same account can stop a worker."""
GONE_LIMIT_S: Final = 1.0
ORDERS_MAX: Final = 16
"""Orders on their way to one worker; more wait here. What a socket takes without waiting."""
_BOOT: Final = (
    "import sys; sys.path.append(sys.argv[1]);"
    "from gridtravel.local_sched.accounts.folder_worker import main;"
    "main(*sys.argv[2:])"
)


class AccountFiles:
    """Calls in the folders of accounts. All methods belong to one event loop."""

    def __init__(self) -> None:
        self._workers: dict[int, _Worker] = {}
        """By the account's number, the one used last at the end."""
        self._is_closed = False

    async def ask(
        self,
        uid: int,
        call: str,
        root: Path,
        *,
        descriptors: Sequence[int] = (),
        **arguments: object,
    ) -> tuple[dict[str, Any], list[int]]:
        """One call with a single answer. Its descriptors are the caller's to close."""
        found: Reply | None = None
        async for reply in self.replies(uid, call, root, descriptors=descriptors, **arguments):
            found = reply
        assert found is not None, "a call without an answer raises"
        return found

    async def replies(
        self,
        uid: int,
        call: str,
        root: Path,
        *,
        descriptors: Sequence[int] = (),
        **arguments: object,
    ) -> AsyncIterator[Reply]:
        """One call, and its answers as they come. Raises what ``folder_calls`` raises, and
        ``UnavailableError`` when the account cannot be asked.
        """
        if self._is_closed:
            raise UnavailableError("files are not touched any more: the daemon is ending")
        if uid == os.geteuid():
            own = dict(arguments, descriptors=list(descriptors)) if descriptors else arguments
            answers = CALLS[call](str(root), None, **own)
            while (reply := await asyncio.to_thread(next, answers, None)) is not None:
                yield reply
            return
        order = {"call": call, "arguments": {"root": str(root), "uid": uid, **arguments}}
        for is_last in (False, True):
            worker = await self._worker_of(uid)
            try:
                async for reply in worker.replies(order, descriptors):
                    yield reply
                return
            except _NotBegunError as fault:
                # It was killed while it was idle, or while it answered others: a new one was not.
                if is_last:
                    raise UnavailableError(str(fault), hint="try again") from fault

    def close(self) -> None:
        """End all workers, and see them gone: whoever removes an account next finds it unused."""
        self._is_closed = True
        for worker in self._workers.values():
            worker.end()
        for worker in self._workers.values():
            worker.wait()
        self._workers.clear()

    async def _worker_of(self, uid: int) -> _Worker:
        """The account's worker; started where there is none (any more)."""
        worker = self._workers.get(uid)
        if worker is None or worker.is_over:
            account = await asyncio.to_thread(account_of_number, uid)
            worker = self._workers.pop(uid, None)  # somebody else may have been faster
        if worker is None or worker.is_over:
            idle = [each for each, other in self._workers.items() if not other.is_busy]
            if len(self._workers) >= WORKERS_MAX and idle:
                self._workers.pop(idle[0]).end()
            worker = _Worker(account)
        self._workers.pop(uid, None)
        self._workers[uid] = worker
        return worker


class _NotBegunError(Exception):
    """The worker was gone before it answered anything."""


@dataclass(slots=True)
class _Order:
    """A call that a worker was told to make."""

    replies: asyncio.Queue[Reply | None] = field(default_factory=asyncio.Queue)
    """``None`` at the end: the worker is gone."""
    is_answered: bool = False
    is_left: bool = False
    """Whoever asked is not there any more."""


class _Worker:
    """One process that has become an account, and the socket to it. Orders are answered in the
    order in which they were given; several may be on their way.
    """

    def __init__(self, account: RunAccount) -> None:
        self.is_over = False
        self._login = account.login
        self._given: deque[_Order] = deque()
        self._room = asyncio.Semaphore(ORDERS_MAX)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            self._channel.setblocking(False)
            try:
                self._pid = _spawn(account, far.fileno())
            except OSError as fault:
                self._channel.close()
                raise UnavailableError(
                    f"cannot start a process of {account.login}: {fault.strerror}"
                ) from fault
        self._loop.add_reader(self._channel, self._receive)
        self._expect()

    @property
    def is_busy(self) -> bool:
        """True while an answer is awaited."""
        return bool(self._given)

    def end(self, why: str = "it is not needed any more") -> None:
        """End the process; it keeps nothing that anybody would miss."""
        if self.is_over:
            return
        self.is_over = True
        if self._given:
            log.warning("the process that touches files of %s ends: %s", self._login, why)
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._channel)
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._collect()
        for each in self._given:
            each.replies.put_nowait(None)

    def wait(self) -> None:
        """Until the process is gone, which takes the kernel a moment, or ``GONE_LIMIT_S``."""
        with contextlib.suppress(OSError):  # gone already, or a kernel before 5.3
            descriptor = os.pidfd_open(self._pid)
            try:
                select.select([descriptor], [], [], GONE_LIMIT_S)
            finally:
                os.close(descriptor)
            self._collect()

    async def replies(
        self, order: Mapping[str, object], descriptors: Sequence[int]
    ) -> AsyncIterator[Reply]:
        """Give the order and pass on what comes back."""
        async with self._room:
            given = self._give(order, descriptors)
            try:
                while (reply := await given.replies.get()) is not None:
                    facts, _ = reply
                    if facts.get("over"):
                        if "fault" in facts:
                            raise_told(facts["fault"])
                        return
                    yield reply
            finally:
                given.is_left = True
                while not given.replies.empty():
                    _close_all(given.replies.get_nowait())
        told = f"the process that touches the files of {self._login} was stopped or ended"
        if given.is_answered:
            raise UnavailableError(told, hint="try again")
        raise _NotBegunError(told)

    def _give(self, order: Mapping[str, object], descriptors: Sequence[int]) -> _Order:
        if self.is_over:
            raise _NotBegunError(f"the files of {self._login} cannot be reached")
        try:
            socket.send_fds(self._channel, [json.dumps(order).encode("ascii")], list(descriptors))
        except OSError as fault:
            self.end(str(fault))
            raise _NotBegunError(f"the files of {self._login} cannot be reached") from fault
        given = _Order()
        self._given.append(given)
        self._expect()
        return given

    def _receive(self) -> None:
        """Hand out what has come, each part to whoever asked."""
        while not self.is_over:
            try:
                message, received, _, _ = socket.recv_fds(
                    self._channel, MESSAGE_BYTES_MAX, DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                break
            except OSError as fault:
                self.end(str(fault))
                return
            if not message:
                self.end("it hung up")
                return
            reply: Reply = json.loads(message), received
            order = self._given[0]
            order.is_answered = True
            if reply[0].get("over"):
                self._given.popleft()
            if order.is_left:
                _close_all(reply)
            else:
                order.replies.put_nowait(reply)
        self._expect()

    def _expect(self) -> None:
        """The next part of an answer is due in time; when none is, the process is not kept long."""
        if self._timer is not None:
            self._timer.cancel()
        if self._given:
            self._timer = self._loop.call_later(REPLY_LIMIT_S, self.end, "it does not answer")
        else:
            self._timer = self._loop.call_later(IDLE_S, self.end)

    def _collect(self) -> None:
        """Let the system forget it; a moment later when it has not ended yet."""
        with contextlib.suppress(ChildProcessError):
            is_alive = os.waitpid(self._pid, os.WNOHANG) == (0, 0)
            if is_alive and not self._loop.is_closed():
                self._loop.call_later(1.0, self._collect)


def _close_all(reply: Reply | None) -> None:
    for each in reply[1] if reply is not None else ():
        os.close(each)


def _spawn(account: RunAccount, channel: int) -> int:
    """Start a worker as root; it becomes the account by itself."""
    package_root = Path(local_sched.__file__).parents[2]
    numbers = [str(account.uid), str(account.gid), json.dumps(list(account.groups))]
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, str(package_root), *numbers],
        {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, channel, SOCKET_DESCRIPTOR),
        ],
        setsid=True,
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )

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
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
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
        order: dict[str, object] = {
            "call": call,
            "arguments": {"root": str(root), "uid": uid, **arguments},
        }
        for is_last in (False, True):
            worker = await self._free_worker(uid)
            try:
                async for reply in worker.replies(order, descriptors):
                    yield reply
                return
            except _NotBegunError as fault:
                # It was killed while it was idle; the next one has not been.
                if is_last:
                    raise UnavailableError(str(fault), hint="try again") from fault
            finally:
                self._give_back(worker)

    def close(self) -> None:
        """End all workers."""
        self._is_closed = True
        for worker in self._workers.values():
            worker.end()
        self._workers.clear()

    async def _free_worker(self, uid: int) -> _Worker:
        """The account's worker, for one call; started where there is none (any more)."""
        while True:
            worker = self._workers.get(uid)
            if worker is None or worker.is_over:
                idle = [uid for uid, each in self._workers.items() if not each.is_busy]
                if len(self._workers) >= WORKERS_MAX and idle:
                    self._workers.pop(idle[0]).end()
                account = await asyncio.to_thread(account_of_number, uid)
                worker = self._workers.get(uid)
                if worker is None or worker.is_over:
                    worker = _Worker(account)
            self._workers.pop(uid, None)
            self._workers[uid] = worker
            await worker.one_at_a_time.acquire()
            if not worker.is_over:
                worker.keep()
                return worker
            worker.one_at_a_time.release()

    def _give_back(self, worker: _Worker) -> None:
        """The call is over. What a worker has not told yet must not answer the next call."""
        if worker.is_mid_answer:
            worker.end()
        worker.end_later(IDLE_S)
        worker.one_at_a_time.release()


class _NotBegunError(Exception):
    """The worker was gone before it answered anything."""


class _Worker:
    """One process that has become an account, and the socket to it."""

    def __init__(self, account: RunAccount) -> None:
        self.one_at_a_time = asyncio.Lock()
        self.is_over = False
        self.is_mid_answer = False
        self._login = account.login
        self._idle: asyncio.TimerHandle | None = None
        self._readable: asyncio.Future[None] | None = None
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

    @property
    def is_busy(self) -> bool:
        """True while a call is made, or waits."""
        return self.one_at_a_time.locked()

    def keep(self) -> None:
        """It is needed."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def end_later(self, delay_s: float) -> None:
        """End it, unless it is needed before."""
        if not self.is_over:
            self._idle = asyncio.get_running_loop().call_later(delay_s, self._end_idle)

    def end(self) -> None:
        """End the process; it keeps nothing that anybody would miss."""
        if self.is_over:
            return
        self.is_over = True
        self.keep()
        self._wake()
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._collect()

    async def replies(
        self, order: dict[str, object], descriptors: Sequence[int]
    ) -> AsyncIterator[Reply]:
        """Give the order and pass on what comes back."""
        self.is_mid_answer, is_answered = True, False
        try:
            socket.send_fds(self._channel, [json.dumps(order).encode("ascii")], list(descriptors))
            while True:
                facts, received = await self._receive()
                is_answered = True
                if facts.get("over"):
                    self.is_mid_answer = False
                    break
                yield facts, received
        except (ConnectionError, TimeoutError) as fault:
            log.warning("the process that touches files of %s is gone: %r", self._login, fault)
            told = f"the process that touches the files of {self._login} was stopped or ended"
            if is_answered or isinstance(fault, TimeoutError):
                raise UnavailableError(told, hint="try again") from fault
            raise _NotBegunError(told) from fault
        if "fault" in facts:
            raise_told(facts["fault"])

    async def _receive(self) -> Reply:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(REPLY_LIMIT_S):
            while True:
                try:
                    message, received, _, _ = socket.recv_fds(
                        self._channel,
                        MESSAGE_BYTES_MAX,
                        DESCRIPTORS_MAX,
                        socket.MSG_CMSG_CLOEXEC,
                    )
                except BlockingIOError:
                    self._readable = loop.create_future()
                    loop.add_reader(self._channel, self._wake)
                    try:
                        await self._readable
                    finally:
                        loop.remove_reader(self._channel)
                    continue
                except OSError as fault:  # closed here, because the daemon ends
                    raise ConnectionResetError(str(fault)) from fault
                if not message:
                    raise ConnectionResetError("it hung up")
                return json.loads(message), received

    def _wake(self) -> None:
        if self._readable is not None and not self._readable.done():
            self._readable.set_result(None)

    def _end_idle(self) -> None:
        self._idle = None
        if not self.is_busy:
            self.end()

    def _collect(self) -> None:
        """Let the system forget it; a moment later when it has not ended yet."""
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                with contextlib.suppress(RuntimeError):  # the loop is over, and so is the daemon
                    asyncio.get_running_loop().call_later(1.0, self._collect)


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

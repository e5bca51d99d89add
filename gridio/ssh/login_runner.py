"""A shell's text at the other end of an SSH login: the way to a site that has only a batch system.

One login serves all questions; each is a session of its own, and files have one more. A login that
broke is made again by the next question.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import paramiko

from gridtravel.gridcore.errors import DeadlineError, UnavailableError
from gridtravel.gridio.batch.running import FAR_SHELL, OUTPUT_BYTES_MAX, FarFiles, Finished
from gridtravel.gridio.sites.connections import TransportName, UnreachableError
from gridtravel.gridio.ssh.login import Login, in_thread
from gridtravel.gridio.ssh.prompting import Prompter
from gridtravel.gridio.ssh.sftp_files import SftpFiles
from gridtravel.gridio.ssh.target import SshTarget

T = TypeVar("T")

SESSIONS_MAX: Final = 4
"""Sessions at a time; servers allow ten of a connection unless they are told otherwise."""
READ_BYTES: Final = 1 << 16
CLOSE_S: Final = 3.0


class LoginRunner:
    """A ``CommandRunner`` as the account of ``login``. Nothing is connected before the first
    question.
    """

    def __init__(
        self, login: str, *, config: Path | None = None, prompter: Prompter | None = None
    ) -> None:
        """``login``: ``[user@]host[:port]`` or an alias of ``~/.ssh/config`` (``config`` instead).
        ``prompter``: asks the user, when the server wants more than keys.
        """
        self._endpoint = f"ssh:{login}"
        self._target = SshTarget.parse(login)
        self._config = config
        self._prompter = prompter
        self._name = f"ssh {self._target.host}"
        self._sessions = asyncio.Semaphore(SESSIONS_MAX)
        self._making = threading.Lock()
        """Held while a login is made, which may take as long as a person takes to type."""
        self._filing = threading.Lock()
        """Held while the files are used: their session serves one thread at a time."""
        self._login: Login | None = None
        self._files: tuple[Login, paramiko.SFTPClient] | None = None
        self._is_closed = False

    @property
    def endpoint(self) -> str:
        """``ssh:`` and the login as it was given."""
        return self._endpoint

    @property
    def transport(self) -> TransportName:
        """``ssh``."""
        return "ssh"

    async def run(self, text: bytes, *, within_s: float) -> Finished:
        """See ``CommandRunner``. The time counts from the end of the login."""
        async with self._sessions:
            channel = await in_thread(self._name, self._open_session)
            try:
                async with asyncio.timeout(within_s):
                    return await in_thread(self._name, lambda: _converse(channel, text))
            except TimeoutError:
                raise DeadlineError(
                    f"{self._target.host}: the commands took longer than {within_s:g} s"
                ) from None
            finally:
                channel.close()

    async def with_files(self, work: Callable[[FarFiles], T]) -> T:
        """See ``CommandRunner``."""
        return await in_thread(self._name, lambda: self._with_files(work))

    async def close(self) -> None:
        """End the login. Twice is the same as once."""
        self._is_closed = True
        login, self._login, self._files = self._login, None, None
        if login is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await asyncio.shield(in_thread(self._name, login.close))

    # -- in threads --------------------------------------------------------------------------------

    def _connected(self) -> Login:
        """The login, made when there is none that lives. Other threads wait for it meanwhile."""
        with self._making:
            if self._is_closed:
                raise UnavailableError(f"the connection to {self._target.host} is closed")
            login = self._login
            if login is not None and login.is_alive:
                return login
            if login is not None:
                login.close()
            self._login = login = Login(self._target, config=self._config, prompter=self._prompter)
            try:
                login.connect()
            except BaseException:
                self._login = None
                login.close()
                raise
            return login

    def _open_session(self) -> paramiko.Channel:
        try:
            return self._connected().open_session()
        except UnreachableError:
            return self._connected().open_session()  # Only now is it known to be dead.

    def _with_files(self, work: Callable[[FarFiles], T]) -> T:
        with self._filing:
            try:
                return work(SftpFiles(self._client()))
            except OSError as fault:
                if isinstance(fault, ConnectionError) or str(fault) == "Socket is closed":
                    raise self._broken(fault) from fault
                raise
            except (EOFError, paramiko.SSHException) as fault:
                raise self._broken(fault) from fault

    def _client(self) -> paramiko.SFTPClient:
        login = self._connected()
        if self._files is not None and self._files[0] is login:
            return self._files[1]
        channel = login.open_session()
        try:
            channel.invoke_subsystem("sftp")
        except paramiko.SSHException as fault:
            raise UnavailableError(
                f"the SSH server {self._target.host} moves no files",
                hint="its sshd_config needs a line: Subsystem sftp internal-sftp",
            ) from fault
        self._files = login, paramiko.SFTPClient(channel)
        return self._files[1]

    def _broken(self, fault: BaseException) -> UnavailableError:
        self._files = None
        return UnreachableError(
            f"the SSH connection to {self._target.host} is broken: {str(fault) or 'it ended'}"
        )


def _converse(channel: paramiko.Channel, text: bytes) -> Finished:
    """Say ``text`` to a shell and read until it ends."""
    out, err = bytearray(), bytearray()
    try:
        channel.exec_command(FAR_SHELL)
        reader = threading.Thread(target=_drain, args=(channel.recv_stderr, err), daemon=True)
        reader.start()
        with contextlib.suppress(OSError):  # It may end before it has read everything.
            channel.sendall(text)
            channel.shutdown_write()
        _drain(channel.recv, out)
        reader.join()
        code = channel.recv_exit_status()
    except (EOFError, OSError, paramiko.SSHException) as fault:
        raise UnreachableError(f"the SSH connection broke: {str(fault) or 'it ended'}") from fault
    if len(out) + len(err) > OUTPUT_BYTES_MAX:
        raise UnavailableError("the commands said more than makes sense")
    if code < 0:
        raise UnreachableError("the SSH connection broke before the commands had ended")
    return Finished(code=code, out=bytes(out), err=bytes(err))


def _drain(read: Callable[[int], bytes], into: bytearray) -> None:
    """Read to the end, and keep what makes sense."""
    with contextlib.suppress(OSError):
        while piece := read(READ_BYTES):
            if len(into) <= OUTPUT_BYTES_MAX:
                into += piece

"""The process that owns everything a demonstration grid starts, and takes all of it down.

``grid`` runs it as ``python -I -S keeper.py`` in a session of its own and holds the other
end of its standard input. When that closes, because the demonstration is over, was interrupted or
was killed in whatever way, the keeper ends the daemons and every task they left behind, removes the
grid's folder, and ends itself. The daemons cannot do this: a site's tasks outlive its daemon by
design. The keeper is the parent of the daemons and the reaper of their orphans, so nothing below it
can get away; should the keeper itself be killed, the kernel tells the daemons to stop.

Standard input takes one JSON object a line, ``{"start": NAME, "argv": [...], "log": PATH}``.
Standard output tells of the folder first, then of each daemon's lines and its end: ``{"folder":
PATH}``, ``{"name": NAME, "line": TEXT}``, ``{"name": NAME, "exit": CODE}``. Standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STOP_S = 5.0
"""How long the daemons may take to stop when asked."""
KILL_S = 10.0
"""How long what remains may take to die: only a process in the kernel's hands takes longer than a
moment."""
PASS_S = 0.02
PLACE_BYTES_MAX = 40
"""Longest path of the folder for temporary files: a site's local socket lies some 65 bytes deeper,
and its path has at most 107."""
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
LINE_BYTES_MAX = 1 << 20


@dataclass(slots=True)
class Daemon:
    """One started daemon."""

    name: str
    process: subprocess.Popen[bytes]
    buffer: bytes = b""


class Keeper:
    """Everything below one folder. ``run`` returns when nothing of it is left."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._selector = selectors.DefaultSelector()
        self._daemons: dict[int, Daemon] = {}
        """By process id; those that have not ended."""
        self._input = b""
        self._is_over = False
        self._wake_read, self._wake_write = os.pipe()

    def run(self) -> None:
        """Serve until the input ends or a signal asks to stop, then take everything down."""
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake_write)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, self._note)
        self._selector.register(0, selectors.EVENT_READ, None)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        try:
            self._tell({"folder": self._folder})
            while not self._is_over:
                self._serve(None)
        finally:
            self.take_down()

    def take_down(self) -> None:
        """End the daemons, then everything that they started, then the folder."""
        give_up_at = time.monotonic() + STOP_S
        for pid in self._daemons:
            signal_process(pid, signal.SIGTERM)
        while self._daemons and (left_s := give_up_at - time.monotonic()) > 0:
            self._serve(left_s)
        give_up_at = time.monotonic() + KILL_S
        while self._reap() and time.monotonic() < give_up_at:
            for pid in descendants(os.getpid()):
                signal_process(pid, signal.SIGKILL)
            time.sleep(PASS_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _note(self, number: int, _frame: object) -> None:
        """The wake-up pipe has woken the loop already; only the wish to stop is new to it."""
        if number == signal.SIGTERM:
            self._is_over = True

    def _serve(self, timeout_s: float | None) -> None:
        """Take what is there: commands, the daemons' words, the ends of processes."""
        for key, _ in self._selector.select(timeout_s):
            if key.fd == 0:
                self._take_commands()
            elif key.fd == self._wake_read:
                os.read(self._wake_read, 4096)
                self._reap()
            else:
                self._take_words(key.data, key.fd)

    def _take_commands(self) -> None:
        content = os.read(0, 65_536)
        self._input += content
        if not content or len(self._input) > LINE_BYTES_MAX:
            self._selector.unregister(0)
            self._is_over = True
            return
        *lines, self._input = self._input.split(b"\n")
        for line in lines if not self._is_over else ():
            command = json.loads(line)
            self._start(command["start"], command["argv"], command["log"])

    def _start(self, name: str, argv: list[str], log: str) -> None:
        with open(log, "ab") as stderr:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=self._folder,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        daemon = Daemon(name, process)
        self._daemons[process.pid] = daemon
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, daemon)

    def _take_words(self, daemon: Daemon, descriptor: int) -> None:
        content = os.read(descriptor, 65_536)
        *lines, daemon.buffer = (daemon.buffer + content).split(b"\n")
        for line in lines:
            self._tell({"name": daemon.name, "line": line.decode("utf-8", "replace")})
        if not content or len(daemon.buffer) > LINE_BYTES_MAX:
            stdout = daemon.process.stdout
            assert stdout is not None
            self._selector.unregister(stdout)
            stdout.close()

    def _reap(self) -> bool:
        """Collect whoever is over, the daemons' orphans too; False when no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            daemon = self._daemons.pop(pid, None)
            if daemon is not None:
                code = os.waitstatus_to_exitcode(status)
                daemon.process.returncode = code
                self._tell({"name": daemon.name, "exit": code})

    def _tell(self, event: dict[str, object]) -> None:
        """Nobody listens any more: the end of the input will say so too."""
        with contextlib.suppress(BrokenPipeError):
            os.write(1, json.dumps(event).encode() + b"\n")


def end_with_parent() -> None:
    """In the child: be told to stop when the keeper dies, whatever kills it, and by nobody's
    terminal before.
    """
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def prctl(option: int, argument: int) -> None:
    """Linux only; elsewhere the orderly end still works."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """The living processes below ``root``."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stream:
                    parent = int(stream.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    below = list(children.get(root, []))
    for pid in below:
        below.extend(children.get(pid, []))
    return below


def signal_process(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def main(prefix: str) -> None:
    """Make the folder (0700, in the system's place for such things), and keep it."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    place = tempfile.gettempdir()
    if len(os.fsencode(place)) > PLACE_BYTES_MAX:
        place = "/tmp"
    Keeper(tempfile.mkdtemp(prefix=prefix, dir=place)).run()


if __name__ == "__main__":
    main(sys.argv[1])

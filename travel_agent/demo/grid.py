"""A whole grid on this machine for the length of a ``with``: its site daemons, and their end.

Whatever ends the ``with`` (its last line, an exception, Ctrl-C, SIGTERM, the death of this process)
the daemons, their tasks, their ports and their files are gone afterwards; ``keeper`` sees to
it, from outside this process. Synchronous on purpose: taking down must not depend on an event loop.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.travel_agent.demo import keeper as demo_keeper
from gridtravel.travel_agent.demo.sites import (
    DEMO_SITES,
    NEIGHBOUR,
    USER,
    GridFolder,
    lay_out,
    write_user_config,
)

DAEMON: Final = (sys.executable, "-m", "gridtravel.gurd.cli", "agent", "--config")
"""What runs a site; the path of its configuration follows."""
READY_WORD: Final = "ready "
START_S: Final = 60.0
"""Longest wait for one word from the daemons while they start; a second or two is usual."""
TAKE_DOWN_S: Final = demo_keeper.STOP_S + demo_keeper.KILL_S + 10.0
LOG_TAIL_CHARACTERS: Final = 2000
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Progress = Callable[[str], None]
"""Is told what is being waited for, one line each."""


class DemoGrid:
    """The running grid, as ``kept_grid`` gives it out."""

    def __init__(self, keeper: subprocess.Popen[bytes], daemon: Sequence[str]) -> None:
        self._keeper = keeper
        self._daemon = tuple(daemon)
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        assert keeper.stdout is not None
        self._selector.register(keeper.stdout, selectors.EVENT_READ)
        self.endpoints: dict[str, str] = {}
        """``host:port`` by site."""
        self.folder = GridFolder(root=Path(str(self._next_event()["folder"])))

    @property
    def config(self) -> Path:
        """The user's list of machines (GUR_CONFIG)."""
        return self.folder.user_config(USER)

    @property
    def state(self) -> Path:
        """Where the user's trips are remembered (GUR_STATE)."""
        return self.folder.user_state(USER)

    def start_sites(self, names: Sequence[str]) -> None:
        """Start daemons (again) and wait until each is ready; ``UnavailableError`` with the last
        words of one that was not.
        """
        for name in names:
            argv = [*self._daemon, str(self.folder.site_config(name))]
            self._order({"start": name, "argv": argv, "log": str(self._log(name))})
        waiting = set(names)
        while waiting:
            event = self._next_event()
            name, line = str(event["name"]), str(event.get("line", ""))
            if "exit" in event and name in waiting:
                raise UnavailableError(
                    f"the site {name} ended with code {event['exit']}: {self._last_words(name)}"
                )
            if line.startswith(READY_WORD):
                self.endpoints[name] = line.removeprefix(READY_WORD).strip()
                waiting.discard(name)

    def ended_sites(self) -> Iterator[str]:
        """Wait for ever, and name each site whose daemon ends."""
        while True:
            event = self._next_event(None)
            if "exit" in event:
                yield str(event["name"])

    def _order(self, command: dict[str, object]) -> None:
        stdin = self._keeper.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(command).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            raise UnavailableError("the keeper of the demonstration is gone") from None

    def _next_event(self, timeout_s: float | None = START_S) -> dict[str, object]:
        """The next line of the keeper's."""
        while b"\n" not in self._buffer:
            if not self._selector.select(timeout_s):
                raise UnavailableError(f"the grid did not start within {timeout_s:.0f} s")
            assert self._keeper.stdout is not None
            content = os.read(self._keeper.stdout.fileno(), 65_536)
            if not content:
                raise UnavailableError("the keeper of the demonstration is gone")
            self._buffer += content
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, object] = json.loads(line)
        return event

    def _log(self, name: str) -> Path:
        return self.folder.site(name) / "daemon.log"

    def _last_words(self, name: str) -> str:
        text = self._log(name).read_text("utf-8", "replace").strip()
        return text[-LOG_TAIL_CHARACTERS:] or "it said nothing"

    def take_down(self) -> None:
        """End everything; returns when it has ended. The second time it does nothing."""
        stdin, stdout = self._keeper.stdin, self._keeper.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.close()
        self._selector.close()
        stdout.close()
        try:
            code = self._keeper.wait(TAKE_DOWN_S)
        except subprocess.TimeoutExpired:
            raise UnavailableError(
                f"the grid in {self.folder.root} does not end",
                hint=f"look at the processes below {self._keeper.pid}",
            ) from None
        if code < 0 or self.folder.root.exists():
            _sweep(self.folder.root)


@contextmanager
def demo_grid(
    clock: Clock,
    ids: IdSource,
    *,
    daemon: Sequence[str] = DAEMON,
    progress: Progress = lambda _line: None,
) -> Iterator[DemoGrid]:
    """Start the three sites; leave nothing behind. ``daemon``: the command that runs a site."""
    with kept_grid("gur-demo-", daemon=daemon) as grid:
        progress("a certificate authority, three sites, two users")
        lay_out(grid.folder, ids, clock.now())
        progress("three site daemons")
        grid.start_sites([site.name for site in DEMO_SITES])
        for login in (USER, NEIGHBOUR):
            write_user_config(grid.folder, login, grid.endpoints)
        yield grid


@contextmanager
def kept_grid(prefix: str, *, daemon: Sequence[str] = DAEMON) -> Iterator[DemoGrid]:
    """A grid in an empty folder of its own, whose name begins with ``prefix``; whoever enters lays
    it out and starts its sites. Nothing is left of it behind.
    """
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", str(demo_keeper.__file__), prefix],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    # From here on the end of the pipe, for whatever reason, is the end of the grid.
    try:
        grid = DemoGrid(keeper, daemon)
    except BaseException:
        keeper.communicate()
        raise
    try:
        yield grid
    finally:
        with _undisturbed():
            grid.take_down()


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Make SIGTERM and SIGHUP do what Ctrl-C does; which of them came is in the list.

    Ctrl-C is the one signal that an event loop turns into an orderly cancellation by itself. It is
    heeded also where a script's background command would ignore it.
    """
    received: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        received.append(number)
        signal.raise_signal(signal.SIGINT)

    before = {
        number: signal.signal(number, pass_on)
        for number in STOP_SIGNALS[1:]
        if signal.getsignal(number) is not signal.SIG_IGN  # nohup means what it says
    }
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C while everything is being taken down would only lose sight of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _sweep(folder: Path) -> None:
    """When the keeper itself was killed: end what was started below its folder, and remove that.

    The daemons stop by themselves; supervisors of tasks are known by the folder in their command
    line, and their tasks die with them.
    """
    for _ in range(3):
        for pid in _holders(folder):
            demo_keeper.signal_process(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def _holders(folder: Path) -> list[int]:
    """Processes with a path of ``folder`` in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
                if any(word.startswith(str(folder).encode() + b"/") for word in words):
                    found.append(int(name))
    return found

"""A production program that dies at a chosen write, or starts with an older clock.

    python -m simulator.processes.mortal agent --config sites/NAME/site.toml     a site's daemon
    python -m simulator.processes.mortal laptop      one ``gur`` command a line, each a process

The programs are the production ones, ``gurd`` and ``gur``. Two names of theirs are replaced by what
bad luck would do to them: the journal by one that kills its own process (SIGKILL, so no ``finally``
runs), and the wall clock by one that somebody has set back. A file tells which write is the last,
so that a daemon can be sentenced while it runs:

    before 3        the third write from now on is never made
    after 3         it is made, is safe on the disk, and nobody hears of it
"""

from __future__ import annotations

import enum
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.file import AppendJournal
from gridtravel.gridio.journal.progress import WriteProgress, WriteTicket
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.terminal.text import flush, say

FATE_VARIABLE: Final = "GURLAB_FATE"
"""Path of the file that tells at which write to die."""
BEHIND_VARIABLE: Final = "GURLAB_BEHIND_S"
"""How far the wall clock of this process is behind, in seconds."""
PASS_S: Final = 0.0005


class Stage(enum.StrEnum):
    """On which side of a write a process dies."""

    BEFORE = "before"
    AFTER = "after"


class Fate:
    """When a process is to die, as the file says now; counts its writes since the file came."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._sentence = ""
        self._writes = 0

    def at_write(self) -> Stage | None:
        """Count one write; at which side of it the process dies, if it is the last."""
        try:
            sentence = self.path.read_text() if self.path else ""
        except FileNotFoundError:
            sentence = ""
        if sentence != self._sentence:
            self._sentence, self._writes = sentence, 0
        if not sentence:
            return None
        self._writes += 1
        stage, number = sentence.split()
        return Stage(stage) if int(number) == self._writes else None


FATE: Final = Fate()
"""This process's own."""


class MortalJournal(SqliteJournal):
    """A daemon's journal, in a process whose fate is known to others."""

    def append(self, records: Sequence[Record], *, sync: bool = True) -> WriteTicket:
        """See ``Journal.append``."""
        return write_or_die(
            records, lambda: super(MortalJournal, self).append(records, sync=sync), self._progress
        )


class MortalLog(AppendJournal):
    """A trip's log, in such a process."""

    def append(self, records: Sequence[Record], *, sync: bool = True) -> WriteTicket:
        """See ``Journal.append``."""
        return write_or_die(
            records, lambda: super(MortalLog, self).append(records, sync=sync), self._progress
        )


def write_or_die(
    records: Sequence[Record], append: Callable[[], WriteTicket], progress: WriteProgress
) -> WriteTicket:
    """Append, unless it is fated otherwise."""
    stage = FATE.at_write() if records else None
    if stage is Stage.BEFORE:
        die()
    ticket = append()
    if stage is Stage.AFTER:
        # The loop stands still meanwhile, so that nobody can be told of the write.
        rest = threading.Event()
        while not progress.is_safe(ticket.sequence, sync=True):
            rest.wait(PASS_S)
        die()
    return ticket


class OlderTime:
    """What the clock's adapter uses of the module ``time``, with the wall clock set back."""

    def __init__(self, behind_s: float) -> None:
        self._behind_s = behind_s

    def time(self) -> float:
        """The wall clock's seconds."""
        return time.time() - self._behind_s  # noqa: TID251 - it stands in for the clock's adapter

    def monotonic(self) -> float:
        """The steady clock's seconds, which nobody sets."""
        return time.monotonic()  # noqa: TID251 - as above


def die() -> None:
    """As kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


def put_in(module: str, name: str, value: object) -> None:
    """Replace a name of a module in this process; it must be there, or nothing would come of it."""
    place = importlib.import_module(module)
    getattr(place, name)
    setattr(place, name, value)


def meet_fate(module: str, name: str, journal: type) -> None:
    """Give a module the journal, and everybody the clock, that this process is to have."""
    path = os.environ.get(FATE_VARIABLE)
    FATE.path = Path(path) if path else None
    put_in(module, name, journal)
    behind_s = float(os.environ.get(BEHIND_VARIABLE, "0"))
    if behind_s:
        put_in("gridtravel.gridio.system.clock", "time", OlderTime(behind_s))


def run_daemon(words: Sequence[str]) -> None:
    """``gurd`` with these words."""
    from gridtravel.gurd.cli import main

    meet_fate("gridtravel.agents.daemon", "SqliteJournal", MortalJournal)
    sys.argv = ["gurd", *words]
    main()


def run_command(command: dict[str, Any]) -> int:
    """One ``gur`` command in this process; its exit code."""
    from gridtravel.travel_agent.cli.main import main

    os.environ.update(command["environment"])
    for number, path in ((1, command["out"]), (2, command["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    meet_fate("gridtravel.travel_agent.log.folders", "AppendJournal", MortalLog)
    sys.argv = ["gur", *command["words"]]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve_laptops() -> None:
    """Read commands as JSON lines; tell the process of each, and when it is over how it ended.

    Each command runs in a process forked from this one, which has imported everything and begun
    nothing: as if it had been typed, without the second that the imports take.
    """
    os.environ["GRPC_VERBOSITY"] = "NONE"
    for name in (
        "gridtravel.gridio.trust.credentials",
        "gridtravel.gridio.rpc.client.grpc_site",
        "gridtravel.travel_agent.composition",
    ):
        importlib.import_module(name)
    importlib.import_module("gridtravel.travel_agent.output.rendering")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = run_command(json.loads(line))
                flush()
            finally:
                os._exit(code)
        _tell(pid)
        _, status = os.waitpid(pid, 0)
        _tell(os.waitstatus_to_exitcode(status))


def _tell(number: int) -> None:
    say(str(number))


if __name__ == "__main__":
    if sys.argv[1:] == ["laptop"]:
        serve_laptops()
    else:
        run_daemon(sys.argv[1:])

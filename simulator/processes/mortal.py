"""A production program that dies at a chosen write, or starts with an older clock.

    python -m simulator.processes.mortal agent --config sites/NAME/site.toml     a site's daemon
    python -m simulator.processes.mortal manager --config sites/NAME/site.toml   a manager's
    python -m simulator.processes.mortal laptop      one ``gur`` command a line, each a process

The programs are the production ones, ``gurd`` and ``gur``. Two names of theirs are replaced by what
bad luck would do to them: the journal by one that kills its own process (SIGKILL, so no ``finally``
runs), and the wall clock by one that somebody has set back. A file tells which write is the last,
so that a daemon can be sentenced while it runs:

    before 3                  the third write from now on is never made
    after 3                   it is made, is safe on the disk, and nobody hears of it
    after 2 leg-runs          the second write from now on that says this (``diary``)
    after 1 leg-runs PATH     somebody else dies then, whose process id is in that file

What each of them writes can be noted in a diary that all share (``diary``).
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.file import AppendJournal
from gridtravel.gridio.journal.progress import WriteProgress, WriteTicket
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.terminal.text import flush, say
from gridtravel.simulator.processes.diary import DIARY, words_of

FATE_VARIABLE: Final = "GURLAB_FATE"
"""Path of the file that tells at which write to die."""
BEHIND_VARIABLE: Final = "GURLAB_BEHIND_S"
"""How far the wall clock of this process is behind, in seconds."""
PID_VARIABLE: Final = "GURLAB_PID"
"""Path of a file in which a command notes its process's id before it does anything."""
PASS_S: Final = 0.0005


class Stage(enum.StrEnum):
    """On which side of a write a process dies."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Who is to die, and at which write of this process."""

    stage: Stage
    number: int
    words: str = ""
    """Only writes that say this count; empty: all do."""
    victim: Path | None = None
    """Where the id of the process is that dies; ``None``: this one."""

    def __str__(self) -> str:
        parts = (self.stage.value, str(self.number), self.words, str(self.victim or ""))
        return " ".join(each for each in parts if each)

    @classmethod
    def read(cls, text: str) -> Sentence:
        """As it stands in a file."""
        stage, number, *more = text.split(maxsplit=3)
        victim = Path(more[1]) if len(more) > 1 else None
        return cls(Stage(stage), int(number), more[0] if more else "", victim)

    def carry_out(self) -> None:
        """Kill -9 of whoever it is."""
        if self.victim is None:
            die()
        elif self.victim.exists():
            with suppress(ProcessLookupError):
                os.kill(int(self.victim.read_text()), signal.SIGKILL)


class Fate:
    """What this process is sentenced to, as the file says now; counts its writes since the file
    came.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._text = ""
        self._writes = 0

    def at_write(self, words: str) -> Sentence | None:
        """Count one write; the sentence, if this is the write."""
        try:
            text = self.path.read_text() if self.path else ""
        except FileNotFoundError:
            text = ""
        if text != self._text:
            self._text, self._writes = text, 0
        if not text:
            return None
        sentence = Sentence.read(text)
        self._writes += sentence.words in ("", words)
        is_now = sentence.words in ("", words) and sentence.number == self._writes
        return sentence if is_now else None


FATE: Final = Fate()
"""This process's own."""


class MortalJournal(SqliteJournal):
    """A daemon's journal, in a process whose fate is known to others."""

    def append(self, records: Sequence[Record], *, sync: bool = True) -> WriteTicket:
        """See ``Journal.append``."""
        return write_or_die(
            records,
            lambda: super(MortalJournal, self).append(records, sync=sync),
            self._progress,
            sync=sync,
        )


class MortalLog(AppendJournal):
    """A trip's log, in such a process."""

    def append(self, records: Sequence[Record], *, sync: bool = True) -> WriteTicket:
        """See ``Journal.append``."""
        return write_or_die(
            records,
            lambda: super(MortalLog, self).append(records, sync=sync),
            self._progress,
            sync=sync,
        )


def write_or_die(
    records: Sequence[Record],
    append: Callable[[], WriteTicket],
    progress: WriteProgress,
    *,
    sync: bool,
) -> WriteTicket:
    """Append, unless it is fated otherwise."""
    words = words_of(records)
    sentence = FATE.at_write(words) if records else None
    if sentence is not None and sentence.stage is Stage.BEFORE:
        sentence.carry_out()
    ticket = append()
    if records:
        DIARY.note(words)
    if sentence is not None and sentence.stage is Stage.AFTER:
        # The loop stands still meanwhile, so that nobody can be told of the write.
        rest = threading.Event()
        while not progress.is_safe(ticket.sequence, sync=sync):
            rest.wait(PASS_S)
        sentence.carry_out()
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
    DIARY.open_here()
    put_in(module, name, journal)
    behind_s = float(os.environ.get(BEHIND_VARIABLE, "0"))
    if behind_s:
        put_in("gridtravel.gridio.system.clock", "time", OlderTime(behind_s))


def run_daemon(words: Sequence[str]) -> None:
    """``gurd`` with these words."""
    from gridtravel.gurd.cli import main

    place = {"agent": "gridtravel.agents.daemon", "manager": "gridtravel.manager.daemon"}
    meet_fate(place[words[0]], "SqliteJournal", MortalJournal)
    sys.argv = ["gurd", *words]
    main()


def run_command(command: dict[str, Any]) -> int:
    """One ``gur`` command in this process; its exit code."""
    from gridtravel.travel_agent.cli.main import main

    os.environ.update(command["environment"])
    if PID_VARIABLE in os.environ:
        Path(os.environ[PID_VARIABLE]).write_text(str(os.getpid()))
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

"""Real laptops: ``gur`` commands as processes, and what their user was told.

A laptop is a folder (its GUR_STATE) with one trip in it. Its log is read from its journal, never
asked of the program whose word is under test.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.journal.contract import JournalDamaged, Record
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.gridio.system.clock import Clock
from gridtravel.simulator.checks.checked_world import undo_asked_at
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from gridtravel.simulator.processes.diary import DIARY_VARIABLE, WRITER_VARIABLE
from gridtravel.simulator.processes.live_grid import PASS_S
from gridtravel.simulator.processes.mortal import FATE_VARIABLE, PID_VARIABLE, Sentence
from gridtravel.travel_agent.log.events import TripLogEvent
from gridtravel.travel_agent.log.folders import JOURNAL_FILE
from gridtravel.travel_agent.log.trip_log import CODEC, TripStory

COMMAND_WITHIN_S: Final = 120.0
"""Every command has ended by then, or it is a fault."""
EXIT_DECLINED: Final = 3
KILLED: Final = -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        """Its JSON object; empty when there is none."""
        with suppress(ValueError):
            found = json.loads(self.out)
            if isinstance(found, dict):
                return found
        return {}


@dataclass(slots=True)
class LiveLaptop:
    """One laptop with one wish."""

    name: str
    folder: Path
    trip_id: str = ""
    state: TripState | None = None
    """Last thing said by a command that ended well."""
    told_legs: list[tuple[str, str | None]] = field(default_factory=list)
    """(site, reservation) of every leg that its user was ever told is booked."""
    is_lost: bool = False
    is_settled: bool = False
    wants_cancel: bool = False
    shown: TripState | None = None
    """What ``gur status`` showed at the end."""
    _kept: list[Record] | None = None

    @property
    def told(self) -> list[LiveLaptop]:
        """The one trip."""
        return [self]

    @property
    def memory(self) -> Path:
        """Its GUR_STATE."""
        return self.folder / "memory"

    def noting(self, diary: Path, pid_file: Path) -> dict[str, str]:
        """The environment of a command whose writes are noted, and whose process can be found."""
        return {
            DIARY_VARIABLE: str(diary),
            WRITER_VARIABLE: "laptop",
            PID_VARIABLE: str(pid_file),
        }

    def find_trip(self) -> str:
        """Its only trip, if its log was begun."""
        for each in sorted(self.memory.glob(f"trips/*/{JOURNAL_FILE}")):
            self.trip_id = each.parent.name
        return self.trip_id

    def keep_log(self) -> None:
        """What its trip's log says now is what counts, whatever is written to it later."""
        self._kept = None
        self._kept = self.records()

    def events(self) -> list[TripLogEvent]:
        """Its trip's log."""
        return [CODEC.decode(record) for record in self.records()]

    def records(self) -> list[Record]:
        """The same, as it is stored."""
        if self._kept is not None:
            return self._kept
        if not self.find_trip():
            return []
        path = self.memory / "trips" / self.trip_id / JOURNAL_FILE
        try:
            return list(read_records(path))
        except JournalDamaged:
            if path.stat().st_size:
                raise
            return []  # Killed before the file was made: its beginning is all or nothing.

    def stories(self) -> dict[str, TripStory]:
        """What its logs say."""
        story = TripStory()
        for event in self.events():
            story.tell(event)
        return {self.trip_id: story} if story.trip_id else {}

    def undone_s(self) -> dict[str, float]:
        """See ``CheckedLaptop``; its clock is the true one."""
        asked_at = undo_asked_at(self.records())
        return {} if asked_at is None else {self.trip_id: float(asked_at - WORLD_BEGIN)}

    def hear(self, said: Said) -> None:
        """A command ended; what it said counts when it ended well."""
        answer = said.answer
        if said.code not in (0, EXIT_DECLINED) or "state" not in answer:
            return
        self.trip_id = answer["trip"]
        self.state = TripState(answer["state"])
        if self.state is TripState.BOOKED:
            told = ((leg["site"], leg["reservation"]) for leg in answer["legs"])
            self.told_legs += [each for each in told if each not in self.told_legs]


class Command:
    """A running ``gur``."""

    def __init__(self, typist: Typist, out: Path, err: Path) -> None:
        self._typist = typist
        self._out = out
        self._err = err
        self.pid = 0
        self.code: int | None = None

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal, if it still runs."""
        self.look()
        if self.code is not None or not self.pid:
            return False
        os.kill(self.pid, number)
        return True

    def look(self) -> None:
        """Take note of what became of it."""
        for number in self._typist.numbers():
            if not self.pid:
                self.pid = number
            else:
                self.code = number

    async def ended(self, clock: Clock) -> Said:
        """Wait for its end."""
        give_up_at = clock.now_precise() + COMMAND_WITHIN_S
        while self.code is None:
            await clock.sleep_until(clock.now_precise() + PASS_S)
            self.look()
            if clock.now_precise() > give_up_at:
                self.signal(signal.SIGKILL)
                return Said(-signal.SIGALRM, "", f"it did not end in {COMMAND_WITHIN_S:.0f} s")
        return Said(self.code, self._out.read_text(), self._err.read_text())


class Typist:
    """Types commands, one at a time, each into a process of its own (``mortal``)."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gridtravel.simulator.processes.mortal", "laptop"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._buffer = b""
        self._count = 0

    def type(
        self, laptop: LiveLaptop, *words: str, more: Mapping[str, str] | None = None
    ) -> Command:
        """Start a command. ``more``: of its environment."""
        assert self._process.stdin is not None
        self._count += 1
        out = laptop.folder / f"{self._count}-{words[0]}.out"
        err = out.with_suffix(".err")
        for path in (out, err):
            path.touch()  # It may be killed before it opens them.
        environment = {
            "GUR_CONFIG": str(self._config),
            "GUR_STATE": str(laptop.memory),
            "COLUMNS": "200",
            **(more or {}),
        }
        command = {"words": words, "environment": environment, "out": str(out), "err": str(err)}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        return Command(self, out, err)

    def numbers(self) -> Sequence[int]:
        """What the typing process has told since the last look."""
        assert self._process.stdout is not None
        self._buffer += os.read(self._process.stdout.fileno(), 4096) if self._is_ready() else b""
        *lines, self._buffer = self._buffer.split(b"\n")
        return [int(line) for line in lines]

    def close(self) -> None:
        """Nothing is typed any more."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _is_ready(self) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0])


def sentenced(laptop: LiveLaptop, sentence: Sentence) -> dict[str, str]:
    """The environment of a command that dies at a write of its log."""
    fate = laptop.folder / "fate"
    fate.write_text(str(sentence))
    return {FATE_VARIABLE: str(fate)}

"""Real trips, one after the other, in each of which somebody dies at a chosen point (see
``crash_points``), on one grid of real daemons.

A trip is over before the next begins: every promise of it has ended at every daemon, so no crash
meets two trips.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gridtravel.gridio.system.clock import Clock
from gridtravel.local_sched.accounts.folder_calls import PART_SUFFIX
from gridtravel.simulator.processes.attended_grid import END_WITHIN_S, AttendedGrid
from gridtravel.simulator.processes.crash_points import (
    AT_CLUSTER,
    HALF_STAGED,
    LAPTOP,
    Crash,
    Point,
    TripKind,
)
from gridtravel.simulator.processes.crash_trips import LARGE_FILE, STAGED, metajob_text
from gridtravel.simulator.processes.diary import Entry, read_diary
from gridtravel.simulator.processes.laptops import (
    EXIT_DECLINED,
    KILLED,
    Command,
    LiveLaptop,
    Said,
    Typist,
    sentenced,
)
from gridtravel.simulator.processes.live_grid import LiveGrid
from gridtravel.simulator.processes.mortal import Sentence
from gridtravel.simulator.processes.rounds import LATER_S, Return

LEAD_S: Final = 17.0
"""A trip that stages little starts so long after it is asked for: a hold's life, a daemon's absence
and start, and the ten seconds in which it is asked whether it runs.
"""
STAGED_BYTES_PER_S: Final = 10_000_000
"""So much a busy machine stages at the least; the lead of what stages much grows with it."""
LAPTOP_AWAY_S: Final = 1.0
REACH_TRIES_MAX: Final = 40
LOOK_EVERY_S: Final = 0.5
PIECE_BYTES: Final = 1 << 20
BEGIN_WITHIN_S: Final = 30.0
"""After its start: by then a leg has begun or never does."""


@dataclass(slots=True)
class CrashResult:
    """What came of one trip."""

    crash: Crash | None
    """``None``: nobody died."""
    kind: TripKind
    laptop: LiveLaptop
    is_reached: bool = False
    diary: Sequence[Entry] = ()


class CrashCampaign(AttendedGrid):
    """All trips over one grid."""

    def __init__(self, grid: LiveGrid, typist: Typist, clock: Clock, *, staged_bytes: int) -> None:
        super().__init__(grid, typist, clock)
        self.results: list[CrashResult] = []
        self._staged = grid.folder.root / LARGE_FILE
        with self._staged.open("wb") as stream:
            for number in range(0, staged_bytes, PIECE_BYTES):
                piece = hashlib.sha256(str(number).encode()).digest()
                stream.write(piece * (PIECE_BYTES // len(piece)))
            stream.truncate(staged_bytes)
        self._lead_s = LEAD_S + staged_bytes / STAGED_BYTES_PER_S

    async def play(self, kind: TripKind, crash: Crash | None = None) -> CrashResult:
        """One trip, from its first question until all of it is over."""
        await self._look_after()
        position = self.grid.diary.stat().st_size if self.grid.diary.exists() else 0
        laptop = self.new_laptop(f"laptop-{len(self.results)}")
        result = CrashResult(crash, kind, laptop)
        self.results.append(result)
        if self.grid.manager is not None:
            await self._until_in_reach(laptop, kind)
        more = self._sentence(crash, laptop)
        words = ("book", str(self._metajob(kind, laptop)), "--json")
        command = self._typist.type(laptop, *words, more=more)
        striking = asyncio.create_task(self._strike(result, command))
        try:
            said = await command.ended(self._clock)
            self._judge(laptop, said)
            laptop.hear(said)
            if crash is not None and crash.victim == LAPTOP:
                result.is_reached = said.code == KILLED
            await self._come_back(crash, laptop, said)
            await self._until_over()
        finally:
            striking.cancel()
            await asyncio.gather(striking, return_exceptions=True)
        for daemon in self.grid.daemons:
            daemon.spare()
            if not daemon.is_alive():
                await self._start(daemon)
        result.diary = read_diary(self.grid.diary, position)
        return result

    async def _until_in_reach(self, laptop: LiveLaptop, kind: TripKind) -> None:
        """A manager that has lost a site tries again from time to time; it refuses until then."""
        for _ in range(REACH_TRIES_MAX):
            said = await self._typed(laptop, "quote", str(self._metajob(kind, laptop)))
            if said.code == 0:
                return
            await self._rest(LOOK_EVERY_S)

    # -- who dies ----------------------------------------------------------------------------------

    def _sentence(self, crash: Crash | None, laptop: LiveLaptop) -> dict[str, str]:
        """Tell who writes at the point that it is the one; the environment of the command."""
        pid_file = laptop.folder / "pid"
        more = laptop.noting(self.grid.diary, pid_file)
        if crash is None or crash.is_watched:
            return more
        victim = None
        if crash.victim != crash.at.writer:
            victim = pid_file
            if crash.victim != LAPTOP:
                victim = self.grid.daemon(crash.victim).pid_file
        sentence = Sentence(crash.stage, crash.at.number, crash.at.words, victim)
        if crash.at.writer == LAPTOP:
            return {**more, **sentenced(laptop, sentence)}
        self.grid.daemon(crash.at.writer).sentence(sentence)
        return more

    async def _strike(self, result: CrashResult, command: Command) -> None:
        """Kill who is not killed by a write, and start again who has died."""
        crash = result.crash
        if crash is None:
            return
        if crash.is_watched:
            before = self._shown(crash.at)
            await self._until(lambda: self._shown(crash.at) > before)
            if crash.victim == LAPTOP:
                command.signal(signal.SIGKILL)
                return
            self.grid.daemon(crash.victim).kill()
        if crash.victim == LAPTOP:
            return
        daemon = self.grid.daemon(crash.victim)
        await self._until(lambda: not daemon.is_alive())
        result.is_reached = True
        daemon.spare()
        await self._back_after(daemon, crash.away_s)

    def _shown(self, point: Point) -> int:
        """How often there is what shows that a trip has come to a point that nobody writes down."""
        if point.words != HALF_STAGED:
            assert self.grid.batch is not None, "such points are at a site without an agent"
            return len(list(self.grid.batch.far.glob(AT_CLUSTER[point.words])))
        half = self._staged.stat().st_size / 2
        areas = self.grid.sites[point.writer].state / "areas"
        return sum(_grown(each) >= half for each in areas.glob(f"*/{LARGE_FILE}{PART_SUFFIX}"))

    # -- the user ----------------------------------------------------------------------------------

    async def _come_back(self, crash: Crash | None, laptop: LiveLaptop, said: Said) -> None:
        """The user opens the laptop again, if the command did not end well."""
        laptop.find_trip()
        if said.code in (0, EXIT_DECLINED):
            laptop.is_settled = True
        elif said.code == KILLED and crash is not None and crash.back is Return.NEVER:
            laptop.is_lost = True
        else:
            is_late = crash is not None and crash.back is Return.LATER
            await self._rest(LATER_S if is_late else LAPTOP_AWAY_S)
            await self.settle(laptop, tries=1)

    async def _until_over(self) -> None:
        """Nothing of the trip is left at any daemon."""
        give_up_at = self._clock.now_precise() + BEGIN_WITHIN_S + END_WITHIN_S
        while True:
            await self._rest(LOOK_EVERY_S)
            living = [each for each in self.grid.daemons if each.is_alive()]
            is_busy = any(each.is_busy() for each in living)
            is_busy |= self.grid.batch is not None and self.grid.batch.is_busy()
            if len(living) == len(self.grid.daemons) and not is_busy:
                return
            last_end = max(each.last_end() for each in self.grid.daemons)
            if self._clock.now_precise() > max(
                give_up_at, last_end + BEGIN_WITHIN_S + END_WITHIN_S
            ):
                return  # The checkers find what is left.
            await self.settle(self.happened.laptops[-1], tries=1)

    # -- inside ------------------------------------------------------------------------------------

    def _metajob(self, kind: TripKind, laptop: LiveLaptop) -> Path:
        lead_s = self._lead_s if kind in STAGED else LEAD_S
        trip = laptop.folder / "trip.toml"
        staged = laptop.folder / LARGE_FILE
        if kind in STAGED and not staged.exists():
            staged.hardlink_to(self._staged)
        earliest = int(self._clock.now_precise() + (0 if kind is TripKind.RACE else lead_s))
        evidence = f"{self.grid.evidence}/'$GRID_TRIP'."
        if kind is TripKind.RACE:  # Its copies are told of no trip.
            evidence = f"{self.grid.races}/{laptop.name}."
        trip.write_text(metajob_text(kind, earliest=earliest, evidence=evidence, staged=staged))
        return trip


def _grown(path: Path) -> int:
    """Bytes of a file; 0: it is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

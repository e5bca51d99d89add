"""A site that lies wherever it can, over real TLS, and ``gur`` at a real terminal before it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pty
import sys
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    ReservationRequest,
)
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import ConflictError
from gridtravel.gridcore.ports import CalendarPort, FileStatus, OutputChunk, SitePort
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.system.clock import Clock, SystemClock
from tests.support.certificate_scenes import a_site, a_user, an_authority
from tests.support.fake_calendar_port import FakeCalendarPort
from tests.support.fake_services import FakeSite
from tests.support.fake_site_port import FakeSitePort
from tests.support.gur_runner import PATIENCE_S
from tests.support.rpc_scenes import DAY_S, identify_by_map

FORGED = "trip: BOOKED"
STRANGE = f"fine\r\x1b[9;9H{FORGED}\x1b]0;owned\x07\u202egnp.exe\u2066 \u200b\x9b2J\u2028{FORGED}"
"""Words that overwrite their own line, title the window, turn and hide what follows, and begin a
line of their own.
"""
ACTING = ("\x1b[9;9H", "\x1b]0;", "\x07", "\u202e", "\u2066", "\u200b", "\x9b", "\u2028")
"""What none of it may still be on a screen."""
FLOOD_BYTES = 1_000_000_000
PIECE = bytes(1 << 20)


class StrangeSite(FakeSite):
    """Says what the test wants it to say."""

    def __init__(self, clock: Clock, folder: Path) -> None:
        super().__init__(clock, folder)
        self.declines = False
        self.conflicts = False
        self.files: dict[str, tuple[int, str]] = {}
        """What it announces: size and checksum by path."""
        self.sent_bytes = 0

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """Of this site."""
        return StrangeCalendar(self, caller)

    def site_port(self, caller: Caller) -> SitePort:
        """Of this site."""
        return StrangePort(self, caller)


class StrangeCalendar(FakeCalendarPort):
    """Refuses in strange words."""

    _site: StrangeSite

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """A refusal, or a fault, when the test wants one."""
        if self._site.conflicts:
            raise ConflictError(STRANGE, hint=STRANGE)
        if self._site.declines:
            return [Decline(rule=DeclineRule.NO_ROOM, message=STRANGE) for _ in requests]
        return await super().inquire(requests)


class StrangePort(FakeSitePort):
    """Announces what it does not keep."""

    _site: StrangeSite

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """As the test says."""
        return [
            FileStatus(path=name, size_bytes=size, sha256=checksum)
            for name, (size, checksum) in self._site.files.items()
        ]

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """A thousand million bytes, whatever was announced."""
        while offset < FLOOD_BYTES:
            self._site.sent_bytes += len(PIECE)
            yield OutputChunk(offset=offset, content=PIECE)
            offset += len(PIECE)


@dataclass(frozen=True, slots=True)
class Screen:
    """What came to a terminal, and how the command ended."""

    code: int
    text: str

    @property
    def acting(self) -> list[str]:
        """What of the strange words the terminal would act on."""
        alone = self.text.replace("\r\n", "\n").split("\n")
        return [repr(each) for each in ACTING if each in self.text] + [
            line for line in alone if line.strip() == FORGED or f"\r{FORGED}" in line
        ]


@dataclass
class StrangeScene:
    """The site, and a laptop that knows it as ``lab``."""

    site: StrangeSite
    folder: Path
    environment: Mapping[str, str]

    def metajob(self) -> Path:
        """A trip to it."""
        path = self.folder / "trip.toml"
        path.write_text(
            'name = "trip"\nusage_pattern = "multiple"\nnodes_total = 1\nduration = "60s"\n'
            'earliest_start = "now"\nlatest_end = "+1h"\n'
            '[task]\ncommand = ["true"]\n'
            '[[machines]]\nname = "lab"\naccount = "physics"\nnodes_min = 1\nnodes_max = 1\n'
        )
        return path

    async def at_terminal(self, *words: str) -> Screen:
        """Run ``gur`` with a terminal for its output."""
        main, side = pty.openpty()
        # A screen that is wide enough for a table's cells not to be cut.
        termios.tcsetwinsize(side, (50, 400))
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "gridtravel.travel_agent.cli.main", *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=side,
                stderr=side,
                env={**self.environment, "TERM": "xterm"},
            )
        finally:
            os.close(side)
        async with asyncio.timeout(PATIENCE_S):
            seen = await asyncio.to_thread(_read_all, main)
            code = await process.wait()
        os.close(main)
        return Screen(code, seen.decode("utf-8", "replace"))

    async def job_ends(self, output: bytes) -> None:
        """The only job writes this and ends, for a strange reason."""
        from gridtravel.gridcore.jobs.job import JobState

        (job_id,) = self.site.jobs
        await self.site.move_job(job_id, JobState.RUNNING)
        await self.site.move_job(job_id, JobState.FAILED, output, reason=STRANGE)

    def announce(self, path: str, size: int, content: bytes | None) -> None:
        """A file, and the checksum of ``content``; ``None``: no checksum."""
        checksum = "" if content is None else hashlib.sha256(content).hexdigest()
        self.site.files[path] = size, checksum


@asynccontextmanager
async def a_strange_scene(folder: Path) -> AsyncIterator[StrangeScene]:
    """A site and a laptop with its credential."""
    now = SystemClock().now()
    authority = an_authority(folder, now=now - 2 * DAY_S)
    lab = a_site(authority, folder, name="lab", now=now)
    a_user(authority, folder, login="ada", now=now)
    site = StrangeSite(SystemClock(), folder)
    async with GridServer(
        site, identify_by_map, address="127.0.0.1:0", credential=lab, site="lab"
    ) as server:
        config = folder / "sites.toml"
        config.write_text(
            f'credential = "{folder / "ada"}"\n[machines.lab]\nsite = "lab"\n'
            f'endpoint = "{server.endpoint}"\n'
        )
        own = {"GUR_CONFIG": str(config), "GUR_STATE": str(folder / "laptop")}
        yield StrangeScene(site, folder, {**os.environ, **own})


def _read_all(descriptor: int) -> bytes:
    seen = b""
    # A terminal without a program at its other end is an error, and that is the end.
    with contextlib.suppress(OSError):
        while piece := os.read(descriptor, 65536):
            seen += piece
    return seen

"""A command line over a site in memory, whose answers to questions the test writes down."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.calendar_rules import CalendarRules
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import NotFoundError
from gridtravel.gridcore.ports import SitePort
from gridtravel.gridcore.timing.timetext import find_zone
from gridtravel.gridio.rpc.inproc import InprocSite
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.local_sched.catalina import shell
from gridtravel.local_sched.catalina.main import run_command
from gridtravel.local_sched.catalina.session import Session, session_on
from tests.support.builders import a_calendar
from tests.support.fake_services import FakeSite
from tests.support.fake_site_port import FakeSitePort

NOW = 1_100_000_000
"""2004-11-09 11:33:20 UTC, the day of the paper's example."""


class AnsweringPort(FakeSitePort):
    """Answers the site's questions from the scene."""

    def __init__(self, site: FakeSite, caller: Caller, scene: CatalinaScene) -> None:
        super().__init__(site, caller)
        self._scene = scene

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """What the test wrote down; the question is remembered."""
        self._scene.asked.append((name, dict(arguments)))
        if name == "bindings":
            bound = {key: list(ids) for key, ids in self._site.bound.items()}
            return {"reservations": bound, "jobs": bound}
        answer = self._scene.answers.get(name)
        if answer is None:
            raise NotFoundError(f"no answer to {name} in this scene", hint="")
        if isinstance(answer, BaseException):
            raise answer
        return answer


class AnsweringSite(FakeSite):
    """A ``FakeSite`` that answers questions."""

    scene: CatalinaScene

    def site_port(self, caller: Caller) -> SitePort:
        """See ``FakeSite``."""
        return AnsweringPort(self, caller, self.scene)


@dataclass
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class CatalinaScene:
    """The site, who calls, and what was asked."""

    site: AnsweringSite
    capsys: pytest.CaptureFixture[str]
    caller: Caller = field(default_factory=lambda: Caller(subject="login:ada", login="ada"))
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def run(self, *words: str, program: str = "catalina") -> Said:
        """One command line, to its end."""
        self.capsys.readouterr()
        code = run_command([f"/usr/bin/{program}", *words])
        printed = self.capsys.readouterr()
        return Said(code, printed.out, printed.err)

    def pass_time(self, seconds: int) -> None:
        """The site's clock goes on."""
        assert isinstance(self.site.clock, ManualClock)
        self.site.clock.advance(seconds)

    def as_caller(self, login: str, role: Role = Role.USER) -> None:
        """From now on somebody else types."""
        self.caller = Caller(subject=f"login:{login}", login=login, role=role)

    @contextlib.asynccontextmanager
    async def open_session(
        self, socket: str, zone_name: str, environment: Mapping[str, str]
    ) -> AsyncIterator[Session]:
        """In place of the one that connects to a socket."""
        connection = InprocSite(self.site, self.caller, clock=self.site.clock)
        zone = find_zone(zone_name) if zone_name else None
        yield await session_on(connection, zone, SeededIds(len(self.site.callers) + 1).new_id)


def a_scene(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CatalinaScene:
    """Four nodes in London on the day of the paper's example, and nothing booked."""
    site = AnsweringSite(ManualClock(NOW), folder)
    site.calendar = a_calendar(4, rules=CalendarRules(), origin=NOW)
    scene = CatalinaScene(site, capsys)
    site.scene = scene
    monkeypatch.setattr(shell, "open_session", scene.open_session)
    monkeypatch.setenv("COLUMNS", "80")
    return scene

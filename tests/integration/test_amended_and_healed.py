"""Trips that are changed and mended over real daemons: from the command line, with ``kill -9`` in
the middle, with failed nodes, and with a site that is gone.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridio.cli_frame import EXIT_DECLINED
from tests.support.grid_world import GridWorld, metajob_text
from tests.support.gur_runner import Said

pytestmark = pytest.mark.integration
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Traveller:
    """A laptop with one booked trip."""

    grid: GridWorld
    state: Path
    trip: str
    start: int

    def gur(self, *words: str, stop_at: tuple[str, int, int] | None = None) -> Said:
        """A command about the trip."""
        return self.grid.gur(*words, state=self.state, stop_at=stop_at)

    def answer(self, *words: str, code: int = 0) -> dict[str, Any]:
        """What a command says with ``--json``."""
        said = self.gur(*words, "--json")
        assert said.code == code, said
        found: dict[str, Any] = json.loads(said.out)
        return found

    def kept(self) -> dict[str, Reservation]:
        """The trip's live reservations in the sites' own books, one a site."""
        return {
            site: each
            for site in ("alpha", "beta", "gamma")
            for each in self.grid.live(site, self.trip)
            if each.state is ReservationState.COMMITTED
        }

    def held(self) -> int:
        """How many holds the sites have of it."""
        live = (
            each for site in ("alpha", "beta", "gamma") for each in self.grid.live(site, self.trip)
        )
        return sum(1 for each in live if each.state is ReservationState.HELD)


def booked(
    grid: GridWorld,
    folder: Path,
    shares: dict[str, tuple[int, int]],
    total: int,
    *,
    extra: str = "",
    pattern: str = "multiple",
) -> Traveller:
    """A trip of an hour with a job at each site, on a day of its own."""
    start, end = grid.window()
    folder.mkdir(exist_ok=True)
    file = folder / "trip.toml"
    text = metajob_text(
        shares,
        total,
        earliest=start,
        latest=end,
        duration_s=HOUR_S,
        command=["/bin/true"],
        extra=extra,
        pattern=pattern,
    )
    file.write_text(text)
    said = grid.gur("book", str(file), "--json", state=folder / "memory")
    assert said.code == 0, said
    return Traveller(grid, folder / "memory", json.loads(said.out)["trip"], start)


@contextmanager
def failed_nodes(grid: GridWorld, site: str, count: int) -> Iterator[None]:
    """So many nodes of a site are down, as its administrator says."""
    names = [f"{site}-node-{number}" for number in range(count)]

    async def order(what: str) -> None:
        async with grid.laptop("edsger") as agent:
            for name in names:
                await agent.connection(f"{site}-machine").site.order(what, {"node": name})

    asyncio.run(order("node-down"))
    try:
        yield
    finally:
        asyncio.run(order("node-up"))


def test_another_time_and_another_size(grid: GridWorld, tmp_path: Path) -> None:
    """All legs move at once and keep their ids, their jobs follow; without another window a trip
    that becomes longer starts when it did.
    """
    ada = booked(grid, tmp_path, {"alpha": (2, 2), "beta": (1, 1)}, 3)
    before = ada.kept()
    later = ada.answer("amend", ada.trip, "--earliest-start", format_utc(ada.start + HOUR_S))
    after = ada.kept()
    assert {site: each.reservation_id for site, each in after.items()} == {
        site: each.reservation_id for site, each in before.items()
    }
    assert {each.start for each in after.values()} == {ada.start + HOUR_S}
    assert later["start"] == format_utc(ada.start + HOUR_S)
    longer = ada.answer("amend", ada.trip, "--duration", "2h")
    assert longer["start"] == later["start"]
    for site, each in ada.kept().items():
        assert each.interval.duration_s == 2 * HOUR_S
        (job,) = grid.active_jobs(site, ada.trip)
        assert (job.spec.limit_s, job.spec.nodes) == (2 * HOUR_S, each.nodes)
    assert ada.answer("status", ada.trip)["state"] == "BOOKED"
    steps = ada.gur("history", ada.trip).out
    assert steps.count("to be changed: as its user wishes") == 2


def test_what_cannot_be_had_leaves_the_trip_as_it_was(grid: GridWorld, tmp_path: Path) -> None:
    """A refusal says why, with the exit code of a refusal; what contradicts itself is the user's
    mistake. Nothing is held in the end.
    """
    ada = booked(grid, tmp_path, {"alpha": (2, 2), "beta": (1, 8)}, 3)
    before = ada.kept()
    other = booked(grid, tmp_path / "other", {"beta": (8, 8)}, 8, pattern="single")
    said = ada.gur(
        "amend",
        ada.trip,
        "--earliest-start",
        format_utc(other.start),
        "--latest-end",
        format_utc(other.start + HOUR_S),
    )
    assert said.code == EXIT_DECLINED, said
    assert "stays as it was" in said.out
    assert ada.kept() == before
    assert ada.held() == 0
    too_many = ada.gur("amend", ada.trip, "--nodes", "40")
    assert too_many.code == 2, too_many
    nothing = ada.gur("amend", ada.trip)
    assert (nothing.code, "nothing is to be changed" in nothing.err) == (2, True)
    assert ada.kept() == before


@pytest.mark.parametrize("step", ["asked", "held", "decided", "committed"])
def test_killed_in_the_middle_of_a_change(grid: GridWorld, tmp_path: Path, step: str) -> None:
    """The laptop is killed at a step of each kind; ``gur resume`` finishes or undoes: every leg is
    old or every leg is new, nothing is held, and the log says what the books say.
    """
    ada = booked(grid, tmp_path, {"alpha": (1, 1), "beta": (1, 1)}, 2)
    words = ("amend", ada.trip, "--earliest-start", format_utc(ada.start + HOUR_S))
    ada.gur(*words, stop_at=(step, 1, signal.SIGKILL))
    resumed = ada.answer("resume", ada.trip)
    starts = {each.start for each in ada.kept().values()}
    is_new = step in ("decided", "committed")
    assert starts == {ada.start + HOUR_S if is_new else ada.start}
    assert len(ada.kept()) == 2
    assert ada.held() == 0
    assert resumed["state"] == "BOOKED"
    assert resumed["start"] == format_utc(starts.pop())
    assert ada.gur("cancel", ada.trip).code == 0
    assert ada.kept() == {}


def test_failed_nodes_shrink_the_trip(grid: GridWorld, tmp_path: Path) -> None:
    """A site that lacks nodes says so; the rule that the user gave makes the trip smaller at the
    same time, and its job with it. While all is well nothing happens.
    """
    ada = booked(
        grid, tmp_path, {"alpha": (2, 2), "gamma": (1, 4)}, 6, extra='healing = ["shrink"]'
    )
    assert ada.answer("heal", ada.trip)["healed_by"] is None
    with failed_nodes(grid, "gamma", 3):
        healed = ada.answer("heal", ada.trip)
        assert healed["healed_by"] == "shrink"
        assert "lacks 3 of its 4 nodes" in healed["lost"]["gamma-machine"]
        assert {site: each.nodes for site, each in ada.kept().items()} == {"alpha": 2, "gamma": 1}
        (job,) = grid.active_jobs("gamma", ada.trip)
        assert job.spec.nodes == 1
        assert ada.answer("heal", ada.trip)["lost"] == {}


def test_a_site_that_is_gone_is_replaced(grid: GridWorld, tmp_path: Path) -> None:
    """The leg is booked at the same time at the machines that are left; the site that was away lets
    its old leg go once it is back and told.
    """
    ada = booked(
        grid,
        tmp_path,
        {"alpha": (1, 4), "beta": (1, 4), "gamma": (1, 2)},
        6,
        extra='preference_reorder = false\nhealing = ["replace_leg", "move_trip"]',
    )
    start = {each.start for each in ada.kept().values()}
    assert len(ada.kept()) == 3
    grid.kill("gamma")
    healed = ada.answer("heal", ada.trip, "--patience", "1s")
    assert healed["healed_by"] == "replace_leg"
    assert "gamma-machine" in healed["lost"]
    still_away = ada.answer("resume", ada.trip)
    assert still_away["state"] == "BOOKED", "nobody has to wait for a site that is left out"
    grid.start("gamma")
    assert ada.answer("resume", ada.trip)["state"] == "BOOKED"
    kept = ada.kept()
    assert set(kept) == {"alpha", "beta"}
    assert sum(each.nodes for each in kept.values()) == 6
    assert {each.start for each in kept.values()} == start
    (job,) = grid.active_jobs("alpha", ada.trip)
    assert [each.site for each in job.spec.companions] == ["beta"]
    assert grid.active_jobs("gamma", ada.trip) == []


def test_a_leg_that_its_site_released_is_booked_elsewhere(grid: GridWorld, tmp_path: Path) -> None:
    """Nothing replaces what is gone; the trip goes to its other machine at the same time."""
    ada = booked(
        grid,
        tmp_path,
        {"alpha": (2, 2), "beta": (2, 2)},
        2,
        pattern="single",
        extra='healing = ["shrink", "replace_leg"]',
    )
    ((site, kept),) = ada.kept().items()

    async def take_away() -> None:
        async with grid.laptop("edsger") as admin:
            await admin.connection(f"{site}-machine").calendar.release(kept.reservation_id)

    asyncio.run(take_away())
    healed = ada.answer("heal", ada.trip)
    assert (healed["healed_by"], list(healed["refused"])) == ("replace_leg", ["shrink"])
    ((other, new),) = ada.kept().items()
    assert {site, other} == {"alpha", "beta"}
    assert new.interval == kept.interval
    assert len(grid.active_jobs(other, ada.trip)) == 1


def test_without_a_rule_the_rest_is_cancelled(grid: GridWorld, tmp_path: Path) -> None:
    """Empty rules mean to give up: the trip is over, and says so with the code of a refusal."""
    ada = booked(grid, tmp_path, {"alpha": (2, 2), "gamma": (4, 4)}, 6)
    with failed_nodes(grid, "gamma", 1):
        assert ada.answer("heal", ada.trip, code=EXIT_DECLINED)["state"] == "CANCELLED"
    assert ada.kept() == {}

"""Trips with a site that has only a batch system, reached through a real SSH login: beside a site
with an agent, killed at any step, and for real where Grid Engine or Slurm is installed.
"""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.trips.itineraries import Transport, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.batch.options import BatchOptions
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.composition import open_travel_agent
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.running.jobs import SMALL_INPUTS_BYTES, LegChange
from gridtravel.travel_agent.sites.config import load_grid_config
from tests.support.batch_worlds import real_system
from tests.support.fake_gridengine import FakeGridEngine
from tests.support.grid_world import SIDE_BY_SIDE, GridWorld, metajob_text, until
from tests.support.gur_runner import PATIENCE_S, Said
from tests.support.speed import at_this_speed
from tests.support.sshd_world import SshUser

pytestmark = pytest.mark.integration
CLOCK = SystemClock()
SHARES = {"alpha": (1, 1), "cluster": (2, 2)}


def machines(grid: GridWorld, user: SshUser, folder: Path, options: BatchOptions) -> Path:
    """``alpha`` with its agent, and the cluster behind the login with nothing but its commands."""
    variables = [f'{name} = "{value}"' for name, value in options.environment.items()]
    lines = [
        f'credential = "{grid.folder.user("ada") / "credential"}"',
        f'ssh_config = "{user.config}"',
        "[machines.alpha-machine]",
        'site = "alpha"',
        f'endpoint = "{grid.endpoint("alpha")}"',
        "[machines.cluster-machine]",
        'site = "cluster"',
        f'ssh = "{user.alias}"',
        f'batch = "{options.system}"',
        f'batch_folder = "{options.folder}"',
        "[machines.cluster-machine.batch_environment]",
        *variables,
    ]
    path = folder / "sites.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


@asynccontextmanager
async def laptop(
    grid: GridWorld, config: Path, memory: Path | None = None
) -> AsyncIterator[TravelAgent]:
    """A travel agent with that list."""
    agent = open_travel_agent(load_grid_config(config), memory or grid.new_state())
    try:
        yield agent
    finally:
        await agent.close()


def wish(window: tuple[int, int], *, duration_s: int = 600, command: tuple[str, ...] = ()) -> str:
    """A node at alpha, and two at the cluster."""
    return metajob_text(
        SHARES,
        3,
        earliest=window[0],
        latest=window[1],
        duration_s=duration_s,
        command=command,
    )


def parsed(text: str) -> Metajob:
    """As the command line reads it."""
    return parse_metajob(text, now=CLOCK.now(), zone=ZoneInfo("UTC"), form="toml").metajob


@pytest.fixture
def engine(tmp_path: Path) -> FakeGridEngine:
    """A fake Grid Engine at the far end."""
    return FakeGridEngine(tmp_path / "engine")


@pytest.fixture
def config(grid: GridWorld, ssh_user: SshUser, tmp_path: Path, engine: FakeGridEngine) -> Path:
    """The list of machines with the fake."""
    options = BatchOptions(
        system="gridengine", folder=str(tmp_path / "far"), environment={"PATH": engine.path}
    )
    return machines(grid, ssh_user, tmp_path, options)


async def test_books_beside_an_agent(
    grid: GridWorld, config: Path, engine: FakeGridEngine, tmp_path: Path
) -> None:
    """Both start together; the site with an agent keeps the outcome, the other one never does. The
    itinerary says by which way, and a cancelled trip leaves nothing in the batch system.
    """
    async with laptop(grid, config) as agent:
        trip = await agent.book(parsed(wish(grid.window(), command=("true",))), base=tmp_path)
        assert trip.state is TripState.BOOKED
        assert {leg.site: leg.transport for leg in trip.legs} == {
            "alpha": Transport.GRPC,
            "cluster": Transport.SSH,
        }
        assert len({leg.start for leg in trip.legs}) == 1
        (kept,) = grid.live("alpha", trip.trip_id)
        assert kept.request.trip is not None
        assert [each.site for each in kept.request.trip.acceptors] == ["alpha"]
        assert len(engine.names()) == len(engine.state()["jobs"]) == 1
        report = await agent.status(trip.trip_id)
        assert (report.itinerary.state, report.notes) == (TripState.BOOKED, ())
        assert (await agent.cancel(trip.trip_id)).state is TripState.CANCELLED
    assert engine.names() == []
    assert engine.state()["jobs"] == []


async def test_the_other_site_refuses(
    grid: GridWorld, config: Path, engine: FakeGridEngine, tmp_path: Path
) -> None:
    """What the batch system cannot give is given up at both sites, with its reason."""
    engine.change(slots=1)
    async with laptop(grid, config) as agent:
        trip = await agent.book(parsed(wish(grid.window())), base=tmp_path)
    assert trip.state is TripState.DECLINED
    assert trip.decline is not None
    assert "cluster" in trip.decline.message
    assert engine.names() == []
    assert grid.live("alpha", trip.trip_id) == []


@pytest.mark.parametrize("step", ["planned", "held", "decided", "committed"])
def test_laptop_dies(
    grid: GridWorld, config: Path, engine: FakeGridEngine, tmp_path: Path, step: str
) -> None:
    """Killed at any step, ``gur resume`` finishes the trip at both sites or undoes it at both."""
    file, memory = tmp_path / "trip.toml", grid.new_state()
    file.write_text(wish(grid.window()))
    more = {"GUR_CONFIG": str(config)}

    def gur(*words: str, stop: bool = False) -> Said:
        stop_at = (step, 1, int(signal.SIGKILL)) if stop else None
        return grid.gur(*words, state=memory, more=more, stop_at=stop_at)

    gur("book", str(file), stop=True)
    (trip,) = [path.name for path in (memory / "trips").iterdir()]
    said = gur("resume", trip, "--json")
    assert said.code == 0, said
    state = json.loads(said.out)["state"]
    is_booked = state == "BOOKED"
    assert state in ("BOOKED", "ABSENT", "DECLINED")
    assert (len(engine.names()) == 1) is is_booked
    assert bool(grid.live("alpha", trip)) is is_booked


@pytest.mark.parametrize("count", [2, 3])
def test_probe_leaves_no_test_reservation(
    grid: GridWorld, config: Path, engine: FakeGridEngine, tmp_path: Path, count: int
) -> None:
    """The paper's search, killed when it has been granted one: ``gur resume`` takes it back."""
    file, memory = tmp_path / "trip.toml", grid.new_state()
    file.write_text(wish(grid.window()))
    config.write_text('search = "probe"\n' + config.read_text())
    more = {"GUR_CONFIG": str(config)}
    stop_at = ("offered", count, int(signal.SIGKILL))
    grid.gur("book", str(file), state=memory, more=more, stop_at=stop_at)
    assert engine.names(), "a test reservation was there when the laptop died"
    (trip,) = [path.name for path in (memory / "trips").iterdir()]
    said = grid.gur("resume", trip, state=memory, more=more)
    assert said.code == 0, said
    assert engine.names() == []


def test_wrong_way(grid: GridWorld, config: Path, tmp_path: Path) -> None:
    """A site without an agent has no way by gRPC, and says so before anything is asked."""
    file = tmp_path / "trip.toml"
    file.write_text(wish(grid.window()))
    said = grid.gur("quote", str(file), "--transport", "grpc", more={"GUR_CONFIG": str(config)})
    assert said.code == 2
    assert "no agent" in said.err


@pytest.mark.parametrize("kind", ["gridengine", "slurm"])
async def test_real_batch_system(
    grid: GridWorld, ssh_user: SshUser, tmp_path: Path, kind: str
) -> None:
    """Booked with ``gur book``, staged, started together and not early, followed, fetched, with a
    real batch system behind the login.
    """
    with real_system(kind) as options:
        config = machines(grid, ssh_user, tmp_path, options)
        (tmp_path / "in.txt").write_text("from far away\n")
        task = '[[task.stage_in]]\nsource = "in.txt"\ndestination = "in.txt"\n'
        now = CLOCK.now()
        text = wish(
            (now, now + 600),
            duration_s=30,
            command=(
                "sh",
                "-c",
                "cat in.txt; cat in.txt > out.txt; test $GRID_START -le `date +%s`",
            ),
        ).replace("[[machines]]", task + "[[machines]]", 1)
        (tmp_path / "trip.toml").write_text(text)
        memory, more = grid.new_state(), {"GUR_CONFIG": str(config)}
        booked = grid.gur("book", str(tmp_path / "trip.toml"), state=memory, more=more)
        assert booked.code == 0, booked
        async with laptop(grid, config, memory) as agent:
            trip = (await agent.status("trip")).itinerary
            ended, said = {}, dict.fromkeys(("alpha-machine", "cluster-machine"), b"")
            async for item in agent.follow(trip.trip_id):
                if isinstance(item, LegChange):
                    ended[item.leg] = item.view
                else:
                    said[item.leg] += item.content
            assert set(said.values()) == {b"from far away\n"}
            assert {view.exit_code for view in ended.values()} == {0}
            starts = [view.started_precise for view in ended.values()]
            assert all(each is not None and each >= trip.legs[0].start for each in starts)
            fetched = await agent.fetch(trip.trip_id, tmp_path / "results")
            assert "out.txt" in {path.name for path in fetched["cluster-machine"]}
            assert (await agent.status(trip.trip_id)).itinerary.state is TripState.COMPLETED


def test_not_ready_in_time(
    grid: GridWorld, config: Path, engine: FakeGridEngine, tmp_path: Path
) -> None:
    """The laptop is lost with a large file to send, and comes back when the others have settled
    that the leg was not ready: it lets the leg go with its job, which would begin alone.
    """
    start = CLOCK.now() + at_this_speed(12)
    text = wish((start, start + 600), command=("cat", "large"))
    task = '[[task.stage_in]]\nsource = "large"\ndestination = "large"\n'
    file, memory = tmp_path / "trip.toml", grid.new_state()
    file.write_text(text.replace("[[machines]]", task + "[[machines]]", 1))
    (tmp_path / "large").write_bytes(b"x" * (SMALL_INPUTS_BYTES + 1))
    more = {"GUR_CONFIG": str(config)}
    finish = "call gridtravel.travel_agent.running.jobs:LegWork.finish"
    killed = grid.gur("book", str(file), state=memory, more=more, stop_at=(finish, 1, 9))
    assert killed.code == -signal.SIGKILL, killed
    (trip,) = [path.name for path in (memory / "trips").iterdir()]
    until(lambda: not grid.live("alpha", trip), "alpha has found that a leg is not ready")
    assert len(engine.state()["jobs"]) == 1
    resumed = grid.gur("resume", trip, state=memory, more=more)
    assert "was not ready in time" in resumed.out + resumed.err, resumed
    assert (engine.names(), engine.state()["jobs"]) == ([], [])
    status = json.loads(grid.gur("status", trip, "--json", state=memory, more=more).out)
    assert status["state"] == "FAILED", status


QUEUED = ("decided", 1)
"""Every leg is held, and the cluster's job is queued: COMMIT is not proposed yet."""
CHOSEN = ("call gridtravel.gridio.batch.batch_calendar:BatchCalendar.commit", 1)
"""COMMIT is chosen; the cluster does not know."""
MARKED = ("call gridtravel.travel_agent.booking.holds:say_ready", 1)
"""The cluster has its mark, and nobody has said that its leg is ready."""
SAID = ("committed", 2)
"""The cluster has its mark, and its leg was said to be ready."""


def killed_trips(
    grid: GridWorld, config: Path, folder: Path, steps: list[tuple[str, int]], start: int
) -> list[tuple[str, Path]]:
    """Trips of one start whose laptops are killed, each at its step; their ids and memories. Every
    leg that runs leaves a file of its trip's and its own name.
    """
    file = folder / "killed.toml"
    shares = {"alpha": (1, 1), "cluster": (1, 1)}
    command = f'echo "$GRID_COMPANIONS" > {folder}/ran.$GRID_TRIP.$GRID_LEG'
    text = metajob_text(
        shares,
        2,
        earliest=start,
        latest=start + 60,
        duration_s=60,
        command=("sh", "-c", command),
    )
    file.write_text(text)

    def book(step: tuple[str, int]) -> tuple[str, Path]:
        memory = grid.new_state()
        said = grid.gur(
            "book",
            str(file),
            state=memory,
            more={"GUR_CONFIG": str(config)},
            stop_at=(*step, int(signal.SIGKILL)),
        )
        assert said.code == -signal.SIGKILL, said
        (trip,) = [path.name for path in (memory / "trips").iterdir()]
        return trip, memory

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(book, steps))


def wait_for(start: int) -> None:
    """It may be minutes away on a machine with much to do."""
    patience_s = start - CLOCK.now() + PATIENCE_S
    until(lambda: CLOCK.now() >= start, "the start has come", patience_s)


def legs_that_ran(folder: Path, trip: str) -> list[str]:
    """By name."""
    return sorted(path.name.rpartition(".")[2] for path in folder.glob(f"ran.{trip}.*"))


@pytest.mark.parametrize("kind", ["gridengine", "slurm"])
def test_killed_laptops_leave_both_legs_running_or_none(
    grid: GridWorld, ssh_user: SshUser, tmp_path: Path, kind: str
) -> None:
    """Laptops that never come back, beside a real batch system. Killed when the cluster's job is
    queued, or when COMMIT is chosen and the cluster was not told: nothing runs, and its job ends
    with the reason. Killed when it was told: both run, and know each other. What is left ``gur
    resume`` frees.
    """
    with real_system(kind) as options:
        config = machines(grid, ssh_user, tmp_path, options)
        more = {"GUR_CONFIG": str(config)}
        start = CLOCK.now() + at_this_speed(12)
        trips = killed_trips(grid, config, tmp_path, [QUEUED, CHOSEN, SAID], start)
        *lost, (whole, _) = trips
        both = ["alpha-machine", "cluster-machine"]
        wait_for(start)
        until(lambda: legs_that_ran(tmp_path, whole) == both, "both legs have run")
        told = (tmp_path / f"ran.{whole}.cluster-machine").read_text()
        (companion,) = json.loads(told)
        assert companion["contact"].startswith("127.0.0.1:")
        jobs = Path(options.folder) / "jobs"
        until(lambda: len([*jobs.glob("*/idle")]) == len(lost), "the others have given up")
        until(lambda: not any(grid.live("alpha", trip) for trip, _ in lost), "alpha is free")
        assert [legs_that_ran(tmp_path, trip) for trip, _ in lost] == [[], []]
        for trip, memory in lost:
            status = grid.gur("status", trip, state=memory, more=more)
            assert "cluster-machine: it ran nothing: its reservation was never" in " ".join(
                (status.out + status.err).split()
            )
            resumed = grid.gur("resume", trip, "--json", state=memory, more=more)
            assert resumed.code == 0, resumed
            assert json.loads(resumed.out)["state"] in ("DECLINED", "CANCELLED")
        assert sorted(path.name for path in tmp_path.glob("ran.*")) == [
            f"ran.{whole}.{leg}" for leg in both
        ]


@pytest.mark.parametrize("kind", ["gridengine", "slurm"])
def test_resumed_in_time_both_legs_run(
    grid: GridWorld, ssh_user: SshUser, tmp_path: Path, kind: str
) -> None:
    """Killed when COMMIT is chosen, before the mark or between the mark and the word that the leg
    is ready, the laptop is back before the start: it sets the mark and says the word, and both
    legs run once. Cancelled instead, the job is gone from the batch system, and nothing runs.
    """
    with real_system(kind) as options:
        config = machines(grid, ssh_user, tmp_path, options)
        start = CLOCK.now() + at_this_speed(15)
        trips = killed_trips(grid, config, tmp_path, [CHOSEN, MARKED, CHOSEN], start)
        words = ("resume", "resume", "cancel")
        for (trip, memory), word in zip(trips, words, strict=True):
            said = grid.gur(word, trip, state=memory, more={"GUR_CONFIG": str(config)})
            assert said.code == 0, said
        assert CLOCK.now() < start
        *whole, (cancelled, _) = trips
        both = ["alpha-machine", "cluster-machine"]
        wait_for(start)
        for trip, _ in whole:
            until(lambda trip=trip: legs_that_ran(tmp_path, trip) == both, "both have run")  # type: ignore[misc]
        assert legs_that_ran(tmp_path, cancelled) == []
        assert len([*(Path(options.folder) / "jobs").glob("*/started")]) == len(whole)

"""``gur demo``: a metajob on three sites from one command, watched from the first question to the
last digit of its result.

The order of events is here; the grid is ``demo_grid``'s, the trip ``demo_trip``'s, and how it looks
``demo_screen``'s.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import typer

from gridcore.errors import InputError, UnavailableError
from gridcore.itineraries import Itinerary, TripState
from gridcore.jobs import JobSpec, JobState, JobView
from gridcore.reservations import Decline
from gridio.clock import SystemClock
from gridio.ids import RandomIds
from travel_agent.agent import TravelAgent
from travel_agent.composition import open_travel_agent
from travel_agent.coupled.atmosphere import Atmosphere
from travel_agent.coupled.ocean import Ocean
from travel_agent.coupled.reference import Verdict, run_alone, verify
from travel_agent.coupled.stepping import RESULT_FILE
from travel_agent.demo_grid import DemoGrid, demo_grid, interruptible
from travel_agent.demo_screen import DemoScreen
from travel_agent.demo_sites import DEMO_SITES, NEIGHBOUR
from travel_agent.demo_trip import (
    ATMOSPHERE,
    BACKGROUND,
    OCEAN,
    STEPS,
    lay_out_trip,
    three_machines_text,
)
from travel_agent.grid_config import load_grid_config
from travel_agent.legs import LegChange
from travel_agent.line_marker import LineMarker
from travel_agent.metajob_files import parse_metajob, read_metajob_file
from travel_agent.rendering import itinerary_json
from travel_agent.searching import DEFAULT_ACCOUNT

SETTLE_S: Final = 5.0
"""Longest wait for the background jobs to start, so that the queues show what they are."""
LOOK_S: Final = 0.1
RUN_S: Final = 120.0
"""Longest wait for the trip to be over: its window, and what a loaded machine takes."""
RESULT_BYTES_MAX: Final = 1 << 20


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the demonstration has seen, step by step."""

    itinerary: Itinerary | None = None
    """As booked, and in the end as the sites' books have it."""
    jobs: dict[str, JobView] = field(default_factory=dict)
    """The latest view of each leg's job."""
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Result files by leg."""
    verdict: Verdict | None = None
    alone: dict[str, object] = field(default_factory=dict)
    """Mean temperature, by leg, of each model had it never heard of the other."""

    @property
    def starts(self) -> dict[str, float]:
        """When each leg really started, in seconds since the epoch on its site's clock."""
        found = {leg: view.started_precise for leg, view in self.jobs.items()}
        return {leg: start for leg, start in found.items() if start is not None}

    @property
    def spread_ms(self) -> float | None:
        """Between the first and the last actual start; ``None`` unless all legs started."""
        starts = list(self.starts.values())
        if self.itinerary is None or not 0 < len(self.itinerary.legs) == len(starts):
            return None
        return (max(starts) - min(starts)) * 1000.0

    @property
    def faults(self) -> tuple[str, ...]:
        """Whatever is not as it should be; empty: the demonstration has shown what it promised."""
        if self.verdict is None:
            return ("the trip did not come to a result",)
        failed = tuple(
            f"{leg}: its job is {view.state}, exit code {view.exit_code}"
            for leg, view in self.jobs.items()
            if view.state is not JobState.COMPLETED
        )
        return failed + self.verdict.faults


def run_demo(keep: bool, json_output: bool) -> int:
    """Run the demonstration; the exit code: 0 when the coupled result is right.

    ``keep``: leave the grid running afterwards, until Ctrl-C. Faults are ``GridError``; Ctrl-C is a
    ``KeyboardInterrupt``, as it is without a demonstration, and SIGTERM and SIGHUP are the same.
    """
    clock, screen = SystemClock(), DemoScreen(is_quiet=json_output)
    screen.begin()
    with (
        interruptible(),
        demo_grid(clock, RandomIds(clock), progress=screen.progress) as grid,
    ):
        outcome = asyncio.run(_show(grid, clock, screen))
        screen.verdict(outcome)
        if json_output:
            print_json(outcome, grid if keep else None)
        if keep:
            _keep(grid, screen)
        else:
            screen.taking_down()
    return 1 if outcome.faults else 0


def print_json(outcome: Outcome, kept: DemoGrid | None) -> None:
    """One object with everything, for scripts."""
    itinerary = outcome.itinerary
    found: dict[str, Any] = {
        "verified": not outcome.faults,
        "faults": list(outcome.faults),
        "itinerary": None if itinerary is None else itinerary_json(itinerary, outcome.jobs),
        "starts": outcome.starts,
        "spread_ms": outcome.spread_ms,
        "budget_error": None if outcome.verdict is None else outcome.verdict.budget_error,
        "results": outcome.results,
        "alone": outcome.alone,
    }
    if kept is not None:
        found["GUR_CONFIG"], found["GUR_STATE"] = str(kept.config), str(kept.state)
    typer.echo(json.dumps(found, indent=2))


async def _show(grid: DemoGrid, clock: SystemClock, screen: DemoScreen) -> Outcome:
    """Everything between the start of the grid and its end."""
    neighbour = open_travel_agent(
        load_grid_config(grid.folder.user_config(NEIGHBOUR)), grid.folder.user_state(NEIGHBOUR)
    )
    agent = open_travel_agent(load_grid_config(grid.config), grid.state)
    try:
        screen.sites(await agent.sites())
        screen.queues(await _fill_queues(neighbour, clock))
        path = lay_out_trip(grid.folder.root / "trip")
        screen.request(path)
        await _quote_three(agent, clock, screen)
        outcome = Outcome()
        outcome.itinerary = await _book(agent, path, clock, screen)
        if outcome.itinerary.state is TripState.BOOKED:
            await _travel(agent, outcome, clock, screen)
            await _bring_home(agent, outcome, grid.folder.root / "home", screen)
        return outcome
    finally:
        await neighbour.close()
        await agent.close()


async def _fill_queues(neighbour: TravelAgent, clock: SystemClock) -> list[JobView]:
    """Submit the background jobs; how they stand once each queue's first one runs."""
    for number, job in enumerate(BACKGROUND):
        spec = JobSpec(
            request_id=f"background-{number}",
            name=job.name,
            account=DEFAULT_ACCOUNT,
            nodes=job.nodes,
            limit_s=job.limit_s,
            argv=("sleep", str(job.runs_s)),
        )
        answer = await neighbour.connection(job.machine).site.submit(spec)
        if isinstance(answer, Decline):
            raise UnavailableError(f"{job.machine} does not take {job.name}: {answer.message}")
    give_up_at = clock.now_precise() + SETTLE_S
    while True:
        machines = [site.machine for site in DEMO_SITES]
        queues = [await neighbour.connection(each).site.jobs() for each in machines]
        is_settled = all(any(job.state is JobState.RUNNING for job in jobs) for jobs in queues)
        if is_settled or clock.now_precise() >= give_up_at:
            return [job for jobs in queues for job in jobs]
        await clock.sleep_until(clock.now_precise() + LOOK_S)


async def _quote_three(agent: TravelAgent, clock: SystemClock, screen: DemoScreen) -> None:
    """Ask all three sites first: the trip over three machines is what the paper showed last."""
    metajob = parse_metajob(
        three_machines_text(), now=clock.now(), zone=agent.config.zone, form="toml"
    ).metajob
    screen.quoting()
    screen.quoted(await agent.quote(metajob, listener=screen.news))


async def _book(
    agent: TravelAgent, path: Path, clock: SystemClock, screen: DemoScreen
) -> Itinerary:
    screen.booking()
    began = clock.now_precise()
    reading = read_metajob_file(path, now=clock.now(), zone=agent.config.zone)
    itinerary = await agent.book(reading.metajob, base=path.parent, listener=screen.news)
    screen.booked(itinerary, clock.now_precise() - began)
    return itinerary


async def _travel(
    agent: TravelAgent, outcome: Outcome, clock: SystemClock, screen: DemoScreen
) -> None:
    """Follow both legs until they are over."""
    booked = outcome.itinerary
    assert booked is not None
    screen.waiting(booked, clock.now_precise())
    marker = LineMarker()
    try:
        async with asyncio.timeout(RUN_S):
            async for item in agent.follow(booked.trip_id):
                if isinstance(item, LegChange):
                    outcome.jobs[item.leg] = item.view
                for line in marker.lines(item):
                    screen.leg_line(line)
    except TimeoutError:
        raise UnavailableError(f"the trip was not over after {RUN_S:.0f} s") from None


async def _bring_home(
    agent: TravelAgent, outcome: Outcome, folder: Path, screen: DemoScreen
) -> None:
    """Fetch what the legs left, and compare it with the run in one process."""
    assert outcome.itinerary is not None
    trip_id = outcome.itinerary.trip_id
    outcome.itinerary = (await agent.status(trip_id)).itinerary
    try:
        fetched = await agent.fetch(trip_id, folder, listener=screen.news)
    except InputError as fault:  # a leg that failed has left no result
        screen.news_text(str(fault))
        return
    for leg, paths in fetched.items():
        for path in paths:
            if path.name == RESULT_FILE and path.stat().st_size <= RESULT_BYTES_MAX:
                outcome.results[leg] = _read_result(path)
    ocean, atmosphere = outcome.results.get(OCEAN, {}), outcome.results.get(ATMOSPHERE, {})
    outcome.verdict = await asyncio.to_thread(verify, ocean, atmosphere, STEPS)
    water = await asyncio.to_thread(run_alone, Ocean(), STEPS, Atmosphere().outgoing())
    air = await asyncio.to_thread(run_alone, Atmosphere(), STEPS, Ocean().outgoing())
    outcome.alone = {OCEAN: water["mean_temperature"], ATMOSPHERE: air["mean_temperature"]}


def _read_result(path: Path) -> dict[str, Any]:
    """A leg's result; whatever is no object of JSON is an empty one, which the verdict refuses."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return result if isinstance(result, dict) else {}


def _keep(grid: DemoGrid, screen: DemoScreen) -> None:
    """Until Ctrl-C, which is here the ordinary end."""
    screen.kept(grid)
    try:
        for name in grid.ended_sites():
            screen.site_ended(name)
    except KeyboardInterrupt:
        screen.taking_down()

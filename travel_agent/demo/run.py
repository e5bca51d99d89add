"""``gur demo``: a metajob on three sites from one command, watched from the first question to the
last digit of its result.

The order of events is here; the grid is ``grid``'s, the trip ``trip``'s, and how it looks
``screen``'s.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.terminal.text import print_json
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.composition import open_travel_agent
from gridtravel.travel_agent.demo.coupled.atmosphere import Atmosphere
from gridtravel.travel_agent.demo.coupled.ocean import Ocean
from gridtravel.travel_agent.demo.coupled.reference import run_alone, verify
from gridtravel.travel_agent.demo.coupled.stepping import RESULT_FILE
from gridtravel.travel_agent.demo.grid import DemoGrid, demo_grid, interruptible
from gridtravel.travel_agent.demo.screen import DemoScreen
from gridtravel.travel_agent.demo.sites import DEMO_SITES, NEIGHBOUR
from gridtravel.travel_agent.demo.trip import (
    ATMOSPHERE,
    BACKGROUND,
    OCEAN,
    STEPS,
    Outcome,
    lay_out_trip,
    three_machines_text,
)
from gridtravel.travel_agent.itinerary_json import itinerary_json
from gridtravel.travel_agent.metajob_file.reader import parse_metajob, read_metajob_file
from gridtravel.travel_agent.output.line_marker import LineMarker
from gridtravel.travel_agent.running.jobs import LegChange
from gridtravel.travel_agent.sites.config import load_grid_config
from gridtravel.travel_agent.sites.destinations import DEFAULT_ACCOUNT

SETTLE_S: Final = 5.0
"""Longest wait for the background jobs to start, so that the queues show what they are."""
LOOK_S: Final = 0.1
RUN_S: Final = 120.0
"""Longest wait for the trip to be over: its window, and what a loaded machine takes."""
RESULT_BYTES_MAX: Final = 1 << 20


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
            _print_outcome(outcome, grid if keep else None)
        if keep:
            _keep(grid, screen)
        else:
            screen.taking_down()
    return 1 if outcome.faults else 0


def _print_outcome(outcome: Outcome, kept: DemoGrid | None) -> None:
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
    print_json(found)


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
    """Submit the background jobs; how they stand then. What is to run is running before the next
    one comes: of jobs that come within one cycle the site's priorities choose, and a demonstration
    needs the same queues each time.
    """
    give_up_at = clock.now_precise() + SETTLE_S
    for number, job in enumerate(BACKGROUND):
        spec = JobSpec(
            request_id=f"background-{number}",
            name=job.name,
            account=DEFAULT_ACCOUNT,
            nodes=job.nodes,
            limit_s=job.limit_s,
            argv=("sleep", str(job.runs_s)),
        )
        site = neighbour.connection(job.machine).site
        answer = await site.submit(spec)
        if isinstance(answer, Decline):
            raise UnavailableError(f"{job.machine} does not take {job.name}: {answer.message}")
        while not job.waits and clock.now_precise() < give_up_at:
            (view,) = await site.jobs(job_ids=[answer.job_id])
            if view.state is JobState.RUNNING:
                break
            await clock.sleep_until(clock.now_precise() + LOOK_S)
    machines = [each.machine for each in DEMO_SITES]
    queues = [await neighbour.connection(each).site.jobs() for each in machines]
    return [job for jobs in queues for job in jobs]


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

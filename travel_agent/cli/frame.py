"""What every command of ``gur`` shares: a travel agent made from the user's files, and answers as
tables or as JSON. How a command ends is ``gridio.cli_frame``'s.

Imports of whatever takes time are inside the functions, so that ``gur --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridio.cli_frame import EXIT_DECLINED, EXIT_OTHER, print_json
from gridtravel.travel_agent.choices import SearchChoice, TransportChoice
from gridtravel.travel_agent.cli.interrupts import take_over

if TYPE_CHECKING:
    from gridtravel.gridcore.trips.metajobs import Metajob
    from gridtravel.travel_agent.agent import TravelAgent
    from gridtravel.travel_agent.news import Listener
    from gridtravel.travel_agent.running.jobs import LegChange, LegOutput

T = TypeVar("T")

UNBOUNDED_WIDTH = 160
"""Columns of a table that goes into a file or a pipe, where nobody says how many there are."""

FileArgument = Annotated[
    Path, typer.Argument(help="Metajob file: INI (as in the paper), TOML or JSON.")
]
TripArgument = Annotated[
    str, typer.Argument(help="Id of a trip, the beginning of one, or its name.")
]
TransportOption = Annotated[
    TransportChoice, typer.Option(help="auto: gRPC, and SSH where that is shut.")
]

SearchOption = Annotated[
    SearchChoice | None,
    typer.Option(help="How to look for a start (docs/searches.md); default: as sites.toml says."),
]


def run_command(
    work: Callable[[TravelAgent], Awaitable[T]],
    as_json: bool,
    transport: TransportChoice,
    search: SearchChoice | None = None,
) -> T:
    """Run one command with a travel agent made from the user's configuration."""
    import asyncio

    from gridtravel.travel_agent.cli.prompter import at_terminal
    from gridtravel.travel_agent.composition import open_travel_agent

    def tell(text: str) -> None:
        if not as_json:
            typer.echo(f"note: {text}", err=True)

    async def run() -> T:
        agent = open_travel_agent(
            transport=transport, search=search, tell=tell, prompter=at_terminal()
        )
        try:
            return await work(agent)
        finally:
            await agent.close()

    take_over()
    return asyncio.run(run())


def read_metajob(agent: TravelAgent, file: Path) -> Metajob:
    """The metajob in ``file``, with its times in the user's zone; notes go to standard error."""
    from gridtravel.gridio.system.clock import SystemClock
    from gridtravel.travel_agent.metajob_file.reader import read_metajob_file

    reading = read_metajob_file(file, now=SystemClock().now(), zone=agent.config.zone)
    for note in reading.notes:
        typer.echo(f"note: {note}", err=True)
    return reading.metajob


def listener_for(as_json: bool) -> Listener:
    """Negotiation goes to standard error, so that standard output stays the answer alone."""
    from gridtravel.gridio.system.clock import SystemClock
    from gridtravel.travel_agent.news import deaf
    from gridtravel.travel_agent.output.negotiation import NegotiationLines

    return deaf if as_json else NegotiationLines(sys.stderr, SystemClock())


def show(
    agent: TravelAgent, itinerary: Itinerary, as_object: dict[str, Any], as_json: bool
) -> None:
    """Print a trip: its table, or why it was refused; with ``as_json`` the object alone."""
    from gridtravel.travel_agent.output.rendering import (
        decline_lines,
        input_lines,
        itinerary_table,
        keeper_lines,
        print_table,
        zone_lines,
    )

    if as_json:
        print_json(as_object)
    elif itinerary.decline is not None:
        for line in decline_lines(itinerary.decline, agent.config.zone):
            typer.echo(line)
    elif not itinerary.legs:
        typer.echo(f"{itinerary.name}: {itinerary.state}")
        if itinerary.state is TripState.PLANNED:
            typer.echo(
                f"  it was not decided; `gur resume {itinerary.trip_id}` undoes what was begun"
            )
        typer.echo(f"trip {itinerary.trip_id}")
    else:
        print_table(console(), itinerary_table(itinerary, agent.config.zone))
        zones = zone_lines(itinerary, agent.config.zone)
        for line in (*zones, *input_lines(itinerary), *keeper_lines(itinerary)):
            typer.echo(line)
        typer.echo(f"trip {itinerary.trip_id}")


async def follow(agent: TravelAgent, trip: str, as_json: bool) -> None:
    """Lines of all legs, marked by leg; states in between. JSON: one object a line. At a terminal
    there is a board with the state of every leg below them. Ends the command with the exit code of
    a failure when a leg failed.
    """
    import asyncio

    from gridtravel.gridcore.jobs.job import JobState
    from gridtravel.travel_agent.running.jobs import LegChange

    has_failed = False
    try:
        async for item in _shown(agent, trip, as_json):
            if isinstance(item, LegChange):
                has_failed |= item.view.state in (JobState.FAILED, JobState.TIMED_OUT)
    except asyncio.CancelledError:
        typer.echo(f"the trip goes on; `gur watch {trip}` shows it again", err=True)
        raise
    if not as_json:
        for note in (await agent.status(trip)).notes:
            typer.echo(note)
    if has_failed:
        raise typer.Exit(EXIT_OTHER)


async def _shown(
    agent: TravelAgent, trip: str, as_json: bool
) -> AsyncIterator[LegOutput | LegChange]:
    """What comes of the legs, each after it was shown."""
    import json

    from gridtravel.travel_agent.output.line_marker import LineMarker

    items = agent.follow(trip, listener=listener_for(as_json))
    terminal = console()
    if terminal.is_terminal and not terminal.is_dumb_terminal and not as_json:
        from gridtravel.travel_agent.output.live_view import LiveView

        with LiveView(terminal) as view:
            async for item in items:
                view.show(item)
                yield item
        return
    marker = LineMarker()
    async for item in items:
        for line in marker.lines(item):
            typer.echo(json.dumps(line) if as_json else f"{line['leg']:>16} | {line['text']}")
        yield item


def finish(itinerary: Itinerary) -> None:
    """End the command with the exit code of a refusal, if it was one."""
    if itinerary.state is TripState.DECLINED:
        raise typer.Exit(EXIT_DECLINED)


def console() -> Any:
    """Where tables go."""
    from rich.console import Console

    is_bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if is_bounded else UNBOUNDED_WIDTH)

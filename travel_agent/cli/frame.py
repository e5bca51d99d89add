"""What every command of ``gur`` shares: a travel agent made from the user's files, and answers as
tables or as JSON. How a command ends is ``gridio.cli_frame``'s.

Imports of whatever takes time are inside the functions, so that ``gur --help`` answers at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridio.cli_frame import EXIT_DECLINED, EXIT_OTHER
from gridtravel.gridio.terminal.text import error_stream, print_json, say, tell
from gridtravel.travel_agent.choices import SearchChoice, TransportChoice
from gridtravel.travel_agent.cli.interrupts import take_over

if TYPE_CHECKING:
    from gridtravel.gridcore.trips.metajobs import Metajob
    from gridtravel.travel_agent.agent import TravelAgent
    from gridtravel.travel_agent.news import Listener
    from gridtravel.travel_agent.running.jobs import LegChange, LegOutput

T = TypeVar("T")

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

    def note(text: str) -> None:
        if not as_json:
            tell(f"note: {text}")

    async def run() -> T:
        agent = open_travel_agent(
            transport=transport, search=search, tell=note, prompter=at_terminal()
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
        tell(f"note: {note}")
    return reading.metajob


def listener_for(as_json: bool) -> Listener:
    """Negotiation goes to standard error, so that standard output stays the answer alone."""
    from gridtravel.gridio.system.clock import SystemClock
    from gridtravel.travel_agent.news import deaf
    from gridtravel.travel_agent.output.negotiation import NegotiationLines

    return deaf if as_json else NegotiationLines(error_stream(), SystemClock())


def show(
    agent: TravelAgent, itinerary: Itinerary, as_object: dict[str, Any], as_json: bool
) -> None:
    """Print a trip: its table, or why it was refused; with ``as_json`` the object alone."""
    from gridtravel.travel_agent.output.rendering import (
        decline_lines,
        input_lines,
        itinerary_table,
        keeper_lines,
        price_lines,
        print_table,
        zone_lines,
    )

    if as_json:
        print_json(as_object)
    elif itinerary.decline is not None:
        for line in decline_lines(itinerary.decline, agent.config.zone):
            say(line)
    elif not itinerary.legs:
        say(f"{itinerary.name}: {itinerary.state}")
        if itinerary.state is TripState.PLANNED:
            say(f"  it was not decided; `gur resume {itinerary.trip_id}` undoes what was begun")
        say(f"trip {itinerary.trip_id}")
    else:
        print_table(itinerary_table(itinerary, agent.config.zone))
        zone = agent.config.zone
        notes = (*price_lines(itinerary, zone), *input_lines(itinerary), *keeper_lines(itinerary))
        for line in (*zone_lines(itinerary, zone), *notes):
            say(line)
        say(f"trip {itinerary.trip_id}")


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
        tell(f"the trip goes on; `gur watch {trip}` shows it again")
        raise
    if not as_json:
        for note in (await agent.status(trip)).notes:
            say(note)
    if has_failed:
        raise typer.Exit(EXIT_OTHER)


async def _shown(
    agent: TravelAgent, trip: str, as_json: bool
) -> AsyncIterator[LegOutput | LegChange]:
    """What comes of the legs, each after it was shown."""
    from gridtravel.travel_agent.output.line_marker import LineMarker
    from gridtravel.travel_agent.output.rendering import open_console

    items = agent.follow(trip, listener=listener_for(as_json))
    terminal = open_console()
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
            if as_json:
                print_json(line, indent=None)
            else:
                say(f"{line['leg']:>16} | {line['text']}")
        yield item


def finish(itinerary: Itinerary) -> None:
    """End the command with the exit code of a refusal, if it was one."""
    if itinerary.state is TripState.DECLINED:
        raise typer.Exit(EXIT_DECLINED)

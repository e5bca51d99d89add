"""The commands that change a booked trip: ``gur amend`` and ``gur heal``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gridtravel.gridio.cli_frame import EXIT_DECLINED, JsonOption
from gridtravel.gridio.terminal.text import print_json, say
from gridtravel.travel_agent.choices import TransportChoice
from gridtravel.travel_agent.cli.frame import (
    TransportOption,
    TripArgument,
    listener_for,
    read_metajob,
    run_command,
    show,
)

if TYPE_CHECKING:
    from gridtravel.travel_agent.agent import TravelAgent
    from gridtravel.travel_agent.booking.amend import Changed, TripChange
    from gridtravel.travel_agent.booking.heal import Healed

LOOK_EVERY_S: Final = 60


def amend(
    trip: TripArgument,
    earliest_start: Annotated[str, typer.Option(help="Not before this time.")] = "",
    latest_end: Annotated[str, typer.Option(help="Not behind this time.")] = "",
    duration: Annotated[str, typer.Option(help="So long, for example 90m.")] = "",
    nodes: Annotated[int | None, typer.Option(min=1, help="So many nodes in total.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Another metajob altogether.")] = None,
    as_json: JsonOption = False,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """Change a booked trip as a whole: every leg, or none. The old is kept until the new is held;
    without another window it starts when it did, if that can be had.
    """

    async def go(agent: TravelAgent) -> None:
        change = _change(agent, earliest_start, latest_end, duration, nodes, file)
        base = Path() if file is None else file.resolve().parent
        changed = await agent.amend(trip, change, base=base, listener=listener_for(as_json))
        show_changed(agent, changed, as_json)

    run_command(go, as_json, transport)


def heal(
    trip: TripArgument,
    patience: Annotated[
        str, typer.Option(help="How long a site may be silent before it counts as lost.")
    ] = "2m",
    keep: Annotated[
        bool, typer.Option("--keep", help="Look again every minute until the trip starts.")
    ] = False,
    as_json: JsonOption = False,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """Look whether every leg can be kept; mend the trip by its healing rules where one cannot."""

    async def go(agent: TravelAgent) -> None:
        from gridtravel.gridcore.timing.durations import parse_duration
        from gridtravel.gridio.system.clock import SystemClock

        clock, patience_s = SystemClock(), parse_duration(patience)
        while True:
            healed = await agent.heal(trip, patience_s=patience_s, listener=listener_for(as_json))
            start, now = healed.itinerary.start, clock.now()
            is_over = healed.itinerary.state.is_over or start is None
            if not keep or is_over or (start or now) <= now + LOOK_EVERY_S:
                break
            await clock.sleep_until(now + LOOK_EVERY_S)
        show_healed(agent, healed, as_json)

    run_command(go, as_json, transport)


def show_healed(agent: TravelAgent, healed: Healed, as_json: bool) -> None:
    """What was lost, which rule helped, and the trip as it is now."""
    from gridtravel.travel_agent.itinerary_json import itinerary_json

    rule = None if healed.rule is None else healed.rule.value
    as_object = {
        **itinerary_json(healed.itinerary),
        "healed_by": rule,
        "lost": {each.leg.name: each.why for each in healed.losses},
        "refused": {each.value: why for each, why in healed.refusals.items()},
    }
    if not as_json:
        for loss in healed.losses:
            say(f"lost: {loss.leg.name}: {loss.why}")
        for refused, why in healed.refusals.items():
            say(f"{refused.value} does not help: {why}")
        if healed.rule is not None:
            say(f"healed: {rule}")
        elif healed.losses and not healed.itinerary.state.is_over:
            say("nothing helped; `gur cancel` frees what is left, `gur heal` tries again")
    show(agent, healed.itinerary, as_object, as_json)
    if not healed.is_whole:
        raise typer.Exit(EXIT_DECLINED)


def show_changed(agent: TravelAgent, changed: Changed, as_json: bool) -> None:
    """The trip as it is now; when it was not changed, why, and what would work."""
    from gridtravel.travel_agent.itinerary_json import decline_json, itinerary_json
    from gridtravel.travel_agent.output.rendering import decline_lines

    as_object = itinerary_json(changed.itinerary)
    if changed.decline is None:
        show(agent, changed.itinerary, as_object, as_json)
        return
    if as_json:
        print_json({**as_object, "decline": decline_json(changed.decline)})
    else:
        for line in decline_lines(changed.decline, agent.config.zone):
            say(line)
        say(f"trip {changed.itinerary.trip_id} stays as it was")
    raise typer.Exit(EXIT_DECLINED)


def _change(
    agent: TravelAgent,
    earliest: str,
    latest: str,
    duration: str,
    nodes: int | None,
    file: Path | None,
) -> TripChange:
    from gridtravel.gridcore.errors import InputError
    from gridtravel.gridcore.timing.durations import parse_duration
    from gridtravel.gridcore.timing.timetext import parse_instant
    from gridtravel.gridio.system.clock import SystemClock
    from gridtravel.travel_agent.booking.amend import TripChange

    now, zone = SystemClock().now(), agent.config.zone
    change = TripChange(
        earliest_start=parse_instant(earliest, now=now, zone=zone) if earliest else None,
        latest_end=parse_instant(latest, now=now, zone=zone) if latest else None,
        duration_s=parse_duration(duration) if duration else None,
        nodes=nodes,
        metajob=None if file is None else read_metajob(agent, file),
    )
    if change == TripChange():
        raise InputError(
            "nothing is to be changed",
            hint="give --earliest-start, --latest-end, --duration, --nodes or --file",
        )
    return change

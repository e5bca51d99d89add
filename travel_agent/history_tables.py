"""What a laptop remembers of its trips, as tables and as JSON."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from rich.table import Table
from rich.text import Text

from gridcore.timetext import format_in_zone, format_utc
from travel_agent.histories import TripHistory
from travel_agent.rendering import itinerary_json


def histories_table(trips: list[TripHistory], zone: ZoneInfo) -> Table:
    """One row a trip, the oldest first; fits 80 columns."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("asked for", "name", "state", "legs", "trip"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "asked for")
    for each in trips:
        itinerary = each.itinerary
        table.add_row(
            format_in_zone(each.opened_at, zone)[:19],
            Text(itinerary.name),
            itinerary.state.value,
            ", ".join(f"{leg.nodes} at {leg.machine}" for leg in itinerary.legs),
            itinerary.trip_id,
        )
    return table


def history_table(found: TripHistory, zone: ZoneInfo) -> Table:
    """One row a step."""
    itinerary = found.itinerary
    table = Table(
        title=f"{itinerary.name}: {itinerary.state}  {itinerary.trip_id}",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("when", no_wrap=True)
    table.add_column("what", overflow="fold")
    for step in found.steps:
        table.add_row(format_in_zone(step.at, zone)[:19], Text(step.text))
    return table


def history_json(found: TripHistory) -> dict[str, Any]:
    """One trip for scripts."""
    return {
        **itinerary_json(found.itinerary),
        "asked_at": format_utc(found.opened_at),
        "message": found.message or None,
        "steps": [{"at": format_utc(each.at), "text": each.text} for each in found.steps],
    }

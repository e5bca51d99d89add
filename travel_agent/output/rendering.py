"""One place that turns values into what people and scripts read: tables, lines and JSON objects.

The JSON objects are a promise to scripts: keys are added, never renamed or removed. Instants are
ISO 8601 in UTC; prices are integer millicredits. That of a trip alone is ``itinerary_json``'s.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_in_zone, format_utc
from gridtravel.gridcore.timing.zones import find_zone
from gridtravel.gridcore.trips.itineraries import InputWay, Itinerary
from gridtravel.gridio.terminal.text import is_terminal
from gridtravel.travel_agent.itinerary_json import itinerary_json

UNBOUNDED_WIDTH: Final = 160
"""Columns of a table that goes into a file or a pipe, where nobody says how many there are."""

if TYPE_CHECKING:
    from rich.table import Table

    from gridtravel.gridio.terminal.console import TerminalConsole
    from gridtravel.travel_agent.booking.resume import Resumed
    from gridtravel.travel_agent.news import News
    from gridtravel.travel_agent.running.history import TripHistory
    from gridtravel.travel_agent.running.reports import SiteReport, TripReport


def report_json(report: TripReport) -> dict[str, Any]:
    """A trip with what its sites say now."""
    spread = report.spread
    return {
        **itinerary_json(report.itinerary, report.jobs),
        "spread_s": None if spread is None else round(spread.spread_s, 6),
        "spread_uncertainty_s": None if spread is None else round(spread.uncertainty_s, 6),
        "notes": list(report.notes),
    }


def resumed_json(resumed: Resumed) -> dict[str, Any]:
    """What ``gur resume`` found and did."""
    return {
        **itinerary_json(resumed.itinerary),
        "found": resumed.found,
        "done": resumed.done,
    }


def history_json(found: TripHistory) -> dict[str, Any]:
    """What this laptop remembers of one trip."""
    return {
        **itinerary_json(found.itinerary),
        "asked_at": None if found.opened_at is None else format_utc(found.opened_at),
        "message": found.message or None,
        "steps": [{"at": format_utc(each.at), "text": each.text} for each in found.steps],
    }


def site_json(report: SiteReport) -> dict[str, Any]:
    """One machine of the user's list."""
    found: dict[str, Any] = {
        "machine": report.machine.machine,
        "site": report.machine.site,
        "endpoint": report.machine.endpoint or None,
        "ssh": report.machine.ssh or None,
        "transport": report.transport or None,
        "reachable": report.description is not None,
        "problem": report.problem or None,
    }
    description = report.description
    if description is not None:
        found |= {
            "nodes": sum(each.nodes for each in description.classes),
            "login": description.login or None,
            "time_zone": description.time_zone,
            "price_per_node_hour": description.millicredits_per_node_hour,
            "software": description.software,
        }
        if description.is_manager:
            found["trade"] = [
                {
                    "member": each.member,
                    "lent_node_s": each.lent_node_s,
                    "borrowed_node_s": each.borrowed_node_s,
                    "local_node_s": each.local_node_s,
                    "balance_node_s": each.balance_node_s,
                }
                for each in description.trade
            ]
    if report.skew is not None:
        found["skew_s"] = round(report.skew.skew_s, 6)
        found["skew_uncertainty_s"] = round(report.skew.uncertainty_s, 6)
    return found


def itinerary_table(itinerary: Itinerary, zone: ZoneInfo) -> Table:
    """The legs of a trip, in the user's zone; fits 80 columns."""
    from rich.table import Table

    day = "" if itinerary.start is None else format_in_zone(itinerary.start, zone)
    table = Table(
        title=f"{itinerary.name}: {itinerary.state}  {day}",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for heading in ("machine", "nodes", "start", "end", "price", "reservation", "by"):
        table.add_column(
            heading,
            justify="right" if heading in ("nodes", "price") else "left",
            overflow="fold",
            no_wrap=heading in ("nodes", "start", "end", "price"),
        )
    for leg in itinerary.legs:
        table.add_row(
            leg.machine if leg.name == leg.machine else f"{leg.name} at {leg.machine}",
            str(leg.nodes),
            _wall_clock(leg.start, zone),
            _wall_clock(leg.end, zone),
            credits_text(leg.price_millicredits),
            leg.reservation_id or "-",
            leg.transport.value,
        )
    return table


def input_lines(itinerary: Itinerary) -> list[str]:
    """Which stages need this laptop between them."""
    return [
        f"  the input of {leg.name} is brought by this laptop: keep `gur watch {itinerary.trip_id}`"
        " running, or run `gur resume` when the stage before is over"
        for leg in itinerary.legs
        if leg.input_by is InputWay.LAPTOP
    ]


def price_lines(itinerary: Itinerary, zone: ZoneInfo) -> list[str]:
    """Until when the sites keep to the prices of what is only planned."""
    until = [leg.price_holds_until for leg in itinerary.legs]
    known = [each for each in until if each is not None]
    if not known:
        return []
    line = f"  prices hold until {format_in_zone(min(known), zone)}"
    open_legs = [leg.name for leg in itinerary.legs if leg.price_holds_until is None]
    if open_legs:
        line += f", but that of {', '.join(open_legs)} may change"
    return [line]


def keeper_lines(itinerary: Itinerary) -> list[str]:
    """Who keeps the outcome of a trip to several sites: whoever has to answer for it to be decided,
    and could tear it.
    """
    sites = {leg.site for leg in itinerary.legs}
    if itinerary.decline is not None or len(sites) < 2:
        return []
    if not itinerary.kept_by:
        return ["  kept by this laptop's log alone: none of its sites can be asked by the others"]
    return [f"  kept by {', '.join(itinerary.kept_by)}"]


def zone_lines(itinerary: Itinerary, zone: ZoneInfo) -> list[str]:
    """When the legs start by the clocks of their sites, where those differ from the user's."""
    return [
        f"  {leg.name} starts {format_in_zone(leg.start, find_zone(leg.zone))}"
        for leg in itinerary.legs
        if leg.zone and leg.zone != (zone.key or "UTC")
    ]


def spread_line(report: TripReport) -> str:
    """How far the actual starts lie apart; empty as long as that is not known."""
    return "" if report.spread is None else f"  {report.spread.words}"


def _wall_clock(instant: Instant, zone: ZoneInfo) -> str:
    """Month, day and time of day; the year and the zone stand in the title."""
    year_first = format_in_zone(instant, zone)
    return year_first[5:19]


def sites_table(reports: list[SiteReport]) -> Table:
    """The user's machines."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("machine", "nodes", "you are", "node hour", "zone", "clock", "endpoint"):
        table.add_column(heading, overflow="fold")
    for report in reports:
        description = report.description
        if description is None:
            ways = " or ".join(report.machine.ways)
            table.add_row(report.machine.machine, "-", "", "", "", "", ways)
            continue
        skew = "" if report.skew is None else f"{report.skew.skew_s * 1000:+.1f} ms"
        table.add_row(
            report.machine.machine,
            str(sum(each.nodes for each in description.classes)),
            description.login or "nobody",
            credits_text(description.millicredits_per_node_hour),
            description.time_zone,
            skew,
            report.reached_by,
        )
    return table


def trade_table(reports: list[SiteReport]) -> Table:
    """The balance of trade that each manager keeps, in node-seconds."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("manager", overflow="fold")
    table.add_column("member", overflow="fold")
    for heading in ("lent", "borrowed", "own work", "balance"):
        table.add_column(f"{heading} (node s)", justify="right")
    for report in reports:
        for each in report.description.trade if report.description is not None else ():
            table.add_row(
                report.machine.machine,
                each.member,
                str(each.lent_node_s),
                str(each.borrowed_node_s),
                str(each.local_node_s),
                f"{each.balance_node_s:+d}",
            )
    return table


def histories_table(trips: list[TripHistory], zone: ZoneInfo) -> Table:
    """One row a trip that this laptop remembers, the oldest first; fits 80 columns."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("asked for", "name", "state", "legs", "trip"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "asked for")
    for each in trips:
        itinerary = each.itinerary
        table.add_row(
            "-" if each.opened_at is None else format_in_zone(each.opened_at, zone)[:19],
            itinerary.name,
            itinerary.state.value,
            ", ".join(f"{leg.nodes} at {leg.machine}" for leg in itinerary.legs),
            itinerary.trip_id,
        )
    return table


def history_table(found: TripHistory, zone: ZoneInfo) -> Table:
    """One row a step of a trip."""
    from rich.table import Table

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
        table.add_row(format_in_zone(step.at, zone)[:19], step.text)
    return table


def decline_lines(decline: Decline, zone: ZoneInfo) -> list[str]:
    """A refusal for people: why, and what would work."""
    lines = [f"declined: {decline.message}"]
    if decline.earliest is not None:
        lines.append(f"  it would work from {format_in_zone(decline.earliest, zone)}")
    if decline.nodes_now:
        lines.append(f"  within the window there is room for {decline.nodes_now} nodes")
    has_fewer = decline.rule is DeclineRule.NO_ROOM and decline.nodes_now
    if decline.earliest is not None or has_fewer:
        lines.append("  take the offer with: gur book FILE --accept-alternative")
    return lines


def news_line(news: News) -> str:
    """One step of a negotiation."""
    place = f" {news.place}" if news.place else ""
    text = f": {news.text}" if news.text else ""
    return f"{news.step.value:>11}{place}{text}"


def credits_text(millicredits: int) -> str:
    """A price for people."""
    return f"{millicredits / 1000:.3f}"


def print_table(table: Table, console: TerminalConsole | None = None) -> None:
    """Print ``table``; where it does not fit, each row as a stanza, so that no word is broken.
    ``console``: default: the answer's.
    """
    from rich.measure import Measurement

    console = console or open_console()
    unbounded = console.options.update(width=max(console.width, 10_000))
    if Measurement.get(console, unbounded, table).maximum <= console.width:
        console.print(table)
    else:
        for line in stanzas(table):
            console.print(line, soft_wrap=True)


def open_console() -> TerminalConsole:
    """Where tables go."""
    from gridtravel.gridio.terminal.console import TerminalConsole

    is_bounded = is_terminal() or "COLUMNS" in os.environ
    return TerminalConsole(width=None if is_bounded else UNBOUNDED_WIDTH)


def stanzas(table: Table) -> list[str]:
    """The first cell of each row, and below it every other one with its heading."""
    headings = [str(column.header) for column in table.columns]
    width = max((len(each) for each in headings[1:]), default=0)
    rows = list(
        zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    )
    lines = [str(table.title)] if table.title else []
    for first, *rest in rows:
        lines.append(f"{headings[0]} {first}".strip())
        lines += [
            f"  {heading:<{width}}  {cell}"
            for heading, cell in zip(headings[1:], rest, strict=True)
            if cell
        ]
    return lines

"""What the demonstration looks like to whoever watches it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from rich.table import Table

from gridtravel.gridcore.jobs.job import JobView
from gridtravel.gridcore.timing.timetext import format_in_zone
from gridtravel.gridcore.timing.zones import find_zone
from gridtravel.gridcore.trips.itineraries import Itinerary
from gridtravel.gridio.terminal.console import TerminalConsole
from gridtravel.travel_agent.demo.trip import METAJOB_FILE, Outcome
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.output.rendering import (
    credits_text,
    decline_lines,
    itinerary_table,
    news_line,
    sites_table,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gridtravel.travel_agent.demo.grid import DemoGrid
    from gridtravel.travel_agent.running.reports import SiteReport

WIDTH_OF_A_FILE: Final = 110
"""Columns when the output is no terminal."""
COLOURS: Final = ("cyan", "yellow", "magenta", "green")
"""Of the legs, in order."""
USER_ZONE: Final = find_zone("America/Los_Angeles")


class DemoScreen:
    """Prints one step after the other; says nothing at all when quiet."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._console = TerminalConsole(is_quiet=is_quiet)
        if not self._console.is_terminal:
            self._console.width = WIDTH_OF_A_FILE
        self._colours: dict[str, str] = {}
        self._zones: dict[str, ZoneInfo] = {}
        """Where each machine stands."""

    def begin(self) -> None:
        """Say what is about to be seen."""
        self._line("GUR: three independent sites, one booking, two programs that need each other")
        self._line("It takes less than half a minute and leaves nothing behind; Ctrl-C ends it.")

    def progress(self, what: str) -> None:
        """Something is being started."""
        self._line(f"  starting {what} ...", "dim")

    def sites(self, reports: list[SiteReport]) -> None:
        """The sites, as ``gur sites`` shows them."""
        self._heading("Three sites, each its own master")
        self._console.print(sites_table(reports))
        for report in reports:
            if report.description is not None:
                self._zones[report.machine.machine] = find_zone(report.description.time_zone)

    def queues(self, jobs: Sequence[JobView]) -> None:
        """What the sites are busy with."""
        table = Table(title="in their queues already", title_justify="left", box=None)
        for heading in ("site", "job", "owner", "nodes", "limit", "state"):
            table.add_column(heading, justify="right" if heading in ("nodes", "limit") else "left")
        for job in jobs:
            spec = job.spec
            limit = f"{spec.limit_s} s"
            table.add_row(job.site, spec.name, job.owner, str(spec.nodes), limit, job.state.value)
        self._console.print(table)

    def request(self, path: Path) -> None:
        """The metajob as its user wrote it."""
        self._heading(f"The request: {path.name}")
        for line in path.read_text(encoding="utf-8").splitlines():
            self._line(f"  {line}", "dim" if line.startswith("#") else "")

    def quoting(self) -> None:
        """All three sites are about to be asked."""
        self._heading("First a quote over all three machines (gur quote)")

    def quoted(self, itinerary: Itinerary) -> None:
        """What all three would be: an answer, and nothing held."""
        if itinerary.decline is not None:
            self._lines(decline_lines(itinerary.decline, USER_ZONE))
            return
        nodes = " + ".join(f"{leg.nodes} at {leg.machine}" for leg in itinerary.legs)
        start = "" if itinerary.start is None else format_in_zone(itinerary.start, USER_ZONE)
        price = credits_text(itinerary.price_millicredits)
        self._line(f"  {nodes}")
        self._line(f"  would start {start} and cost {price} credits. Two machines will do.")

    def booking(self) -> None:
        """The booking begins."""
        self._heading("The two preferred machines are booked (gur book)")

    def news(self, news: News) -> None:
        """One step of a negotiation."""
        if news.step is not Step.STAGING:
            self.news_text(news_line(news))

    def news_text(self, text: str) -> None:
        """One line of a negotiation."""
        self._line(f"  {text}")

    def booked(self, itinerary: Itinerary, duration_s: float) -> None:
        """The itinerary, or why there is none."""
        if itinerary.decline is not None:
            self._lines(decline_lines(itinerary.decline, USER_ZONE))
            return
        self._line(f"  booked whole in {duration_s * 1000:.0f} ms")
        self._console.print(itinerary_table(itinerary, USER_ZONE))

    def waiting(self, itinerary: Itinerary, now: float) -> None:
        """Nothing happens until the start; say how long, and when that is at each site."""
        self._heading("The trip")
        for number, leg in enumerate(itinerary.legs):
            self._colours[leg.name] = COLOURS[number % len(COLOURS)]
            zone = self._zones.get(leg.name, USER_ZONE)
            self._line(f"  {leg.name:>13} starts {format_in_zone(leg.start, zone)}")
        if itinerary.start is not None and itinerary.start > now:
            self._line(f"  that is in {itinerary.start - now:.1f} s ...", "dim")

    def leg_line(self, line: Mapping[str, str]) -> None:
        """Something that a leg's program or its site said."""
        leg, style = line["leg"], "dim" if line["stream"] == "state" else ""
        mark = self._console.render_str(f"  {leg:>13} | ", style=self._colours.get(leg, ""))
        style = "red" if line["stream"] == "stderr" else style
        self._print(mark.append_text(self._console.render_str(line["text"], style=style)))

    def verdict(self, outcome: Outcome) -> None:
        """What came of it."""
        self._heading("The result")
        itinerary, spread_ms = outcome.itinerary, outcome.spread_ms
        for leg, start in outcome.starts.items():
            promised = None if itinerary is None else itinerary.start
            late = "" if promised is None else f", {(start - promised) * 1000:.1f} ms after"
            self._line(f"  {leg:>13} really started at {start:.4f}{late} the promised second")
        if spread_ms is not None:
            self._line(f"  {'spread':>13} {spread_ms:.2f} ms between the two starts")
        for leg, result in outcome.results.items():
            self._line(
                f"  {leg:>13} {result.get('model')} at {_celsius(result.get('mean_temperature'))}"
                f" after {result.get('exchanges')} exchanges;"
                f" alone it would be {_celsius(outcome.alone.get(leg))}"
            )
        if outcome.verdict is not None:
            error = outcome.verdict.budget_error
            self._line(f"  {'heat':>13} lost or gained by the coupled world: {error:.1e} of it all")
        if outcome.faults:
            self._lines([f"WRONG: {fault}" for fault in outcome.faults], "bold red")
        else:
            self._line(
                "  RIGHT: equal, to the last bit, to both models run in one process.", "bold green"
            )

    def kept(self, grid: DemoGrid) -> None:
        """How to use the grid from another terminal."""
        self._heading("The grid goes on until Ctrl-C. In another terminal:")
        lines = [f"export GUR_CONFIG={grid.config}", f"export GUR_STATE={grid.state}"]
        if shutil.which("gur") is None:
            lines.insert(0, f'export PATH="{Path(sys.executable).parent}:$PATH"')
        request = grid.folder.root / "trip" / METAJOB_FILE
        for line in (*lines, "gur sites", f"gur quote {request}"):
            self._line(f"  {line}")
        self._line("docs/first-trip.md goes on from here.")

    def site_ended(self, name: str) -> None:
        """A daemon that should be running is not."""
        self._line(f"the site {name} has ended", "bold red")

    def taking_down(self) -> None:
        """The last line."""
        self._line("Taking the grid down ...", "dim")

    # -- inside ------------------------------------------------------------------------------------

    def _heading(self, text: str) -> None:
        self._line("")
        self._line(text, "bold")

    def _lines(self, lines: Sequence[str], style: str = "") -> None:
        for line in lines:
            self._line(f"  {line}", style)

    def _line(self, text: str, style: str = "") -> None:
        self._print(self._console.render_str(text, style=style))

    def _print(self, text: RenderableType) -> None:
        # The terminal breaks long lines, not we: what is copied from it is whole.
        self._console.print(text, soft_wrap=True)
        self._console.file.flush()


def _celsius(value: object) -> str:
    return f"{value:.12f} °C" if isinstance(value, float) else "unknown"

"""All legs of a trip at a glance, their output scrolling by above: ``gur watch`` at a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table

from gridtravel.travel_agent.output.line_marker import LineMarker
from gridtravel.travel_agent.running.jobs import LegChange, LegOutput

if TYPE_CHECKING:
    from gridtravel.gridio.terminal.console import TerminalConsole

NOTES_WIDTH = 40


class LegBoard:
    """The last word of every leg. Changed only by ``take``."""

    def __init__(self) -> None:
        self._marker = LineMarker()
        self._states: dict[str, str] = {}
        self._lines: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def take(self, item: LegOutput | LegChange) -> list[dict[str, str]]:
        """Take a piece of output or a change into account; the whole lines that it completes."""
        if isinstance(item, LegChange):
            self._states[item.leg] = item.view.state.value
        lines = self._marker.lines(item)
        for line in lines:
            if line["stream"] != "state":
                self._lines[line["leg"]] = line["text"]
                self._counts[line["leg"]] = self._counts.get(line["leg"], 0) + 1
        return lines

    def table(self) -> Table:
        """One row a leg; fits 60 columns, cut rather than wrapped."""
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("leg", "state", "lines", "last line"):
            table.add_column(heading, no_wrap=True, overflow="ellipsis", justify="left")
        for leg in sorted({*self._states, *self._lines}):
            table.add_row(
                leg,
                self._states.get(leg, ""),
                str(self._counts.get(leg, 0)),
                self._lines.get(leg, "")[:NOTES_WIDTH],
            )
        return table


class LiveView:
    """The board below, lines above it. For a terminal that can move its cursor."""

    def __init__(self, console: TerminalConsole) -> None:
        self._board = LegBoard()
        self._live = Live(self._board.table(), console=console, refresh_per_second=4)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, item: LegOutput | LegChange) -> None:
        """Print what is new and bring the board up to date."""
        for line in self._board.take(item):
            self._live.console.print(f"{line['leg']:>16} | {line['text']}", soft_wrap=True)
        self._live.update(self._board.table())

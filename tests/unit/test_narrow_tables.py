"""What a table becomes on a screen that is too narrow for it."""

from __future__ import annotations

from io import StringIO

from rich.table import Table

from gridtravel.gridio.terminal.console import TerminalConsole
from gridtravel.travel_agent.output.rendering import print_table


def a_table() -> Table:
    """As wide as the itineraries of real sites."""
    table = Table(title="ocean: BOOKED", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("machine", "nodes", "start", "reservation"):
        table.add_column(heading)
    table.add_row("datastar655", "10", "11-09 07:00:00", "datastar.sites.example.1234")
    table.add_row("purduesp", "1", "11-09 07:00:00", "")
    return table


def printed(width: int) -> list[str]:
    """What comes out at this width."""
    out = StringIO()
    print_table(a_table(), TerminalConsole(file=out, width=width))
    return out.getvalue().splitlines()


def test_a_table_that_fits_stays_a_table() -> None:
    """One line a row."""
    lines = printed(80)
    assert len(lines) == 4
    assert "datastar655  10" in lines[2]


def test_a_table_that_does_not_fit_becomes_stanzas() -> None:
    """No word is broken: names can be copied from the screen; empty cells take no line."""
    assert printed(50) == [
        "ocean: BOOKED",
        "machine datastar655",
        "  nodes        10",
        "  start        11-09 07:00:00",
        "  reservation  datastar.sites.example.1234",
        "machine purduesp",
        "  nodes        1",
        "  start        11-09 07:00:00",
    ]

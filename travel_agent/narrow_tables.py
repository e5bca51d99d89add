"""Tables on screens that are too narrow for them: each row becomes a stanza instead of a column of
broken words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_table(console: Console, table: Table) -> None:
    """Print ``table``, or its rows one below the other where it does not fit."""
    from rich.measure import Measurement

    options = console.options
    unbounded = options.update(width=max(console.width, 10_000))
    if Measurement.get(console, unbounded, table).maximum <= console.width:
        console.print(table)
        return
    for line in stanzas(table):
        console.print(line, markup=False, soft_wrap=True)


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

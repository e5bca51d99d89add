"""One measured figure and the table of them; every benchmark of `make bench` returns these.

A figure is compared with the project's target: `must` is promised, `aim` is hoped for. Ratios in
one run hold on any machine; absolute figures are orientation. No test asserts any of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured, in which unit, and what it should be at most."""

    name: str
    value: float
    unit: str
    must: float | None = None
    aim: float | None = None

    def verdict(self) -> str:
        """How the value stands to its target, as one word."""
        if self.aim is not None and self.value <= self.aim:
            return "aim"
        if self.must is not None:
            return "kept" if self.value <= self.must else "MISSED"
        return ""


def show(figures: Sequence[Figure]) -> None:
    """Print one table, each figure with its target beside it."""
    table = Table("what", "measured", "must", "aim", "")
    for each in figures:
        table.add_row(
            each.name,
            f"{each.value:.3g} {each.unit}",
            "" if each.must is None else f"{each.must:g}",
            "" if each.aim is None else f"{each.aim:g}",
            each.verdict(),
        )
    Console().print(table)


def write(figures: Sequence[Figure], path: Path) -> None:
    """Write the figures as JSON, for whoever compares two runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = [asdict(each) for each in figures]
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

"""Tables of a study as CSV: header, plain figures, Unix line ends, the same bytes every time."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from gridtravel.gridcore.errors import InputError


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write one table; ``InputError`` when the file cannot be written."""
    try:
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}") from fault

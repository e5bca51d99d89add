"""The field of a plate as a picture: the second stage, at another site than the first.

``python3 -I draw.py field.dat plate.png``
"""

from __future__ import annotations

import argparse
import array
import os
import sys
from itertools import pairwise
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from gridtravel.travel_agent.demo.pictures.png import Colour, write_png
    from gridtravel.travel_agent.demo.pictures.simulate import MAGIC, Field
else:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from png import Colour, write_png

    MAGIC = b"plate 1\n"

SCALE = 4
"""Pixels along each side of a point."""
PALETTE: tuple[tuple[float, Colour], ...] = (
    (0.0, (20, 30, 120)),
    (0.35, (60, 150, 220)),
    (0.5, (240, 240, 230)),
    (0.65, (240, 160, 60)),
    (1.0, (150, 10, 20)),
)
"""Colours from the coldest to the hottest; between them it is mixed."""


def read_field(path: Path) -> Field:
    """What ``simulate`` wrote; ``ValueError`` when it is something else."""
    content = path.read_bytes()
    head, _, rest = content.removeprefix(MAGIC).partition(b"\n")
    if not content.startswith(MAGIC) or not head.isdigit() or len(rest) != 8 * int(head) ** 2:
        raise ValueError(f"{path} is not the field of a plate")
    size = int(head)
    numbers = array.array("d", rest)
    if sys.byteorder == "big":
        numbers.byteswap()
    return [list(numbers[row * size : (row + 1) * size]) for row in range(size)]


def colour_of(share: float) -> Colour:
    """The colour at ``share`` of the way from the coldest to the hottest."""
    for (low, cold), (high, hot) in pairwise(PALETTE):
        if share <= high:
            part = (share - low) / (high - low)
            mixed = [round(a + part * (b - a)) for a, b in zip(cold, hot, strict=True)]
            return mixed[0], mixed[1], mixed[2]
    return PALETTE[-1][1]


def picture(field: Field) -> list[list[Colour]]:
    """Rows of pixels, each point as a square."""
    coldest = min(min(row) for row in field)
    span = max(max(row) for row in field) - coldest or 1.0
    rows = []
    for row in field:
        line = [colour_of((value - coldest) / span) for value in row for _ in range(SCALE)]
        rows += [line] * SCALE
    return rows


def main(words: list[str]) -> int:
    """Read, draw, write; 0 when it went well."""
    parser = argparse.ArgumentParser(prog="draw")
    parser.add_argument("field", type=Path)
    parser.add_argument("picture", type=Path)
    asked = parser.parse_args(words)
    try:
        field = read_field(asked.field)
    except (OSError, ValueError) as fault:
        print(f"draw: {fault}", file=sys.stderr)
        return 1
    site, before = os.environ.get("GRID_SITE", "here"), os.environ.get("GRID_LEG_BEFORE", "")
    print(f"draw at {site}: {len(field)} by {len(field)}" + (f", from {before}" if before else ""))
    write_png(asked.picture, picture(field))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

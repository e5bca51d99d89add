"""A metal plate with hot and cold spots on its rim, until the heat has spread: the first stage.

The heat equation on a square, by the plainest explicit scheme. The field is written for the second
stage, which draws it somewhere else: ``python3 -I simulate.py --steps 600 --out field.dat``.
"""

from __future__ import annotations

import argparse
import array
import json
import math
import os
import sys
from pathlib import Path

SIZE = 64
"""Points along each side."""
SPEED = 0.24
"""Diffusion per step; the scheme is stable below a quarter."""
STEPS_MAX = 1_000_000
MAGIC = b"plate 1\n"
Field = list[list[float]]
"""Rows of temperatures, in degrees."""


def plate() -> Field:
    """Zero degrees inside; waves of heat along the rim."""
    field = [[0.0] * SIZE for _ in range(SIZE)]
    for at in range(SIZE):
        turn = 2.0 * math.pi * at / (SIZE - 1)
        field[0][at] = 100.0 * math.sin(turn)
        field[-1][at] = 60.0 * math.cos(turn)
        field[at][0] = 80.0 * math.sin(2.0 * turn)
        field[at][-1] = -80.0 * math.cos(turn)
    return field


def advance(field: Field) -> Field:
    """One step: each point moves towards the mean of its four neighbours; the rim stays."""
    new = [list(field[0])]
    for above, row, below in zip(field, field[1:], field[2:], strict=False):
        middle = [
            here + SPEED * (left + right + up + down - 4.0 * here)
            for left, here, right, up, down in zip(
                row, row[1:], row[2:], above[1:], below[1:], strict=False
            )
        ]
        new.append([row[0], *middle, row[-1]])
    new.append(list(field[-1]))
    return new


def unrest(old: Field, new: Field) -> float:
    """The largest change of any point in a step, in degrees."""
    return max(abs(b - a) for x, y in zip(old, new, strict=True) for a, b in zip(x, y, strict=True))


def write_field(path: Path, field: Field) -> None:
    """The size, then all temperatures row by row as numbers of 8 bytes, the last byte first."""
    numbers = array.array("d", (value for row in field for value in row))
    if sys.byteorder == "big":
        numbers.byteswap()
    path.write_bytes(MAGIC + f"{len(field)}\n".encode() + numbers.tobytes())


def main(words: list[str]) -> int:
    """Simulate and write; 0 when it went well."""
    parser = argparse.ArgumentParser(prog="simulate")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", type=Path, default=Path("field.dat"))
    asked = parser.parse_args(words)
    if not 1 <= asked.steps <= STEPS_MAX:
        parser.error(f"--steps is 1 to {STEPS_MAX}")
    site, behind = os.environ.get("GRID_SITE", "here"), os.environ.get("GRID_LEG_AFTER", "")
    print(f"simulate at {site}: {asked.steps} steps" + (f", for {behind}" if behind else ""))
    field, change = plate(), 0.0
    for step in range(1, asked.steps + 1):
        new = advance(field)
        if step % 100 == 0 or step == asked.steps:
            change = unrest(field, new)
            print(f"step {step}: the largest change is {change:.4f} degrees", flush=True)
        field = new
    write_field(asked.out, field)
    note = {"steps": asked.steps, "site": site, "last_change": change}
    asked.out.with_suffix(".json").write_text(json.dumps(note) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

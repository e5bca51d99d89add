"""Trips that run as they are on the demonstration grid: metajob files with the programs they need.

``gur init PATTERN --with-programs FOLDER`` writes them, to be tried and changed (docs/examples.md).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import gridtravel.travel_agent.demo.pictures
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.metajobs import UsagePattern
from gridtravel.travel_agent.demo.trip import lay_out_trip

_FILES = {
    UsagePattern.SINGLE: ("single.toml", "render.py", "png.py", "scene.json"),
    UsagePattern.PIPELINE: ("pipeline.toml", "simulate.py", "draw.py", "png.py"),
}
"""Of each pattern the metajob file first. That of ``multiple`` is the demonstration's own."""


def lay_out_example(pattern: UsagePattern, folder: Path) -> Path:
    """Write the trip of ``pattern`` into ``folder``, which is made; the metajob's path.

    Files that are there already are left alone: ``InputError`` names the first.
    """
    if pattern is UsagePattern.MULTIPLE:
        _check_free(folder, ())
        return lay_out_trip(folder, python="python3")
    source = Path(gridtravel.travel_agent.demo.pictures.__file__).parent
    names = _FILES[pattern]
    _check_free(folder, names)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copyfile(source / name, folder / name)
    except OSError as fault:
        raise InputError(
            f"cannot write the example to {folder}: {fault.strerror}",
            hint="make room there, or name a place where you may write",
        ) from fault
    return folder / names[0]


def _check_free(folder: Path, names: tuple[str, ...]) -> None:
    """``names`` empty: the folder itself must be new."""
    taken = [folder / name for name in names] or [folder]
    for path in taken:
        if path.exists():
            raise InputError(f"{path} is there already", hint="name another folder")

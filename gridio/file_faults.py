"""Faults of a file that a person wrote: they name the file, and the line where one is known."""

from __future__ import annotations

from collections.abc import Mapping

from gridtravel.gridcore.errors import InputError

KeyPath = tuple[str | int, ...]
"""Keys and positions from the root of the document to one value."""


def nearest_line(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """Line of the key, else of the nearest thing around it that has one."""
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), None)


def located(source: str, line: int | None, message: str, *, hint: str = "") -> InputError:
    """An ``InputError`` that begins with the file, and the line where one is known."""
    place = source if line is None else f"{source}, line {line}"
    return InputError(f"{place}: {message}", hint=hint)

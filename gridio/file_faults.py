"""Faults of a file that a person wrote: they name the file, and the line where one is known."""

from __future__ import annotations

from collections.abc import Mapping

from gridtravel.gridcore.errors import InputError

KeyPath = tuple[str | int, ...]
"""Keys and positions from the root of the document to one value."""


def nearest_line(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """Line of the key, else of the nearest thing around it that has one."""
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), None)


def located(source: str, line: int | None, message: str, *, hint: str | None = None) -> InputError:
    """An ``InputError`` that begins with the file, and the line where one is known.

    One line for a terminal, whatever the file's words were.
    """
    place = source if line is None else f"{source}, line {line}"
    return InputError(_one_line(f"{place}: {message}"), hint=_one_line(hint) if hint else None)


def _one_line(text: str) -> str:
    """``text`` without anything a terminal would act on."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)

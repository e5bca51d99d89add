"""Where in a user's file a key stands, and faults that say so.

The readers of all formats make one ``KeyPlaces``; everything after them speaks of keys by their
path in the common schema (``("machines", 1, "nodes_min")``), and the fault that reaches the user
names the file, the line and the key as that format spells it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.file_faults import KeyPath, located, nearest_line


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPlaces:
    """The places of one file's keys."""

    source: str
    """What to call the file in a message."""
    find_lines: Callable[[], Mapping[KeyPath, int]]
    """Lines by key, counted from 1. A function, because it is needed only when something is
    wrong."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Spelling of a schema's key in this format, where it differs."""

    def name_of(self, key: str) -> str:
        """The key as this file spells it."""
        return self.names.get(key, key)

    def line_of(self, path: KeyPath) -> int | None:
        """Line of the key, else of the nearest thing around it that has one."""
        return nearest_line(self.find_lines(), path)

    def fault(self, path: KeyPath, message: str, *, hint: str = "") -> InputError:
        """The error for the value at ``path``, with file and line in front."""
        return located(self.source, self.line_of(path), message, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMetajob:
    """A file taken apart, in the common schema's keys, before any value has been looked at."""

    document: dict[str, object]
    places: KeyPlaces

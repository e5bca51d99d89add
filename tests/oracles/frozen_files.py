"""What the oracles compare with: text files below ``frozen/``, and how they are written anew.

A file is either whole (one text) or *keyed*: a heading and one line for each key, where a run that
looks at some keys compares, and writes, only these.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

FOLDER: Final = Path(__file__).resolve().parent / "frozen"
AGAIN: Final = (
    "If this change is on purpose: make oracles-update ONLY=words (tests/oracles/README.md)."
)
LINES_SHOWN_MAX: Final = 60


class Frozen:
    """Compares answers with what is kept; with ``is_update`` it keeps them instead."""

    def __init__(self, *, is_update: bool) -> None:
        self.is_update = is_update

    def text(self, name: str, found: str) -> None:
        """One whole file."""
        path = FOLDER / name
        if self.is_update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found, encoding="utf-8")
            return
        assert path.exists(), f"{name} is not kept yet. {AGAIN}"
        kept = path.read_text(encoding="utf-8")
        if kept != found:
            pytest.fail(
                f"{name} is another now. {AGAIN}\n{_difference(kept, found)}", pytrace=False
            )

    def json(self, name: str, found: Any) -> None:
        """One whole file of JSON, in a form that is reviewed line by line."""
        self.text(name, json.dumps(found, indent=1, ensure_ascii=True) + "\n")

    def lines(self, name: str, heading: str, found: Mapping[str, str]) -> None:
        """Lines of a keyed file: ``found`` by key; the key is a line's beginning."""
        path = FOLDER / name
        kept = read_keyed(path)
        if self.is_update:
            path.parent.mkdir(parents=True, exist_ok=True)
            merged = {**kept, **found}
            rows = (f"{key}  {merged[key]}" for key in sorted(merged))
            path.write_text("\n".join([heading, *rows]) + "\n", encoding="utf-8")
            return
        before = "\n".join(f"{key}  {kept.get(key, 'is not kept yet')}" for key in found)
        now = "\n".join(f"{key}  {line}" for key, line in found.items())
        if before != now:
            told = f"{heading}\n{_difference(before, now)}"
            pytest.fail(f"{name} is another now. {AGAIN}\n{told}", pytrace=False)


def read_keyed(path: Path) -> dict[str, str]:
    """The lines of a keyed file by key; none when it is not there."""
    if not path.exists():
        return {}
    rows = path.read_text(encoding="utf-8").splitlines()[1:]
    return {key: line for key, _, line in (row.partition("  ") for row in rows)}


def digest(value: Any) -> str:
    """Eight hexadecimal digits of a value that JSON can hold; two runs differ when it does."""
    told = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def columns(values: Sequence[object], widths: Iterable[int]) -> str:
    """A row of a table, each value to the right of its column."""
    return " ".join(f"{value!s:>{width}}" for value, width in zip(values, widths, strict=True))


def _difference(kept: str, found: str) -> str:
    lines = list(
        difflib.unified_diff(kept.splitlines(), found.splitlines(), "kept", "now", lineterm="", n=1)
    )
    left_out = len(lines) - LINES_SHOWN_MAX
    more = [f"... and {left_out} lines more"] if left_out > 0 else []
    return "\n".join([*lines[:LINES_SHOWN_MAX], *more])

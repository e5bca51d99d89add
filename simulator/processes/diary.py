"""What each real process of a grid writes, in the order in which all of them write it.

One file that all share, a line for each write of anybody's journal: who, and in few words what. A
trip that was lived once without trouble names in it every point at which somebody could die
(``crash_points``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gridtravel.gridio.journal.contract import Record

DIARY_VARIABLE: Final = "GURLAB_DIARY"
"""Path of the diary."""
WRITER_VARIABLE: Final = "GURLAB_WRITER"
"""Under which name a process writes in it."""
VOTE_KIND: Final = "acceptor-changed"
CHANGE_KIND: Final = "changed"
QUESTIONS: Final = ("cancel", "ready", "runs")
"""What a trip's sites settle beside its outcome, as the names of the questions have it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One write."""

    writer: str
    words: str


class Diary:
    """This process's hand in it."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._writer = ""

    def open_here(self) -> None:
        """From now on as the environment says."""
        path = os.environ.get(DIARY_VARIABLE)
        self._writer = os.environ.get(WRITER_VARIABLE, "")
        if path and self._writer:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, words: str) -> None:
        """One write was made."""
        if self._file is not None:
            os.write(self._file, f"{self._writer} {words}\n".encode())


DIARY: Final = Diary()
"""This process's own."""


def words_of(records: Sequence[Record]) -> str:
    """What a write says: the kinds of its records, each once, without a blank between them."""
    return ",".join(dict.fromkeys(map(_word_of, records)))


def read_diary(path: Path, position: int = 0) -> list[Entry]:
    """The entries from this position on, in bytes."""
    if not path.exists():
        return []
    with path.open("rb") as stream:
        stream.seek(position)
        lines = stream.read().decode().splitlines()
    return [Entry(*line.split(" ", 1)) for line in lines]


def _word_of(record: Record) -> str:
    if record.kind == CHANGE_KIND:
        return f"changed:{json.loads(record.body)['event']}".lower()
    if record.kind == VOTE_KIND:
        state = json.loads(record.body)["state"]
        about = [each for each in QUESTIONS if f"/{each}" in state["instance"]]
        return f"{'vote' if state['vote'] else 'promise'}:{(about or ['outcome'])[0]}"
    return record.kind

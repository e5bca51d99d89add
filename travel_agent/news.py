"""What the travel agent tells while it negotiates: one value a step, for a screen, a log or a
test."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass


class Step(enum.StrEnum):
    """What just happened."""

    ASKED = "asked"
    OFFERED = "offered"
    DECLINED = "declined"
    UNREACHABLE = "unreachable"
    PLANNED = "planned"
    HELD = "held"
    LET_GO = "let go"
    DECIDED = "decided"
    COMMITTED = "committed"
    SUBMITTED = "submitted"
    STAGING = "staging"
    """Files are on their way; told often, with ``progress``."""
    STAGED = "staged"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far something is."""

    bytes_done: int
    bytes_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One step. ``place`` is the machine or leg it happened at; empty: here, on the laptop."""

    step: Step
    place: str = ""
    text: str = ""
    attempt: int = 0
    progress: Progress | None = None


Listener = Callable[[News], None]
"""Takes each piece of news at once; must not block and must not raise."""


def deaf(news: News) -> None:
    """Listens to nothing."""

"""What an agent journals about the site itself: its mode, its nodes, what it has told and done.

Part of ``agents.agent_events``, which lists all kinds of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gridcore.instants import Instant
from local_sched.scheduler_config import SchedulerMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged:
    """An administrator lets the scheduler run, suspends or stops it."""

    mode: SchedulerMode
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChanged:
    """A node failed, or is back."""

    name: str
    is_down: bool
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingSkipped:
    """One instance of a standing reservation was cancelled and is not made again."""

    request_id: str
    start: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeGiven:
    """The owner of a broken reservation is told. Written before the mail goes out, so that the
    bound holds over crashes.
    """

    reservation_id: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class HookBegun:
    """A reservation's prologue or epilogue is about to be run, at most once."""

    reservation_id: str
    is_epilogue: bool
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesTold:
    """Planned starts of waiting jobs that are new or have changed: (job id, start)."""

    places: tuple[tuple[str, Instant], ...]


SiteEvent = ModeChanged | NodeChanged | StandingSkipped | NoticeGiven | HookBegun | PlacesTold

SITE_EVENTS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "mode-changed": ModeChanged,
        "node-changed": NodeChanged,
        "standing-skipped": StandingSkipped,
        "notice-given": NoticeGiven,
        "hook-begun": HookBegun,
        "places-told": PlacesTold,
    }
)

"""What an agent journals about the site itself: its mode, its nodes, what it has told and done.

Part of ``agents.agent_events``, which lists all kinds of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gridcore.instants import Instant
from local_sched.reservation_jobs import AccessRule
from local_sched.scheduler_config import SchedulerMode
from local_sched.standing_reservations import StandingReservation


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesFixed:
    """A reservation of the site, granted in the same breath, is of these nodes and no others."""

    reservation_id: str
    node_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGiven:
    """Jobs of the open queue may use a reservation of the site."""

    reservation_id: str
    access: AccessRule


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingDeclared:
    """An administrator makes a standing reservation; one of the same name is replaced."""

    rule: StandingReservation
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingWithdrawn:
    """An administrator takes a standing reservation back."""

    name: str
    at: Instant


SiteEvent = (
    ModeChanged
    | NodeChanged
    | StandingSkipped
    | NoticeGiven
    | HookBegun
    | PlacesTold
    | NodesFixed
    | AccessGiven
    | StandingDeclared
    | StandingWithdrawn
)

SITE_EVENTS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "mode-changed": ModeChanged,
        "node-changed": NodeChanged,
        "standing-skipped": StandingSkipped,
        "notice-given": NoticeGiven,
        "hook-begun": HookBegun,
        "places-told": PlacesTold,
        "nodes-fixed": NodesFixed,
        "access-given": AccessGiven,
        "standing-declared": StandingDeclared,
        "standing-withdrawn": StandingWithdrawn,
    }
)

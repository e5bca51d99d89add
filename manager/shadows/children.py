"""One child of a manager: the way to it, what it says of itself, and how it stands."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from gridtravel.gridcore.booking.summaries import CalendarSummary, ShadowCalendar
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.ports import CalendarPort, SiteDescription
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.sites.connections import SiteConnection


class Standing(enum.StrEnum):
    """How a manager stands with one child."""

    NEW = "not reached yet"
    IN_STEP = "in step"
    """Described, and its shadow follows."""
    LOST = "lost"
    """Its subscription is down; the shadow grows older, and nobody is kept waiting for it."""
    ISOLATED = "isolated"
    """What it says cannot be true, so nothing it says is used."""


class ChildContradiction(GridError):
    """A child says what cannot be true; it is isolated, and the rest goes on."""


class Child:
    """An agent or a manager below this one. Changed by the ``ShadowKeeper`` alone."""

    def __init__(
        self,
        name: str,
        connection: SiteConnection,
        *,
        is_manager: bool,
        answer_within_s: float,
    ) -> None:
        self.name = name
        self.connection = connection
        self.is_manager = is_manager
        self.answer_within_s = answer_within_s
        """Longest that an inquiry or a reserve waits for this child."""
        self.standing = Standing.NEW
        self.reason = ""
        """Why it is lost or isolated; empty while it is neither."""
        self.description: SiteDescription | None = None
        """Changed by ``describe_as``."""
        self.described_at: Instant = 0
        self.names: frozenset[str] = frozenset((name,))
        """Its own name and those of everything below it, as it describes itself."""
        self.shadow = ShadowCalendar(name)
        self.gaps = 0
        """Full summaries that were asked for because a change did not follow on what was known."""

    @property
    def calendar(self) -> CalendarPort:
        """The child's calendar, as this manager."""
        return self.connection.calendar

    @property
    def is_usable(self) -> bool:
        """True when it may be asked for room."""
        return self.standing is Standing.IN_STEP

    @property
    def summary(self) -> CalendarSummary | None:
        """What is known of its calendar, never of an isolated one."""
        return None if self.standing is Standing.ISOLATED else self.shadow.summary

    def age_s(self, now: Instant) -> int | None:
        """Seconds since the child made what is known of it here; ``None``: nothing is known."""
        return self.shadow.age_s(now)

    def describe_as(self, description: SiteDescription, now: Instant) -> bool:
        """Note what it says of itself; True when other sites are below it than before."""
        self.described_at = now
        if self.description is not None and self.description.children == description.children:
            self.description = description
            return False
        self.description = description
        self.names = frozenset((self.name, *bare_names(description.children)))
        return True


def bare_names(entries: Iterable[str]) -> tuple[str, ...]:
    """The sites in a description's ``children``: entries are paths (``north/datastar``), and may be
    followed by a blank and a remark.
    """
    found: dict[str, None] = {}
    for entry in entries:
        found.update(dict.fromkeys(entry.partition(" ")[0].split("/")))
    return tuple(found)

"""What a user wants of a trip beside room and time: what to optimise, whom to tell, what to do when
a site fails.

Values only; the travel agent acts on them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.errors import FieldError, InputError
from gridtravel.gridcore.identifiers import check_id
from gridtravel.gridcore.jobs.commands import is_plain_text
from gridtravel.gridcore.timing.instants import Instant

ADDRESSES_MAX: Final = 32
KEEPERS_MAX: Final = 256
"""As many as a metajob has machines."""
NOTICE_BEFORE_MAX_S: Final = 30 * 86_400


class Objective(enum.StrEnum):
    """What makes one itinerary better than another."""

    EARLIEST_FINISH = "earliest_finish"
    LOWEST_COST = "lowest_cost"
    """Cheapest within the window and the budget; of equally cheap ones the earliest."""


class HealingRule(enum.StrEnum):
    """One way to save a booked trip when a site loses nodes or disappears before the start."""

    REPLACE_LEG = "replace_leg"
    """Book the lost leg at the same time at another machine of the metajob."""
    SHRINK = "shrink"
    """Do with fewer nodes, down to each machine's minimum."""
    MOVE_TRIP = "move_trip"
    """Book the whole trip anew within its window; the old one is let go only after the new is
    held."""


class TripEvent(enum.StrEnum):
    """What the user can be told of."""

    BOOKED = "booked"
    STARTS_SOON = "starts_soon"
    FAILED = "failed"
    HEALED = "healed"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
    """Whom to tell of what."""

    emails: tuple[str, ...] = ()
    events: tuple[TripEvent, ...] = tuple(TripEvent)
    """In the order of ``TripEvent``, without doubles."""
    before_start_s: int = 900
    """How long before the start ``STARTS_SOON`` is said; 0 to 30 days."""
    hook_command: tuple[str, ...] = ()
    """Run on the laptop with the itinerary as JSON on standard input; empty: none."""

    def __post_init__(self) -> None:
        if len(self.emails) > ADDRESSES_MAX:
            raise FieldError(
                "emails",
                f"{len(self.emails)} addresses to notify, at most {ADDRESSES_MAX} are allowed",
                hint="use a mailing list",
            )
        for email in self.emails:
            check_email("emails", email)
        if not 0 <= self.before_start_s <= NOTICE_BEFORE_MAX_S:
            raise FieldError(
                "before_start_s",
                f"the notice before the start must be 0 to 30 days: {self.before_start_s} s",
                hint='write for example "15m"',
            )
        if not all(is_plain_text(argument) for argument in self.hook_command):
            raise FieldError("hook_command", "the hook command has what no program can be given")
        ordered = tuple(event for event in TripEvent if event in self.events)
        if ordered != self.events:
            object.__setattr__(self, "events", ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """What the user would take instead when the trip as asked for cannot be booked. ``None`` keeps
    what was asked."""

    nodes_total: int | None = None
    duration_s: int | None = None
    earliest_start: Instant | None = None
    latest_end: Instant | None = None
    budget_millicredits: int | None = None

    def __post_init__(self) -> None:
        if all(
            value is None
            for value in (
                self.nodes_total,
                self.duration_s,
                self.earliest_start,
                self.latest_end,
                self.budget_millicredits,
            )
        ):
            raise FieldError(
                "nodes_total",
                "an alternative changes nothing",
                hint="give it fewer nodes, another duration, a wider window or a larger budget",
            )


def check_email(field: str, email: str) -> None:
    """Refuse what cannot be one mail address: a header or a second recipient must not be smuggled
    in."""
    local, at, domain = email.rpartition("@")
    allowed = email.isascii() and email.isprintable() and not set(email) & set(' ,;<>()"\\')
    if not (local and at and domain and allowed and len(email) <= 254 and "@" not in local):
        raise FieldError(
            field, f"{email[:60]!r} is not a mail address", hint="write name@example.org"
        )


def check_keepers(keepers: Sequence[str]) -> tuple[str, ...]:
    """``keepers`` when each may be the name of a site, and none comes twice; ``FieldError``."""
    try:
        for name in keepers:
            check_id("site", name)
    except InputError as error:
        raise FieldError("keepers", error.message, hint=error.hint) from None
    if len(keepers) > KEEPERS_MAX:
        raise FieldError(
            "keepers",
            f"{len(keepers)} sites are named as keepers",
            hint=f"name at most {KEEPERS_MAX}, or none for any",
        )
    if len(set(keepers)) < len(keepers):
        raise FieldError("keepers", "a keeper is named twice", hint="name each site once")
    return tuple(keepers)

"""What a site decides about looking after itself: standing reservations, failed nodes, notices,
hooks.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.reservations.broken import NOTICE_INTERVAL_S, NOTICES_MAX
from gridtravel.local_sched.reservations.standing import StandingReservation

HOOK_LIMIT_S: Final = 30
"""Longest run of a prologue or an epilogue (the original's resproepi)."""


class NodeFailureRule(enum.StrEnum):
    """What becomes of jobs on a node that failed; their owners are told in any case."""

    NOTIFY = "notify"
    """They go on, as far as they can."""
    REQUEUE = "requeue"
    """They are stopped and run again from the start, with the rank they had."""
    CANCEL = "cancel"
    """They are stopped for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRules:
    """The defaults do nothing by themselves."""

    standing: tuple[StandingReservation, ...] = ()
    on_node_failure: NodeFailureRule = NodeFailureRule.NOTIFY
    notices_max: int = NOTICES_MAX
    """Mails about one broken reservation, over its whole life."""
    notice_interval_s: int = NOTICE_INTERVAL_S
    """At least so long between two of them."""
    prologue: tuple[str, ...] = ()
    """Command of the site that is run when a reservation begins; empty: none."""
    epilogue: tuple[str, ...] = ()
    """The same for its end."""
    hook_limit_s: int = HOOK_LIMIT_S

    def __post_init__(self) -> None:
        names = [each.name for each in self.standing]
        if len(set(names)) != len(names):
            raise InputError("two standing reservations have the same name")
        if self.notices_max < 0 or self.notice_interval_s < 0 or self.hook_limit_s < 1:
            raise InputError("notices must not be negative, and a hook has at least one second")


NO_MAINTENANCE: Final = MaintenanceRules()

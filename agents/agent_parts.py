"""What a node agent is made of: the parts that the daemon, the simulator and tests choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agents.trip_keeper import Connect
from agents.upkeep_rules import NO_UPKEEP, UpkeepRules
from gridio.notify import LogNotifier, Notifier
from local_sched.user_reservations import NO_LIMITS, UserReservationLimits

if TYPE_CHECKING:
    from agents.areas import Areas
    from agents.contacts import ContactBook
    from agents.job_table import JobTable
    from gridcore.calendars import Calendar
    from gridcore.ladders import SlotLadder
    from gridio.clock import Clock
    from gridio.journal import Journal
    from local_sched.resource_managers.base import ResourceManager
    from local_sched.scheduler import LocalScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What an agent is made of; ``daemon`` and the simulator choose."""

    calendar: Calendar
    scheduler: LocalScheduler
    jobs: JobTable
    journal: Journal
    resource_manager: ResourceManager
    clock: Clock
    contacts: ContactBook
    areas: Areas
    ladder: SlotLadder
    published_horizon_s: int
    time_zone: str
    kill_grace_s: float
    login_of: Callable[[str], str | None]
    """The site's grid-mapfile: subject to login."""
    connect: Connect
    """The way to other sites, for the outcome of trips."""
    accounts_of: Callable[[str], tuple[str, ...]] = lambda subject: ()
    """The same file: subject to the accounts that it may charge; none: any."""
    limits: UserReservationLimits = NO_LIMITS
    """On what users may reserve by themselves."""
    upkeep: UpkeepRules = NO_UPKEEP
    """Standing reservations, failed nodes, notices and hooks."""
    notifier: Notifier = field(default_factory=LogNotifier)

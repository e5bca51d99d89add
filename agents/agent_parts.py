"""What a node agent is made of: the parts that the daemon, the simulator and tests choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gridtravel.agents.maintenance_rules import NO_MAINTENANCE, MaintenanceRules
from gridtravel.gridio.sites.neighbours import Connect
from gridtravel.gridio.system.notify import LogNotifier, Notifier
from gridtravel.local_sched.reservations.user_reservations import NO_LIMITS, UserReservationLimits
from gridtravel.local_sched.resource_managers.task_limits import NO_RULES, TaskLimitRules

if TYPE_CHECKING:
    from gridtravel.agents.jobs.work_dirs import WorkDirs
    from gridtravel.agents.journal.job_table import JobTable
    from gridtravel.agents.trips.port_pool import PortPool
    from gridtravel.gridcore.booking.calendars import Calendar
    from gridtravel.gridcore.capacity.ladders import SlotLadder
    from gridtravel.gridio.journal.contract import Journal
    from gridtravel.gridio.ledger.ledger import Ledger
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.gridio.trust.cards import CardVerifier
    from gridtravel.gridio.trust.quotes import QuoteSigner
    from gridtravel.local_sched.resource_managers.base import ResourceManager
    from gridtravel.local_sched.scheduling.scheduler import LocalScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What an agent is made of; ``daemon`` and the simulator choose."""

    calendar: Calendar
    scheduler: LocalScheduler
    jobs: JobTable
    journal: Journal
    resource_manager: ResourceManager
    clock: Clock
    port_pool: PortPool
    work_dirs: WorkDirs
    ladder: SlotLadder
    published_horizon_s: int
    time_zone: str
    kill_grace_s: float
    login_of: Callable[[str], str | None]
    """The site's grid-mapfile: subject to login."""
    connect: Connect
    """The way to other sites, for the outcome of trips."""
    cards: CardVerifier
    """Tells where other sites say that they are."""
    accounts_of: Callable[[str], tuple[str, ...]] = lambda subject: ()
    """The same file: subject to the accounts that it may charge; none: any."""
    limits: UserReservationLimits = NO_LIMITS
    """On what users may reserve by themselves."""
    task_limits: TaskLimitRules = NO_RULES
    """On what one job may use of processes, memory and disk."""
    maintenance: MaintenanceRules = NO_MAINTENANCE
    """Standing reservations, failed nodes, notices and hooks."""
    notifier: Notifier = field(default_factory=LogNotifier)
    ledger: Ledger | None = None
    """Who pays for what is booked; ``None``: prices are told, and nobody pays."""
    quote_signer: QuoteSigner | None = None
    """Signs the prices that are offered; ``None``: they hold as long as the tariff."""
    quotes_hold_s: int = 900
    own_card: Callable[[], str] = lambda: ""
    """This site's card, once it is known where it is reached; empty: other sites cannot reach it,
    and it keeps no trip and gives no files.
    """

"""A whole agent in virtual time, with a simulated machine, a simulated disk and a mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from gridtravel.agents.agent_parts import AgentParts
from gridtravel.agents.jobs.work_dirs import WorkDirs
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.agents.maintenance.site_maintenance import SiteMaintenance
from gridtravel.agents.maintenance_rules import MaintenanceRules
from gridtravel.agents.node_agent import NodeAgent
from gridtravel.agents.ports.site_port import SiteEndpoint
from gridtravel.agents.trips.port_pool import PortPool
from gridtravel.gridcore.booking.calendar_rules import CalendarRules, FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import ReservationRequest
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.capacity.ladders import EXACT
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridio.journal.memory import Disk, MemoryJournal, WriteHook
from gridtravel.gridio.ledger.ledger import Ledger
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.sites.neighbours import Connect
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.gridio.system.notify import RecordingNotifier
from gridtravel.gridio.trust.quotes import QuoteSigner
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.policies.policy import QueuePolicy
from gridtravel.local_sched.resource_managers.simulated import (
    SimulatedMachine,
    SimulatedResourceManager,
    SimulatedRun,
)
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.shortpools import Shortpool
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler
from gridtravel.local_sched.sharing.shared_class import SharedClass
from tests.support.cards import CARDS, card_of

KENNETH = Caller(subject="login:kenneth", login="kenneth", accounts=("kenneth",))
ROOT = Caller(subject="login:root", login="root", accounts=("root",), role=Role.ADMIN)
NODES = 4


class MaintenanceWorld:
    """One site, ``lab`` unless told, of four nodes ``n-0`` to ``n-3``. ``restart`` is a crash and a
    new start.
    """

    def __init__(
        self,
        folder: Path,
        rules: MaintenanceRules | None = None,
        *,
        now: int = 1_000,
        backfill: BackfillRule | None = None,
        shortpools: dict[str, Shortpool] | None = None,
        horizon_s: int = 90 * 86_400,
        slot_rule: SlotRule | None = None,
        name: str = "lab",
        clock: ManualClock | None = None,
        connect: Connect | None = None,
        on_write: WriteHook | None = None,
        shared: Callable[[], Iterable[SharedClass]] = tuple,
        ledger: Ledger | None = None,
        policy: QueuePolicy | None = None,
        tariff: FlatTariff | None = None,
        quote_signer: QuoteSigner | None = None,
    ) -> None:
        self.name = name
        self.clock = clock or ManualClock(now)
        self._connect = connect or _nowhere
        self._on_write = on_write
        self._shared = shared
        """Makes the classes of nodes that jobs share, anew at each start."""
        self.ledger = ledger
        self.tariff = tariff
        self.quote_signer = quote_signer
        self._starts = 0
        self.mail = RecordingNotifier()
        self.runs: dict[str, float] = {}
        """Seconds that an execution takes; the default is an hour."""
        self.machine = SimulatedMachine(
            clock=self.clock,
            run_of=lambda launch: SimulatedRun(run_s=self.runs.get(launch.job_id, 3600)),
        )
        self._folder = folder
        self._disk = Disk()
        self._rules = rules or MaintenanceRules()
        self._config = SchedulerConfig(backfill=backfill or BackfillRule(), policy=policy)
        self._shortpools = shortpools
        self._calendar_rules = CalendarRules(horizon_s=horizon_s)
        self._slot_rule = slot_rule
        self._jobs_made = 0
        self._reader: asyncio.Task[None] | None = None
        self.agent = self._made()

    def _made(self) -> NodeAgent:
        self._starts += 1
        calendar = Calendar(
            self.name,
            [ResourceClass(name="n", nodes=NODES)],
            rules=self._calendar_rules,
            origin=self.clock.now(),
            epoch=f"start-{self._starts}",
            slot_rule=self._slot_rule,
            tariff=self.tariff,
        )
        agent = NodeAgent(
            AgentParts(
                calendar=calendar,
                scheduler=site_scheduler(
                    calendar, self._config, shortpools=self._shortpools, shared=self._shared()
                ),
                jobs=JobTable(self.name),
                journal=MemoryJournal(self._disk, on_write=self._on_write),
                resource_manager=SimulatedResourceManager(machine=self.machine, nodes=()),
                clock=self.clock,
                port_pool=PortPool("127.0.0.1", range(21_000, 21_010)),
                work_dirs=WorkDirs(self._folder, owned_by_login=False, files=AccountFiles()),
                ladder=EXACT,
                published_horizon_s=3600,
                time_zone="UTC",
                kill_grace_s=1.0,
                login_of=lambda subject: None,
                connect=self._connect,
                cards=CARDS,
                own_card=lambda: card_of(self.name),
                maintenance=self._rules,
                notifier=self.mail,
                ledger=self.ledger,
                quote_signer=self.quote_signer,
            )
        )
        agent.replay()
        return agent

    async def start(self) -> None:
        """What the daemon does before it serves."""
        await self.agent.runner.recover()
        self._reader = asyncio.create_task(self.agent.runner.follow_tasks())
        await self.tick()

    async def stop(self) -> None:
        """A crash: nothing is said to anybody."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self.agent.maintenance.close()
        await self.agent.notice_sender.close()
        await self.agent.parts.resource_manager.close()
        self.agent.parts.journal.close()

    async def hooks_drained(self) -> None:
        """Wait for the prologues and epilogues that run."""
        assert isinstance(self.agent.maintenance, SiteMaintenance)
        await self.agent.maintenance.hooks.drained()

    async def restart(self, rules: MaintenanceRules | None = None) -> None:
        """A crash and a new start, perhaps with another configuration."""
        await self.stop()
        self._rules = rules or self._rules
        self.agent = self._made()
        await self.start()

    async def outage(self, seconds: float) -> None:
        """A crash, and a new start so much later. Tasks run on meanwhile."""
        await self.stop()
        end = self.clock.now_precise() + seconds
        while (now := self.clock.now_precise()) < end:
            due = self.clock.next_wake_up
            self.clock.advance(max(min(end, end if due is None else due) - now, 0.25))
            await self._turns()
        self.agent = self._made()
        await self.start()

    async def tick(self, seconds: float = 0) -> None:
        """Let time pass, and everything follow that is due then."""
        self.clock.advance(seconds)
        for _ in range(3):
            await self._turns()
            await self.agent.tick()
        await self._turns()

    async def pass_time(self, seconds: int) -> None:
        """Let time pass as a daemon sees it, which wakes whenever something is due."""
        end = self.clock.now_precise() + seconds
        while (now := self.clock.now_precise()) < end:
            due = self.clock.next_wake_up
            moments = [end, await self.agent.tick(), *([] if due is None else [due])]
            await self.tick(max(min(moments) - now, 0.25))

    async def _turns(self) -> None:
        for _ in range(20):
            await self.clock.sleep_until(0)

    def desk(self, caller: Caller = KENNETH) -> SiteEndpoint:
        """The site for one caller."""
        return self.agent.site_port(caller)

    async def submit(self, nodes: int, limit_s: int, **others: object) -> str:
        """Queue a job of kenneth's; its id."""
        self._jobs_made += 1
        spec = JobSpec(
            request_id=f"job-{self._jobs_made}",
            name="flow",
            account="kenneth",
            nodes=nodes,
            limit_s=limit_s,
            argv=("true",),
            notify_email="kenneth@lab.example",
            **others,  # type: ignore[arg-type]  # by name
        )
        view = await self.desk().submit(spec)
        assert isinstance(view, JobView), view
        await self.tick()
        return view.job_id

    def view(self, job_id: str) -> JobView:
        """A job as its owner sees it."""
        return self.agent.view(job_id)

    async def mailed(self) -> list[str]:
        """Subjects of all mails, when all are out."""
        await self.agent.notice_sender.drained()
        return [each.subject for each in self.mail.notices]


def a_wish(
    name: str,
    nodes: int,
    start: int,
    duration_s: int,
    *,
    account: str = "kenneth",
    **others: object,
) -> ReservationRequest:
    """Exactly so many nodes at exactly this time."""
    return ReservationRequest(
        request_id=name,
        account=account,
        nodes_min=nodes,
        nodes_max=nodes,
        duration_s=duration_s,
        earliest_start=start,
        latest_end=start + duration_s,
        **others,  # type: ignore[arg-type]  # by name
    )


def _nowhere(site: str, endpoint: str) -> SiteConnection:
    raise UnavailableError(f"{site} at {endpoint} is not part of this test")

"""One site of a simulated world: the unmodified node agent, on a disk that survives it.

The site is the party; each start makes a new ``NodeAgent`` from what the disk holds, as
``agents.daemon`` does. The machine with its tasks outlives the agent, as real processes do.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gridtravel.agents.agent_parts import AgentParts
from gridtravel.agents.jobs.work_dirs import WorkDirs
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.agents.node_agent import NodeAgent
from gridtravel.agents.trips.port_pool import PortPool
from gridtravel.gridcore.booking.calendar_rules import CalendarRules, FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.journal.contract import JournalFailed, Record
from gridtravel.gridio.journal.memory import Disk, MemoryJournal, WriteStage
from gridtravel.gridio.ledger.ledger import Ledger, Shortfall
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.resource_managers.base import Launch, NodeDescription
from gridtravel.local_sched.resource_managers.simulated import (
    SimulatedMachine,
    SimulatedResourceManager,
    SimulatedRun,
)
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler
from gridtravel.simulator.checks.checked_world import MachineUse
from gridtravel.simulator.checks.site_ledger import SiteLedger
from gridtravel.simulator.kernel.network_wire import SimulatedConnection
from gridtravel.simulator.kernel.processes import PointKind, SimulatedProcess, first_fault, outside
from gridtravel.simulator.kernel.virtual_clock import ClockStep, VirtualClock

if TYPE_CHECKING:
    from gridtravel.gridio.sites.connections import SiteConnection
    from gridtravel.simulator.grid.world_frame import WorldFrame

CLASS_NAME: Final = "node"
LADDER: Final = SlotLadder.parse("32x60, 32x960, *x15360")
LAPTOPS: Final = "/CN="
HOUR_PRICE: Final = 3_600
"""Millicredits a node and hour: one a node and second, at every site."""
CREDITS: Final = 10**12
"""Millicredits that each account is given when it first pays."""
RESTART_AFTER_FAULT_S: Final = 3.0
"""A daemon that ended by itself is started again by its service manager."""


def endpoint_of(site: str) -> str:
    """Where a simulated site says that it is reached."""
    return f"{site}.example.org:7101"


def subject_of_laptop(name: str) -> str:
    """What the certificate of a laptop's user says."""
    return f"{LAPTOPS}{name}"


def login_of(subject: str) -> str | None:
    """The login to which every site of a simulated grid maps such a user."""
    return subject.removeprefix(LAPTOPS) if subject.startswith(LAPTOPS) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePlan:
    """What a site is."""

    name: str
    nodes: int = 4
    skew_s: float = 0.0
    clock_steps: tuple[ClockStep, ...] = ()
    write_s: float = 0.0
    """What each write to the disk takes."""
    rules: CalendarRules = field(default_factory=CalendarRules)
    compacts: float = 0.0
    """How often a start begins with a compaction of the journal, which a long life would do."""
    runs_short: float = 0.5
    """How often a job ends before its limit."""


class WorldMachine(SimulatedMachine):
    """A machine that belongs to the world: its tasks live on when the agent dies."""

    def __init__(self, site: SimulatedSite) -> None:
        super().__init__(clock=site.clock, run_of=site.run_of)
        self._site = site
        self.launches: dict[str, Launch] = {}
        """Every order that was carried out, by job."""

    def launch(self, launch: Launch) -> None:
        """See ``SimulatedMachine``."""
        if launch.job_id not in self.launches:
            self.launches[launch.job_id] = launch
            self._site.ledger.launched(launch)
        outside(super().launch, launch)

    def stop(self, job_id: str, grace_s: float) -> None:
        """See ``SimulatedMachine``."""
        outside(super().stop, job_id, grace_s)

    def lose_all(self) -> None:
        """Power fails: no task runs any more."""
        for job_id in self.launches:
            self.lose(job_id)


class GenerousLedger(Ledger):
    """Whoever comes has credits enough."""

    def hold(
        self, reference: str, account: str, millicredits: int, at: Instant
    ) -> Shortfall | None:
        """See ``Ledger``."""
        self.grant(account, CREDITS, request_id=account, note="", at=0)
        return super().hold(reference, account, millicredits, at)


class PathsOnly(WorkDirs):
    """Areas that are never made: nothing is staged in these worlds."""

    def folder(self, area: str, login: str) -> Path:
        """See ``WorkDirs``."""
        return self.path_of(area)


class SimulatedSite:
    """See the module."""

    agent_type: type[NodeAgent] = NodeAgent
    calendar_type: type[Calendar] = Calendar

    def __init__(self, plan: SitePlan, frame: WorldFrame) -> None:
        self.plan = plan
        self.frame = frame
        self.chance = frame.chance.child(plan.name)
        self._clock = VirtualClock(frame.loop, skew_s=plan.skew_s, steps=plan.clock_steps)
        self.disk = Disk(ids=SeededIds(self.chance.number()))
        self.ids = SeededIds(self.chance.number())
        self.ledger = SiteLedger(plan.name, plan.nodes, frame.event_log, frame.loop)
        self.accounts = GenerousLedger(None)
        """What its users pay from; it survives every death, as a file with each write on disk."""
        self.machine = WorldMachine(self)
        self.agent: NodeAgent | None = None
        self.disk_is_full = False
        self.write_s = plan.write_s
        self._life: SimulatedProcess | None = None
        self._journal: MemoryJournal | None = None
        self.starts = 0

    # -- as a host ---------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name."""
        return self.plan.name

    @property
    def clock(self) -> VirtualClock:
        """The clock of the machine, which the agent reads too."""
        return self._clock

    @property
    def life(self) -> SimulatedProcess | None:
        """The agent's life, if it lives."""
        return self._life if self._life is not None and self._life.is_alive else None

    def services(self) -> NodeAgent | None:
        """The agent, once it serves."""
        return self.agent

    def acknowledged(self, method: str, question: Any, answer: Any) -> None:
        """What is told must be on the disk by now."""
        self.ledger.acknowledged(method, question, answer)

    @property
    def is_written(self) -> bool:
        """True when nothing waits for the disk."""
        journal = self._journal
        return journal is None or journal.waiting_count == 0

    # -- lives -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the daemon, if it is down."""
        if self.life is not None or self.frame.loop.is_ending:
            return
        self.starts += 1
        point = self.frame.crash_point_of(self.name) if self.starts == 1 else None
        life = SimulatedProcess(
            self.name, on_death=lambda: self.frame.crash_now(self.name), crash_at=point
        )
        self._life = life
        self.frame.network.contacts.back(self.name, "dead")
        self.frame.event_log.tell(self.name, "starts (start {})", self.starts)
        life.start(self._run(life), "daemon")

    def crash(self, *, is_power_cut: bool = False) -> None:
        """The daemon dies here and now; with ``is_power_cut`` its tasks do as well."""
        life = self.life
        if life is None:
            return
        life.end()
        self.frame.network.contacts.gone(self.name, "dead")
        self.agent = None
        if self._journal is not None:
            self._journal.crash()
        if is_power_cut:
            self.disk.lose_power()
            outside(self.machine.lose_all)

    async def _run(self, life: SimulatedProcess) -> None:
        """One life of the daemon (``agents.daemon``, without files and sockets)."""
        try:
            journal = MemoryJournal(
                self.disk, delay_s=self._write_delay_s, on_write=self._write_hook(life)
            )
            self._journal = journal
            agent = self.agent_type(self._parts(life, journal))
            self._made(agent)
            agent.replay()
            await agent.runner.recover()
            if self.starts > 1 and self.chance.happens(self.plan.compacts):
                await agent.compact()
            async with asyncio.TaskGroup() as group:
                group.create_task(agent.run())
                group.create_task(agent.runner.follow_tasks())
                self.agent = agent
        except* JournalFailed as faults:
            self.frame.event_log.tell(self.name, "ends: {}", faults.exceptions[0])
        except* Exception as faults:
            self.frame.event_log.broken(
                "no defects", f"{self.name} ends by {first_fault(faults)}", self.name
            )
        self.crash()
        self.frame.restart_later(self, RESTART_AFTER_FAULT_S)

    def _made(self, agent: NodeAgent) -> None:
        """For sites whose agents are not as others are."""

    def _parts(self, life: SimulatedProcess, journal: MemoryJournal) -> AgentParts:
        """The parts that ``agents.daemon.build_parts`` makes, in their simulated form."""
        plan = self.plan
        calendar = self.calendar_type(
            plan.name,
            [ResourceClass(name=CLASS_NAME, nodes=plan.nodes)],
            rules=plan.rules,
            tariff=FlatTariff(HOUR_PRICE),
            epoch=self.ids.new_id("epoch"),
        )
        nodes = tuple(NodeDescription(name=f"{CLASS_NAME}-{i}") for i in range(plan.nodes))
        itself = Caller(subject=f"site:{plan.name}", role=Role.SITE, site=plan.name)

        # A clock that is behind may stand before 1970 when the world begins.
        card = self.frame.cards.issue(self.name, endpoint_of(self.name), max(0, self.clock.now()))

        def connect(site: str, endpoint: str) -> SiteConnection:
            return SimulatedConnection(self.frame.network, life, self.clock, site, itself)

        return AgentParts(
            calendar=calendar,
            scheduler=site_scheduler(calendar, SchedulerConfig()),
            jobs=JobTable(plan.name),
            journal=journal,
            resource_manager=SimulatedResourceManager(machine=self.machine, nodes=nodes),
            clock=self.clock,
            port_pool=PortPool(plan.name, range(21_000, 21_100)),
            work_dirs=PathsOnly(Path("/nowhere"), owned_by_login=False, files=AccountFiles()),
            ladder=LADDER,
            published_horizon_s=plan.rules.horizon_s,
            time_zone="UTC",
            kill_grace_s=5.0,
            login_of=login_of,
            connect=connect,
            cards=self.frame.cards,
            own_card=lambda: card,
            ledger=self.accounts,
        )

    # -- for the checkers --------------------------------------------------------------------------

    @property
    def has_clock_steps(self) -> bool:
        """True when somebody sets its clock meanwhile."""
        return bool(self.plan.clock_steps)

    def restarted(self) -> NodeAgent:
        """An agent beside the living one, started from a copy of the disk."""
        assert self.agent is not None, "only beside one that lives"
        disk = Disk(ids=SeededIds(0))
        disk.records = list(self.disk.records)
        live = self.agent.parts
        calendar = self.calendar_type(
            self.name,
            [ResourceClass(name=CLASS_NAME, nodes=self.plan.nodes)],
            rules=live.calendar.rules,
        )
        twin = self.agent_type(
            replace(
                live,
                calendar=calendar,
                scheduler=site_scheduler(calendar, SchedulerConfig()),
                jobs=JobTable(self.name),
                journal=MemoryJournal(disk),
                ledger=None,
            )
        )
        twin.replay()
        return twin

    def uses(self) -> list[MachineUse]:
        """Every task that began, as the machine knows it."""
        found = []
        for job_id, launch in self.machine.launches.items():
            task = self.machine.task(job_id)
            if task.started is None:
                continue
            ended = task.ended.at if task.ended is not None else self.clock.now_precise()
            found.append(
                MachineUse(
                    job_id=job_id, begun=task.started.at, ended=ended, nodes=launch.node_names
                )
            )
        return found

    # -- the machine and the disk ------------------------------------------------------------------

    def run_of(self, launch: Launch) -> SimulatedRun:
        """What a task does: the world knows, and draws it from the task's name alone."""
        chance = self.chance.child(launch.job_id)
        limit_s = launch.limit_s if launch.limit_s is not None else 60.0
        if chance.happens(self.plan.runs_short):
            return SimulatedRun(run_s=chance.seconds(1.0, max(1.0, limit_s)))
        return SimulatedRun(run_s=10 * limit_s, heeds_term=chance.happens(0.8))

    def _write_delay_s(self) -> float:
        return self.write_s

    def _write_hook(self, life: SimulatedProcess) -> Any:
        def hook(stage: WriteStage, records: Sequence[Record]) -> None:
            if stage is WriteStage.BEFORE:
                if life.passes(PointKind.WRITE_BEFORE) and self.disk_is_full:
                    self.frame.event_log.fault("full disk", self.name, "no room for a write")
                    raise OSError(errno.ENOSPC, "no space left on device")
                return
            self.ledger.written(records)
            life.passes(PointKind.WRITE_AFTER)

        return hook

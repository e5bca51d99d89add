"""A small grid in one process and in virtual time, under the real command lines.

Sites ``alpha``, ``beta`` and ``gamma`` and the manager ``north`` over the last two are the
production classes on simulated disks and machines; connections go through the codec. While a scene
is *open*, ``gur`` and ``catalina`` reach these sites, the system's clock shows the scene's time,
and ids come from a seed: the same words always have the same answer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from gridtravel.agents.agent_parts import AgentParts
from gridtravel.agents.jobs.work_dirs import WorkDirs
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.agents.maintenance_rules import MaintenanceRules
from gridtravel.agents.node_agent import NodeAgent
from gridtravel.agents.trips.port_pool import PortPool
from gridtravel.gridcore.booking.calendar_rules import CalendarRules, FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Reservation, ReservationRequest
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.ports import SiteServices
from gridtravel.gridcore.timing.timetext import find_zone
from gridtravel.gridio.journal.contract import Journal
from gridtravel.gridio.journal.memory import Disk, MemoryJournal
from gridtravel.gridio.rpc.inproc import InprocSite
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import Clock, SystemClock
from gridtravel.gridio.system.ids import RandomIds, SeededIds
from gridtravel.gridio.system.notify import RecordingNotifier
from gridtravel.gridio.trust.cards import SharedKeyCards
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.catalina import shell
from gridtravel.local_sched.catalina.session import Session, session_on
from gridtravel.local_sched.reservations.user_reservations import (
    AccountLimits,
    UserReservationLimits,
)
from gridtravel.local_sched.resource_managers.base import Launch, NodeDescription
from gridtravel.local_sched.resource_managers.simulated import (
    SimulatedMachine,
    SimulatedResourceManager,
    SimulatedRun,
)
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.priority import PriorityRule, by_priority
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler
from gridtravel.manager.book.decisions import ManagerRules
from gridtravel.manager.calendar_manager import CalendarManager
from gridtravel.manager.core import ManagerParts
from gridtravel.manager.shadows.children import Child
from gridtravel.simulator.kernel.virtual_clock import VirtualClock
from gridtravel.simulator.kernel.virtual_loop import VirtualLoop
from gridtravel.travel_agent import composition
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.sites.config import MachineEntry, load_grid_config

T = TypeVar("T")

CLASSES: Final[Mapping[str, tuple[ResourceClass, ...]]] = {
    "alpha": (
        ResourceClass(name="thin", nodes=6),
        ResourceClass(name="fat", nodes=2, features=("mem",)),
    ),
    "beta": (ResourceClass(name="node", nodes=8),),
    "gamma": (ResourceClass(name="node", nodes=4),),
}
PRICES: Final = {"alpha": 36_000, "beta": 18_000, "gamma": 54_000}
ZONES: Final = {"alpha": "America/Los_Angeles", "beta": "Europe/London", "gamma": "UTC"}
MANAGER: Final = "north"
BELOW_MANAGER: Final = ("beta", "gamma")
USERS: Final = ("ada", "grace")
ADMIN: Final = "root"
RULES: Final = CalendarRules(horizon_s=30 * 86_400)
LADDER: Final = SlotLadder.parse("32x60, 32x960, *x15360")
PUBLISHED_S: Final = 2 * 86_400
LIMITS: Final = UserReservationLimits(
    default=AccountLimits(reservations_max=5, nodes_max=6, duration_max_s=86_400),
    window_node_seconds_max=400_000,
)
SITES_TOML: Final = "".join(
    f'[machines.{name}-machine]\nsite = "{name}"\nendpoint = "{name}.example.org:7101"\n{more}\n'
    for name, more in ((*((each, "") for each in CLASSES), (MANAGER, "is_manager = true\n")))
)
FIRST_COME: Final = SchedulerConfig()
BY_PRIORITY: Final = SchedulerConfig(order=by_priority(PriorityRule()))
JOB_S: Final = 45.0
"""How long a job runs unless the scene says otherwise."""


def subject_of(login: str) -> str:
    """The subject of a user's certificate."""
    return f"/O=grid/OU=users/CN={login}"


def login_of(subject: str) -> str | None:
    """Every site's grid-mapfile."""
    return {subject_of(each): each for each in (*USERS, ADMIN)}.get(subject)


def no_way(site: str, endpoint: str) -> SiteConnection:
    """Nobody else is there."""
    raise UnavailableError(f"no way to {site} at {endpoint}")


def built_agent(
    name: str,
    journal: Journal,
    clock: Clock,
    folder: Path,
    *,
    connect: Callable[[str, str], SiteConnection] = no_way,
    machine: SimulatedMachine | None = None,
    config: SchedulerConfig = FIRST_COME,
) -> NodeAgent:
    """The agent of one site, empty."""
    calendar = Calendar(
        name,
        CLASSES[name],
        rules=RULES,
        tariff=FlatTariff(PRICES[name]),
        epoch=f"epoch-of-{name}",
    )
    nodes = tuple(
        NodeDescription(name=f"{each.name}-{number}", features=each.features)
        for each in CLASSES[name]
        for number in range(each.nodes)
    )
    machine = machine or SimulatedMachine(clock=clock, run_of=lambda _: SimulatedRun(run_s=JOB_S))
    return NodeAgent(
        AgentParts(
            calendar=calendar,
            scheduler=site_scheduler(calendar, config),
            jobs=JobTable(name),
            journal=journal,
            resource_manager=SimulatedResourceManager(machine=machine, nodes=nodes),
            clock=clock,
            port_pool=PortPool(f"10.0.0.{len(name)}", range(21_000, 21_100)),
            work_dirs=WorkDirs(folder, owned_by_login=False, files=AccountFiles()),
            ladder=LADDER,
            published_horizon_s=PUBLISHED_S,
            time_zone=ZONES[name],
            kill_grace_s=1.0,
            login_of=login_of,
            connect=connect,
            cards=CARDS,
            own_card=lambda: CARDS.issue(name, f"{name}.example.org:7101", 0),
            limits=LIMITS,
            maintenance=MaintenanceRules(),
            notifier=RecordingNotifier(),
        )
    )


def built_manager(
    journal: Journal, clock: Clock, connections: Mapping[str, SiteConnection]
) -> CalendarManager:
    """The manager over these connections, empty."""
    return CalendarManager(
        ManagerParts(
            name=MANAGER,
            children=[
                Child(name, each, is_manager=False, answer_within_s=5.0)
                for name, each in connections.items()
            ],
            journal=journal,
            clock=clock,
            ids=SeededIds(3),
            rules=ManagerRules(calendar=RULES),
            ladder=LADDER,
            published_horizon_s=PUBLISHED_S,
            subject_of=lambda caller: caller.subject,
            connect=no_way,
            cards=CARDS,
        )
    )


CARDS: Final = SharedKeyCards(b"the authority of the scene")


class GridScene:
    """See the module; ``open_scene`` gives it out."""

    def __init__(self, folder: Path, config: SchedulerConfig) -> None:
        self.folder = folder
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.ids = SeededIds(7)
        self.disks = {name: Disk(ids=SeededIds(len(name))) for name in (*CLASSES, MANAGER)}
        self.runs: dict[str, SimulatedRun] = {}
        """What a job does, by its name; others run ``JOB_S`` seconds."""
        self.away: set[str] = set()
        """Sites that cannot be reached."""
        self.at_verb: dict[str, Callable[[], None]] = {}
        """Done once, when a port is asked for that verb next."""
        self.caller = self.local("ada")
        """Who types at ``alpha``."""
        self._numbers = itertools.count(1)
        self.agents = {
            name: built_agent(
                name,
                MemoryJournal(self.disks[name]),
                self.clock,
                folder / "areas" / name,
                connect=self._between_sites(name),
                machine=SimulatedMachine(clock=self.clock, run_of=self._run_of),
                config=config,
            )
            for name in CLASSES
        }
        itself = Caller(subject=f"/O=grid/OU=managers/CN={MANAGER}", role=Role.MANAGER)
        self.manager = built_manager(
            MemoryJournal(self.disks[MANAGER]),
            self.clock,
            {name: self.way(name, itself) for name in BELOW_MANAGER},
        )
        (folder / "areas").mkdir(parents=True)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work while the sites go on with theirs."""
        return self.loop.run_until_complete(work)

    def passes(self, seconds: float) -> None:
        """Time passes, and nobody types anything."""
        self.run(self.clock.sleep_until(self.clock.now_precise() + seconds))

    def way(self, name: str, caller: Caller) -> SiteConnection:
        """A connection to a site or the manager."""
        services: SiteServices = _Reachable(self, name)
        return InprocSite(services, caller, through_codec=True, clock=self.clock, name=name)

    def user(self, login: str = "ada") -> Caller:
        """Somebody from outside, by certificate."""
        return Caller(subject=subject_of(login), login=login)

    def local(self, login: str) -> Caller:
        """Somebody at the site, by login."""
        role = Role.ADMIN if login == ADMIN else Role.USER
        return Caller(subject=f"login:{login}", login=login, role=role)

    def write(self, site: str, area: str, path: str, text: str) -> None:
        """What a job leaves behind."""
        target = self.folder / "areas" / site / area / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def occupy(self, site: str, nodes: int, after_s: int, duration_s: int) -> None:
        """The site keeps nodes for itself."""
        start = self.clock.now() + after_s
        request = ReservationRequest(
            request_id=self.ids.new_id("own"),
            account="system",
            nodes_min=nodes,
            nodes_max=nodes,
            duration_s=duration_s,
            earliest_start=start,
            latest_end=start + duration_s,
        )
        port = self.way(site, self.local(ADMIN)).site
        answer = self.run(port.set_reservation(request, is_dry_run=False))
        assert isinstance(answer, Reservation), answer

    def laptop(self, config: Path, state: Path, **options: Any) -> TravelAgent:
        """``gur``'s travel agent for the user of a list of machines."""
        search = options.get("search")
        settings = load_grid_config(config)

        def connect(entry: MachineEntry) -> SiteConnection:
            return self.way(entry.site, self.user())

        return TravelAgent(
            settings if search is None else replace(settings, search=search),
            state,
            connect,
            clock=self.clock,
            ids=self.ids,
            notifier=RecordingNotifier(),
        )

    def start(self) -> None:
        """Everybody begins to serve."""
        self.run(self._start())
        self.passes(1)

    def end(self) -> None:
        """Nobody serves any more."""
        self.loop.is_ending = True
        tasks = self.loop.tasks()
        for task in tasks:
            task.cancel()
        self.run(_all_of(tasks))
        self.run(self.loop.shutdown_asyncgens())
        self.loop.close()

    async def _start(self) -> None:
        for agent in self.agents.values():
            agent.replay()
            await agent.runner.recover()
            for work in (agent.run(), agent.runner.follow_tasks()):
                self.loop.create_task(work)
        self.manager.replay()
        self.loop.create_task(self.manager.run())

    def _run_of(self, launch: Launch) -> SimulatedRun:
        name = launch.environment.get("NAME", "")
        return self.runs.get(name, SimulatedRun(run_s=JOB_S, stdout=b"begun\ndone\n"))

    def _between_sites(self, asking: str) -> Callable[[str, str], SiteConnection]:
        caller = Caller(subject=f"site:{asking}", role=Role.SITE, site=asking)
        return lambda site, endpoint: self.way(site, caller)


class _Reachable:
    """A site's or the manager's services, as long as they can be reached."""

    def __init__(self, scene: GridScene, name: str) -> None:
        self._scene = scene
        self._name = name
        if name != MANAGER:
            self.site_port = self._site_port

    def calendar_port(self, caller: Caller) -> Any:
        scene = self._scene
        services = scene.manager if self._name == MANAGER else scene.agents[self._name]
        return _Port(scene, self._name, services.calendar_port(caller))

    def _site_port(self, caller: Caller) -> Any:
        scene = self._scene
        return _Port(scene, self._name, scene.agents[self._name].site_port(caller))


class _Port:
    def __init__(self, scene: GridScene, name: str, port: Any) -> None:
        self._scene = scene
        self._name = name
        self._port = port

    def __getattr__(self, verb: str) -> Any:
        self._scene.at_verb.pop(verb, lambda: None)()
        if self._name not in self._scene.away:
            return getattr(self._port, verb)

        async def refuse(*_: object, **__: object) -> None:
            raise UnavailableError(f"{self._name} is away")

        return refuse


async def _all_of(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _do_soon(
    pool: ThreadPoolExecutor, work: Callable[..., T], /, *words: Any, **named: Any
) -> Future[T]:
    """In place of a thread, of which virtual time has none: at the loop's next turn."""
    done: Future[T] = Future()

    def do() -> None:
        try:
            done.set_result(work(*words, **named))
        except Exception as fault:
            done.set_exception(fault)

    asyncio.get_running_loop().call_soon(do)
    return done


@contextmanager
def open_scene(
    folder: Path, monkeypatch: pytest.MonkeyPatch, config: SchedulerConfig = FIRST_COME
) -> Iterator[GridScene]:
    """A grid that serves, and command lines that lead to it. ``config``: the schedulers'."""
    scene = GridScene(folder, config)
    clock, ids = scene.clock, scene.ids
    monkeypatch.setattr(asyncio, "run", scene.run)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", _do_soon)
    monkeypatch.setattr(SystemClock, "now", lambda _: clock.now())
    monkeypatch.setattr(SystemClock, "now_precise", lambda _: clock.now_precise())
    monkeypatch.setattr(SystemClock, "sleep_until", lambda _, instant: clock.sleep_until(instant))
    monkeypatch.setattr(RandomIds, "new_id", lambda _, prefix: ids.new_id(prefix))
    monkeypatch.setattr(RandomIds, "new_serial", lambda _: ids.new_serial())
    machines, state = folder / "sites.toml", folder / "laptop"
    machines.write_text(SITES_TOML, encoding="utf-8")
    monkeypatch.setenv("GUR_CONFIG", str(machines))
    monkeypatch.setenv("GUR_STATE", str(state))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(
        composition, "open_travel_agent", lambda **options: scene.laptop(machines, state, **options)
    )

    @asynccontextmanager
    async def open_session(
        socket: str, zone_name: str, environment: Mapping[str, str]
    ) -> AsyncIterator[Session]:
        zone = find_zone(zone_name) if zone_name else None
        yield await session_on(scene.way("alpha", scene.caller), zone, ids.new_id)

    monkeypatch.setattr(shell, "open_session", open_session)
    scene.start()
    try:
        yield scene
    finally:
        scene.end()

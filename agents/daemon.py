"""One node agent as a process: the composition of real adapters, from start to a clean stop.

``run_agent`` is what ``gurd agent`` calls. It prints ``ready <endpoint>`` when it serves, keeps the
endpoint in ``<state>/endpoint``, reloads the grid-mapfile on SIGHUP, and on SIGTERM stops without
touching the tasks: they run on, and the next start finds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import pwd
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from gridtravel.agents.agent_parts import AgentParts
from gridtravel.agents.config.checks import (
    AREAS_FOLDER,
    ENDPOINT_FILE,
    JOURNAL_FILE,
    LEDGER_FILE,
    TASKS_FOLDER,
    check_site,
)
from gridtravel.agents.config.limit_tables import MIB, disk_reserve
from gridtravel.agents.config.site_file import SiteConfig
from gridtravel.agents.config.state_folder import check_logins, make_state_folder
from gridtravel.agents.jobs.work_dirs import WorkDirs
from gridtravel.agents.journal.events import NumbersGiven
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.agents.node_agent import NodeAgent
from gridtravel.agents.own_card import OwnCard
from gridtravel.agents.trips.port_pool import PortPool
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.ledger.ledger import Ledger
from gridtravel.gridio.rpc.client.grpc_site import connect_to_site
from gridtravel.gridio.rpc.server.front_door import Admitting
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.rpc.server.peers import Peer, map_caller
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.sites.neighbours import Connect
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.terminal.text import say
from gridtravel.gridio.trust.cards import CardVerifier, CertifiedCards
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.gridmap import GridMap, load_grid_map
from gridtravel.gridio.trust.quotes import CertifiedQuotes, QuoteSigner
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.accounts.run_accounts import RunAs
from gridtravel.local_sched.resource_managers.base import NodeDescription, ResourceManager
from gridtravel.local_sched.resource_managers.host import HostResourceManager
from gridtravel.local_sched.resource_managers.slurm import SlurmResourceManager
from gridtravel.local_sched.resource_managers.slurm_commands import SlurmCommands
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler

log = logging.getLogger(__name__)

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class GridMapKeeper:
    """The grid-mapfile in force; a broken new version leaves the old one in force, and so does one
    with a login whose jobs could not run.
    """

    def __init__(
        self, path: Path, grid_map: GridMap, check: Callable[[GridMap], Awaitable[list[str]]]
    ) -> None:
        """``grid_map``: as it was read and checked at the start. ``check``: what is to be noted of
        another map's logins; it raises where one is not taken.
        """
        self._path = path
        self._check = check
        self._reading = asyncio.Lock()
        self.grid_map = grid_map

    async def reload(self) -> None:
        """Read the file again."""
        async with self._reading:
            try:
                found = load_grid_map(self._path)
                notes = await self._check(found)
            except GridError as fault:
                log.error("the grid-mapfile is not taken: %s", fault)
                return
            self.grid_map = found
            for note in notes:
                log.warning("%s", note)
            log.info("the grid-mapfile was read again")


async def run_agent(config: SiteConfig) -> None:
    """Serve until SIGTERM or SIGINT. Faults of configuration and credentials are raised before
    anything listens.
    """
    clock = SystemClock()
    files = AccountFiles()
    run_as = RunAs(config.file.host.run_as)

    async def check(grid_map: GridMap) -> list[str]:
        return await check_logins(config.state, run_as, grid_map.logins(), files)

    try:
        ready = await check_site(config, clock.now(), files)
        for note in ready.notes:
            log.warning("%s", note)
        maps = GridMapKeeper(config.grid_mapfile, ready.grid_map, check)
        await _run(config, clock, ready.credential, maps, files)
    finally:
        files.close()


async def _run(
    config: SiteConfig,
    clock: SystemClock,
    credential: Credential,
    maps: GridMapKeeper,
    files: AccountFiles,
) -> None:
    """The book is opened, and the agent serves."""
    run_as = RunAs(config.file.host.run_as)
    make_state_folder(config.state, run_as, JOURNAL_FILE)
    room_mib = config.file.disk.journal_room_mib
    journal = SqliteJournal(
        config.state / JOURNAL_FILE, room_bytes=None if room_mib is None else room_mib * MIB
    )
    ledger = Ledger(config.state / LEDGER_FILE) if config.file.ledger.enabled else None
    try:

        def connect(site: str, endpoint: str) -> SiteConnection:
            return connect_to_site(site, endpoint, credential, clock)

        own_card = OwnCard(
            credential, advertise=config.file.site.advertise, listen=config.file.site.listen
        )
        cards = CertifiedCards(credential)
        parts = build_parts(
            config,
            journal,
            clock,
            maps,
            connect,
            files,
            cards,
            own_card,
            ledger=ledger,
            quote_signer=CertifiedQuotes(credential),
        )
        agent = NodeAgent(parts)
        count = agent.replay()
        if journal.was_rewound:
            log.critical("the journal is older than what was promised: promises may be forgotten")
            await _pass_over_names(agent, journal.forgotten_most)
        log.info("read %d records", count)
        admins = config.file.site.admins
        # Whoever runs the daemon can do all it can anyway; over the network that proves nothing.
        local_admins = [*admins, *_own_login()]

        def identify(peer: Peer) -> Caller:
            return map_caller(peer, maps.grid_map, local_admins if peer.login else admins)

        limits, note = config.file.connections.limits_here()
        if note:
            log.warning("%s", note)
        server = GridServer(
            agent,
            identify,
            address=config.file.site.listen,
            credential=credential,
            local=LocalSocket(path=config.socket, group=config.file.site.socket_group),
            admitting=Admitting(limits=limits, admins=admins),
            site=config.name,
            clock=clock,
        )
        await _serve(agent, server, config, maps, own_card)
    except (OSError, ExceptionGroup) as fault:
        refused = _lack_of_room(fault)
        if refused is None:
            raise
        raise UnavailableError(
            f"there is no room left for the files of {config.name}: {refused}",
            hint=f"free some space where {config.state} lies, then start again",
        ) from fault
    finally:
        journal.close()
        if ledger is not None:
            ledger.close()


def _lack_of_room(fault: BaseException) -> OSError | None:
    """What the system said when a disk was full, also from inside a group of tasks."""
    if isinstance(fault, OSError):
        return fault if fault.errno in NO_ROOM else None
    inner = fault.exceptions if isinstance(fault, BaseExceptionGroup) else ()
    return next((each for each in map(_lack_of_room, inner) if each is not None), None)


async def _pass_over_names(agent: NodeAgent, most: int) -> None:
    """What was promised under a name and is forgotten must not be taken for something new: whoever
    releases the one would end the other.
    """
    numbers = NumbersGiven(
        reservations=agent.calendar.ids_given + most, jobs=agent.jobs.ids_given + most
    )
    await agent.record([numbers]).durable()


def build_parts(
    config: SiteConfig,
    journal: SqliteJournal,
    clock: SystemClock,
    maps: GridMapKeeper,
    connect: Connect,
    files: AccountFiles,
    cards: CardVerifier,
    own_card: Callable[[], str],
    *,
    ledger: Ledger | None = None,
    quote_signer: QuoteSigner | None = None,
) -> AgentParts:
    """The agent's parts as the configuration wants them, all empty."""
    # A new epoch each start: what the queue books is not journaled, so version numbers may repeat.
    epoch = RandomIds(clock).new_id("epoch")
    calendar = Calendar(
        config.name,
        config.classes,
        rules=config.rules,
        tariff=config.tariff,
        epoch=epoch,
        slot_rule=config.slot_rule,
    )
    nodes = tuple(
        NodeDescription(name=f"{each.name}-{number}", features=each.features)
        for each in config.all_classes
        for number in range(each.nodes)
    )
    reserve = disk_reserve(config.state, config.file.disk)
    own = config.task_limits.default
    limits = replace(
        config.task_limits, default=replace(own, disk_free_min_bytes=reserve.free_bytes or None)
    )
    return AgentParts(
        calendar=calendar,
        scheduler=site_scheduler(
            calendar,
            config.scheduler,
            shortpools=config.shortpools,
            shared=[each.make() for each in config.shared.values()],
        ),
        jobs=JobTable(config.name),
        journal=journal,
        resource_manager=_back_end(config, clock, nodes, files),
        clock=clock,
        port_pool=PortPool(config.file.site.contact_host, config.contact_ports),
        work_dirs=WorkDirs(
            config.state / AREAS_FOLDER,
            owned_by_login=config.file.host.run_as == RunAs.LOGIN.value,
            files=files,
            reserve=reserve,
            site=config.name,
        ),
        ladder=config.ladder,
        published_horizon_s=config.file.calendar.published_horizon_s,
        time_zone=config.file.site.time_zone,
        kill_grace_s=config.file.queue.kill_grace_s,
        login_of=lambda subject: maps.grid_map.login_of(subject),
        accounts_of=lambda subject: maps.grid_map.accounts_of(subject),
        limits=config.file.reservations.limits(),
        task_limits=limits,
        maintenance=config.maintenance,
        notifier=config.notifier,
        connect=connect,
        cards=cards,
        own_card=own_card,
        ledger=ledger,
        quote_signer=quote_signer,
        quotes_hold_s=config.file.prices.quotes_hold_s,
    )


def _back_end(
    config: SiteConfig,
    clock: SystemClock,
    nodes: tuple[NodeDescription, ...],
    files: AccountFiles,
) -> ResourceManager:
    """What runs the site's tasks: this machine, or the Slurm of ``[slurm]``."""
    root, run_as = config.state / TASKS_FOLDER, RunAs(config.file.host.run_as)
    slurm = config.file.slurm
    if slurm is None:
        return HostResourceManager(
            root=root,
            clock=clock,
            nodes=nodes,
            files=files,
            run_as=run_as,
            control_groups=config.file.host.control_groups,
            shared_nodes=[name for each in config.shared.values() for name in each.node_names],
        )
    return SlurmResourceManager(
        root=root,
        clock=clock,
        nodes=nodes,
        commands=SlurmCommands(
            conf=config.path.parent / slurm.conf if slurm.conf else None, partition=slurm.partition
        ),
        slurm_names={each.name: name for each, name in zip(nodes, slurm.nodes, strict=True)},
        files=files,
        run_as=run_as,
    )


def _own_login() -> list[str]:
    """The login that the daemon runs as, where its number has a name."""
    with contextlib.suppress(KeyError):
        return [pwd.getpwuid(os.geteuid()).pw_name]
    return []


async def _serve(
    agent: NodeAgent,
    server: GridServer,
    config: SiteConfig,
    maps: GridMapKeeper,
    own_card: OwnCard,
) -> None:
    """Everything that runs until the daemon is told to stop, or one of its parts fails."""
    endpoint_file = config.state / ENDPOINT_FILE
    await agent.runner.recover()
    tasks: list[asyncio.Task[None]] = [
        asyncio.create_task(agent.run(), name="time"),
        asyncio.create_task(agent.runner.follow_tasks(), name="tasks"),
    ]
    try:
        async with server:
            own_card.issue(server.port, agent.clock.now())
            endpoint_file.write_text(server.endpoint + "\n", encoding="utf-8")
            say(f"ready {server.endpoint}")
            with _told_to_stop(maps) as stop:
                tasks.append(asyncio.create_task(_wait(stop), name="stop"))
                await _first_of(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await agent.parts.resource_manager.close()
        endpoint_file.unlink(missing_ok=True)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _first_of(tasks: list[asyncio.Task[None]]) -> None:
    """Return when the first task returns; raise what it raised."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish(task: asyncio.Task[None]) -> None:
        if done.done():
            return
        fault = None if task.cancelled() else task.exception()
        if fault is None:
            done.set_result(None)
        else:
            done.set_exception(fault)

    for task in tasks:
        task.add_done_callback(finish)
    await done


@contextlib.contextmanager
def _told_to_stop(maps: GridMapKeeper) -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set; SIGHUP reloads the grid-mapfile."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    readings: set[asyncio.Task[None]] = set()

    def read_again() -> None:
        reading = asyncio.create_task(maps.reload(), name="grid-mapfile")
        readings.add(reading)
        reading.add_done_callback(readings.discard)

    loop.add_signal_handler(signal.SIGHUP, read_again)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
        for reading in readings:
            reading.cancel()

"""One calendar manager as a process: the composition of real adapters, from start to a clean stop.

``run_manager`` is what ``gurd manager`` calls. It prints ``ready <endpoint>`` when it serves, keeps
the endpoint in ``<state>/endpoint``, reloads the grid-mapfile on SIGHUP, and stops on SIGTERM; what
it had decided and not yet carried out everywhere goes on with the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import GridError, NotAuthorisedError
from gridtravel.gridio.journal.contract import Journal, JournalFailed
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite, connect_to_site
from gridtravel.gridio.rpc.server.front_door import Admitting
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.rpc.server.peers import Peer, map_caller
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.terminal.text import say
from gridtravel.gridio.trust.cards import CertifiedCards
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.gridmap import GridMap, load_grid_map
from gridtravel.gridio.trust.identity import Role
from gridtravel.manager.book.events import AccountsCarried
from gridtravel.manager.calendar_manager import CalendarManager
from gridtravel.manager.checks import (
    ENDPOINT_FILE,
    JOURNAL_FILE,
    SOCKET_FILE,
    check_manager,
)
from gridtravel.manager.config import ManagerConfig
from gridtravel.manager.core import ManagerParts
from gridtravel.manager.shadows.children import Child

log = logging.getLogger(__name__)


class KnownCallers:
    """The grid-mapfile in force; a broken new version leaves the old one in force."""

    def __init__(self, path: Path, grid_map: GridMap, admins: Sequence[str]) -> None:
        self._path = path
        self._admins = admins
        self._map = grid_map

    def reload(self) -> None:
        """Read the file again."""
        try:
            self._map = load_grid_map(self._path)
        except GridError as fault:
            log.error("the grid-mapfile is not taken: %s", fault)
        else:
            log.info("the grid-mapfile was read again")

    def identify(self, peer: Peer) -> Caller:
        """Who is asking, as this manager maps it."""
        return map_caller(peer, self._map, self._admins)

    def subject_of(self, caller: Caller) -> str:
        """Under which subject the children can know the caller: for a local login, the first one
        that the file maps to it.
        """
        if not caller.subject.startswith("login:"):
            return caller.subject
        subjects = self._map.subjects_of(caller.login)
        if not subjects:
            raise NotAuthorisedError(
                f"{caller.login} has no certificate that the sites below could know",
                hint="ask the manager for an entry in its grid-mapfile",
            )
        return subjects[0]


async def run_manager(config: ManagerConfig) -> None:
    """Serve until SIGTERM or SIGINT. Faults of configuration and credentials are raised before
    anything listens.
    """
    clock = SystemClock()
    ready = check_manager(config, clock.now())
    credential = ready.credential
    for note in ready.notes:
        log.warning("%s", note)
    config.state.mkdir(parents=True, mode=0o700, exist_ok=True)
    callers = KnownCallers(config.grid_mapfile, ready.grid_map, config.file.manager.admins)
    journal = SqliteJournal(config.state / JOURNAL_FILE)
    try:
        manager = CalendarManager(build_parts(config, journal, clock, credential, callers))
        count = manager.replay()
        if journal.was_rewound:
            log.critical("the journal is older than what was promised: promises may be forgotten")
            # What was promised under a name and is forgotten must not be taken for something new.
            passed = manager.book.opened + journal.forgotten_most
            await manager.record(
                [AccountsCarried(groups_opened=passed, accounts=())], True
            ).durable()
        log.info("read %d records", count)
        table = config.file.manager
        limits, note = config.file.connections.limits_here()
        if note:
            log.warning("%s", note)
        server = GridServer(
            manager,
            callers.identify,
            address=table.listen,
            credential=credential,
            local=LocalSocket(path=config.state / SOCKET_FILE, group=table.socket_group),
            admitting=Admitting(limits=limits, admins=table.admins),
            site=config.name,
            clock=clock,
        )
        await _serve(manager, server, config, callers)
    finally:
        journal.close()


def build_parts(
    config: ManagerConfig,
    journal: Journal,
    clock: SystemClock,
    credential: Credential,
    callers: KnownCallers,
) -> ManagerParts:
    """The manager's parts as the configuration wants them."""

    def connect(site: str, endpoint: str) -> SiteConnection:
        return connect_to_site(site, endpoint, credential, clock)

    children = [
        Child(
            each.name,
            GrpcSite(
                each.endpoint,
                credential,
                site=each.name,
                role=Role.MANAGER if each.kind == "manager" else Role.SITE,
                clock=clock,
            ),
            is_manager=each.kind == "manager",
            answer_within_s=each.patience_s,
        )
        for each in config.file.children
    ]
    above = config.file.parent
    parent: Child | None = None
    if above is not None:
        parent = Child(
            above.name,
            GrpcSite(above.endpoint, credential, site=above.name, role=Role.MANAGER, clock=clock),
            is_manager=True,
            answer_within_s=above.answer_within_s,
        )
    return ManagerParts(
        name=config.name,
        children=children,
        journal=journal,
        clock=clock,
        ids=RandomIds(clock),
        rules=config.rules,
        ladder=config.ladder,
        published_horizon_s=config.file.calendar.published_horizon_s,
        subject_of=callers.subject_of,
        connect=connect,
        cards=CertifiedCards(credential),
        keeper_rules=config.keeper_rules,
        shadow_age_max_s=config.file.calendar.shadow_age_max_s,
        time_zone=config.file.manager.time_zone,
        parent=parent,
        patience_s=above.patience_s if above is not None else 0,
    )


async def _serve(
    manager: CalendarManager, server: GridServer, config: ManagerConfig, callers: KnownCallers
) -> None:
    """Everything that runs until the daemon is told to stop, or its journal fails."""
    endpoint_file = config.state / ENDPOINT_FILE
    work = asyncio.create_task(manager.run(), name="manager")
    try:
        async with server:
            endpoint_file.write_text(server.endpoint + "\n", encoding="utf-8")
            say(f"ready {server.endpoint}")
            with _told_to_stop(callers) as stop:
                work.add_done_callback(lambda _: stop.set())
                await stop.wait()
    finally:
        work.cancel()
        results = await asyncio.gather(work, return_exceptions=True)
        neighbours = [*manager.keeper.children.values(), *filter(None, [manager.keeper.parent])]
        closing = [each.connection.close() for each in neighbours]
        await asyncio.gather(*closing)
        endpoint_file.unlink(missing_ok=True)
    for fault in results:
        if isinstance(fault, ExceptionGroup):
            failed = fault.subgroup(JournalFailed)
            raise _first_of(failed) if failed is not None else fault
        if isinstance(fault, Exception):
            raise fault


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single fault in a group."""
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


@contextlib.contextmanager
def _told_to_stop(callers: KnownCallers) -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set; SIGHUP reloads the grid-mapfile."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, callers.reload)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)

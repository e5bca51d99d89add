"""Whether a manager's daemon would start with a configuration: what it leads to on this machine,
said of the keys that lead there.

``gurd check-config`` and ``gurd manager`` ask the same, so what the one calls good the other starts
(docs/decisions/0032). ``config`` has judged the words before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.config_file import at_key
from gridtravel.gridio.daemon_checks import (
    check_listen,
    check_state_folder,
    prove,
    split_listen,
)
from gridtravel.gridio.journal.lock import is_owned
from gridtravel.gridio.rpc.client.diagnosis import split_endpoint
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.gridmap import GridMap, load_grid_map
from gridtravel.gridio.trust.identity import Role
from gridtravel.manager.config import ManagerConfig

ENDPOINT_FILE: Final = "endpoint"
JOURNAL_FILE: Final = "manager.journal"
SOCKET_FILE: Final = "manager.sock"
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerReady:
    """A daemon could start: what was read on the way, and what will not work nevertheless."""

    credential: Credential
    grid_map: GridMap
    notes: tuple[str, ...]


def check_manager(config: ManagerConfig, now: Instant) -> ManagerReady:
    """Everything that would end ``gurd manager`` before it serves; a fault has file, line and key.

    Where a daemon serves with this state folder, its own address and socket are not asked for.
    """
    table = config.file.manager
    with config.source.told():
        with at_key("manager", "state"):
            check_state_folder(
                config.state, files=(JOURNAL_FILE, f"{JOURNAL_FILE}.lock", ENDPOINT_FILE)
            )
        is_served = is_owned(config.state / JOURNAL_FILE)
        with at_key("manager", "credential"):
            credential = prove(config.credential, Role.MANAGER, config.name, now)
        with at_key("manager", "grid_mapfile"):
            grid_map = load_grid_map(config.grid_mapfile)
        with at_key("manager", "listen"):
            check_listen(table.listen, is_served=is_served)
        with at_key("manager", "state"):
            local = LocalSocket(path=config.state / SOCKET_FILE, group=table.socket_group)
            local.check(config.state, is_served=is_served)
        with at_key("manager", "socket_group"):
            local.check_group()
        _check_neighbours(config)
    notes = []
    if crowded := config.file.connections.note():
        notes.append(crowded)
    if is_served:
        notes.append(f"a daemon serves with {config.state}: its address was not tried")
    return ManagerReady(credential=credential, grid_map=grid_map, notes=tuple(notes))


def _check_neighbours(config: ManagerConfig) -> None:
    """Nobody above or below is this manager itself under another name."""
    host, port = split_listen(config.file.manager.listen)
    own = frozenset({host, *(_LOOPBACK if host in _EVERYWHERE | _LOOPBACK else ())})
    for number, child in enumerate(config.file.children):
        with at_key("children", number, "endpoint"):
            _check_other(child.endpoint, own, port)
    if config.file.parent is not None:
        with at_key("parent", "endpoint"):
            _check_other(config.file.parent.endpoint, own, port)


def _check_other(endpoint: str, own: frozenset[str], port: int) -> None:
    if port and split_endpoint(endpoint) in {(host, port) for host in own}:
        raise InputError(
            f"{endpoint} is where this manager itself listens", hint="name the other one's address"
        )

"""A manager's configuration file: TOML in, plain values out. Unknown keys are refused by name.

    [manager]
    name = "north"                         # as in the certificate
    state = "state"                        # folder, relative to this file
    listen = "0.0.0.0:7100"                # TLS; port 0 takes any free one
    credential = "credential"              # folder with cert.pem, key.pem, root.pem
    grid_mapfile = "grid-mapfile"          # who may book through this manager

    [[children]]
    name = "datastar"                      # as in its certificate
    endpoint = "datastar.example.org:7101"
    kind = "agent"                         # or "manager"

Each child names this manager's subject as ``@manager`` in its own grid-mapfile.
``docs/manager-configuration.md`` lists every key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from gridtravel.gridcore.booking.calendar_rules import CalendarRules
from gridtravel.gridcore.booking.reservations import check_id
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.zones import find_zone
from gridtravel.gridio.config_file import ConfigFile, ConfigTable, at_key, read_config
from gridtravel.gridio.rpc.client.diagnosis import split_endpoint
from gridtravel.gridio.rpc.server.connections_table import ConnectionsTable
from gridtravel.manager.book.decisions import ManagerRules
from gridtravel.manager.shadows.keeper import KeeperRules

PAGE: Final = "docs/manager-configuration.md"
ANSWER_WITHIN_S: Final[dict[str, float]] = {"agent": 3.0, "manager": 6.0}
"""How long a child may take to answer an inquiry or a hold. A manager asks its own children first,
and its parent must be the one that waits longer.
"""


class ManagerTable(ConfigTable):
    """``[manager]``: who and where it is."""

    name: str
    time_zone: str = "UTC"
    state: str = "state"
    listen: str = "127.0.0.1:0"
    credential: str = "credential"
    grid_mapfile: str = "grid-mapfile"
    socket_group: str = ""
    """Group that may use the local socket; empty: only the daemon's own user."""
    admins: list[str] = Field(default_factory=list)
    """Logins that look after the manager."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class ManagerCalendarTable(ConfigTable):
    """``[calendar]``: bounds in seconds, and what is published."""

    horizon_s: Annotated[int, Field(ge=60)] = CalendarRules().horizon_s
    hold_ttl_min_s: Annotated[int, Field(ge=1)] = CalendarRules().hold_ttl_min_s
    hold_ttl_max_s: Annotated[int, Field(ge=1)] = CalendarRules().hold_ttl_max_s
    doubt_max_s: Annotated[int, Field(ge=1)] = CalendarRules().doubt_max_s
    commit_margin_s: Annotated[int, Field(ge=1)] = 5
    """How long before its children's holds a group's hold expires."""
    tombstone_s: Annotated[int, Field(ge=60)] = CalendarRules().tombstone_s
    offers_max: Annotated[int, Field(ge=1)] = CalendarRules().offers_max
    published_slots: str = "64x60, 64x960, *x15360"
    """Ladder of the summary that a parent subscribes to (count x seconds)."""
    threshold_permille: Annotated[int, Field(ge=0, le=1000)] = 1000
    """Share of the nodes below that is promised in advance: behind the first level of
    ``published_slots``.
    """
    published_horizon_s: Annotated[int, Field(ge=60)] = 14 * 86_400
    shadow_age_max_s: Annotated[int, Field(ge=1)] = 300
    """A shadow that is older is not told to the parent any more."""


class UpkeepTable(ConfigTable):
    """``[upkeep]``: the subscriptions to the children."""

    clock_skew_max_s: Annotated[float, Field(gt=0)] = KeeperRules().clock_skew_max_s
    """A child whose clock is further off is isolated."""
    retry_max_s: Annotated[float, Field(ge=1)] = KeeperRules().retry_max_s
    isolation_s: Annotated[float, Field(ge=1)] = KeeperRules().isolation_s


class ChildTable(ConfigTable):
    """``[[children]]``: one agent or manager below."""

    name: str
    endpoint: str
    kind: Literal["agent", "manager"] = "agent"
    answer_within_s: Annotated[float, Field(gt=0, le=60)] | None = None
    """Default by kind, see ``ANSWER_WITHIN_S``."""

    @property
    def patience_s(self) -> float:
        """How long an answer of this child is waited for."""
        return self.answer_within_s or ANSWER_WITHIN_S[self.kind]


class ParentTable(ConfigTable):
    """``[parent]``: the manager above, for what the children cannot give."""

    name: str
    endpoint: str
    answer_within_s: Annotated[float, Field(gt=0, le=60)] = 9.0
    """Longer than it waits for its children, of which this manager is one."""
    patience_s: Annotated[int, Field(ge=0)] = 3600
    """How much later than it could a request may start before the parent is asked as well."""


class TradeTable(ConfigTable):
    """``[trade]``: the balance of trade."""

    debt_max_node_s: Annotated[int, Field(ge=0)] | None = None
    """What a child may owe the others; absent: anything."""


class ManagerFile(ConfigTable):
    """The whole file."""

    manager: ManagerTable
    children: Annotated[list[ChildTable], Field(min_length=1)]
    calendar: ManagerCalendarTable = Field(default_factory=ManagerCalendarTable)
    upkeep: UpkeepTable = Field(default_factory=UpkeepTable)
    parent: ParentTable | None = None
    trade: TradeTable = Field(default_factory=TradeTable)
    connections: ConnectionsTable = Field(default_factory=ConnectionsTable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerConfig:
    """A manager's configuration, checked, with absolute paths."""

    path: Path
    source: ConfigFile[ManagerFile]
    state: Path
    credential: Path
    grid_mapfile: Path
    rules: ManagerRules
    keeper_rules: KeeperRules
    ladder: SlotLadder

    @property
    def file(self) -> ManagerFile:
        """Its tables, as they were written."""
        return self.source.content

    @property
    def name(self) -> str:
        """The manager's name."""
        return self.file.manager.name


def load_manager_config(path: Path) -> ManagerConfig:
    """Read and check; each mistake is one ``InputError`` with file and key."""
    read = read_config(path, ManagerFile, page=PAGE)
    with read.told():
        return _checked(path.resolve(), read)


def _checked(path: Path, read: ConfigFile[ManagerFile]) -> ManagerConfig:
    """What the file means; the domain has its say about every value."""
    parsed = read.content
    with at_key("manager", "name"):
        check_id("manager name", parsed.manager.name)
    with at_key("manager", "time_zone"):
        find_zone(parsed.manager.time_zone)
    _check_children(parsed)
    folder = path.parent
    calendar, upkeep = parsed.calendar, parsed.upkeep
    with at_key("calendar", "published_slots"):
        ladder = SlotLadder.parse(calendar.published_slots)
    return ManagerConfig(
        path=path,
        source=read,
        state=folder / parsed.manager.state,
        credential=folder / parsed.manager.credential,
        grid_mapfile=folder / parsed.manager.grid_mapfile,
        rules=ManagerRules(
            calendar=CalendarRules(
                horizon_s=calendar.horizon_s,
                hold_ttl_min_s=calendar.hold_ttl_min_s,
                hold_ttl_max_s=calendar.hold_ttl_max_s,
                doubt_max_s=calendar.doubt_max_s,
                tombstone_s=calendar.tombstone_s,
                offers_max=calendar.offers_max,
            ),
            commit_margin_s=calendar.commit_margin_s,
            debt_max_node_s=parsed.trade.debt_max_node_s,
            slot_rule=SlotRule(ladder=ladder, threshold_permille=calendar.threshold_permille),
        ),
        keeper_rules=KeeperRules(
            clock_skew_max_s=upkeep.clock_skew_max_s,
            retry_max_s=upkeep.retry_max_s,
            isolation_s=upkeep.isolation_s,
        ),
        ladder=ladder,
    )


def _check_children(parsed: ManagerFile) -> None:
    """No child twice, neither by name nor by address, and none that is the manager itself."""
    names: dict[str, str] = {}
    endpoints: dict[str, str] = {}
    for number, child in enumerate(parsed.children):
        with at_key("children", number):
            check_id("child's name", child.name)
            if child.name == parsed.manager.name:
                raise InputError(f"the manager {child.name!r} cannot be its own child")
            if child.name in names:
                raise InputError(f"the child {child.name!r} is announced twice")
            if child.endpoint in endpoints:
                other = endpoints[child.endpoint]
                raise InputError(f"{child.name!r} and {other!r} have the same endpoint")
            _check_endpoint(f"the child {child.name!r}", child.endpoint)
        names[child.name] = child.endpoint
        endpoints[child.endpoint] = child.name
    if (parent := parsed.parent) is not None:
        with at_key("parent"):
            check_id("parent's name", parent.name)
            _check_endpoint(f"the parent {parent.name!r}", parent.endpoint)
            if parent.name in (parsed.manager.name, *names):
                raise InputError(f"{parent.name!r} cannot be the parent too: that is a cycle")
            if parent.endpoint in endpoints:
                other = endpoints[parent.endpoint]
                raise InputError(f"the child {other!r} has the same endpoint: that is a cycle")


def _check_endpoint(whose: str, endpoint: str) -> None:
    try:
        split_endpoint(endpoint)
    except ValueError:
        raise InputError(
            f"{endpoint[:80]!r} is no address of {whose}", hint="write host:port"
        ) from None

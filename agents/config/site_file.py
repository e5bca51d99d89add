"""A node's configuration file: TOML in, plain values out. Unknown keys are refused by name.

    [site]
    name = "datastar"                      # as in the certificate
    time_zone = "America/Los_Angeles"
    state = "state"                        # folder, relative to this file
    listen = "0.0.0.0:7101"                # TLS; port 0 takes any free one
    advertise = "grid.example.org:7101"    # where other sites reach it
    credential = "credential"              # folder with cert.pem, key.pem, root.pem
    grid_mapfile = "grid-mapfile"
    contact_host = "login1.datastar.example.org"
    contact_ports = "21000-21999"          # one a leg, for the programs of a trip to meet on

    [[classes]]
    name = "p655"
    nodes = 158                            # default: the processors of this machine
    features = ["p655"]

``docs/site-configuration.md`` lists every key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from gridtravel.agents.config.limit_tables import DiskTable, LimitsTable, limit_rules
from gridtravel.agents.config.maintenance_tables import (
    HooksTable,
    NotifyTable,
    ShortpoolTable,
    StandingTable,
    maintenance_rules,
    shortpool_rules,
)
from gridtravel.agents.config.queue_tables import (
    Policies,
    PriorityTable,
    QueueTable,
    ServiceTable,
    Setting,
    queue_rule_of,
    scheduler_rules,
)
from gridtravel.agents.maintenance_rules import MaintenanceRules
from gridtravel.agents.own_card import check_advertised
from gridtravel.gridcore.booking.calendar_rules import (
    CalendarRules,
    FlatTariff,
    ResourceClass,
    Tariff,
)
from gridtravel.gridcore.booking.period_tariff import (
    DAY_MINUTES,
    EVERY_DAY,
    PeriodTariff,
    PricePeriod,
)
from gridtravel.gridcore.booking.reservations import check_id
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.zones import find_zone
from gridtravel.gridio.config_file import ConfigFile, ConfigTable, at_key, read_config
from gridtravel.gridio.rpc.server.connections_table import ConnectionsTable
from gridtravel.gridio.system.notify import Notifier
from gridtravel.local_sched.policies.shared_nodes import SharingPolicy
from gridtravel.local_sched.reservations.user_reservations import (
    AccountLimits,
    UserReservationLimits,
)
from gridtravel.local_sched.resource_managers.task_limits import TaskLimitRules
from gridtravel.local_sched.scheduling.config import QueueRule, SchedulerConfig
from gridtravel.local_sched.scheduling.shortpools import Shortpool
from gridtravel.local_sched.sharing.shared_class import SharedClass

PAGE: Final = "docs/site-configuration.md"
SOCKET_FILE: Final = "agent.sock"
_PORTS: Final = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")


class SiteTable(ConfigTable):
    """``[site]``: who and where the node is."""

    name: str
    time_zone: str = "UTC"
    state: str = "state"
    listen: str = "127.0.0.1:0"
    advertise: str = ""
    """Where other sites reach it, ``host:port``; empty: where it listens."""
    credential: str = "credential"
    grid_mapfile: str = "grid-mapfile"
    socket: str = ""
    """Path of the local socket; empty: ``agent.sock`` in the state folder. In a folder that users
    may enter, such as ``/run/gridtravel``, where ``catalina`` looks for it.
    """
    socket_group: str = ""
    """Group that may use the local socket; empty: only the daemon's own user."""
    admins: list[str] = Field(default_factory=list)
    """Logins that look after the site."""
    contact_host: str = "127.0.0.1"
    contact_ports: str = "21000-21999"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("contact_ports")
    @classmethod
    def _ports(cls, text: str) -> str:
        found = _PORTS.fullmatch(text)
        if not found or not 1024 <= int(found[1]) <= int(found[2]) <= 65_535:
            raise ValueError('write two ports from 1024 to 65535, e.g. "21000-21999"')
        return text


class ClassTable(ConfigTable):
    """``[[classes]]``: interchangeable nodes."""

    name: str = "node"
    nodes: Annotated[int, Field(ge=1, le=10_000_000)] = os.cpu_count() or 1
    features: list[str] = Field(default_factory=list)
    policy: str = ""
    """Of the registry, for this class alone; one that divides nodes makes it a shared class. Empty:
    as ``[queue]`` says.
    """
    memory_mb: Annotated[int, Field(ge=1)] | None = None
    """Of each node, for jobs that share it; default: nobody counts."""
    disk_mb: Annotated[int, Field(ge=1)] | None = None


_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME_OF_DAY: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")
_Price = Annotated[int, Field(ge=0, le=10**12)]


class PricePeriodTable(ConfigTable):
    """``[[prices.periods]]``: times of the week with a price of their own."""

    millicredits_per_node_hour: _Price
    class_name: Annotated[str, Field(alias="class")] = ""
    """Empty: every class."""
    days: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] | None = None
    """On which it begins; default: every day."""
    from_time: Annotated[str, Field(alias="from")] = "00:00"
    """Of the site's local day, in quarters of an hour."""
    to_time: Annotated[str, Field(alias="to")] = "24:00"
    """The same; where it is before ``from``, on the next day."""


class PricesTable(ConfigTable):
    """``[prices]``."""

    millicredits_per_node_hour: _Price = 0
    classes: dict[str, _Price] = Field(default_factory=dict)
    """The same for classes that have another price."""
    periods: list[PricePeriodTable] = Field(default_factory=list)
    """The last one that matches counts, and before all others."""
    quotes_hold_s: Annotated[int, Field(ge=0, le=86_400)] = 900
    """How long the site keeps to a price that it has offered; 0: it signs no quotes."""


class LedgerTable(ConfigTable):
    """``[ledger]``: who pays."""

    enabled: bool = False
    """True: accounts pay from the credits that the site has granted them. False: prices are told,
    and nobody pays.
    """


class CalendarTable(ConfigTable):
    """``[calendar]``: bounds in seconds, and what is published."""

    horizon_s: Annotated[int, Field(ge=60)] = CalendarRules().horizon_s
    hold_ttl_min_s: Annotated[int, Field(ge=1)] = CalendarRules().hold_ttl_min_s
    hold_ttl_max_s: Annotated[int, Field(ge=1)] = CalendarRules().hold_ttl_max_s
    doubt_max_s: Annotated[int, Field(ge=1)] = CalendarRules().doubt_max_s
    hold_margin_s: Annotated[int, Field(ge=0)] = CalendarRules().hold_margin_s
    tombstone_s: Annotated[int, Field(ge=60)] = CalendarRules().tombstone_s
    published_slots: str = "64x60, 64x960, *x15360"
    """Ladder of the summary that managers subscribe to (count x seconds)."""
    slots: str = "exact"
    """Ladder on which reservations take whole slots (calendar paper, section 2.3), or ``exact``."""
    threshold_permille: Annotated[int, Field(ge=0, le=1000)] = 1000
    """Share of a slot that may be reserved in advance."""
    published_horizon_s: Annotated[int, Field(ge=60)] = 14 * 86_400


class AccountLimitsTable(ConfigTable):
    """``[reservations.accounts.NAME]``: what one account may reserve. Negative: no limit; what is
    not named is as for everybody.
    """

    per_account: int | None = None
    nodes: int | None = None
    seconds: int | None = None


class ReservationsTable(ConfigTable):
    """``[reservations]``: what users may reserve (Catalina's USER_SET_LIMITS). Negative: no
    limit.
    """

    per_account: int = 100
    """Live reservations of one account; 0: none are allowed."""
    nodes: int = -1
    """Of one reservation."""
    seconds: int = -1
    """Of one reservation."""
    window_s: Annotated[int, Field(ge=1)] = 86_400
    window_node_seconds: int = -1
    """Of all together, in any stretch of ``window_s``."""
    accounts: dict[str, AccountLimitsTable] = Field(default_factory=dict)

    def limits(self) -> UserReservationLimits:
        """As the scheduler wants them."""
        return UserReservationLimits(
            default=self._of_account(AccountLimitsTable()),
            accounts={name: self._of_account(each) for name, each in self.accounts.items()},
            window_s=self.window_s,
            window_node_seconds_max=_most(self.window_node_seconds),
        )

    def _of_account(self, own: AccountLimitsTable) -> AccountLimits:
        return AccountLimits(
            reservations_max=_most(
                self.per_account if own.per_account is None else own.per_account
            ),
            nodes_max=_most(self.nodes if own.nodes is None else own.nodes),
            duration_max_s=_most(self.seconds if own.seconds is None else own.seconds),
        )


def _most(value: int) -> int | None:
    """Negative means no limit, as in the original."""
    return None if value < 0 else value


class HostTable(ConfigTable):
    """``[host]``: the back end that runs processes on this machine."""

    run_as: Literal["login", "daemon"] = "login"
    """``daemon``: every task runs as the daemon's own user (a demonstration, a personal machine).
    """
    control_groups: bool = True
    """False: jobs are kept to their limits without control groups, which then somebody else has."""


class SlurmTable(ConfigTable):
    """``[slurm]``: the nodes are those of a Slurm, which leaves them to this site alone."""

    nodes: Annotated[list[str], Field(min_length=1)]
    """Slurm's names of the nodes of all classes, in their order."""
    conf: str = ""
    """The ``slurm.conf`` of the cluster; empty: the machine's own."""
    partition: str = ""


class SiteFile(ConfigTable):
    """The whole file."""

    site: SiteTable
    classes: Annotated[list[ClassTable], Field(min_length=1)] = Field(
        default_factory=lambda: [ClassTable()]
    )
    prices: PricesTable = Field(default_factory=PricesTable)
    ledger: LedgerTable = Field(default_factory=LedgerTable)
    calendar: CalendarTable = Field(default_factory=CalendarTable)
    queue: QueueTable = Field(default_factory=QueueTable)
    priority: PriorityTable = Field(default_factory=PriorityTable)
    qos: dict[str, ServiceTable] = Field(default_factory=dict)
    policy: dict[str, dict[str, Setting]] = Field(default_factory=dict)
    reservations: ReservationsTable = Field(default_factory=ReservationsTable)
    host: HostTable = Field(default_factory=HostTable)
    slurm: SlurmTable | None = None
    limits: LimitsTable = Field(default_factory=LimitsTable)
    disk: DiskTable = Field(default_factory=DiskTable)
    standing: list[StandingTable] = Field(default_factory=list)
    shortpools: list[ShortpoolTable] = Field(default_factory=list)
    notify: NotifyTable = Field(default_factory=NotifyTable)
    hooks: HooksTable = Field(default_factory=HooksTable)
    connections: ConnectionsTable = Field(default_factory=ConnectionsTable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedClassRule:
    """A class whose nodes several jobs have at once."""

    nodes: ResourceClass
    policy_name: str
    policy: SharingPolicy
    memory_mb: float
    """Of each node; infinity: nobody counts."""
    disk_mb: float

    @property
    def node_names(self) -> list[str]:
        """In their order."""
        return [f"{self.nodes.name}-{number}" for number in range(self.nodes.nodes)]

    def make(self) -> SharedClass:
        """The class without a job on it."""
        return SharedClass(
            self.nodes.name,
            self.node_names,
            self.policy,
            self.nodes.features,
            memory_mb=self.memory_mb,
            disk_mb=self.disk_mb,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteConfig:
    """A node's configuration, checked, with absolute paths."""

    path: Path
    source: ConfigFile[SiteFile]
    state: Path
    credential: Path
    grid_mapfile: Path
    socket: Path
    all_classes: tuple[ResourceClass, ...]
    """In the order of the file."""
    shared: Mapping[str, SharedClassRule]
    """Those of them whose nodes several jobs have at once, by name."""
    rules: CalendarRules
    tariff: Tariff
    ladder: SlotLadder
    """Of what is published."""
    slot_rule: SlotRule
    """On which reservations take their time."""
    contact_ports: range
    scheduler: SchedulerConfig
    task_limits: TaskLimitRules
    """Of single jobs; what the disk keeps free is found out when the state folder is there."""
    maintenance: MaintenanceRules
    shortpools: dict[str, Shortpool]
    """By class."""
    notifier: Notifier

    @property
    def file(self) -> SiteFile:
        """Its tables, as they were written."""
        return self.source.content

    @property
    def classes(self) -> tuple[ResourceClass, ...]:
        """Those whose nodes one job has at a time, and that can be reserved."""
        return tuple(each for each in self.all_classes if each.name not in self.shared)

    @property
    def name(self) -> str:
        """The site's name."""
        return self.file.site.name


def load_site_config(path: Path) -> SiteConfig:
    """Read and check; each mistake is one ``InputError`` with file and key."""
    read = read_config(path, SiteFile, page=PAGE)
    with read.told():
        return _checked(path.resolve(), read)


def _checked(path: Path, read: ConfigFile[SiteFile]) -> SiteConfig:
    """What the file means; the domain has its say about every value."""
    parsed = read.content
    with at_key("site", "name"):
        check_id("site name", parsed.site.name)
    with at_key("site", "advertise"):
        if parsed.site.advertise:
            check_advertised(parsed.site.advertise)
    with at_key("site", "time_zone"):
        find_zone(parsed.site.time_zone)
    folder = path.parent
    ports = _PORTS.fullmatch(parsed.site.contact_ports)
    assert ports is not None, "validated above"
    order = parsed.queue.policy or parsed.queue.order
    if "priority" in parsed.model_fields_set and order != "priority":
        with at_key("priority"):
            raise InputError(
                f'it has no effect: the order of the queue is "{order[:40]}"',
                hint='leave out [priority], or set [queue] order = "priority"',
            )
    calendar = parsed.calendar
    class_nodes: dict[str, int] = {}
    for number, each in enumerate(parsed.classes):
        with at_key("classes", number, "name"):
            check_id("name of a class", each.name)
            if each.name in class_nodes:
                raise InputError(f"there is a class {each.name!r} already", hint="give it another")
        class_nodes[each.name] = each.nodes
    if parsed.slurm is not None:
        with at_key("slurm", "nodes"):
            _check_slurm_names(parsed.slurm.nodes, sum(class_nodes.values()))
    with at_key("calendar"):
        rules = CalendarRules(
            horizon_s=calendar.horizon_s,
            hold_ttl_min_s=calendar.hold_ttl_min_s,
            hold_ttl_max_s=calendar.hold_ttl_max_s,
            doubt_max_s=calendar.doubt_max_s,
            hold_margin_s=calendar.hold_margin_s,
            tombstone_s=calendar.tombstone_s,
        )
    all_classes = tuple(
        ResourceClass(name=each.name, nodes=each.nodes, features=tuple(sorted(set(each.features))))
        for each in parsed.classes
    )
    policies = Policies(parsed.policy)
    by_class, shared = _policies_of_classes(parsed.classes, all_classes, policies)
    scheduler = scheduler_rules(parsed.queue, parsed.priority, parsed.qos, policies, by_class)
    policies.check_all_used()
    return SiteConfig(
        path=path,
        source=read,
        state=folder / parsed.site.state,
        credential=folder / parsed.site.credential,
        grid_mapfile=folder / parsed.site.grid_mapfile,
        socket=folder / (parsed.site.socket or Path(parsed.site.state) / SOCKET_FILE),
        all_classes=all_classes,
        shared=shared,
        rules=rules,
        tariff=_tariff(parsed.prices, class_nodes, shared, parsed.site.time_zone),
        ladder=_ladder("published_slots", calendar.published_slots),
        slot_rule=SlotRule(
            ladder=_ladder("slots", calendar.slots),
            threshold_permille=calendar.threshold_permille,
        ),
        contact_ports=range(int(ports[1]), int(ports[2]) + 1),
        scheduler=scheduler,
        task_limits=limit_rules(parsed.limits, class_nodes, is_this_machine=parsed.slurm is None),
        maintenance=maintenance_rules(
            parsed.standing,
            parsed.notify,
            parsed.hooks,
            parsed.queue.on_node_failure,
            parsed.site.time_zone,
        ),
        shortpools=shortpool_rules(
            parsed.shortpools,
            {each.name: each.nodes for each in all_classes if each.name not in shared},
            [each.name for each in all_classes if scheduler.rule_of(each.name).promises_starts],
        ),
        notifier=parsed.notify.notifier(),
    )


def _policies_of_classes(
    tables: Sequence[ClassTable], classes: Sequence[ResourceClass], policies: Policies
) -> tuple[dict[str, QueueRule], dict[str, SharedClassRule]]:
    """Of classes with policies of their own: those with queues, and those with shared nodes."""
    queued: dict[str, QueueRule] = {}
    shared: dict[str, SharedClassRule] = {}
    for number, (table, each) in enumerate(zip(tables, classes, strict=True)):
        key = ("classes", number, "policy")
        chosen = policies.named(table.policy, *key) if table.policy else None
        if chosen is not None and chosen.sharing is not None:
            shared[each.name] = SharedClassRule(
                nodes=each,
                policy_name=table.policy,
                policy=chosen.sharing,
                memory_mb=float("inf") if table.memory_mb is None else table.memory_mb,
                disk_mb=float("inf") if table.disk_mb is None else table.disk_mb,
            )
            continue
        if chosen is not None:
            queued[each.name] = queue_rule_of(chosen, table.policy, *key)
        for name in ("memory_mb", "disk_mb"):
            if name in table.model_fields_set:
                with at_key("classes", number, name):
                    raise InputError(
                        "it has no effect: the nodes of the class are not shared",
                        hint="leave it out, or name a policy that divides nodes",
                    )
    return queued, shared


def _tariff(
    prices: PricesTable,
    class_nodes: Mapping[str, int],
    shared: Mapping[str, SharedClassRule],
    time_zone: str,
) -> Tariff:
    known = ", ".join(class_nodes)
    for name in prices.classes:
        if name in shared:
            with at_key("prices", "classes", name):
                raise InputError(
                    f"it has no effect: {shared[name].policy_name} names the prices there",
                    hint=f"say them in [policy.{shared[name].policy_name}]",
                )
        if name not in class_nodes:
            with at_key("prices", "classes", name):
                raise InputError(f"the site has no class {name[:60]!r}", hint=f"it has: {known}")
    base = FlatTariff(prices.millicredits_per_node_hour, prices.classes)
    if not prices.periods:
        return base
    periods = []
    for number, each in enumerate(prices.periods):
        with at_key("prices", "periods", number, "class"):
            if each.class_name and each.class_name not in class_nodes:
                unknown = each.class_name[:60]
                raise InputError(f"the site has no class {unknown!r}", hint=f"it has: {known}")
        with at_key("prices", "periods", number):
            periods.append(
                PricePeriod(
                    millicredits_per_node_hour=each.millicredits_per_node_hour,
                    resource_class=each.class_name,
                    days=EVERY_DAY if each.days is None else frozenset(map(_DAYS.index, each.days)),
                    from_minute=_minute_of_day(each.from_time),
                    to_minute=_minute_of_day(each.to_time),
                )
            )
    with at_key("prices", "periods"):
        return PeriodTariff(base, periods, find_zone(time_zone))


def _minute_of_day(text: str) -> int:
    found = _TIME_OF_DAY.fullmatch(text)
    if found is None:
        raise InputError(f"{text[:40]!r} is no time of day", hint="write 00:00 to 24:00")
    return DAY_MINUTES if found[1] is None else int(found[1]) * 60 + int(found[2])


def _check_slurm_names(names: list[str], nodes: int) -> None:
    hint = "name every node once, in the order of the classes"
    if len(names) != nodes:
        raise InputError(f"{len(names)} nodes are named, the classes have {nodes}", hint=hint)
    for name in names:
        if not name or set(name) & set(", \t\n") or not name.isprintable():
            raise InputError(f"{name[:80]!r} is no name of a single node", hint=hint)
        if names.count(name) > 1:
            raise InputError(f"the node {name!r} is named twice", hint=hint)


def _ladder(key: str, text: str) -> SlotLadder:
    with at_key("calendar", key):
        return SlotLadder.parse(text)

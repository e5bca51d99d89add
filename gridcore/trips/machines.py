"""What a metajob asks of one machine, and of one stage of a pipeline.

A *machine* is the user's name for a site's resources with required features, such as
``datastar655`` for the p655 nodes of DataStar (GUR paper, section 4). Which sites exist is not
known here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.booking.reservations import DURATION_LIMIT_S, ID_LENGTH_MAX, NODES_LIMIT
from gridtravel.gridcore.errors import FieldError
from gridtravel.gridcore.jobs.tasks import StagedFile, TaskSpec, check_site_path
from gridtravel.gridcore.trips.trip_wishes import check_email

NAME_LENGTH_MAX: Final = 64
FEATURES_MAX: Final = 64

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NODES_WORDS: Final = {
    "nodes": "number of nodes",
    "nodes_min": "minimum of nodes",
    "nodes_max": "maximum of nodes",
    "nodes_total": "total number of nodes",
}
_MACHINE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRequest:
    """One machine the user is ready to travel to, with the nodes wanted there."""

    machine: str
    nodes_min: int
    """Fewest nodes a leg here makes sense with, at least 1."""
    nodes_max: int
    account: str = ""
    """Charge account; empty: the site's default for the user."""
    login: str = ""
    """Login at the site (the paper's ``username_string``); empty: as the site's grid-mapfile
    says."""
    email_notify: str = ""
    """Where this site reports failures; empty: nowhere."""
    features: tuple[str, ...] = ()
    """Every node must have all of them. Sorted, without doubles."""
    task: TaskSpec | None = None
    """What runs here; ``None``: the metajob's task."""

    def __post_init__(self) -> None:
        check_name("machine", self.machine, _MACHINE)
        check_nodes("nodes_min", self.nodes_min)
        check_nodes("nodes_max", self.nodes_max)
        if self.nodes_min > self.nodes_max:
            raise FieldError(
                "nodes_min",
                f"machine {self.machine} wants at least {self.nodes_min} nodes"
                f" but at most {self.nodes_max}",
                hint="the minimum must not be greater than the maximum",
            )
        for field, value in (("account", self.account), ("login", self.login)):
            if len(value) > ID_LENGTH_MAX or not value.isprintable() or value != value.strip():
                raise FieldError(
                    field,
                    f"the {field} {value[:40]!r} of machine {self.machine} cannot be one",
                    hint=f"at most {ID_LENGTH_MAX} printable characters, no space around them",
                )
        if self.email_notify:
            check_email("email_notify", self.email_notify)
        if len(self.features) > FEATURES_MAX:
            raise FieldError("features", f"machine {self.machine} requires too many features")
        for feature in self.features:
            check_name("features", feature, _MACHINE)
        if list(self.features) != sorted(set(self.features)):
            object.__setattr__(self, "features", tuple(sorted(set(self.features))))

    def accepts(self, nodes: int) -> bool:
        """True when ``nodes`` lies within this machine's minimum and maximum."""
        return self.nodes_min <= nodes <= self.nodes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of a pipeline: it starts after the one before it plus the time of the transfer."""

    name: str
    machines: tuple[str, ...]
    """Machines of the metajob where the stage may run, the preferred first; it runs at one of
    them."""
    nodes: int
    duration_s: int
    transfer_s: int = 0
    """Time kept free between the end of the stage before and this start. 0 for the first stage."""
    slack_s: int | None = None
    """Longest further wait after the transfer; ``None``: as long as the window allows."""
    receives: tuple[StagedFile, ...] = ()
    """Moved from the folder of the stage before (``source``) into this one's (``destination``)."""
    task: TaskSpec | None = None
    """What runs; ``None``: the task of the machine chosen, else the metajob's."""

    def __post_init__(self) -> None:
        check_name("name", self.name, _NAME)
        if not self.machines or len(set(self.machines)) < len(self.machines):
            raise FieldError(
                "machines",
                f"stage {self.name} names no machine, or one twice",
                hint="name each machine where it may run once, the preferred first",
            )
        check_nodes("nodes", self.nodes)
        check_duration("duration_s", self.duration_s)
        check_duration("transfer_s", self.transfer_s, at_least_s=0)
        if self.slack_s is not None:
            check_duration("slack_s", self.slack_s, at_least_s=0)
        for entry in self.receives:
            check_site_path("receives", entry.source)
            check_site_path("receives", entry.destination)


def check_trip_name(field: str, name: str) -> None:
    """Refuse a name that could not be part of a file name everywhere."""
    check_name(field, name, _NAME)


def check_name(field: str, name: str, pattern: re.Pattern[str]) -> None:
    """Refuse a name that does not fully match ``pattern`` or is longer than 64 characters."""
    if len(name) > NAME_LENGTH_MAX or not pattern.fullmatch(name):
        raise FieldError(
            field,
            f"the {field.removesuffix('s')} {name[:40]!r} is not a usable name",
            hint=f"1 to {NAME_LENGTH_MAX} letters, digits, '.', '_', '-'; first a letter or digit",
        )


def check_nodes(field: str, nodes: int) -> None:
    """Refuse a number of nodes outside 1 to ``NODES_LIMIT``."""
    if not 1 <= nodes <= NODES_LIMIT:
        raise FieldError(
            field,
            f"the {_NODES_WORDS[field]} is {nodes}",
            hint=f"a number of nodes is 1 to {NODES_LIMIT}",
        )


def check_duration(field: str, duration_s: int, *, at_least_s: int = 1) -> None:
    """Refuse a length of time below ``at_least_s`` seconds or above ten years."""
    if not at_least_s <= duration_s <= DURATION_LIMIT_S:
        raise FieldError(
            field,
            f"the {field.removesuffix('_s')} is {duration_s} seconds",
            hint=f"at least {at_least_s} s and at most ten years; write 7200, 2h or 01:30:00",
        )

"""The tables of a node's configuration about what one job may use: ``[limits]``, also by class of
nodes and by login, and ``[disk]``, what stays free. Sizes are MiB and say so in their names;
negative: no limit, as in ``[reservations]``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.config_file import ConfigTable, at_key
from gridtravel.gridio.system.disk_reserve import DiskReserve
from gridtravel.local_sched.resource_managers.task_limits import TaskLimitRules, TaskLimits

MIB: Final = 1 << 20
PROCESSES: Final = 1024
"""Enough for a parallel program on one node, and nothing that a machine would notice."""
OUTPUT_MIB: Final = 1024
MEMORY_PERCENT: Final = 90
"""Of this machine's memory, unless the site says otherwise: the rest is for what serves everybody.
"""


class OwnLimitsTable(ConfigTable):
    """``[limits.classes.NAME]`` and ``[limits.logins.NAME]``: what is not named is as for all."""

    processes: int | None = None
    memory_mib: int | None = None
    output_mib: int | None = None
    area_mib: int | None = None

    def named(self) -> dict[str, int | None]:
        """The fields of ``TaskLimits`` that this table sets."""
        fields = {
            "processes_max": (self.processes, 1),
            "memory_max_bytes": (self.memory_mib, MIB),
            "output_max_bytes": (self.output_mib, MIB),
            "area_max_bytes": (self.area_mib, MIB),
        }
        found: dict[str, int | None] = {}
        for name, (most, unit) in fields.items():
            if most == 0:
                raise InputError("0 leaves a job nothing", hint="write a negative number: no limit")
            if most is not None:
                found[name] = None if most < 0 else most * unit
        return found


class LimitsTable(OwnLimitsTable):
    """``[limits]``: of every job."""

    processes: int | None = PROCESSES
    output_mib: int | None = OUTPUT_MIB
    area_mib: int | None = -1
    classes: dict[str, OwnLimitsTable] = Field(default_factory=dict)
    logins: dict[str, OwnLimitsTable] = Field(default_factory=dict)


class DiskTable(ConfigTable):
    """``[disk]``: the disk of the state folder."""

    reserve_mib: Annotated[int, Field(ge=0)] | None = None
    """Free room that neither uploads nor jobs may take; default: see ``DiskReserve``."""
    journal_room_mib: Annotated[int, Field(ge=0)] | None = None
    """Room that the journal takes beforehand, to go on when the disk is full all the same."""


def limit_rules(
    table: LimitsTable, class_nodes: Mapping[str, int], *, is_this_machine: bool
) -> TaskLimitRules:
    """As the runner of jobs wants them. ``is_this_machine``: where jobs run, so that its memory
    counts.
    """
    own: dict[str, dict[str, dict[str, int | None]]] = {"classes": {}, "logins": {}}
    for kind, tables in (("classes", table.classes), ("logins", table.logins)):
        for name, each in tables.items():
            with at_key("limits", kind, name):
                own[kind][name] = each.named()
                if kind == "classes" and name not in class_nodes:
                    raise InputError("there is no class of this name", hint="see [[classes]]")
    with at_key("limits"):
        general = table.named()
    if is_this_machine:
        general.setdefault("memory_max_bytes", _memory_bytes() * MEMORY_PERCENT // 100)
    return TaskLimitRules(default=TaskLimits(**general), **own)


def disk_reserve(state: Path, disk: DiskTable) -> DiskReserve:
    """What is to stay free where the state folder lies, which must exist."""
    return DiskReserve.of(state, None if disk.reserve_mib is None else disk.reserve_mib * MIB)


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

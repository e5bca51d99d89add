"""The most that one task may use of what all tasks of a machine share: `TaskLimits`, and which of a
site's rules says so for a class of nodes and a login.

A limit is not a reservation: a machine may allow more to its tasks together than it has. How each
is kept, and that a task over one is ended, is in ``supervised.task_meter``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from gridtravel.gridcore.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """Of one task; ``None``: no limit."""

    processes_max: int | None = None
    """Processes and their threads at a time."""
    memory_max_bytes: int | None = None
    """Memory of all its processes together."""
    output_max_bytes: int | None = None
    """Standard output and standard error, each."""
    area_max_bytes: int | None = None
    """Room on the disk that its working folder takes, with what was there before."""
    disk_free_min_bytes: int | None = None
    """Room that is to stay free on the disk of its working folder; a task that takes it is ended.
    """

    def __post_init__(self) -> None:
        for each in fields(self):
            most = getattr(self, each.name)
            if most is not None and most < 1:
                raise InputError(f"a task with {each.name} = {most} could not even begin")


NO_TASK_LIMITS = TaskLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimitRules:
    """A site's limits. What a login has of its own counts before what its class of nodes has, and
    that before what is for everybody; each limit by itself.
    """

    default: TaskLimits = NO_TASK_LIMITS
    classes: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """By class: names of fields of ``TaskLimits``, and what they are there."""
    logins: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """The same by login."""

    def __post_init__(self) -> None:
        for each in (*self.classes.values(), *self.logins.values()):
            TaskLimits(**each)

    def of(self, class_name: str, login: str) -> TaskLimits:
        """What holds for a task of this login on these nodes."""
        own = {**self.classes.get(class_name, {}), **self.logins.get(login, {})}
        named = {each.name: getattr(self.default, each.name) for each in fields(TaskLimits)}
        return TaskLimits(**{**named, **own})


NO_RULES = TaskLimitRules()

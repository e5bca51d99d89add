"""What runs at one leg of a trip, and which files travel with it.

Values only. Commands are argument vectors and never pass through a shell: what a user writes in a
file is executed as that program with those arguments, or not at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from gridtravel.gridcore.errors import FieldError
from gridtravel.gridcore.jobs.commands import (
    ARGUMENT_BYTES_MAX,
    check_arguments,
    check_quoted,
    is_plain_text,
)
from gridtravel.gridcore.jobs.job import ENVIRONMENT_BYTES_MAX

ENVIRONMENT_MAX: Final = 512
STAGED_FILES_MAX: Final = 10_000
PATH_LENGTH_MAX: Final = 1024
RESERVED_PREFIX: Final = "GRID_"
"""Variables of this name are set by the site: trip, leg, nodes, companions."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One file or folder that is copied before a task starts or after it ended.

    The end that lies at a site is relative to the leg's own folder there and never leads out of it.
    """

    source: str
    destination: str

    def __post_init__(self) -> None:
        for field, path in (("source", self.source), ("destination", self.destination)):
            if not path or len(path) > PATH_LENGTH_MAX or not path.isprintable():
                raise FieldError(
                    field,
                    f"the {field} {path[:60]!r} of a staged file cannot be a path",
                    hint=f"write 1 to {PATH_LENGTH_MAX} printable characters",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """A program with everything it needs at the place where it runs."""

    command: tuple[str, ...]
    """Argument vector; the first is the program. Started once a leg, with the node list in its
    environment."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables and values, sorted by variable, each variable once."""
    stage_in: tuple[StagedFile, ...] = ()
    """From the laptop (``source``) to the leg's folder (``destination``), before
    ``compile_command``."""
    compile_command: tuple[str, ...] = ()
    """Run in the leg's folder before the start; empty: nothing to compile."""
    stage_out: tuple[StagedFile, ...] = ()
    """From the leg's folder (``source``) to the laptop (``destination``), after the end."""
    waits_for_companions: bool = False
    """The command begins only when every leg of the trip is prepared (``grid-barrier``)."""

    def __post_init__(self) -> None:
        if not self.command:
            raise FieldError(
                "command", "a task has no command", hint='write command = ["./program", "argument"]'
            )
        check_arguments("command", self.command)
        if self.compile_command:
            check_arguments("compile_command", self.compile_command)
        if self.compile_command or self.waits_for_companions:
            check_quoted("compile_command", self.compile_command)
            check_quoted("command", self.command)
        _check_environment(self.environment)
        if list(self.environment) != sorted(self.environment):
            object.__setattr__(self, "environment", tuple(sorted(self.environment)))
        for field, staged in (("stage_in", self.stage_in), ("stage_out", self.stage_out)):
            if len(staged) > STAGED_FILES_MAX:
                raise FieldError(
                    field,
                    f"{field} names {len(staged)} files, at most {STAGED_FILES_MAX} are allowed",
                    hint="stage a folder instead of its files",
                )
        for entry in self.stage_in:
            check_site_path("stage_in", entry.destination)
        for entry in self.stage_out:
            check_site_path("stage_out", entry.source)


def check_site_path(field: str, path: str) -> None:
    """Refuse a path at a site that is absolute or leads out of the leg's folder."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "\\" in path or path.startswith("~"):
        raise FieldError(
            field,
            f"the path {path[:60]!r} at the site leaves the leg's folder",
            hint="write a relative path without '..', such as results/out.dat",
        )


def refuse_site_variable(name: str) -> None:
    """Raise ``FieldError`` for a name that only a site sets (docs/leg-environment.md).

    Asked where a job is described and where a site takes one in, not by ``JobSpec`` itself: a
    journal may hold older jobs with such names.
    """
    if name.startswith(RESERVED_PREFIX):
        raise FieldError(
            "environment",
            f"the variable {name[:60]!r} is set by the site",
            hint=f"choose a name that does not begin with {RESERVED_PREFIX}",
        )


def _check_environment(environment: tuple[tuple[str, str], ...]) -> None:
    if len(environment) > ENVIRONMENT_MAX:
        raise FieldError(
            "environment",
            f"the environment has {len(environment)} variables, at most {ENVIRONMENT_MAX}",
            hint="put settings into a file and stage it in",
        )
    names = [name for name, _ in environment]
    for name, value in environment:
        if not _VARIABLE.fullmatch(name) or names.count(name) > 1:
            raise FieldError(
                "environment",
                f"{name[:60]!r} cannot be a variable of the environment, or is given twice",
                hint="letters, digits and underscores, not starting with a digit",
            )
        refuse_site_variable(name)
        if not is_plain_text(value) or len(f"{name}={value}".encode()) > ARGUMENT_BYTES_MAX:
            raise FieldError(
                "environment",
                f"the value of the variable {name!r} is too long, or no text that can be handed on",
                hint="put it into a file and stage it in",
            )
    if sum(len(name) + len(value.encode()) for name, value in environment) > ENVIRONMENT_BYTES_MAX:
        raise FieldError(
            "environment",
            f"the environment is larger than {ENVIRONMENT_BYTES_MAX} bytes",
            hint="put settings into a file and stage it in",
        )

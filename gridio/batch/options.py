"""What must be known of a batch system to use it, as the user's list of machines says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gridtravel.gridcore.errors import InputError

SYSTEMS: Final = ("gridengine", "slurm")
DEFAULT_FOLDER: Final = ".gridtravel"

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_FOLDER: Final = re.compile(r"[A-Za-z0-9_./+@%:=,-]{1,200}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """One batch system at the far end of a login."""

    system: str
    """One of ``SYSTEMS``."""
    folder: str = DEFAULT_FOLDER
    """Where reservations and jobs have their folders at the far end: absolute, or below the login's
    home. The nodes of the batch system must see it too.
    """
    parallel_environment: str = "mpi"
    """Grid Engine: what one node of a reservation is one slot of."""
    queue: str = ""
    """Queue (Grid Engine) or partition (Slurm); empty: the system's own choice."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the commands, such as PATH and SGE_ROOT: a login that only runs a command has
    read no profile.
    """

    def __post_init__(self) -> None:
        if self.system not in SYSTEMS:
            raise InputError(
                f"no batch system {self.system[:40]!r} is known", hint=f"{' or '.join(SYSTEMS)}"
            )
        if not _FOLDER.fullmatch(self.folder) or ".." in self.folder.split("/"):
            raise InputError(
                f"{self.folder[:60]!r} cannot be the folder at the far end",
                hint="letters, digits and _./+@%:=,- only, and no ..",
            )
        for name in (self.parallel_environment, self.queue or "any"):
            if not _NAME.fullmatch(name):
                raise InputError(
                    f"{name[:60]!r} is no name of a queue, partition or parallel environment",
                    hint="letters, digits and _.@- only",
                )
        for name, value in self.environment.items():
            if not _VARIABLE.fullmatch(name) or "\0" in value or "\n" in value:
                raise InputError(f"{name[:40]!r} cannot be set in the environment of the commands")

"""The files that a job needs before it may start, as its site learns them before they are there.

The size and the checksum are known when the job is held, so that the site can tell by itself, and
without the laptop, when everything has arrived (docs/decisions/0034).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from gridtravel.gridcore.errors import InputError

INPUTS_MAX: Final = 10_000
"""Input files of one job; more belong into an archive."""
INPUTS_TEXT_MAX: Final = 1 << 20
"""Characters of their paths together: with their checksums they must fit a message of 4 MiB."""
INPUT_PATH_LENGTH_MAX: Final = 1_024
_SHA256_LENGTH: Final = 64
_HEXADECIMAL: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One file in the area of the job's reservation, which must have exactly this content."""

    path: str
    """Relative to the area."""
    size_bytes: int
    sha256: str
    """Lower-case hexadecimal."""

    def __post_init__(self) -> None:
        plain = PurePosixPath(self.path)
        is_inside = bool(plain.parts) and not plain.is_absolute() and ".." not in plain.parts
        if not is_inside or len(self.path) > INPUT_PATH_LENGTH_MAX or "\0" in self.path:
            raise InputError(
                f"{self.path[:60]!r} cannot be the path of an input",
                hint="a relative path without .., such as data/in.dat",
            )
        if self.path != str(plain):
            object.__setattr__(self, "path", str(plain))
        if self.size_bytes < 0:
            raise InputError(f"input {self.path[:60]!r} has a negative size: {self.size_bytes}")
        if len(self.sha256) != _SHA256_LENGTH or not _HEXADECIMAL.issuperset(self.sha256):
            raise InputError(f"input {self.path[:60]!r} has no SHA-256 in lower-case hexadecimal")


def check_inputs(inputs: tuple[InputFile, ...]) -> None:
    """Refuse inputs that are too many, or two that would lie at the same place."""
    if len(inputs) > INPUTS_MAX:
        raise InputError(
            f"a job of {len(inputs)} input files, at most {INPUTS_MAX} are allowed",
            hint="pack them into an archive",
        )
    if sum(len(each.path) for each in inputs) > INPUTS_TEXT_MAX:
        raise InputError(
            f"the paths of a job's inputs are longer than {INPUTS_TEXT_MAX} characters together",
            hint="pack them into an archive",
        )
    if len({each.path for each in inputs}) < len(inputs):
        raise InputError("two inputs of a job have the same path")

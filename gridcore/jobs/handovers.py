"""What a stage of a pipeline takes over from the one before it, moved from site to site.

The site of the later stage learns this with the stage's job and fetches the files itself, so that
nothing of them passes through the traveller's laptop. The site of the stage before learns with its
own job what may be fetched, and gives nothing else. Values only; ``agents.trips.handover`` and
``agents.ports.access`` act on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from gridtravel.gridcore.booking.reservations import check_card_length, check_id
from gridtravel.gridcore.errors import InputError

HANDED_FILES_MAX: Final = 1_000
PATH_LENGTH_MAX: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedFile:
    """A file or folder: ``source`` in the folder of the stage before, ``destination`` in this
    one's.
    """

    source: str
    destination: str

    def __post_init__(self) -> None:
        for path in (self.source, self.destination):
            if not path or len(path) > PATH_LENGTH_MAX or not path.isprintable():
                raise InputError(
                    f"{path[:60]!r} cannot be the path of a file to hand over",
                    hint=f"1 to {PATH_LENGTH_MAX} printable characters",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The stage before, where it is found, and what is taken over from it.

    The stage waits for it to end well, also when there are no files. Which trip it belongs to is
    not said here: the receiving site takes that from its own book (docs/protocol.md, section 6).
    """

    leg: str
    """Name of the stage before."""
    site: str
    """Where it runs, as in that site's certificate."""
    endpoint: str = ""
    """As the traveller knows it, ``host:port``; empty: it is the receiving site itself."""
    files: tuple[HandedFile, ...] = ()
    card: str = field(default="", compare=False, repr=False)
    """That site's own word where it is reached, as ``Acceptor.card``."""

    def __post_init__(self) -> None:
        check_id("leg name", self.leg)
        check_id("site", self.site)
        check_card_length(self.card)
        if len(self.files) > HANDED_FILES_MAX:
            raise InputError(
                f"{len(self.files)} files to hand over, at most {HANDED_FILES_MAX} are allowed",
                hint="name their folder",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverGrant:
    """The giver's half: what the stage behind may take, and which site may come for it."""

    leg: str
    """Name of the stage behind."""
    site: str
    """Where that runs, as in its certificate."""
    paths: tuple[str, ...] = ()
    """Files and folders in the folder of this stage; none: only how it has ended may be asked."""

    def __post_init__(self) -> None:
        check_id("leg name", self.leg)
        check_id("site", self.site)
        if len(self.paths) > HANDED_FILES_MAX:
            raise InputError(
                f"{len(self.paths)} files to hand over, at most {HANDED_FILES_MAX} are allowed",
                hint="name their folder",
            )

    def covers(self, path: str) -> bool:
        """True for a path that is named, or lies below one that is."""
        asked = PurePosixPath(path)
        if asked.is_absolute() or ".." in asked.parts:
            return False
        return any(asked.is_relative_to(each) for each in self.paths)

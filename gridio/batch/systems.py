"""What an adapter to a batch system is: its commands as a text of shell functions (``NAME.sh``),
which all systems call by the same names, and the reading of what these print.

Our reservations and jobs are found again in a batch system's lists by their names. A name is made
of the id of the request it goes back to, so that any later run that knows the id can undo the
request, also when the answer was lost and nothing was written down. Batch systems allow few
characters in a name: it carries a digest.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from gridtravel.gridcore.booking.reservations import DeclineRule
from gridtravel.gridcore.errors import NotFoundError, UnavailableError
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridcore.timing.instants import Instant

RESERVATION_PREFIX: Final = "gur."
JOB_PREFIX: Final = "gurj."
DIGEST_LENGTH: Final = 20

_NAME: Final = re.compile(r"gurj?\.[a-z2-7]{20}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReservation:
    """A reservation of ours, as the batch system has it."""

    name: str
    start: Instant
    end: Instant
    nodes: int
    is_broken: bool = False
    """Some of its nodes are out of order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why it would not set a reservation."""

    rule: DeclineRule
    words: str
    """The batch system's own message."""
    nodes_now: int = 0
    hint: str = ""


class BatchSystem(Protocol):
    """The reading half of one batch system; stateless."""

    name: str
    """As in ``BatchOptions.system``, and the name of its shell text."""

    def stamp(self, instant: Instant) -> str:
        """A moment as the commands take it, to the second, in UTC."""
        ...

    def read_list(self, text: str) -> list[BatchReservation]:
        """What ``b_list`` printed."""
        ...

    def read_ends(self, text: str) -> list[Instant]:
        """What ``b_ends`` printed: when something that occupies room ends."""
        ...

    def read_size(self, text: str, queue: str) -> int:
        """What ``b_size`` printed: nodes in all."""
        ...

    def read_jobs(self, text: str) -> dict[str, str]:
        """What ``b_jobs`` printed: ``waiting``, ``running`` or ``broken``, by name; a job that is
        over is missing.
        """
        ...

    def read_refusal(self, words: str) -> Refusal:
        """What the words mean with which a reservation was refused."""
        ...


def read_instant(text: str) -> Instant:
    """``2026-11-21T11:14:23``; the commands are asked in UTC."""
    try:
        return int(datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise UnavailableError(f"the batch system's time makes no sense: {text[:40]!r}") from None


def read_count(text: str) -> int:
    """A number of nodes, slots or seconds."""
    if not is_count(text.strip()):
        raise UnavailableError(f"the batch system's number makes no sense: {text[:40]!r}")
    return int(text)


def reservation_name(request_id: str) -> str:
    """The name of what ``request_id`` booked or may yet book."""
    return RESERVATION_PREFIX + _digest(request_id)


def job_name(request_id: str) -> str:
    """The name of the job that ``request_id`` submitted or may yet submit."""
    return JOB_PREFIX + _digest(request_id)


def public_id(site: str, name: str) -> str:
    """The id of a thing outside of its batch system."""
    return f"{site}.{name}"


def name_of(site: str, public: str, *, prefix: str = "") -> str:
    """The name behind an id that ``public_id`` made; ``NotFoundError`` for any other id."""
    name = public.removeprefix(f"{site}.")
    if name == public or not _NAME.fullmatch(name) or not name.startswith(prefix):
        raise NotFoundError(
            f"{site} knows no {public[:80]!r}", hint="gur sites names what the machine has"
        )
    return name


def _digest(text: str) -> str:
    """A hundred bits as letters and digits that every batch system takes."""
    whole = base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()
    return whole[:DIGEST_LENGTH]

"""The batch systems that an adapter exists for: what their own words mean.

Each has its commands in a text of shell functions (``gridengine.sh``, ``slurm.sh``) with the same
names, and here the reading of what they print.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from gridcore.errors import UnavailableError
from gridcore.instants import Instant
from gridcore.reservations import DeclineRule


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
    """Its own."""
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


class GridEngine:
    """Observed with 8.1.9, as Debian has it: reservations by ordinary users, to the second."""

    name = "gridengine"

    def stamp(self, instant: Instant) -> str:
        """See ``BatchSystem``."""
        return datetime.fromtimestamp(instant, UTC).strftime("%Y%m%d%H%M.%S")

    def read_list(self, text: str) -> list[BatchReservation]:
        """See ``BatchSystem``. One that has just gone is listed as unknown, and is read over."""
        found = []
        for each in _xml(text).iterfind("ar_summary"):
            state = each.findtext("state", "").strip()
            if "d" in state or "x" in state:
                continue
            slots = [int(part.get("slots", "0")) for part in each.iter("granted_slots")]
            found.append(
                BatchReservation(
                    name=each.findtext("name", ""),
                    start=_instant(each.findtext("start_time", "")),
                    end=_instant(each.findtext("end_time", "")),
                    nodes=sum(slots),
                    is_broken="E" in state,
                )
            )
        return found

    def read_ends(self, text: str) -> list[Instant]:
        """See ``BatchSystem``: of all reservations. Those of jobs are nobody's to see before."""
        return [_instant(each.text or "") for each in _xml(text).iter("end_time")]

    def read_size(self, text: str, queue: str) -> int:
        """See ``BatchSystem``: slots of the queue, or of all queues."""
        return sum(
            int(each.findtext("total", "0"))
            for each in _xml(text).iter("cluster_queue_summary")
            if not queue or each.findtext("name") == queue.partition("@")[0]
        )

    def read_jobs(self, text: str) -> dict[str, str]:
        """See ``BatchSystem``."""
        found = {}
        for each in _xml(text).iter("job_list"):
            state = each.findtext("state", "")
            kind = "broken" if "E" in state else "running" if set(state) & set("rtsST") else ""
            found[each.findtext("JB_name", "")] = kind or "waiting"
        return found

    def read_refusal(self, words: str) -> Refusal:
        """See ``BatchSystem``."""
        if "must be manager or in userset" in words:
            return Refusal(
                rule=DeclineRule.POLICY,
                words=words,
                hint="its administrators let you with `qconf -au YOUR-LOGIN arusers`",
            )
        if "in the past" in words:
            return Refusal(rule=DeclineRule.START_TOO_SOON, words=words)
        if "no suitable queues" in words or "only offers" in words:
            offered = re.search(r"only offers (\d+) slots", words)
            return Refusal(
                rule=DeclineRule.NO_ROOM, words=words, nodes_now=int(offered[1]) if offered else 0
            )
        return Refusal(rule=DeclineRule.POLICY, words=words)


def _xml(text: str) -> xml.Element:
    """The document; commands may say something before it."""
    begin = text.find("<?xml")
    if begin < 0:
        return xml.Element("nothing")
    try:
        return xml.fromstring(text[begin:])
    except xml.ParseError as fault:
        raise UnavailableError(f"the batch system's answer makes no sense: {fault}") from None


def _instant(text: str) -> Instant:
    """``2026-11-21T11:14:23``; the commands are asked in UTC."""
    try:
        return int(datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise UnavailableError(f"the batch system's time makes no sense: {text[:40]!r}") from None


GRID_ENGINE: Final[BatchSystem] = GridEngine()

"""Slurm: what its commands print, and what it means."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from gridtravel.gridcore.booking.reservations import DeclineRule
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.batch.systems import (
    BatchReservation,
    Refusal,
    read_count,
    read_instant,
)

_RUNNING: Final = frozenset({"RUNNING", "COMPLETING", "STAGE_OUT", "SUSPENDED"})
_WAITING: Final = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_NOT_FOR_US: Final = ("Invalid user id", "Access/permission denied", "Access denied")


class Slurm:
    """Observed with 22.05, as Debian has it: reservations of whole nodes, to the second, by who may
    make them.
    """

    name = "slurm"

    def stamp(self, instant: Instant) -> str:
        """See ``BatchSystem``."""
        return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%S")

    def read_list(self, text: str) -> list[BatchReservation]:
        """See ``BatchSystem``."""
        found = []
        for line in text.splitlines():
            fields = dict(word.partition("=")[::2] for word in line.split())
            if "ReservationName" not in fields:
                continue
            found.append(
                BatchReservation(
                    name=fields["ReservationName"],
                    start=read_instant(fields.get("StartTime", "")),
                    end=read_instant(fields.get("EndTime", "")),
                    nodes=read_count(fields.get("NodeCnt", "0")),
                )
            )
        return found

    def read_ends(self, text: str) -> list[Instant]:
        """See ``BatchSystem``: of reservations and of running jobs with a limit."""
        return [read_instant(each) for each in re.findall(r"\bEndTime=([0-9][^\s]*)", text)]

    def read_size(self, text: str, queue: str) -> int:
        """See ``BatchSystem``: nodes of the partition, or of all."""
        return sum(int(line) for line in text.split() if is_count(line))

    def read_jobs(self, text: str) -> dict[str, str]:
        """See ``BatchSystem``. Jobs that are over stay in Slurm's list for a while."""
        found = {}
        for line in text.splitlines():
            name, state, reason = (*line.split("|", 2), "", "")[:3]
            if state in _RUNNING:
                found[name] = "running"
            elif state in _WAITING:
                found[name] = "broken" if "launch failed" in reason else "waiting"
        return found

    def read_refusal(self, words: str) -> Refusal:
        """See ``BatchSystem``."""
        if any(each in words for each in _NOT_FOR_US):
            return Refusal(
                rule=DeclineRule.POLICY,
                words="reservations are not for this login there (" + words + ")",
                hint="its administrators may make it an operator, or run an agent beside Slurm",
            )
        if "Invalid time" in words:
            return Refusal(rule=DeclineRule.START_TOO_SOON, words=words)
        fewer = re.search(r"only ([0-9]{1,9}) nodes", words)
        if fewer or "busy" in words or "overlaps" in words or "not available" in words:
            nodes_now = int(fewer[1]) if fewer else 0
            return Refusal(rule=DeclineRule.NO_ROOM, words=words, nodes_now=nodes_now)
        return Refusal(rule=DeclineRule.POLICY, words=words)

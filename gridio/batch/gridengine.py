"""Grid Engine: what its commands print, and what it means."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml
from datetime import UTC, datetime

from gridtravel.gridcore.booking.reservations import DeclineRule
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.batch.systems import (
    BatchReservation,
    Refusal,
    read_count,
    read_instant,
)


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
            slots = [read_count(part.get("slots", "0")) for part in each.iter("granted_slots")]
            found.append(
                BatchReservation(
                    name=each.findtext("name", ""),
                    start=read_instant(each.findtext("start_time", "")),
                    end=read_instant(each.findtext("end_time", "")),
                    nodes=sum(slots),
                    is_broken="E" in state,
                )
            )
        return found

    def read_ends(self, text: str) -> list[Instant]:
        """See ``BatchSystem``: of all reservations. Those of jobs are nobody's to see before."""
        return [read_instant(each.text or "") for each in _xml(text).iter("end_time")]

    def read_size(self, text: str, queue: str) -> int:
        """See ``BatchSystem``: slots of the queue, or of all queues."""
        return sum(
            read_count(each.findtext("total", "0"))
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
            offered = re.search(r"only offers ([0-9]{1,9}) slots", words)
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

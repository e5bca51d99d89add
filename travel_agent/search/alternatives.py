"""What a refusal offers, as metajobs that could be booked instead."""

from __future__ import annotations

from dataclasses import replace

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern


def offered(metajob: Metajob, decline: Decline) -> list[Metajob]:
    """What a refusal offers, as metajobs: later with all nodes, or now with fewer."""
    found: list[Metajob] = []
    if decline.earliest is not None:
        is_pipeline = metajob.usage_pattern is UsagePattern.PIPELINE
        length_s = metajob.window.duration_s if is_pipeline else metajob.span_min_s
        end = decline.earliest + length_s
        found.append(
            replace(
                metajob,
                earliest_start=decline.earliest,
                latest_end=max(end, metajob.latest_end),
                alternatives=(),
            )
        )
    fewer = decline.nodes_now
    least = sum(each.nodes_min for each in metajob.machines)
    if decline.rule is DeclineRule.NO_ROOM and fewer >= least and fewer < metajob.nodes_total:
        found.append(replace(metajob, nodes_total=fewer, alternatives=()))
    return found

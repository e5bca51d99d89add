"""A trip as JSON: what ``--json`` prints of it, and what the user's hook reads.

The object is a promise to scripts: keys are added, never renamed or removed. Instants are ISO 8601
in UTC; prices are integer millicredits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.jobs.job import JobView
from gridtravel.gridcore.timing.timetext import format_in_zone, format_utc
from gridtravel.gridcore.timing.zones import find_zone
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg


def itinerary_json(
    itinerary: Itinerary, jobs: Mapping[str, JobView] | None = None
) -> dict[str, Any]:
    """A trip for scripts. ``decline`` is there only with state DECLINED."""
    found: dict[str, Any] = {
        "trip": itinerary.trip_id,
        "name": itinerary.name,
        "state": itinerary.state.value,
        "start": None if itinerary.start is None else format_utc(itinerary.start),
        "end": None if itinerary.end is None else format_utc(itinerary.end),
        "price": itinerary.price_millicredits,
        "kept_by": list(itinerary.kept_by),
        "legs": [_leg_json(leg, (jobs or {}).get(leg.name)) for leg in itinerary.legs],
    }
    if itinerary.decline is not None:
        found["decline"] = decline_json(itinerary.decline)
    return found


def decline_json(decline: Decline) -> dict[str, Any]:
    """A refusal for scripts."""
    return {
        "rule": decline.rule.value,
        "message": decline.message,
        "earliest": None if decline.earliest is None else format_utc(decline.earliest),
        "nodes_now": decline.nodes_now,
    }


def _leg_json(leg: Leg, job: JobView | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "leg": leg.name,
        "machine": leg.machine,
        "site": leg.site,
        "nodes": leg.nodes,
        "start": format_utc(leg.start),
        "end": format_utc(leg.end),
        "zone": leg.zone or None,
        "start_there": format_in_zone(leg.start, find_zone(leg.zone)) if leg.zone else None,
        "state": leg.state.value,
        "reservation": leg.reservation_id,
        "transport": leg.transport.value,
        "price": leg.price_millicredits,
        "job": leg.job_id,
    }
    if leg.price_holds_until is not None:
        found["price_holds_until"] = format_utc(leg.price_holds_until)
    if leg.input_by is not None:
        found["input_by"] = leg.input_by.value
    if job is not None:
        found["job_state"] = job.state.value
        found["exit_code"] = job.exit_code
        found["started"] = job.started_precise
    return found

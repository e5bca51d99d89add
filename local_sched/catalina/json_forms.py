"""Values of the domain as objects for ``--json``."""

from __future__ import annotations

from typing import Any, Final

from gridtravel.gridcore.booking.reservations import Decline, Offer, Reservation
from gridtravel.gridcore.jobs.job import JobTerms, JobView
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc

INSTANT_KEYS: Final = frozenset(
    {
        "as_of",
        "submitted_at",
        "started_at",
        "ended_at",
        "planned_start",
        "ends_by",
        "start",
        "end",
        "created_at",
        "earliest",
        "since",
        "deadline",
    }
)
"""Keys of the site's answers whose numbers are instants."""


def moment(instant: Instant | None) -> str | None:
    """ISO 8601 in UTC."""
    return None if instant is None else format_utc(instant)


def reservation_json(
    reservation: Reservation, now: Instant, jobs: list[str] | None = None
) -> dict[str, Any]:
    """A reservation; ``jobs``: those it is kept for, where that is known."""
    request = reservation.request
    found: dict[str, Any] = {
        "reservation": reservation.reservation_id,
        "site": reservation.site,
        "state": reservation.phase(now),
        "owner": reservation.owner,
        "account": request.account,
        "class": reservation.resource_class,
        "nodes": reservation.nodes,
        "start": format_utc(reservation.start),
        "end": format_utc(reservation.end),
        "duration_s": reservation.interval.duration_s,
        "price": reservation.price_millicredits,
        "features": list(request.features),
        "email": request.notify_email or None,
        "request": request.request_id,
        "trip": None if request.trip is None else request.trip.trip_id,
        "created_at": format_utc(reservation.created_at),
        "hold_expires_at": moment(reservation.hold_expires_at),
    }
    if jobs is not None:
        found["jobs"] = jobs
    return found


def decline_json(decline: Decline) -> dict[str, Any]:
    """A refusal, with what would work."""
    return {
        "decline": {
            "rule": decline.rule.value,
            "message": decline.message,
            "earliest": moment(decline.earliest),
            "nodes_now": decline.nodes_now,
            "would_pass": [
                {"deadline": format_utc(each.deadline), "budget": each.budget_millicredits}
                for each in decline.passing
            ],
        }
    }


def job_json(view: JobView) -> dict[str, Any]:
    """A job, without its script and environment."""
    spec = view.spec
    return {
        "job": view.job_id,
        "site": view.site,
        "state": view.state.value,
        "name": spec.name,
        "owner": view.owner,
        "account": spec.account,
        "nodes": spec.nodes,
        "limit_s": spec.limit_s,
        "deadline": moment(spec.deadline),
        "budget": spec.budget_millicredits,
        "estimate_s": spec.estimate_s,
        "is_restartable": spec.is_restartable,
        "memory_mb": spec.memory_mb,
        "disk_mb": spec.disk_mb,
        "reservation": spec.reservation_id or None,
        "features": list(spec.features),
        "submitted_at": format_utc(view.submitted_at),
        "planned_start": moment(view.planned_start),
        "started_at": moment(view.started_at),
        "ended_at": moment(view.ended_at),
        "exit_code": view.exit_code,
        "node_names": list(view.node_names),
        "shares": list(view.shares),
        "terms": None if view.terms is None else terms_json(view.terms),
        "reason": view.reason,
        "request": spec.request_id,
    }


def terms_json(terms: JobTerms) -> dict[str, Any]:
    """What was agreed with a job's owner; the price in millicredits."""
    return {"price": terms.price_millicredits, "deadline": moment(terms.deadline)}


def offer_json(offer: Offer) -> dict[str, Any]:
    """Room that is offered: any start in ``[start, start_until)``."""
    return {
        "start": format_utc(offer.start),
        "start_until": format_utc(offer.start_until),
        "nodes": offer.nodes,
        "class": offer.resource_class,
        "price_per_node": offer.unit_price_millicredits,
    }


def with_texts(value: Any) -> Any:
    """An answer of the site's questions, with its instants as texts."""
    if isinstance(value, dict):
        return {
            key: moment(each) if key in INSTANT_KEYS and isinstance(each, int) else with_texts(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [with_texts(each) for each in value]
    return value

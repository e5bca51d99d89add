"""Reservations whose holders let them start earlier (calendar paper, section 2.3: backfilling).

A request says with ``start_is_fixed`` whether its start may move. Where it may, the site or manager
that granted it looks again when room has appeared: when slots were split, or when something ended
early. The new start is asked for as an amendment whose latest start is one second before the
promised one, so nothing moves later; all other reservations keep their room.

The top manager looks first, then the managers below it, then the sites: each waits longer after a
change, the lower it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.timing.instants import Instant

TOP_PAUSE_S: Final = 5
MANAGER_PAUSE_S: Final = 10
SITE_PAUSE_S: Final = 15
"""How long after a change each looks for room: time for those above to have moved first."""
MOVES_MAX: Final = 100
"""Reservations that are looked at in one go, oldest promises first."""


def movable(reservations: Iterable[Reservation], now: Instant) -> list[Reservation]:
    """Those that may move, in the order in which they were promised. Legs of trips may not: their
    companions start with them.
    """
    found = [
        each
        for each in reservations
        if not each.request.start_is_fixed
        and each.state is ReservationState.COMMITTED
        and each.request.trip is None
        and max(now, each.request.earliest_start) < each.start
    ]
    return sorted(found, key=lambda each: (each.created_at, each.reservation_id))[:MOVES_MAX]


def earlier_request(reservation: Reservation, now: Instant) -> ReservationRequest:
    """The same nodes for as long, at any start before the one that is promised."""
    request = reservation.request
    return replace(
        request,
        request_id=f"backfill/{reservation.reservation_id}/{now}"[:128],
        nodes_min=reservation.nodes,
        nodes_max=reservation.nodes,
        latest_end=reservation.start - 1 + request.duration_s,
        budget_millicredits=reservation.price_millicredits,
        replaces=None,
    )

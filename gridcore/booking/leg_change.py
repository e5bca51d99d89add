"""Changing a leg of a booked trip: a hold that replaces it becomes its new form.

A trip is amended as a whole (docs/protocol.md, section 4): every leg is held anew, beside the old
one, and when the trip is committed each leg takes the time and the size of its new hold *under its
own id*. So its files, its jobs and the laptop, which know the leg by its id, still find it. The
hold itself ends as ``SUPERSEDED``. Without a commit the old leg stays as it was.

Pure: when a hold merges, until when, and what comes of it. ``Calendar`` decides with these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.timing.instants import Instant

SETTLE_S: Final = 15
"""The lifetime of a hold that replaces a leg ends this long before the leg's old start: by then it
is known which of the two will be used, or there is time to ask. Longer than the time at which a leg
asks whether its trip was cancelled (``agents.trips.participant.CHECK_BEFORE_S``).
"""


def merges(request: ReservationRequest, old: Reservation) -> bool:
    """True when a hold for ``request`` is to become the new form of ``old``: the same leg of the
    same trip, in a later attempt.
    """
    new_trip, old_trip = request.trip, old.request.trip
    return (
        request.replaces == old.reservation_id
        and new_trip is not None
        and old_trip is not None
        and (new_trip.trip_id, new_trip.leg) == (old_trip.trip_id, old_trip.leg)
        and new_trip.attempt > old_trip.attempt
    )


def why_not(request: ReservationRequest, old: Reservation) -> str:
    """Why ``request`` may not replace ``old``, as far as trips matter; empty: it may."""
    if request.trip == old.request.trip or merges(request, old):
        return ""
    return "a leg is replaced by itself in a later attempt of its trip only"


def settled_by(old: Reservation) -> Instant:
    """When the lifetime of a hold that merges into ``old`` ends at the latest."""
    return old.start - SETTLE_S


def is_new_form(leg: Reservation, hold: Reservation | None) -> bool:
    """True when ``hold`` has just ended to become the new form that ``leg`` is."""
    return (
        hold is not None
        and hold.state is ReservationState.SUPERSEDED
        and hold.request == leg.request
        and hold.request.replaces == leg.reservation_id
    )


def merged(old: Reservation, hold: Reservation) -> Reservation:
    """The leg as it is from now on. Its contact stays: companions and files know it by that."""
    return replace(
        old,
        request=hold.request,
        resource_class=hold.resource_class,
        nodes=hold.nodes,
        interval=hold.interval,
        price_millicredits=hold.price_millicredits,
    )

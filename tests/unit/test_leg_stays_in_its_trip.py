"""One leg of a trip cannot be amended out of it: its sites decide about all legs together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.reservations import Acceptor, DeclineRule, Reservation, TripRef
from tests.support.builders import a_calendar, a_request, commit, hold, refused

NAMES = ("lab", "hall", "yard")
TRIP = TripRef(
    trip_id="trip-1",
    leg="lab",
    participants=NAMES,
    acceptors=tuple(Acceptor(site=name, endpoint=f"{name}:1") for name in NAMES),
    ends_at=1000,
)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(None, id="no trip any more"),
        pytest.param(replace(TRIP, acceptors=()), id="without those who decide"),
        pytest.param(replace(TRIP, acceptors=TRIP.acceptors[:1]), id="others decide"),
        pytest.param(replace(TRIP, attempt=TRIP.attempt + 1), id="another attempt"),
        pytest.param(replace(TRIP, trip_id="trip-2"), id="another trip"),
    ],
)
def test_a_leg_is_not_amended_out_of_its_trip(other: TripRef | None) -> None:
    """Refused as a state, with nothing to journal, and the leg is what it was: it will still ask
    the acceptors that it was held with.
    """
    calendar = a_calendar(4)
    held = hold(calendar, replace(a_request(start=200), trip=TRIP))
    kept = commit(calendar, held.reservation_id)
    assert isinstance(kept, Reservation)
    change = replace(a_request("request-2", start=300), trip=other)
    answer, events = calendar.decide_amend(kept.reservation_id, change, kept.owner, 20)
    assert refused(answer).rule is DeclineRule.STATE
    assert "leg of its trip" in refused(answer).message
    assert events == ()
    assert calendar.get(kept.reservation_id) == kept

"""``gur status`` of a trip whose change the sites have decided while the laptop was away."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, LegState, Transport, TripState
from gridtravel.travel_agent.running.reports import LegLook, report_on
from tests.support.builders import a_reservation

LEG = Leg(
    name="lab",
    machine="lab",
    site="lab",
    nodes=2,
    interval=Interval(20, 30),
    transport=Transport.GRPC,
    state=LegState.BOOKED,
    reservation_id="lab.1",
)
TRIP = Itinerary(trip_id="t", name="trip", state=TripState.BOOKED, legs=(LEG,))


@pytest.mark.parametrize("state", [ReservationState.COMMITTED, ReservationState.RELEASED])
def test_the_site_is_right_about_time_and_size(state: ReservationState) -> None:
    """A leg is shown as its site has it; of one that is gone what was remembered is shown."""
    kept = a_reservation("lab.1", nodes=3, interval=Interval(50, 70), state=state)
    (leg,) = report_on(TRIP, [LegLook(leg=LEG, reservation=kept)]).itinerary.legs
    if state is ReservationState.COMMITTED:
        assert (leg.nodes, leg.interval, leg.state) == (3, Interval(50, 70), LegState.BOOKED)
    else:
        assert (leg.nodes, leg.interval, leg.state) == (2, Interval(20, 30), LegState.RELEASED)

"""While a leg's change is undecided both forms are promised: whichever of them the trip's outcome
picks, for every leg in any combination, the calendar can honour it.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationEvent,
    ReservationState,
    TripRef,
)
from tests.support.builders import a_calendar, a_request, carry_out

NODES = 6
SECONDS = range(50, 180)
TRIP = TripRef(trip_id="trip", leg="leg", participants=("lab",), ends_at=1000)

steps = st.lists(
    st.tuples(
        st.sampled_from(["book", "change", "change", "commit", "let go", "cancel", "time"]),
        st.integers(0, 7),
        st.integers(1, NODES),
        st.integers(50, 110),
        st.integers(10, 60),
    ),
    min_size=4,
    max_size=30,
)


def used_at(calendar: Calendar, second: int) -> int:
    """Nodes at ``second`` by the plainest sum: of a leg and its change the larger counts."""
    total = 0
    live = list(calendar.unordered_live())
    for each in live:
        hold = calendar.replacement_of(each.reservation_id)
        if each.state is ReservationState.HELD and any(
            calendar.replacement_of(old.reservation_id) == each for old in live
        ):
            continue
        forms = [each, *([hold] if hold is not None else [])]
        total += max(form.nodes if form.interval.contains(second) else 0 for form in forms)
    return total


class Scene:
    """A calendar, and the events that made it."""

    def __init__(self) -> None:
        self.calendar = a_calendar(NODES)
        self.history: list[CalendarEvent] = []
        self.now = 0
        self.count = 0

    def carry_out(self, events: tuple[CalendarEvent, ...]) -> None:
        """Apply what was decided."""
        carry_out(self.calendar, events)
        self.history += events

    def pick(self, number: int, state: ReservationState) -> Reservation | None:
        """One of the live entries in ``state``."""
        known = [each for each in self.calendar.live() if each.state is state]
        return known[number % len(known)] if known else None

    def take(self, step: str, number: int, nodes: int, start: int, length_s: int) -> None:
        """One thing that somebody does."""
        self.count += 1
        request = a_request(f"r{self.count}", nodes=nodes, start=start, duration_s=length_s)
        calendar, now = self.calendar, self.now
        firm = self.pick(number, ReservationState.COMMITTED)
        held = self.pick(number, ReservationState.HELD)
        if step == "time":
            self.now += number
            calendar.advance(self.now)
        elif step == "book":
            leg = replace(TRIP, leg=f"leg-{self.count}")
            answer = calendar.decide_reserve(replace(request, trip=leg), "ada", 20, now)
            self.carry_out(answer[1])
            if isinstance(answer[0], Reservation):
                self.carry_out(calendar.decide_commit(answer[0].reservation_id, None, now)[1])
        elif step == "change" and firm is not None and firm.request.trip is not None:
            trip = replace(firm.request.trip, attempt=self.count + 1)
            request = replace(request, replaces=firm.reservation_id, trip=trip)
            self.carry_out(calendar.decide_reserve(request, "ada", 20, now)[1])
        elif step == "commit" and held is not None:
            self.carry_out(calendar.decide_late_commit(held.reservation_id, now)[1])
        elif step == "let go" and held is not None:
            expire = ReservationEvent.EXPIRE
            self.carry_out(calendar.decide_release(held.reservation_id, None, now, event=expire))
        elif step == "cancel" and firm is not None:
            self.carry_out(calendar.decide_release(firm.reservation_id, None, now))

    def replayed(self) -> Calendar:
        """The same book from its journal."""
        again = a_calendar(NODES)
        carry_out(again, self.history)
        return again


@given(steps=steps, outcomes=st.integers(0, 2**10))
def test_whatever_is_decided_can_be_kept(
    steps: list[tuple[str, int, int, int, int]], outcomes: int
) -> None:
    """At every second the room taken is that of the larger form, so no outcome overcommits; after
    the outcomes each leg has exactly one form, and the room of no other is taken.
    """
    scene = Scene()
    for step in steps:
        scene.take(*step)
    calendar = scene.calendar
    future = [second for second in SECONDS if second >= scene.now]
    for second in future:
        used = used_at(calendar, second)
        assert used <= NODES
        assert calendar.free["node"].free_at(second) == NODES - used, second
    again = scene.replayed()
    assert again.reservations == calendar.reservations
    held = [each for each in calendar.live() if each.state is ReservationState.HELD]
    for bit, each in enumerate(held):
        if outcomes >> bit & 1:
            answer, events = again.decide_late_commit(each.reservation_id, scene.now)
            assert isinstance(answer, Reservation) or "has begun" in answer.message
            carry_out(again, events)
        if again.get(each.reservation_id).state is ReservationState.HELD:
            carry_out(again, again.decide_release(each.reservation_id, None, scene.now))
    for second in future:
        used = sum(each.nodes for each in again.live() if each.interval.contains(second))
        assert again.free["node"].free_at(second) == NODES - used >= 0
    legs = [each.request.trip.leg for each in again.live() if each.request.trip]
    assert len(legs) == len(set(legs)), "one form of each leg"

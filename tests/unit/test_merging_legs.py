"""A leg of a booked trip is changed by a hold that becomes its new form: make before break, with
both outcomes open until the trip is decided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.booking.calendar_events import (
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.leg_change import SETTLE_S
from gridtravel.gridcore.booking.reservations import (
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationRequest,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.timing.instants import Instant, Interval
from tests.support.builders import (
    a_calendar,
    a_request,
    book,
    carry_out,
    commit,
    free_per_second,
    hold,
    refused,
    release,
)

TRIP = TripRef(trip_id="trip-1", leg="lab", participants=("lab",), ends_at=1000)


def a_leg(calendar: Calendar, *, nodes: int = 3, start: Instant = 60) -> Reservation:
    """A booked leg, ``lab.1``."""
    held = hold(calendar, a_request(nodes=nodes, start=start, trip=TRIP))
    return commit(calendar, held.reservation_id)


def a_change(request_id: str = "request-2", *, attempt: int = 2, **wish: Any) -> ReservationRequest:
    """What a later attempt asks for in place of ``lab.1``."""
    trip = replace(TRIP, attempt=attempt)
    return a_request(request_id, replaces="lab.1", trip=trip, **wish)


def test_commit_gives_the_leg_its_new_form() -> None:
    """The leg keeps its id and takes time, size, request and attempt of the hold, which ends; what
    neither needs any more is free.
    """
    calendar = a_calendar(4)
    a_leg(calendar)
    new = hold(calendar, a_change(nodes=4, start=65))
    assert calendar.free["node"].steps() == [(0, 4), (60, 1), (65, 0), (75, 4)]
    answer = commit(calendar, new.reservation_id, 5)
    assert answer == calendar.get("lab.1")
    assert (answer.nodes, answer.interval) == (4, Interval(65, 75))
    assert answer.request == a_change(nodes=4, start=65)
    assert calendar.get("lab.2").state is ReservationState.SUPERSEDED
    assert calendar.free["node"].steps() == [(0, 4), (65, 0), (75, 4)]


@pytest.mark.parametrize("event", [ReservationEvent.RELEASE, ReservationEvent.EXPIRE])
def test_without_a_commit_the_leg_stays(event: ReservationEvent) -> None:
    """Released or expired, the hold leaves nothing behind; the leg can be changed again."""
    calendar = a_calendar(4)
    old = a_leg(calendar)
    new = hold(calendar, a_change(nodes=4, start=65))
    carry_out(calendar, calendar.decide_release(new.reservation_id, None, 10, event=event))
    assert calendar.get("lab.1") == old
    assert calendar.free["node"].steps() == [(0, 4), (60, 1), (70, 4)]
    hold(calendar, a_change("request-3", attempt=3, nodes=4, start=65))


def test_said_again_the_answers_are_the_same() -> None:
    """A repeated commit, in time or late, and a repeated request are answered with the leg as it is
    now; a late release of the request undoes nothing, of the hold neither.
    """
    calendar = a_calendar(4)
    a_leg(calendar)
    new = hold(calendar, a_change(start=100))
    leg = commit(calendar, new.reservation_id, 5)
    before = calendar.changes
    assert calendar.decide_commit(new.reservation_id, None, 50) == (leg, ())
    assert calendar.decide_late_commit(new.reservation_id, 50) == (leg, ())
    assert calendar.decide_reserve(a_change(start=100), "ada", 10, 50) == (leg, ())
    carry_out(calendar, calendar.decide_release_request("request-2", "ada", 50))
    carry_out(calendar, calendar.decide_release(new.reservation_id, "ada", 50))
    assert calendar.changes == before
    release(calendar, "lab.1", 60)
    assert refused(calendar.decide_commit("lab.2", None, 61)[0]).rule is DeclineRule.STATE


def test_a_leg_is_changed_again_and_again() -> None:
    """Each attempt replaces the same id; three forms later it is still one reservation."""
    calendar = a_calendar(4)
    a_leg(calendar)
    for attempt in range(2, 5):
        change = a_change(f"request-{attempt}", attempt=attempt, nodes=attempt, start=50 * attempt)
        commit(calendar, hold(calendar, change).reservation_id, 1)
    assert (calendar.get("lab.1").nodes, calendar.get("lab.1").start) == (4, 200)
    assert [each.reservation_id for each in calendar.live()] == ["lab.1"]
    assert calendar.free["node"].steps() == [(0, 4), (200, 0), (210, 4)]


def test_the_same_again_takes_no_room() -> None:
    """A leg that does not change is held with the others of its attempt, in a full calendar."""
    calendar = a_calendar(3)
    a_leg(calendar)
    new = hold(calendar, a_change(nodes=3, start=60))
    assert free_per_second(calendar, range(59, 71)) == [3] + [0] * 10 + [3]
    leg = commit(calendar, new.reservation_id, 5)
    assert leg.request.trip is not None
    assert (leg.request.trip.attempt, leg.interval) == (2, Interval(60, 70))


def test_what_may_replace_a_leg() -> None:
    """Itself in a later attempt, held first; nothing else, or its trip would be torn."""
    calendar = a_calendar(4)
    a_leg(calendar)
    other = replace(TRIP, attempt=2)
    wrong = {
        "no trip": a_request("r-1", start=80, replaces="lab.1"),
        "another trip": a_change("r-2", start=80),
        "another leg": a_change("r-3", start=80),
        "an earlier attempt": a_change("r-4", attempt=1, start=80),
    }
    wrong["another trip"] = replace(wrong["another trip"], trip=replace(other, trip_id="trip-2"))
    wrong["another leg"] = replace(wrong["another leg"], trip=replace(other, leg="hall"))
    wrong["an earlier attempt"] = replace(
        wrong["an earlier attempt"], trip=replace(TRIP, ends_at=999)
    )
    for name, request in wrong.items():
        answer, events = calendar.decide_reserve(request, "ada", 10, 0)
        assert (refused(answer).rule, events) == (DeclineRule.STATE, ()), name
    at_once = refused(calendar.decide_reserve(a_change(start=80), "ada", None, 0)[0])
    assert at_once.message.endswith("a leg of a trip is held first")


def test_a_change_is_settled_before_the_old_start() -> None:
    """The hold's lifetime ends long enough before the old start to ask who decided what; nearer to
    it nothing is changed any more, and a commit that comes after the leg has begun is refused.
    """
    calendar = a_calendar(4)
    a_leg(calendar, start=60)
    new = hold(calendar, a_change(start=100), 35, ttl_s=20)
    assert new.hold_expires_at == 60 - SETTLE_S
    assert calendar.undecided_until(new) == 60
    late = refused(calendar.decide_late_commit(new.reservation_id, 60)[0])
    assert late.message.endswith("lab.1 has begun")
    assert calendar.get(new.reservation_id).state is ReservationState.HELD
    release(calendar, new.reservation_id, 60)
    answer = calendar.decide_reserve(a_change("request-3", start=100), "ada", 20, 44)[0]
    assert refused(answer).rule is DeclineRule.START_TOO_SOON


def test_nodes_that_failed_meanwhile_do_not_stop_it() -> None:
    """The room was promised with the hold: the merge takes it over, whatever is left."""
    calendar = a_calendar(4)
    a_leg(calendar)
    new = hold(calendar, a_change(nodes=4, start=65))
    calendar.free["node"].withdraw(3, 0, None)
    commit(calendar, new.reservation_id, 5)
    assert free_per_second(calendar, range(60, 76)) == [1] * 5 + [-3] * 10 + [1]


def test_a_leg_released_meanwhile_leaves_its_hold() -> None:
    """Then the hold stands on its own feet and is committed under its own id."""
    calendar = a_calendar(4)
    a_leg(calendar)
    new = hold(calendar, a_change(nodes=2, start=65))
    release(calendar, "lab.1", 5)
    assert calendar.undecided_until(calendar.get(new.reservation_id)) == 65
    assert commit(calendar, new.reservation_id, 6).reservation_id == new.reservation_id
    assert calendar.free["node"].steps() == [(0, 4), (65, 2), (75, 4)]


@pytest.mark.parametrize("keeps_hold", [True, False])
def test_replayed_it_is_the_same(keeps_hold: bool) -> None:
    """The two records of a merge give the same book again, also when the hold's own records were
    left out of the journal, and nothing trips over a tombstone that is forgotten.
    """
    calendar = a_calendar(4)
    a_leg(calendar)
    new = hold(calendar, a_change(nodes=4, start=500))
    answer, events = calendar.decide_commit(new.reservation_id, None, 5)
    assert [type(each) for each in events] == [ReservationChanged, ReservationMoved]
    carry_out(calendar, events)
    carry_out(calendar, calendar.decide_sweep(200))
    assert new.reservation_id not in calendar.reservations

    again = a_calendar(4)
    carry_out(again, [ReservationGranted(reservation=a_leg(a_calendar(4)))])
    if keeps_hold:
        carry_out(again, [ReservationGranted(reservation=new), *events])
    else:
        carry_out(again, events[1:])
    assert again.get("lab.1") == answer == calendar.get("lab.1")
    assert again.free["node"].steps() == calendar.free["node"].steps()
    book(again, a_request("request-9", nodes=4, start=60))

"""The book behind a calendar: events that contradict it change nothing, and what it counts is
bounded.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.calendar_book import ENDS_SPARE
from gridtravel.gridcore.booking.calendar_events import (
    CalendarEvent,
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.calendar_rules import CalendarRules, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    ReservationEvent,
    ReservationState,
)
from gridtravel.gridcore.booking.summaries import CalendarVersion
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.capacity.ladders import EXACT
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.gridcore.timing.instants import Interval
from tests.support.builders import (
    a_calendar,
    a_request,
    a_reservation,
    book,
    carry_out,
    hold,
    release,
    some_rules,
)


def a_book() -> Calendar:
    """Committed lab.1 that lab.2 is to replace, committed lab.3, finished lab.4, a buried id."""
    calendar = a_calendar(8)
    book(calendar, a_request("request-1", start=20))
    hold(calendar, a_request("request-2", start=25, replaces="lab.1"))
    book(calendar, a_request("request-3", start=20))
    book(calendar, a_request("request-4", start=20))
    release(calendar, "lab.4")
    carry_out(calendar, calendar.decide_release_request("buried", "ada", 0))
    return calendar


def granted(**others: object) -> ReservationGranted:
    """A grant of lab.5."""
    return ReservationGranted(reservation=a_reservation("lab.5", **others))


def moved(reservation_id: str, **others: object) -> ReservationMoved:
    """A change of a reservation of the book."""
    there = a_book().get(reservation_id)
    changed: dict[str, object] = {"request": a_request("request-9", start=20)} | others
    return ReservationMoved(reservation=replace(there, **changed), at=0)  # type: ignore[arg-type]


HELD = {"state": ReservationState.HELD, "hold_expires_at": 9}
CONTRADICTIONS: dict[str, CalendarEvent] = {
    "id is there": ReservationGranted(reservation=a_reservation("lab.1")),
    "request was heard": granted(request=a_request("request-1")),
    "request was buried": granted(request=a_request("buried")),
    "held without a lifetime": granted(state=ReservationState.HELD),
    "committed with a lifetime": granted(hold_expires_at=9),
    "finished from the start": granted(state=ReservationState.RELEASED),
    "no such class": granted(resource_class="wide"),
    "no room": granted(nodes=5),
    "replaces what is finished": granted(request=a_request("r", replaces="lab.4"), **HELD),
    "replaces a hold": granted(request=a_request("r", replaces="lab.2"), **HELD),
    "replaces it twice": granted(request=a_request("r", replaces="lab.1"), **HELD),
    "moves a hold": moved("lab.2"),
    "moves what is finished": moved("lab.4"),
    "moves what is to be replaced": moved("lab.1"),
    "moves to another owner": moved("lab.3", owner="bob"),
    "moves by an old request": moved("lab.3", request=a_request("request-3")),
    "moves to no room": moved("lab.3", nodes=7),
    "moves to no such class": moved("lab.3", resource_class="wide"),
    "buries twice": RequestTombstoned(owner="ada", request_id="buried", at=1),
    "buries what was heard": RequestTombstoned(owner="ada", request_id="request-1", at=1),
    "ends what is finished": ReservationChanged(
        reservation_id="lab.4", event=ReservationEvent.RELEASE, at=0
    ),
}


@pytest.mark.parametrize("event", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_contradictions_change_nothing(event: CalendarEvent) -> None:
    """A journal that contradicts itself is a conflict, and the book stays whole."""
    calendar = a_book()
    with pytest.raises(ConflictError):
        calendar.apply(event)
    calendar.validate()
    untouched = a_book()
    assert calendar.version == untouched.version
    assert calendar.reservations == untouched.reservations
    assert calendar.tombstoned == untouched.tombstoned
    assert calendar.free == untouched.free


def test_events_about_nothing() -> None:
    """A change of what is not in the book names it."""
    calendar = a_calendar()
    with pytest.raises(NotFoundError, match="lab has no reservation"):
        calendar.apply(
            ReservationChanged(reservation_id="lab.1", event=ReservationEvent.COMMIT, at=0)
        )
    with pytest.raises(NotFoundError):
        calendar.apply(ReservationMoved(reservation=a_reservation(), at=0))
    assert calendar.version == CalendarVersion("0", 0)


def test_classes_have_nodes() -> None:
    """A class of nothing and a class without a name are refused. A site may have none that can be
    reserved, where all its nodes are shared: it declines, and can be summed up.
    """
    empty = a_calendar(classes=[])
    assert empty.known_from == 0
    assert summarise(empty, EXACT, 5, horizon_s=60).classes == ()
    declined = empty.inquire(a_request(), 0)
    assert isinstance(declined, Decline)
    assert declined.rule is DeclineRule.TOO_LARGE
    for name, nodes in (("", 1), ("node", 0)):
        with pytest.raises(InputError, match="needs a name and at least one node"):
            ResourceClass(name=name, nodes=nodes)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"hold_ttl_min_s": 0}, "hold_ttl_min_s"),
        ({"hold_ttl_min_s": 21}, "hold_ttl_max_s"),
        ({"hold_margin_s": 0}, "hold_margin_s"),
        ({"offers_max": 0}, "offers_max"),
        ({"horizon_s": 3}, "horizon_s must be greater than the 3 s"),
        ({"tombstone_s": 39}, "tombstone_s"),
    ],
)
def test_rules_that_contradict_each_other(wrong: dict[str, int], named: str) -> None:
    """Each bound that cannot be kept is named."""
    with pytest.raises(InputError, match=named):
        some_rules(**wrong)


def test_usual_rules_are_consistent() -> None:
    """The defaults are a valid choice."""
    assert CalendarRules().lead_s == 3


def test_live_entries_in_order() -> None:
    """By start, then by id."""
    calendar = a_calendar(8)
    for number, start in enumerate([30, 20, 20], start=1):
        book(calendar, a_request(f"request-{number}", start=start))
    release(calendar, "lab.3")
    assert [each.reservation_id for each in calendar.live()] == ["lab.2", "lab.1"]


def test_next_end_follows_every_change() -> None:
    """It is the end of the first committed entry, after a change or a release too."""
    calendar = a_calendar(8)
    book(calendar, a_request("request-1", start=20))
    book(calendar, a_request("request-2", start=30))
    assert calendar.next_end() == 30
    longer = a_request("request-3", start=20, duration_s=50)
    carry_out(calendar, calendar.decide_amend("lab.1", longer, None, 0)[1])
    assert calendar.next_end() == 40
    release(calendar, "lab.2")
    assert calendar.next_end() == 70
    carry_out(calendar, calendar.decide_sweep(70))
    assert calendar.get("lab.1").state is ReservationState.COMPLETED
    assert calendar.next_end() is None


def test_outdated_ends_are_bounded() -> None:
    """Booking and cancelling for ever does not fill the memory."""
    calendar = a_calendar(8)
    book(calendar, a_request("keep", start=900))
    for number in range(300):
        booked = book(calendar, a_request(f"request-{number}", start=20 + number))
        release(calendar, booked.reservation_id)
    assert len(calendar._ends) <= ENDS_SPARE + 6
    assert calendar.next_end() == 910


def test_the_past_can_be_forgotten() -> None:
    """Advancing forgets free time, and no promise; an end in the forgotten past is no fault."""
    calendar = a_calendar(4)
    book(calendar, a_request(start=20))
    calendar.advance(500)
    assert calendar.free["node"].steps() == [(500, 4)]
    assert calendar.version.number == 1
    carry_out(calendar, calendar.decide_sweep(500))
    assert calendar.get("lab.1").interval == Interval(20, 30)

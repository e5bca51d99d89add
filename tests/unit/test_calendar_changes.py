"""Changes of what is booked already: amend, and make before break with a reservation that replaces
another.
"""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.calendar_rules import FlatTariff, ResourceClass
from gridtravel.gridcore.booking.reservations import (
    Availability,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationState,
)
from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.gridcore.timing.instants import Interval
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
    some_rules,
)

TWO_CLASSES = [
    ResourceClass(name="slim", nodes=4, features=("disk",)),
    ResourceClass(name="wide", nodes=2, features=("disk", "gpu")),
]

# -- amend -----------------------------------------------------------------------------------------


def test_amend_into_its_own_room() -> None:
    """Longer and larger in one step: its own room counts as free, so a full calendar can still
    grow into what is left.
    """
    calendar = a_calendar(4, tariff=FlatTariff(3600))
    book(calendar, a_request(nodes=3, start=20))
    request = a_request("request-2", nodes=4, start=20, duration_s=15)
    answer, events = calendar.decide_amend("lab.1", request, "ada", 5)
    carry_out(calendar, events)
    assert isinstance(answer, Reservation)
    assert (answer.interval, answer.nodes) == (Interval(20, 35), 4)
    assert answer.price_millicredits == 60
    assert calendar.get("lab.1") == answer
    assert calendar.free["node"].steps() == [(0, 4), (20, 0), (35, 4)]


def test_amend_refused_keeps_the_old() -> None:
    """Make before break: a change without room leaves all as it was, and says what would fit."""
    calendar = a_calendar(4)
    old = book(calendar, a_request(nodes=3, start=20))
    book(calendar, a_request("request-2", nodes=2, start=30))
    request = a_request("request-3", nodes=3, start=25)
    answer, events = calendar.decide_amend("lab.1", request, "ada", 5)
    assert events == ()
    assert (refused(answer).earliest, refused(answer).nodes_now) == (40, 2)
    assert calendar.get("lab.1") == old


@pytest.mark.parametrize("forgets", [True, False])
def test_running_reservation_keeps_its_start(forgets: bool) -> None:
    """Its end and size may change while it runs, whatever room there was before now; what it used
    until then stays on record, whether or not the profile has forgotten the past.
    """
    calendar, twin = a_calendar(4), a_calendar(4)
    book(calendar, a_request("request-1", nodes=3, start=0))
    running = book(calendar, a_request("request-2", nodes=1, start=5, duration_s=20))
    carry_out(calendar, calendar.decide_release("lab.1", "ada", 9))
    if forgets:
        calendar.advance(12)
    longer = a_request("request-3", nodes=4, earliest=5, duration_s=30, until=500)
    answer, events = calendar.decide_amend(running.reservation_id, longer, "ada", 12)
    assert isinstance(answer, Reservation)
    assert (answer.interval, answer.nodes) == (Interval(5, 35), 4)
    carry_out(calendar, events)
    assert free_per_second(calendar, range(12, 37)) == [0] * 23 + [4, 4]
    book(twin, a_request("request-1", nodes=3, start=0))
    book(twin, a_request("request-2", nodes=1, start=5, duration_s=20))
    carry_out(twin, twin.decide_release("lab.1", "ada", 9))
    carry_out(twin, events)
    assert free_per_second(twin, range(4, 14)) == [1, 0, 0, 0, 0, 3, 3, 3, 0, 0]


@pytest.mark.parametrize(
    ("change", "rule", "nodes_now"),
    [
        ({"earliest": 6}, DeclineRule.STATE, 0),
        ({"earliest": 0, "until": 14}, DeclineRule.STATE, 0),
        ({"duration_s": 5}, DeclineRule.WINDOW_PAST, 0),
        ({"duration_s": 110}, DeclineRule.BEYOND_HORIZON, 0),
        ({"features": ("gpu",)}, DeclineRule.FEATURES, 0),
        ({"nodes": 5}, DeclineRule.TOO_LARGE, 4),
        ({"duration_s": 40, "nodes": 2}, DeclineRule.NO_ROOM, 1),
        ({"nodes": 3, "budget_millicredits": 20}, DeclineRule.BUDGET, 2),
    ],
)
def test_changes_that_a_running_reservation_cannot_have(
    change: dict[str, object], rule: DeclineRule, nodes_now: int
) -> None:
    """Another start, an end in the past or beyond the horizon, other nodes, more than there is."""
    calendar = a_calendar(classes=TWO_CLASSES, rules=some_rules(horizon_s=100))
    calendar.tariff = FlatTariff(3600)
    running = book(calendar, a_request(start=5, features=("disk",)))
    assert running.resource_class == "slim"
    book(calendar, a_request("request-2", nodes=3, start=30))
    wish: dict[str, object] = {"request_id": "request-3", "earliest": 5, "until": 500} | change
    answer, events = calendar.decide_amend(
        running.reservation_id,
        a_request(**wish),  # type: ignore[arg-type]
        "ada",
        10,
    )
    assert events == ()
    assert (refused(answer).rule, refused(answer).nodes_now) == (rule, nodes_now)
    assert f"{running.reservation_id} is running" in refused(answer).message


def test_running_where_nodes_failed() -> None:
    """When more is promised than there is, nothing is left to grow into, and not less; what it has
    it keeps.
    """
    calendar = a_calendar(4)
    book(calendar, a_request("request-1", nodes=3, start=0))
    book(calendar, a_request("request-2", nodes=1, start=0))
    calendar.free["node"].withdraw(3, 0, None)
    larger = a_request("request-3", nodes=2, start=0)
    answer = refused(calendar.decide_amend("lab.2", larger, "ada", 5)[0])
    assert (answer.rule, answer.nodes_now) == (DeclineRule.NO_ROOM, 0)
    kept, _ = calendar.decide_amend("lab.2", a_request("request-4", nodes=(1, 2)), "ada", 5)
    assert isinstance(kept, Reservation)
    assert kept.nodes == 1


@pytest.mark.parametrize("start", [0, 20])
@pytest.mark.parametrize("change", [{"nodes": 2}, {"duration_s": 8}, {"duration_s": 8, "nodes": 1}])
def test_less_is_granted_where_nodes_failed(start: int, change: dict[str, int]) -> None:
    """Whoever only gives back needs no room: running or to come, fewer nodes or an earlier end,
    also where more is promised than there is. What it gives back is there for others.
    """
    calendar = a_calendar(4)
    book(calendar, a_request("request-1", nodes=3, start=start))
    calendar.free["node"].withdraw(3, 0, None)
    wish = {"nodes": 3, "duration_s": 10, "start": start, **change}
    answer, events = calendar.decide_amend("lab.1", a_request("request-2", **wish), "ada", 5)
    assert isinstance(answer, Reservation)
    carry_out(calendar, events)
    kept = calendar.get("lab.1")
    assert (kept.start, kept.interval.duration_s, kept.nodes) == (
        start,
        wish["duration_s"],
        wish["nodes"],
    )
    used = [kept.nodes if kept.interval.contains(second) else 0 for second in range(start + 6, 40)]
    assert free_per_second(calendar, range(start + 6, 40)) == [1 - each for each in used]


def test_less_is_held_where_nodes_failed() -> None:
    """The same in two phases: a hold that replaces the reservation by a part of it is granted,
    takes no room of its own, and is what is left when it is committed.
    """
    calendar = a_calendar(4)
    book(calendar, a_request("request-1", nodes=3, start=20))
    calendar.free["node"].withdraw(3, 0, None)
    less = a_request("request-2", nodes=2, start=20, duration_s=8, replaces="lab.1")
    assert isinstance(calendar.inquire(less, 5), Availability)
    held = hold(calendar, less, 5)
    assert calendar.free["node"].free_at(20) == 1 - 3
    commit(calendar, held.reservation_id, 6)
    assert [(each.start, each.end, each.nodes) for each in calendar.live()] == [(20, 28, 2)]
    assert free_per_second(calendar, range(19, 30)) == [1] + [-1] * 8 + [1, 1]
    more = a_request("request-3", nodes=3, start=20, duration_s=8, replaces=held.reservation_id)
    refused(calendar.decide_reserve(more, "ada", 5, 7)[0])


@pytest.mark.parametrize(
    "change",
    [
        {"start": 21},
        {"duration_s": 11},
        {"nodes": 4},
        {"features": ("gpu",)},
        {"budget_millicredits": 0},
    ],
)
def test_more_is_not_less(change: dict[str, object]) -> None:
    """A later start, a later end, more or other nodes, or less money need what it does not have."""
    calendar = a_calendar(4, tariff=FlatTariff(3600))
    book(calendar, a_request("request-1", nodes=3, start=20))
    calendar.free["node"].withdraw(3, 0, None)
    wish: dict[str, object] = {"nodes": 2, "start": 20, **change}
    answer, events = calendar.decide_amend("lab.1", a_request("request-2", **wish), "ada", 5)  # type: ignore[arg-type]
    assert events == ()
    refused(answer)


def test_running_when_the_clock_stepped_back() -> None:
    """Seconds that the calendar has forgotten come again, and may be promised to others: a change
    of what runs in them has to wait, or they would be promised twice.
    """
    calendar = a_calendar(4)
    book(calendar, a_request("request-1", nodes=3, start=0))
    book(calendar, a_request("request-2", nodes=1, start=5, duration_s=20))
    calendar.advance(12)
    larger = a_request("request-3", nodes=2, start=5, duration_s=20)
    answer = refused(calendar.decide_amend("lab.2", larger, "ada", 9)[0])
    assert answer.rule is DeclineRule.STATE
    assert "ask in 3 s" in answer.message
    assert isinstance(calendar.decide_amend("lab.2", larger, "ada", 12)[0], Reservation)


def test_only_what_is_committed_and_not_over_can_change() -> None:
    """A hold is released and asked for anew; what is over is over, swept or not."""
    calendar = a_calendar()
    hold(calendar, a_request())
    book(calendar, a_request("request-2", start=20))
    change = a_request("request-3")
    assert refused(calendar.decide_amend("lab.1", change, "ada", 0)[0]).rule is DeclineRule.STATE
    answer = refused(calendar.decide_amend("lab.2", change, "ada", 30)[0])
    assert answer.message == "cannot amend reservation lab.2: its time is over"


def test_an_amendment_names_only_itself() -> None:
    """It replaces nothing else, and its id must not be that of another request."""
    calendar = a_calendar()
    book(calendar, a_request())
    book(calendar, a_request("request-2"))
    with pytest.raises(InputError, match="replaces nothing else"):
        calendar.decide_amend("lab.1", a_request("request-3", replaces="lab.2"), "ada", 0)
    with pytest.raises(InputError, match="was used for another request"):
        calendar.decide_amend("lab.1", a_request("request-2"), "ada", 0)


# -- make before break -----------------------------------------------------------------------------


def test_room_of_both_counts_once() -> None:
    """The hold takes only what the old one does not cover, so a full calendar can change."""
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=20))
    hold(calendar, a_request("request-2", nodes=4, start=25, replaces="lab.1"))
    assert calendar.free["node"].steps() == [(0, 4), (20, 1), (25, 0), (35, 4)]


def test_commit_ends_what_it_replaces() -> None:
    """The old one is superseded in the same breath; its room before the new one is free."""
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=20))
    hold(calendar, a_request("request-2", nodes=4, start=25, replaces="lab.1"))
    assert commit(calendar, "lab.2", 5).state is ReservationState.COMMITTED
    assert calendar.get("lab.1").state is ReservationState.SUPERSEDED
    assert calendar.free["node"].steps() == [(0, 4), (25, 0), (35, 4)]


@pytest.mark.parametrize("event", [ReservationEvent.RELEASE, ReservationEvent.EXPIRE])
def test_without_a_commit_the_old_one_stays(event: ReservationEvent) -> None:
    """A hold that is released or expires leaves the old as it was, and free to be changed again."""
    calendar = a_calendar(4)
    old = book(calendar, a_request(nodes=3, start=20))
    hold(calendar, a_request("request-2", nodes=4, start=25, replaces="lab.1"))
    carry_out(calendar, calendar.decide_release("lab.2", "ada", 10, event=event))
    assert calendar.get("lab.1") == old
    assert calendar.free["node"].steps() == [(0, 4), (20, 1), (30, 4)]
    hold(calendar, a_request("request-3", nodes=4, start=25, replaces="lab.1"))


def test_old_one_released_meanwhile() -> None:
    """The hold then stands on its own feet, with all its room, and can be committed."""
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=20))
    hold(calendar, a_request("request-2", nodes=2, start=25, replaces="lab.1"))
    release(calendar, "lab.1", 5)
    assert calendar.free["node"].steps() == [(0, 4), (25, 2), (35, 4)]
    assert commit(calendar, "lab.2", 6).nodes == 2
    assert calendar.get("lab.1").state is ReservationState.RELEASED


@pytest.mark.parametrize("ending", ["release", "complete", "late commit"])
def test_old_one_ends_behind_the_start_of_a_hold_in_doubt(ending: str) -> None:
    """A trip's hold may outlive its own start while its outcome is asked for; the end of what it
    was to replace must not tear the book: what both used until then stays, the rest is freed.
    """
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=20))
    hold(calendar, a_request("request-2", nodes=4, start=25, replaces="lab.1"))
    if ending == "release":
        release(calendar, "lab.1", 28)
    elif ending == "complete":
        carry_out(calendar, calendar.decide_sweep(30))
    else:
        carry_out(calendar, calendar.decide_late_commit("lab.2", 28)[1])
    assert free_per_second(calendar, range(24, 37)) == [1] + [0] * 10 + [4, 4]
    release(calendar, "lab.2", 32)
    assert free_per_second(calendar, range(30, 37)) == [0, 0, 4, 4, 4, 4, 4]


def test_clock_that_steps_back_behind_the_end_of_the_old_one() -> None:
    """What the old one used stays used, and the new one gives back only what it took itself."""
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=20))
    hold(calendar, a_request("request-2", nodes=4, start=25, replaces="lab.1"))
    release(calendar, "lab.1", 28)
    release(calendar, "lab.2", 26)
    assert free_per_second(calendar, range(24, 31)) == [1, 0, 1, 1, 4, 4, 4]


def test_failed_nodes_do_not_stop_a_change() -> None:
    """When nodes broke under both, ending the old one gives back the difference and asks for no
    room that is not there.
    """
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=4, start=20))
    hold(calendar, a_request("request-2", nodes=3, start=20, replaces="lab.1"))
    calendar.free["node"].withdraw(2, 0, None)
    commit(calendar, "lab.2", 1)
    assert free_per_second(calendar, range(19, 31)) == [2] + [-1] * 10 + [2]


def test_replacing_in_one_step() -> None:
    """A booking that waits for nobody supersedes the old one at once, in its room."""
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=20))
    book(calendar, a_request("request-2", nodes=4, start=25, replaces="lab.1"))
    assert calendar.get("lab.1").state is ReservationState.SUPERSEDED
    assert calendar.free["node"].steps() == [(0, 4), (25, 0), (35, 4)]


def test_one_change_at_a_time() -> None:
    """What is about to be replaced can neither be amended nor replaced by yet another; that is an
    answer, not a fault.
    """
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=1, start=20))
    hold(calendar, a_request("request-2", nodes=1, start=25, replaces="lab.1"))
    again = a_request("request-3", nodes=1, replaces="lab.1")
    answers = [
        calendar.decide_reserve(again, "ada", 10, 0)[0],
        calendar.inquire(again, 0),
        calendar.decide_amend("lab.1", a_request("request-4"), "ada", 0)[0],
    ]
    for answer in answers:
        assert refused(answer).rule is DeclineRule.STATE
        assert "another change of it is under way" in refused(answer).message


def test_only_what_is_committed_can_be_replaced() -> None:
    """A hold or a finished reservation cannot; an unknown one is a fault."""
    calendar = a_calendar(4)
    hold(calendar, a_request())
    request = a_request("request-2", replaces="lab.1")
    answer = refused(calendar.decide_reserve(request, "ada", 10, 0)[0])
    assert answer.message == "cannot replace reservation lab.1: it is HELD"
    release(calendar, "lab.1")
    assert refused(calendar.inquire(request, 0)).rule is DeclineRule.STATE
    with pytest.raises(NotFoundError):
        calendar.inquire(a_request(replaces="lab.9"), 0)


def test_replacement_of_another_class_needs_all_its_room() -> None:
    """Nodes of another class do not stand in for each other."""
    calendar = a_calendar(classes=TWO_CLASSES)
    book(calendar, a_request(nodes=4, start=20))
    request = a_request("request-2", nodes=2, start=20, features=("gpu",), replaces="lab.1")
    assert hold(calendar, request).resource_class == "wide"
    assert free_per_second(calendar, range(20, 21), "wide") == [0]
    commit(calendar, "lab.2", 1)
    assert calendar.free["slim"].steps() == [(0, 4)]

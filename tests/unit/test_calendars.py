"""The owner's calendar, told as stories: each test is one rule of the protocol."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gridtravel.gridcore.booking.calendar_rules import FlatTariff, ResourceClass
from gridtravel.gridcore.booking.reservations import (
    Availability,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationState,
)
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import ConflictError, InputError, NotAuthorisedError, NotFoundError
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

# -- saying it twice -------------------------------------------------------------------------------


def test_same_request_again_gives_the_same_hold() -> None:
    """Idempotency: a retried reserve does not collide with its own first hold."""
    calendar, request = a_calendar(4), a_request(nodes=4)
    held = hold(calendar, request)
    assert calendar.decide_reserve(request, "ada", 99, 5) == (held, ())
    assert calendar.version.number == 1


def test_same_request_again_shows_how_it_stands_now() -> None:
    """After the commit, the reserve that was said twice is answered with what is committed."""
    calendar, request = a_calendar(), a_request()
    committed = commit(calendar, hold(calendar, request).reservation_id)
    assert calendar.decide_reserve(request, "ada", 10, 1) == (committed, ())
    assert calendar.decide_commit(committed.reservation_id, "ada", 2) == (committed, ())


def test_another_request_under_the_same_id_is_a_mistake() -> None:
    """An id names one request for good."""
    calendar = a_calendar()
    hold(calendar, a_request(nodes=1))
    with pytest.raises(InputError, match="use a new id"):
        calendar.decide_reserve(a_request(nodes=2), "ada", 10, 0)


def test_request_ids_belong_to_their_owner() -> None:
    """Two people may use the same id without hearing of each other."""
    calendar, request = a_calendar(), a_request()
    assert hold(calendar, request).reservation_id == "lab.1"
    assert hold(calendar, request, owner="bob").reservation_id == "lab.2"
    assert calendar.find_request("bob", "request-1") == calendar.get("lab.2")
    assert calendar.find_request("eve", "request-1") is None


@pytest.mark.parametrize("ending", ["release", "expire", "complete"])
def test_late_duplicate_cannot_revive(ending: str) -> None:
    """A finished id leaves a tombstone: the same words much later book nothing."""
    calendar, request = a_calendar(), a_request(start=20)
    if ending == "complete":
        book(calendar, request)
        carry_out(calendar, calendar.decide_sweep(30))
    else:
        event = ReservationEvent(ending)
        reservation_id = hold(calendar, request).reservation_id
        carry_out(calendar, calendar.decide_release(reservation_id, None, 15, event=event))
    answer, events = calendar.decide_reserve(request, "ada", 10, 50)
    assert refused(answer).rule is DeclineRule.FINISHED
    assert "ask with a new id" in refused(answer).message
    assert events == ()


def test_release_that_overtakes_its_request() -> None:
    """When the answer to a reserve was lost, releasing by request id buries the late copy."""
    calendar, request = a_calendar(), a_request()
    carry_out(calendar, calendar.decide_release_request("request-1", "ada", 0))
    assert calendar.decide_release_request("request-1", "ada", 1) == ()
    answer, events = calendar.decide_reserve(request, "ada", 10, 2)
    assert refused(answer).rule is DeclineRule.FINISHED
    assert events == ()
    assert hold(calendar, request, owner="bob").owner == "bob"


def test_late_copies_of_a_changed_request_change_nothing() -> None:
    """After two changes, neither the first reserve nor the first change can be replayed."""
    calendar = a_calendar(4)
    first, second, third = (a_request(f"request-{n}", start=20 * n) for n in (1, 2, 3))
    reservation_id = book(calendar, first).reservation_id
    for request in (second, third):
        answer, events = calendar.decide_amend(reservation_id, request, "ada", 0)
        carry_out(calendar, events)
    for request in (first, second, third):
        assert calendar.decide_reserve(request, "ada", None, 0) == (answer, ())
        assert calendar.decide_amend(reservation_id, request, "ada", 0) == (answer, ())
        assert calendar.find_request("ada", request.request_id) == answer
    assert calendar.get(reservation_id).start == 60
    carry_out(calendar, calendar.decide_release_request("request-1", "ada", 1))
    assert not calendar.live()


def test_tombstones_are_forgotten_in_the_end() -> None:
    """After tombstone_s a finished id, all its request ids and a buried one take no room."""
    calendar = a_calendar(rules=some_rules(tombstone_s=100))
    reservation_id = book(calendar, a_request(start=20)).reservation_id
    _, events = calendar.decide_amend(reservation_id, a_request("request-2", start=30), None, 0)
    carry_out(calendar, events)
    kept = book(calendar, a_request("request-4", start=20))
    release(calendar, reservation_id, 10)
    release(calendar, kept.reservation_id, 11)
    carry_out(calendar, calendar.decide_release_request("request-3", "ada", 11))
    assert calendar.oldest_tombstone() == 10
    assert calendar.decide_sweep(110) == ()
    carry_out(calendar, calendar.decide_sweep(111))
    assert calendar.finished_at == {kept.reservation_id: 11}
    assert calendar.find_request("ada", "request-2") is None
    assert calendar.oldest_tombstone() == 11
    carry_out(calendar, calendar.decide_sweep(112))
    assert (dict(calendar.tombstoned), calendar.oldest_tombstone()) == ({}, None)
    assert calendar.reservations == {}
    assert book(calendar, a_request(start=200), 112).reservation_id == "lab.3"


def test_oldest_tombstone_although_the_clock_stepped_back() -> None:
    """A tombstone that bears a wrong, late time does not keep the others from being forgotten."""
    calendar = a_calendar(rules=some_rules(tombstone_s=100))
    carry_out(calendar, calendar.decide_release_request("request-1", "ada", 5000))
    carry_out(calendar, calendar.decide_release_request("request-2", "ada", 10))
    carry_out(calendar, calendar.decide_sweep(200))
    assert list(calendar.tombstoned) == [("ada", "request-1")]


# -- holds and their lifetime ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttl_s", "start", "expires_at"),
    [(10, 100, 10), (99, 100, 20), (0, 100, 2), (-5, 100, 2), (10, 6, 5), (10, 3, 2)],
)
def test_lifetime_is_clamped_and_ends_before_the_start(
    ttl_s: int, start: int, expires_at: int
) -> None:
    """At most hold_ttl_max_s, at least hold_ttl_min_s, and over hold_margin_s before the start."""
    held = hold(a_calendar(), a_request(start=start), ttl_s=ttl_s)
    assert held.hold_expires_at == expires_at < held.start


def test_start_that_leaves_no_lifetime_is_refused() -> None:
    """A hold needs hold_ttl_min_s and hold_margin_s before its start; the refusal names the first
    start that leaves them.
    """
    calendar = a_calendar(rules=some_rules(hold_ttl_min_s=4, hold_margin_s=3))
    answer, events = calendar.decide_reserve(a_request(start=6), "ada", 10, 0)
    assert events == ()
    assert (refused(answer).rule, refused(answer).earliest) == (DeclineRule.START_TOO_SOON, 7)
    assert hold(calendar, a_request("request-2", start=7)).hold_expires_at == 4


def test_who_waits_for_nobody_may_start_at_once() -> None:
    """Without a lifetime there is no hold, hence no lead: the booking is committed at once."""
    booked = book(a_calendar(), a_request(start=5), 5)
    assert (booked.state, booked.hold_expires_at) == (ReservationState.COMMITTED, None)


def test_commit_in_time_and_too_late() -> None:
    """A hold is good until its lifetime ends, and not a second longer, swept or not."""
    calendar = a_calendar()
    in_time, too_late = (hold(calendar, a_request(f"request-{n}", start=50)) for n in (1, 2))
    assert commit(calendar, in_time.reservation_id, 9).hold_expires_at is None
    answer, events = calendar.decide_commit(too_late.reservation_id, "ada", 10)
    assert refused(answer).message == "cannot commit reservation lab.2: it is EXPIRED"
    carry_out(calendar, events)
    assert calendar.get("lab.2").state is ReservationState.EXPIRED
    assert refused(calendar.decide_commit("lab.2", "ada", 11)[0]).rule is DeclineRule.STATE


def test_late_commit_because_the_trip_was_committed() -> None:
    """A hold in doubt is committed past its lifetime once the outcome is known; saying so twice, or
    when it is over, is no fault; but what was let go stays gone.
    """
    calendar = a_calendar()
    for number in (1, 2):
        hold(calendar, a_request(f"request-{number}", start=20))
    answer, events = calendar.decide_late_commit("lab.1", 25)
    carry_out(calendar, events)
    assert calendar.decide_late_commit("lab.1", 26) == (answer, ())
    carry_out(calendar, calendar.decide_sweep(30))
    assert calendar.decide_late_commit("lab.1", 31) == (calendar.get("lab.1"), ())
    release(calendar, "lab.2", 31)
    assert refused(calendar.decide_late_commit("lab.2", 32)[0]).rule is DeclineRule.STATE


def test_due_holds_and_the_next_expiry() -> None:
    """The owner learns whom to let go, oldest first, and when to look again; a sweep leaves holds
    alone, also when their time has passed, and so does the clock of endings.
    """
    calendar = a_calendar()
    for number, ttl_s in enumerate([9, 4, 4], start=1):
        hold(calendar, a_request(f"request-{number}", nodes=1, start=20), ttl_s=ttl_s)
    assert calendar.next_expiry() == 4
    assert [each.reservation_id for each in calendar.due_holds(8)] == ["lab.2", "lab.3"]
    assert calendar.decide_sweep(50) == ()
    assert calendar.next_end() is None
    assert a_calendar().next_expiry() is None


# -- release ---------------------------------------------------------------------------------------


def test_release_always_succeeds() -> None:
    """Unknown, finished or live: releasing is no fault, and frees the room once."""
    calendar = a_calendar()
    assert calendar.decide_release("lab.1", "ada", 0) == ()
    hold(calendar, a_request(nodes=4))
    release(calendar, "lab.1", 1)
    assert calendar.decide_release("lab.1", "ada", 2) == ()
    assert calendar.free["node"].steps() == [(0, 4)]


def test_release_while_running_frees_the_rest() -> None:
    """What is past stays as it was."""
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=10, duration_s=4))
    release(calendar, "lab.1", 12)
    assert free_per_second(calendar, range(9, 16)) == [4, 1, 1, 4, 4, 4, 4]


def test_an_end_that_the_state_does_not_allow_is_never_journaled() -> None:
    """Deciding refuses what applying would refuse: a journal must not hold what cannot be
    replayed.
    """
    calendar = a_calendar()
    book(calendar, a_request())
    with pytest.raises(ConflictError, match="cannot expire a reservation that is COMMITTED"):
        calendar.decide_release("lab.1", None, 0, event=ReservationEvent.EXPIRE)


def test_only_the_owner_may_touch_a_reservation() -> None:
    """Each verb checks who asks; the calendar's own master (None) may all."""
    calendar = a_calendar()
    held = hold(calendar, a_request())
    booked = book(calendar, a_request("request-2"))
    replacing = a_request("request-3", replaces=booked.reservation_id)
    refusals: list[Callable[[], object]] = [
        lambda: calendar.decide_commit(held.reservation_id, "bob", 0),
        lambda: calendar.decide_release(held.reservation_id, "bob", 0),
        lambda: calendar.decide_amend(booked.reservation_id, a_request("r"), "bob", 0),
        lambda: calendar.decide_reserve(replacing, "bob", 10, 0),
        lambda: calendar.decide_reserve(replacing, "bob", None, 0),
        lambda: calendar.inquire(replacing, 0, by="bob"),
    ]
    for refusal in refusals:
        with pytest.raises(NotAuthorisedError, match="belongs to somebody else"):
            refusal()
    assert isinstance(calendar.inquire(replacing, 0, by="ada"), Availability)
    assert calendar.get(held.reservation_id, None) == held
    with pytest.raises(NotFoundError):
        calendar.get("lab.9")


# -- what may be booked ----------------------------------------------------------------------------


def test_inquiry_has_no_effect() -> None:
    """Looking changes neither room nor version, also when something is to be replaced."""
    calendar = a_calendar()
    booked = book(calendar, a_request(nodes=4, start=20))
    before = calendar.free["node"].copy()
    request = a_request("request-2", nodes=4, start=20, replaces=booked.reservation_id)
    assert isinstance(calendar.inquire(request, 0), Availability)
    assert (calendar.free["node"], calendar.version.number) == (before, 1)


def test_features_choose_between_classes() -> None:
    """Every node granted has all features; among those the cheapest, then the larger offer."""
    calendar = a_calendar(classes=TWO_CLASSES)
    assert book(calendar, a_request("a", nodes=(1, 3))).resource_class == "slim"
    assert book(calendar, a_request("b", features=("gpu",))).resource_class == "wide"
    answer, _ = calendar.decide_reserve(a_request("c", features=("tape",)), "ada", None, 0)
    assert refused(answer).rule is DeclineRule.FEATURES
    assert "known features: disk, gpu" in refused(answer).message


def test_budget_bounds_the_size() -> None:
    """As many nodes as fit and as the budget pays for; too little for the least is a refusal that
    names the price.
    """
    calendar = a_calendar(4, tariff=FlatTariff(3600))
    booked = book(calendar, a_request(nodes=(1, 4), budget_millicredits=35))
    assert (booked.nodes, booked.price_millicredits) == (3, 30)
    request = a_request("request-2", nodes=(2, 4), earliest=50, budget_millicredits=19)
    answer = refused(calendar.decide_reserve(request, "ada", None, 0)[0])
    assert (answer.rule, answer.nodes_now) == (DeclineRule.BUDGET, 1)
    assert "the least price is 20 millicredits for 2 nodes, the budget is 19" in answer.message


def test_nothing_beyond_the_horizon() -> None:
    """A booking ends within horizon_s from now."""
    calendar = a_calendar(rules=some_rules(horizon_s=100))
    book(calendar, a_request("request-1", start=90))
    answer, _ = calendar.decide_reserve(a_request("request-2", start=91), "ada", None, 0)
    assert refused(answer).rule is DeclineRule.BEYOND_HORIZON
    book(calendar, a_request("request-2", start=91), 1)


def test_room_may_be_another_than_the_books() -> None:
    """A scheduler lets its users search where its queue leaves room."""
    calendar = a_calendar(4)
    availability = {"node": AvailabilityProfile(4)}
    availability["node"].book(3, 0, 500)
    answer, _ = calendar.decide_reserve(a_request(), "ada", None, 0, availability=availability)
    assert isinstance(answer, Reservation)
    assert answer.start == 500
    offers = calendar.inquire(a_request(), 0, availability=availability)
    assert isinstance(offers, Availability)
    assert offers.offers[0].start == 500

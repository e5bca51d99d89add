"""Inquiries and amendments under a site's limits, case by case."""

from __future__ import annotations

from gridtravel.gridcore.booking.reservations import Availability, DeclineRule, Reservation
from gridtravel.local_sched.reservations.user_reservations import (
    NO_LIMITS,
    AccountLimits,
    UserReservationLimits,
    decide_amend_within_limits,
    inquire_within_limits,
    limited_availability,
)
from tests.support.builders import OWNER, a_calendar, a_request, book, carry_out, refused


def test_without_limits_the_room_is_searched_as_it_is() -> None:
    """A site that limits nothing copies nothing."""
    calendar = a_calendar()
    assert limited_availability(calendar, NO_LIMITS, a_request(), 0, calendar.free) is calendar.free


def test_an_inquiry_is_refused_as_the_reservation_would_be() -> None:
    """The number of live reservations of the account counts for inquiries too, and the refusal says
    who refuses and when it would pass.
    """
    calendar = a_calendar()
    first = book(calendar, a_request("one"))
    limits = UserReservationLimits(default=AccountLimits(reservations_max=1))
    answer = refused(
        inquire_within_limits(
            calendar, limits, a_request("two"), 0, by=OWNER, availability=calendar.free
        )
    )
    assert answer.rule is DeclineRule.LIMIT_RESERVATIONS
    assert answer.message.startswith("lab: ")
    assert answer.site == "lab"
    assert answer.earliest == first.end


def test_an_inquiry_offers_no_more_nodes_than_the_account_may_have() -> None:
    """Policy 3 shows in the offers."""
    limits = UserReservationLimits(default=AccountLimits(nodes_max=3))
    calendar = a_calendar(8)
    request = a_request(nodes=(1, 8))
    found = inquire_within_limits(
        calendar, limits, request, 0, by=OWNER, availability=calendar.free
    )
    assert isinstance(found, Availability)
    assert {offer.nodes for offer in found.offers} == {3}


def test_an_amendment_does_not_count_what_it_amends() -> None:
    """An account with all the reservations it may have can still change one."""
    calendar = a_calendar()
    kept = book(calendar, a_request("one"))
    limits = UserReservationLimits(default=AccountLimits(reservations_max=1))
    answer, events = decide_amend_within_limits(
        calendar,
        limits,
        kept.reservation_id,
        a_request("two", nodes=3),
        OWNER,
        0,
        availability=calendar.free,
    )
    carry_out(calendar, events)
    assert isinstance(answer, Reservation)
    assert answer.nodes == 3


def test_an_amendment_may_not_grow_past_the_global_limit() -> None:
    """The old reservation's room counts as free, and not on top of the limit; the refusal names the
    rule, since the nodes themselves are free.
    """
    calendar = a_calendar(8)
    kept = book(calendar, a_request("one", nodes=2, duration_s=10, start=50))
    limits = UserReservationLimits(window_s=100, window_node_seconds_max=40)

    def amended(nodes: int | tuple[int, int]) -> object:
        request = a_request("two", nodes=nodes, duration_s=10, start=50)
        return decide_amend_within_limits(
            calendar, limits, kept.reservation_id, request, OWNER, 0, availability=calendar.free
        )[0]

    largest = amended((1, 8))
    assert isinstance(largest, Reservation)
    assert largest.nodes == 4
    assert refused(amended(5)).rule is DeclineRule.LIMIT_NODE_SECONDS


def test_less_is_granted_under_limits_that_became_narrower() -> None:
    """Who has more than is allowed by now may give some of it back, and not take more."""
    calendar = a_calendar(8)
    kept = book(calendar, a_request("one", nodes=4, duration_s=100, start=50))
    limits = UserReservationLimits(default=AccountLimits(nodes_max=2, duration_max_s=10))

    def amended(nodes: int, duration_s: int) -> object:
        request = a_request(f"{nodes}-{duration_s}", nodes=nodes, duration_s=duration_s, start=50)
        return decide_amend_within_limits(
            calendar, limits, kept.reservation_id, request, OWNER, 0, availability=calendar.free
        )[0]

    shorter = amended(3, 60)
    assert isinstance(shorter, Reservation)
    assert (shorter.nodes, shorter.interval.duration_s) == (3, 60)
    assert refused(amended(5, 60)).rule is DeclineRule.LIMIT_NODES
    assert refused(amended(1, 101)).rule is DeclineRule.LIMIT_DURATION


def test_an_amendment_said_twice_gets_its_first_answer() -> None:
    """Also when the limits would refuse it by now."""
    calendar = a_calendar()
    kept = book(calendar, a_request("one"))
    request = a_request("two", nodes=3)
    first, events = decide_amend_within_limits(
        calendar, NO_LIMITS, kept.reservation_id, request, OWNER, 0, availability=calendar.free
    )
    carry_out(calendar, events)
    tight = UserReservationLimits(default=AccountLimits(nodes_max=1))
    again, events = decide_amend_within_limits(
        calendar, tight, kept.reservation_id, request, OWNER, 0, availability=calendar.free
    )
    assert (again, events) == (first, ())

"""The search behind an inquiry: what is offered, and what a refusal teaches."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.calendar_rules import FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Availability,
    DeclineRule,
    Offer,
    ReservationRequest,
)
from tests.support.builders import a_calendar, a_request, book, refused, some_rules
from tests.support.calendar_model import PerClassTariff

TWINS = [ResourceClass(name="alpha", nodes=4), ResourceClass(name="beta", nodes=4)]


def a_busy_calendar(**rules: int) -> Calendar:
    """Four nodes: one left during [20, 30), none during [40, 50)."""
    calendar = a_calendar(4, rules=some_rules(**rules))
    book(calendar, a_request("request-a", nodes=3, start=20))
    book(calendar, a_request("request-b", nodes=4, start=40))
    return calendar


def offered(answer: object) -> list[tuple[int, int, int]]:
    """(start, until, nodes) of each offer."""
    assert isinstance(answer, Availability), answer
    return [(each.start, each.start_until, each.nodes) for each in answer.offers]


def test_offers_are_runs_of_starts() -> None:
    """Each run has one size; behind the last one the answer says up to where it is complete."""
    answer = a_busy_calendar().inquire(a_request("r", nodes=(1, 4), earliest=10, until=70), 0)
    assert offered(answer) == [(10, 11, 4), (11, 30, 1), (30, 31, 4), (50, 61, 4)]
    assert isinstance(answer, Availability)
    assert answer.known_until == 61


def test_room_beyond_what_was_asked_for_makes_one_run_of_many() -> None:
    """Who wants at most two nodes is not told of every change above two."""
    calendar = a_calendar(8)
    for start in range(10, 60, 10):
        calendar.free["node"].book(start // 10, start, start + 10)
    answer = calendar.inquire(a_request("r", nodes=(1, 2), earliest=10, until=70), 0)
    assert offered(answer) == [(10, 61, 2)]


def test_a_longer_answer_is_cut_where_it_says() -> None:
    """Beyond known_until the answer is silent; asking again from there gives the rest."""
    calendar = a_busy_calendar(offers_max=2)
    request = a_request("r", nodes=(1, 4), earliest=10, until=70)
    seen, earliest = [], 10
    for _ in range(2):
        answer = calendar.inquire(a_request("r", nodes=(1, 4), earliest=earliest, until=70), 0)
        seen += offered(answer)
        assert isinstance(answer, Availability)
        earliest = answer.known_until
    assert seen == offered(a_busy_calendar().inquire(request, 0))
    assert earliest == 61


def test_a_cut_answer_always_makes_progress() -> None:
    """All classes that start first are told, whatever the bound, or one could ask for ever."""
    calendar = a_calendar(classes=TWINS, rules=some_rules(offers_max=1))
    answer = calendar.inquire(a_request(earliest=10, until=30), 0)
    assert isinstance(answer, Availability)
    assert [each.resource_class for each in answer.offers] == ["alpha", "beta"]
    assert answer.known_until == 21
    for name in ("alpha", "beta"):
        calendar.free[name].book(3, 15, 16)
    answer = calendar.inquire(a_request(nodes=(1, 4), earliest=10, until=40), 0)
    assert isinstance(answer, Availability)
    assert {each.start for each in answer.offers} == {10}
    assert answer.known_until == 16


def test_order_is_start_then_price_then_size_then_name() -> None:
    """The first offer is the one that a reserve takes."""
    tariff = PerClassTariff((("alpha", 2), ("beta", 1)))
    calendar = a_calendar(classes=TWINS, tariff=tariff)
    assert book(calendar, a_request("a")).resource_class == "beta"
    calendar = a_calendar(classes=TWINS)
    calendar.free["alpha"].book(1, 0, 500)
    assert book(calendar, a_request("b", nodes=(1, 4), start=5)).resource_class == "beta"
    calendar.free["beta"].book(1, 100, 500)
    assert book(calendar, a_request("c", nodes=(1, 4), start=100)).resource_class == "alpha"


def test_offers_carry_price_and_version() -> None:
    """For one node over the whole duration, rounded up."""
    calendar = a_calendar(4, tariff=FlatTariff(100))
    answer = calendar.inquire(a_request(start=20), 0)
    assert isinstance(answer, Availability)
    offer = Offer(
        start=20, start_until=21, nodes=2, resource_class="node", unit_price_millicredits=1
    )
    assert (answer.offers, answer.version) == ((offer,), calendar.version)


def test_features_must_all_be_there() -> None:
    """A site without the features says which ones it knows."""
    answer = refused(a_calendar().inquire(a_request(features=("gpu", "tape")), 0))
    assert (answer.rule, answer.earliest, answer.nodes_now) == (DeclineRule.FEATURES, None, 0)
    assert answer.message == "lab: no nodes with all of gpu, tape; known features: none"


@pytest.mark.parametrize(
    ("wish", "now", "rule", "earliest", "nodes_now"),
    [
        # No time would cure it; what there is in the window is told.
        (a_request(nodes=5, start=20), 0, DeclineRule.TOO_LARGE, None, 1),
        # Too late: the next chance is as soon as a hold can start.
        (a_request(start=20), 30, DeclineRule.WINDOW_PAST, 50, 0),
        # The window lasts until 30, but no ten seconds are left in it.
        (a_request(start=20), 19, DeclineRule.START_TOO_SOON, 30, 0),
        # Full or too full; the window is not followed by room until 50.
        (a_request(start=40), 0, DeclineRule.NO_ROOM, 50, 0),
        (a_request(nodes=(2, 4), start=20), 0, DeclineRule.NO_ROOM, 30, 1),
        (a_request(nodes=(2, 4), start=31), 0, DeclineRule.NO_ROOM, 50, 0),
        # Behind the horizon, also when only the lead pushes it there.
        (a_request(start=1991), 0, DeclineRule.BEYOND_HORIZON, None, 0),
        (a_request(duration_s=1998), 0, DeclineRule.BEYOND_HORIZON, None, 0),
    ],
)
def test_refusals_teach(
    wish: ReservationRequest, now: int, rule: DeclineRule, earliest: int | None, nodes_now: int
) -> None:
    """Each refusal names its rule, the first start that would be granted, and what would fit."""
    answer = refused(a_busy_calendar().inquire(wish, now))
    assert (answer.rule, answer.earliest, answer.nodes_now) == (rule, earliest, nodes_now)
    assert answer.site == "lab"


def test_the_horizon_itself_can_be_booked() -> None:
    """What would end just there is refused for want of room only."""
    calendar = a_busy_calendar(horizon_s=50)
    answer = refused(calendar.inquire(a_request(start=40), 0))
    assert (answer.rule, answer.earliest) == (DeclineRule.NO_ROOM, None)
    answer = refused(calendar.inquire(a_request(start=41), 0))
    assert answer.rule is DeclineRule.BEYOND_HORIZON


def test_what_a_refusal_names_is_granted() -> None:
    """Asked again for the start that it names, with a window long enough, the owner says yes."""
    calendar = a_busy_calendar()
    answer = refused(calendar.inquire(a_request("r", nodes=2, start=25), 0))
    assert answer.earliest is not None
    again = a_request("r", nodes=2, start=answer.earliest)
    assert offered(calendar.inquire(again, 0)) == [(30, 31, 2)]


def test_refusals_keep_the_budget_in_mind() -> None:
    """What a refusal names instead could also be paid: a dear class that is free earlier does not
    count, and neither do nodes beyond the budget.
    """
    tariff = PerClassTariff((("alpha", 1), ("beta", 5)))
    calendar = a_calendar(classes=TWINS, tariff=tariff)
    calendar.free["alpha"].book(4, 0, 60)
    calendar.free["beta"].book(1, 0, 60)
    poor = a_request(nodes=2, start=20, budget_millicredits=60)
    answer = refused(calendar.inquire(poor, 0))
    assert (answer.rule, answer.earliest, answer.nodes_now) == (DeclineRule.BUDGET, 60, 1)
    rich = a_request(nodes=4, start=20)
    answer = refused(calendar.inquire(rich, 0))
    assert (answer.rule, answer.earliest, answer.nodes_now) == (DeclineRule.NO_ROOM, 60, 3)


def test_free_time_costs_nothing() -> None:
    """Without a price an empty budget is enough."""
    assert book(a_calendar(), a_request(nodes=(1, 4), budget_millicredits=0)).nodes == 4

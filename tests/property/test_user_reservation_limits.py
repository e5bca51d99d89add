"""The paper's limits on user-settable reservations, against windows counted second by second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.calendar_rules import ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.local_sched.reservations.user_reservations import (
    AccountLimits,
    UserReservationLimits,
    counted,
    decide_reserve_within_limits,
    quota_left,
)

NODES = 6
WINDOW_S = 20
HORIZON_S = 160

wishes = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.integers(0, 3),
        st.integers(1, 25),
        st.integers(0, 60),
        st.sampled_from(["red", "blue"]),
    ),
    min_size=1,
    max_size=10,
)


def ask(number: int, wish: tuple[int, int, int, int, str]) -> ReservationRequest:
    """A request anywhere between its earliest start and the horizon."""
    nodes, more, duration_s, earliest, account = wish
    return ReservationRequest(
        request_id=f"r{number}",
        account=account,
        nodes_min=nodes,
        nodes_max=nodes + more,
        duration_s=duration_s,
        earliest_start=earliest,
        latest_end=HORIZON_S,
    )


def per_second(live: list[Reservation]) -> list[int]:
    """Nodes of user-settable reservations at each second."""
    used = [0] * (HORIZON_S + WINDOW_S)
    for each in live:
        for second in range(each.start, each.end):
            used[second] += each.nodes
    return used


def window_sums(live: list[Reservation]) -> list[int]:
    """Node-seconds in every window, wherever it is put; entry 0 is the first that touches
    second 0.
    """
    used = [0] * WINDOW_S + per_second(live)
    return [sum(used[start : start + WINDOW_S]) for start in range(len(used))]


@given(wishes, st.integers(0, 120))
def test_no_window_ever_holds_more_than_the_limit(
    wishes: list[tuple[int, int, int, int, str]], most: int
) -> None:
    """However requests come, every window stays within; and who is refused touches a full
    window.
    """
    calendar = Calendar("here", [ResourceClass(name="node", nodes=NODES)])
    limits = UserReservationLimits(window_s=WINDOW_S, window_node_seconds_max=most)
    for number, wish in enumerate(wishes):
        request = ask(number, wish)
        before = counted(calendar.live(), 0)
        answer, events = decide_reserve_within_limits(
            calendar, limits, request, "ann", None, 0, availability=calendar.free
        )
        for event in events:
            calendar.apply(event)
        live = counted(calendar.live(), 0)
        assert max(window_sums(live), default=0) <= most
        first_open = first_open_start(before, request, most)
        if isinstance(answer, Reservation):
            assert first_open is not None
            assert answer.start <= first_open
        else:
            assert first_open is None or answer.earliest == first_open


def first_open_start(live: list[Reservation], request: ReservationRequest, most: int) -> int | None:
    """The first start whose every touched window has room for the whole of the smallest size."""
    used, sums = per_second(live), window_sums(live)
    demand = request.nodes_min * min(request.duration_s, WINDOW_S)
    for start in range(request.earliest_start, HORIZON_S - request.duration_s + 1):
        seconds = range(start, start + request.duration_s)
        touched = sums[start + 1 : start + request.duration_s + WINDOW_S]
        has_nodes = all(used[second] + request.nodes_min <= NODES for second in seconds)
        if has_nodes and all(total + demand <= most for total in touched):
            return start
    return None


@given(wishes, st.integers(0, 3), st.integers(1, 4), st.integers(1, 20))
def test_account_limits_hold_and_say_what_would_pass(
    wishes: list[tuple[int, int, int, int, str]], instances: int, nodes: int, duration_s: int
) -> None:
    """Number, nodes and seconds per account; the refusal names the rule, and the default is for
    others.
    """
    calendar = Calendar("here", [ResourceClass(name="node", nodes=100)])
    strict = AccountLimits(reservations_max=instances, nodes_max=nodes, duration_max_s=duration_s)
    limits = UserReservationLimits(accounts={"red": strict})
    for number, wish in enumerate(wishes):
        request = ask(number, wish)
        held = sum(1 for each in calendar.live() if each.request.account == "red")
        answer, events = decide_reserve_within_limits(
            calendar, limits, request, "ann", None, 0, availability=calendar.free
        )
        for event in events:
            calendar.apply(event)
        if request.account == "blue":
            assert isinstance(answer, Reservation)
        elif isinstance(answer, Reservation):
            assert held < instances
            assert answer.nodes <= nodes
            assert request.duration_s <= duration_s
        else:
            expected = {
                DeclineRule.LIMIT_RESERVATIONS: held >= instances,
                DeclineRule.LIMIT_NODES: request.nodes_min > nodes,
                DeclineRule.LIMIT_DURATION: request.duration_s > duration_s,
            }
            assert expected[answer.rule]


def test_refusal_names_the_window_and_the_earliest_start() -> None:
    """Nodes are free, the quota is not: the rule says so, and when it would pass."""
    calendar = Calendar("here", [ResourceClass(name="node", nodes=10)])
    limits = UserReservationLimits(window_s=100, window_node_seconds_max=100)
    first = ReservationRequest(
        request_id="a",
        account="x",
        nodes_min=5,
        nodes_max=5,
        duration_s=20,
        earliest_start=50,
        latest_end=70,
    )
    second = ReservationRequest(
        request_id="b",
        account="x",
        nodes_min=1,
        nodes_max=1,
        duration_s=10,
        earliest_start=0,
        latest_end=100,
    )
    for request in (first, second):
        answer, events = decide_reserve_within_limits(
            calendar, limits, request, "ann", None, 0, availability=calendar.free
        )
        for event in events:
            calendar.apply(event)
    assert isinstance(answer, Decline)
    assert answer.rule is DeclineRule.LIMIT_NODE_SECONDS
    assert answer.earliest == 151, "the last window that holds more than 90 begins at 50"
    assert "100 node-seconds in any 100 s" in answer.message
    assert quota_left(limits, counted(calendar.live(), 0), 0) == 0
    assert quota_left(limits, counted(calendar.live(), 0), 65) == 75
    again = decide_reserve_within_limits(
        calendar, limits, first, "ann", None, 0, availability=calendar.free
    )
    assert isinstance(again[0], Reservation), "said twice, answered as the first time"

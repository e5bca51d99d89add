"""The limits on user-settable reservations hold whatever is reserved, replaced and amended."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
)
from gridtravel.local_sched.reservations.user_reservations import (
    AccountLimits,
    UserReservationLimits,
    decide_amend_within_limits,
    decide_reserve_within_limits,
    inquire_within_limits,
)
from tests.support.builders import OWNER, a_calendar, carry_out

NODES = 6
WINDOW_S = 20
HORIZON_S = 160
LIMITS = UserReservationLimits(
    default=AccountLimits(nodes_max=4, duration_max_s=18),
    window_s=WINDOW_S,
    window_node_seconds_max=60,
)

steps = st.lists(
    st.tuples(
        st.sampled_from(["set", "amend", "replace"]),
        st.integers(0, 9),  # which reservation is changed
        st.integers(1, 4),  # least nodes
        st.integers(0, 3),  # more nodes
        st.integers(1, 22),  # duration
        st.integers(0, 60),  # earliest start
        st.integers(0, 3),  # seconds that pass before
    ),
    min_size=1,
    max_size=12,
)


def largest_window(calendar: Calendar, now: int) -> int:
    """The most node-seconds in any window, of reservations that are not over: what has been used up
    counts no longer, as in the original.
    """
    used = [0] * (HORIZON_S + 2 * WINDOW_S)
    for each in (each for each in calendar.live() if each.end > now):
        for second in range(each.start, each.end):
            used[second] += each.nodes
    return max(sum(used[at : at + WINDOW_S]) for at in range(HORIZON_S + WINDOW_S))


@given(steps)
def test_no_change_gets_around_the_limits(
    history: list[tuple[str, int, int, int, int, int, int]],
) -> None:
    """After any history of reservations, amendments and replacements: no window holds more
    node-seconds than allowed, none is larger or longer than its account may have, and what an
    inquiry offers is what a reservation then gets.
    """
    calendar = a_calendar(NODES)
    now = 0
    for number, (verb, which, nodes, more, duration_s, earliest, passes_s) in enumerate(history):
        now += passes_s
        calendar.advance(now)
        availability = {name: profile.copy() for name, profile in calendar.free.items()}
        request = ReservationRequest(
            request_id=f"r{number}",
            account="physics",
            nodes_min=nodes,
            nodes_max=nodes + more,
            duration_s=duration_s,
            earliest_start=earliest,
            latest_end=HORIZON_S,
        )
        live = [each for each in calendar.live() if each.end > now]
        old = live[which % len(live)] if live else None
        answer: Reservation | Decline
        if verb == "amend" and old is not None:
            answer, events = decide_amend_within_limits(
                calendar, LIMITS, old.reservation_id, request, OWNER, now, availability=availability
            )
        else:
            if verb == "replace" and old is not None:
                request = replace(request, replaces=old.reservation_id)
            offered = inquire_within_limits(
                calendar, LIMITS, request, now, by=OWNER, availability=availability
            )
            answer, events = decide_reserve_within_limits(
                calendar, LIMITS, request, OWNER, None, now, availability=availability
            )
            if isinstance(offered, Availability):
                assert isinstance(answer, Reservation), answer
        carry_out(calendar, events)
        if isinstance(answer, Reservation):
            assert answer.nodes <= 4
            assert answer.interval.duration_s <= 18
        assert largest_window(calendar, now) <= 60

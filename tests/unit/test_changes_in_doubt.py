"""A site with a change of a leg that nobody told it the outcome of, and one that was left out."""

from __future__ import annotations

from dataclasses import replace

from gridtravel.agents.trips.site_trips import SiteTrips
from gridtravel.gridcore.booking.calendar_events import ReservationMoved
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.leg_change import SETTLE_S
from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.timing.instants import Instant, Interval
from gridtravel.gridcore.trips.registers import CHECK_BEFORE_S
from gridtravel.gridcore.trips.trip_consensus import Outcome, Phase, VoteQuestion
from gridtravel.gridio.system.clock import ManualClock
from tests.support.builders import a_calendar, a_request, commit, hold
from tests.support.keeper_scenes import (
    NAMES,
    TRIP,
    FakeAcceptor,
    a_keeper,
    some_acceptors,
    some_seconds,
)

START = 100
NEW = replace(TRIP, attempt=2)


def a_changing_leg(calendar: Calendar, *, new_start: Instant = 200) -> tuple[str, Reservation]:
    """A booked leg of the first attempt, and the hold that is to change it."""
    held = hold(calendar, a_request(start=START, trip=TRIP))
    leg = commit(calendar, held.reservation_id)
    change = a_request("request-2", start=new_start, trip=NEW, replaces=leg.reservation_id)
    return leg.reservation_id, hold(calendar, change, START - SETTLE_S - 5)


async def chosen(acceptors: dict[str, FakeAcceptor], question: str) -> None:
    """COMMIT is chosen for a question."""
    for each in acceptors.values():
        await each.vote(VoteQuestion(instance=question, phase=Phase.ACCEPT, outcome=Outcome.COMMIT))


async def look(keeper: SiteTrips, clock: ManualClock, hold: Reservation | None = None) -> None:
    """The keeper does what is due, for four seconds."""
    async with keeper.background.open():
        if hold is not None:
            keeper.participant.settle_soon(hold)
        keeper.participant.look(clock.now())
        await some_seconds(clock)


async def test_a_change_in_doubt_is_found_out() -> None:
    """The acceptors say COMMIT: the leg has its new form, and is asked about before its new start
    and no longer before the old one.
    """
    acceptors = some_acceptors()
    calendar, clock = a_calendar(4), ManualClock(START - SETTLE_S)
    leg_id, change = a_changing_leg(calendar)
    await chosen(acceptors, NEW.instance)
    keeper = a_keeper(calendar, acceptors, clock)
    await look(keeper, clock, change)
    leg = calendar.get(leg_id)
    assert (leg.start, leg.request.trip) == (200, NEW)
    keeper.participant.note_moved(replace(leg, request=replace(leg.request, trip=TRIP)), leg)
    assert keeper.participant.next_due() == 200 - CHECK_BEFORE_S


async def test_what_nobody_decided_leaves_the_leg_as_it_was() -> None:
    """ABORT is chosen, and the hold ends."""
    acceptors = some_acceptors()
    calendar, clock = a_calendar(4), ManualClock(START - SETTLE_S)
    leg_id, change = a_changing_leg(calendar)
    await look(a_keeper(calendar, acceptors, clock), clock, change)
    assert calendar.get(change.reservation_id).state is ReservationState.EXPIRED
    assert calendar.get(leg_id).start == START


async def test_without_a_majority_a_change_ends_at_the_old_start() -> None:
    """However far off the new start is: then the leg has begun, and runs as it was promised."""
    acceptors = some_acceptors()
    for each in acceptors.values():
        each.is_dead = True
    calendar, clock = a_calendar(4), ManualClock(START - 2)
    leg_id, change = a_changing_leg(calendar)
    await look(a_keeper(calendar, acceptors, clock), clock, change)
    assert calendar.get(change.reservation_id).state is ReservationState.EXPIRED
    assert calendar.get(leg_id).state is ReservationState.COMMITTED


async def test_an_open_change_is_settled_before_the_old_attempt_is_asked_about() -> None:
    """The change was decided and the old attempt called off while this site was away: it is part of
    the new one, and must not take the old one's cancellation for its own.
    """
    acceptors = some_acceptors()
    calendar, clock = a_calendar(4), ManualClock(START - CHECK_BEFORE_S + 1)
    leg_id, _ = a_changing_leg(calendar)
    await chosen(acceptors, NEW.instance)
    await chosen(acceptors, TRIP.cancellation)
    keeper = a_keeper(calendar, acceptors, clock)
    keeper.participant.note_committed(calendar.get(leg_id))
    await look(keeper, clock)
    leg = calendar.get(leg_id)
    assert (leg.state, leg.start) == (ReservationState.COMMITTED, 200)


async def test_who_goes_on_calls_off_what_was_left_behind() -> None:
    """The new attempt has one site less: whoever has its new form sees to it that the site which
    was left out hears that before its start. Where all go on there is nothing to call off.
    """
    for sites, is_called_off in ((NAMES[:2], True), (NAMES, False)):
        acceptors = some_acceptors()
        calendar, clock = a_calendar(4), ManualClock(START - 50)
        old = commit(calendar, hold(calendar, a_request(start=START, trip=TRIP)).reservation_id)
        new = replace(old, request=replace(old.request, trip=replace(NEW, participants=sites)))
        keeper = a_keeper(calendar, acceptors, clock)
        keeper.participant.note_moved(old, new)
        await look(keeper, clock)
        assert all(
            (TRIP.cancellation in each.states) == is_called_off for each in acceptors.values()
        )
        if is_called_off:
            left_out = a_calendar(4, site="yard")
            leg = commit(left_out, hold(left_out, a_request(start=START, trip=TRIP)).reservation_id)
            late = ManualClock(START - 2)
            asker = a_keeper(left_out, acceptors, late)
            asker.participant.note_committed(leg)
            await look(asker, late)
            assert left_out.get(leg.reservation_id).state is ReservationState.RELEASED


async def test_what_became_of_an_old_form_does_not_touch_the_new_one() -> None:
    """A leg gets its new form while nobody answers about the old one. That attempt turns out to be
    cancelled, as it should be: the leg stays, and is asked about before its new start.
    """
    acceptors = some_acceptors()
    for each in acceptors.values():
        each.is_dead = True
    calendar, clock = a_calendar(4), ManualClock(START - CHECK_BEFORE_S + 1)
    leg = commit(calendar, hold(calendar, a_request(start=START, trip=TRIP)).reservation_id)
    keeper = a_keeper(calendar, acceptors, clock)
    async with keeper.background.open():
        keeper.participant.note_committed(leg)
        keeper.participant.look(clock.now())
        await some_seconds(clock)
        moved = replace(
            leg,
            request=replace(leg.request, request_id="request-2", trip=NEW),
            interval=Interval(200, 200 + 10),
        )
        calendar.apply(ReservationMoved(reservation=moved, at=clock.now()))
        for each in acceptors.values():
            each.is_dead = False
        await chosen(acceptors, TRIP.cancellation)
        await some_seconds(clock)
    assert calendar.get(leg.reservation_id).state is ReservationState.COMMITTED

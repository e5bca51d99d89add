"""A doubt has an end, which the nodes' owner sets: then the hold is withdrawn for good."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.calendar_rules import CalendarRules
from gridtravel.gridcore.booking.reservations import (
    Begin,
    Decline,
    Reservation,
    ReservationState,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorState,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
)
from tests.support.cards import an_acceptor
from tests.support.keeper_scenes import FakeAcceptor, some_acceptors
from tests.support.maintenance_world import KENNETH, NODES, MaintenanceWorld, a_wish

SITES = ("lab", "b", "c")
DAY_S = 86_400
START = 80 * DAY_S
"""A hold of two seconds once kept its nodes until then."""
TTL_S = 5
TRIP = TripRef(
    trip_id="trip-1",
    leg="first",
    participants=SITES,
    acceptors=tuple(an_acceptor(name) for name in ("b", "c")),
    legs=(
        TripLeg(leg="first", site="lab", start=START),
        TripLeg(leg="next", site="b", start=START),
    ),
    ends_at=START + 60,
)
DOUBT_MAX_S = CalendarRules().doubt_max_s


@pytest.fixture
def others() -> dict[str, FakeAcceptor]:
    """Those that keep the trip's outcome; nobody hears them until a test says so."""
    made = some_acceptors(("b", "c"))
    for each in made.values():
        each.is_dead = True
    return made


@pytest.fixture
async def world(tmp_path: Path, others: dict[str, FakeAcceptor]) -> AsyncIterator[MaintenanceWorld]:
    """A site that holds a leg of the trip on all of its nodes."""

    def connect(site: str, endpoint: str) -> FakeAcceptor:
        return others[site]

    made = MaintenanceWorld(tmp_path, connect=connect)  # type: ignore[arg-type]
    await made.start()
    yield made
    await made.stop()


async def held(world: MaintenanceWorld) -> Reservation:
    """The leg."""
    wish = replace(a_wish("leg", NODES, START, 60), trip=TRIP)
    answer = await world.agent.calendar_port(KENNETH).reserve(wish, ttl_s=TTL_S)
    assert isinstance(answer, Reservation), answer
    assert answer.hold_expires_at is not None
    return answer


async def test_a_hold_whose_keepers_answer_nobody_gives_its_room_back(
    world: MaintenanceWorld,
) -> None:
    """Not at the start of its trip, 80 days later, but at the end of the doubt that the site
    allows; and what was withdrawn is never committed.
    """
    hold = await held(world)
    assert hold.hold_expires_at is not None
    ends_at = hold.hold_expires_at + DOUBT_MAX_S
    async with world.agent.background.open():
        await world.pass_time(ends_at - world.clock.now() - 30)
        assert world.agent.calendar.get(hold.reservation_id).state is ReservationState.HELD
        await world.pass_time(60)
    ended = world.agent.calendar.get(hold.reservation_id)
    assert ended.state is ReservationState.EXPIRED
    again = a_wish("another", NODES, START, 60)
    assert isinstance(
        await world.agent.calendar_port(KENNETH).reserve(again, ttl_s=60), Reservation
    )
    port = world.agent.calendar_port(KENNETH)
    with contextlib.suppress(GridError):
        assert isinstance(await port.commit(hold.reservation_id), Decline)
    assert world.agent.calendar.get(hold.reservation_id).state is ReservationState.EXPIRED


async def test_a_trip_decided_meanwhile_is_cancelled_whole(
    world: MaintenanceWorld, others: dict[str, FakeAcceptor]
) -> None:
    """The keepers were cut off, and had accepted COMMIT: once the site hears them it has the trip
    cancelled, since its own leg is gone.
    """
    await held(world)
    async with world.agent.background.open():
        await world.pass_time(TTL_S + DOUBT_MAX_S + 60)
        for each in others.values():
            each.is_dead = False
            vote = Vote(ballot=Ballot(0), outcome=Outcome.COMMIT)
            each.states[TRIP.instance] = AcceptorState(instance=TRIP.instance, vote=vote)
        await world.pass_time(60)
    for each in others.values():
        asked = VoteQuestion(instance=TRIP.cancellation, phase=Phase.LEARN)
        answer = await each.vote(asked)
        assert answer.vote is not None
        assert answer.vote.outcome is Outcome.COMMIT


async def test_a_leg_is_said_to_be_ready_as_soon_as_its_keepers_are_back(
    world: MaintenanceWorld, others: dict[str, FakeAcceptor]
) -> None:
    """They were gone when it was committed, and are back some seconds before the start: no pause
    between two tries is so long that the start comes first.
    """
    start = world.clock.now() + 16
    legs = (TripLeg(leg="first", site="lab", start=start),)
    trip = replace(TRIP, begin=Begin.TOGETHER, legs=legs, ends_at=start + 60)
    wish = replace(a_wish("leg", NODES, start, 60), trip=trip)
    port = world.agent.calendar_port(KENNETH)
    async with world.agent.background.open():
        hold = await port.reserve(wish, ttl_s=TTL_S)
        assert isinstance(hold, Reservation), hold
        await port.commit(hold.reservation_id)
        await world.pass_time(10)
        for each in others.values():
            each.is_dead = False
        await world.pass_time(3)
    for each in others.values():
        said = each.states[trip.readiness("first")].vote
        assert said is not None
        assert said.outcome is Outcome.COMMIT

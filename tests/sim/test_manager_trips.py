"""A leg of a trip at a manager: the acceptors decide, and manager and children come to the same end
also when nobody tells them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationState,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.errors import NotFoundError
from gridtravel.gridcore.trips.trip_consensus import Outcome, Phase, VoteQuestion
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.sites.trip_voting import TravellersVoting
from tests.support.cards import an_acceptor
from tests.support.child_site import ChildSite
from tests.support.keeper_scenes import FakeAcceptor, some_acceptors
from tests.support.manager_world import SOON, World, a_wish, a_world, held
from tests.support.virtual_time import run_virtually

LATER = SOON + 400
KEEPERS = ("x", "y", "z")


class Way:
    """To one of them."""

    def __init__(self, calendar: FakeAcceptor) -> None:
        self.calendar = calendar

    async def close(self) -> None:
        """Nothing to end."""


Others = dict[str, FakeAcceptor]


def a_trip() -> TripRef:
    """One leg at the manager, three at sites that keep the outcome."""
    acceptors = tuple(an_acceptor(name) for name in KEEPERS)
    sites = {"ocean": "north", **{name: name for name in KEEPERS}}
    return TripRef(
        trip_id="trip-1",
        leg="ocean",
        participants=tuple(sites.values()),
        acceptors=acceptors,
        legs=tuple(TripLeg(leg=leg, site=site, start=LATER) for leg, site in sites.items()),
        ends_at=LATER + 60,
    )


@asynccontextmanager
async def a_trip_world(*, others_answer: bool = True) -> AsyncIterator[tuple[World, Others]]:
    """A manager over two children, and three acceptors elsewhere, if there is a way to them."""
    others = some_acceptors(KEEPERS)

    def connect(name: str, endpoint: str) -> SiteConnection:
        assert endpoint == f"{name}:1"
        return cast("SiteConnection", Way(others[name]))

    reached = connect if others_answer else None
    async with a_world(ChildSite("a"), ChildSite("b"), connect=reached) as world:
        yield world, others


def voting(others: Others, instance: str) -> TravellersVoting:
    """The traveller's."""
    return TravellersVoting(instance, others)


def states(world: World) -> list[ReservationState]:
    """Of the group and of its parts."""
    group = world.manager.book.groups["north.1"].reservation.state
    parts = [
        each.state
        for site in world.sites.values()
        for each in site.calendar.reservations.values()
        if each.request.beneficiary
    ]
    return [group, *parts]


@pytest.mark.parametrize("decided", [True, False])
def test_a_leg_in_doubt_asks_the_acceptors(decided: bool) -> None:
    """The laptop dies after the holds. Where it had the trip decided, the group commits; where it
    had not, the acceptors settle on an end, and the group lets go. The children knew the trip as
    well, and would have asked by themselves.
    """

    async def scene() -> None:
        async with a_trip_world() as (world, others):
            trip = a_trip()
            await held(world.ada, a_wish(start=LATER, trip=trip))
            parts = [site.of_manager(ReservationState.HELD)[0] for site in world.sites.values()]
            assert {part.request.trip for part in parts} == {trip}
            if decided:
                first = await voting(others, trip.instance).propose_first()
                assert first is Outcome.COMMIT
            await world.passes(60)
            expected = ReservationState.COMMITTED if decided else ReservationState.EXPIRED
            assert states(world)[0] is expected
            world.assert_whole_or_absent()
            late = await voting(others, trip.instance).learn()
            assert late is (Outcome.COMMIT if decided else Outcome.ABORT)

    run_virtually(scene)


def test_a_leg_in_doubt_without_a_majority_waits_for_its_start() -> None:
    """Nobody can be asked: the group neither expires nor commits, and ends with its time."""

    async def scene() -> None:
        async with a_trip_world(others_answer=False) as (world, _):
            trip = a_trip()
            group = await held(world.ada, a_wish(start=LATER, trip=trip))
            await world.passes(100)
            assert states(world)[0] is ReservationState.HELD
            answer = await world.ada.commit(group.reservation_id)
            assert isinstance(answer, Reservation)
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_hold_in_doubt_ends_at_its_start() -> None:
    """Its time is gone, and with it the hold."""

    async def scene() -> None:
        async with a_trip_world(others_answer=False) as (world, _):
            await held(world.ada, a_wish(start=LATER, trip=a_trip()))
            await world.clock.sleep_until(LATER + 30)
            assert states(world)[0] is ReservationState.EXPIRED
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_cancelled_trip_is_noticed_before_its_start() -> None:
    """The trip was cancelled while the manager could not be told: shortly before the start it asks,
    and lets its leg go.
    """

    async def scene() -> None:
        async with a_trip_world() as (world, others):
            trip = a_trip()
            group = await held(world.ada, a_wish(start=LATER, trip=trip))
            await voting(others, trip.instance).propose_first()
            await world.ada.commit(group.reservation_id)
            cancelled = await voting(others, trip.cancellation).propose_first()
            assert cancelled is Outcome.COMMIT
            await world.passes(60)
            assert states(world)[0] is ReservationState.COMMITTED
            await world.clock.sleep_until(LATER - 1)
            assert states(world)[0] is ReservationState.RELEASED
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_manager_keeps_no_outcome() -> None:
    """Whoever asks: sites of the trip prove to each other that they are sites."""

    async def scene() -> None:
        async with a_trip_world() as (world, _):
            question = VoteQuestion(instance="trip-1/1", phase=Phase.LEARN)
            with pytest.raises(NotFoundError):
                await world.ada.vote(question)

    run_virtually(scene)

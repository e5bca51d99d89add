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
    TripRef,
)
from gridtravel.gridcore.errors import NotAuthorisedError
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    AcceptorState,
    Ballot,
    Outcome,
    Phase,
    VoteQuestion,
    answer_vote,
)
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.sites.trip_voting import TripVoting
from tests.support.cards import an_acceptor
from tests.support.child_site import ChildSite
from tests.support.manager_world import ADA, SOON, STRANGER, World, a_wish, a_world, held
from tests.support.virtual_time import run_virtually

LATER = SOON + 400


class Elsewhere:
    """An acceptor at another site: a book of votes and nothing else."""

    def __init__(self) -> None:
        self.states: dict[str, AcceptorState] = {}

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """As ``CalendarPort``."""
        old = self.states.get(question.instance)
        self.states[question.instance], answer = answer_vote(old, question, "elsewhere")
        return answer


class Way:
    """To one of them."""

    def __init__(self, calendar: Elsewhere) -> None:
        self.calendar = calendar

    async def close(self) -> None:
        """Nothing to end."""


Others = dict[str, Elsewhere]


def a_trip() -> TripRef:
    """Two legs; the acceptors are the manager and two other sites."""
    acceptors = tuple(an_acceptor(name) for name in ("north", "x", "y"))
    return TripRef(trip_id="trip-1", leg="ocean", acceptors=acceptors, ends_at=LATER + 60)


@asynccontextmanager
async def a_trip_world(*, others_answer: bool = True) -> AsyncIterator[tuple[World, Others]]:
    """A manager over two children, and two acceptors elsewhere, unless there is no way to them."""
    others = {"x": Elsewhere(), "y": Elsewhere()}

    def connect(name: str, endpoint: str) -> SiteConnection:
        assert endpoint == f"{name}:1"
        return cast("SiteConnection", Way(others[name]))

    reached = connect if others_answer else None
    async with a_world(ChildSite("a"), ChildSite("b"), connect=reached) as world:
        yield world, others


def voting(world: World, others: Others, instance: str) -> TripVoting:
    """The traveller's."""
    ports = {"north": world.ada, **others}
    return TripVoting(instance, ports, "laptop", keep_until=LATER + 60)  # type: ignore[arg-type]


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
                first = await voting(world, others, trip.instance).propose_first()
                assert first is Outcome.COMMIT
            await world.passes(60)
            expected = ReservationState.COMMITTED if decided else ReservationState.EXPIRED
            assert states(world)[0] is expected
            world.assert_whole_or_absent()
            late = await voting(world, others, trip.instance).learn()
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
            await voting(world, others, trip.instance).propose_first()
            await world.ada.commit(group.reservation_id)
            cancelled = await voting(world, others, trip.cancellation).propose_first()
            assert cancelled is Outcome.COMMIT
            await world.passes(60)
            assert states(world)[0] is ReservationState.COMMITTED
            await world.clock.sleep_until(LATER - 1)
            assert states(world)[0] is ReservationState.RELEASED
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_an_acceptor_keeps_its_word_over_a_restart() -> None:
    """What the manager promised as an acceptor is on the disk before it is said; long after the
    trip's end it is forgotten. Who is mapped to nobody has no vote.
    """

    async def scene() -> None:
        async with a_trip_world() as (world, _):
            question = VoteQuestion(
                instance="trip-1/1", phase=Phase.PREPARE, ballot=Ballot(3, "x"), keep_until=LATER
            )
            answer = await world.ada.vote(question)
            assert answer.is_granted
            await world.crash()
            world.revive()
            await world.passes(1)
            lower = VoteQuestion(
                instance="trip-1/1",
                phase=Phase.ACCEPT,
                ballot=Ballot(2, "y"),
                outcome=Outcome.ABORT,
            )
            refused = await world.ada.vote(lower)
            assert not refused.is_granted
            assert refused.promised == Ballot(3, "x")
            with pytest.raises(NotAuthorisedError):
                await world.manager.calendar_port(STRANGER).vote(lower)
            await world.passes(1500)
            assert not world.manager.trips.states

    run_virtually(scene)


def test_a_vote_needs_no_login_of_a_site() -> None:
    """Each participant of a trip may ask, by its certificate alone."""

    async def scene() -> None:
        async with a_trip_world() as (world, _):
            question = VoteQuestion(instance="trip-1/1", phase=Phase.LEARN)
            assert (await world.manager.calendar_port(ADA).vote(question)).vote is None

    run_virtually(scene)

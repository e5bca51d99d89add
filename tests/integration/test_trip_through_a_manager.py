"""A trip to a manager and to a plain site, over real daemons, whose laptop dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Reservation,
    ReservationEvent,
    ReservationRequest,
    TripRef,
)
from gridtravel.gridcore.trips.trip_consensus import Outcome
from gridtravel.gridio.sites.trip_voting import TravellersVoting
from tests.support.builders import a_request
from tests.support.grid_world import until
from tests.support.manager_daemons import CLOCK, HOUR_S, Tree, tree_of_daemons

pytestmark = pytest.mark.integration

TTL_S = 3
"""Lifetime of the holds: the sites are in doubt when it is over."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """A manager ``north`` over two agents, and the agent ``gamma`` beside it."""
    with tree_of_daemons(tmp_path_factory.mktemp("tree")) as world:
        yield world


def has_come_to(tree: Tree, site: str, reservation_id: str, ends: set[ReservationEvent]) -> None:
    """Wait for what became of a reservation, by its site's journal."""
    until(lambda: tree.states(site)[reservation_id] in ends, f"{ends} at {site}")


@pytest.mark.parametrize("is_decided", [True, False], ids=["decided", "not decided"])
async def test_all_come_to_the_same_end_without_the_laptop(tree: Tree, is_decided: bool) -> None:
    """Both legs are held, and the laptop is gone: where it had the trip decided, the manager, its
    children and the site commit; where it had not, all of them let go.
    """
    start = CLOCK.now() + HOUR_S * (2 if is_decided else 4)
    name = f"trip-{is_decided}"
    async with tree.as_ada("gamma") as gamma:
        card = (await gamma.calendar.describe()).card
    trip = TripRef(
        trip_id=name,
        leg="north",
        participants=("north", "gamma"),
        acceptors=(Acceptor(site="gamma", endpoint=f"127.0.0.1:{tree.ports['gamma']}", card=card),),
        ends_at=start + 600,
    )

    def wish(leg: str, nodes: int) -> ReservationRequest:
        request = a_request(f"{name}.{leg}", nodes=nodes, duration_s=600, start=start)
        return replace(request, trip=replace(trip, leg=leg))

    async with tree.as_ada("north") as north, tree.as_ada("gamma") as gamma:
        group, leg = await asyncio.gather(
            north.calendar.reserve(wish("north", 8), ttl_s=TTL_S),
            gamma.calendar.reserve(wish("gamma", 1), ttl_s=TTL_S),
        )
        assert isinstance(group, Reservation), group
        assert isinstance(leg, Reservation), leg
        assert {part.site for part in group.parts} == {"alpha", "beta"}
        if is_decided:
            voting = TravellersVoting(trip.instance, {"gamma": gamma.calendar})
            assert await voting.propose_first() is Outcome.COMMIT
    ends = {ReservationEvent.COMMIT}
    if not is_decided:
        # A child may find out by itself, or be told by its manager that found out first.
        ends = {ReservationEvent.EXPIRE, ReservationEvent.RELEASE}
    places = [(part.site, part.reservation_id) for part in group.parts]
    for site, reservation_id in (*places, ("gamma", leg.reservation_id)):
        await asyncio.to_thread(has_come_to, tree, site, reservation_id, ends)
    if is_decided:
        async with tree.as_ada("north") as north:
            answer = await north.calendar.commit(group.reservation_id)
            assert isinstance(answer, Reservation)

"""How far a site trusts a manager: for those it asks for, and for what came through it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationRequest,
    ReservationState,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import NotAuthorisedError
from gridtravel.gridcore.trips.trip_consensus import Ballot, Outcome, Phase, VoteQuestion
from gridtravel.gridio.rpc.server.peers import Peer, map_caller
from gridtravel.gridio.trust.gridmap import GridMap, GridMapEntry
from gridtravel.gridio.trust.identity import Role as GridRole
from tests.support.cards import an_acceptor
from tests.support.maintenance_world import MaintenanceWorld, a_wish

NORTH = Caller(subject="/O=grid/OU=managers/CN=north", role=Role.MANAGER)
SOUTH = Caller(subject="/O=grid/OU=managers/CN=south", role=Role.MANAGER)
ADA = "/O=grid/OU=users/CN=ada"


def wish(name: str, **others: Any) -> ReservationRequest:
    """What north asks for ada."""
    chosen: dict[str, Any] = {"account": "default", "beneficiary": ADA, "via": ("north",)}
    return a_wish(name, 1, 2_000, 60, **(chosen | others))


@asynccontextmanager
async def a_site(folder: Path) -> AsyncIterator[MaintenanceWorld]:
    """A site that knows ada, who may charge physics."""
    world = MaintenanceWorld(folder)
    await world.start()
    world.agent.parts = replace(
        world.agent.parts,
        login_of={ADA: "ada"}.get,
        accounts_of=lambda subject: ("ada", "physics") if subject == ADA else (),
    )
    yield world
    await world.stop()


async def test_a_manager_charges_what_its_beneficiary_may_charge(tmp_path: Path) -> None:
    """Her own account where the choice is the site's, another of hers when she names it, and
    nobody else's: an inquiry says so as well.
    """
    async with a_site(tmp_path) as world:
        north = world.agent.calendar_port(NORTH)
        for number, (named, charged) in enumerate([("default", "ada"), ("physics", "physics")]):
            held = await north.reserve(wish(f"w{number}", account=named), ttl_s=60)
            assert isinstance(held, Reservation), held
            assert (held.owner, held.request.account) == ("ada", charged)
        for ask in (
            lambda: north.reserve(wish("w3", account="chemistry"), ttl_s=60),
            lambda: north.inquire([wish("w4", account="chemistry")]),
        ):
            with pytest.raises(NotAuthorisedError, match=r"ada may not charge .*'chemistry'"):
                await ask()


async def test_a_manager_touches_only_what_came_through_it(tmp_path: Path) -> None:
    """Another manager can neither commit nor release it, whether by its id or by that of its
    request; nor can the one touch what ada has booked by herself.
    """
    async with a_site(tmp_path) as world:
        north, south = (world.agent.calendar_port(each) for each in (NORTH, SOUTH))
        held = await north.reserve(wish("through-north"), ttl_s=200)
        assert isinstance(held, Reservation), held
        for touch in (
            lambda: south.commit(held.reservation_id),
            lambda: south.release(held.reservation_id),
        ):
            with pytest.raises(NotAuthorisedError):
                await touch()
        await south.release_request("through-north")
        assert isinstance(await north.commit(held.reservation_id), Reservation)
        ada = world.agent.calendar_port(Caller(subject=ADA, login="ada", accounts=("ada",)))
        own = await ada.reserve(a_wish("own", 1, 2_000, 60, account="ada"), ttl_s=200)
        assert isinstance(own, Reservation), own
        with pytest.raises(NotAuthorisedError):
            await north.release(own.reservation_id)
        await north.release_request("own")
        states = [world.agent.calendar.get(each.reservation_id).state for each in (held, own)]
        assert states == [ReservationState.COMMITTED, ReservationState.HELD]
        await north.release_request("through-north")
        state = world.agent.calendar.get(held.reservation_id).state
        assert state is ReservationState.RELEASED


async def test_a_manager_cannot_ask_as_another(tmp_path: Path) -> None:
    """A request names the managers that it came through, and whoever brings it is one of them."""
    async with a_site(tmp_path) as world:
        south = world.agent.calendar_port(SOUTH)
        with pytest.raises(NotAuthorisedError, match="as if it were another manager"):
            await south.reserve(wish("forged"), ttl_s=60)
        with pytest.raises(NotAuthorisedError, match="books only for somebody"):
            await south.reserve(wish("nobody", beneficiary=""), ttl_s=60)
        stranger = "/O=grid/OU=users/CN=eve"
        with pytest.raises(NotAuthorisedError, match="mapped to no account"):
            await south.reserve(wish("eve", beneficiary=stranger, via=("south",)), ttl_s=60)


TRIP = TripRef(
    trip_id="trip-1",
    leg="through-north",
    participants=("lab", "b", "north"),
    acceptors=(an_acceptor("lab"), an_acceptor("b")),
    legs=(
        TripLeg(leg="through-north", site="lab", start=2_000),
        TripLeg(leg="other", site="b", start=2_000),
    ),
    ends_at=2_060,
)


def a_ballot(
    question: str, phase: Phase, outcome: Outcome | None = None, ballot: Ballot | None = None
) -> VoteQuestion:
    """One message about the trip."""
    return VoteQuestion(instance=question, phase=phase, outcome=outcome, ballot=ballot or Ballot(0))


BALLOTS = {
    "commit": a_ballot(TRIP.instance, Phase.ACCEPT, Outcome.COMMIT),
    "cancel": a_ballot(TRIP.cancellation, Phase.ACCEPT, Outcome.COMMIT),
    "ready, for the site": a_ballot(TRIP.readiness("through-north"), Phase.ACCEPT, Outcome.COMMIT),
    "ready, for another": a_ballot(TRIP.readiness("other"), Phase.ACCEPT, Outcome.COMMIT),
    "promise": a_ballot(TRIP.instance, Phase.PREPARE, ballot=Ballot(1, "north:run:1")),
    "as an acceptor": a_ballot(TRIP.instance, Phase.PREPARE, ballot=Ballot(1, "b:run:1")),
    "abort": a_ballot(TRIP.instance, Phase.ACCEPT, Outcome.ABORT, Ballot(1, "north:run:1")),
    "it runs": a_ballot(TRIP.cancellation, Phase.ACCEPT, Outcome.ABORT, Ballot(1, "north:run:1")),
}


@pytest.mark.parametrize("accounts", [(), ("ada", "physics")])
async def test_a_manager_has_nobodys_ballot(tmp_path: Path, accounts: tuple[str, ...]) -> None:
    """A manager that the grid-mapfile trusts has held ada's leg for her, and is a participant of
    her trip. The trip is hers all the same: no ballot of hers, of a leg or of an acceptor is the
    manager's, and what it tries leaves nothing. She has hers though she has never been here.
    """
    grid_map = GridMap(
        [GridMapEntry(subject=NORTH.subject, accounts=accounts, role=GridRole.MANAGER)]
    )
    trusted = map_caller(Peer(subject=NORTH.subject), grid_map)
    assert trusted.role is Role.MANAGER
    async with a_site(tmp_path) as world:
        north = world.agent.calendar_port(trusted)
        held = await north.reserve(wish("leg", trip=TRIP), ttl_s=60)
        assert isinstance(held, Reservation), held
        votes = world.agent.trips.registers
        assert votes.registers[TRIP.instance].owner == "ada"
        for ballot in BALLOTS.values():
            with pytest.raises(NotAuthorisedError):
                await north.vote(ballot)
        assert votes.states == {}
        ada = world.agent.calendar_port(Caller(subject=ADA, login="ada", accounts=("ada",)))
        assert (await ada.vote(BALLOTS["commit"])).is_granted
        heard = await north.vote(a_ballot(TRIP.instance, Phase.LEARN))
        assert heard.vote is not None, "a participant may learn"

"""A site's log says who has voted on a trip's outcome, and who tried."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import Reservation, TripLeg, TripRef
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridcore.trips import registers
from gridtravel.gridcore.trips.trip_consensus import Ballot, Outcome, Phase, VoteQuestion
from tests.support.cards import an_acceptor
from tests.support.maintenance_world import KENNETH, MaintenanceWorld, a_wish

SITES = ("lab", "b", "c")
START = 5_000
TRIP = TripRef(
    trip_id="trip-1",
    leg="first",
    participants=SITES,
    acceptors=tuple(an_acceptor(name) for name in SITES),
    legs=(
        TripLeg(leg="first", site="lab", start=START),
        TripLeg(leg="next", site="c", start=START),
    ),
    ends_at=START + 60,
)


def a_site(name: str) -> Caller:
    """Another site of the grid."""
    return Caller(subject=f"/O=grid/OU=sites/CN={name}", role=Role.SITE, site=name)


EVE = Caller(subject="/O=grid/OU=users/CN=eve", login="eve", accounts=("eve",))
NOBODY = Caller(subject="/O=grid/OU=users/CN=nobody")
NORTH = Caller(subject="/O=grid/OU=managers/CN=north", role=Role.MANAGER)
HIGHER = Ballot(1, "b:run:1")

COMMIT = VoteQuestion(instance=TRIP.instance, phase=Phase.ACCEPT, outcome=Outcome.COMMIT)
CANCEL = replace(COMMIT, instance=TRIP.cancellation)
READY = replace(COMMIT, instance=TRIP.readiness("next"))
PROMISE = VoteQuestion(instance=TRIP.instance, phase=Phase.PREPARE, ballot=HIGHER)
ABOVE = replace(COMMIT, ballot=HIGHER)
SETTLE = VoteQuestion(instance=TRIP.instance, phase=Phase.SETTLE, outcome=Outcome.ABORT)
LEARN = VoteQuestion(instance=TRIP.instance, phase=Phase.LEARN)

VOTES: dict[str, tuple[VoteQuestion, Caller]] = {
    "the owner": (COMMIT, KENNETH),
    "the owner's cancellation": (CANCEL, KENNETH),
    "the site of a leg": (READY, a_site("c")),
    "an acceptor, first phase": (PROMISE, a_site("b")),
    "an acceptor, second phase": (ABOVE, a_site("b")),
    "a party's wish": (SETTLE, a_site("c")),
    "a site that knows no hold": (
        replace(PROMISE, instance="other/1.x", ballot=Ballot(1, "z:run:1")),
        a_site("z"),
    ),
}
REFUSED: dict[str, tuple[VoteQuestion, Caller]] = {
    "another user": (COMMIT, EVE),
    "another user's question": (LEARN, EVE),
    "a certificate without a login": (CANCEL, NOBODY),
    "a manager": (COMMIT, NORTH),
    "a strange site": (SETTLE, a_site("z")),
    "a site in another's name": (PROMISE, a_site("c")),
    "no question of a trip": (replace(LEARN, instance="trip-1/1/2/3/4"), a_site("b")),
    "a user without a hold": (replace(COMMIT, instance="other/1.x"), EVE),
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[MaintenanceWorld]:
    """A site that keeps the outcome of a trip of kenneth's; the others cannot be reached."""
    made = MaintenanceWorld(tmp_path)
    await made.start()
    held = await made.agent.calendar_port(KENNETH).reserve(
        replace(a_wish("leg", 1, START, 60), trip=TRIP), ttl_s=60
    )
    assert isinstance(held, Reservation)
    yield made
    await made.stop()


@pytest.mark.parametrize("who", list(VOTES))
async def test_every_vote_is_logged_with_who_gave_it(
    world: MaintenanceWorld, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line: what, on which question, by whom, as the channel proves. At a level that sites
    keep.
    """
    question, caller = VOTES[who]
    with caplog.at_level(logging.INFO):
        await world.agent.calendar_port(caller).vote(question)
    (line,) = [each for each in caplog.messages if f" by {caller.subject}: " in each]
    assert line.startswith(question.phase)
    assert f" on {question.instance} " in line
    assert question.outcome is None or question.outcome in line


@pytest.mark.parametrize("who", list(REFUSED))
async def test_every_refusal_is_logged_with_who_tried(
    world: MaintenanceWorld, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As a warning, also of a question that changes nothing."""
    question, caller = REFUSED[who]
    with caplog.at_level(logging.WARNING), pytest.raises(GridError):
        await world.agent.calendar_port(caller).vote(question)
    (line,) = [each for each in caplog.messages if f" by {caller.subject} refused" in each]
    assert f"{question.phase} on {question.instance} " in line


async def test_a_site_that_asks_too_much_is_logged(
    world: MaintenanceWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that asks about one unknown trip after the other is refused at its limit; what it was
    promised before, it may ask again, and others have room of their own.
    """
    monkeypatch.setattr(registers, "STRANGE_VOTES_MAX", 2)

    def about(number: int, site: str) -> VoteQuestion:
        name = f"other/{number}.x"
        return VoteQuestion(instance=name, phase=Phase.PREPARE, ballot=Ballot(1, f"{site}:r:1"))

    port = world.agent.calendar_port(a_site("z"))
    for number in (1, 2):
        assert (await port.vote(about(number, "z"))).is_granted
    with caplog.at_level(logging.WARNING), pytest.raises(UnavailableError):
        await port.vote(about(3, "z"))
    assert "PREPARE on other/3.x by /O=grid/OU=sites/CN=z refused" in caplog.text
    assert (await port.vote(about(2, "z"))).is_granted
    assert (await port.vote(replace(LEARN, instance="other/3.x"))).vote is None
    assert (await world.agent.calendar_port(a_site("y")).vote(about(4, "y"))).is_granted

"""What the calendar port, and each connection, promises, over everything that carries it.

Nothing at all, the codec, mutual TLS on loopback, the local socket with its front door, and a real
SSH login that leads there. Callers cannot tell the difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary, ShadowCalendar, SummaryDelta
from gridtravel.gridcore.errors import (
    ConflictError,
    GridError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridio.trust.credentials import Credential
from tests.support.builders import a_request, book
from tests.support.port_worlds import CARRIERS, NOW, World, a_world, held, some_credentials


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> tuple[Credential, Credential]:
    """Of the site ``lab`` and of the user ``ada``."""
    return some_credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(params=CARRIERS)
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, credentials: tuple[Credential, Credential]
) -> AsyncIterator[World]:
    """The same site behind each carrier."""
    async with a_world(request, tmp_path, credentials) as made:
        yield made


async def test_describe(world: World) -> None:
    """A site says what it is, what time it has, and who it takes the caller for."""
    told = await world.connection.calendar.describe()
    assert (told.site, told.login, told.time_precise) == ("lab", "ada", float(NOW))
    assert [(each.name, each.nodes) for each in told.classes] == [("node", 4)]
    assert told.lead_s == world.site.calendar.rules.lead_s


async def test_inquire_answers_each_window_in_order(world: World) -> None:
    """One answer a request, in order: offers where there is room, a refusal that teaches where
    there is none; and nothing changes.
    """
    book(
        world.site.calendar, a_request("x", nodes=4, start=NOW + 10, duration_s=20), NOW, owner="b"
    )
    before = world.site.calendar.version
    requests = [
        a_request("q1", earliest=NOW),
        a_request("q2", start=NOW + 10),
        a_request("q3", nodes=9, earliest=NOW),
    ]
    offered, full, too_large = await world.connection.calendar.inquire(requests)
    assert isinstance(offered, Availability)
    assert offered.version == before == world.site.calendar.version
    assert offered.offers[0].nodes >= 2
    assert isinstance(full, Decline)
    assert (full.rule, full.earliest) == (DeclineRule.NO_ROOM, NOW + 30)
    assert isinstance(too_large, Decline)
    assert too_large.rule is DeclineRule.TOO_LARGE
    assert await world.connection.calendar.inquire([]) == []


async def test_hold_commit_release(world: World) -> None:
    """Two phases, each of them idempotent; the answer is the entry of the owner's own book."""
    calendar = world.connection.calendar
    trip = TripRef(
        trip_id="trip-1",
        leg="left",
        participants=("lab", "west"),
        acceptors=(Acceptor(site="lab", endpoint="lab:1"),),
    )
    hold = await held(world, trip=trip, features=(), budget_millicredits=0, nodes=(1, 3))
    assert hold == world.site.calendar.get(hold.reservation_id)
    assert (hold.state, hold.nodes, hold.owner) == (ReservationState.HELD, 3, "ada")
    assert hold.hold_expires_at is not None
    assert NOW < hold.hold_expires_at < hold.start
    assert await calendar.reserve(hold.request, ttl_s=10) == hold
    committed = await calendar.commit(hold.reservation_id)
    assert committed == replace(hold, state=ReservationState.COMMITTED, hold_expires_at=None)
    assert await calendar.commit(hold.reservation_id) == committed
    await calendar.release(hold.reservation_id)
    await calendar.release(hold.reservation_id)
    assert world.site.calendar.get(hold.reservation_id).state is ReservationState.RELEASED
    late = await calendar.reserve(hold.request, ttl_s=10)
    assert isinstance(late, Decline)
    assert late.rule is DeclineRule.FINISHED


async def test_hold_expires_by_its_owner(world: World) -> None:
    """A commit after the hold's lifetime is refused by a value."""
    hold = await held(world)
    world.clock.advance(60)
    refused = await world.connection.calendar.commit(hold.reservation_id)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.STATE


async def test_refusal_brings_a_summary(world: World) -> None:
    """Everything a refusal teaches arrives, down to the last slot of the summary."""
    book(
        world.site.calendar, a_request("x", nodes=3, start=NOW + 10, duration_s=20), NOW, owner="b"
    )
    refused = await world.connection.calendar.reserve(
        a_request("r", nodes=2, start=NOW + 12), ttl_s=10
    )
    assert isinstance(refused, Decline)
    assert refused.nodes_now == 1
    assert refused.summary == world.site.summary()


async def test_release_of_the_unknown(world: World) -> None:
    """Release succeeds for what never was, and a released request never books anything later."""
    await world.connection.calendar.release("lab.999")
    await world.connection.calendar.release_request("never-seen")
    late = await world.connection.calendar.reserve(a_request("never-seen", earliest=NOW), ttl_s=10)
    assert isinstance(late, Decline)
    assert late.rule is DeclineRule.FINISHED


async def test_amend_keeps_the_old_unless_granted(world: World) -> None:
    """A refused change leaves the reservation as it was; a granted one moves it in one step."""
    calendar = world.connection.calendar
    hold = await held(world)
    old = await calendar.commit(hold.reservation_id)
    refused = await calendar.amend(hold.reservation_id, a_request("a1", nodes=9, earliest=NOW))
    assert isinstance(refused, Decline)
    assert world.site.calendar.get(hold.reservation_id) == old
    moved = await calendar.amend(hold.reservation_id, a_request("a2", nodes=4, start=NOW + 100))
    assert isinstance(moved, Reservation)
    assert (moved.start, moved.nodes) == (NOW + 100, 4)


async def test_a_leg_changes_with_its_trip(world: World) -> None:
    """What a leg's change asks for arrives whole: what the leg has counts as free, the hold says
    what it replaces, and its commit is answered with the leg in its new form.
    """
    calendar = world.connection.calendar
    trip = TripRef(trip_id="trip-1", leg="left", participants=("lab",))
    asked = a_request("r1", nodes=4, start=NOW + 50, duration_s=500, trip=trip)
    old = await calendar.reserve(asked, ttl_s=10)
    assert isinstance(old, Reservation)
    await calendar.commit(old.reservation_id)
    start = old.start + 100
    wish = a_request("r2", nodes=4, start=start, replaces=old.reservation_id)
    (offered,) = await calendar.inquire([wish])
    assert isinstance(offered, Availability), offered
    assert isinstance((await calendar.inquire([replace(wish, replaces=None)]))[0], Decline)
    new = await calendar.reserve(replace(wish, trip=replace(trip, attempt=2)), ttl_s=10)
    assert isinstance(new, Reservation), new
    assert new.request.replaces == old.reservation_id
    assert new.request.trip == replace(trip, attempt=2)
    leg = await calendar.commit(new.reservation_id)
    assert isinstance(leg, Reservation)
    assert (leg.reservation_id, leg.start) == (old.reservation_id, start)
    assert await calendar.commit(new.reservation_id) == leg
    assert world.site.calendar.get(new.reservation_id).state is ReservationState.SUPERSEDED


async def test_subscription(world: World) -> None:
    """A full summary first, then changes from which a shadow stays equal to the owner; the
    service's stream ends with its reader.
    """
    shadow = ShadowCalendar("lab")
    async with aclosing(world.connection.calendar.subscribe()) as news:  # type: ignore[type-var]
        first = await anext(news)
        assert isinstance(first, CalendarSummary)
        assert shadow.replace(first)
        for number in (1, 2):
            await held(world, f"r{number}", nodes=1)
            change = await anext(news)
            assert isinstance(change, SummaryDelta)
            assert shadow.update(change)
            assert shadow.summary == world.site.summary()
        assert world.site.subscribers == 1
    while world.site.subscribers:
        await world.connection.calendar.describe()


@pytest.mark.parametrize(
    ("question", "kind", "words", "hint"),
    [
        ("conflict", ConflictError, "the book says otherwise", "look again"),
        ("unavailable", UnavailableError, "the children are out", "wait"),
        ("input", InputError, "no such question é", "ask another"),
        ("missing", NotFoundError, "nothing of that name", ""),
    ],
)
async def test_faults_keep_class_words_and_hint(
    world: World, question: str, kind: type[GridError], words: str, hint: str
) -> None:
    """A fault arrives as what it was raised as."""
    with pytest.raises(kind) as caught:
        await world.connection.site.query(question, {})
    assert type(caught.value) is kind
    assert words in caught.value.message
    assert caught.value.hint == hint


async def test_defect_tells_nothing(world: World) -> None:
    """An exception that nobody meant to raise crosses no wire with its text."""
    if not world.is_on_a_wire:
        with pytest.raises(ValueError, match="secret"):
            await world.connection.site.query("defect", {})
        return
    with pytest.raises(GridError) as caught:
        await world.connection.site.query("defect", {})
    assert type(caught.value) is GridError
    assert "secret" not in str(caught.value)
    assert "internal error" in str(caught.value)


async def test_what_belongs_to_others(world: World) -> None:
    """Nobody acts for another: somebody else's reservation can be seen and not touched."""
    theirs = book(world.site.calendar, a_request("x", start=NOW + 10), NOW, owner="bob")
    for verb in (world.connection.calendar.commit, world.connection.calendar.release):
        with pytest.raises(NotAuthorisedError):
            await verb(theirs.reservation_id)
    assert await world.connection.site.reservations(everybody=False) == []
    assert await world.connection.site.reservations(everybody=True) == [theirs]


async def test_same_id_for_another_request(world: World) -> None:
    """Using an id twice for different things is the caller's mistake."""
    await held(world, "r1")
    with pytest.raises(InputError, match="another request"):
        await world.connection.calendar.reserve(a_request("r1", nodes=1, earliest=NOW), ttl_s=10)


async def test_cancelled_question_reaches_the_service(world: World) -> None:
    """A caller who gives up leaves no call behind and can go on asking."""
    asking = asyncio.ensure_future(world.connection.site.query("for-ever", {}))
    await world.connection.calendar.describe()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await world.connection.calendar.describe()).site == "lab"


async def test_skew_is_known_after_an_answer(world: World) -> None:
    """Equal clocks have no skew."""
    await world.connection.calendar.describe()
    skew = world.connection.skew_s()
    assert skew is not None
    assert abs(skew.skew_s) <= skew.uncertainty_s + 1e-6


async def test_close_twice(world: World) -> None:
    """Closing is idempotent, also before anything was asked."""
    await world.connection.close()
    await world.connection.close()

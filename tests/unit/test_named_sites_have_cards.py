"""What users bring to a site names others by their cards; nothing else is taken or connected to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from gridtravel.agents.journal.events import CODEC
from gridtravel.gridcore.booking.calendar_events import ReservationGranted
from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Decline,
    Reservation,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.handovers import Handover
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridio.journal.contract import Record
from tests.support.cards import CARDS, an_acceptor
from tests.support.child_site import ChildSite
from tests.support.maintenance_world import KENNETH, MaintenanceWorld, a_wish
from tests.support.manager_world import a_wish as a_managers_wish
from tests.support.manager_world import a_world
from tests.support.virtual_time import run_virtually

NOW = 1_000
START = NOW + 100
GOOD = (an_acceptor("a"), an_acceptor("b"), an_acceptor("c"))
UNPROVEN = {
    "no card": Acceptor(site="a", endpoint="127.0.0.1:22"),
    "another site's": replace(GOOD[0], card=GOOD[1].card),
    "changed": replace(GOOD[0], card=GOOD[0].card[:-4] + "AAAA"),
    "another grid's": replace(GOOD[0], card=type(CARDS)(b"other").issue("a", "a:1", 0)),
    "expired": replace(GOOD[0], card=CARDS.issue("a", "a:1", 0, lifetime_s=NOW)),
}
unproven = pytest.mark.parametrize("named", UNPROVEN.values(), ids=UNPROVEN.keys())


def nobody(site: str, endpoint: str) -> NoReturn:
    """Nothing may be connected to."""
    raise AssertionError(f"connected to {site} at {endpoint}")


def a_trip(*acceptors: Acceptor) -> TripRef:
    """A leg here, and others elsewhere."""
    return TripRef(
        trip_id="trip-1",
        leg="lab",
        participants=("lab", "a", "b"),
        acceptors=acceptors,
        ends_at=START + 60,
    )


def a_job(**others: Any) -> JobSpec:
    """Of one node."""
    return JobSpec(
        request_id="job-1",
        name="job",
        account="kenneth",
        nodes=1,
        limit_s=60,
        argv=("true",),
        **others,
    )


@unproven
async def test_a_hold_with_an_unproven_acceptor_is_refused(tmp_path: Path, named: Acceptor) -> None:
    """At once and with the reason; nothing is held, and nobody is connected to."""
    world = MaintenanceWorld(tmp_path, now=NOW, connect=nobody)
    desk = world.agent.calendar_port(KENNETH)
    wish = a_wish("wish", 1, START, 60, trip=a_trip(named, *GOOD[1:]))
    with pytest.raises(InputError, match="lab does not ask a"):
        await desk.reserve(wish, ttl_s=20)
    with pytest.raises(InputError, match="lab does not ask a"):
        await world.agent.site_port(KENNETH).set_reservation(wish, is_dry_run=False)
    plain = await desk.reserve(a_wish("plain", 1, START, 60), ttl_s=20)
    assert isinstance(plain, Reservation)
    with pytest.raises(InputError, match="lab does not ask a"):
        await desk.amend(plain.reservation_id, replace(wish, request_id="other"))
    assert list(world.agent.calendar.reservations) == [plain.reservation_id]


async def test_a_hold_is_answered_again_after_the_card_is_over(tmp_path: Path) -> None:
    """The same request equals itself, also when a site has another card by then, or none that
    holds.
    """
    world = MaintenanceWorld(tmp_path, now=NOW, connect=nobody)
    desk = world.agent.calendar_port(KENNETH)
    short = replace(GOOD[0], card=CARDS.issue("a", "a:1", 0, lifetime_s=NOW + 5))
    wish = a_wish("wish", 1, START, 60, trip=a_trip(short))
    first = await desk.reserve(wish, ttl_s=50)
    assert isinstance(first, Reservation)
    world.clock.advance(10)
    assert await desk.reserve(wish, ttl_s=50) == first
    assert await desk.reserve(replace(wish, trip=a_trip(GOOD[0])), ttl_s=50) == first
    with pytest.raises(InputError, match="expired"):
        await desk.reserve(replace(wish, request_id="another"), ttl_s=50)


@unproven
async def test_a_job_that_asks_unproven_sites_is_refused(tmp_path: Path, named: Acceptor) -> None:
    """A copy in a race, and a stage that fetches files."""
    world = MaintenanceWorld(tmp_path, now=NOW, connect=nobody)
    race = Race(
        trip_id="trip-1",
        copy="lab",
        copies=("lab", "a"),
        acceptors=(named, GOOD[1]),
        ends_at=START + 60,
    )
    desk = world.agent.site_port(KENNETH)
    with pytest.raises(InputError, match="lab does not ask a"):
        await desk.submit(a_job(race=race))
    stage = Handover(leg="first", site="a", endpoint="a:1", card=named.card)
    with pytest.raises(InputError, match="lab does not ask a"):
        await desk.submit(a_job(handover=stage, reservation_id="lab.1"))
    assert not world.agent.jobs.views
    proven = await desk.submit(a_job(race=replace(race, acceptors=GOOD)))
    assert isinstance(proven, JobView)


async def test_cards_are_journaled_with_the_hold(tmp_path: Path) -> None:
    """After a restart the site knows where to ask; a card is no part of what makes two requests
    the same.
    """
    asked: list[tuple[str, str]] = []

    def connect(site: str, endpoint: str) -> Any:
        asked.append((site, endpoint))
        raise InputError("not in this test")

    world = MaintenanceWorld(tmp_path, now=NOW, connect=connect)
    moved = replace(GOOD[0], card=CARDS.issue("a", "where-it-is:7101", 0))
    wish = a_wish("wish", 1, START, 60, trip=a_trip(moved))
    hold = await world.agent.calendar_port(KENNETH).reserve(wish, ttl_s=20)
    assert isinstance(hold, Reservation)
    await world.restart()
    kept = world.agent.calendar.get(hold.reservation_id)
    assert kept.request.trip is not None
    assert kept.request.trip.acceptors[0].card == moved.card
    await settle(world, kept)
    assert set(asked) == {("a", "where-it-is:7101")}


async def settle(world: MaintenanceWorld, hold: Reservation) -> None:
    """Its lifetime is over: the site asks until its start, as the daemon does."""
    assert hold.hold_expires_at is not None
    async with world.agent.background.open():
        await world.pass_time(START + 1 - world.clock.now())


async def test_a_hold_of_an_older_release_meets_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its journal has acceptors without cards. It is read; nobody is connected to, the log says so,
    and the hold ends in doubt with its start.
    """
    world = MaintenanceWorld(tmp_path, now=NOW, connect=nobody)
    wish = a_wish("wish", 1, START, 60, trip=a_trip(*GOOD))
    hold = await world.agent.calendar_port(KENNETH).reserve(wish, ttl_s=20)
    assert isinstance(hold, Reservation)
    new = CODEC.encode(ReservationGranted(reservation=hold), at=NOW)
    fields = json.loads(new.body)
    for acceptor in fields["reservation"]["request"]["trip"]["acceptors"]:
        assert acceptor.pop("card")
    old = CODEC.decode(Record(kind=new.kind, at=NOW, body=json.dumps(fields).encode()))
    assert old == ReservationGranted(reservation=hold)
    trip = old.reservation.request.trip
    assert [each.card for each in trip.acceptors] == ["", "", ""]

    upgraded = MaintenanceWorld(tmp_path / "upgraded", now=NOW, connect=nobody)
    upgraded.agent.record([old])
    await settle(upgraded, hold)
    kept = upgraded.agent.calendar.get(hold.reservation_id)
    assert kept.state is ReservationState.EXPIRED
    assert "a is not asked: nobody has brought its card" in caplog.text


@unproven
def test_a_manager_takes_no_unproven_acceptor(named: Acceptor) -> None:
    """Nor do its children hear of one."""

    async def scene() -> None:
        async with a_world(ChildSite("x"), ChildSite("y"), connect=nobody) as world:
            wish = a_managers_wish(trip=a_trip(named))
            with pytest.raises(InputError, match="north does not ask a"):
                await world.ada.reserve(wish, ttl_s=20)
            assert not world.manager.book.groups
            assert not any(site.of_manager() for site in world.sites.values())

    run_virtually(scene)


def test_a_manager_passes_cards_on() -> None:
    """Its children ask by themselves, also when it is gone."""

    async def scene() -> None:
        async with a_world(ChildSite("x"), ChildSite("y"), connect=nobody) as world:
            answer = await world.ada.reserve(a_managers_wish(trip=a_trip(*GOOD)), ttl_s=20)
            assert not isinstance(answer, Decline)
            for site in world.sites.values():
                (part,) = site.of_manager(ReservationState.HELD)
                assert part.request.trip is not None
                cards = [each.card for each in part.request.trip.acceptors]
                assert cards == [each.card for each in GOOD]

    run_virtually(scene)

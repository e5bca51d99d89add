"""What a site with only a batch system promises through its ports: as much of the contract of
``test_ports_contract`` and ``test_site_port_contract`` as its commands can keep.

Over a fake Grid Engine whose commands are run for real, on this computer and through a real SSH
login; nothing can be told apart.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
)
from gridtravel.gridcore.errors import InputError, NotFoundError, UnavailableError
from gridtravel.gridio.batch.batch_site import BatchSite
from gridtravel.gridio.batch.local_runner import LocalRunner
from gridtravel.gridio.batch.options import BatchOptions
from gridtravel.gridio.batch.systems import reservation_name
from tests.support.batch_worlds import HOUR_S, SITE, SLOTS, BatchWorld, a_spec, chunks, fake_world
from tests.support.fake_gridengine import FakeGridEngine


@pytest.fixture(params=["here", "ssh"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BatchWorld]:
    """The same batch system behind each way."""
    user = request.getfixturevalue("ssh_user") if request.param == "ssh" else None
    async with fake_world(tmp_path, user) as made:
        yield made


@pytest.fixture
def engine(world: BatchWorld) -> FakeGridEngine:
    """The batch system itself."""
    assert world.fake is not None
    return world.fake


async def test_describe(world: BatchWorld) -> None:
    """It says how large it is, who we are there, and that it cannot hold for a time."""
    told = await world.connection.calendar.describe()
    assert (told.site, told.classes[0].nodes, told.hold_ttl_max_s) == (SITE, SLOTS, 0)
    assert told.login
    skew = world.connection.skew_s()
    assert skew is not None
    assert abs(skew.skew_s) <= skew.uncertainty_s + 1e-3


async def test_inquiry_leaves_nothing(world: BatchWorld, engine: FakeGridEngine) -> None:
    """Offers are single starts with what is free at each of them, the ends of what is there among
    them; a shortage says how much there would be. Nothing is set.
    """
    busy = await world.held("busy", nodes_min=3, nodes_max=3)
    start = busy.start
    wide = world.request(
        "q", nodes_min=1, nodes_max=9, earliest_start=start, latest_end=start + 3 * HOUR_S
    )
    large = world.request("q", nodes_min=9, nodes_max=9, earliest_start=start)
    before = engine.names()
    offered, refused = await world.connection.calendar.inquire([wide, large])
    assert isinstance(offered, Availability)
    assert (offered.offers[0].start, offered.offers[0].nodes) == (start, 1)
    assert (busy.end, SLOTS) in [(each.start, each.nodes) for each in offered.offers]
    assert all(each.start_until == each.start + 1 for each in offered.offers)
    assert offered.known_until > start + 2 * HOUR_S
    assert isinstance(refused, Decline)
    assert (refused.rule, refused.nodes_now) == (DeclineRule.NO_ROOM, 1)
    assert engine.names() == before == [reservation_name("busy")]


async def test_hold_commit_release(world: BatchWorld, engine: FakeGridEngine) -> None:
    """Two phases, each of them idempotent, by what the batch system has; nothing is left."""
    calendar = world.connection.calendar
    hold = await world.held("r1", nodes_min=1, nodes_max=3)
    assert (hold.state, hold.nodes) == (ReservationState.HELD, 3)
    assert await calendar.reserve(hold.request, ttl_s=30) == hold
    committed = await calendar.commit(hold.reservation_id)
    assert isinstance(committed, Reservation)
    assert committed.state is ReservationState.COMMITTED
    assert await calendar.commit(hold.reservation_id) == committed
    assert await world.connection.site.reservations(everybody=False) == [committed]
    await calendar.release(hold.reservation_id)
    await calendar.release(hold.reservation_id)
    assert engine.names() == []
    late = await calendar.reserve(hold.request, ttl_s=30)
    assert isinstance(late, Decline)
    assert late.rule is DeclineRule.FINISHED
    assert engine.names() == []
    lost = await calendar.commit(hold.reservation_id)
    assert isinstance(lost, Decline)
    assert lost.rule is DeclineRule.STATE


async def test_earliest_in_the_window(world: BatchWorld) -> None:
    """A window that is wider than the duration gets the first start that can be had: here when
    something else ends.
    """
    busy = await world.held("busy", nodes_min=4, nodes_max=4)
    end = busy.end + HOUR_S
    found = await world.held("r1", earliest_start=busy.start, latest_end=end)
    assert found.start == busy.end


async def test_quotes_are_neither_given_nor_taken(
    world: BatchWorld, engine: FakeGridEngine
) -> None:
    """Nobody there could sign one; one that comes is refused and nothing set."""
    before = engine.names()
    wish = world.request("q", nodes_min=1, nodes_max=1)
    (offered,) = await world.connection.calendar.inquire([wish])
    assert isinstance(offered, Availability)
    assert {each.quote for each in offered.offers} == {""}
    refused = await world.connection.calendar.reserve(
        replace(wish, quote="quote1.e30.e30"), ttl_s=9
    )
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.QUOTE
    assert engine.names() == before


async def test_what_somebody_took_away(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A reservation that the site's administrators delete is not committed any more."""
    hold = await world.held("r1")
    engine.change(ars=[])
    gone = await world.connection.calendar.commit(hold.reservation_id)
    assert isinstance(gone, Decline)
    assert "took it away" in gone.message


async def test_release_before_the_request(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A released request never books anything later; what is unknown is released already."""
    calendar = world.connection.calendar
    await calendar.release("elsewhere.17")
    await calendar.release_request("never-seen")
    late = await calendar.reserve(world.request("never-seen"), ttl_s=30)
    assert isinstance(late, Decline)
    assert late.rule is DeclineRule.FINISHED
    assert engine.names() == []


async def test_far_shell_is_killed(world: BatchWorld, engine: FakeGridEngine) -> None:
    """When the far end dies between setting a reservation and writing that down, the request still
    finds it: asked again it is the same, and a release leaves nothing.
    """
    engine.change(dies_after="qrsub")
    request = world.request("r1")
    with pytest.raises(UnavailableError):
        await world.connection.calendar.reserve(request, ttl_s=30)
    assert engine.names() == [reservation_name("r1")]
    again = await world.connection.calendar.reserve(request, ttl_s=30)
    assert isinstance(again, Reservation)
    await world.connection.calendar.release_request("r1")
    assert engine.names() == []


async def test_request_released_while_it_is_carried_out(
    world: BatchWorld, engine: FakeGridEngine
) -> None:
    """A release that overtakes its request wins: whoever sets the reservation looks at the mark
    afterwards, and takes it back.
    """
    program = engine.bin / "qrsub"
    inner = program.rename(engine.bin / "inner-qrsub")
    mark = world.folder / "book" / reservation_name("r1") / "released"
    program.write_text(f'#!/bin/sh\n: > {mark}\nexec {inner} "$@"\n')
    program.chmod(0o755)
    answer = await world.connection.calendar.reserve(world.request("r1"), ttl_s=30)
    assert isinstance(answer, Decline)
    assert answer.rule is DeclineRule.FINISHED
    assert engine.names() == []


async def test_forgotten_hold_is_swept(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A hold that nobody committed is let go by the next run that looks for room; a committed one
    stays.
    """
    calendar = world.connection.calendar
    kept = await world.held("kept", nodes_min=1, nodes_max=1)
    await calendar.commit(kept.reservation_id)
    await calendar.reserve(world.request("forgotten"), ttl_s=-1_000)
    assert len(engine.names()) == 2
    await calendar.inquire([world.request("q", nodes_min=1, nodes_max=1)])
    assert engine.names() == [reservation_name("kept")]


async def test_same_id_for_another_request(world: BatchWorld) -> None:
    """Using an id twice for different things is the caller's mistake."""
    await world.held("r1")
    with pytest.raises(InputError, match="another request"):
        await world.connection.calendar.reserve(
            world.request("r1", nodes_min=1, nodes_max=1), ttl_s=30
        )


async def test_amend_moves_reservation_and_files(world: BatchWorld, engine: FakeGridEngine) -> None:
    """The old one stays unless the new one is granted; files move along; a job in the old one is
    not thrown away by it.
    """
    calendar, site = world.connection.calendar, world.connection.site
    old = await world.held("r1")
    await calendar.commit(old.reservation_id)
    await site.put_file(old.reservation_id, "in", chunks(b"x"), mode=0o600, sha256="")
    large = world.request("a1", nodes_min=9, nodes_max=9)
    assert isinstance(await calendar.amend(old.reservation_id, large), Decline)
    assert engine.names() == [reservation_name("r1")]
    later = world.request("a2", earliest_start=old.start + HOUR_S)
    moved = await calendar.amend(old.reservation_id, later)
    assert isinstance(moved, Reservation)
    assert (moved.state, moved.start) == (ReservationState.COMMITTED, old.start + HOUR_S)
    assert engine.names() == [reservation_name("a2")]
    files = await site.list_files(moved.reservation_id, "", with_checksums=False)
    assert [each.path for each in files] == ["in"]
    await site.submit(a_spec(moved.reservation_id))
    again = await calendar.amend(moved.reservation_id, world.request("a3"))
    assert isinstance(again, Decline)
    assert "job" in again.message


async def test_nothing_is_held_beside_a_leg(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A hold that is to replace a reservation when it is committed is refused, and says what to do
    instead (docs/protocol.md, section 4).
    """
    old = await world.held("r1")
    new = world.request("r2", replaces=old.reservation_id)
    for answer in (
        await world.connection.calendar.reserve(new, ttl_s=30),
        (await world.connection.calendar.inquire([new]))[0],
    ):
        assert isinstance(answer, Decline)
        assert "book again" in answer.message
    assert engine.names() == [reservation_name("r1")]


async def test_user_settable_reservation(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A dry run says what would be granted and sets nothing; then it is granted in one step."""
    request = world.request("s1")
    would_be = await world.connection.site.set_reservation(request, is_dry_run=True)
    assert isinstance(would_be, Reservation)
    assert engine.names() == []
    now = await world.connection.site.set_reservation(request, is_dry_run=False)
    assert isinstance(now, Reservation)
    assert (now.reservation_id, now.interval, now.nodes, now.state) == (
        would_be.reservation_id,
        would_be.interval,
        would_be.nodes,
        ReservationState.COMMITTED,
    )


async def test_reservations_are_not_for_us(world: BatchWorld, engine: FakeGridEngine) -> None:
    """Where the login may not reserve, the refusal says so in the batch system's words and names
    the way out.
    """
    engine.change(is_denied=True)
    for answer in (
        await world.connection.calendar.reserve(world.request("r1"), ttl_s=30),
        (await world.connection.calendar.inquire([world.request("q")]))[0],
    ):
        assert isinstance(answer, Decline)
        assert answer.rule is DeclineRule.POLICY
        assert "arusers" in answer.message


async def test_features_are_those_that_the_user_knows(world: BatchWorld) -> None:
    """A feature is granted where the list of machines names it, and refused elsewhere."""
    (granted,) = await world.connection.calendar.inquire([world.request("q", features=("big",))])
    (refused,) = await world.connection.calendar.inquire([world.request("q", features=("gpu",))])
    assert isinstance(granted, Availability)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.FEATURES


async def test_what_it_cannot_do(world: BatchWorld) -> None:
    """What its commands cannot do is refused with the place to read about it."""
    site = world.connection.site
    for call in (
        site.bind("x", ["y"]),
        site.unbind("x", ["y"]),
        site.bind_job("x", ["y"]),
        site.unbind_job("x", ["y"]),
        site.query("why", {}),
        site.order("down", {}),
    ):
        with pytest.raises(InputError, match=r"batch-sites\.md"):
            await call
    with pytest.raises(NotFoundError, match="no agent"):
        world.connection.calendar.subscribe()


async def test_commands_are_missing(tmp_path: Path) -> None:
    """A login whose PATH lacks the commands is told which, and where to say where they are."""
    for name in ("id", "date"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    options = BatchOptions(system="gridengine", environment={"PATH": str(tmp_path)})
    connection = BatchSite(LocalRunner(), options, site=SITE)
    with pytest.raises(UnavailableError, match=r"qrsub.*PATH"):
        await connection.calendar.describe()

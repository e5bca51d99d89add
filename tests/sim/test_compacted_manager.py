"""A manager that compacts its journal while it works, and is killed: nothing is lost by it."""

from __future__ import annotations

import pytest

import gridtravel.manager.calendar_manager
from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridio.journal.compaction import HISTORY_KIND
from tests.support.child_site import ChildSite
from tests.support.manager_world import World, a_wish
from tests.support.virtual_time import run_virtually

FEW = 30


def test_a_manager_compacts_by_itself_and_restarts_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Above a number of records the journal is rewritten, with a booking on its way and with one
    that stands; after a crash both are there, whole, and no id is given twice.
    """
    monkeypatch.setattr(gridtravel.manager.calendar_manager, "COMPACT_ABOVE", FEW)

    async def story() -> None:
        world = World([ChildSite("a", 4), ChildSite("b", 4)])
        world.start()
        await world.passes(1)
        for number in range(15):
            start = world.clock.now() + 60
            held = await world.ada.reserve(a_wish(f"old-{number}", nodes=6, start=start), ttl_s=20)
            assert isinstance(held, Reservation), held
            await world.ada.commit(held.reservation_id)
            await world.passes(200)
        await world.passes(2_000)
        start = world.clock.now() + 500
        firm = await world.ada.reserve(a_wish("firm", nodes=3, start=start), ttl_s=20)
        assert isinstance(firm, Reservation), firm
        await world.ada.commit(firm.reservation_id)
        held = await world.ada.reserve(a_wish("held", nodes=4, start=start), ttl_s=20)
        assert isinstance(held, Reservation), held
        journal = world.manager.parts.journal
        assert await world.manager.compact()
        assert [each.kind for each in journal.replay()] == [HISTORY_KIND]
        trade = world.manager.book.trade.accounts()
        await world.crash()
        world.revive()
        assert world.manager.book.trade.accounts() == trade
        answer = await world.ada.commit(held.reservation_id)
        assert isinstance(answer, Reservation), answer
        states = [world.manager.book.get(each.reservation_id) for each in (firm, held)]
        assert {each.reservation.state for each in states} == {ReservationState.COMMITTED}
        await world.passes(5)
        world.assert_whole_or_absent()
        again = await world.ada.reserve(a_wish("new", nodes=1, start=start), ttl_s=20)
        assert isinstance(again, Reservation), again
        assert int(again.reservation_id.rpartition(".")[2]) > 17
        await world.passes(200)
        await world.close()

    run_virtually(story)


def test_the_journal_stays_as_long_as_what_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over many bookings that are forgotten again the journal does not grow."""
    monkeypatch.setattr(gridtravel.manager.calendar_manager, "COMPACT_ABOVE", FEW)

    async def story() -> None:
        world = World([ChildSite("a", 4)])
        world.start()
        await world.passes(1)
        longest = 0
        for number in range(60):
            start = world.clock.now() + 60
            held = await world.ada.reserve(a_wish(f"wish-{number}", nodes=2, start=start), ttl_s=20)
            assert isinstance(held, Reservation), held
            await world.ada.commit(held.reservation_id)
            await world.passes(400)
            longest = max(longest, world.manager.parts.journal.replay_count)
        assert longest <= FEW + 10, "sixty bookings write some three hundred records"
        await world.close()

    run_virtually(story)

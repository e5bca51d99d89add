"""A failed node breaks the newest promise first, and its owner is told, but not for ever."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.reservations.broken import NoticeBook, find_broken
from tests.support.scheduler_worlds import SmallSite


def broken_ids(site: SmallSite) -> list[tuple[str, int]]:
    """Ids and missing nodes, after a cycle."""
    site.cycle()
    found = find_broken(site.calendar.live(), site.calendar.free, site.now)
    return [(each.reservation.reservation_id, each.nodes_missing) for each in found]


def test_newest_reservations_break_first_and_heal() -> None:
    """Four nodes, two reservations of two: each failure takes from the newer one until nothing
    is left of it.
    """
    site = SmallSite()
    older = site.reserved(2, 100, 50)
    site.now = 1
    newer = site.reserved(2, 100, 50)
    assert broken_ids(site) == []
    expected = [
        [(newer.reservation_id, 1)],
        [(newer.reservation_id, 2)],
        [(newer.reservation_id, 2), (older.reservation_id, 1)],
    ]
    for node, broken in enumerate(expected):
        site.scheduler.node_down("node", f"node-{node}", 1)
        assert broken_ids(site) == broken
    for node in range(3):
        site.scheduler.node_up("node", f"node-{node}", 2)
    assert broken_ids(site) == []


def test_waiting_jobs_make_way_before_a_reservation_breaks() -> None:
    """A place is a plan, a reservation a promise: the job goes later, the reservation stays
    whole.
    """
    site = SmallSite()
    site.submit(4, 40)
    job = site.submit(2, 100)
    site.cycle()
    site.reserved(2, 100, 40)
    site.scheduler.node_down("node", "node-3", 0)
    assert broken_ids(site) == []
    assert job.planned_start == 140


def test_notices_are_bounded_and_start_anew_after_healing() -> None:
    """Twice at most, an hour apart; whole again and broken again is news."""
    site = SmallSite()
    site.reserved(4, 100_000, 50, 200_000)
    site.scheduler.node_down("node", "node-0", 0)
    book = NoticeBook(most=2, interval_s=3600)

    def told(now: int) -> int:
        broken = find_broken(site.calendar.live(), site.calendar.free, now)
        return len(book.due(broken, now))

    assert [told(0), told(10), told(3600), told(7200)] == [1, 0, 1, 0]
    site.scheduler.node_up("node", "node-0", 8000)
    assert told(8000) == 0
    site.scheduler.node_down("node", "node-0", 8001)
    assert told(8001) == 1
    with pytest.raises(InputError):
        NoticeBook(most=-1)

"""What is over shares one room: whoever takes most of it loses the oldest of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.agents.journal import job_table
from gridtravel.agents.node_agent import NodeAgent
from gridtravel.gridcore.booking import calendars, tombstones
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridio.journal.compaction import HISTORY_KIND
from gridtravel.gridio.journal.memory import Disk
from gridtravel.gridio.system.clock import ManualClock
from tests.support.builders import a_calendar, a_request, book, carry_out, release, some_rules
from tests.unit.test_compaction import an_agent

ADA, EVE = (Caller(subject=f"/CN={each}", login=each) for each in ("ada", "eve"))
ENDED, TOMBSTONES, ROUNDS = 20, 50, 200


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rooms that a test can fill."""
    monkeypatch.setattr(tombstones, "ENDED_MAX", ENDED)
    monkeypatch.setattr(tombstones, "TOMBSTONES_MAX", TOMBSTONES)
    monkeypatch.setattr(job_table, "HISTORY_JOBS_MAX", ENDED)


def books_nothing(calendar: Calendar, owner: str, name: str) -> bool:
    """True when a late copy of this request is told that it is over."""
    late, events = calendar.decide_reserve(a_request(name, start=200), owner, 30, 10)
    return isinstance(late, Decline) and late.rule is DeclineRule.FINISHED and events == ()


def test_releases_of_what_never_came() -> None:
    """The last of one caller hold, and all of another's; then the day is over."""
    calendar = a_calendar(4, rules=some_rules(tombstone_s=100))
    carry_out(calendar, calendar.decide_release_request("early", "ada", 10))
    for number in range(ROUNDS):
        carry_out(calendar, calendar.decide_release_request(f"unseen-{number}", "eve", 10))
    assert len(calendar.tombstoned) == TOMBSTONES
    assert books_nothing(calendar, "ada", "early")
    assert [
        number for number in range(ROUNDS) if books_nothing(calendar, "eve", f"unseen-{number}")
    ] == list(range(ROUNDS - TOMBSTONES + 1, ROUNDS))
    carry_out(calendar, calendar.decide_sweep(200))
    assert not calendar.tombstoned
    assert calendar.oldest_tombstone() is None


def test_an_entry_that_makes_way_leaves_tombstones() -> None:
    """Of the request that booked it and of those that changed it; its id is not known any more."""
    calendar = a_calendar(4, rules=some_rules(tombstone_s=100))
    first = book(calendar, a_request("first", start=20)).reservation_id
    _, events = calendar.decide_amend(first, a_request("second", start=30), None, 0)
    carry_out(calendar, events)
    release(calendar, first, 1)
    for number in range(ENDED):
        assert first in calendar.reservations
        release(calendar, book(calendar, a_request(f"{number}", start=40)).reservation_id, 2)
    assert first not in calendar.reservations
    assert dict(calendar.tombstoned) == {("ada", "first"): 1, ("ada", "second"): 1}
    assert calendar.oldest_tombstone() == 1


def test_a_reservation_is_changed_so_many_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change is remembered for as long as the reservation is."""
    monkeypatch.setattr(calendars, "CHANGES_MAX", 3)
    calendar = a_calendar(4)
    key = book(calendar, a_request("first", start=20)).reservation_id
    for number in range(3):
        answer, events = calendar.decide_amend(key, a_request(f"{number}", start=30), None, 0)
        assert isinstance(answer, Reservation)
        carry_out(calendar, events)
    answer, events = calendar.decide_amend(key, a_request("more", start=30), None, 0)
    assert isinstance(answer, Decline)
    assert (answer.rule, events) == (DeclineRule.STATE, ())
    assert calendar.decide_amend(key, a_request("2", start=30), None, 0)[0] == calendar.get(key)


async def test_who_reserves_and_releases_without_end(tmp_path: Path) -> None:
    """At a site's own doors: neither its memory nor its journal grows with it, what others released
    stays released and shown, and so do the last of the attacker's; also after a restart.
    """
    disk, clock = Disk(), ManualClock(1000)
    site = an_agent(disk, clock, tmp_path)
    ada, eve = site.calendar_port(ADA), site.calendar_port(EVE)
    mine = await ada.reserve(asked(ADA, "mine"), ttl_s=30)
    assert isinstance(mine, Reservation)
    await ada.release(mine.reservation_id)
    sizes = []
    for number in range(ROUNDS):
        held = await eve.reserve(asked(EVE, f"hold-{number}"), ttl_s=30)
        assert isinstance(held, Reservation)
        await eve.release(held.reservation_id)
        await eve.release_request(f"unseen-{number}")
        if number % 50 == 49:
            await site.tick()
            assert await site.compact()
            sizes.append(sum(len(each.body) for each in disk.records))
    calendar = site.calendar
    assert len(calendar.reservations) == ENDED
    assert len(calendar.tombstoned) == TOMBSTONES
    assert [each.kind for each in disk.records] == [HISTORY_KIND]
    assert sizes[-1] < 1.05 * sizes[1]
    site.parts.journal.close()

    again = an_agent(disk, clock, tmp_path)
    again.replay()
    assert again.calendar.reservations == calendar.reservations
    assert list(again.calendar.tombstoned.items()) == list(calendar.tombstoned.items())
    for caller, names in ((ADA, ["mine"]), (EVE, [f"hold-{ROUNDS - n}" for n in range(1, ENDED)])):
        for name in names:
            late = await again.calendar_port(caller).reserve(asked(caller, name), ttl_s=30)
            assert isinstance(late, Decline), name
            assert late.rule is DeclineRule.FINISHED
    assert again.calendar.get(mine.reservation_id).owner == "ada"


async def test_who_submits_and_cancels_without_end(tmp_path: Path) -> None:
    """Another's ended job stays: said again it is not queued again."""
    site = an_agent(Disk(), ManualClock(1000), tmp_path)
    mine = await queued_and_cancelled(site, ADA, "mine")
    for number in range(3 * ENDED):
        last = await queued_and_cancelled(site, EVE, f"job-{number}")
    site.jobs.validate()
    assert len(site.jobs.views) == ENDED
    assert {mine, last} < set(site.jobs.views)
    assert await queued_and_cancelled(site, ADA, "mine") == mine


async def queued_and_cancelled(site: NodeAgent, caller: Caller, name: str) -> str:
    """The id of a job that waits no more."""
    spec = JobSpec(
        request_id=name, name=name, account=caller.login, nodes=1, limit_s=9, argv=("true",)
    )
    port = site.site_port(caller)
    job = await port.submit(spec)
    assert isinstance(job, JobView)
    await port.cancel_job(job.job_id)
    return job.job_id


def asked(caller: Caller, name: str) -> ReservationRequest:
    """A request that fits, on the caller's own account."""
    return replace(a_request(name, start=1100), account=caller.login)


async def test_a_job_ends_with_its_reservation_although_that_made_way(tmp_path: Path) -> None:
    """Its nodes are free for others: a crash came between the release and the end of the job, and
    after it so many others were released that nobody knows the reservation any more.
    """
    clock = ManualClock(1000)
    site = an_agent(Disk(), clock, tmp_path)
    eve = site.calendar_port(EVE)
    kept = await eve.set_at_once(asked(EVE, "kept"), is_dry_run=False)
    assert isinstance(kept, Reservation)
    spec = JobSpec(
        request_id="job",
        name="job",
        account="eve",
        nodes=1,
        limit_s=9,
        argv=("true",),
        reservation_id=kept.reservation_id,
    )
    job = await site.site_port(EVE).submit(spec)
    assert isinstance(job, JobView)
    site.record(site.calendar.decide_release(kept.reservation_id, "eve", clock.now()))
    for number in range(ENDED):
        held = await eve.reserve(asked(EVE, f"hold-{number}"), ttl_s=30)
        assert isinstance(held, Reservation)
        await eve.release(held.reservation_id)
    assert kept.reservation_id not in site.calendar.reservations
    await site.tick()
    assert site.jobs.views[job.job_id].state is JobState.CANCELLED

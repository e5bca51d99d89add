"""A compacted journal gives back the same promises, and gives no id twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.agents.agent_parts import AgentParts
from gridtravel.agents.jobs.work_dirs import WorkDirs
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.agents.node_agent import NodeAgent
from gridtravel.agents.trips.port_pool import PortPool
from gridtravel.gridcore.booking.calendar_rules import CalendarRules, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Reservation, ReservationRequest
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.capacity.ladders import EXACT
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridio.journal import compaction
from gridtravel.gridio.journal.compaction import HISTORY_KIND, history_of, rewrite
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.memory import Disk, MemoryJournal
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.resource_managers.simulated import (
    SimulatedMachine,
    SimulatedResourceManager,
    SimulatedRun,
)
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler
from tests.support.builders import a_request
from tests.support.cards import CARDS

KENNETH = Caller(subject="/O=lab/OU=users/CN=kenneth", login="kenneth")
TOMBSTONE_S = 600


def nowhere(site: str, endpoint: str) -> SiteConnection:
    """No other site is needed here."""
    raise UnavailableError(f"{site} at {endpoint} is not part of this test")


def an_agent(disk: Disk, clock: ManualClock, folder: Path) -> NodeAgent:
    """An agent of one small site on a simulated disk."""
    calendar = Calendar(
        "lab",
        [ResourceClass(name="n", nodes=8)],
        rules=CalendarRules(tombstone_s=TOMBSTONE_S),
        origin=clock.now(),
    )
    return NodeAgent(
        AgentParts(
            calendar=calendar,
            scheduler=site_scheduler(calendar, SchedulerConfig()),
            jobs=JobTable("lab"),
            journal=MemoryJournal(disk),
            resource_manager=SimulatedResourceManager(
                machine=SimulatedMachine(clock=clock, run_of=lambda _: SimulatedRun(run_s=5)),
                nodes=(),
            ),
            clock=clock,
            port_pool=PortPool("127.0.0.1", range(21_000, 21_010)),
            work_dirs=WorkDirs(folder, owned_by_login=False, files=AccountFiles()),
            ladder=EXACT,
            published_horizon_s=3600,
            time_zone="UTC",
            kill_grace_s=1.0,
            login_of={KENNETH.subject: "kenneth"}.get,
            connect=nowhere,
            cards=CARDS,
        )
    )


async def test_a_compacted_journal_gives_back_the_same_promises(tmp_path: Path) -> None:
    """What is remembered is the same after a restart; what was forgotten is not stored."""
    disk, clock = Disk(), ManualClock(1000)
    agent = an_agent(disk, clock, tmp_path)
    desk, site = agent.calendar_port(KENNETH), agent.site_port(KENNETH)
    for number in range(20):
        start = clock.now() + 10
        request = a_request(f"old-{number}", start=start, duration_s=5)
        held = await desk.reserve(request_for(request), ttl_s=5)
        assert isinstance(held, Reservation)
        await desk.commit(held.reservation_id)
        clock.advance(20)
        await agent.tick()
    clock.advance(TOMBSTONE_S + 60)
    await agent.tick()
    assert not agent.calendar.reservations
    live = await desk.set_at_once(
        request_for(a_request("live", earliest=clock.now() + 100)), is_dry_run=False
    )
    assert isinstance(live, Reservation)
    await desk.release_request("never-seen")
    job = await site.submit(
        JobSpec(request_id="job", name="job", account="kenneth", nodes=1, limit_s=9, argv=("true",))
    )
    assert isinstance(job, JobView)
    before = agent.parts.journal.replay_count
    assert await agent.compact()
    assert [record.kind for record in agent.parts.journal.replay()] == [HISTORY_KIND]
    agent.parts.journal.close()

    again = an_agent(disk, clock, tmp_path)
    assert again.replay() < before
    assert again.calendar.reservations == agent.calendar.reservations
    assert again.calendar.tombstoned == agent.calendar.tombstoned
    assert again.jobs.views == agent.jobs.views
    assert again.jobs.next_id == agent.jobs.next_id
    later = await again.calendar_port(KENNETH).set_at_once(
        request_for(a_request("later", earliest=clock.now() + 200)), is_dry_run=True
    )
    assert isinstance(later, Reservation)
    assert later.reservation_id == "lab.22"


def request_for(request: ReservationRequest) -> ReservationRequest:
    """The request, charged to what kenneth may charge."""
    return replace(request, account="kenneth")


def a_record(number: int) -> Record:
    """A record that tells its number."""
    return Record(kind="TEST", at=number, body=b'{"v":1}')


async def test_nothing_is_rewritten_while_others_go_on_writing() -> None:
    """What was decided while the disk was waited for would be in no record."""
    journal = MemoryJournal(Disk(), auto=False)
    journal.append((a_record(1),))
    task = asyncio.ensure_future(
        rewrite(journal, lambda: journal.append(()), lambda: [a_record(1)], 9)
    )
    asyncio.get_running_loop().call_soon(lambda: journal.append((a_record(2),)))
    asyncio.get_running_loop().call_soon(journal.write)
    assert await task is False
    assert list(journal.replay()) == [a_record(1), a_record(2)]


async def test_a_history_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as one may be; of what would be longer nothing is rewritten."""
    kept = [a_record(2), a_record(3)]

    async def rewritten(body_bytes_max: int) -> MemoryJournal | None:
        monkeypatch.setattr(compaction, "BODY_BYTES_MAX", body_bytes_max)
        journal = MemoryJournal(Disk())
        journal.append([a_record(1), *kept])
        done = await rewrite(journal, lambda: journal.append(()), lambda: kept, 9)
        stored = list(journal.replay())
        if not done:
            assert stored == [a_record(1), *kept]
            return None
        assert [(each.kind, each.at) for each in stored] == [(HISTORY_KIND, 9)]
        assert list(history_of(journal)) == kept
        return journal

    journal = await rewritten(10_000)
    assert journal is not None
    (history,) = journal.replay()
    assert await rewritten(len(history.body)) is not None
    assert await rewritten(len(history.body) - 1) is None

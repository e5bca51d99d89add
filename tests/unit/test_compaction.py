"""A compacted journal gives back the same promises, and gives no id twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agents.agent_parts import AgentParts
from agents.areas import Areas
from agents.contacts import ContactBook
from agents.job_table import JobTable
from agents.node_agent import NodeAgent
from gridcore.calendar_rules import CalendarRules, ResourceClass
from gridcore.calendars import Calendar
from gridcore.callers import Caller
from gridcore.errors import UnavailableError
from gridcore.jobs import JobSpec, JobView
from gridcore.ladders import EXACT
from gridcore.reservations import Reservation, ReservationRequest
from gridio.clock import ManualClock
from gridio.connections import SiteConnection
from gridio.history import HISTORY_KIND
from gridio.journal_memory import Disk, MemoryJournal
from local_sched.resource_managers.simulated import (
    SimulatedMachine,
    SimulatedResourceManager,
    SimulatedRun,
)
from local_sched.scheduler_config import SchedulerConfig
from local_sched.site_scheduler import site_scheduler
from tests.builders import a_request

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
            contacts=ContactBook("127.0.0.1", range(21_000, 21_010)),
            areas=Areas(folder, owned_by_login=False),
            ladder=EXACT,
            published_horizon_s=3600,
            time_zone="UTC",
            kill_grace_s=1.0,
            login_of={KENNETH.subject: "kenneth"}.get,
            connect=nowhere,
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
    assert again.calendar.buried == agent.calendar.buried
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

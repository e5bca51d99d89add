"""Whatever happened before, a restart of the daemon makes no planned start later that was shown."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.jobs.job import JobState
from tests.support.maintenance_world import KENNETH, NODES, MaintenanceWorld, a_wish

SUBMIT = st.tuples(
    st.just("submit"), st.integers(1, NODES), st.integers(10, 300), st.integers(1, 300)
)
RESERVE = st.tuples(
    st.just("reserve"), st.integers(1, NODES), st.integers(0, 500), st.integers(10, 200)
)
RELEASE = st.tuples(st.just("release"), st.integers(0, 9), st.just(0), st.just(0))
CANCEL = st.tuples(st.just("cancel"), st.integers(0, 9), st.just(0), st.just(0))
WAIT = st.tuples(st.just("wait"), st.integers(1, 120), st.just(0), st.just(0))
RESTART = st.tuples(st.just("restart"), st.just(0), st.just(0), st.just(0))
HISTORY = st.lists(
    st.one_of(SUBMIT, SUBMIT, SUBMIT, RESERVE, RELEASE, CANCEL, WAIT, RESTART),
    min_size=4,
    max_size=25,
)


async def live(folder: Path, history: list[tuple[str, int, int, int]]) -> None:
    """Carry it out, and restart at the end as well."""
    world = MaintenanceWorld(folder)
    await world.start()
    reservations: list[str] = []
    for number, (what, first, second, third) in enumerate([*history, ("restart", 0, 0, 0)]):
        if what == "submit":
            job_id = world.agent.jobs.next_id
            world.runs[job_id] = min(second, third)
            await world.submit(first, second)
        elif what == "reserve":
            wish = a_wish(f"r-{number}", first, world.clock.now() + second, third)
            made = await world.desk().set_reservation(wish, is_dry_run=False)
            if isinstance(made, Reservation):
                reservations.append(made.reservation_id)
        elif what == "release" and reservations:
            key = reservations[first % len(reservations)]
            if world.agent.calendar.get(key).state.is_live:
                await world.agent.calendar_port(KENNETH).release(key)
        elif what == "cancel" and world.agent.scheduler.waiting:
            waiting = list(world.agent.scheduler.waiting)
            await world.desk().cancel_job(waiting[first % len(waiting)])
        elif what == "wait":
            await world.pass_time(first)
        elif what == "restart":
            await restart_and_compare(world)
        await world.tick()
    await world.stop()


async def restart_and_compare(world: MaintenanceWorld) -> None:
    """What was shown before and what is shown after."""
    shown = {each.job_id: each for each in await world.desk().jobs()}
    await world.restart()
    for job_id, before in shown.items():
        after = world.view(job_id)
        assert after.submitted_at == before.submitted_at
        if before.planned_start is None or after.state is not JobState.QUEUED:
            continue
        if before.planned_start <= world.clock.now():
            continue  # missed already, which no restart can mend
        assert after.planned_start is not None, (before, after)
        assert after.planned_start <= before.planned_start, (before, after)
    world.agent.scheduler.validate()
    world.agent.calendar.validate()
    world.agent.jobs.validate()


@settings(max_examples=40)
@given(HISTORY)
@example(
    [
        ("submit", 4, 100, 300),
        ("reserve", 2, 100, 100),
        ("submit", 3, 100, 300),
        ("submit", 2, 100, 300),
        ("release", 0, 0, 0),
    ]
)
def test_a_restart_makes_no_shown_place_later(history: list[tuple[str, int, int, int]]) -> None:
    """Submissions, reservations, cancellations, early ends, and restarts in between."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), history))

"""What a live site does by itself: standing reservations, shortpools, notices, prologue and
epilogue.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from gridtravel.agents.maintenance_rules import MaintenanceRules
from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationState
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.local_sched.reservations.standing import StandingReservation, StartRule
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.reservation_jobs import AccessRule
from gridtravel.local_sched.scheduling.shortpools import Shortpool
from tests.support.maintenance_world import KENNETH, ROOT, MaintenanceWorld, a_wish

ZONE = ZoneInfo("America/Los_Angeles")
EASY = BackfillRule(depth=1)


def local(*when: int) -> int:
    """A local time in Los Angeles as an instant."""
    return int(datetime(*when, tzinfo=ZONE).timestamp())  # type: ignore[arg-type,misc]


def lesson(**more: object) -> StandingReservation:
    """Two nodes at eight on weekdays, three instances ahead."""
    fields: dict[str, object] = {
        "name": "lesson",
        "start_rule": StartRule(text="0 8 * * 1-5", zone="America/Los_Angeles"),
        "duration_s": 3_600,
        "nodes": 2,
        "depth": 3,
    }
    return StandingReservation(**(fields | more))  # type: ignore[arg-type]


def instances(world: MaintenanceWorld) -> list[tuple[int, int]]:
    """(start, nodes) of all live ones."""
    return [(each.start, each.nodes) for each in world.agent.calendar.live()]


async def test_standing_reservations_are_kept_at_a_live_site(tmp_path: Path) -> None:
    """Three ahead at eight local time, before and after the clocks change; a new one comes into
    view when one begins; a restart makes none twice.
    """
    world = MaintenanceWorld(
        tmp_path, MaintenanceRules(standing=(lesson(),)), now=local(2026, 3, 6, 0)
    )
    await world.start()
    expected = [(local(2026, 3, day, 8), 2) for day in (6, 9, 10, 11)]
    assert instances(world) == expected[:3]
    await world.restart()
    assert instances(world) == expected[:3]
    await world.tick(8 * 3_600 + 60)
    assert instances(world) == expected
    await world.tick(3_600)
    assert instances(world) == expected[1:]
    await world.stop()


async def test_a_cancelled_instance_stays_cancelled(tmp_path: Path) -> None:
    """Over restarts and beyond the tombstone of its request."""
    world = MaintenanceWorld(
        tmp_path, MaintenanceRules(standing=(lesson(),)), now=local(2026, 3, 9, 9)
    )
    await world.start()
    first, *others = world.agent.calendar.live()
    last = others[-1]
    await world.agent.calendar_port(ROOT).release(last.reservation_id)
    await world.tick(60)
    await world.tick(86_400 + 120)
    assert last.reservation_id not in world.agent.calendar.reservations, "its tombstone is gone"
    assert await world.agent.compact()
    await world.restart()
    await world.tick(60)
    assert first.start in [start for start, _ in instances(world)] or first.end < world.clock.now()
    assert last.start not in [start for start, _ in instances(world)]
    await world.stop()


async def test_a_changed_rule_takes_its_future_instances_back(tmp_path: Path) -> None:
    """After a restart with three nodes instead of two the future ones are made anew, and the one
    that runs stays; without the rule none is left.
    """
    begun = local(2026, 3, 9, 8)
    world = MaintenanceWorld(tmp_path, MaintenanceRules(standing=(lesson(),)), now=begun - 600)
    await world.start()
    await world.tick(700)
    await world.restart(MaintenanceRules(standing=(lesson(nodes=3, depth=1),)))
    assert instances(world) == [(begun, 2), (local(2026, 3, 10, 8), 3)]
    await world.restart(MaintenanceRules())
    assert instances(world) == [(begun, 2)]
    await world.stop()


async def test_only_admitted_jobs_use_an_instance(tmp_path: Path) -> None:
    """By the declared rule, also after a restart in the middle of the instance."""
    begun = local(2026, 3, 9, 8)
    for owner, expected in (("kenneth", JobState.RUNNING), ("ada", JobState.QUEUED)):
        rule = lesson(nodes=4, access=AccessRule(owners=(owner,)))
        folder = tmp_path / owner
        world = MaintenanceWorld(folder, MaintenanceRules(standing=(rule,)), now=begun - 60)
        await world.start()
        await world.tick(120)
        await world.restart()
        job = await world.submit(2, 600)
        assert world.view(job).state is expected
        await world.stop()


async def test_a_shortpool_keeps_nodes_for_whom_it_is(tmp_path: Path) -> None:
    """Two of four nodes can be had within 1,000 s: not by a long job or another account, but by the
    account entitled to it.
    """
    pool = Shortpool(nodes=2, latency_s=1_000, duration_s=500, accounts=("urgent",))
    world = MaintenanceWorld(tmp_path, backfill=EASY, shortpools={"n": pool})
    await world.start()
    long, short = await world.submit(3, 5_000), await world.submit(3, 900)
    assert (world.view(long).state, world.view(short).state) == (JobState.QUEUED, JobState.RUNNING)
    start = world.clock.now() + 1_000
    refused = await world.desk().set_reservation(a_wish("x", 3, start, 400), is_dry_run=False)
    assert isinstance(refused, Decline)
    urgent = KENNETH.__class__(subject="login:eve", login="eve", accounts=("urgent",))
    wish = a_wish("y", 3, start, 400, account="urgent")
    granted = await world.desk(urgent).set_reservation(wish, is_dry_run=False)
    assert isinstance(granted, Reservation)
    await world.tick()
    world.agent.scheduler.validate()
    world.agent.calendar.validate()
    await world.stop()


async def test_broken_reservations_are_told_so_often_and_no_more(tmp_path: Path) -> None:
    """Two mails an hour apart and none after, over a restart as well; the reservation stands, and
    nothing is mailed where nobody asked for it.
    """
    world = MaintenanceWorld(tmp_path, MaintenanceRules(notices_max=2, notice_interval_s=3_600))
    await world.start()
    start = world.clock.now() + 50_000
    wish = a_wish("r", 4, start, 100, notify_email="ada@lab.example")
    await world.desk().set_reservation(wish, is_dry_run=False)
    await world.desk().set_reservation(a_wish("q", 4, start + 100, 9), is_dry_run=False)
    await world.desk(ROOT).order("node-down", {"node": "n-1"})
    await world.tick()
    assert await world.mailed() == ["[lab] reservation lab.1 lacks 1 of its 4 nodes"]
    await world.tick(3_000)
    assert len(await world.mailed()) == 1
    await world.restart()
    assert len(await world.mailed()) == 2
    for _ in range(3):
        await world.tick(4_000)
    await world.restart()
    assert len(await world.mailed()) == 2
    assert world.agent.calendar.get("lab.1").state is ReservationState.COMMITTED
    assert world.mail.notices[0].to == "ada@lab.example"
    await world.stop()


async def test_a_job_on_a_failed_node_breaks_no_reservation(tmp_path: Path) -> None:
    """The job has one node of four, which fails under it; three are there for the reservation."""
    world = MaintenanceWorld(tmp_path)
    await world.start()
    job = await world.submit(1, 1_000)
    start = world.clock.now() + 100
    wish = a_wish("r", 3, start, 100, notify_email="ada@lab.example")
    assert isinstance(await world.desk().set_reservation(wish, is_dry_run=False), Reservation)
    await world.desk(ROOT).order("node-down", {"node": "n-0"})
    await world.tick()
    assert world.view(job).node_names == ("n-0",)
    assert [each for each in await world.mailed() if "reservation" in each] == []
    await world.desk(ROOT).order("node-down", {"node": "n-1"})
    await world.tick()
    assert [each for each in await world.mailed() if "reservation" in each] == [
        "[lab] reservation lab.1 lacks 1 of its 3 nodes"
    ]
    await world.stop()


def a_hook(folder: Path, name: str, text: str) -> tuple[str, ...]:
    """A command of the site."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return (str(path), "word")


async def test_prologue_and_epilogue_run_once_each(tmp_path: Path) -> None:
    """Told of the reservation in their environment, where shell characters mean nothing; a restart
    in between repeats neither.
    """
    out = tmp_path / "out"
    told = f'echo "$1 $GRID_HOOK $GRID_OWNER $GRID_ACCOUNT $GRID_NODES $GRID_PURPOSE" >> {out}'
    hook = a_hook(tmp_path, "hook", told)
    world = MaintenanceWorld(tmp_path / "areas", MaintenanceRules(prologue=hook, epilogue=hook))
    await world.start()
    odd = KENNETH.__class__(subject="login:kenneth", login="kenneth", accounts=("$(id);\nx",))
    wish = a_wish("r", 2, world.clock.now() + 10, 100, account="$(id);\nx")
    made = await world.desk(odd).set_reservation(wish, is_dry_run=False)
    assert isinstance(made, Reservation)
    await world.tick(10)
    await world.hooks_drained()
    await world.restart()
    await world.tick(50)
    await world.agent.calendar_port(KENNETH).release(made.reservation_id)
    await world.tick()
    await world.hooks_drained()
    await world.restart()
    await world.hooks_drained()
    facts = "kenneth $(id);?x 2 user"
    assert out.read_text().splitlines() == [f"word prologue {facts}", f"word epilogue {facts}"]
    assert world.mail.notices == []
    await world.stop()


async def test_a_failing_prologue_is_told_and_blocks_nothing(tmp_path: Path) -> None:
    """The reservation's job runs all the same, and its owner reads what the hook said."""
    hook = a_hook(tmp_path, "hook", "echo disk full; exit 3")
    world = MaintenanceWorld(tmp_path / "areas", MaintenanceRules(prologue=hook))
    await world.start()
    wish = a_wish("r", 2, world.clock.now() + 10, 100, notify_email="ada@lab.example")
    made = await world.desk().set_reservation(wish, is_dry_run=False)
    assert isinstance(made, Reservation)
    job = await world.submit(1, 50, reservation_id=made.reservation_id)
    await world.tick(10)
    await world.hooks_drained()
    assert world.view(job).state is JobState.RUNNING
    assert await world.mailed() == ["[lab] reservation lab.1 began or ended without its prologue"]
    assert "ended with 3: disk full" in world.mail.notices[0].text
    await world.stop()

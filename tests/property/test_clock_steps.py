"""A site whose clock is set, forward and back: when it is right again, the site's answers are those
of a site whose clock never stepped, except what was decided meanwhile.

What was decided is in the journal. So the second oracle is the same site started again from its
journal under the right clock: it remembers every decision and nothing else of the wrong time.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationState,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.manager.shadows.keeper import ShadowKeeper
from gridtravel.manager.shadows.own_summary import OwnSummary
from tests.support.builders import a_calendar
from tests.support.maintenance_world import KENNETH, NODES, ROOT, MaintenanceWorld, a_wish

BEGIN = 100_000
HOUR_S = 3600
LADDER = SlotLadder.parse("8x60, *x960")

WISHES = [
    replace(
        a_wish(f"look-{nodes}-{late_s}", nodes, BEGIN + late_s, 300),
        latest_end=BEGIN + late_s + 40_000,
    )
    for nodes in (1, 2, NODES)
    for late_s in (60, 1_000, 5_000, 20_000)
]

Answer = tuple[object, ...] | None


@dataclass(frozen=True)
class Scene:
    """What a site has promised before its clock goes wrong."""

    reservations: list[tuple[int, int, int]]
    """Nodes, seconds from now, duration."""
    jobs: list[tuple[int, int]]
    """Nodes, limit."""
    has_failed_node: bool
    has_whole_slots: bool
    depth: int | None


scenes = st.builds(
    Scene,
    reservations=st.lists(
        st.tuples(st.integers(1, NODES), st.integers(5, 30_000), st.integers(60, 8_000)), max_size=5
    ),
    jobs=st.lists(st.tuples(st.integers(1, NODES), st.integers(60, 9_000)), max_size=4),
    has_failed_node=st.booleans(),
    has_whole_slots=st.booleans(),
    depth=st.sampled_from([None, 1]),
)
steps_s = st.lists(
    st.integers(-20_000, 60_000).filter(lambda step: step != 0), min_size=1, max_size=4
)
"""Seconds that the clock is off the truth, one after the other."""


async def a_site(folder: Path, scene: Scene) -> MaintenanceWorld:
    """The site, with all that it promised; not every wish can be granted."""
    ladder = LADDER if scene.has_whole_slots else None
    world = MaintenanceWorld(
        folder,
        now=BEGIN,
        backfill=BackfillRule(depth=scene.depth),
        slot_rule=None if ladder is None else SlotRule(ladder=ladder),
    )
    await world.start()
    for nodes, limit_s in scene.jobs:
        await world.submit(nodes, limit_s)
    for number, (nodes, late_s, duration_s) in enumerate(scene.reservations):
        wish = a_wish(f"wish-{number}", nodes, BEGIN + late_s, duration_s)
        await world.agent.calendar_port(KENNETH)._book(wish, None)
    if scene.has_failed_node:
        await world.desk(ROOT).order("node-down", {"node": "n-3"})
    await world.tick()
    return world


async def told(world: MaintenanceWorld) -> list[Answer]:
    """What the site answers to everything that can be asked without effect."""
    answers = await world.agent.calendar_port(KENNETH).inquire(WISHES)
    summary = world.agent.summary()
    return [*map(_plain, answers), _seen(summary)]


def _plain(answer: Availability | Decline) -> Answer:
    if isinstance(answer, Decline):
        return (answer.rule, answer.earliest, answer.nodes_now)
    return tuple((each.start, each.nodes, each.resource_class) for each in answer.offers)


def _seen(summary: CalendarSummary) -> Answer:
    """Without the version, which is new after a restart and a step."""
    return (summary.as_of, summary.classes)


@settings(max_examples=15)
@example(
    scene=Scene(
        reservations=[(1, 20, 60)], jobs=[], has_failed_node=False, has_whole_slots=True, depth=None
    ),
    steps=[-581, 20],
)
@given(scene=scenes, steps=steps_s)
def test_looking_under_a_wrong_clock_leaves_nothing_behind(scene: Scene, steps: list[int]) -> None:
    """Inquiries and summaries decide nothing: the answers afterwards are those of before."""

    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            world = await a_site(Path(folder), scene)
            before = await told(world)
            for step_s in steps:
                world.clock.set_to(BEGIN + step_s)
                await told(world)
            world.clock.set_to(BEGIN)
            assert await told(world) == before
            world.agent.scheduler.validate()
            world.agent.calendar.validate()
            await world.stop()

    asyncio.run(live())


@settings(max_examples=15)
@given(scene=scenes, steps=steps_s)
def test_living_under_a_wrong_clock_leaves_decisions_alone(scene: Scene, steps: list[int]) -> None:
    """Whatever became of reservations meanwhile, the site answers as if it had been started again
    from its journal under the right clock. Without jobs: what runs lives by the wrong clock too.
    """

    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            world = await a_site(Path(folder), replace(scene, jobs=[]))
            for step_s in steps:
                world.clock.set_to(BEGIN + step_s)
                await world.tick()
                await told(world)
            world.clock.set_to(BEGIN + 1)
            await world.tick()
            lived = await told(world)
            world.agent.scheduler.validate()
            await world.restart()
            assert await told(world) == lived
            await world.stop()

    asyncio.run(live())


async def test_one_inquiry_an_hour_ahead(tmp_path: Path) -> None:
    """The case that was found: afterwards an empty site had no room for an hour."""
    world = MaintenanceWorld(tmp_path, now=BEGIN)
    await world.start()
    wish = a_wish("now", NODES, BEGIN + 60, 600)
    world.clock.set_to(BEGIN + HOUR_S)
    await world.agent.calendar_port(KENNETH).inquire([wish])
    world.clock.set_to(BEGIN)
    (answer,) = await world.agent.calendar_port(KENNETH).inquire([wish])
    assert isinstance(answer, Availability), answer
    await world.stop()


async def test_room_of_what_ended_too_early_is_free(tmp_path: Path) -> None:
    """A reservation that the wrong clock saw end is over; its nodes are free from now on and not
    from its end on, with and without a restart.
    """
    world = MaintenanceWorld(tmp_path, now=BEGIN)
    await world.start()
    wish = a_wish("gone", NODES, BEGIN + 100, 600)
    await world.agent.calendar_port(KENNETH)._book(wish, None)
    world.clock.set_to(BEGIN + HOUR_S)
    await world.tick()
    world.clock.set_to(BEGIN)
    again = a_wish("again", NODES, BEGIN + 100, 600)
    for _ in range(2):
        (answer,) = await world.agent.calendar_port(KENNETH).inquire([again])
        assert isinstance(answer, Availability), answer
        await world.restart()
    await world.stop()


async def test_a_hold_of_a_clock_that_was_ahead_ends(tmp_path: Path) -> None:
    """No hold outlives the longest life of holds, whatever clock granted it."""
    world = MaintenanceWorld(tmp_path, now=BEGIN)
    await world.start()
    world.clock.set_to(BEGIN + HOUR_S)
    port = world.agent.calendar_port(KENNETH)
    hold = await port.reserve(a_wish("hold", NODES, BEGIN + 3 * HOUR_S, 600), ttl_s=60)
    assert isinstance(hold, Reservation)
    world.clock.set_to(BEGIN)
    await world.tick()
    kept = world.agent.calendar.get(hold.reservation_id)
    assert kept.state is ReservationState.EXPIRED
    await world.stop()


async def test_copies_of_the_calendar_follow(tmp_path: Path) -> None:
    """Whoever keeps a copy hears of a new epoch, whose times are right again."""
    world = MaintenanceWorld(tmp_path, now=BEGIN)
    await world.start()
    world.clock.set_to(BEGIN + HOUR_S)
    ahead = world.agent.summary()
    world.clock.set_to(BEGIN)
    await world.agent.tick()
    after = world.agent.summary()
    assert (ahead.as_of, after.as_of) == (BEGIN + HOUR_S, BEGIN)
    assert ahead.version.epoch != after.version.epoch
    await world.stop()


async def test_a_running_site_does_not_wait_for_the_old_time(tmp_path: Path) -> None:
    """A clock that is set back by an hour does not put the site to sleep for an hour."""
    world = MaintenanceWorld(tmp_path, now=BEGIN)
    await world.start()
    running = asyncio.create_task(world.agent.run())
    await world._turns()
    world.clock.set_to(BEGIN + HOUR_S)
    await world._turns()
    world.clock.set_to(BEGIN)
    port = world.agent.calendar_port(KENNETH)
    hold = await port.reserve(a_wish("hold", NODES, BEGIN + 2 * HOUR_S, 600), ttl_s=10)
    assert isinstance(hold, Reservation)
    for _ in range(3):
        world.clock.advance(10)
        await world._turns()
    assert world.agent.calendar.get(hold.reservation_id).state is ReservationState.EXPIRED
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await world.stop()


def test_a_manager_whose_clock_is_set_back_begins_an_epoch() -> None:
    """Its parent would take the newer sum for an older one, and end the subscription."""
    clock = ManualClock(BEGIN)
    child = summarise(a_calendar(NODES, site="c"), LADDER, BEGIN, horizon_s=HOUR_S)
    keeper = SimpleNamespace(site="north", changes=1, published=lambda now, age_s: [child])
    own = OwnSummary(
        cast(ShadowKeeper, keeper),
        LADDER,
        clock,
        SeededIds(7),
        horizon_s=HOUR_S,
        shadow_age_max_s=HOUR_S,
    )
    clock.set_to(BEGIN + 600)
    ahead = own.current()
    clock.set_to(BEGIN)
    after = own.current()
    assert after.as_of < ahead.as_of
    assert after.version.epoch != ahead.version.epoch
    clock.advance(1)
    assert own.current().version.epoch == after.version.epoch

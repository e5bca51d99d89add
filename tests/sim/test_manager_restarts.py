"""A manager that dies at every write of its journal, and comes back: its groups are whole or
absent, and nothing that was answered is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationState
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.memory import WriteStage
from tests.support.child_site import ChildSite
from tests.support.manager_network import unreliable
from tests.support.manager_world import SOON, World, a_wish
from tests.support.virtual_time import run_virtually

QUIET_S = 95.0
"""Longer than the lifetime of any hold and the pauses of any retry."""
LATER = SOON + 900
"""A start that lies behind all of a story."""


@dataclass
class Story:
    """What one caller does, and what it was told."""

    world: World
    told: list[str] = field(default_factory=list)
    group_id: str = ""

    async def says(self, verb: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """One verb; its answer is noted. ``UnavailableError`` ends the story."""
        answer = await call()
        if isinstance(answer, Decline):
            raise _Refused(answer.message)
        self.told.append(verb)
        return answer

    async def book(self) -> None:
        """Reserve and commit."""
        await self.hold_and_forget()
        await self.says("committed", lambda: self.world.ada.commit(self.group_id))

    async def book_and_release(self) -> None:
        """Reserve, commit, cancel."""
        await self.book()
        self.told.append("asked for release")
        await self.says("released", lambda: self.world.ada.release(self.group_id))

    async def book_and_amend(self) -> None:
        """Reserve, commit, then fewer nodes and a later start."""
        await self.book()
        later = a_wish("wish-2", nodes=5, start=LATER + 30)
        await self.says("amended", lambda: self.world.ada.amend(self.group_id, later))

    async def hold_and_forget(self) -> None:
        """Reserve only."""
        wish = a_wish(start=LATER)
        hold = await self.says("held", lambda: self.world.ada.reserve(wish, ttl_s=20))
        self.group_id = hold.reservation_id


class _Refused(Exception):
    pass


class _CrashPoint:
    """Kills the manager's journal at one write."""

    def __init__(self, world: World, write: int, stage: WriteStage) -> None:
        self.world = world
        self.left = write
        self.stage = stage
        self.has_struck = asyncio.Event()

    def __call__(self, stage: WriteStage, records: Sequence[Record]) -> None:
        if stage is not self.stage or self.has_struck.is_set():
            return
        self.left -= 1
        if self.left <= 0:
            self.world.manager.parts.journal.crash()  # type: ignore[attr-defined]
            self.has_struck.set()


async def _tell(
    name: str, write: int, stage: WriteStage, *, away_s: float, asks_again: bool, seed: int = 0
) -> bool:
    """One story with a crash at the ``write``-th write; False when it never came to that."""
    world = World([ChildSite("a"), ChildSite("b"), ChildSite("c")])
    if seed:
        world.network.carry = unreliable(seed)
    story = Story(world)
    crashed = _CrashPoint(world, write, stage)
    world.on_write = crashed
    world.manager = _remade(world)
    world.start()
    await world.passes(0.5)
    telling = asyncio.create_task(getattr(story, name)())
    striking = asyncio.create_task(crashed.has_struck.wait())
    await _either(telling, striking)
    waiting = asyncio.create_task(world.passes(QUIET_S))
    await _either(waiting, striking)
    waiting.cancel()
    if crashed.has_struck.is_set():
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        await world.stop()
        await world.passes(away_s)
        world.on_write = None
        world.revive()
        await world.passes(0.5)
        if asks_again:
            await asyncio.gather(_again(story, name), return_exceptions=True)
    striking.cancel()
    await asyncio.gather(telling, striking, waiting, return_exceptions=True)
    await world.passes(QUIET_S)
    _check(story, asks_again=asks_again)
    await world.close()
    return crashed.has_struck.is_set()


def _remade(world: World) -> Any:
    world.manager.parts.journal.close()
    return world._make()


async def _either(first: asyncio.Task[Any], second: asyncio.Task[Any]) -> None:
    done = asyncio.Event()
    for task in (first, second):
        task.add_done_callback(lambda _: done.set())
    await done.wait()


async def _again(story: Story, name: str) -> None:
    """The caller goes through the same words once more; each is idempotent."""
    for _ in range(5):
        try:
            await getattr(story, name)()
        except UnavailableError:
            await story.world.passes(1)
        else:
            return


def _check(story: Story, *, asks_again: bool) -> None:
    world = story.world
    world.assert_whole_or_absent()
    groups = world.manager.book.groups
    now = world.clock.now()
    states = {each.reservation.state for each in groups.values() if each.reservation.end > now}
    if "released" in story.told:
        assert ReservationState.COMMITTED not in states
    elif "committed" in story.told and "asked for release" not in story.told:
        assert states >= {ReservationState.COMMITTED}, "an acknowledged promise was lost"
    if "amended" in story.told:
        group = groups[story.group_id].reservation
        assert (group.nodes, group.start) == (5, LATER + 30)


@pytest.mark.parametrize("stage", list(WriteStage))
@pytest.mark.parametrize("asks_again", [False, True])
@pytest.mark.parametrize("name", ["hold_and_forget", "book", "book_and_release", "book_and_amend"])
def test_a_crash_at_each_write_leaves_groups_whole_or_absent(
    name: str, asks_again: bool, stage: WriteStage
) -> None:
    """Whatever write is the last one, before or after it reached the disk, and whether the caller
    comes back or not: once quiet no child keeps a part of a group that was undone, and what was
    acknowledged stands.
    """
    for away_s in (0.0, 30.0):
        write = 0
        strikes = True
        while strikes:
            write += 1
            assert write < 60
            scene = partial(_tell, name, write, stage, away_s=away_s, asks_again=asks_again)
            strikes = run_virtually(scene)
        assert write > 2, "the story has writes to crash at"


@pytest.mark.parametrize("name", ["book", "book_and_release", "book_and_amend"])
def test_crashes_on_a_bad_network(name: str, sim_seed: int) -> None:
    """The same over a network that loses, delays and doubles messages."""
    for write in (1, 2, 3, 5, 8):
        for stage in WriteStage:
            seed = 100 * sim_seed + write
            scene = partial(_tell, name, write, stage, away_s=2.0, asks_again=True, seed=seed)
            run_virtually(scene)


def test_a_decided_group_is_finished_after_a_restart() -> None:
    """The decision is on disk before the first child is told, so the restarted manager commits the
    rest without being asked.
    """

    async def scene() -> None:
        world = World([ChildSite("a"), ChildSite("b")])
        world.start()
        await world.passes(0.5)
        answer = await world.ada.reserve(a_wish(), ttl_s=20)
        assert isinstance(answer, Reservation)
        world.sites["b"].is_up = False
        committing = asyncio.create_task(world.ada.commit(answer.reservation_id))
        await world.passes(1)
        assert world.manager.book.decided()
        await world.crash()
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        world.sites["b"].restart()
        world.revive()
        await world.passes(2)
        assert world.manager.book.get(answer.reservation_id).reservation.state is (
            ReservationState.COMMITTED
        )
        world.assert_whole_or_absent()
        await world.close()

    run_virtually(scene)


def test_what_was_only_asked_for_is_undone_after_a_restart() -> None:
    """The journal knew which holds might come to exist; their children are told at once, and need
    not wait for the holds to expire.
    """

    async def scene() -> None:
        world = World([ChildSite("a"), ChildSite("b")])
        world.start()
        await world.passes(0.5)

        async def stuck(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
            answer = await work()
            if (child, verb) == ("b", "reserve"):
                await asyncio.Event().wait()
            return answer

        world.network.carry = stuck
        asking = asyncio.create_task(world.ada.reserve(a_wish(), ttl_s=20))
        await world.passes(0.5)
        assert world.sites["a"].of_manager(ReservationState.HELD)
        await world.crash()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        world.network.carry = None
        world.revive()
        await world.passes(2)
        world.assert_whole_or_absent()
        await world.close()

    run_virtually(scene)

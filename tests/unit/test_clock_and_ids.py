from __future__ import annotations

import asyncio
import time

import pytest

from gridtravel.gridio.system.clock import ManualClock, SystemClock
from gridtravel.gridio.system.ids import IdSource, RandomIds, SeededIds, new_id


async def test_sleepers_wake_in_the_order_of_their_instants() -> None:
    """One long step wakes everybody whose time has come, earliest first, and nobody else."""
    clock = ManualClock(100.5)
    woken: list[str] = []

    async def sleeper(name: str, instant: float) -> None:
        await clock.sleep_until(instant)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        for name, instant in (("late", 130), ("second", 120), ("first", 110), ("twin", 120)):
            group.create_task(sleeper(name, instant))
        await clock.sleep_until(0)
        assert clock.next_wake_up == 110
        clock.advance(20)
        await clock.sleep_until(0)
        assert (woken, clock.now(), clock.now_precise()) == (
            ["first", "second", "twin"],
            120,
            120.5,
        )
        clock.advance_to(130)
    assert woken[-1] == "late"
    assert clock.next_wake_up is None


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    """A task that stops waiting leaves no wake-up behind for a simulation to run to."""
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep_until(10))
    await clock.sleep_until(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.next_wake_up is None
    clock.advance(20)


def test_a_manual_clock_cannot_go_back() -> None:
    """Time only grows."""
    with pytest.raises(ValueError, match="cannot go back"):
        ManualClock(10).advance_to(9)


async def test_the_system_clock_does_not_wait_for_the_past() -> None:
    """An instant that has passed is no reason to sleep; whole and precise seconds agree."""
    clock = SystemClock()
    before = clock.now()
    await clock.sleep_until(before - 100)
    assert before <= clock.now_precise()


async def test_a_clock_that_is_set_back_lets_nobody_oversleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wait ends when it has lasted as long as it was to last, whatever the wall clock says."""
    wall = [2_000_000.0]
    monkeypatch.setattr(time, "time", lambda: wall[0])
    waiting = asyncio.create_task(SystemClock().sleep_until(wall[0] + 0.05))
    await asyncio.sleep(0)  # noqa: TID251 - lets it begin
    wall[0] -= 3600
    await asyncio.wait_for(waiting, 60)


async def test_a_manual_clock_that_is_set_does_the_same() -> None:
    """Forward it wakes who is due; back, nobody sleeps longer than before."""
    clock = ManualClock(1_000)
    waiting = asyncio.create_task(clock.sleep_until(1_010))
    await clock.sleep_until(0)
    clock.set_to(500)
    clock.advance(9)
    await clock.sleep_until(0)
    assert not waiting.done()
    clock.advance(1)
    await waiting
    waiting = asyncio.create_task(clock.sleep_until(2_000))
    await clock.sleep_until(0)
    clock.set_to(2_000)
    await waiting


def test_ids_sort_by_the_second_of_their_making() -> None:
    """Ids of one kind sort by age across a step of time, also past a change in the number of
    digits.
    """
    clock = ManualClock(31.0)
    ids = RandomIds(clock)
    made = []
    for _ in range(40):
        made.append(ids.new_id("trip"))
        clock.advance(1000)
    assert made == sorted(made)
    assert all(len(one) == len("trip-") + 26 for one in made)


def test_seeds_give_the_same_ids_and_chance_gives_others() -> None:
    """A seed fixes every id and serial; two unseeded ones differ."""

    def drawn(ids: IdSource) -> list[object]:
        return [ids.new_id("hold"), ids.new_serial(), ids.new_id("hold")]

    assert drawn(SeededIds(7)) == drawn(SeededIds(7)) != drawn(SeededIds(8))
    assert new_id("job") != new_id("job")
    assert 0 < RandomIds().new_serial() < 2**127


@pytest.mark.parametrize("prefix", ["", "Trip", "a-b", "x" * 17, "1a"])
def test_prefixes_keep_ids_readable(prefix: str) -> None:
    """A prefix is a short lower-case word: the dash after it is the only one."""
    with pytest.raises(ValueError, match="prefix"):
        SeededIds(1).new_id(prefix)

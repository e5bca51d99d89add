"""The loop and the clocks of simulated worlds."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from gridtravel.simulator.kernel.processes import CrashPoint, PointKind, SimulatedProcess
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN, ClockStep, VirtualClock
from gridtravel.simulator.kernel.virtual_loop import DeadlockError, VirtualLoop, run_virtual

YEAR_S = 365.25 * 86_400


def test_ten_years_pass_in_a_moment() -> None:
    """Time jumps to the next timer; ten years from zero a tenth of a second can still be slept, and
    a minute's ticks are a minute apart. With asyncio's resolution of a nanosecond the loop would
    spin for ever long before.
    """

    async def main(loop: VirtualLoop) -> list[float]:
        clock = VirtualClock(loop)
        await clock.sleep_until(WORLD_BEGIN + 10 * YEAR_S)
        moments = []
        for _ in range(5):
            await clock.sleep_until(clock.now_precise() + 0.1)
            moments.append(loop.time())
        async with asyncio.timeout(60):
            await clock.sleep_until(clock.now_precise() + 59.0)
        assert loop.callbacks_run < 100
        return moments

    moments = run_virtual(main)
    assert moments[0] == pytest.approx(10 * YEAR_S + 0.1, abs=1e-4)
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert gaps == pytest.approx([0.1] * 4, abs=1e-4)


def test_a_sleeper_never_wakes_before_its_instant() -> None:
    """Whatever floating point makes of the sum, the clock shows at least the instant slept for; a
    service that woke a moment too early would find nothing due and sleep for no time, for ever.
    """

    async def main(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop, skew_s=0.3)
        for second in range(1, 400):
            instant = WORLD_BEGIN + second * 977
            await clock.sleep_until(instant)
            assert clock.now() >= instant
            assert clock.now_precise() < instant + 0.001

    run_virtual(main)


def test_a_clock_that_is_set_is_noticed_at_the_end_of_a_nap() -> None:
    """Set forward by a minute after 25 s, a sleeper for 50 s wakes with the nap of ten seconds that
    the step fell into; set back, it sleeps the time again.
    """

    async def main(loop: VirtualLoop) -> tuple[float, float]:
        forward = VirtualClock(loop, steps=(ClockStep(at_s=25.0, by_s=60.0),))
        await forward.sleep_until(WORLD_BEGIN + 50)
        first = loop.time()
        back = VirtualClock(loop, steps=(ClockStep(at_s=first + 5.0, by_s=-20.0),))
        await back.sleep_until(WORLD_BEGIN + first + 10)
        return first, loop.time() - first

    assert list(run_virtual(main)) == pytest.approx([30.0, 30.0], abs=1e-3)


def test_everybody_waiting_is_a_fault() -> None:
    """Without a callback and without a timer nothing will ever happen again."""

    async def main(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(DeadlockError):
        run_virtual(main)


def test_the_dead_run_nothing_any_more() -> None:
    """A life that ends stops in the middle: no ``finally``, no ``except``, no timer, and none of
    the tasks it started. Its tasks clear up only when the world is over.
    """
    seen: list[str] = []

    async def work(life_ends: SimulatedProcess, clock: VirtualClock) -> None:
        async def child() -> None:
            try:
                await clock.sleep_until(WORLD_BEGIN + 20)
                seen.append("child went on")
            finally:
                seen.append("child cleared up")

        task = asyncio.create_task(child())
        try:
            await clock.sleep_until(WORLD_BEGIN + 10)
            seen.append("went on")
            await task
        except asyncio.CancelledError:
            seen.append("was cancelled")
            raise

    async def main(loop: VirtualLoop) -> list[str]:
        clock = VirtualClock(loop)
        life = SimulatedProcess("site", on_death=lambda: None)
        life.start(work(life, clock), "work")
        await clock.sleep_until(WORLD_BEGIN + 5)
        life.end()
        await clock.sleep_until(WORLD_BEGIN + 100)
        return list(seen)

    assert run_virtual(main) == []
    assert seen == ["was cancelled", "child cleared up"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_life_dies_at_the_step_asked_for(number: int) -> None:
    """The n-th callback of a life is its last but for n-1 before it."""
    done: list[int] = []

    async def work() -> None:
        for step in range(1, 6):
            done.append(step)
            await asyncio.get_running_loop().create_task(_nothing())

    async def main(loop: VirtualLoop) -> list[int]:
        point = CrashPoint(party="x", kind=PointKind.STEP, number=2 * number + 1)
        life = SimulatedProcess("x", on_death=lambda: life.end(), crash_at=point)
        life.start(work(), "work")
        await VirtualClock(loop).sleep_until(WORLD_BEGIN + 1)
        return list(done)

    lived = run_virtual(main)
    assert 1 <= len(lived) <= number + 1
    assert len(lived) < 5


async def _nothing() -> None:
    """Takes a turn."""


def test_a_paused_life_loses_nothing_but_time() -> None:
    """What was due during a pause happens after it, in its order: as SIGSTOP, or a closed lid."""

    async def main(loop: VirtualLoop) -> list[float]:
        clock = VirtualClock(loop)
        life = SimulatedProcess("laptop", on_death=lambda: None)
        seen: list[float] = []

        async def tick() -> None:
            for _ in range(4):
                await clock.sleep_until(clock.now_precise() + 10)
                seen.append(round(loop.time()))

        life.start(tick(), "tick")
        await clock.sleep_until(WORLD_BEGIN + 15)
        life.pause()
        await clock.sleep_until(WORLD_BEGIN + 55)
        life.go_on()
        await clock.sleep_until(WORLD_BEGIN + 100)
        return seen

    assert run_virtual(main) == [10, 55, 65, 75]


def test_threads_do_not_exist() -> None:
    """What would run in a thread runs at once, in no time, in the caller's order."""

    async def main(loop: VirtualLoop) -> tuple[int, float]:
        total = await asyncio.to_thread(sum, [1, 2, 3])
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)
        return total, loop.time()

    assert run_virtual(main) == (6, 0.0)

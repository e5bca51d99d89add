"""What resource managers promise of nodes that tasks share: on the simulated machine, which divides
them exactly, and on those that cannot and say so.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.resource_managers.base import EndReason, TaskEventKind
from tests.support.resource_manager_worlds import HostWorld, Listener, SimulatedWorld, World

EXACT_S = 1e-6
LONG_S = 600.0


@pytest.fixture(params=["host", "simulated"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Each world in turn, with an open manager."""
    made: World = HostWorld(tmp_path) if request.param == "host" else SimulatedWorld()
    await made.manager.recover()
    yield made
    await made.close()


@pytest.fixture
async def sharing() -> AsyncIterator[SimulatedWorld]:
    """A machine that divides exactly."""
    made = SimulatedWorld()
    await made.manager.recover()
    yield made
    await made.close()


def shared(world: World, job_id: str, *shares: float, **fields: Any) -> Any:
    """An order for a task that shares nodes ``n-0``, ``n-1`` and so on."""
    names = tuple(f"n-{number}" for number in range(len(shares)))
    return replace(world.order(job_id, **fields), node_names=names, shares=shares)


async def ends(listener: Listener, *job_ids: str) -> dict[str, float]:
    """When each of these was over."""
    events = await listener.until_over(*job_ids)
    return {each.job_id: each.at for each in events if each.kind.is_final}


async def test_whoever_cannot_divide_says_so(world: World) -> None:
    """And launches no task that would get less, or more, than its share."""
    if world.manager.can_share:
        await world.manager.set_shares({"never": (0.5,)})
        assert await world.manager.processor_time(["never"]) == {}
        return
    with pytest.raises(InputError, match="cannot divide"):
        await world.manager.set_shares({})
    with pytest.raises(InputError, match="cannot divide"):
        await world.manager.processor_time([])
    with pytest.raises(InputError, match="cannot divide"):
        await world.manager.launch(shared(world, "j1", 0.5))


async def test_a_task_with_half_a_node_takes_twice_as_long(sharing: SimulatedWorld) -> None:
    """Its run is processor time."""
    begun = sharing.clock.now_precise()
    await sharing.manager.launch(shared(sharing, "j1", 0.5, run_s=10.0))
    await sharing.manager.launch(shared(sharing, "j2", 0.25, run_s=10.0))
    over = await ends(Listener(sharing), "j1", "j2")
    assert over["j1"] == pytest.approx(begun + 20.0, abs=EXACT_S)
    assert over["j2"] == pytest.approx(begun + 40.0, abs=EXACT_S)


async def test_shares_change_while_a_task_runs(sharing: SimulatedWorld) -> None:
    """What it has had stays; what is left goes on at the new share, also from nothing."""
    clock, manager = sharing._clock, sharing.manager
    begun = clock.now_precise()
    await manager.launch(shared(sharing, "j1", 0.5, run_s=10.0))
    listener = Listener(sharing)
    await listener.next()
    clock.advance(8.0)
    await manager.set_shares({"j1": (0.0,)})
    clock.advance(100.0)
    assert (await manager.processor_time(["j1"]))["j1"] == pytest.approx((4.0,), abs=EXACT_S)
    await manager.set_shares({"j1": (1.0,)})
    over = await ends(listener, "j1")
    assert over["j1"] == pytest.approx(begun + 114.0, abs=EXACT_S)
    assert (await manager.processor_time(["j1"]))["j1"] == pytest.approx((10.0,), abs=EXACT_S)


async def test_parts_on_several_nodes_end_independently(sharing: SimulatedWorld) -> None:
    """Each end is told, and the task is over with the last."""
    begun = sharing.clock.now_precise()
    await sharing.manager.launch(shared(sharing, "j1", 1.0, 0.5, run_s=10.0))
    started, part, ended = await Listener(sharing).until_over("j1")
    assert started.kind is TaskEventKind.STARTED
    assert (part.kind, part.node_name) == (TaskEventKind.NODE_ENDED, "n-0")
    assert part.at == pytest.approx(begun + 10.0, abs=EXACT_S)
    assert ended.at == pytest.approx(begun + 20.0, abs=EXACT_S)
    assert await sharing.manager.processor_time(["j1"]) == {"j1": pytest.approx((10.0, 10.0))}


async def test_the_end_of_its_time_is_kept(sharing: SimulatedWorld) -> None:
    """A deadline ends a task whatever it still lacks, and one that needs all its time makes it."""
    now = int(sharing.clock.now_precise())
    late = replace(shared(sharing, "late", 0.1, run_s=10.0), end=now + 50)
    full = replace(shared(sharing, "full", 0.2, run_s=10.0), end=now + 50)
    await sharing.manager.launch(late)
    await sharing.manager.launch(full)
    events = await Listener(sharing).until_over("late", "full")
    reasons = {each.job_id: each.reason for each in events if each.kind.is_final}
    assert reasons == {"late": EndReason.LIMIT, "full": EndReason.EXITED}


async def test_a_new_daemon_finds_what_was_had(sharing: SimulatedWorld) -> None:
    """The machine goes on without it, at the shares it was told last."""
    await sharing.manager.launch(shared(sharing, "j1", 0.5, run_s=LONG_S))
    await Listener(sharing).next()
    sharing._clock.advance(30.0)
    await sharing.reopen()
    await sharing.manager.recover()
    assert (await sharing.manager.processor_time(["j1"]))["j1"] == pytest.approx((15.0,))


async def test_a_new_daemon_hears_which_parts_are_over(sharing: SimulatedWorld) -> None:
    """It would give them a share again, and the others less than they were promised."""
    await sharing.manager.launch(shared(sharing, "j1", 1.0, 0.1, run_s=10.0))
    listener = Listener(sharing)
    await listener.next()
    await listener.next()
    await sharing.reopen()
    started, part = await sharing.manager.recover()
    assert started.kind is TaskEventKind.STARTED
    assert (part.kind, part.node_name) == (TaskEventKind.NODE_ENDED, "n-0")
    assert part.at == pytest.approx(sharing.clock.now_precise())


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan, math.inf])
async def test_absurd_shares_are_refused(sharing: SimulatedWorld, share: float) -> None:
    """With the order and later, and nothing is launched or changed."""
    with pytest.raises(InputError, match="no shares"):
        shared(sharing, "j1", share)
    await sharing.manager.launch(shared(sharing, "j2", 0.5, run_s=10.0))
    await Listener(sharing).next()
    for wrong in ((share,), (), (0.5, 0.5)):
        with pytest.raises(InputError, match="no shares"):
            await sharing.manager.set_shares({"j2": wrong})
    begun = sharing.clock.now_precise()
    assert (await ends(Listener(sharing), "j2"))["j2"] == pytest.approx(begun + 20.0)

"""Real daemons on loopback: a manager over two agents, a manager over that one and a third agent,
and a user who books through them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationState,
)
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from tests.support.builders import a_request
from tests.support.grid_world import until
from tests.support.gur_runner import PATIENCE_S
from tests.support.manager_daemons import (
    AGENTS,
    CLOCK,
    GURD,
    HOUR_S,
    Tree,
    tree_of_daemons,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """The five daemons, for all tests of this module."""
    with tree_of_daemons(tmp_path_factory.mktemp("tree")) as world:
        yield world


async def _asking_until_known(connection: GrpcSite, reservation_id: str) -> Reservation | Decline:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await connection.calendar.commit(reservation_id)
            except UnavailableError:
                await asyncio.sleep(0.2)


async def test_booked_through_the_top_and_kept_at_the_sites(tree: Tree) -> None:
    """Ten nodes are more than any site has: the top holds and commits at a manager and an agent,
    and the sites' own journals say so, on behalf of the user and of nobody else.
    """
    start = CLOCK.now() + HOUR_S
    wish = a_request("deep-1", nodes=10, duration_s=600, start=start)
    async with tree.as_ada("top") as top:
        (offered,) = await top.calendar.inquire([wish])
        assert isinstance(offered, Availability)
        assert offered.offers[0].nodes == 10
        description = await top.calendar.describe()
        assert description.is_manager
        assert set(description.children) == {"north", "north/alpha", "north/beta", "gamma"}
        hold = await top.calendar.reserve(wish, ttl_s=30)
        assert isinstance(hold, Reservation)
        group = await top.calendar.commit(hold.reservation_id)
        assert isinstance(group, Reservation)
        assert group.state is ReservationState.COMMITTED
        assert {part.site: part.nodes for part in group.parts} == AGENTS
        for part in group.parts:
            assert tree.states(part.site)[part.reservation_id] is ReservationEvent.COMMIT
            assert part.endpoint == f"127.0.0.1:{tree.ports[part.site]}"
            async with tree.as_ada(part.site) as site:
                mine = await site.site.reservations(everybody=False)
                assert part.reservation_id in [each.reservation_id for each in mine]
        (refused,) = await top.calendar.inquire(
            [a_request("deep-2", nodes=1, duration_s=600, start=start)]
        )
        assert isinstance(refused, Decline)
        assert (refused.rule, refused.earliest) == (DeclineRule.NO_ROOM, start + 600)
        await top.calendar.release(group.reservation_id)
        for part in group.parts:
            assert tree.states(part.site)[part.reservation_id] is ReservationEvent.RELEASE


async def test_a_manager_killed_in_the_middle_of_a_booking(tree: Tree) -> None:
    """Killed with -9 while its commit cannot land, and started again, the manager still knows what
    it had decided; the user who asks again learns that the group is whole.
    """
    wish = a_request("kill-1", nodes=8, duration_s=600, start=CLOCK.now() + 2 * HOUR_S)
    async with tree.as_ada("north") as north:
        hold = await north.calendar.reserve(wish, ttl_s=60)
        assert isinstance(hold, Reservation)
        os.kill(tree.processes["beta"].pid, signal.SIGSTOP)
        committing = asyncio.create_task(north.calendar.commit(hold.reservation_id))
        alpha = next(part for part in hold.parts if part.site == "alpha")
        await asyncio.to_thread(
            until,
            lambda: tree.states("alpha")[alpha.reservation_id] is not None,
            "a commit",
            pass_s=0.02,
        )
        assert tree.end("north", signal.SIGKILL) == -signal.SIGKILL
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        os.kill(tree.processes["beta"].pid, signal.SIGCONT)
        tree.start("north")
        group = await _asking_until_known(north, hold.reservation_id)
        assert isinstance(group, Reservation), group
        assert group.state is ReservationState.COMMITTED
        for part in group.parts:
            assert tree.states(part.site)[part.reservation_id] is ReservationEvent.COMMIT
        await north.calendar.release(group.reservation_id)


async def test_a_killed_manager_finds_its_way_back_into_the_tree(tree: Tree) -> None:
    """The parent's subscription heals, and the first booking afterwards uses all of the tree."""
    assert tree.end("north", signal.SIGTERM) == 0
    assert not (tree.root / "north" / "state" / "endpoint").exists()
    tree.start("north")
    wish = a_request("heal-1", nodes=10, duration_s=600, start=CLOCK.now() + 3 * HOUR_S)
    async with tree.as_ada("top") as top, asyncio.timeout(PATIENCE_S):
        while True:
            try:
                answer = await top.calendar.reserve(wish, ttl_s=20)
            except GridError:
                answer = None
            if isinstance(answer, Reservation):
                break
            await asyncio.sleep(0.2)
        await top.calendar.release(answer.reservation_id)


def test_a_manager_needs_a_managers_certificate(tree: Tree, tmp_path: Path) -> None:
    """A site's certificate cannot serve as a manager's: one clear line, exit code 2."""
    text = (tree.root / "north" / "config.toml").read_text()
    foreign = f'[manager]\ncredential = "{tree.root}/alpha/credential"'
    config = tmp_path / "config.toml"
    config.write_text(text.replace("[manager]", foreign))
    (tmp_path / "grid-mapfile").write_text("")
    done = subprocess.run(
        [*GURD, "manager", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert "manager.credential: the certificate of /O=grid/OU=sites/CN=alpha is not that" in (
        done.stderr
    )
    assert "gurd ca manager DIR north" in done.stderr

"""``gur`` over real manager daemons, two levels deep: what a region cannot place its parent places,
who lent whom, and a manager that is killed while ``gur`` books through it.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationEvent,
)
from tests.support.builders import a_request
from tests.support.grid_world import until
from tests.support.gur_runner import PATIENCE_S, GurProcess, Said
from tests.support.manager_daemons import AGENTS, CLOCK, Tree, tree_of_daemons
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration

METAJOB = """
name = "{name}"
usage_pattern = "single"
nodes_total = {nodes}
duration = {duration_s}
earliest_start = {start}
latest_end = {until}
[[machines]]
name = "{machine}"
nodes_max = {nodes}
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """Five daemons, for all tests of this module; one site takes whole slots."""
    slots = '[calendar]\nslots = "4 x 60s, * x 600s"\n'
    with tree_of_daemons(tmp_path_factory.mktemp("tree"), {"gamma": slots}) as world:
        yield world


@pytest.fixture(scope="module")
def gur(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GurProcess]:
    """Where commands run."""
    process = GurProcess(tmp_path_factory.mktemp("gur"))
    yield process
    process.end()


def a_trip(folder: Path, name: str, machine: str, nodes: int, ahead_s: int, duration_s: int) -> str:
    """A metajob file for one machine, soon."""
    start = CLOCK.now() + ahead_s
    path = folder / f"{name}.toml"
    text = METAJOB.format(
        name=name,
        nodes=nodes,
        duration_s=duration_s,
        start=start,
        until=start + duration_s + 30,
        machine=machine,
    )
    path.write_text(text)
    return str(path)


def granted(tree: Tree) -> dict[str, list[ReservationEvent | None]]:
    """What last happened to the reservations at each site, by the sites' own journals."""
    return {name: list(tree.states(name).values()) for name in AGENTS}


def test_a_region_goes_up_and_the_balance_of_trade_shows_it(
    tree: Tree, gur: GurProcess, tmp_path: Path
) -> None:
    """Ten nodes asked for at a region of eight: its parent grants them, over the region itself and
    another site. When they were used, the region owes that site what it gave, in the accounts of
    the parent; they sum to zero.
    """
    ahead_s = at_this_speed(20)
    said = tree.gur(gur, "book", a_trip(tmp_path, "wide", "north", 10, ahead_s, 3), "--json")
    assert said.code == 0, said.err
    trip = json.loads(said.out)
    assert trip["state"] == "BOOKED"
    assert [(leg["site"], leg["nodes"]) for leg in trip["legs"]] == [("north", 10)]
    assert {name: last[-1] for name, last in granted(tree).items()} == dict.fromkeys(
        AGENTS, ReservationEvent.COMMIT
    )

    def traded() -> dict[str, dict[str, dict[str, int]]]:
        said = tree.gur(gur, "sites", "--trade", "--json")
        sites = json.loads(said.out)["sites"]
        return {
            each["machine"]: {one["member"]: one for one in each["trade"]}
            for each in sites
            if each.get("trade")
        }

    over = dict.fromkeys(AGENTS, ReservationEvent.COMPLETE)
    until(
        lambda: {name: last[-1] for name, last in granted(tree).items()} == over,
        "the end of the reservation",
        ahead_s + PATIENCE_S,
    )
    until(lambda: "gamma" in traded()["top"], "the account of it", pass_s=1)
    accounts = traded()["top"]
    assert accounts["gamma"]["lent_node_s"] == 2 * 3
    assert accounts["north"]["borrowed_node_s"] == 2 * 3
    assert accounts["north"]["local_node_s"] == 8 * 3
    table = tree.gur(gur, "sites", "--trade")
    assert "+6" in table.out
    assert "-6" in table.out
    for accounts in traded().values():
        balances = [one["lent_node_s"] - one["borrowed_node_s"] for one in accounts.values()]
        assert sum(balances) == 0


async def test_a_site_of_the_tree_takes_whole_slots(tree: Tree) -> None:
    """One of two nodes for a minute takes it for ten, at the site whose configuration says so: who
    wants both is told the end of the slot, also by the managers above, which plan on its shadow.
    """
    edge = (CLOCK.now() // 600 + 6) * 600
    async with tree.as_ada("gamma") as gamma, tree.as_ada("top") as top:
        held = await gamma.calendar.reserve(
            a_request("one", nodes=1, start=edge + 100, duration_s=60), ttl_s=60
        )
        assert isinstance(held, Reservation), held
        assert (held.start, held.end) == (edge + 100, edge + 160)
        await gamma.calendar.commit(held.reservation_id)
        both = a_request("both", nodes=2, start=edge + 300, duration_s=60)
        (refused,) = await gamma.calendar.inquire([both])
        assert isinstance(refused, Decline)
        assert refused.earliest == edge + 600
        everything = a_request("everything", nodes=10, start=edge + 300, duration_s=60)
        (refused,) = await top.calendar.inquire([everything])
        assert isinstance(refused, Decline)
        assert (refused.rule, refused.earliest) == (DeclineRule.NO_ROOM, edge + 600)
        await gamma.calendar.release(held.reservation_id)


def test_a_manager_is_killed_while_gur_books_through_the_top(
    tree: Tree, gur: GurProcess, tmp_path: Path
) -> None:
    """The top dies with -9 when the first site has its hold, and starts again: the trip is booked
    at all sites or at none, and gur says which.
    """
    before = {name: len(tree.states(name)) for name in AGENTS}
    said: list[Said] = []
    path = a_trip(tmp_path, "deep", "top", 10, 600, 60)
    booking = threading.Thread(
        target=lambda: said.append(tree.gur(gur, "book", path, "--json")), daemon=True
    )
    booking.start()
    until(lambda: len(tree.states("alpha")) > before["alpha"], "a hold", pass_s=0.02)
    assert tree.end("top", signal.SIGKILL) == -signal.SIGKILL
    tree.start("top")
    booking.join(PATIENCE_S)
    assert said, "gur ends"
    tree.gur(gur, "resume")

    def settled() -> bool:
        ends = {
            each
            for name in AGENTS
            for each in list(tree.states(name).values())[before[name] :]
            if each not in (ReservationEvent.RELEASE, ReservationEvent.EXPIRE)
        }
        return ends <= {ReservationEvent.COMMIT}

    until(settled, "every hold of the booking to be decided")
    firm = {
        name: list(tree.states(name).values())[before[name] :].count(ReservationEvent.COMMIT)
        for name in AGENTS
    }
    assert set(firm.values()) in ({0}, {1}), firm
    history = tree.gur(gur, "history", "--json")
    states = {each["name"]: each["state"] for each in json.loads(history.out)["trips"]}
    assert (states["deep"] == "BOOKED") == (firm["alpha"] == 1), (states, said[0])

"""The network of simulated worlds: what a caller sees when messages and parties are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import Decline, Reservation
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import DeadlineError, GridError, UnavailableError
from gridtravel.gridcore.trips.itineraries import Itinerary
from gridtravel.simulator.grid.simulated_site import SimulatedSite, SitePlan
from gridtravel.simulator.grid.world_frame import Startable
from gridtravel.simulator.kernel.chance import Chance
from gridtravel.simulator.kernel.event_log import EventLog
from gridtravel.simulator.kernel.network import Network, NetworkConditions
from gridtravel.simulator.kernel.network_wire import SimulatedConnection
from gridtravel.simulator.kernel.processes import CrashPoint, SimulatedProcess
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN, VirtualClock
from gridtravel.simulator.kernel.virtual_loop import VirtualLoop, run_virtual
from tests.support.builders import a_request
from tests.support.cards import CARDS

ADA = Caller(subject="/CN=ada", login="ada", accounts=("physics",))


@dataclass
class Scene:
    """A site, a caller, and the wire between them (``simulator.grid.world_frame.WorldFrame``)."""

    loop: VirtualLoop
    conditions: NetworkConditions = field(default_factory=NetworkConditions)

    def __post_init__(self) -> None:
        self.chance = Chance(7)
        self.event_log = EventLog(self.loop)
        self.cards = CARDS
        self.network = Network(self.loop, self.chance, self.event_log, self.conditions)
        self.site = SimulatedSite(SitePlan(name="lab"), self)
        self.other = SimulatedSite(SitePlan(name="west", skew_s=5.0), self)
        self.clock = VirtualClock(self.loop)
        self.caller = SimulatedProcess("ada", on_death=lambda: None)
        for site in (self.site, self.other):
            self.network.join(site)
            site.start()

    def crash_point_of(self, party: str) -> CrashPoint | None:
        """Nobody crashes by plan."""
        return None

    def crash_now(self, party: str) -> None:
        """Never called."""

    def told(self, itinerary: Itinerary) -> None:
        """Nobody travels."""

    def restart_later(self, party: Startable, delay_s: float) -> None:
        """Nobody starts again by itself."""

    @property
    def connection(self) -> SimulatedConnection:
        """Ada's."""
        return SimulatedConnection(self.network, self.caller, self.clock, "lab", ADA)

    async def asks(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Something that ada's process does."""
        return await self.caller.start(work, "work")

    async def reserve(self, request_id: str = "r1") -> Reservation | Decline:
        """A hold in half an hour."""
        request = a_request(request_id, start=WORLD_BEGIN + 1800)
        answer: Reservation | Decline = await self.asks(
            self.connection.calendar.reserve(request, ttl_s=30)
        )
        return answer


def _run(work: Callable[[Scene], Coroutine[Any, Any, Any]], **conditions: float) -> Scene:
    scenes: list[Scene] = []

    async def main(loop: VirtualLoop) -> None:
        scene = Scene(loop, NetworkConditions(**conditions))
        scenes.append(scene)
        await scene.clock.sleep_until(WORLD_BEGIN + 1)
        await work(scene)

    run_virtual(main)
    assert not scenes[0].event_log.violations
    return scenes[0]


def test_a_call_takes_two_messages_and_their_time() -> None:
    """On a good day an answer comes after two latencies, and both messages are counted."""

    async def work(scene: Scene) -> None:
        before = scene.loop.time()
        assert isinstance(await scene.reserve(), Reservation)
        assert 0.02 <= scene.loop.time() - before <= 0.061

    scene = _run(work, latency_least_s=0.01, latency_most_s=0.03)
    assert scene.event_log.messages == {"Reserve": 1, "Reserve answer": 1}


def test_silence_ends_with_the_verbs_deadline() -> None:
    """When a loss is not noticed the caller waits for the verb's own deadline, and then does not
    know.
    """

    async def work(scene: Scene) -> None:
        before = scene.loop.time()
        with pytest.raises(DeadlineError):
            await scene.reserve()
        assert scene.loop.time() - before == pytest.approx(15.0, abs=1e-3)

    _run(work, loss=1.0, notice=0.0)


def test_a_broken_connection_is_tried_again_as_often_as_the_client_does() -> None:
    """A loss that is noticed is a broken connection: three times for a hold, ten times for a
    release, then it is unavailable.
    """

    async def work(scene: Scene) -> None:
        with pytest.raises(UnavailableError):
            await scene.reserve()
        with pytest.raises(UnavailableError):
            await scene.asks(scene.connection.calendar.release("lab.1"))

    scene = _run(work, loss=1.0, notice=1.0)
    assert scene.event_log.messages["Reserve"] == 3
    assert scene.event_log.messages["Release"] >= 9, "a deadline may end the last wait"


def test_a_lost_answer_leaves_the_hold() -> None:
    """The question arrives, the answer does not: the site has promised what nobody was told."""

    async def work(scene: Scene) -> None:
        asking = scene.loop.create_task(_fault_of(scene.reserve()))
        await scene.clock.sleep_until(scene.clock.now_precise() + 0.001)
        scene.network.conditions = NetworkConditions(loss=1.0, notice=0.0)
        assert isinstance(await asking, DeadlineError)
        assert list(scene.site.ledger.promises) == ["lab.1"]

    _run(work, latency_least_s=0.01, latency_most_s=0.03)


def test_a_question_said_twice_is_answered_once() -> None:
    """Doubled messages run the verb twice; request ids make it one hold."""

    async def work(scene: Scene) -> None:
        assert isinstance(await scene.reserve(), Reservation)
        await scene.clock.sleep_until(scene.clock.now_precise() + 5)
        assert list(scene.site.ledger.promises) == ["lab.1"]

    assert _run(work, double=1.0).event_log.faults["doubled message"] == 3


def test_nobody_answers_for_the_dead() -> None:
    """A party that is down refuses connections; one that dies with a call in hand breaks them."""

    async def work(scene: Scene) -> None:
        scene.site.crash()
        assert isinstance(await _fault_of(scene.reserve()), UnavailableError)
        scene.site.start()
        await scene.clock.sleep_until(scene.clock.now_precise() + 1)
        assert isinstance(await scene.reserve("r2"), Reservation)

    _run(work, notice=1.0)


def test_a_partition_stops_both_ways_until_it_is_mended() -> None:
    """Between the two sides nothing passes, within a side everything does."""

    async def work(scene: Scene) -> None:
        scene.network.cut("split", frozenset({"lab"}))
        assert isinstance(await _fault_of(scene.reserve()), UnavailableError)
        west = SimulatedConnection(scene.network, scene.caller, scene.clock, "west", ADA)
        assert (await scene.asks(west.calendar.describe())).site == "west"
        scene.network.mend("split")
        assert isinstance(await scene.reserve("r2"), Reservation)

    _run(work, notice=1.0)


def test_sites_call_sites() -> None:
    """A site's agent reaches another by its name, as a site; each sees the other's clock."""

    async def work(scene: Scene) -> None:
        agent = scene.site.agent
        assert agent is not None
        west = agent.parts.connect("west", "west.example.org:7101")
        life = scene.site.life
        assert life is not None
        told = await life.start(west.calendar.describe(), "look")
        assert (told.site, told.login) == ("west", "")
        skew = west.skew_s()
        assert skew is not None
        assert skew.skew_s == pytest.approx(5.0)

    _run(work)


def test_a_subscription_keeps_its_order_and_breaks_as_a_whole() -> None:
    """Messages of one stream never overtake each other; a lost one ends the stream."""

    async def work(scene: Scene) -> None:
        versions: list[int] = []

        async def watch() -> None:
            nonlocal versions
            async for news in scene.connection.calendar.subscribe():
                versions += [news.version.number]

        watching = scene.caller.start(watch(), "watch")
        for number in range(1, 6):
            await scene.reserve(f"r{number}")
            await scene.clock.sleep_until(scene.clock.now_precise() + 1)
        assert versions == sorted(versions)
        assert versions[-1] >= 2
        scene.network.conditions = NetworkConditions(loss=1.0)
        assert isinstance(await _fault_of(asyncio.shield(watching)), UnavailableError)

    _run(work, latency_most_s=0.5)


async def _fault_of(work: Any) -> GridError | None:
    try:
        await work
    except GridError as fault:
        return fault
    return None

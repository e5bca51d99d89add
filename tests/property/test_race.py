"""A race of copies: whatever is lost, whoever dies, exactly one copy runs."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Acceptor
from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    AcceptorState,
    VoteQuestion,
    answer_vote,
)
from gridtravel.gridio.sites.trip_voting import RaceVoting, TripVoting

COPIES = ("one", "two", "three")
ACCEPTORS = tuple(Acceptor(site=name, endpoint=f"{name}:1") for name in ("a", "b", "c"))
ROUNDS_MAX = 200


def race(copy: str, **changes: Any) -> Race:
    """The race as one copy knows it."""
    whole: dict[str, Any] = {
        "trip_id": "trip-1",
        "copy": copy,
        "copies": COPIES,
        "acceptors": ACCEPTORS,
        "ends_at": 100,
    }
    return Race(**(whole | changes))


class Network:
    """Three acceptors that remember, and a way to them that loses and delays by a seed."""

    def __init__(self, seed: int, loss: float) -> None:
        self.chance = random.Random(seed)
        self.loss = loss
        self.memory: dict[tuple[str, str], AcceptorState] = {}
        self.proposers = 0

    async def vote(self, acceptor: str, question: VoteQuestion) -> AcceptorAnswer:
        """One question and its answer, with other people's in between."""
        await self.delay()
        if self.chance.random() < self.loss:
            raise UnavailableError("lost on the way there")
        key = (acceptor, question.instance)
        known = self.memory.get(key) or AcceptorState(instance=question.instance)
        self.memory[key], answer = answer_vote(known, question, acceptor)
        await self.delay()
        if self.chance.random() < self.loss:
            raise UnavailableError("lost on the way back")
        return answer

    async def delay(self, turns_max: int = 6) -> None:
        """Let the others go on."""
        for _ in range(self.chance.randrange(turns_max + 1)):
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time

    def ask(self, question: str) -> TripVoting:
        """A proposer of its own for each question."""
        self.proposers += 1
        ports = {each.site: _Port(self, each.site) for each in ACCEPTORS}
        return TripVoting(question, ports, f"p{self.proposers}")


class _Port:
    def __init__(self, network: Network, acceptor: str) -> None:
        self._network, self._acceptor = network, acceptor

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        return await self._network.vote(self._acceptor, question)


async def insist(network: Network, copy: str) -> bool:
    """Claim until an answer comes, as a site does: with growing pauses, so that nobody outbids
    another for ever.
    """
    voting = RaceVoting(race(copy), network.ask)
    for tried in range(ROUNDS_MAX):
        won = await voting.claim()
        if won is not None:
            return won
        await network.delay(6 * tried)
    raise AssertionError("no majority was ever heard")


@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.2, 0.4]), st.permutations(COPIES))
def test_exactly_one_copy_runs(seed: int, loss: float, order: list[str]) -> None:
    """All copies come to their start at about the same moment, in any order."""
    network = Network(seed, loss)

    async def all_start() -> list[bool]:
        return await asyncio.gather(*(insist(network, copy) for copy in order))

    assert sum(asyncio.run(all_start())) == 1


@given(st.integers(0, 10**9), st.sampled_from(COPIES), st.integers(0, 60))
def test_a_site_that_dies_in_its_claim_lets_no_second_copy_run(
    seed: int, dying: str, turns: int
) -> None:
    """A claim that ends at any moment and is made again after the restart: still one winner."""
    network = Network(seed, 0.1)

    async def story() -> list[bool]:
        task = asyncio.ensure_future(insist(network, dying))
        others = [asyncio.ensure_future(insist(network, c)) for c in COPIES if c != dying]
        for _ in range(turns):
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [await insist(network, dying), *[await each for each in others]]

    assert sum(asyncio.run(story())) == 1


@given(st.integers(0, 10**9), st.integers(0, 60))
def test_a_race_that_is_called_off_runs_nowhere_or_says_where(seed: int, turns: int) -> None:
    """Whoever calls it off learns the one copy that had won before, or that none ever will."""
    network = Network(seed, 0.1)

    async def story() -> tuple[str, list[bool]]:
        claims = [asyncio.ensure_future(insist(network, copy)) for copy in COPIES]
        for _ in range(turns):
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
        winner, voting = None, RaceVoting(race("one"), network.ask)
        while winner is None:
            winner = await voting.call_off()
        return winner, [await each for each in claims]

    winner, won = asyncio.run(story())
    assert won == [copy == winner for copy in COPIES]


@pytest.mark.parametrize(
    "changes",
    [
        {"copies": ("one",)},
        {"copies": ("one", "one")},
        {"copies": ("two", "three")},
        {"acceptors": ()},
    ],
)
def test_what_is_no_race_is_refused(changes: dict[str, Any]) -> None:
    """At least two different copies, this one among them, and somebody to remember."""
    with pytest.raises(InputError):
        race("one", **changes)

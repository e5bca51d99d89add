"""A traveller never uses a ballot twice: one ballot with two values could choose two outcomes."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from gridtravel.gridcore.trips.trip_consensus import (
    TRAVELLERS_FIRST,
    AcceptorAnswer,
    Outcome,
    Phase,
    VoteQuestion,
)
from gridtravel.travel_agent.booking.outcome import OutcomeOpenError
from tests.support.fake_calendar_port import FakeCalendarPort
from tests.support.fault_world import Fault, FaultWorld, Mishap

SITES = ("alpha", "beta", "gamma")
VOTES_MAX = 2000
TURNS_MAX = 5000


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, VoteQuestion]]:
    """Every question that came to an acceptor, with the acceptor's name."""
    found: list[tuple[str, VoteQuestion]] = []
    answer = FakeCalendarPort.vote

    async def vote(port: FakeCalendarPort, question: VoteQuestion) -> AcceptorAnswer:
        found.append((port._site.calendar.site, question))
        return await answer(port, question)

    monkeypatch.setattr(FakeCalendarPort, "vote", vote)
    return found


def answers_are_lost(world: FaultWorld) -> None:
    """The acceptors hear everything, and nobody hears them."""
    world.mishaps = tuple(
        Mishap(site, "vote", nth, Fault.LOST_ANSWER)
        for site in SITES
        for nth in range(1, VOTES_MAX)
    )


def check_ballots(asked: list[tuple[str, VoteQuestion]]) -> None:
    """No acceptor was asked twice to promise one ballot; no ballot ever came with two outcomes."""
    promises = Counter(
        (site, question.instance, question.ballot)
        for site, question in asked
        if question.phase is Phase.PREPARE
    )
    said_first = [
        each for _, each in asked if (each.phase, each.ballot) == (Phase.ACCEPT, TRAVELLERS_FIRST)
    ]
    assert len(said_first) > 2 * len(SITES), "the scene made nobody propose again"
    assert all(each.outcome is Outcome.COMMIT for each in said_first)
    assert [key for key, count in promises.items() if count > 1] == []
    values: dict[object, set[Outcome | None]] = {}
    for _, question in asked:
        if question.phase is Phase.ACCEPT:
            key = (question.instance, question.ballot)
            values.setdefault(key, set()).add(question.outcome)
    assert [key for key, each in values.items() if len(each) > 1] == []


async def test_a_resumed_trip_uses_no_ballot_of_an_earlier_run(
    tmp_path: Path, asked: list[tuple[str, VoteQuestion]]
) -> None:
    """Each run of the laptop, one to commit, one to give up, one to commit again, has ballots of
    its own, though none of them knows which the others used.
    """
    world = FaultWorld(tmp_path, *SITES)
    answers_are_lost(world)
    with pytest.raises(OutcomeOpenError):
        await world.laptop().book(world.metajob())
    (trip,) = world.disks
    with pytest.raises(OutcomeOpenError):
        await world.laptop().resume(trip)
    with pytest.raises(OutcomeOpenError):
        await world.laptop().cancel(trip)
    with pytest.raises(OutcomeOpenError):
        await world.laptop().resume(trip)
    check_ballots(asked)


async def test_giving_up_within_a_run_uses_no_ballot_of_its_proposal(
    tmp_path: Path, asked: list[tuple[str, VoteQuestion]]
) -> None:
    """Ctrl-C while the trip is being decided: the clean-up proposes ABORT, in the same process, and
    not with a ballot that the booking has used for COMMIT.
    """
    world = FaultWorld(tmp_path, *SITES)
    answers_are_lost(world)
    booking = asyncio.ensure_future(world.laptop().book(world.metajob()))
    for _ in range(TURNS_MAX):
        if sum(question.phase is Phase.ACCEPT for _, question in asked) > 3 * len(SITES):
            break
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
    booking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await booking
    wishes = {question.outcome for _, question in asked if question.phase is Phase.ACCEPT}
    assert Outcome.COMMIT in wishes
    check_ballots(asked)

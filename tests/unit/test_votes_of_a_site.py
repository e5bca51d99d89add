"""What a trip's outcome rests on at one of the sites that keep it: rules that a change once broke
without a test noticing, and a disk that fails.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtravel.agents.journal.events import CODEC, JobStarting
from gridtravel.gridcore.booking.reservations import Decline, Reservation, TripLeg, TripRef
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
    chosen,
    value_to_propose,
)
from gridtravel.gridio.journal.contract import JournalFailed, Record
from gridtravel.gridio.journal.memory import WriteStage
from tests.support.cards import an_acceptor
from tests.support.keeper_scenes import some_acceptors
from tests.support.maintenance_world import KENNETH, MaintenanceWorld, a_wish

SITES = ("lab", "b", "c")
START = 5_000
TRIP = TripRef(
    trip_id="trip-1",
    leg="first",
    participants=SITES,
    acceptors=tuple(an_acceptor(name) for name in SITES),
    legs=(
        TripLeg(leg="first", site="lab", start=START),
        TripLeg(leg="next", site="b", start=START),
    ),
    ends_at=START + 60,
)
FIRST = VoteQuestion(instance=TRIP.instance, phase=Phase.ACCEPT, outcome=Outcome.COMMIT)
LEARN = VoteQuestion(instance=TRIP.instance, phase=Phase.LEARN)
GIVE_UP = VoteQuestion(instance=TRIP.instance, phase=Phase.SETTLE, outcome=Outcome.ABORT)
SITE_B = Caller(subject="/O=grid/OU=sites/CN=b", role=Role.SITE, site="b")
DAY_S = 86_400
"""So long a site remembers beyond the end (``tombstone_s``)."""


class FailingDisk:
    """A disk that takes everything until it is broken."""

    is_broken = False
    breaks_when_a_job_starts = False

    def __call__(self, stage: WriteStage, records: Sequence[Record]) -> None:
        """Before and after each write."""
        if self.is_broken and stage is WriteStage.BEFORE:
            raise OSError("broken")
        if self.breaks_when_a_job_starts and stage is WriteStage.AFTER:
            self.is_broken |= any(isinstance(CODEC.decode(each), JobStarting) for each in records)


@pytest.fixture
def disk() -> FailingDisk:
    """Of the site."""
    return FailingDisk()


@pytest.fixture
async def world(tmp_path: Path, disk: FailingDisk) -> AsyncIterator[MaintenanceWorld]:
    """A site that keeps the outcome of a trip of kenneth's beside two others, which answer."""
    others = some_acceptors(SITES)

    def connect(site: str, endpoint: str) -> object:
        return others[site]

    made = MaintenanceWorld(tmp_path, on_write=disk, connect=connect)  # type: ignore[arg-type]
    vars(made)["others"] = others
    await made.start()
    wish = replace(a_wish("leg", 1, START, 60), trip=TRIP)
    held = await made.agent.calendar_port(KENNETH).reserve(wish, ttl_s=60)
    assert isinstance(held, Reservation)
    yield made
    await made.stop()


async def said(world: MaintenanceWorld, question: VoteQuestion, caller: Caller) -> AcceptorAnswer:
    """The site's answer."""
    return await asyncio.wait_for(world.agent.calendar_port(caller).vote(question), 30)


async def test_a_vote_is_on_the_disk_before_it_is_told(
    world: MaintenanceWorld, disk: FailingDisk
) -> None:
    """A vote that the disk does not take is not told to anybody: after a restart the site would not
    know of it, and could vote for the contrary.
    """
    disk.is_broken = True
    with pytest.raises(JournalFailed):
        await said(world, FIRST, KENNETH)
    disk.is_broken = False
    await world.restart()
    assert (await said(world, LEARN, KENNETH)).vote is None
    told = await said(world, FIRST, KENNETH)
    assert told.is_granted
    await world.restart()
    assert (await said(world, LEARN, KENNETH)).vote == told.vote is not None


async def test_a_vote_said_again_waits_for_the_disk_too(
    world: MaintenanceWorld, disk: FailingDisk
) -> None:
    """The first answer was lost, and what it told may not be on the disk yet."""
    disk.is_broken = True
    both = await asyncio.gather(
        said(world, FIRST, KENNETH), said(world, FIRST, KENNETH), return_exceptions=True
    )
    assert [type(each) for each in both] == [JournalFailed, JournalFailed]


async def test_a_copy_that_ends_while_the_disk_is_full_is_told_of(
    world: MaintenanceWorld, disk: FailingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """Seeds 139 and 147: a copy of a race whose window is over is to end, in a task that nobody
    awaits, and the disk does not take it. One line says so, the site ends when it next looks, and
    ends the copy when it is back.
    """
    strays: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: strays.append(context))
    now = world.clock.now()
    world.runs["1.lab"] = 30
    await world.submit(4, 30)
    race = Race(
        trip_id="trip-2",
        copy="lab",
        copies=("lab", "b"),
        acceptors=TRIP.acceptors,
        ends_at=now + 70,
    )
    copy = await world.submit(4, 60, race=race)
    disk.breaks_when_a_job_starts = True
    with pytest.raises(JournalFailed):
        await world.pass_time(40)
    gc.collect()
    assert not strays
    assert [each for each in caplog.messages if copy in each and "cannot write" in each]
    disk.is_broken = disk.breaks_when_a_job_starts = False
    await world.restart()
    assert world.view(copy).state is JobState.CANCELLED


def an_answer(acceptor: str, round: int, outcome: Outcome) -> AcceptorAnswer:
    """An acceptor that accepted this at a ballot of that round."""
    ballot = Ballot(round, "" if round == 0 else "b:start:1")
    vote = Vote(ballot=ballot, outcome=outcome)
    return AcceptorAnswer(acceptor=acceptor, is_granted=True, promised=ballot, vote=vote)


@pytest.mark.parametrize("wish", list(Outcome))
@pytest.mark.parametrize(("older", "newer"), [(0, 1), (1, 2), (9, 10)])
def test_the_value_of_the_highest_ballot_is_carried_on(
    wish: Outcome, older: int, newer: int
) -> None:
    """Of two values the newer one may have been chosen, and the older one not; in whatever order
    the answers come, and whatever the proposer would like.
    """
    for first, second in ((Outcome.COMMIT, Outcome.ABORT), (Outcome.ABORT, Outcome.COMMIT)):
        answers = [an_answer("b", older, first), an_answer("c", newer, second)]
        assert value_to_propose(answers, wish) is second
        assert value_to_propose(answers[::-1], wish) is second


@pytest.mark.parametrize("outcome", list(Outcome))
def test_votes_at_different_ballots_choose_nothing(outcome: Outcome) -> None:
    """Two of three accepted the same value, but not at the same ballot: the third may have accepted
    the contrary at a ballot in between, with one of them.
    """
    apart = [an_answer("lab", 1, outcome), an_answer("b", 2, outcome)]
    assert chosen(apart, SITES) is None
    together = [an_answer("lab", 2, outcome), an_answer("b", 2, outcome)]
    assert chosen(together, SITES) is outcome
    assert chosen(together[:1], SITES) is None


async def test_no_ballot_is_used_again_after_a_restart(world: MaintenanceWorld) -> None:
    """A site that is asked to settle a question again, or starts anew and is asked again, does not
    know which ballots it has used: its proposers have other names. They begin with its own, which
    the others check.
    """
    others = vars(world)["others"]
    for is_restart in (False, True, False, True):
        for each in others.values():
            each.states.clear()
        others["c"].is_dead = True  # so that the round has to be gone through again
        world.agent.trips.registers.states.clear()
        await said(world, GIVE_UP, KENNETH)
        if is_restart:
            await world.restart()
    names = others["b"].proposers
    assert len(names) == len(set(names)) >= 4
    assert all(each.startswith("lab:") for each in names)


async def test_who_asks_to_settle_is_told_whether_it_was(world: MaintenanceWorld) -> None:
    """Granted, with what was settled, when a majority took part; else not, and nothing is known."""
    others = vars(world)["others"]
    for each in others.values():
        each.is_dead = True
    answer = await said(world, GIVE_UP, KENNETH)
    assert (answer.acceptor, answer.is_granted, answer.vote) == ("lab", False, None)
    others["b"].is_dead = False
    answer = await said(world, GIVE_UP, KENNETH)
    assert answer.is_granted
    assert answer.vote is not None
    assert answer.vote.outcome is Outcome.ABORT


async def test_a_vote_is_remembered_until_the_trip_ends_and_a_day_more(
    world: MaintenanceWorld,
) -> None:
    """Whoever asks later than anybody should still hears it; then it is forgotten."""
    await said(world, FIRST, KENNETH)
    await tick_at(world, TRIP.ends_at + DAY_S - 1)
    assert (await said(world, LEARN, KENNETH)).vote is not None
    await tick_at(world, TRIP.ends_at + DAY_S + 60)
    assert world.agent.trips.registers.states == {}


async def test_what_was_said_of_an_unknown_attempt_is_remembered_for_a_day(
    world: MaintenanceWorld,
) -> None:
    """Till then a hold of the attempt is refused: the traveller gives it up long before that."""
    later = replace(TRIP, trip_id="trip-2", ends_at=START + 2 * DAY_S)
    promise = VoteQuestion(
        instance=later.instance, phase=Phase.PREPARE, ballot=Ballot(1, "b:run:1")
    )
    asked_at = world.clock.now()
    await said(world, promise, SITE_B)
    wish = replace(a_wish("later", 1, START + DAY_S, 60), trip=later)
    desk = world.agent.calendar_port(KENNETH)
    await tick_at(world, asked_at + DAY_S)
    assert isinstance(await desk.reserve(wish, ttl_s=60), Decline)
    await tick_at(world, asked_at + DAY_S + 60)
    wish = replace(wish, request_id="later-2")
    assert isinstance(await desk.reserve(wish, ttl_s=60), Reservation)


async def tick_at(world: MaintenanceWorld, when: int) -> None:
    """The site does what is due at that time."""
    async with world.agent.background.open():
        await world.tick(when - world.clock.now())


@pytest.mark.parametrize("phase", [Phase.ACCEPT, Phase.PREPARE, Phase.LEARN, Phase.SETTLE])
@pytest.mark.parametrize(
    "caller",
    [
        Caller(subject="/O=grid/OU=users/CN=eve"),
        Caller(subject="/O=grid/OU=users/CN=kenneth"),
        Caller(subject="/O=grid/OU=users/CN=eve", login="eve", accounts=("eve",)),
        Caller(subject="login:root", login="root", role=Role.ADMIN),
    ],
)
async def test_who_is_nobody_in_a_trip_has_no_voice(
    world: MaintenanceWorld, phase: Phase, caller: Caller
) -> None:
    """Neither somebody whom the site maps to no login, whatever their certificate says, nor another
    user of the site, who may have read the trip's id in ``ps``; and nothing is changed by trying.
    """
    question = VoteQuestion(
        instance=TRIP.instance,
        phase=phase,
        ballot=Ballot(7, "b:x:1") if phase is Phase.PREPARE else Ballot(0),
        outcome=Outcome.COMMIT if phase is Phase.ACCEPT else
        Outcome.ABORT if phase is Phase.SETTLE else None,
    )  # fmt: skip
    with pytest.raises(NotAuthorisedError):
        await said(world, question, caller)
    answer = await said(world, LEARN, KENNETH)
    assert (answer.vote, answer.promised) == (None, Ballot(0))


async def test_several_questions_of_one_attempt_are_answered_at_once(
    world: MaintenanceWorld,
) -> None:
    """Each as if it were asked alone; about another attempt, or a leg that there is not, a site
    says nothing.
    """
    first, second = (TRIP.readiness(each.leg) for each in TRIP.legs)
    ready = VoteQuestion(instance=second, phase=Phase.ACCEPT, outcome=Outcome.COMMIT)
    site = Caller(subject="/O=grid/OU=sites/CN=b", role=Role.SITE, site="b")
    await said(world, ready, site)
    both = replace(LEARN, instance=first, beside=(second, TRIP.cancellation))
    answer = await said(world, both, site)
    assert answer.vote is None
    alone = [await said(world, replace(LEARN, instance=each), site) for each in both.beside]
    assert list(answer.beside) == alone
    assert alone[0].vote is not None
    for strange in ("trip-2/1/ready/next", TRIP.readiness("nowhere"), "nothing"):
        with pytest.raises(InputError):
            await said(world, replace(LEARN, instance=first, beside=(second, strange)), site)


async def test_what_is_told_beside_is_on_the_disk(
    world: MaintenanceWorld, disk: FailingDisk
) -> None:
    """As what is told alone."""
    question = replace(LEARN, instance=TRIP.cancellation, beside=(TRIP.instance,))
    disk.is_broken = True
    both = await asyncio.gather(
        said(world, FIRST, KENNETH), said(world, question, KENNETH), return_exceptions=True
    )
    assert [type(each) for each in both] == [JournalFailed, JournalFailed]

"""Asking the acceptors of a trip: whom, how long they are waited for, and what follows from what
they say.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridcore.trips.trip_consensus import (
    TRAVELLERS_FIRST,
    AcceptorAnswer,
    AcceptorState,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
)
from gridtravel.gridio.sites.trip_voting import (
    OutsidersVoting,
    RaceVoting,
    TravellersVoting,
    TripQuestions,
    TripVoting,
)
from tests.support.keeper_scenes import NAMES, TRIP, FakeAcceptor
from tests.support.virtual_time import run_virtually

QUESTION = "trip-1/1.x"
COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT
MANIFEST = Manifest(contacts=(("sea", "lab:21000"),))
HOURS_S = 3600.0


class Slow(FakeAcceptor):
    """Writes down what it is asked, and takes its time to answer."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked: list[VoteQuestion] = []
        self.takes_s = 0.0
        self.grants_nothing = False
        """As one that has asked the others, and heard no majority."""

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """Answer, after a while."""
        self.asked.append(question)
        if self.takes_s:
            await asyncio.sleep(self.takes_s)  # noqa: TID251 - in virtual time
        if self.grants_nothing and question.phase is Phase.SETTLE:
            state = self.states.get(question.instance) or AcceptorState(instance=question.instance)
            return AcceptorAnswer(
                acceptor=self.name, is_granted=False, promised=state.promised, vote=state.vote
            )
        return await super().vote(question)

    def phases(self) -> list[Phase]:
        """What it was asked."""
        return [each.phase for each in self.asked]


def some_slow() -> dict[str, Slow]:
    """Three, which know each other."""
    made = {name: Slow(name) for name in NAMES}
    for each in made.values():
        each.beside = dict(made)
    return made


def accepted(
    outcome: Outcome, ballot: Ballot = TRAVELLERS_FIRST, manifest: Manifest | None = None
) -> AcceptorState:
    """What an acceptor remembers that has voted."""
    vote = Vote(ballot=ballot, outcome=outcome)
    if manifest is not None:
        vote = replace(vote, manifest=manifest)
    return AcceptorState(instance=QUESTION, promised=ballot, vote=vote)


# -- learning --------------------------------------------------------------------------------------


async def test_what_a_majority_says_is_learned_with_all_that_came_with_it() -> None:
    """One alone proves nothing; and nobody remembers anything for having been asked."""
    acceptors = some_slow()
    questions = TripQuestions(QUESTION, acceptors)
    acceptors["a"].states[QUESTION] = accepted(COMMIT, manifest=MANIFEST)
    assert await questions.learn() is None
    assert questions.manifest == Manifest()
    acceptors["c"].states[QUESTION] = accepted(COMMIT, manifest=MANIFEST)
    assert await questions.learn() is COMMIT
    assert questions.manifest == MANIFEST
    assert QUESTION not in acceptors["b"].states


def test_who_hangs_is_not_waited_for_when_enough_have_answered() -> None:
    """But one that answers at once is heard as well: each that has voted is one more that may die.
    Nothing goes on behind the caller's back.
    """

    async def scene() -> None:
        acceptors = some_slow()
        acceptors["c"].takes_s = HOURS_S
        begun = asyncio.get_running_loop().time()
        traveller = TravellersVoting(QUESTION, acceptors, MANIFEST)
        assert await traveller.propose_first() is COMMIT
        assert await TripQuestions(QUESTION, acceptors).learn() is COMMIT
        assert asyncio.get_running_loop().time() - begun < 1
        assert QUESTION not in acceptors["c"].states
        assert len(asyncio.all_tasks()) == 1
        acceptors["c"].takes_s = 0.1
        assert await traveller.propose_first() is COMMIT
        assert acceptors["c"].states[QUESTION].vote is not None

    run_virtually(scene)


def test_nobody_is_given_up_before_enough_have_answered() -> None:
    """A majority that takes its time, and a third that is dead."""

    async def scene() -> None:
        acceptors = some_slow()
        acceptors["a"].is_dead = True
        for name in ("b", "c"):
            acceptors[name].takes_s = 20
        assert await TravellersVoting(QUESTION, acceptors).propose_first() is COMMIT
        assert await TripQuestions(QUESTION, acceptors).learn() is COMMIT

    run_virtually(scene)


# -- proposing -------------------------------------------------------------------------------------


async def test_the_travellers_proposal_needs_a_majority() -> None:
    """Said again it is the same proposal, with the same contacts; a minority decides nothing."""
    acceptors = some_slow()
    acceptors["a"].is_dead = acceptors["b"].is_dead = True
    traveller = TravellersVoting(QUESTION, acceptors, MANIFEST)
    assert await traveller.propose_first() is None
    assert traveller.manifest == Manifest()
    acceptors["a"].is_dead = False
    assert await traveller.propose_first() is COMMIT
    assert traveller.manifest == MANIFEST
    assert not traveller.is_outbid
    for name in ("a", "c"):
        assert acceptors[name].states[QUESTION] == accepted(COMMIT, manifest=MANIFEST)


async def test_a_traveller_notices_that_it_is_outbid() -> None:
    """By one acceptor of three that has promised somebody else a higher ballot."""
    acceptors = some_slow()
    traveller = TravellersVoting(QUESTION, acceptors)
    acceptors["b"].states[QUESTION] = AcceptorState(
        instance=QUESTION, promised=Ballot(3, "c:run:1")
    )
    assert not traveller.is_outbid
    assert await traveller.propose_first() is COMMIT
    assert traveller.is_outbid


@pytest.mark.parametrize("wish", [COMMIT, ABORT])
async def test_a_proposer_has_its_wish_where_nothing_was_accepted(wish: Outcome) -> None:
    """At a ballot of its own, which a majority has promised it before."""
    acceptors = some_slow()
    assert await TripVoting(QUESTION, acceptors, "a:run:1").settle(wish) is wish
    for each in acceptors.values():
        assert each.phases() == [Phase.PREPARE, Phase.ACCEPT]
        assert {question.ballot for question in each.asked} == {Ballot(1, "a:run:1")}
        assert each.states[QUESTION] == accepted(wish, Ballot(1, "a:run:1"))


async def test_a_proposer_carries_on_what_may_have_been_chosen() -> None:
    """With all that came with it, whatever the proposer would like; above the ballot that it hears
    of, when it is refused one.
    """
    acceptors = some_slow()
    before = Ballot(7, "b:run:4")
    acceptors["b"].states[QUESTION] = accepted(COMMIT, before, MANIFEST)
    acceptors["c"].states[QUESTION] = AcceptorState(instance=QUESTION, promised=before)
    voting = TripVoting(QUESTION, acceptors, "a:run:1")
    assert await voting.settle(ABORT) is None, "one promise is no majority"
    assert await voting.settle(ABORT) is COMMIT
    assert voting.manifest == MANIFEST
    above = accepted(COMMIT, Ballot(8, "a:run:1"), MANIFEST)
    assert [each.states[QUESTION] for each in acceptors.values()] == [above] * 3


async def test_a_promise_that_was_refused_is_not_carried_on() -> None:
    """What an acceptor has accepted above this ballot is for those who were promised theirs."""
    acceptors = some_slow()
    voting = TripVoting(QUESTION, acceptors, "a:run:1")
    acceptors["c"].states[QUESTION] = accepted(COMMIT, Ballot(9, "c:run:1"))
    assert await voting.settle(ABORT) is ABORT, "a and b had promised, and accepted nothing"


async def test_a_proposer_never_uses_a_ballot_twice() -> None:
    """Nor after a round that nobody heard."""
    acceptors = some_slow()
    for each in acceptors.values():
        each.is_dead = True
    voting = TripVoting(QUESTION, acceptors, "a:run:1")
    for _ in range(3):
        assert await voting.settle(ABORT) is None
    ballots = [question.ballot for question in acceptors["a"].asked]
    assert ballots == [Ballot(round, "a:run:1") for round in (1, 2, 3)]


# -- having it settled -----------------------------------------------------------------------------


async def test_another_acceptor_is_asked_to_settle_each_time() -> None:
    """One that is dead, or finds no majority, costs one try."""
    acceptors = some_slow()
    questions = TripQuestions(QUESTION, acceptors)
    acceptors["a"].is_dead = True
    acceptors["b"].grants_nothing = True
    assert await questions.settle(ABORT) is ABORT
    assert [each.phases().count(Phase.SETTLE) for each in acceptors.values()] == [1, 1, 1]
    acceptors["a"].is_dead = False
    assert await questions.settle(ABORT) is ABORT
    assert await questions.settle(ABORT) is ABORT
    assert [each.phases().count(Phase.SETTLE) for each in acceptors.values()] == [2, 2, 2]
    acceptors["c"].grants_nothing = True
    acceptors["a"].is_dead = True
    assert await questions.settle(ABORT) is None
    assert [each.phases().count(Phase.SETTLE) for each in acceptors.values()] == [3, 3, 3]


@pytest.mark.parametrize("wish", [COMMIT, ABORT])
async def test_an_outsider_proposes_only_where_nobody_else_would(wish: Outcome) -> None:
    """Acceptors that know the trip settle it; it proposes to those that have never heard of it."""
    acceptors = some_slow()
    outsider = OutsidersVoting(QUESTION, acceptors, "d:run:1")
    assert await outsider.settle(wish) is wish
    assert not any(each.ballot.proposer == "d:run:1" for each in acceptors["b"].asked)
    strangers = some_slow()
    for each in strangers.values():
        each.grants_nothing = True
    assert await OutsidersVoting(QUESTION, strangers, "d:run:1").settle(wish) is wish
    for each in strangers.values():
        assert each.states[QUESTION] == accepted(wish, Ballot(1, "d:run:1"))


# -- races -----------------------------------------------------------------------------------------

RACE = Race(
    trip_id="race-1",
    copy="two",
    copies=("one", "two", "three"),
    acceptors=TRIP.acceptors,
    ends_at=2000,
)


class RaceScene:
    """A race that one party asks about."""

    def __init__(self, copy: str) -> None:
        self.acceptors = some_slow()
        self.voting = RaceVoting(replace(RACE, copy=copy), self._ask)

    def _ask(self, question: str) -> TripQuestions:
        return TripQuestions(question, self.acceptors)

    async def settled(self, copy: str, outcome: Outcome) -> None:
        """It was settled for one copy."""
        question = RACE.question(copy)
        assert await TripVoting(question, self.acceptors, "z:run:1").settle(outcome) is outcome

    async def known(self, copy: str) -> Outcome | None:
        """What is settled of a copy."""
        return await TripQuestions(RACE.question(copy), self.acceptors).learn()

    def cut_off(self, is_dead: bool = True) -> None:
        """No acceptor is heard."""
        for each in self.acceptors.values():
            each.is_dead = is_dead


async def test_a_copy_runs_when_those_before_it_do_not() -> None:
    """It has that settled, and that it runs itself; those behind it are none of its business."""
    scene = RaceScene("two")
    scene.cut_off()
    assert await scene.voting.claim() is None
    scene.cut_off(False)
    assert await scene.voting.claim() is True
    assert [await scene.known(copy) for copy in RACE.copies] == [ABORT, COMMIT, None]
    scene.cut_off()
    assert await scene.voting.claim() is True, "what was chosen need not be asked again"


@pytest.mark.parametrize(("winner", "loser"), [("one", "two"), ("one", "three"), ("two", "three")])
async def test_a_copy_that_another_was_before_does_not_run(winner: str, loser: str) -> None:
    """Nor does it say anything of itself."""
    scene = RaceScene(loser)
    await scene.settled(winner, COMMIT)
    assert await scene.voting.claim() is False
    assert await scene.known(loser) is None


async def test_a_copy_that_was_called_off_does_not_run() -> None:
    """Somebody behind it, or the user, had it settled so."""
    scene = RaceScene("one")
    await scene.settled("one", ABORT)
    assert await scene.voting.claim() is False


@pytest.mark.parametrize("winner", ["", "one", "three"])
async def test_who_calls_a_race_off_hears_which_copy_runs_nevertheless(winner: str) -> None:
    """The one that had won before; else none ever will. Unheard it is not known."""
    scene = RaceScene("one")
    if winner:
        await scene.settled(winner, COMMIT)
    scene.cut_off()
    assert await scene.voting.call_off() is None
    scene.cut_off(False)
    assert await scene.voting.call_off() == winner
    for copy in RACE.copies:
        assert await scene.known(copy) is (COMMIT if copy == winner else ABORT)

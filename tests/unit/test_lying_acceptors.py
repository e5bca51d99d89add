"""What one acceptor of three may say without being believed."""

from __future__ import annotations

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.trips.trip_consensus import (
    ROUNDS_MAX,
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
)
from gridtravel.gridio.sites.trip_voting import TravellersVoting, TripQuestions, TripVoting
from tests.support.keeper_scenes import FakeAcceptor, some_acceptors

QUESTION = "trip-1/1.x"
COMMIT = VoteQuestion(instance=QUESTION, phase=Phase.ACCEPT, outcome=Outcome.COMMIT)


class Liar(FakeAcceptor):
    """Says to everything that COMMIT was accepted, in whatever name it likes."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(name)
        self.says = says

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """The lie."""
        ballot = max(question.ballot, Ballot(0))
        vote = Vote(ballot=ballot, outcome=Outcome.COMMIT)
        return AcceptorAnswer(acceptor=self.says, is_granted=True, promised=ballot, vote=vote)


class Silent(FakeAcceptor):
    """Cannot be reached."""

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """Nothing."""
        raise UnavailableError(f"{self.name} is dead")


async def test_an_answer_in_anothers_name_is_none() -> None:
    """One that accepted COMMIT and one that is dead, in whose name a third one answers: there is no
    majority, and neither is one when it answers for the one that is heard.
    """
    for name in ("b", "c"):
        honest = some_acceptors()["c"]
        await honest.vote(COMMIT)
        acceptors = {"a": Liar("a", says=name), "b": Silent("b"), "c": honest}
        assert await TripQuestions(QUESTION, acceptors).learn() is None
        assert await TravellersVoting(QUESTION, acceptors).propose_first() is None


async def test_one_acceptors_word_is_never_enough() -> None:
    """It says that it has settled the question, and how; the others know of nothing."""
    honest = some_acceptors()
    acceptors = honest | {"a": Liar("a", says="a")}
    assert await TripQuestions(QUESTION, acceptors).settle(Outcome.COMMIT) is None
    await honest["b"].vote(COMMIT)
    assert await TripQuestions(QUESTION, acceptors).learn() is Outcome.COMMIT, "with one more it is"


class Exhausted(FakeAcceptor):
    """Pretends to have promised the last round there is."""

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """The lie."""
        last = Ballot(ROUNDS_MAX, "anybody:1:1")
        return AcceptorAnswer(acceptor=self.name, is_granted=False, promised=last, vote=None)


async def test_a_question_stays_open_when_the_rounds_are_used_up() -> None:
    """One acceptor says so, and the honest ones go on: they have no answer yet, as if nobody had
    answered. A site whose question ended in a fault never came to the end of its doubt.
    """
    honest = some_acceptors()
    acceptors = honest | {"a": Exhausted("a")}
    voting = TripVoting(QUESTION, acceptors, "b:r1:1")
    assert await voting.learn() is None
    for _ in range(2):
        assert await voting.settle(Outcome.ABORT) is None
    await honest["b"].vote(COMMIT)
    await honest["c"].vote(COMMIT)
    assert await voting.learn() is Outcome.COMMIT

"""What one acceptor of three may say without being believed."""

from __future__ import annotations

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
)
from gridtravel.gridio.sites.trip_voting import TravellersVoting, TripQuestions
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

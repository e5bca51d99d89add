"""The bounds and counts of the consensus on a trip's outcome, each at its edge."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.reservations import ID_LENGTH_MAX
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.trip_consensus import (
    TRAVELLERS_FIRST,
    AcceptorAnswer,
    AcceptorState,
    Ballot,
    Outcome,
    Phase,
    VoteQuestion,
    answer_vote,
    majority,
    next_ballot,
)

LAST_ROUND = 2**31
LONGEST = "x" * (2 * ID_LENGTH_MAX)


@pytest.mark.parametrize(("count", "decide"), [(1, 1), (3, 2), (5, 3)])
def test_more_than_half_decide(count: int, decide: int) -> None:
    """Two majorities always have an acceptor in common."""
    assert majority(tuple("abcde"[:count])) == decide


def promised(*rounds: int) -> list[AcceptorAnswer]:
    """Answers of acceptors that have promised these rounds to somebody."""
    return [
        AcceptorAnswer(acceptor="a", is_granted=False, promised=Ballot(each, "z"), vote=None)
        for each in rounds
    ]


def test_the_next_ballot_is_one_above_everything_heard() -> None:
    """Of the others, and of oneself; however small the proposer's name is."""
    assert next_ballot([], "a", TRAVELLERS_FIRST) == Ballot(1, "a")
    assert next_ballot(promised(3, 7, 5), "a", Ballot(2, "a")) == Ballot(8, "a")
    assert next_ballot(promised(3), "a", Ballot(9, "a")) == Ballot(10, "a")


def a_question(instance: str = "t/1", ballot: Ballot | None = None) -> VoteQuestion:
    """Somebody who asks for a promise."""
    return VoteQuestion(instance=instance, phase=Phase.PREPARE, ballot=ballot or Ballot(1, "a"))


def test_ballots_have_bounds() -> None:
    """The last round and the longest name are ballots; more is none."""
    assert a_question(ballot=Ballot(LAST_ROUND, LONGEST)).ballot.round == LAST_ROUND
    for ballot in (Ballot(LAST_ROUND + 1, "a"), Ballot(1, LONGEST + "x"), Ballot(-1, "a")):
        with pytest.raises(InputError, match="not a ballot"):
            a_question(ballot=ballot)


@pytest.mark.parametrize("instance", ["", "a b", "x" * (ID_LENGTH_MAX + 1)])
def test_attempts_have_names(instance: str) -> None:
    """In a question and in what is remembered."""
    with pytest.raises(InputError):
        a_question(instance=instance)
    with pytest.raises(InputError):
        AcceptorState(instance=instance)


def test_a_new_state_promises_nothing_and_is_forgotten_first() -> None:
    """Nothing but the traveller's first ballot, no vote, and no time until which it is kept. A
    question that only learns is always granted.
    """
    state = AcceptorState(instance="t/1")
    assert (state.promised, state.vote, state.keep_until) == (TRAVELLERS_FIRST, None, 0)
    learn = VoteQuestion(instance="t/1", phase=Phase.LEARN)
    settle = VoteQuestion(instance="t/1", phase=Phase.SETTLE, outcome=Outcome.ABORT)
    for question in (learn, settle):
        kept, answer = answer_vote(state, question, "a")
        assert answer.is_granted
        assert kept is state

"""The outcome of a trip: whatever is lost, doubled or late, at most one outcome is ever chosen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.trip_consensus import (
    TRAVELLERS_FIRST,
    AcceptorAnswer,
    AcceptorState,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
    answer_vote,
    choose_acceptors,
    chosen,
    majority,
    next_ballot,
    value_to_propose,
)

INSTANCE = "trip-1/1"
NEW = AcceptorState(instance=INSTANCE)
ACCEPTORS = ("a", "b", "c")


class Proposer:
    """A traveller or a site in doubt, that sees only the answers it happens to get."""

    def __init__(self, name: str, wish: Outcome) -> None:
        self.name, self.wish = name, wish
        self.ballot = TRAVELLERS_FIRST
        self.promises: dict[str, AcceptorAnswer] = {}
        self.value: Outcome | None = Outcome.COMMIT if name == "traveller" else None

    def outbid(self, heard: list[AcceptorAnswer]) -> None:
        """Begin a new round above everything heard of."""
        self.ballot = next_ballot(heard, self.name, self.ballot)
        self.promises, self.value = {}, None

    def question(self) -> VoteQuestion:
        """What it asks next."""
        if self.value is None:
            return VoteQuestion(instance=INSTANCE, phase=Phase.PREPARE, ballot=self.ballot)
        return VoteQuestion(
            instance=INSTANCE, phase=Phase.ACCEPT, ballot=self.ballot, outcome=self.value
        )

    def hear(self, question: VoteQuestion, answer: AcceptorAnswer) -> None:
        """Take an answer to a question of this round into account."""
        if question.phase is Phase.PREPARE and question.ballot == self.ballot and answer.is_granted:
            self.promises[answer.acceptor] = answer
            if len(self.promises) >= majority(ACCEPTORS) and self.value is None:
                self.value = value_to_propose(list(self.promises.values()), self.wish)


steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "again", "outbid", "lost-answer"]),
        st.integers(0, 2),
        st.integers(0, 2),
        st.integers(0, 40),
    ),
    max_size=120,
)


@given(steps)
def test_at_most_one_outcome_is_ever_chosen(script: list[tuple[str, int, int, int]]) -> None:
    """Three proposers, three acceptors, any order of questions, lost answers, late copies."""
    acceptors: dict[str, AcceptorState | None] = dict.fromkeys(ACCEPTORS)
    proposers = [
        Proposer("traveller", Outcome.COMMIT),
        Proposer("site-a", Outcome.ABORT),
        Proposer("site-b", Outcome.ABORT),
    ]
    for each in proposers[1:]:
        each.outbid([])
    sent: list[tuple[Proposer, VoteQuestion, str]] = []
    accepted: dict[tuple[Ballot, Outcome], set[str]] = {}
    heard: list[AcceptorAnswer] = []
    for action, who, whom, which in script:
        proposer, name = proposers[who], ACCEPTORS[whom]
        if action == "outbid":
            proposer.outbid(heard)
            continue
        question = proposer.question()
        if action == "again" and sent:
            proposer, question, name = sent[which % len(sent)]
        sent.append((proposer, question, name))
        acceptors[name], answer = answer_vote(acceptors[name] or NEW, question, name)
        heard.append(answer)
        if answer.is_granted and question.outcome is not None:
            accepted.setdefault((question.ballot, question.outcome), set()).add(name)
        if action != "lost-answer":
            proposer.hear(question, answer)
    decided = {outcome for (_, outcome), who in accepted.items() if len(who) >= majority(ACCEPTORS)}
    assert len(decided) <= 1
    answers = [
        AcceptorAnswer(acceptor=name, is_granted=True, promised=state.promised, vote=state.vote)
        for name, state in acceptors.items()
        if state is not None
    ]
    proven = chosen(answers, ACCEPTORS)
    assert proven is None or proven in decided


def test_two_values_at_one_ballot_are_never_taken_for_one() -> None:
    """Should a broken proposer use a ballot twice, nobody counts its two values together."""
    ballot = Ballot(1, "broken")
    answers = [
        AcceptorAnswer(
            acceptor=name, is_granted=True, promised=ballot, vote=Vote(ballot=ballot, outcome=value)
        )
        for name, value in (("a", Outcome.ABORT), ("b", Outcome.COMMIT))
    ]
    assert chosen(answers, ACCEPTORS) is None


def test_acceptors_are_an_odd_number_and_one_site_needs_none() -> None:
    """2F+1 acceptors survive F dead ones; a trip to one site is decided by its own book."""
    assert choose_acceptors(("a",)) == ()
    assert choose_acceptors(("a", "b")) == ("a",)
    assert choose_acceptors(("a", "b", "c")) == ("a", "b", "c")
    assert choose_acceptors(("a", "b", "c", "d")) == ("a", "b", "c")
    assert choose_acceptors(tuple("abcdefgh")) == tuple("abcde")


def test_a_promise_refuses_the_travellers_late_first_proposal() -> None:
    """Once a site in doubt was promised its ballot, the traveller's ballot 0 comes too late."""
    doubt = VoteQuestion(instance=INSTANCE, phase=Phase.PREPARE, ballot=Ballot(1, "site-a"))
    state, answer = answer_vote(NEW, doubt, "a")
    assert answer.is_granted
    late = VoteQuestion(instance=INSTANCE, phase=Phase.ACCEPT, outcome=Outcome.COMMIT)
    same, refusal = answer_vote(state, late, "a")
    assert not refusal.is_granted
    assert same == state


def test_learning_changes_nothing() -> None:
    """A mere question leaves no trace, also at an acceptor that never heard of the trip."""
    question = VoteQuestion(instance=INSTANCE, phase=Phase.LEARN)
    state, answer = answer_vote(NEW, question, "a")
    assert state == AcceptorState(instance=INSTANCE)
    assert answer.vote is None


@pytest.mark.parametrize(
    ("phase", "ballot", "outcome"),
    [
        (Phase.PREPARE, TRAVELLERS_FIRST, None),
        (Phase.PREPARE, Ballot(1), None),
        (Phase.ACCEPT, TRAVELLERS_FIRST, Outcome.ABORT),
        (Phase.ACCEPT, Ballot(1, "a"), None),
        (Phase.LEARN, TRAVELLERS_FIRST, Outcome.COMMIT),
        (Phase.PREPARE, Ballot(-1, "a"), None),
    ],
)
def test_questions_that_the_protocol_does_not_know(
    phase: Phase, ballot: Ballot, outcome: Outcome | None
) -> None:
    """Round 0 is the traveller's, for COMMIT alone; an outcome belongs to ACCEPT alone."""
    with pytest.raises(InputError):
        VoteQuestion(instance=INSTANCE, phase=phase, ballot=ballot, outcome=outcome)

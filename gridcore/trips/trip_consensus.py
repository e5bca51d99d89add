"""The outcome of a trip as one fact: Paxos Commit (Gray and Lamport 2006) as HARC used it (MacLaren
2007).

One *instance* is one attempt to make a trip whole: its legs are held, and its outcome is COMMIT or
ABORT, chosen once by a majority of its acceptors, which are sites of the trip. Any participant can
find it out without the laptop.

- Ballot 0 belongs to the traveller alone, who proposes COMMIT with it, once all legs are held, and
  nothing else. That saves the first round of the protocol: nobody can have promised less.
- Above it only acceptors propose: the value accepted at the highest ballot that a majority reports,
  else ABORT. So a COMMIT that may have been chosen is never overruled, and an outcome is reached as
  long as a majority of the acceptors lives. Whoever else is in doubt asks one of them to settle the
  question. Whose word counts is in ``registers``.

Pure: what an acceptor remembers, what it answers, and how a proposer counts. Messages, disks and
clocks are elsewhere. docs/protocol.md is the specification.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from gridtravel.gridcore.booking.reservations import ID_LENGTH_MAX, check_id
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest

ACCEPTORS_MAX: Final = 5
"""Two dead acceptors are survived; more would cost messages and help little."""
ROUNDS_MAX: Final = 2**31
BESIDE_MAX: Final = 256
"""Questions beside one: as many as a trip has legs."""
PROPOSER_LENGTH_MAX: Final = 2 * ID_LENGTH_MAX


class Outcome(enum.StrEnum):
    """What became of an attempt."""

    COMMIT = "COMMIT"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True, order=True)
class Ballot:
    """Orders proposals; two proposers never share one, and no proposer uses one twice."""

    round: int
    proposer: str = ""
    """Names the proposer *and this run of it*: after a restart it does not know which ballots it
    has used, and one ballot with two values would break everything. Empty only in round 0.
    """


TRAVELLERS_FIRST: Final = Ballot(0)
"""The ballot with which the traveller proposes COMMIT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """A value accepted at a ballot."""

    ballot: Ballot
    outcome: Outcome
    manifest: Manifest = NO_CONTACTS
    """With COMMIT, as a part of the value: what the legs are told of each other."""


class Phase(enum.StrEnum):
    """What is asked of an acceptor."""

    PREPARE = "PREPARE"
    """Phase 1: promise to accept nothing below this ballot, and say what was accepted."""
    ACCEPT = "ACCEPT"
    """Phase 2: accept this outcome at this ballot."""
    LEARN = "LEARN"
    """Only say what was accepted; changes nothing."""
    SETTLE = "SETTLE"
    """Have the question settled among the acceptors, in favour of this outcome where none may have
    been chosen; from whoever may not propose.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteQuestion:
    """One message to one acceptor."""

    instance: str
    """The attempt, see ``TripRef.instance``."""
    phase: Phase
    ballot: Ballot = TRAVELLERS_FIRST
    outcome: Outcome | None = None
    """Only with ACCEPT and SETTLE, and always then."""
    manifest: Manifest = NO_CONTACTS
    """Only with ACCEPT of COMMIT."""
    beside: tuple[str, ...] = ()
    """Only with LEARN: more questions of the same attempt, answered in the same message."""

    def __post_init__(self) -> None:
        for each in (self.instance, *self.beside):
            check_id("trip attempt", each)
        if self.beside and (self.phase is not Phase.LEARN or len(self.beside) > BESIDE_MAX):
            raise InputError(f"only LEARN asks several questions, {BESIDE_MAX} and one at most")
        is_ballot = 0 <= self.ballot.round <= ROUNDS_MAX
        if not is_ballot or len(self.ballot.proposer) > PROPOSER_LENGTH_MAX:
            raise InputError("not a ballot of a trip")
        if (self.outcome is not None) != (self.phase in (Phase.ACCEPT, Phase.SETTLE)):
            raise InputError("an outcome belongs to ACCEPT and SETTLE, and to nothing else")
        is_commit = self.phase is Phase.ACCEPT and self.outcome is Outcome.COMMIT
        if self.manifest != NO_CONTACTS and not is_commit:
            raise InputError("a manifest belongs to a COMMIT that is proposed, and to nothing else")
        if self.phase is Phase.PREPARE and (self.ballot.round < 1 or not self.ballot.proposer):
            raise InputError("round 0 belongs to the traveller, who needs no promise")
        is_first = self.phase is Phase.ACCEPT and self.ballot == TRAVELLERS_FIRST
        if is_first and self.outcome is Outcome.ABORT:
            raise InputError("the traveller's first ballot can only propose COMMIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptorState:
    """What one acceptor remembers of one instance; journaled before it is answered."""

    instance: str
    promised: Ballot = TRAVELLERS_FIRST
    """Nothing below this is accepted any more."""
    vote: Vote | None = None
    keep_until: Instant = 0
    """The trip's end, as its register says; the acceptor remembers at least until then."""
    asked_by: str = ""
    """Who asked about an attempt that no hold here had named; empty: one had."""

    def __post_init__(self) -> None:
        check_id("trip attempt", self.instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptorAnswer:
    """What an acceptor says to a proposal or a question."""

    acceptor: str
    is_granted: bool
    """The ballot was not below what was promised; for a mere question always True."""
    promised: Ballot
    vote: Vote | None
    beside: tuple[AcceptorAnswer, ...] = ()
    """To the questions beside, in their order; empty from who does not know of such."""


def answer_vote(
    state: AcceptorState, question: VoteQuestion, acceptor: str
) -> tuple[AcceptorState, AcceptorAnswer]:
    """What an acceptor remembers after a question, and what it answers; ``state``: what it
    remembers of that question, or a new one.

    The same state back means that nothing has to be journaled. A ballot below the promised one is
    refused, and the answer says what was promised.
    """
    new, is_granted = state, True
    if question.phase in (Phase.PREPARE, Phase.ACCEPT):
        is_granted = question.ballot >= state.promised
        if is_granted:
            vote = state.vote
            if question.outcome is not None:
                vote = Vote(
                    ballot=question.ballot, outcome=question.outcome, manifest=question.manifest
                )
            new = replace(state, promised=question.ballot, vote=vote)
    answer = AcceptorAnswer(
        acceptor=acceptor, is_granted=is_granted, promised=new.promised, vote=new.vote
    )
    return new, answer


def majority(acceptors: tuple[str, ...]) -> int:
    """How many acceptors decide."""
    return len(acceptors) // 2 + 1


def choose_acceptors(participants: tuple[str, ...]) -> tuple[str, ...]:
    """The sites that keep an attempt's outcome: an odd number, from the first participant on. One
    participant needs none: its own book is the outcome.
    """
    if len(participants) < 2:
        return ()
    count = min(len(participants), ACCEPTORS_MAX)
    return participants[: count if count % 2 else count - 1]


def value_to_propose(promises: list[AcceptorAnswer], wish: Outcome) -> Outcome:
    """What may be proposed, given promises of a majority: the value of the highest ballot among
    them, since it may have been chosen; ``wish`` where nothing was accepted.

    A site in doubt wishes ABORT. The traveller may wish COMMIT as long as every leg is held: no
    owner lets a hold go before ABORT is chosen.
    """
    vote = carried_on(promises)
    return wish if vote is None else vote.outcome


def carried_on(promises: list[AcceptorAnswer]) -> Vote | None:
    """The vote of the highest ballot among promises of a majority, whose whole value must be
    proposed again; ``None``: nothing was accepted.
    """
    votes = [each.vote for each in promises if each.vote is not None]
    return max(votes, key=lambda vote: vote.ballot, default=None)


def chosen(answers: list[AcceptorAnswer], acceptors: tuple[str, ...]) -> Outcome | None:
    """The outcome, when these answers prove one: a majority accepted at the same ballot."""
    vote = chosen_vote(answers, acceptors)
    return None if vote is None else vote.outcome


def chosen_vote(answers: list[AcceptorAnswer], acceptors: tuple[str, ...]) -> Vote | None:
    """The vote behind the outcome, with its whole value."""
    counts = Counter(each.vote for each in answers if each.vote is not None)
    for vote, count in counts.items():
        if count >= majority(acceptors):
            return vote
    return None


def next_ballot(answers: list[AcceptorAnswer], proposer: str, last: Ballot) -> Ballot:
    """A ballot above everything heard of."""
    highest = max([last, *(each.promised for each in answers)])
    return Ballot(highest.round + 1, proposer)

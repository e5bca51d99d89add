"""Questions to the acceptors of a trip's outcome, and their answers: values and messages."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from gridcore.trip_consensus import (
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
)
from gridio.rpc.codec_checks import build, count, instant, label, refuse
from gridwire.v1 import calendar_pb2 as pb

ROUNDS_MAX: Final = 1_000_000

_PHASES: Final = MappingProxyType(
    {
        Phase.PREPARE: pb.VOTE_PHASE_PREPARE,
        Phase.ACCEPT: pb.VOTE_PHASE_ACCEPT,
        Phase.LEARN: pb.VOTE_PHASE_LEARN,
    }
)
_OUTCOMES: Final = MappingProxyType(
    {Outcome.COMMIT: pb.TRIP_OUTCOME_COMMIT, Outcome.ABORT: pb.TRIP_OUTCOME_ABORT}
)
_PHASE_OF: Final = MappingProxyType({number: phase for phase, number in _PHASES.items()})
_OUTCOME_OF: Final = MappingProxyType({number: outcome for outcome, number in _OUTCOMES.items()})


def encode_vote_question(question: VoteQuestion) -> pb.VoteRequest:
    """One message to one acceptor."""
    outcome = question.outcome
    return build(
        pb.VoteRequest,
        instance=question.instance,
        phase=_PHASES[question.phase],
        ballot=_encode_ballot(question.ballot),
        outcome=pb.TRIP_OUTCOME_UNSPECIFIED if outcome is None else _OUTCOMES[outcome],
        keep_until=question.keep_until,
    )


def decode_vote_question(message: pb.VoteRequest) -> VoteQuestion:
    """The reverse of ``encode_vote_question``; ``VoteQuestion`` checks what belongs together."""
    phase = _PHASE_OF.get(message.phase)
    if phase is None:
        refuse("phase", f"is none that is known here: {message.phase}")
    outcome = None
    if message.outcome != pb.TRIP_OUTCOME_UNSPECIFIED:
        outcome = _decode_outcome("outcome", message.outcome)
    return VoteQuestion(
        instance=message.instance,
        phase=phase,
        ballot=_decode_ballot("ballot", message.ballot),
        outcome=outcome,
        keep_until=instant("keep_until", message.keep_until),
    )


def encode_vote_answer(answer: AcceptorAnswer) -> pb.VoteReply:
    """What an acceptor says."""
    message = build(
        pb.VoteReply,
        acceptor=answer.acceptor,
        is_granted=answer.is_granted,
        promised=_encode_ballot(answer.promised),
    )
    if answer.vote is not None:
        message.accepted_ballot.CopyFrom(_encode_ballot(answer.vote.ballot))
        message.accepted = _OUTCOMES[answer.vote.outcome]
    return message


def decode_vote_answer(message: pb.VoteReply) -> AcceptorAnswer:
    """The reverse of ``encode_vote_answer``."""
    vote = None
    if message.HasField("accepted_ballot"):
        vote = Vote(
            ballot=_decode_ballot("accepted_ballot", message.accepted_ballot),
            outcome=_decode_outcome("accepted", message.accepted),
        )
    return AcceptorAnswer(
        acceptor=label("acceptor", message.acceptor),
        is_granted=message.is_granted,
        promised=_decode_ballot("promised", message.promised),
        vote=vote,
    )


def _encode_ballot(ballot: Ballot) -> pb.Ballot:
    return build(pb.Ballot, round=ballot.round, proposer=ballot.proposer)


def _decode_ballot(field: str, message: pb.Ballot) -> Ballot:
    return Ballot(
        count(f"{field}.round", message.round, 0, ROUNDS_MAX),
        label(f"{field}.proposer", message.proposer),
    )


def _decode_outcome(field: str, number: pb.TripOutcome) -> Outcome:
    outcome = _OUTCOME_OF.get(number)
    if outcome is None:
        refuse(field, f"is none that is known here: {number}")
    return outcome

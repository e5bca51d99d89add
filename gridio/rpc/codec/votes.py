"""Questions to the acceptors of a trip's outcome, and their answers: values and messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gridtravel.gridcore.trips.trip_consensus import (
    BESIDE_MAX,
    ROUNDS_MAX,
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
)
from gridtravel.gridio.rpc.codec.checks import between, items
from gridtravel.gridio.rpc.codec.reservations import MANIFEST
from gridtravel.gridio.rpc.codec.table import AS_IS, Absence, Table, nested, numbered
from gridwire.v1 import calendar_pb2 as pb

_PHASES: Final = numbered({each: pb.VotePhase.Value(f"VOTE_PHASE_{each}") for each in Phase})
_OUTCOMES: Final = {each: pb.TripOutcome.Value(f"TRIP_OUTCOME_{each}") for each in Outcome}


def _ballot(name: str) -> Table[Ballot, pb.Ballot]:
    return Table(Ballot, pb.Ballot, f"{name}.", round=between(0, ROUNDS_MAX))


QUESTION: Final = Table(
    VoteQuestion,
    pb.VoteRequest,
    instance=AS_IS,
    phase=_PHASES,
    ballot=nested(_ballot("ballot"), Absence.DEFAULT),
    outcome=numbered({**_OUTCOMES, None: pb.TRIP_OUTCOME_UNSPECIFIED}),
    manifest=nested(MANIFEST, Absence.DEFAULT),
)
"""What belongs together is checked by the value itself. A ballot that is absent is the first."""

_ANSWER: Final = Table(
    AcceptorAnswer,
    pb.VoteReply,
    apart=["vote", "beside"],
    promised=nested(_ballot("promised"), Absence.DEFAULT),
)

_VOTE: Final = Table(
    Vote,
    pb.VoteReply,
    ballot=replace(nested(_ballot("accepted_ballot")), name="accepted_ballot"),
    outcome=replace(numbered(_OUTCOMES), name="accepted"),
    manifest=replace(nested(MANIFEST, Absence.DEFAULT), name="accepted_manifest"),
)
"""In the same message as the answer; there is none where its ballot is absent."""


def encode_vote_answer(answer: AcceptorAnswer) -> pb.VoteReply:
    """What an acceptor says."""
    vote = {} if answer.vote is None else _VOTE.fields(answer.vote)
    beside = [encode_vote_answer(each) for each in answer.beside]
    return pb.VoteReply(**_ANSWER.fields(answer), **vote, beside=beside)


def decode_vote_answer(message: pb.VoteReply) -> AcceptorAnswer:
    """The reverse of ``encode_vote_answer``."""
    beside = items("beside", message.beside, BESIDE_MAX)
    return _decode_answer(message, beside=tuple(_decode_answer(each) for each in beside))


def _decode_answer(
    message: pb.VoteReply, beside: tuple[AcceptorAnswer, ...] = ()
) -> AcceptorAnswer:
    vote = _VOTE.decode(message) if message.HasField("accepted_ballot") else None
    return _ANSWER.decode(message, vote=vote, beside=beside)

"""What the legs of a trip are told of each other with the commit."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.trips.manifests import MANIFEST_LEGS_MAX, NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    AcceptorState,
    Outcome,
    Phase,
    VoteQuestion,
    answer_vote,
)
from gridtravel.gridio.sites.trip_voting import TravellersVoting, TripQuestions, TripVoting


def test_the_same_contacts_make_the_same_manifest() -> None:
    """It is part of a value that is compared: the order in which holds came does not show."""
    one = Manifest(contacts=(("sea", "lab:21000"), ("air", "[::1]:21001")))
    other = Manifest(contacts=(("air", "[::1]:21001"), ("sea", "lab:21000")))
    assert one == other
    assert hash(one) == hash(other)
    assert one.contact_of("sea") == "lab:21000"


def test_an_empty_manifest_knows_nobody() -> None:
    """Trips without tasks have one too."""
    assert Manifest().contact_of("sea") == ""


@pytest.mark.parametrize(
    "contacts",
    [
        (("sea", "lab"),),
        (("sea", ":1"),),
        (("sea", "lab:0"),),
        (("sea", "lab:65536"),),
        (("sea", "lab:x"),),
        (("sea", "l\x1bab:1"),),
        (("sea", "l" * 300 + ":1"),),
        (("", "lab:1"),),
        (("a leg", "lab:1"),),
        (("sea", "lab:1"), ("sea", "lab:2")),
        tuple((f"leg{n}", "lab:1") for n in range(MANIFEST_LEGS_MAX + 1)),
    ],
)
def test_what_is_no_manifest_is_refused(contacts: tuple[tuple[str, str], ...]) -> None:
    """It comes from strangers: names, addresses and their number have bounds."""
    with pytest.raises(InputError):
        Manifest(contacts=contacts)


@dataclass
class _Acceptor:
    name: str
    is_up: bool = True
    state: AcceptorState = field(default_factory=lambda: AcceptorState(instance="t/1.x"))

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        if not self.is_up:
            raise UnavailableError("it is down")
        self.state, answer = answer_vote(self.state, question, self.name)
        return answer


async def test_whoever_learns_of_a_commit_learns_its_manifest() -> None:
    """It is a part of the value: a site in doubt that has to carry a COMMIT on carries the manifest
    on as well, and what is settled later is the same.
    """
    acceptors = {name: _Acceptor(name) for name in ("a", "b", "c")}
    manifest = Manifest(contacts=(("sea", "lab:21000"),))
    for name in ("b", "c"):
        acceptors[name].is_up = False
    traveller = TravellersVoting("t/1.x", acceptors, manifest)
    assert await traveller.propose_first() is None
    acceptors["b"].is_up = True
    doubting = TripVoting("t/1.x", acceptors, "b:run:1")
    assert await doubting.learn() is None
    assert await doubting.settle(Outcome.ABORT) is Outcome.COMMIT
    assert doubting.manifest == manifest
    acceptors["c"].is_up = True
    other = TripQuestions("t/1.x", acceptors)
    assert await other.learn() is Outcome.COMMIT
    assert other.manifest == manifest


async def test_what_was_not_committed_has_none() -> None:
    """Nobody proposes a manifest with anything else."""
    acceptors = {name: _Acceptor(name) for name in ("a", "b", "c")}
    doubting = TripVoting("t/1.x", acceptors, "b:run:1")
    assert await doubting.settle(Outcome.ABORT) is Outcome.ABORT
    assert doubting.manifest == NO_CONTACTS
    with pytest.raises(InputError):
        VoteQuestion(
            instance="t/1.x",
            phase=Phase.SETTLE,
            outcome=Outcome.COMMIT,
            manifest=Manifest(contacts=(("sea", "lab:1"),)),
        )

"""Whose word counts in a trip, and for how long a site remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Decline,
    DeclineRule,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.trips.registers import (
    CHECK_BEFORE_S,
    CLOCKS_APART_S,
    REGISTERS_MAX,
    STRANGE_VOTES_MAX,
    QuestionKind,
    TripQuestion,
    TripRegisters,
    Voter,
    check_voter,
    register_of,
    register_of_race,
)
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorState,
    Ballot,
    Outcome,
    Phase,
    VoteQuestion,
)

START = 1000
SITES = ("a", "b", "c", "d")
KEEPERS = tuple(Acceptor(site=name, endpoint=f"{name}:1") for name in SITES[:3])
TRIP = TripRef(
    trip_id="trip-1",
    leg="la",
    attempt=2,
    nonce="x7",
    participants=SITES,
    acceptors=KEEPERS,
    legs=tuple(TripLeg(leg=f"l{name}", site=name, start=START) for name in SITES),
    ends_at=2000,
)
RACE = Race(
    trip_id="race-1",
    copy="one",
    copies=("one", "two"),
    sites=("a", "d"),
    acceptors=KEEPERS,
    ends_at=2000,
)
BOOKED = register_of(TRIP, "ada")
RACED = register_of_race(RACE, "ada")

ADA = Voter(name="/O=g/OU=users/CN=ada", owner="ada")
EVE = Voter(name="/O=g/OU=users/CN=eve", owner="eve")
NOBODY = Voter(name="/O=g/OU=users/CN=nobody")
KEEPER = Voter(name="/O=g/OU=sites/CN=b", party="b")
PARTY = Voter(name="/O=g/OU=sites/CN=d", party="d")
STRANGER = Voter(name="/O=g/OU=sites/CN=z", party="z")
ALL = {
    "owner": ADA,
    "other user": EVE,
    "unmapped": NOBODY,
    "keeper": KEEPER,
    "party": PARTY,
    "other site": STRANGER,
}

CANCEL, READY = TRIP.cancellation, TRIP.readiness("ld")
RUNS = RACE.question("two")


def question(
    name: str, phase: Phase, outcome: Outcome | None = None, ballot: Ballot | None = None
) -> VoteQuestion:
    """One message."""
    if phase in (Phase.PREPARE, Phase.ACCEPT) and ballot is None:
        ballot = Ballot(1, "b:run:1") if phase is Phase.PREPARE else Ballot(0)
    return VoteQuestion(instance=name, phase=phase, outcome=outcome, ballot=ballot or Ballot(0))


COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT
HIGHER = Ballot(1, "b:run:1")
EARLY, NEAR = START - 500, START - CHECK_BEFORE_S

COUNTS: list[tuple[str, VoteQuestion, int, set[str]]] = [
    ("commit", question(TRIP.instance, Phase.ACCEPT, COMMIT), EARLY, {"owner"}),
    ("cancel", question(CANCEL, Phase.ACCEPT, COMMIT), EARLY, {"owner"}),
    ("ready", question(READY, Phase.ACCEPT, COMMIT), EARLY, {"party"}),
    ("promise", question(TRIP.instance, Phase.PREPARE), EARLY, {"keeper"}),
    ("abort above", question(TRIP.instance, Phase.ACCEPT, ABORT, HIGHER), EARLY, {"keeper"}),
    ("commit above", question(TRIP.instance, Phase.ACCEPT, COMMIT, HIGHER), EARLY, {"keeper"}),
    (
        "another's ballot",
        question(TRIP.instance, Phase.PREPARE, ballot=Ballot(1, "c:run:1")),
        EARLY,
        set(),
    ),
    (
        "learn",
        question(TRIP.instance, Phase.LEARN),
        EARLY,
        {"owner", "keeper", "party", "other site"},
    ),
    (
        "give up",
        question(TRIP.instance, Phase.SETTLE, ABORT),
        EARLY,
        {"owner", "keeper", "party"},
    ),
    ("wish a commit", question(TRIP.instance, Phase.SETTLE, COMMIT), EARLY, set()),
    (
        "have it cancelled",
        question(CANCEL, Phase.SETTLE, COMMIT),
        EARLY,
        {"owner", "keeper", "party"},
    ),
    ("it runs, too soon", question(CANCEL, Phase.SETTLE, ABORT), EARLY, set()),
    ("it runs", question(CANCEL, Phase.SETTLE, ABORT), NEAR, {"owner", "keeper", "party"}),
    ("not ready, too soon", question(READY, Phase.SETTLE, ABORT), START - 1, set()),
    ("not ready", question(READY, Phase.SETTLE, ABORT), START, {"owner", "keeper", "party"}),
    ("wish it ready", question(READY, Phase.SETTLE, COMMIT), START, set()),
    ("a copy runs, first", question(RUNS, Phase.ACCEPT, COMMIT), EARLY, set()),
    ("a copy runs", question(RUNS, Phase.SETTLE, COMMIT), EARLY, {"party"}),
    ("a copy does not", question(RUNS, Phase.SETTLE, ABORT), EARLY, {"owner", "keeper", "party"}),
]


@pytest.mark.parametrize(("what", "asked", "now", "who"), COUNTS, ids=[each[0] for each in COUNTS])
def test_a_word_counts_from_those_whom_the_register_names(
    what: str, asked: VoteQuestion, now: int, who: set[str]
) -> None:
    """And from nobody else, whatever they know."""
    register = RACED if asked.instance == RUNS else BOOKED
    heard = set()
    for name, voter in ALL.items():
        try:
            check_voter(register, asked, voter, "a", now)
        except NotAuthorisedError:
            continue
        heard.add(name)
    assert heard == who


def test_clocks_a_little_apart_do_not_keep_each_other_waiting() -> None:
    """Who asks two seconds before this acceptor's own time is heard."""
    asked = question(CANCEL, Phase.SETTLE, ABORT)
    check_voter(BOOKED, asked, PARTY, "a", NEAR - CLOCKS_APART_S)
    with pytest.raises(NotAuthorisedError):
        check_voter(BOOKED, asked, PARTY, "a", NEAR - CLOCKS_APART_S - 1)


def test_who_keeps_no_outcome_answers_nothing() -> None:
    """A participant that its trip does not name an acceptor."""
    for asked in (question(TRIP.instance, Phase.LEARN), question(CANCEL, Phase.ACCEPT, COMMIT)):
        with pytest.raises(NotAuthorisedError):
            check_voter(BOOKED, asked, ADA, "d", EARLY)


def test_a_trip_has_no_other_questions() -> None:
    """A leg or copy that is not there; words that are no question at all."""
    with pytest.raises(InputError):
        check_voter(BOOKED, question(f"{TRIP.instance}/ready/x", Phase.LEARN), KEEPER, "a", EARLY)
    for text in ("trip", "trip/1/cancel/again", "/1", "trip/", "trip/1/run", "trip/1/ready/"):
        with pytest.raises(InputError):
            TripQuestion.parse(text)
    assert TripQuestion.parse(READY) == TripQuestion(TRIP.instance, QuestionKind.READINESS, "ld")


STRANGE = {
    "learn": (question("t/1.n", Phase.LEARN), True),
    "promise": (question("t/1.n", Phase.PREPARE, ballot=Ballot(1, "z:r:1")), True),
    "abort": (question("t/1.n", Phase.ACCEPT, ABORT, Ballot(1, "z:r:1")), True),
    "commit": (question("t/1.n", Phase.ACCEPT, COMMIT, Ballot(1, "z:r:1")), False),
    "first commit": (question("t/1.n", Phase.ACCEPT, COMMIT), False),
    "another's ballot": (question("t/1.n", Phase.PREPARE), False),
    "settle": (question("t/1.n", Phase.SETTLE, ABORT), False),
    "cancel": (question("t/1.n/cancel", Phase.ACCEPT, ABORT, Ballot(1, "z:r:1")), False),
    "promise to cancel": (
        question("t/1.n/cancel", Phase.PREPARE, ballot=Ballot(1, "z:r:1")),
        False,
    ),
    "not ready": (question("t/1.n/ready/l", Phase.ACCEPT, ABORT, Ballot(1, "z:r:1")), False),
    "a copy runs": (question("t/runs/c", Phase.ACCEPT, COMMIT, Ballot(1, "z:r:1")), False),
    "no copy runs": (question("t/runs/c", Phase.ACCEPT, ABORT, Ballot(1, "z:r:1")), False),
}


@pytest.mark.parametrize("what", list(STRANGE))
def test_of_an_unknown_attempt_sites_may_say_abort(what: str) -> None:
    """Nothing else, and users nothing at all: its holds may be on their way."""
    asked, may_ask = STRANGE[what]
    for voter, is_heard in ((STRANGER, may_ask), (ADA, False), (NOBODY, False)):
        if is_heard:
            check_voter(None, asked, voter, "a", EARLY)
        else:
            with pytest.raises(NotAuthorisedError):
                check_voter(None, asked, voter, "a", EARLY)


def registers(*trips: TripRef, owner: str = "ada") -> TripRegisters:
    """Of site a, with these trips."""
    found = TripRegisters("a")
    for trip in trips:
        found.open(register_of(trip, owner))
    return found


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another owner of the attempt": ({}, "eve"),
    "another owner of the trip": ({"attempt": 3, "nonce": "y8"}, "eve"),
    "other participants": ({"participants": SITES[:3]}, "ada"),
    "other acceptors": ({"acceptors": KEEPERS[:1]}, "ada"),
    "another end": ({"ends_at": 2001}, "ada"),
    "other legs": ({"legs": TRIP.legs[:2]}, "ada"),
    "beyond the horizon": ({"attempt": 3, "nonce": "y8", "ends_at": 10**9}, "ada"),
    "a slash in its id": ({"trip_id": "trip/1"}, "ada"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_the_first_hold_binds(what: str) -> None:
    """Who says something else of the same trip is refused, and the trip stays as it was."""
    changes, owner = REFUSED[what]
    known = registers(TRIP)
    refusal = known.refuse(register_of(replace(TRIP, **changes), owner), EARLY, 10_000)
    assert isinstance(refusal, Decline)
    assert refusal.rule is DeclineRule.TRIP


def test_the_same_trip_and_its_later_attempts_are_taken() -> None:
    """Two stages at one site; an amended trip; the leg's own name does not matter."""
    known = registers(TRIP)
    for trip in (replace(TRIP, leg="lb"), replace(TRIP, attempt=3, nonce="y8", ends_at=3000)):
        assert known.refuse(register_of(trip, "ada"), EARLY, 10_000) is None


def test_a_hold_is_refused_that_comes_after_a_vote_about_it() -> None:
    """Whoever had this site vote may have lied; the attempt is lost here, the next one is not."""
    known = TripRegisters("a")
    known.change(AcceptorState(instance=TRIP.instance, keep_until=EARLY, asked_by="z"))
    assert known.refuse(register_of(TRIP, "ada"), EARLY, 10_000) is not None
    later = replace(TRIP, attempt=3, nonce="y8")
    assert known.refuse(register_of(later, "ada"), EARLY, 10_000) is None


def test_registers_and_votes_are_forgotten_when_nobody_asks_any_more() -> None:
    """Then the trip's id is free again."""
    known = registers(TRIP)
    known.change(AcceptorState(instance=TRIP.instance, keep_until=TRIP.ends_at))
    known.forget(TRIP.ends_at)
    assert known.states
    assert known.registers
    assert known.is_any_older(TRIP.ends_at + 1)
    known.forget(TRIP.ends_at + 1)
    assert not known.states
    assert not known.registers
    assert known.refuse(register_of(TRIP, "eve"), EARLY, 10_000) is None


def test_an_owner_has_so_many_trips_on_record() -> None:
    """One more is refused; the others of the site have their own count."""
    known = TripRegisters("a")
    for number in range(REGISTERS_MAX):
        known.open(register_of(replace(TRIP, trip_id=f"t{number}"), "ada"))
    assert known.refuse(register_of(TRIP, "ada"), EARLY, 10_000) is not None
    assert known.refuse(register_of(TRIP, "eve"), EARLY, 10_000) is None


def test_each_party_may_ask_about_so_many_unknown_trips() -> None:
    """One that asks about more is told to wait; the others are not, and room comes back."""
    known = TripRegisters("a")
    for number in range(STRANGE_VOTES_MAX):
        state = AcceptorState(instance=f"t{number}/1", keep_until=EARLY, asked_by="z")
        known.change(state)
        known.change(replace(state, promised=Ballot(1, "z:r:1")))
    assert not known.may_ask_more(STRANGER)
    assert known.may_ask_more(PARTY)
    known.forget(EARLY + 1)
    assert known.may_ask_more(STRANGER)

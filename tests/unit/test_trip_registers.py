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
from gridtravel.gridcore.trips import registers as registers_module
from gridtravel.gridcore.trips.registers import (
    QuestionKind,
    TripQuestion,
    TripRegister,
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
    legs=(
        *(TripLeg(leg=f"l{name}", site=name, start=START) for name in SITES),
        TripLeg(leg="later", site="d", start=START + 100, has_agent=False),
    ),
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
LATER_READY = TRIP.readiness("later")
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
EARLY = START - 500
NEAR = START - 10
"""From then on it may be settled that the trip runs (docs/protocol.md, section 3)."""

COUNTS: list[tuple[str, VoteQuestion, int, set[str]]] = [
    ("commit", question(TRIP.instance, Phase.ACCEPT, COMMIT), EARLY, {"owner"}),
    ("cancel", question(CANCEL, Phase.ACCEPT, COMMIT), EARLY, {"owner"}),
    ("ready", question(READY, Phase.ACCEPT, COMMIT), EARLY, {"party"}),
    ("ready without an agent", question(LATER_READY, Phase.ACCEPT, COMMIT), EARLY, {"owner"}),
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
    ("a later leg, too soon", question(LATER_READY, Phase.SETTLE, ABORT), START + 99, set()),
    (
        "a later leg",
        question(LATER_READY, Phase.SETTLE, ABORT),
        START + 100,
        {"owner", "keeper", "party"},
    ),
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
    check_voter(BOOKED, asked, PARTY, "a", NEAR - 2)
    with pytest.raises(NotAuthorisedError):
        check_voter(BOOKED, asked, PARTY, "a", NEAR - 3)


def test_who_keeps_no_outcome_answers_nothing() -> None:
    """A participant that its trip does not name an acceptor."""
    for asked in (question(TRIP.instance, Phase.LEARN), question(CANCEL, Phase.ACCEPT, COMMIT)):
        with pytest.raises(NotAuthorisedError):
            check_voter(BOOKED, asked, ADA, "d", EARLY)


def test_a_trip_has_no_other_questions() -> None:
    """A leg or copy that is not there; words that are no question at all."""
    with pytest.raises(InputError):
        check_voter(BOOKED, question(f"{TRIP.instance}/ready/x", Phase.LEARN), KEEPER, "a", EARLY)
    nonsense = (
        *("trip", "trip/1/cancel/again", "/1", "trip/", "trip/1/run", "trip/1/ready/"),
        *("trip//cancel", "/1/cancel", "trip/runs/", "/runs/one"),
        *("trip/runs", "trip/runs/ready/one"),  # a race asks of each copy whether it runs
    )
    for text in nonsense:
        with pytest.raises(InputError):
            TripQuestion.parse(text)


def test_a_question_says_which_register_it_belongs_to() -> None:
    """Those about an attempt to the attempt's, those about copies to the race's."""
    asked = {
        TRIP.instance: TripQuestion(TRIP.instance, QuestionKind.OUTCOME),
        CANCEL: TripQuestion(TRIP.instance, QuestionKind.CANCELLATION),
        READY: TripQuestion(TRIP.instance, QuestionKind.READINESS, "ld"),
        RUNS: TripQuestion("race-1/runs", QuestionKind.RUN, "two"),
    }
    known = registers(TRIP)
    known.open(RACED)
    for name, expected in asked.items():
        assert TripQuestion.parse(name) == expected
        assert known.register_for(name) == (RACED if name == RUNS else BOOKED)
    assert known.register_for("trip-1/3.y8") is None


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


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "another owner of the attempt": ({}, "eve", "trip-1"),
    "another owner of the trip": ({"attempt": 3, "nonce": "y8"}, "eve", "trip-1"),
    "other participants": ({"participants": SITES[:3]}, "ada", "trip-1/2.x7"),
    "other acceptors": ({"acceptors": KEEPERS[:1]}, "ada", "trip-1/2.x7"),
    "another end": ({"ends_at": 2001}, "ada", "trip-1/2.x7"),
    "other legs": ({"legs": TRIP.legs[:2]}, "ada", "trip-1/2.x7"),
    "beyond the horizon": (
        {"attempt": 3, "nonce": "y8", "ends_at": EARLY + 10_001},
        "ada",
        "10000 s",
    ),
    "a slash in its id": ({"trip_id": "trip/1"}, "ada", "slash"),
    "a slash in its attempt's name": ({"attempt": 3, "nonce": "y8/cancel"}, "ada", "slash"),
    "a slash in a leg's name": (
        {"attempt": 3, "legs": (*TRIP.legs, TripLeg(leg="l/e", site="a", start=START))},
        "ada",
        "slash",
    ),
}


def refused_by_a(known: TripRegisters, wanted: TripRegister, *told: str) -> None:
    """Site a refuses, in its own name, and says what it is about."""
    refusal = known.refuse(wanted, EARLY, 10_000)
    assert isinstance(refusal, Decline)
    assert (refusal.rule, refusal.site) == (DeclineRule.TRIP, "a")
    assert refusal.message.startswith("a: ")
    for each in told:
        assert each in refusal.message


@pytest.mark.parametrize("what", list(REFUSED))
def test_the_first_hold_binds(what: str) -> None:
    """Who says something else of the same trip is refused, and the trip stays as it was."""
    changes, owner, told = REFUSED[what]
    known = registers(TRIP)
    refused_by_a(known, register_of(replace(TRIP, **changes), owner), told)
    assert known.registers == {TRIP.instance: BOOKED}


def test_the_same_trip_and_its_later_attempts_are_taken() -> None:
    """Two stages at one site; an amended trip, up to the last second that is planned; the leg's own
    name does not matter.
    """
    known = registers(TRIP)
    later = replace(TRIP, attempt=3, nonce="y8", ends_at=EARLY + 10_000)
    for trip in (replace(TRIP, leg="lb"), later):
        assert known.refuse(register_of(trip, "ada"), EARLY, 10_000) is None


def test_a_hold_is_refused_that_comes_after_a_vote_about_it() -> None:
    """Whoever had this site vote may have lied; the attempt is lost here, the next one is not."""
    known = TripRegisters("a")
    known.change(AcceptorState(instance=TRIP.instance, keep_until=EARLY, asked_by="z"))
    refused_by_a(known, BOOKED, TRIP.instance)
    later = replace(TRIP, attempt=3, nonce="y8")
    assert known.refuse(register_of(later, "ada"), EARLY, 10_000) is None


def test_registers_and_votes_are_forgotten_when_nobody_asks_any_more() -> None:
    """Then the trip's id is free again, and nothing of it is left in memory."""
    known = registers(TRIP)
    known.change(AcceptorState(instance=TRIP.instance, keep_until=TRIP.ends_at))
    known.change(AcceptorState(instance="t/1", keep_until=TRIP.ends_at, asked_by="z"))
    known.forget(TRIP.ends_at)
    assert len(known.states) == 2
    assert known.registers
    known.forget(TRIP.ends_at + 1)
    assert vars(known) == vars(TripRegisters("a"))
    assert known.refuse(register_of(TRIP, "eve"), EARLY, 10_000) is None


def test_what_is_old_enough_to_be_forgotten_is_found() -> None:
    """A register or a vote, one among younger ones; not in the second in which it ends."""
    end = TRIP.ends_at
    trips, votes, younger = registers(TRIP), TripRegisters("a"), registers(TRIP)
    votes.change(AcceptorState(instance=TRIP.instance, keep_until=end))
    for known in (trips, votes):
        known.open(register_of(replace(TRIP, trip_id="t", ends_at=end + 100), "ada"))
        known.change(AcceptorState(instance="t/2.x7", keep_until=end + 100))
    for known in (trips, votes, younger):
        assert not known.is_any_older(end)
        assert known.is_any_older(end + 1)


def test_a_trip_stays_its_owners_while_an_attempt_of_it_is_kept() -> None:
    """Also when an earlier attempt is forgotten, and of all others nothing is left."""
    known = registers(TRIP, replace(TRIP, attempt=3, nonce="y8", ends_at=3000))
    known.forget(TRIP.ends_at + 1)
    refused_by_a(known, register_of(replace(TRIP, attempt=4, nonce="z9"), "eve"), "trip-1")
    known.forget(3001)
    assert vars(known) == vars(TripRegisters("a"))


@pytest.mark.parametrize("most", [1, 5])
def test_an_owner_has_so_many_trips_on_record(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused; the others of the site have their own count. What is said again is not
    counted again, and what is forgotten makes room.
    """
    monkeypatch.setattr(registers_module, "REGISTERS_MAX", most)
    known = TripRegisters("a")
    for number in range(most):
        assert known.refuse(BOOKED, EARLY, 10_000) is None
        trip = replace(TRIP, trip_id=f"t{number}", ends_at=2000 + number)
        for _ in range(2):
            known.open(register_of(trip, "ada"))
            assert known.refuse(register_of(trip, "ada"), EARLY, 10_000) is None
    refused_by_a(known, BOOKED, "ada", str(most))
    assert known.refuse(register_of(TRIP, "eve"), EARLY, 10_000) is None
    known.forget(2001)
    assert known.refuse(BOOKED, EARLY, 10_000) is None


@pytest.mark.parametrize("most", [1, 5])
def test_each_party_may_ask_about_so_many_unknown_trips(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that asks about more is told to wait; the others are not, and room comes back. To say
    more about one trip is no more.
    """
    monkeypatch.setattr(registers_module, "STRANGE_VOTES_MAX", most)
    known = TripRegisters("a")
    for number in range(most):
        assert known.may_ask_more(STRANGER)
        state = AcceptorState(instance=f"t{number}/1", keep_until=EARLY + number, asked_by="z")
        known.change(state)
        for round in range(number):
            known.change(replace(state, promised=Ballot(round + 1, "z:r:1")))
    assert not known.may_ask_more(STRANGER)
    assert known.may_ask_more(PARTY)
    known.forget(EARLY + 1)
    assert known.may_ask_more(STRANGER)

"""What an acceptor knows of the trips whose outcome it keeps, and whose word counts there.

The first hold of an attempt at a site, or the first copy of a race, opens a *register*: who owns
the trip, who takes part, who keeps the outcome, until when. From then on a vote counts only from
those whom the register names (docs/protocol.md, section 1; docs/decisions/0033). An id is no
secret, so knowing it gives nobody a voice.

Pure: what is asked and answered is in ``trip_consensus``, disks and channels are elsewhere.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Decline,
    DeclineRule,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.trip_consensus import (
    TRAVELLERS_FIRST,
    AcceptorState,
    Outcome,
    Phase,
    VoteQuestion,
)

CHECK_BEFORE_S: Final = 10
"""From so long before a trip's first start on it may be settled that the trip runs: late enough for
any cancellation that matters, early enough to hear from slow acceptors."""
CLOCKS_APART_S: Final = 2
"""Clocks of sites that differ by less do not keep each other waiting."""
REGISTERS_MAX: Final = 10_000
"""Attempts and races of one owner that a site has on record at a time."""
STRANGE_VOTES_MAX: Final = 1000
"""Questions about attempts that no hold here has named, for each party that asks them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripRegister:
    """What the first hold of an attempt, or the first copy of a race, has bound at this site."""

    key: str
    """The attempt's name, or ``<trip>/runs`` for a race."""
    trip_id: str
    owner: str
    """Owner of the hold, as this site maps them."""
    participants: tuple[str, ...]
    acceptors: tuple[Acceptor, ...]
    legs: tuple[TripLeg, ...]
    """Of a race: its copies and their sites."""
    starts_at: Instant
    ends_at: Instant
    """Nobody asks later; the register is kept a while longer."""

    def keeps(self, site: str) -> bool:
        """True when ``site`` is one of its acceptors."""
        return any(each.site == site for each in self.acceptors)

    def has_agent(self, leg: str) -> bool:
        """False for a leg whose site has nobody to speak for it."""
        return all(each.has_agent for each in self.legs if each.leg == leg)

    def start_of(self, leg: str) -> Instant:
        """When a leg starts: until then it may become ready."""
        return next((each.start for each in self.legs if each.leg == leg), 0)

    def holder_of(self, leg: str) -> str:
        """The site of a leg; empty: there is no such leg."""
        return next((each.site for each in self.legs if each.leg == leg), "")


def register_of(trip: TripRef, owner: str) -> TripRegister:
    """What a hold for ``trip`` binds."""
    return TripRegister(
        key=trip.instance,
        trip_id=trip.trip_id,
        owner=owner,
        participants=trip.participants,
        acceptors=trip.acceptors,
        legs=trip.legs,
        starts_at=trip.starts_at,
        ends_at=trip.ends_at,
    )


def register_of_race(race: Race, owner: str) -> TripRegister:
    """What a copy in ``race`` binds."""
    pairs = zip(race.copies, race.sites, strict=True) if race.sites else ()
    return TripRegister(
        key=f"{race.trip_id}/runs",
        trip_id=race.trip_id,
        owner=owner,
        participants=tuple(dict.fromkeys(race.sites)),
        acceptors=race.acceptors,
        legs=tuple(TripLeg(leg=copy, site=site, start=0) for copy, site in pairs),
        starts_at=0,
        ends_at=race.ends_at,
    )


class QuestionKind(enum.StrEnum):
    """What is asked about a trip."""

    OUTCOME = "outcome"
    """Whether an attempt is committed."""
    CANCELLATION = "cancel"
    """Whether it was cancelled as a whole."""
    READINESS = "ready"
    """Whether one of its legs is ready to begin."""
    RUN = "runs"
    """Whether a copy of a race runs."""


@dataclass(frozen=True, slots=True)
class TripQuestion:
    """The name of a question, taken apart."""

    register: str
    kind: QuestionKind
    leg: str = ""
    """Of a readiness, or the copy of a race."""

    @classmethod
    def parse(cls, text: str) -> TripQuestion:
        """The reverse of ``TripRef.instance`` and its like; ``InputError`` for anything else."""
        match text.split("/"):
            case [trip, "runs", copy] if trip and copy:
                return cls(f"{trip}/runs", QuestionKind.RUN, copy)
            case [_, "runs", *_]:
                pass  # a race has no other questions
            case [trip, attempt] if trip and attempt:
                return cls(text, QuestionKind.OUTCOME)
            case [trip, attempt, "cancel"] if trip and attempt:
                return cls(f"{trip}/{attempt}", QuestionKind.CANCELLATION)
            case [trip, attempt, "ready", leg] if trip and attempt and leg:
                return cls(f"{trip}/{attempt}", QuestionKind.READINESS, leg)
        raise InputError(f"not a question about a trip: {text[:60]!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """Who speaks, as the channel proves and this site maps them."""

    name: str
    """For the log."""
    owner: str = ""
    """As holds of theirs are kept here; empty: mapped to nobody."""
    party: str = ""
    """Name of the site or manager that the certificate proves; empty: neither."""


def check_voter(
    register: TripRegister | None, question: VoteQuestion, voter: Voter, site: str, now: Instant
) -> None:
    """Refuse a word that does not count at ``site``: ``NotAuthorisedError``, or ``InputError`` for
    a question that the register's trip does not have. ``register``: of the question's trip,
    ``None``: no hold here has named it.
    """
    asked = TripQuestion.parse(question.instance)
    if register is None:
        _check_stranger(question, voter)
        return
    if not register.keeps(site):
        raise NotAuthorisedError(
            f"{site} does not keep the outcome of {register.key}",
            hint="ask one of the sites that the trip's register names",
        )
    if asked.leg and not register.holder_of(asked.leg):
        raise InputError(f"{register.key} has no leg {asked.leg[:60]!r}")
    is_owner = bool(voter.owner) and voter.owner == register.owner
    is_acceptor = bool(voter.party) and register.keeps(voter.party)
    is_participant = bool(voter.party) and voter.party in register.participants
    match question.phase:
        case Phase.LEARN:
            is_allowed = is_owner or bool(voter.party)
        case Phase.SETTLE:
            is_party = is_owner or is_acceptor or is_participant
            wishes = question.outcome
            is_allowed = is_party and _may_wish(register, asked, wishes, voter, is_owner, now)
        case Phase.ACCEPT if question.ballot == TRAVELLERS_FIRST:
            is_allowed = _may_say_first(register, asked, voter, is_owner)
        case _:
            is_allowed = is_acceptor and question.ballot.proposer.startswith(f"{voter.party}:")
    if not is_allowed:
        raise NotAuthorisedError(
            f"{voter.name} has no such say in {question.instance}",
            hint="its owner and the sites that keep it have",
        )


def check_beside(register: TripRegister | None, question: VoteQuestion, beside: str) -> None:
    """Refuse a question beside another that is not about the same attempt, so that whoever may
    learn of the one may learn of both; or about a leg that it does not have.
    """
    asked = TripQuestion.parse(beside)
    if asked.register != TripQuestion.parse(question.instance).register:
        raise InputError(f"{beside[:60]!r} is not about the attempt of {question.instance[:60]!r}")
    if register is not None and asked.leg and not register.holder_of(asked.leg):
        raise InputError(f"{register.key} has no leg {asked.leg[:60]!r}")


def _may_say_first(
    register: TripRegister, asked: TripQuestion, voter: Voter, is_owner: bool
) -> bool:
    match asked.kind:
        case QuestionKind.OUTCOME | QuestionKind.CANCELLATION:
            return is_owner
        case QuestionKind.READINESS:
            if not register.has_agent(asked.leg):
                return is_owner
            return bool(voter.party) and voter.party == register.holder_of(asked.leg)
        case _:
            return False  # which copy of a race runs is nobody's alone


def _may_wish(
    register: TripRegister,
    asked: TripQuestion,
    wish: Outcome | None,
    voter: Voter,
    is_owner: bool,
    now: Instant,
) -> bool:
    is_time = now >= register.starts_at - CHECK_BEFORE_S - CLOCKS_APART_S
    match asked.kind, wish:
        case QuestionKind.OUTCOME, Outcome.ABORT:
            return True
        case QuestionKind.CANCELLATION, Outcome.COMMIT:
            return is_owner or voter.party in register.participants
        case QuestionKind.CANCELLATION, Outcome.ABORT:
            return is_time
        case QuestionKind.READINESS, Outcome.ABORT:
            return now >= register.start_of(asked.leg)
        case QuestionKind.RUN, Outcome.COMMIT:
            return voter.party == register.holder_of(asked.leg)
        case QuestionKind.RUN, Outcome.ABORT:
            return True
        case _:
            return False


def _check_stranger(question: VoteQuestion, voter: Voter) -> None:
    """Of an attempt that no hold here has named: promises and ABORTs of the attempt itself, from
    sites and managers, so that holds which were sent to some sites only are let go of. A hold that
    comes afterwards is refused (``TripRegisters.refuse``): such a vote need not have been honest.
    """
    is_outcome = TripQuestion.parse(question.instance).kind is QuestionKind.OUTCOME
    is_own_ballot = question.ballot.proposer.startswith(f"{voter.party}:")
    match question.phase:
        case Phase.LEARN:
            is_allowed = True
        case Phase.PREPARE:
            is_allowed = is_outcome and is_own_ballot
        case Phase.ACCEPT:
            is_allowed = is_outcome and is_own_ballot and question.outcome is Outcome.ABORT
        case _:
            is_allowed = False
    if not (is_allowed and voter.party):
        raise NotAuthorisedError(
            f"no hold here has named the trip of {question.instance[:60]}",
            hint="it is asked about where it is held",
        )


class TripRegisters:
    """The registers of one site, and what it has promised and accepted. Mutable, one owner; every
    change is journaled by its owner before it is made.
    """

    def __init__(self, site: str) -> None:
        self.site = site
        self.registers: dict[str, TripRegister] = {}
        """By key."""
        self.states: dict[str, AcceptorState] = {}
        """By question."""
        self._by_trip: dict[str, list[str]] = {}
        """Keys of the registers of a trip."""
        self._owned: dict[str, int] = {}
        """By owner: how many registers there are."""
        self._strange: dict[str, int] = {}
        """By party: open questions about attempts that no hold here has named."""

    def register_for(self, question: str) -> TripRegister | None:
        """The register that a question belongs to; ``InputError`` when it is no question."""
        return self.registers.get(TripQuestion.parse(question).register)

    def may_ask_more(self, voter: Voter) -> bool:
        """False for a party that has asked about too much that nobody here knows."""
        return self._strange.get(voter.party, 0) < STRANGE_VOTES_MAX

    def refuse(self, wanted: TripRegister, now: Instant, horizon_s: int) -> Decline | None:
        """Why a hold or a copy may not speak of that trip here; ``None``: it may."""
        message = ""
        known = self.registers.get(wanted.key)
        others = (self.registers[key] for key in self._by_trip.get(wanted.trip_id, ()))
        if known is None and self._was_voted_on(wanted.key):
            message = f"{self.site}: {wanted.key} was voted on before its hold came"
        elif known is None and self._owned.get(wanted.owner, 0) >= REGISTERS_MAX:
            message = f"{self.site}: {wanted.owner} has {REGISTERS_MAX} trips on record here"
        elif any(each.owner != wanted.owner for each in others):
            message = f"{self.site}: the trip {wanted.trip_id} belongs to somebody else here"
        elif known is not None and known != wanted:
            message = f"{self.site}: {wanted.key} was described differently before"
        elif wanted.ends_at > now + horizon_s:
            message = f"{self.site}: the trip ends beyond the {horizon_s} s that are planned here"
        elif wanted.key.count("/") > 1 or any("/" in each.leg for each in wanted.legs):
            message = f"{self.site}: names of a trip, its attempts and legs have no slash in them"
        if not message:
            return None
        return Decline(rule=DeclineRule.TRIP, message=message, site=self.site)

    def _was_voted_on(self, key: str) -> bool:
        """True when this site promised or accepted something before any hold named the attempt."""
        return key in self.states

    def open(self, register: TripRegister) -> None:
        """Take a register into account; the same again changes nothing."""
        if register.key not in self.registers:
            self.registers[register.key] = register
            self._owned[register.owner] = self._owned.get(register.owner, 0) + 1
            self._by_trip.setdefault(register.trip_id, []).append(register.key)

    def change(self, state: AcceptorState) -> None:
        """Take into account what was promised or accepted."""
        if state.asked_by and state.instance not in self.states:
            self._strange[state.asked_by] = self._strange.get(state.asked_by, 0) + 1
        self.states[state.instance] = state

    def is_any_older(self, before: Instant) -> bool:
        """True when ``forget`` would find something."""
        return any(each.keep_until < before for each in self.states.values()) or any(
            each.ends_at < before for each in self.registers.values()
        )

    def forget(self, before: Instant) -> None:
        """Leave out what nobody asks about after ``before``."""
        for key in [key for key, each in self.registers.items() if each.ends_at < before]:
            gone = self.registers.pop(key)
            self._owned[gone.owner] -= 1
            if not self._owned[gone.owner]:
                del self._owned[gone.owner]
            left = [each for each in self._by_trip[gone.trip_id] if each != key]
            self._by_trip[gone.trip_id] = left
            if not left:
                del self._by_trip[gone.trip_id]
        for question in [key for key, each in self.states.items() if each.keep_until < before]:
            state = self.states.pop(question)
            if state.asked_by:
                self._strange[state.asked_by] -= 1
                if not self._strange[state.asked_by]:
                    del self._strange[state.asked_by]

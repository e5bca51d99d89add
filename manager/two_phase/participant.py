"""A manager's part in the outcome of trips: as an acceptor for others, and as a leg in doubt.

A leg at a manager is held at several children, and each of them learns the trip with its hold: they
find out its outcome by themselves, also when the manager is gone. The manager does the same for its
group, so that all of them come to the same end: a group whose trip has acceptors does not expire
before they have been asked. It commits when the trip was committed, and lets go when it was not or
when its start has come. (docs/protocol.md; ``gridcore.trips.trip_consensus``)
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    ReservationEvent,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    AcceptorState,
    Outcome,
    VoteQuestion,
    answer_vote,
)
from gridtravel.gridio.journal.contract import Ticket
from gridtravel.gridio.sites.trip_voting import TripVoting
from gridtravel.gridio.system.clock import Clock
from gridtravel.manager.book.decisions import CompositeCalendar
from gridtravel.manager.book.events import (
    GroupDecided,
    GroupEnded,
    ManagerEvent,
    TripVoteKept,
    TripVotesForgotten,
)
from gridtravel.manager.book.groups import Group
from gridtravel.manager.two_phase.background import BackgroundTasks

log = logging.getLogger(__name__)

RETRY_MIN_S: Final = 0.5
RETRY_MAX_S: Final = 8.0
"""Pauses between two rounds of a doubt: doubled each time, up to this."""
CHECK_BEFORE_S: Final = 10
"""How long before its start a committed leg asks whether its trip was cancelled meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantParts:
    """What the part works with; the manager chooses."""

    book: CompositeCalendar
    clock: Clock
    background: BackgroundTasks
    record: Callable[[Sequence[ManagerEvent], bool], Ticket]
    calendar_of: Callable[[Acceptor], CalendarPort]
    """The calendar of another acceptor; one to which there is no way is silent."""
    own_port: Callable[[], CalendarPort]
    carry_on: Callable[[], None]
    """Sees to it that whatever was decided or is owed comes to its end."""
    proposer: str
    """Names this manager *and this run of it*: no ballot may be used twice."""


class TripParticipant:
    """One manager's memory of trips' outcomes, and its doubts."""

    def __init__(self, parts: ParticipantParts) -> None:
        self._parts = parts
        self._book = parts.book
        self._clock = parts.clock
        self.states: dict[str, AcceptorState] = {}
        """By attempt: what this manager promised and accepted as an acceptor."""
        self._proposers = itertools.count(1)
        self._checked: dict[str, None] = {}
        """Committed groups that were asked about, as far as they are still in the book."""

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """Answer one question; whatever the answer rests on is on the disk before it leaves."""
        old = self.states.get(question.instance)
        new, answer = answer_vote(old, question, self._book.site)
        is_changed = new != (old or AcceptorState(instance=question.instance))
        events = [TripVoteKept(state=new)] if is_changed else []
        await self._parts.record(events, True).durable()
        return answer

    def apply(self, event: TripVoteKept | TripVotesForgotten) -> None:
        """Take a journaled fact into account."""
        match event:
            case TripVoteKept(state=state):
                self.states[state.instance] = state
            case TripVotesForgotten(before=before):
                kept = {key: each for key, each in self.states.items() if each.keep_until >= before}
                self.states = kept

    def sweep(self) -> None:
        """Forget old outcomes, ask about holds whose lifetime is over, and about legs that are
        about to start.
        """
        now = self._clock.now()
        before = now - self._book.rules.calendar.tombstone_s
        if any(each.keep_until < before for each in self.states.values()):
            self._parts.record([TripVotesForgotten(before=before)], False)
        for group in self._book.in_doubt(now):
            self._parts.background.start(
                f"doubt {group.group_id}", partial(self._settle, group.group_id)
            )
        self._checked = {key: None for key in self._checked if key in self._book.groups}
        for group in self._book.live():
            is_near = group.reservation.start - CHECK_BEFORE_S <= now < group.reservation.start
            if is_near and self._may_be_cancelled(group):
                self._checked[group.group_id] = None
                self._parts.background.start(
                    f"check {group.group_id}", partial(self._check, group.group_id)
                )

    def next_moment(self, now: Instant) -> Instant | None:
        """When the next committed leg has to be asked about."""
        moments = [
            group.reservation.start - CHECK_BEFORE_S
            for group in self._book.live()
            if self._may_be_cancelled(group)
        ]
        return min((each for each in moments if each > now), default=None)

    def _may_be_cancelled(self, group: Group) -> bool:
        return (
            group.reservation.state is ReservationState.COMMITTED
            and group.asks_first
            and group.group_id not in self._checked
        )

    async def _settle(self, group_id: str) -> None:
        """Find out what became of the trip of a hold whose lifetime is over."""
        group = self._book.groups[group_id]
        start, trip = group.reservation.start, group.reservation.request.trip
        assert trip is not None, "asks_first was true"
        voting = TripVoting(
            trip.instance,
            self._ports(trip),
            self._proposer(),
            keep_until=max(trip.ends_at, group.reservation.end),
        )
        wait_s = RETRY_MIN_S
        while self._is_open(group_id):
            outcome = await voting.learn() or await voting.settle(Outcome.ABORT)
            now = self._clock.now()
            if outcome is None and now >= start:
                log.warning("hold %s ends in doubt: no majority answered", group_id)
                outcome = Outcome.ABORT
            if outcome is not None:
                await self._conclude(group_id, outcome, now)
                return
            wake_at = self._clock.now_precise() + wait_s
            await self._clock.sleep_until(min(wake_at, float(start)))
            wait_s = min(2 * wait_s, RETRY_MAX_S)

    async def _conclude(self, group_id: str, outcome: Outcome, now: Instant) -> None:
        if not self._is_open(group_id):
            return
        log.info("the trip of hold %s was decided: %s", group_id, outcome)
        event: ManagerEvent
        if outcome is Outcome.COMMIT:
            event = GroupDecided(group_id=group_id, at=now)
        else:
            event = GroupEnded(group_id=group_id, event=ReservationEvent.EXPIRE, at=now)
        await self._parts.record([event], True).durable()
        self._parts.carry_on()

    async def _check(self, group_id: str) -> None:
        """Let a committed leg go when its trip was cancelled and nobody could tell; have it settled
        that it was not, so that no other leg hears otherwise.
        """
        reservation = self._book.groups[group_id].reservation
        trip = reservation.request.trip
        if trip is None:
            return
        voting = TripVoting(
            trip.cancellation, self._ports(trip), self._proposer(), keep_until=trip.ends_at
        )
        wait_s = RETRY_MIN_S
        while self._is_committed(group_id) and self._clock.now() < reservation.start:
            outcome = await voting.learn() or await voting.settle(Outcome.ABORT)
            if outcome is Outcome.COMMIT and self._is_committed(group_id):
                log.info("the trip of %s was cancelled", group_id)
                events = self._book.decide_release(group_id, None, self._clock.now())
                await self._parts.record(events, True).durable()
                self._parts.carry_on()
            if outcome is not None:
                return
            wake_at = self._clock.now_precise() + wait_s
            await self._clock.sleep_until(min(wake_at, float(reservation.start)))
            wait_s = min(2 * wait_s, RETRY_MAX_S)

    def _proposer(self) -> str:
        """A name for one question's proposer: no two share a ballot."""
        return f"{self._parts.proposer}:{next(self._proposers)}"

    def _is_committed(self, group_id: str) -> bool:
        group = self._book.groups.get(group_id)
        return group is not None and group.reservation.state is ReservationState.COMMITTED

    def _is_open(self, group_id: str) -> bool:
        group = self._book.groups.get(group_id)
        return (
            group is not None
            and group.reservation.state is ReservationState.HELD
            and not group.is_decided
        )

    def _ports(self, trip: TripRef) -> dict[str, CalendarPort]:
        """The acceptors' calendars; the manager's own without a wire. All of them count for a
        majority, also one to which there is no way.
        """
        return {each.site: self._port(each) for each in trip.acceptors}

    def _port(self, acceptor: Acceptor) -> CalendarPort:
        if acceptor.site == self._book.site:
            return self._parts.own_port()
        return self._parts.calendar_of(acceptor)

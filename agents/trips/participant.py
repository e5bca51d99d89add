"""A site's part in the outcome of trips: as an acceptor for others, and as a participant in doubt.

An acceptor journals what it promised and accepted before it says so. A participant whose hold for a
trip comes to the end of its lifetime asks the acceptors: it commits when the trip was committed,
lets go when it was not, and settles the question when nobody has. It never guesses; if no majority
can be heard until the hold's start, its time is gone and the hold ends with it. A hold that is to
change a leg ends at the leg's old start as well. (docs/protocol.md)
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from gridtravel.agents.journal.events import AcceptorChanged, AcceptorsForgotten, AgentEvent
from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Reservation,
    ReservationEvent,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    AcceptorState,
    Outcome,
    VoteQuestion,
    answer_vote,
)
from gridtravel.gridio.sites.neighbours import Neighbours
from gridtravel.gridio.sites.trip_voting import RaceVoting, TripVoting

if TYPE_CHECKING:
    from gridtravel.gridcore.booking.calendars import Calendar
    from gridtravel.gridcore.jobs.races import Race
    from gridtravel.gridcore.ports import CalendarPort
    from gridtravel.gridio.journal.contract import Ticket
    from gridtravel.gridio.system.clock import Clock

log = logging.getLogger(__name__)

CHECK_BEFORE_S: Final = 10
"""How long before its start a leg is asked about: late enough to see any cancellation that matters,
early enough to hear from slow acceptors."""
CHECK_TURN_S: Final = 1
"""Each participant asks this long after the one before it."""

RACE_RETRY_FIRST_S: Final = 0.2
RACE_RETRY_MAX_S: Final = 5.0
"""Between two questions of a copy in a race, as for a doubt."""
RETRY_FIRST_S: Final = 0.5
RETRY_MAX_S: Final = 8.0
"""Between two rounds of a doubt: doubling from the first to the longest, with a fraction that
depends on the site's name, so that two in doubt do not outbid each other for ever.
"""


class TripParticipant:
    """One site's memory of trips' outcomes, and its doubts."""

    def __init__(
        self,
        calendar: Calendar,
        clock: Clock,
        neighbours: Neighbours,
        own_port: Callable[[], CalendarPort],
        record: Callable[[Sequence[AgentEvent]], Ticket],
    ) -> None:
        self._checks: list[tuple[Instant, str]] = []
        """Heap of (instant, reservation): when to ask whether a committed trip was cancelled."""
        self._left_behind: dict[str, tuple[TripRef, Instant]] = {}
        """By attempt: those that a change has left with legs elsewhere, and until when they can be
        called off.
        """
        self._calendar = calendar
        self._clock = clock
        self._neighbours = neighbours
        self._own_port = own_port
        self._record = record
        self.states: dict[str, AcceptorState] = {}
        """By attempt: what this site promised and accepted as an acceptor."""
        self.in_doubt: set[str] = set()
        """Reservations whose outcome is being asked for."""
        self._proposers = itertools.count(1)
        self._group: asyncio.TaskGroup | None = None

    # -- as an acceptor ----------------------------------------------------------------------------

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """Answer one question; whatever the answer rests on is on the disk before it leaves."""
        old = self.states.get(question.instance)
        new, answer = answer_vote(old, question, self._calendar.site)
        changed = new != (old or AcceptorState(instance=question.instance))
        await self._record([AcceptorChanged(state=new)] if changed else []).durable()
        return answer

    def apply(self, event: AcceptorChanged | AcceptorsForgotten) -> None:
        """Take a journaled fact into account."""
        match event:
            case AcceptorChanged(state=state):
                self.states[state.instance] = state
            case AcceptorsForgotten(before=before):
                over = [key for key, each in self.states.items() if each.keep_until < before]
                for key in over:
                    del self.states[key]

    def decide_sweep(self, now: Instant) -> tuple[AcceptorsForgotten, ...]:
        """Outcomes of trips that ended long ago may be forgotten."""
        before = now - self._calendar.rules.tombstone_s
        if any(each.keep_until < before for each in self.states.values()):
            return (AcceptorsForgotten(before=before),)
        return ()

    # -- as a participant --------------------------------------------------------------------------

    def open(self, group: asyncio.TaskGroup) -> None:
        """Doubts are settled by tasks of ``group`` from now on."""
        self._group = group

    async def close(self) -> None:
        """Nothing is settled from now on, and the connections to other sites end."""
        self._group = None
        await self._neighbours.close()

    def must_ask(self, hold: Reservation) -> bool:
        """True when a hold may not simply expire, because others decide with it."""
        trip = hold.request.trip
        return trip is not None and bool(trip.acceptors)

    def settle_soon(self, hold: Reservation) -> None:
        """Find out what became of the hold's trip, beside everything else."""
        assert self._group is not None, "open() comes first"
        if hold.reservation_id not in self.in_doubt:
            self.in_doubt.add(hold.reservation_id)
            self._group.create_task(self._settle(hold.reservation_id), name="doubt")

    async def _settle(self, reservation_id: str) -> None:
        hold = self._calendar.reservations[reservation_id]
        trip = hold.request.trip
        assert trip is not None, "must_ask was true"
        voting = self._voting(trip, trip.instance)
        try:
            outcome = await self._find_out(voting, hold, lambda: self._is_held(reservation_id))
            if outcome is not None:
                await self._conclude(reservation_id, outcome)
            elif self._is_held(reservation_id):
                log.warning("hold %s ends in doubt: no majority answered", reservation_id)
                await self._let_go(reservation_id, self._clock.now())
        finally:
            self.in_doubt.discard(reservation_id)

    async def _find_out(
        self, voting: TripVoting, leg: Reservation, is_open: Callable[[], bool]
    ) -> Outcome | None:
        """Learn an outcome, or have ABORT chosen where none was; ``None``: not before the leg's
        start (or that of what it was to replace), or nobody wants to know any more.
        """
        trip = leg.request.trip
        assert trip is not None, "the caller asks only for legs of trips"
        wait_s = RETRY_FIRST_S
        while is_open() and self._clock.now() < (until := self._calendar.undecided_until(leg)):
            outcome = await voting.learn() or await voting.settle(Outcome.ABORT)
            if outcome is not None:
                return outcome
            await self._clock.sleep_until(
                min(self._clock.now_precise() + wait_s * self._fraction(trip), until)
            )
            wait_s = min(2 * wait_s, RETRY_MAX_S)
        return None

    def _voting(self, trip: TripRef, question: str) -> TripVoting:
        """One proposer for one question."""
        ports = self._ports(trip.acceptors)
        return TripVoting(question, ports, self._proposer(), keep_until=trip.ends_at)

    # -- races of copies ---------------------------------------------------------------------------

    async def claim(self, race: Race, is_wanted: Callable[[], bool]) -> bool:
        """Ask the acceptors of the race until it is known whether this site's copy runs
        (``gridcore.jobs.races``). The scheduler has given the copy its nodes, and they are kept
        meanwhile: a site that is cut off wastes them until the copy's time is over, and never runs
        a second copy. Said again after a restart it leads to the same answer: what was won stays
        won.
        """
        voting = self.race_voting(race)
        wait_s = RACE_RETRY_FIRST_S
        while is_wanted():
            won = await voting.claim()
            if won is not None:
                return won
            fraction = _fraction(race.question(race.copy))
            await self._clock.sleep_until(self._clock.now_precise() + wait_s * fraction)
            wait_s = min(2 * wait_s, RACE_RETRY_MAX_S)
        return False

    def race_voting(self, race: Race) -> RaceVoting:
        """This site's part in a race of copies."""

        def ask(question: str) -> TripVoting:
            ports = self._ports(race.acceptors)
            return TripVoting(question, ports, self._proposer(), keep_until=race.ends_at)

        return RaceVoting(race, ask)

    def _proposer(self) -> str:
        """A proposer's name. The epoch is new with each start of the daemon and the number with
        each proposer, so no ballot is ever used twice, not by two legs of one trip here either.
        """
        return f"{self._calendar.site}:{self._calendar.epoch}:{next(self._proposers)}"

    # -- cancelled trips ---------------------------------------------------------------------------

    def note_committed(self, reservation: Reservation) -> None:
        """A leg is committed, or has another time: shortly before its start the acceptors are asked
        whether the whole trip was cancelled while this site could not be told.
        """
        if self.must_ask(reservation):
            entry = (self._check_at(reservation), reservation.reservation_id)
            heapq.heappush(self._checks, entry)

    def _check_at(self, reservation: Reservation) -> Instant:
        trip, site = reservation.request.trip, self._calendar.site
        check_at = reservation.start - CHECK_BEFORE_S
        if trip is not None and site in trip.participants:
            # One after the other: the first settles the question, the others only learn.
            turn = trip.participants.index(site)
            check_at += min(turn * CHECK_TURN_S, CHECK_BEFORE_S // 2)
        return check_at

    def next_check(self) -> Instant | None:
        """When the next such question is due."""
        return self._checks[0][0] if self._checks else None

    def check_soon(self, now: Instant) -> None:
        """Ask what is due, beside everything else; not about a leg that began meanwhile."""
        while self._checks and self._checks[0][0] <= now:
            _, reservation_id = heapq.heappop(self._checks)
            entry = self._calendar.reservations.get(reservation_id)
            if (
                entry is not None
                and entry.state is ReservationState.COMMITTED
                and self._check_at(entry) <= now < entry.start
            ):
                assert self._group is not None, "open() comes first"
                self._group.create_task(self._check(entry), name="cancelled?")

    async def _check(self, leg: Reservation) -> None:
        """Ask whether the trip was cancelled as a whole, else have it settled that it was not: who
        runs a leg and who releases one must not have heard different majorities. A change of the
        leg that is still open is settled first: it may be a leg of a later attempt by now.
        """
        reservation_id = leg.reservation_id
        while (hold := self._calendar.replacement_of(reservation_id)) is not None:
            if not self.must_ask(hold) or leg.start <= self._clock.now():
                break
            self.settle_soon(hold)
            await self._clock.sleep_until(self._clock.now_precise() + RETRY_FIRST_S)
        entry = self._calendar.reservations.get(reservation_id)
        if entry is None or (trip := entry.request.trip) is None or trip != leg.request.trip:
            return  # in its new form it is asked about before its new start
        voting = self._voting(trip, trip.cancellation)
        outcome = await self._find_out(voting, leg, lambda: self._is_committed(reservation_id))
        if outcome is Outcome.COMMIT and self._is_committed(reservation_id):
            log.info("the trip of %s was cancelled", reservation_id)
            events = self._calendar.decide_release(reservation_id, None, self._clock.now())
            await self._record(events).durable()

    # -- changed trips -----------------------------------------------------------------------------

    def note_moved(self, old: Reservation, new: Reservation) -> None:
        """A leg has its new form. Where the change dropped other sites, each site that goes on has
        the old attempt called off: the dropped ones ask about that before their start, and the
        traveller may be gone.
        """
        self.note_committed(new)
        before, after = old.request.trip, new.request.trip
        if before is None or after is None or before.attempt == after.attempt:
            return
        if before.acceptors and not set(before.participants) <= set(after.participants):
            self._left_behind[before.instance] = (before, old.start)

    def call_off_soon(self, now: Instant) -> None:
        """Have attempts that a change has left behind called off, beside everything else."""
        for trip, until in self._left_behind.values():
            if now < until:
                assert self._group is not None, "open() comes first"
                self._group.create_task(self._call_off(trip, until), name="called off")
        self._left_behind.clear()

    async def _call_off(self, trip: TripRef, until: Instant) -> None:
        voting = self._voting(trip, trip.cancellation)
        wait_s = RETRY_FIRST_S
        while self._clock.now() < until:
            if await voting.learn() or await voting.settle(Outcome.COMMIT):
                return
            await self._clock.sleep_until(
                min(self._clock.now_precise() + wait_s * self._fraction(trip), until)
            )
            wait_s = min(2 * wait_s, RETRY_MAX_S)

    # -- inside ------------------------------------------------------------------------------------

    async def _conclude(self, reservation_id: str, outcome: Outcome) -> None:
        if not self._is_held(reservation_id):
            return
        now = self._clock.now()
        log.info("the trip of hold %s was decided: %s", reservation_id, outcome)
        if outcome is Outcome.COMMIT:
            _, events = self._calendar.decide_late_commit(reservation_id, now)
            await self._record(events).durable()
        else:
            await self._let_go(reservation_id, now)

    async def _let_go(self, reservation_id: str, now: Instant) -> None:
        events = self._calendar.decide_release(
            reservation_id, None, now, event=ReservationEvent.EXPIRE
        )
        await self._record(events).durable()

    def _is_held(self, reservation_id: str) -> bool:
        return self._state_of(reservation_id) is ReservationState.HELD

    def _is_committed(self, reservation_id: str) -> bool:
        return self._state_of(reservation_id) is ReservationState.COMMITTED

    def _state_of(self, reservation_id: str) -> ReservationState | None:
        entry = self._calendar.reservations.get(reservation_id)
        return None if entry is None else entry.state

    def _ports(self, acceptors: Sequence[Acceptor]) -> dict[str, CalendarPort]:
        """The acceptors' calendars; this site's own without a wire."""
        ports: dict[str, CalendarPort] = {}
        for acceptor in acceptors:
            if acceptor.site == self._calendar.site:
                ports[acceptor.site] = self._own_port()
                continue
            ports[acceptor.site] = self._neighbours.way_to(acceptor).calendar
        return ports

    def _fraction(self, trip: TripRef) -> float:
        """From a half to one, fixed by the site and the attempt."""
        return _fraction(f"{self._calendar.site} {trip.instance}")


def _fraction(text: str) -> float:
    """From a half to one, fixed by ``text``: two proposers that wait for such different parts of a
    pause do not outbid each other for ever.
    """
    return 0.5 + hashlib.sha256(text.encode()).digest()[0] / 510

"""A trip's log on the laptop, and what it says about where the trip stands.

The log is the traveller's copy of the truth; the sites' books are the original. Where its journal
stands is ``folders``' business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Decline,
    DeclineRule,
    attempt_name,
)
from gridtravel.gridcore.errors import ConflictError
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, LegState, TripState
from gridtravel.gridio.journal.records import EventCodec
from gridtravel.travel_agent.log.events import (
    TRIP_EVENTS,
    AmendmentClosed,
    AmendmentDecided,
    AmendmentOpened,
    AskedLeg,
    FilesSent,
    HoldsAsked,
    HoldsLetGo,
    JobSubmitted,
    LegsDropped,
    PeopleTold,
    ProbesAsked,
    RaceOpened,
    TripAmended,
    TripBooked,
    TripDecided,
    TripEnded,
    TripLogEvent,
    TripOpened,
    UndoAsked,
)
from gridtravel.travel_agent.log.faults import TripLogFailed, written_down

if TYPE_CHECKING:
    from gridtravel.gridio.journal.contract import Journal, Record
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.travel_agent.log.folders import TripJournals

CODEC: Final = EventCodec(TRIP_EVENTS)
OPEN_TRIES: Final = 20
OPEN_RETRY_S: Final = 0.5
"""How often and after which pauses a log that another command has open is tried."""


class TripLog(Protocol):
    """Where the booking writes down what it is about to do."""

    @property
    def story(self) -> TripStory:
        """What was written so far."""
        ...

    async def write(self, event: TripLogEvent) -> None:
        """Return when ``event`` is safe from crash and power loss."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt to make a trip whole, by whose name its outcome is known."""

    number: int = 0
    """From 1; 0: none was decided."""
    nonce: str = ""
    acceptors: tuple[Acceptor, ...] = ()
    """Who keeps its outcome; empty: the only site's own book, or this log."""
    asked_at: Instant = 0
    """When its first hold was about to be asked for; 0: not known."""

    def name(self, trip_id: str) -> str:
        """The question whether the attempt is committed."""
        return attempt_name(trip_id, self.number, self.nonce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """A change of a booked trip that is under way."""

    metajob_json: str
    reason: str
    base: str = ""
    attempt: Attempt = Attempt()
    """The attempt that was decided; none: all its holds are in ``TripStory.asked``."""
    legs: tuple[Leg, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedLegs:
    """Legs that an amendment left out, as the attempt had them that they were booked with."""

    attempt: Attempt
    legs: tuple[Leg, ...]
    metajob_json: str


@dataclass(slots=True, kw_only=True)
class TripStory:
    """A log, read from the start: what was asked, decided and done. Changed only by ``tell``."""

    trip_id: str = ""
    name: str = ""
    metajob_json: str = ""
    base: str = ""
    """Folder in which relative paths of the metajob's files begin."""
    state: TripState = TripState.PLANNED
    asked: dict[int, tuple[AskedLeg, ...]] = field(default_factory=dict)
    """Attempt -> holds that may still exist and were not let go."""
    probes: tuple[AskedLeg, ...] = ()
    """Test reservations that may still exist."""
    attempt: Attempt = Attempt()
    """The attempt that is booked, or is to be."""
    attempts: int = 0
    """The highest attempt that anything was asked for; the next one has a higher number."""
    copies: tuple[str, ...] = ()
    """Of a race; empty: it is none."""
    copy_sites: tuple[str, ...] = ()
    race_acceptors: tuple[Acceptor, ...] = ()
    race_ends_at: Instant = 0
    is_undoing: bool = False
    legs: tuple[Leg, ...] = ()
    message: str = ""
    staged: tuple[str, ...] = ()
    """Reservations to which all files from this laptop were sent."""
    is_amended: bool = False
    """It is no longer as it was first booked."""
    amendment: Amendment | None = None
    dropped: tuple[DroppedLegs, ...] = ()
    """What has still to be released of what the trip once was."""
    told: set[str] = field(default_factory=set)
    """Occasions about which mail and hook have gone out."""

    def tell(self, event: TripLogEvent) -> None:
        """Take the next record into account."""
        match event:
            case TripOpened():
                self.trip_id, self.name = event.trip_id, event.name
                self.metajob_json, self.base = event.metajob_json, event.base
            case ProbesAsked():
                self.probes = event.legs
            case HoldsAsked():
                self.asked[event.attempt] = event.legs
                self.attempts = max(self.attempts, event.attempt)
            case HoldsLetGo():
                self.asked.pop(event.attempt, None)
            case TripDecided():
                self.legs = event.legs
                self.attempt = _attempt(event)
                self.state = TripState.HELD
            case TripBooked():
                self.legs = event.legs
                self.state = TripState.BOOKED
                self.asked.clear()
            case FilesSent():
                self.staged = (*self.staged, event.reservation_id)
            case JobSubmitted():
                self.legs = tuple(
                    replace(leg, job_id=event.job_id) if leg.name == event.leg else leg
                    for leg in self.legs
                )
            case AmendmentOpened():
                self.amendment = Amendment(
                    metajob_json=event.metajob_json, reason=event.reason, base=event.base
                )
            case AmendmentDecided() if self.amendment is not None:
                self.amendment = replace(
                    self.amendment,
                    attempt=_attempt(event),
                    legs=event.legs,
                )
            case TripAmended() if self.amendment is not None:
                self._amended(event, self.amendment)
            case LegsDropped():
                self.dropped = ()
            case AmendmentClosed():
                self.amendment = None
                self.asked.clear()
            case RaceOpened():
                self.copies, self.copy_sites = event.copies, event.sites
                self.race_acceptors = event.acceptors
                self.race_ends_at = event.ends_at
            case PeopleTold():
                self.told.add(event.occasion)
            case UndoAsked():
                self.is_undoing = True
                self.message = event.reason
            case TripEnded():
                self.state = TripState(event.state)
                self.message = event.message
                self.legs = event.legs or self.legs
                self.asked.clear()
                self.probes = ()
                self.is_undoing = False
                self.amendment, self.dropped = None, ()

    def _amended(self, event: TripAmended, amendment: Amendment) -> None:
        if event.dropped:
            left = DroppedLegs(
                attempt=self.attempt,
                legs=event.dropped,
                metajob_json=self.metajob_json,
            )
            self.dropped = (*self.dropped, left)
        self.metajob_json, self.base = amendment.metajob_json, amendment.base
        self.legs, self.staged = event.legs, ()
        self.attempt = amendment.attempt
        self.amendment, self.is_amended = None, True
        self.asked.clear()

    def race_of(self, copy: str) -> Race:
        """The race as one of its copies knows it."""
        return Race(
            trip_id=self.trip_id,
            copy=copy,
            copies=self.copies,
            acceptors=self.race_acceptors,
            ends_at=self.race_ends_at,
            sites=self.copy_sites,
        )

    def itinerary(self) -> Itinerary:
        """The trip as its user sees it."""
        if self.state is TripState.DECLINED:
            decline = Decline(rule=DeclineRule.NO_ROOM, message=self.message)
            return Itinerary(
                trip_id=self.trip_id, name=self.name, state=self.state, decline=decline
            )
        legs = self.legs
        if self.state in (TripState.CANCELLED, TripState.ABSENT):
            legs = tuple(replace(leg, state=LegState.RELEASED) for leg in legs)
        return Itinerary(
            trip_id=self.trip_id,
            name=self.name,
            state=self.state,
            legs=legs,
            kept_by=tuple(each.site for each in self.attempt.acceptors or self.race_acceptors),
        )


def story_of(records: Iterable[Record]) -> TripStory:
    """What the records of a trip's journal say together."""
    story = TripStory()
    for record in records:
        story.tell(CODEC.decode(record))
    return story


def never_asked_for(trip_id: str) -> TripStory:
    """The story of a trip whose log is empty: its command died before it asked anybody for
    anything.
    """
    story = TripStory()
    story.tell(TripOpened(trip_id=trip_id, name=trip_id, metajob_json=""))
    story.tell(TripEnded(state=TripState.ABSENT.value, message="never asked for"))
    return story


async def open_new_log(
    journals: TripJournals, clock: Clock, opened: TripOpened
) -> JournaledTripLog:
    """The log of a new trip, with its first record. What cannot be written down is no trip:
    ``TripLogFailed``, and nothing of it is left.
    """
    log = JournaledTripLog(journals.create(opened.trip_id), clock)
    try:
        await log.write(opened)
    except TripLogFailed as fault:
        log.close()
        journals.discard(opened.trip_id)
        hint = "nothing was booked; make room on this computer, and book again"
        raise TripLogFailed(fault.message, hint=hint) from fault
    except asyncio.CancelledError:
        log.close()
        journals.discard(opened.trip_id)  # interrupted before anybody was asked for anything
        raise
    return log


def _attempt(event: TripDecided | AmendmentDecided) -> Attempt:
    return Attempt(
        number=event.attempt,
        nonce=event.nonce,
        acceptors=event.acceptors,
        asked_at=event.asked_at,
    )


class JournaledTripLog:
    """A trip's log in its journal; one process at a time may write it."""

    def __init__(self, journal: Journal, clock: Clock, *, trip_id: str = "") -> None:
        """Go on with a trip's journal. ``trip_id``: whose it is, if it is not a new one's; it may
        be empty nevertheless (``never_asked_for``).
        """
        self._journal = journal
        self._clock = clock
        with written_down(trip_id):
            self.story = story_of(journal.replay())
        if trip_id and not self.story.trip_id:
            self.story = never_asked_for(trip_id)

    async def write(self, event: TripLogEvent) -> None:
        """See ``TripLog``; ``TripLogFailed``: this computer's disk takes no more."""
        self.story.tell(event)
        with written_down(self.story.trip_id):
            await self._journal.append([CODEC.encode(event, at=self._clock.now())]).durable()

    def close(self) -> None:
        """Let others write."""
        self._journal.close()


class SharedTripLog:
    """A trip's log that is open only while a record is written, so that other commands about the
    trip may write meanwhile.
    """

    def __init__(self, journals: TripJournals, story: TripStory, clock: Clock) -> None:
        """``story``: what was in it when it was read."""
        self._journals = journals
        self._clock = clock
        self.story = story

    async def write(self, event: TripLogEvent) -> None:
        """See ``TripLog``. Another command may have the log open for a moment."""
        trip_id = self.story.trip_id
        for attempt in range(1, OPEN_TRIES + 1):
            try:
                journal = self._journals.open(trip_id)
            except ConflictError:
                if attempt == OPEN_TRIES:
                    raise
                await self._clock.sleep_until(self._clock.now_precise() + OPEN_RETRY_S)
                continue
            log = JournaledTripLog(journal, self._clock, trip_id=trip_id)
            try:
                await log.write(event)
            finally:
                log.close()
            self.story = log.story
            return


class ForgetfulLog:
    """A log for a quote, which leaves nothing behind that would have to be found again."""

    def __init__(self) -> None:
        self.story = TripStory()

    async def write(self, event: TripLogEvent) -> None:
        """Remember as long as the process lives."""
        self.story.tell(event)

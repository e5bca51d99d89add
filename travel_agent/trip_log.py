"""A trip's log on the laptop, and what it says about where the trip stands.

One folder a trip (``<state>/trips/<trip id>/``), so that two commands about two trips never wait
for each other. The log is the traveller's copy of the truth; the sites' books are the original.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from gridcore.errors import ConflictError, InputError, NotFoundError
from gridcore.itineraries import Itinerary, Leg, LegState, TripState
from gridcore.reservations import Decline, DeclineRule, check_id
from gridio.journal_sqlite import SqliteJournal
from gridio.records import EventCodec
from travel_agent.trip_events import (
    TRIP_EVENTS,
    AskedLeg,
    HoldsAsked,
    HoldsLetGo,
    JobSubmitted,
    TripBooked,
    TripDecided,
    TripEnded,
    TripLogEvent,
    TripOpened,
    UndoAsked,
)

if TYPE_CHECKING:
    from gridio.clock import Clock
    from gridio.journal import Journal

CODEC: Final = EventCodec(TRIP_EVENTS)
JOURNAL_FILE: Final = "trip.journal"


class TripLog(Protocol):
    """Where the booking writes down what it is about to do."""

    async def write(self, event: TripLogEvent) -> None:
        """Return when ``event`` is safe from crash and power loss."""
        ...


@dataclass(slots=True, kw_only=True)
class TripStory:
    """A log, read from the start: what was asked, decided and done. Changed only by ``tell``."""

    trip_id: str = ""
    name: str = ""
    metajob_json: str = ""
    state: TripState = TripState.PLANNED
    asked: dict[int, tuple[AskedLeg, ...]] = field(default_factory=dict)
    """Attempt -> holds that may still exist and were not let go."""
    decided: tuple[Leg, ...] = ()
    is_undoing: bool = False
    legs: tuple[Leg, ...] = ()
    message: str = ""

    def tell(self, event: TripLogEvent) -> None:
        """Take the next record into account."""
        match event:
            case TripOpened():
                self.trip_id, self.name = event.trip_id, event.name
                self.metajob_json = event.metajob_json
            case HoldsAsked():
                self.asked[event.attempt] = event.legs
            case HoldsLetGo():
                self.asked.pop(event.attempt, None)
            case TripDecided():
                self.decided = self.legs = event.legs
                self.state = TripState.HELD
            case TripBooked():
                self.legs = event.legs
                self.state = TripState.BOOKED
                self.asked.clear()
            case JobSubmitted():
                self.legs = tuple(
                    replace(leg, job_id=event.job_id) if leg.name == event.leg else leg
                    for leg in self.legs
                )
            case UndoAsked():
                self.is_undoing = True
                self.message = event.reason
            case TripEnded():
                self.state = TripState(event.state)
                self.message = event.message
                self.asked.clear()
                self.is_undoing = False

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
        return Itinerary(trip_id=self.trip_id, name=self.name, state=self.state, legs=legs)


class FileTripLog:
    """A trip's log in its folder; one process at a time may write it."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self.story = TripStory()
        for record in journal.replay():
            self.story.tell(CODEC.decode(record))

    @classmethod
    def create(cls, trips: Path, trip_id: str, clock: Clock) -> FileTripLog:
        """Begin the log of a new trip."""
        folder = _folder(trips, trip_id)
        folder.mkdir(parents=True, mode=0o700)
        return cls(SqliteJournal(folder / JOURNAL_FILE), clock)

    @classmethod
    def open(cls, trips: Path, trip_id: str, clock: Clock) -> FileTripLog:
        """Go on with a trip's log; ``NotFoundError``: no such trip."""
        path = _folder(trips, trip_id) / JOURNAL_FILE
        if not path.exists():
            raise NotFoundError(f"there is no trip {trip_id!r}", hint="`gur status` lists them")
        return cls(SqliteJournal(path), clock)

    async def write(self, event: TripLogEvent) -> None:
        """See ``TripLog``."""
        self.story.tell(event)
        await self._journal.append([CODEC.encode(event, at=self._clock.now())]).durable()

    def close(self) -> None:
        """Let others write."""
        self._journal.close()


class ForgetfulLog:
    """A log for a quote, which leaves nothing behind that would have to be found again."""

    def __init__(self) -> None:
        self.story = TripStory()

    async def write(self, event: TripLogEvent) -> None:
        """Remember as long as the process lives."""
        self.story.tell(event)


def list_trips(trips: Path) -> list[str]:
    """Ids of all trips that this laptop knows, the oldest first."""
    if not trips.is_dir():
        return []
    return sorted(each.name for each in trips.iterdir() if (each / JOURNAL_FILE).exists())


def find_trip(trips: Path, wanted: str, clock: Clock) -> str:
    """The id of the trip that ``wanted`` names: an id, the unique beginning of one, or a trip's
    name (the latest one of that name).
    """
    known = list_trips(trips)
    if wanted in known:
        return wanted
    starting = [each for each in known if each.startswith(wanted)]
    if len(starting) == 1:
        return starting[0]
    if len(starting) > 1:
        raise InputError(
            f"{wanted!r} may be {len(starting)} trips", hint="give more of its beginning"
        )
    for trip_id in reversed(known):
        try:
            log = FileTripLog.open(trips, trip_id, clock)
        except ConflictError:
            continue
        name = log.story.name
        log.close()
        if name == wanted:
            return trip_id
    raise NotFoundError(f"there is no trip {wanted!r}", hint="`gur status` lists them")


def _folder(trips: Path, trip_id: str) -> Path:
    check_id("trip id", trip_id)
    if "/" in trip_id or trip_id.startswith("."):
        raise InputError(f"{trip_id!r} is not a trip id")
    return trips / trip_id

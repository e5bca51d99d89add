"""Which trip somebody means: by its id, the beginning of one, or its name.

Names need not be unique. Of several trips with one name the newest that is not over is meant, for
there is most to ask about it; of those that are over, the newest. Which one it was is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.travel_agent.log.trip_log import JournaledTripLog

if TYPE_CHECKING:
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.travel_agent.log.folders import TripJournals


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTrip:
    """The trip that was meant."""

    trip_id: str
    note: str = ""
    """What its user should know of the choice; empty: there was none."""


def find_trip(journals: TripJournals, wanted: str, clock: Clock) -> FoundTrip:
    """The trip that ``wanted`` names. ``InputError``: the beginning of several ids;
    ``NotFoundError``: nothing that another command is not working on just now.
    """
    known = journals.trip_ids()
    if wanted in known:
        return FoundTrip(trip_id=wanted)
    starting = [each for each in known if each.startswith(wanted)]
    if len(starting) == 1:
        return FoundTrip(trip_id=starting[0])
    if len(starting) > 1:
        raise InputError(
            f"{wanted!r} may be {len(starting)} trips", hint="give more of its beginning"
        )
    named = _named(journals, known, wanted, clock)
    if not named:
        raise NotFoundError(f"there is no trip {wanted!r}", hint="`gur status` lists them")
    chosen, is_over = max(named.items(), key=lambda each: (not each[1], each[0]))
    if len(named) == 1:
        return FoundTrip(trip_id=chosen)
    which = "the newest; all are over" if is_over else "the newest that is not over"
    return FoundTrip(
        trip_id=chosen, note=f"{len(named)} trips are called {wanted}; this is {chosen}, {which}"
    )


def _named(journals: TripJournals, known: list[str], name: str, clock: Clock) -> dict[str, bool]:
    """Whether each trip of this name is over. Ids sort by the second in which they were made."""
    found = {}
    for trip_id in known:
        try:
            log = JournaledTripLog(journals.open(trip_id), clock)
        except ConflictError:
            continue
        if log.story.name == name:
            found[trip_id] = log.story.state.is_over
        log.close()
    return found

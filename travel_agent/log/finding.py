"""Which trip somebody means: by its id, the beginning of one, or its name.

Names need not be unique. Of several trips with one name the newest that is not over is meant, for
there is most to ask about it; of those that are over, the newest. Which one it was is said. Logs
are only read, so a trip on which another command is working is found like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridtravel.gridcore.errors import GridError, InputError, NotFoundError
from gridtravel.travel_agent.log.trip_log import story_of

if TYPE_CHECKING:
    from gridtravel.travel_agent.log.folders import TripJournals


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTrip:
    """The trip that was meant."""

    trip_id: str
    note: str = ""
    """What its user should know of the choice; empty: there was none."""


def find_trip(journals: TripJournals, wanted: str) -> FoundTrip:
    """The trip that ``wanted`` names. ``InputError``: the beginning of several ids;
    ``NotFoundError``: nothing; the hint names trips whose logs cannot be read.
    """
    if journals.has(wanted):
        return FoundTrip(trip_id=wanted)
    known = journals.trip_ids()
    starting = [each for each in known if each.startswith(wanted)]
    if len(starting) == 1:
        return FoundTrip(trip_id=starting[0])
    if len(starting) > 1:
        raise InputError(
            f"{wanted!r} may be {len(starting)} trips", hint="give more of its beginning"
        )
    named: dict[str, bool] = {}
    unreadable = []
    for trip_id in known:
        try:
            story = story_of(journals.read(trip_id).records)
        except GridError:
            unreadable.append(trip_id)
            continue
        if story.name == wanted:
            named[trip_id] = story.state.is_over
    if not named:
        hint = "`gur status` lists them"
        if unreadable:
            hint += f"; these could not be read: {', '.join(unreadable)}"
        raise NotFoundError(f"there is no trip {wanted!r}", hint=hint)
    chosen, is_over = max(named.items(), key=lambda each: (not each[1], each[0]))
    if len(named) == 1:
        return FoundTrip(trip_id=chosen)
    which = "the newest; all are over" if is_over else "the newest that is not over"
    return FoundTrip(
        trip_id=chosen, note=f"{len(named)} trips are called {wanted}; this is {chosen}, {which}"
    )

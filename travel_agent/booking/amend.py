"""From a user's wish to change a trip to the trip as it is then, with its jobs: ``gur amend``.

``amendment`` changes what is booked and what runs there; here a wish becomes a metajob.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.errors import ConflictError, GridError, InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern
from gridtravel.travel_agent.booking.amendment import TripAmendment
from gridtravel.travel_agent.booking.outcome import say_ready
from gridtravel.travel_agent.news import Listener
from gridtravel.travel_agent.running.jobs import LegWork, check_files
from gridtravel.travel_agent.session import GridSession

UNDO_WITHIN_S: Final = 3.0
"""How long an interrupted change (Ctrl-C) may take to release its holds before they expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripChange:
    """What is wanted otherwise; ``None`` keeps what the trip was booked with."""

    earliest_start: Instant | None = None
    latest_end: Instant | None = None
    duration_s: int | None = None
    nodes: int | None = None
    metajob: Metajob | None = None
    """Another metajob altogether; the fields above change that."""

    def applied_to(self, old: Metajob) -> Metajob:
        """The metajob as it is wanted from now on; ``InputError`` when it contradicts itself."""
        wanted = old if self.metajob is None else replace(self.metajob, name=old.name)
        is_pipeline = wanted.usage_pattern is UsagePattern.PIPELINE
        if is_pipeline and (self.duration_s is not None or self.nodes is not None):
            raise InputError(
                "each stage of a pipeline has its own size and duration",
                hint="change them in its file, and give that with --file",
            )
        start = wanted.earliest_start if self.earliest_start is None else self.earliest_start
        end = wanted.latest_end if self.latest_end is None else self.latest_end
        return replace(
            wanted,
            earliest_start=start,
            latest_end=end,
            duration_s=wanted.duration_s if self.duration_s is None else self.duration_s,
            nodes_total=wanted.nodes_total if self.nodes is None else self.nodes,
        )

    @property
    def moves(self) -> bool:
        """True when the user says something about the time."""
        return any(
            each is not None for each in (self.earliest_start, self.latest_end, self.metajob)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The trip as it is now, and why it is not what was wanted, if it is not."""

    itinerary: Itinerary
    decline: Decline | None = None


async def amend(
    session: GridSession, wanted_trip: str, change: TripChange, base: Path, listener: Listener
) -> Changed:
    """Change a booked trip as a whole; see ``amendment``. A trip whose time the user leaves alone
    keeps its start where that can be had.
    """
    log = session.open_log(wanted_trip)
    try:
        story = log.story
        if story.state is not TripState.BOOKED or story.is_undoing:
            raise ConflictError(
                f"trip {story.trip_id} is {story.state}: only a booked trip can be changed",
                hint=f"`gur resume {story.trip_id}` finishes what was interrupted",
            )
        await TripAmendment(session, log, listener).settle()
        if session.metajob_of(log).is_race:
            raise ConflictError(
                "the copies of a race wait in queues, nothing of them is booked",
                hint="cancel it and book it again",
            )
        wanted = change.applied_to(session.metajob_of(log))
        wanted.check_still_possible(session.clock.now())
        base = base if change.metajob is not None else Path(story.base)
        check_files(wanted, session.destinations(wanted), base)
        tries = [wanted] if change.moves else [*pinned(wanted, story.itinerary()), wanted]
        amending = TripAmendment(session, log, listener)
        return await change_trip(amending, wanted, tries, "as its user wishes", base)
    finally:
        log.close()


async def change_trip(
    amending: TripAmendment,
    wanted: Metajob,
    tries: list[Metajob],
    reason: str,
    base: Path,
    *,
    gone: frozenset[str] = frozenset(),
    may_leave_keepers: bool = False,
) -> Changed:
    """Change what is booked and what runs in it, then send what is missing there. What is
    interrupted before the decision is undone.
    ``gone``: legs whose reservations have ended already. ``may_leave_keepers``: see
    ``TripAmendment``.
    """
    try:
        decline = await amending.amend(
            wanted, tries, reason, base, gone=gone, may_leave_keepers=may_leave_keepers
        )
    except (Exception, asyncio.CancelledError):
        amendment = amending.story.amendment
        if amendment is not None and not amendment.attempt.number:
            await _give_up(amending)
        raise
    if decline is not None:
        return Changed(itinerary=amending.story.itinerary(), decline=decline)
    await amending.settle()
    trip = amending.trip()
    itinerary = await LegWork(trip).finish(amending.story.itinerary())
    await say_ready(trip, trip.log.story.attempt, itinerary.legs)
    return Changed(itinerary=itinerary)


def pinned(wanted: Metajob, itinerary: Itinerary) -> list[Metajob]:
    """The same wish with the start that the trip has; none where its window does not allow that."""
    start = itinerary.start
    if start is None:
        return []
    is_pipeline = wanted.usage_pattern is UsagePattern.PIPELINE
    end = wanted.latest_end if is_pipeline else start + wanted.duration_s + wanted.guard_s
    if start < wanted.earliest_start or end > wanted.latest_end:
        return []
    try:
        return [replace(wanted, earliest_start=start, latest_end=end, alternatives=())]
    except GridError:
        return []


async def _give_up(amending: TripAmendment) -> None:
    """Release the holds of a change that was interrupted before it was decided."""

    async def undo() -> None:
        async with asyncio.timeout(UNDO_WITHIN_S):
            await amending.settle()

    task = asyncio.ensure_future(undo())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
    except (GridError, TimeoutError):
        # The log knows what may be left; `gur resume` goes on from there.
        return

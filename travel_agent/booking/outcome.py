"""The decision of a trip: from "every leg is held" to "COMMIT is a fact that nobody can take back".

With one site the site's own commit is the decision. With several the acceptors keep it, a majority
of the sites of the trip, so that any of them can find it out when this laptop is gone
(docs/protocol.md). The traveller has the first ballot of each question, and no other: what it may
not propose it asks an acceptor to settle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gridtravel.gridcore.booking.reservations import Begin
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.itineraries import Leg
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.registers import CLOCKS_APART_S
from gridtravel.gridcore.trips.trip_consensus import Outcome
from gridtravel.gridio.sites.trip_voting import TravellersVoting
from gridtravel.travel_agent.log.trip_log import Attempt
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.trip_context import TripContext

DECIDE_WITHIN_S: Final = 30.0
"""How long a booking tries to reach a majority before it leaves the trip to `gur resume`."""
RETRY_S: Final = 0.3
PROPOSE_WITHIN_S: Final = 600
"""COMMIT is proposed no later than this after the first hold was asked for. A laptop that slept
between two holds must not propose it when sites have forgotten that they had settled the attempt
(the model's ``LATE_PROPOSAL``); they remember for ``tombstone_s``, which is longer.
"""


class OutcomeOpenError(UnavailableError):
    """A trip that its sites may still make whole by themselves: nothing of it may be undone before
    its outcome is known everywhere.
    """


async def commit_or_learn(trip: TripContext, attempt: Attempt, manifest: Manifest) -> Outcome:
    """Have the attempt committed, whose legs are all held, or learn that it was not. Saying it
    again leads to the same outcome; ``OutcomeOpenError``: nobody knows yet. Long after its holds
    were asked for it is not proposed any more, only learned. ``manifest``: what the legs are told
    of each other; whoever learns of the commit learns it too.
    """
    is_late = attempt.asked_at and trip.clock.now() > attempt.asked_at + PROPOSE_WITHIN_S
    if is_late and attempt.acceptors:
        return await give_up_or_learn(trip, attempt)
    name = attempt.name(trip.trip_id)
    return await _decide(trip, attempt, name, Outcome.COMMIT, manifest)


async def give_up_or_learn(
    trip: TripContext, attempt: Attempt, undone: Sequence[Leg] = ()
) -> Outcome:
    """Have it settled that the attempt is not committed, or learn that it is. ``undone``: its legs,
    when they are let go whatever the outcome; after their end nobody need be asked.
    """
    question = attempt.name(trip.trip_id)
    return await _decide(trip, attempt, question, Outcome.ABORT, over_at=_over_at(undone))


async def call_off(trip: TripContext, attempt: Attempt, legs: Sequence[Leg]) -> bool:
    """Have the acceptors remember that a decided attempt with these legs is cancelled, for sites
    that cannot be told now: they ask before their leg starts. False: they have settled that it was
    not, because the start is near. After the end of the legs none starts, and nobody need be asked.
    """
    question = f"{attempt.name(trip.trip_id)}/cancel"
    outcome = await _decide(trip, attempt, question, Outcome.COMMIT, over_at=_over_at(legs))
    return outcome is Outcome.COMMIT


async def say_ready(trip: TripContext, attempt: Attempt, legs: Sequence[Leg]) -> None:
    """Have the acceptors remember that legs of a booked trip are ready whose sites have nobody to
    say so; saying it again changes nothing. When it is too late for that none of their start
    begins, and they are released, each with its job.
    """
    if trip.metajob.begin is not Begin.TOGETHER or not attempt.acceptors:
        return
    for leg in legs:
        if trip.destinations[leg.machine].has_agent or trip.clock.now() >= leg.end:
            continue
        question = f"{attempt.name(trip.trip_id)}/ready/{leg.name}"
        if await _decide(trip, attempt, question, Outcome.COMMIT) is Outcome.ABORT:
            await trip.destinations[leg.machine].connection.calendar.release(
                leg.reservation_id or ""
            )
            text = "it was not ready in time, so that no leg begins: let go"
            trip.tell(News(step=Step.NOTE, place=leg.name, text=text))


def _over_at(legs: Sequence[Leg]) -> Instant | None:
    """When all of them are over by any site's clock."""
    return max(leg.end for leg in legs) + CLOCKS_APART_S if legs else None


async def _decide(
    trip: TripContext,
    attempt: Attempt,
    question: str,
    wish: Outcome,
    manifest: Manifest = NO_CONTACTS,
    *,
    over_at: Instant | None = None,
) -> Outcome:
    """The outcome of a question; after ``over_at`` what is wished, since it matters to nobody."""
    if not attempt.acceptors:
        return wish
    by_site = {each.site: each.connection.calendar for each in trip.destinations.values()}
    ports = {each.site: by_site[each.site] for each in attempt.acceptors}
    voting = TravellersVoting(question, ports, manifest)
    give_up_at = trip.clock.now_precise() + DECIDE_WITHIN_S
    while over_at is None or trip.clock.now() <= over_at:
        outcome = await voting.propose_first() if wish is Outcome.COMMIT else None
        outcome = outcome or await voting.learn()
        if outcome is None and (wish is Outcome.ABORT or voting.is_outbid):
            outcome = await voting.settle(Outcome.ABORT)
        if outcome is not None:
            return outcome
        if trip.clock.now_precise() >= give_up_at:
            raise OutcomeOpenError(
                f"the outcome of trip {trip.trip_id} is not known yet: too few of its sites answer",
                hint=f"run `gur resume {trip.trip_id}` when they are back",
            )
        await trip.clock.sleep_until(trip.clock.now_precise() + RETRY_S)
    return wish

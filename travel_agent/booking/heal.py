"""A booked trip whose site loses nodes or disappears before the start: ``gur heal``.

What is wrong the sites say themselves; a site that does not answer is lost when the user's patience
is over. Then the metajob's healing rules are tried in order, each as a change of the whole trip
(``amendment``), so the old is not let go before the new is held. Where no rule is given the rest is
cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, ReservationState
from gridtravel.gridcore.errors import ConflictError, GridError, NotFoundError, UnavailableError
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, TripState
from gridtravel.gridcore.trips.trip_wishes import HealingRule, TripEvent
from gridtravel.travel_agent.booking.amend import change_trip
from gridtravel.travel_agent.booking.amendment import TripAmendment
from gridtravel.travel_agent.booking.healing_rules import Loss, Remedy, remedy
from gridtravel.travel_agent.booking.two_phase import Booking
from gridtravel.travel_agent.log.trip_log import TripLog
from gridtravel.travel_agent.news import Listener, News, Step
from gridtravel.travel_agent.running.notify import notify_people
from gridtravel.travel_agent.session import GridSession

PATIENCE_S: Final = 120
"""How long a site may be silent before its leg counts as lost."""
ASK_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """What was found wrong, and what came of it."""

    itinerary: Itinerary
    losses: tuple[Loss, ...] = ()
    rule: HealingRule | None = None
    """The rule that helped; ``None``: nothing was wrong, or nothing helped."""
    refusals: Mapping[HealingRule, str] = field(default_factory=dict)
    """Why each rule before it did not."""

    @property
    def is_whole(self) -> bool:
        """True when the trip is as good as its rules can make it."""
        return not self.losses or self.rule is not None


async def heal(
    session: GridSession, wanted_trip: str, listener: Listener, *, patience_s: int = PATIENCE_S
) -> Healed:
    """Look whether every leg can be kept, and mend the trip by its own rules."""
    log = session.open_log(wanted_trip)
    try:
        story = log.story
        if story.state is not TripState.BOOKED or story.is_undoing:
            raise ConflictError(
                f"trip {story.trip_id} is {story.state}: only a booked trip can be healed",
                hint=f"`gur resume {story.trip_id}` finishes what was interrupted",
            )
        await TripAmendment(session, log, listener).settle()
        itinerary = story.itinerary()
        losses = await find_losses(session, itinerary, patience_s)
        for loss in losses.values():
            listener(News(step=Step.NOTE, place=loss.leg.name, text=loss.why))
        if not losses:
            return Healed(itinerary=itinerary)
        if not session.metajob_of(log).healing:
            return await _give_up(session, log, losses, listener)
        return await _try_rules(session, log, losses, listener)
    finally:
        log.close()


async def find_losses(
    session: GridSession, itinerary: Itinerary, patience_s: int
) -> dict[str, Loss]:
    """The legs that cannot be kept, by name; all sites are asked at the same time."""
    found = await asyncio.gather(*(_look(session, leg, patience_s) for leg in itinerary.legs))
    return {each.leg.name: each for each in found if each is not None}


async def _look(session: GridSession, leg: Leg, patience_s: int) -> Loss | None:
    """Ask the leg's site until it answers or the patience is over."""
    clock, port = session.clock, session.connection(leg.machine).site
    until = min(clock.now_precise() + patience_s, float(leg.start))
    while True:
        try:
            kept = await port.reservations(everybody=False)
            lacking = await _lacking(session, leg)
        except UnavailableError as fault:
            if clock.now_precise() >= until:
                why = f"{leg.site} has not answered for {patience_s} s: {fault}"
                return Loss(leg=leg, why=why, is_out_of_reach=True)
            await clock.sleep_until(min(clock.now_precise() + ASK_AGAIN_S, until))
            continue
        mine = next((each for each in kept if each.reservation_id == leg.reservation_id), None)
        if mine is None or mine.state is not ReservationState.COMMITTED:
            state = "unknown there" if mine is None else mine.state.value
            return Loss(leg=leg, why=f"{leg.reservation_id} is {state}", is_gone=True)
        if lacking:
            why = f"{leg.site} lacks {lacking} of its {leg.nodes} nodes"
            return Loss(leg=leg, why=why, nodes_left=max(0, leg.nodes - lacking))
        return None


async def _lacking(session: GridSession, leg: Leg) -> int:
    """Nodes that are missing at its site, as that counts them; a site without the question does
    not know.
    """
    try:
        answer = await session.connection(leg.machine).site.query("shortages", {})
    except (NotFoundError, ConflictError):
        return 0
    known = answer.get("lacking", {}) if isinstance(answer, dict) else {}
    count = known.get(leg.reservation_id or "", 0) if isinstance(known, dict) else 0
    return count if isinstance(count, int) else 0


async def _try_rules(
    session: GridSession, log: TripLog, losses: dict[str, Loss], listener: Listener
) -> Healed:
    refusals: dict[HealingRule, str] = {}
    metajob, itinerary = session.metajob_of(log), log.story.itinerary()
    for rule in metajob.healing:
        found = remedy(rule, metajob, itinerary, losses)
        if found is None:
            refusals[rule] = "the metajob leaves no room for it"
            continue
        refusal = await _try(TripAmendment(session, log, listener), found, losses)
        if refusal is not None:
            refusals[rule] = refusal.message
            listener(News(step=Step.NOTE, text=f"{rule} does not help: {refusal.message}"))
            continue
        healed = log.story.itinerary()
        why = "; ".join(each.why for each in losses.values())
        trip = session.trip_of(log, listener)
        await notify_people(session, trip, TripEvent.HEALED, healed, why=why)
        return Healed(itinerary=healed, losses=tuple(losses.values()), rule=rule, refusals=refusals)
    return Healed(itinerary=itinerary, losses=tuple(losses.values()), refusals=refusals)


async def _try(
    amending: TripAmendment, found: Remedy, losses: Mapping[str, Loss]
) -> Decline | None:
    """Change the trip by one rule; a site that cannot be reached meanwhile is a refusal too."""
    gone = frozenset(each.leg.name for each in losses.values() if each.is_gone)
    reason = f"healing, {found.rule}: " + "; ".join(each.why for each in losses.values())
    try:
        changed = await change_trip(
            amending,
            found.wanted,
            [found.search],
            reason,
            Path(amending.story.base),
            gone=gone,
            may_leave_keepers=True,
        )
    except UnavailableError as fault:
        if amending.story.amendment is not None:
            raise
        return Decline(rule=DeclineRule.NO_ROOM, message=str(fault))
    return changed.decline


async def _give_up(
    session: GridSession, log: TripLog, losses: dict[str, Loss], listener: Listener
) -> Healed:
    """No rule is given: what is left of the trip is cancelled."""
    story, itinerary, trip = log.story, log.story.itinerary(), session.trip_of(log, listener)
    why = "; ".join(each.why for each in losses.values())
    booking = Booking(trip)
    try:
        cancelled = await booking.cancel(itinerary, story.attempt)
    except GridError as fault:
        listener(News(step=Step.NOTE, text=f"not everybody could be told: {fault}"))
        cancelled = itinerary
    await notify_people(session, trip, TripEvent.FAILED, cancelled, why=why)
    return Healed(itinerary=cancelled, losses=tuple(losses.values()))

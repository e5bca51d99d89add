"""A booked trip whose site loses nodes or disappears before the start: ``gur heal``.

What is wrong the sites say themselves; a site that does not answer is lost when the user's patience
is over. Then the metajob's healing rules are tried in order, each as a change of the whole trip
(``amending``), so the old is not let go before the new is held. Where no rule is given the rest is
cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gridcore.errors import ConflictError, GridError, NotFoundError, UnavailableError
from gridcore.itineraries import Itinerary, Leg, TripState
from gridcore.metajobs import Metajob
from gridcore.reservations import Decline, DeclineRule, ReservationState
from gridcore.trip_wishes import HealingRule, TripEvent
from travel_agent.amending import Amending
from travel_agent.changing import change_trip
from travel_agent.healing_rules import Loss, Remedy, remedy
from travel_agent.news import Listener, News, Step
from travel_agent.office import Office
from travel_agent.telling import tell_people
from travel_agent.trip_log import JournaledTripLog

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
    office: Office, wanted_trip: str, listener: Listener, *, patience_s: int = PATIENCE_S
) -> Healed:
    """Look whether every leg can be kept, and mend the trip by its own rules."""
    log = office.open_log(wanted_trip)
    try:
        story = log.story
        if story.state is not TripState.BOOKED or story.is_undoing:
            raise ConflictError(
                f"trip {story.trip_id} is {story.state}: only a booked trip can be healed",
                hint=f"`gur resume {story.trip_id}` finishes what was interrupted",
            )
        await Amending(office, log, listener).settle()
        metajob, itinerary = office.metajob_of(log), story.itinerary()
        losses = await find_losses(office, metajob, itinerary, patience_s)
        for loss in losses.values():
            listener(News(step=Step.NOTE, place=loss.leg.name, text=loss.why))
        if not losses:
            return Healed(itinerary=itinerary)
        if not metajob.healing:
            return await _give_up(office, log, itinerary, losses, listener)
        return await _try_rules(office, log, metajob, losses, listener)
    finally:
        log.close()


async def find_losses(
    office: Office, metajob: Metajob, itinerary: Itinerary, patience_s: int
) -> dict[str, Loss]:
    """The legs that cannot be kept, by name; all sites are asked at the same time."""
    found = await asyncio.gather(*(_look(office, leg, patience_s) for leg in itinerary.legs))
    return {each.leg.name: each for each in found if each is not None}


async def _look(office: Office, leg: Leg, patience_s: int) -> Loss | None:
    """Ask the leg's site until it answers or the patience is over."""
    clock, port = office.clock, office.connection(leg.machine).site
    until = min(clock.now_precise() + patience_s, float(leg.start))
    while True:
        try:
            kept = await port.reservations(everybody=False)
            lacking = await _lacking(office, leg)
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


async def _lacking(office: Office, leg: Leg) -> int:
    """Nodes that are missing at its site, as that counts them; a site without the question does
    not know.
    """
    try:
        answer = await office.connection(leg.machine).site.query("shortages", {})
    except (NotFoundError, ConflictError):
        return 0
    known = answer.get("lacking", {}) if isinstance(answer, dict) else {}
    return int(known.get(leg.reservation_id or "", 0)) if isinstance(known, dict) else 0


async def _try_rules(
    office: Office,
    log: JournaledTripLog,
    metajob: Metajob,
    losses: dict[str, Loss],
    listener: Listener,
) -> Healed:
    refusals: dict[HealingRule, str] = {}
    itinerary = log.story.itinerary()
    for rule in metajob.healing:
        found = remedy(rule, metajob, itinerary, losses)
        if found is None:
            refusals[rule] = "the metajob leaves no room for it"
            continue
        refusal = await _try(office, log, found, losses, listener)
        if refusal is not None:
            refusals[rule] = refusal.message
            listener(News(step=Step.NOTE, text=f"{rule} does not help: {refusal.message}"))
            continue
        healed = log.story.itinerary()
        why = "; ".join(each.why for each in losses.values())
        await tell_people(
            office, log, metajob, TripEvent.HEALED, healed, listener=listener, why=why
        )
        return Healed(itinerary=healed, losses=tuple(losses.values()), rule=rule, refusals=refusals)
    return Healed(itinerary=itinerary, losses=tuple(losses.values()), refusals=refusals)


async def _try(
    office: Office,
    log: JournaledTripLog,
    found: Remedy,
    losses: Mapping[str, Loss],
    listener: Listener,
) -> Decline | None:
    """Change the trip by one rule; a site that cannot be reached meanwhile is a refusal too."""
    gone = frozenset(each.leg.name for each in losses.values() if each.is_gone)
    reason = f"healing, {found.rule}: " + "; ".join(each.why for each in losses.values())
    try:
        changed = await change_trip(
            office,
            log,
            found.wanted,
            [found.search],
            reason,
            Path(),
            listener,
            gone=gone,
            may_leave_keepers=True,
        )
    except UnavailableError as fault:
        if log.story.amendment is not None:
            raise
        return Decline(rule=DeclineRule.NO_ROOM, message=str(fault))
    return changed.decline


async def _give_up(
    office: Office,
    log: JournaledTripLog,
    itinerary: Itinerary,
    losses: dict[str, Loss],
    listener: Listener,
) -> Healed:
    """No rule is given: what is left of the trip is cancelled."""
    story, metajob = log.story, office.metajob_of(log)
    why = "; ".join(each.why for each in losses.values())
    booking = office.booking(metajob, story.trip_id, log, listener)
    try:
        cancelled = await booking.cancel(itinerary, story.attempt, story.acceptors)
    except GridError as fault:
        listener(News(step=Step.NOTE, text=f"not everybody could be told: {fault}"))
        cancelled = itinerary
    await tell_people(office, log, metajob, TripEvent.FAILED, cancelled, listener=listener, why=why)
    return Healed(itinerary=cancelled, losses=tuple(losses.values()))

"""How the stages of a booked pipeline hang together: which comes before which, and which way its
input takes.

Pure functions of a metajob, its destinations and the legs as they are booked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.jobs.handovers import HandedFile, Handover, HandoverGrant
from gridtravel.gridcore.trips.itineraries import InputWay, Itinerary, Leg
from gridtravel.gridcore.trips.metajobs import Metajob, Stage
from gridtravel.travel_agent.sites.destinations import Destination


def stage_of(metajob: Metajob, leg: Leg) -> Stage | None:
    """The stage that a leg is; ``None`` in a trip that is no pipeline."""
    return next((stage for stage in metajob.stages if stage.name == leg.name), None)


def neighbours(metajob: Metajob, itinerary: Itinerary, leg: Leg) -> tuple[Leg | None, Leg | None]:
    """The stages before and behind a leg; ``None`` where there is none."""
    names = [stage.name for stage in metajob.stages]
    if leg.name not in names:
        return None, None
    at = names.index(leg.name)
    before = itinerary.leg(names[at - 1]) if at else None
    after = itinerary.leg(names[at + 1]) if at + 1 < len(names) else None
    return before, after


def input_way(before: Leg, leg: Leg, destinations: Mapping[str, Destination]) -> InputWay:
    """Who moves a stage's input. The receiving site does, wherever it has a way to the other: that
    goes on when the laptop is gone. A site that only this user reaches, or that tells no card,
    cannot be asked by another, and one without an agent asks nobody. A card that is not known here
    yet is no reason to believe that there is none.
    """
    source = destinations[before.machine]
    if not destinations[leg.machine].has_agent:
        return InputWay.LAPTOP
    is_reached = source.endpoint and not source.is_manager and source.card != ""
    if before.site == leg.site or is_reached:
        return InputWay.SITES
    return InputWay.LAPTOP


def with_inputs(
    metajob: Metajob, itinerary: Itinerary, destinations: Mapping[str, Destination]
) -> Itinerary:
    """The trip with the way of the input of each stage that waits for one; no other trip is
    changed.
    """
    legs = []
    for leg in itinerary.legs:
        before = waits_for(metajob, itinerary, leg)
        way = None if before is None else input_way(before, leg, destinations)
        legs.append(replace(leg, input_by=way))
    return replace(itinerary, legs=tuple(legs))


def waits_for(metajob: Metajob, itinerary: Itinerary, leg: Leg) -> Leg | None:
    """The stage whose job must have ended well before this one's may start; ``None`` for the first
    one, and where either is only reserved time.
    """
    before, _ = neighbours(metajob, itinerary, leg)
    pair = [each for each in (before, leg) if each is not None]
    if any(metajob.task_for(each.machine, each.name) is None for each in pair):
        return None
    return before


def handover_of(
    metajob: Metajob, itinerary: Itinerary, leg: Leg, destinations: Mapping[str, Destination]
) -> Handover | None:
    """What the site of ``leg`` has to wait for and to fetch; ``None``: nothing, or it is the
    laptop's to bring. ``UnavailableError`` when the other site has not told its card.
    """
    before, stage = waits_for(metajob, itinerary, leg), stage_of(metajob, leg)
    if before is None or stage is None:
        return None
    if input_way(before, leg, destinations) is not InputWay.SITES:
        return None
    source = destinations[before.machine]
    if before.site != leg.site and not source.card:
        raise UnavailableError(
            f"{before.site} has not told where {leg.site} may fetch the files of {before.name}",
            hint="run `gur resume` when it answers again",
        )
    return Handover(
        leg=before.name,
        site=before.site,
        endpoint="" if before.site == leg.site else source.endpoint,
        card="" if before.site == leg.site else source.card or "",
        files=tuple(
            HandedFile(source=each.source, destination=each.destination) for each in stage.receives
        ),
    )


def grant_of(
    metajob: Metajob, itinerary: Itinerary, leg: Leg, destinations: Mapping[str, Destination]
) -> HandoverGrant | None:
    """What the site of ``leg`` lets the stage behind take; ``None``: nothing, or the laptop takes
    it.
    """
    _, after = neighbours(metajob, itinerary, leg)
    if after is None or waits_for(metajob, itinerary, after) is None:
        return None
    if input_way(leg, after, destinations) is not InputWay.SITES:
        return None
    stage = stage_of(metajob, after)
    paths = () if stage is None else tuple(each.source for each in stage.receives)
    return HandoverGrant(leg=after.name, site=after.site, paths=paths)


def relayed_from(
    metajob: Metajob, itinerary: Itinerary, leg: Leg, destinations: Mapping[str, Destination]
) -> str:
    """The stage whose files the laptop brings to the site of ``leg``; empty: none."""
    before = waits_for(metajob, itinerary, leg)
    if before is None or input_way(before, leg, destinations) is not InputWay.LAPTOP:
        return ""
    return before.name


def check_stages(metajob: Metajob) -> None:
    """Refuse before anything is booked what no stage could do."""
    for before, stage in pairwise(metajob.stages):
        runs = [metajob.task_for(machine, before.name) for machine in before.machines]
        if stage.receives and None in runs:
            raise InputError(
                f"stage {stage.name} receives files of {before.name}, which runs nothing",
                hint=f"give {before.name} a task, or bring the files with stage_in",
            )

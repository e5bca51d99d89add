"""What a trip may become when a leg is lost, rule by rule. Pure: a metajob, its legs and what is
left of them give another metajob, or none where the rule cannot help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg
from gridtravel.gridcore.trips.metajobs import MachineRequest, Metajob, UsagePattern
from gridtravel.gridcore.trips.trip_wishes import HealingRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A leg that its site cannot keep as it was promised."""

    leg: Leg
    why: str
    nodes_left: int = 0
    """What the site can still give at that time."""
    is_gone: bool = False
    """Its reservation has ended, so nothing can replace it."""
    is_out_of_reach: bool = False
    """Its site has not answered for as long as the user was ready to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to try."""

    rule: HealingRule
    wanted: Metajob
    """The metajob that the trip has from then on."""
    search: Metajob
    """The same, with the window in which it is looked for."""


def remedy(
    rule: HealingRule, metajob: Metajob, itinerary: Itinerary, losses: Mapping[str, Loss]
) -> Remedy | None:
    """What ``rule`` makes of the trip; ``None``: it cannot help. ``losses``: by leg."""
    try:
        if rule is HealingRule.MOVE_TRIP:
            away = {each.leg.machine for each in losses.values() if each.is_out_of_reach}
            wanted = _without(metajob, away, losses)
            return None if wanted is None else Remedy(rule=rule, wanted=wanted, search=wanted)
        lost = {each.leg.machine for each in losses.values()}
        if rule is HealingRule.REPLACE_LEG:
            wanted = _without(metajob, lost, losses)
        else:
            wanted = _shrunk(metajob, itinerary, losses)
        if wanted is None:
            return None
        return Remedy(rule=rule, wanted=wanted, search=_at_the_same_time(wanted, itinerary))
    except GridError:
        return None  # it would contradict itself: too few machines, or too few nodes on them


def _without(metajob: Metajob, lost: set[str], losses: Mapping[str, Loss]) -> Metajob | None:
    """The metajob without these machines, for the legs that are lost there."""
    machines = tuple(each for each in metajob.machines if each.machine not in lost)
    if metajob.usage_pattern is not UsagePattern.PIPELINE:
        return replace(metajob, machines=machines) if machines else None
    stages = []
    for stage in metajob.stages:
        loss = losses.get(stage.name)
        if loss is None or loss.leg.machine not in lost:
            stages.append(stage)
            continue
        others = tuple(each for each in stage.machines if each != loss.leg.machine)
        if not others:
            return None
        stages.append(replace(stage, machines=others))
    return replace(metajob, stages=tuple(stages))


def _shrunk(metajob: Metajob, itinerary: Itinerary, losses: Mapping[str, Loss]) -> Metajob | None:
    """Every lost leg does with what is left, down to its machine's minimum."""
    for loss in losses.values():
        request = metajob.machine(loss.leg.machine)
        if request is None or loss.is_gone or not request.accepts(loss.nodes_left):
            return None
    if metajob.usage_pattern is UsagePattern.PIPELINE:
        stages = tuple(
            replace(stage, nodes=losses[stage.name].nodes_left) if stage.name in losses else stage
            for stage in metajob.stages
        )
        total = max(stage.nodes for stage in stages)
        return replace(metajob, stages=stages, nodes_total=total, alternatives=())
    left = {
        leg.machine: losses[leg.name].nodes_left if leg.name in losses else leg.nodes
        for leg in itinerary.legs
    }
    machines = tuple(_at_most(each, left) for each in metajob.machines)
    total = sum(left.values())
    return replace(metajob, machines=machines, nodes_total=total, alternatives=())


def _at_most(request: MachineRequest, left: Mapping[str, int]) -> MachineRequest:
    most = left.get(request.machine)
    return request if most is None else replace(request, nodes_max=most)


def _at_the_same_time(wanted: Metajob, itinerary: Itinerary) -> Metajob:
    """The window that leaves the start where it is. A pipeline's later stages may move behind."""
    start = itinerary.start
    assert start is not None, "the trip is booked"
    if wanted.usage_pattern is UsagePattern.PIPELINE:
        return replace(wanted, earliest_start=start, alternatives=())
    end = start + wanted.duration_s + wanted.guard_s
    return replace(wanted, earliest_start=start, latest_end=end, alternatives=())

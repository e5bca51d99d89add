"""Pipelines among the wishes of a random world: chains over the sites that a wish names.

Drawn from chances of their own, so that a world without them keeps everything else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gridtravel.gridcore.trips.machines import Stage
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern
from gridtravel.simulator.grid.simulated_laptop import LaptopPlan, TripWish
from gridtravel.simulator.kernel.chance import Chance
from gridtravel.travel_agent.booking.amend import TripChange
from gridtravel.travel_agent.choices import SearchChoice

PIPELINES: Final = 0.25
"""Share of the wishes that become pipelines."""
STAGE_MOST_S: Final = 90
TRANSFER_MOST_S: Final = 30


def with_pipelines(chance: Chance, laptop: LaptopPlan, share: float) -> LaptopPlan:
    """Some wishes become chains; a search that probes cannot book them."""
    if laptop.search is SearchChoice.PROBE:
        return laptop
    wishes = []
    for wish in laptop.wishes:
        if not chance.happens(share):
            wishes.append(wish)
            continue
        chain = _as_chain(chance, wish)
        wishes.append(chain if wish.change is None else _moved(chance, chain))
    return replace(laptop, wishes=tuple(wishes))


def _moved(chance: Chance, wish: TripWish) -> TripWish:
    """A chain is changed as a whole: to another time."""
    window = wish.metajob.window
    start = window.start + chance.whole(-60, 400)
    change = TripChange(
        earliest_start=start, latest_end=start + window.duration_s + chance.whole(0, 300)
    )
    return replace(wish, change=change)


def _as_chain(chance: Chance, wish: TripWish) -> TripWish:
    """Its sites one after the other, sometimes back to the first, sometimes with a choice."""
    job = wish.metajob
    places = [(each.machine,) for each in job.machines]
    if chance.happens(0.5):
        places.append(places[0])
    nodes = {each.machine: each.nodes_min for each in job.machines}
    stages = []
    for number, place in enumerate(places):
        machine = place[0]
        others = [each for each in nodes if each != machine and nodes[each] == nodes[machine]]
        stages.append(
            Stage(
                name=f"stage{number}",
                machines=(machine, *others) if chance.happens(0.4) else (machine,),
                nodes=nodes[machine],
                duration_s=chance.whole(20, STAGE_MOST_S),
                transfer_s=chance.whole(0, TRANSFER_MOST_S) if number else 0,
                slack_s=chance.whole(0, 600) if number and chance.happens(0.3) else None,
            )
        )
    span_s = sum(stage.duration_s + stage.transfer_s for stage in stages)
    chain = Metajob(
        name=job.name,
        usage_pattern=UsagePattern.PIPELINE,
        nodes_total=max(stage.nodes for stage in stages),
        machines=job.machines,
        duration_s=job.duration_s,
        earliest_start=job.earliest_start,
        latest_end=job.earliest_start + span_s + chance.whole(0, 900),
        task=job.task,
        stages=tuple(stages),
    )
    return replace(wish, metajob=chain)

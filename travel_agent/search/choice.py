"""The search for one trip: as its user says, or by what its sites can do."""

from __future__ import annotations

from collections.abc import Mapping

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.search.pipeline_sweep import PipelineSweep
from gridtravel.travel_agent.search.probe import Probe
from gridtravel.travel_agent.search.sweep import Search, Sweep
from gridtravel.travel_agent.sites.destinations import Destination
from gridtravel.travel_agent.trip_context import TripContext


def check_search(
    choice: SearchChoice, metajob: Metajob, destinations: Mapping[str, Destination]
) -> None:
    """Refuse a search that cannot look for this trip at these sites, before anybody is asked."""
    mute = next((name for name, each in destinations.items() if each.only_sets), None)
    if choice is SearchChoice.SWEEP and mute is not None:
        raise InputError(
            f"{mute} answers no inquiries: it can only set and cancel reservations",
            hint="use --search probe, or leave --search at auto",
        )
    if metajob.usage_pattern is UsagePattern.PIPELINE and _is_probe(choice, destinations):
        why = f", and {mute} answers no inquiries" if mute is not None else ""
        raise InputError(
            f"the probe search cannot book pipelines{why}",
            hint="use --search sweep, at sites that answer inquiries",
        )


def choose_search(choice: SearchChoice, trip: TripContext) -> Search:
    """The search for one trip; ``check_search`` says before whether it can do it."""
    if _is_probe(choice, trip.destinations):
        return Probe(trip)
    if trip.metajob.usage_pattern is UsagePattern.PIPELINE:
        return PipelineSweep(trip)
    return Sweep(trip)


def _is_probe(choice: SearchChoice, destinations: Mapping[str, Destination]) -> bool:
    if choice is SearchChoice.AUTO:
        return any(each.only_sets for each in destinations.values())
    return choice is SearchChoice.PROBE

"""Races: of the copies of one job exactly one runs (docs/protocol.md, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.simulator.checks.site_ledger import TWICE

if TYPE_CHECKING:
    from gridtravel.simulator.checks.checked_world import CheckedWorld

WON: Final = "one copy of a race runs"
ENDED: Final = "every job ends"


def check_races(world: CheckedWorld) -> dict[str, str]:
    """At most one copy of each race ran, one did of each that was booked and not called off, and
    none is left; where each ran, or ``ABSENT``.
    """
    ran: dict[str, list[str]] = {}
    for site in world.sites.values():
        for job in site.ledger.jobs.values():
            if not job.race:
                continue
            winners = ran.setdefault(job.race, [])
            if job.is_running:
                winners.append(site.name)
            if job.over is None:
                text = f"{site.name}: {job.job_id}, a copy of {job.race}, is not over"
                world.event_log.broken(ENDED, text, job.race)
    for trip_id, winners in ran.items():
        if len(winners) > 1:
            text = f"{trip_id} ran at {' and '.join(winners)}"
            world.event_log.broken(TWICE, text, trip_id)
    for laptop in world.laptops.values():
        for trip_id, story in laptop.stories().items():
            was_booked = story.copies and story.state in (TripState.BOOKED, TripState.COMPLETED)
            if was_booked and not ran.get(trip_id):
                world.event_log.broken(WON, f"{trip_id} ran nowhere", trip_id)
            if story.copies and not was_booked and not laptop.is_lost and ran.get(trip_id):
                text = f"{trip_id} is {story.state} there, it ran at {ran[trip_id][0]}"
                world.event_log.broken(WON, text, trip_id)
    return {trip_id: "BOOKED" if winners else "ABSENT" for trip_id, winners in ran.items()}

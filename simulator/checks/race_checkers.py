"""Races: of all copies of one job at most one runs (docs/protocol.md, section 5).

Where somebody lies only races of honest owners are looked at, and of these the copies at honest
sites. A race whose outcome a lying site keeps is counted apart, whatever became of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gridtravel.agents.jobs.runner import RACE_TOO_LATE
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.simulator.checks.site_ledger import TWICE

if TYPE_CHECKING:
    from gridtravel.simulator.checks.checked_world import CheckedWorld
    from gridtravel.simulator.checks.site_ledger import JobEntry
    from gridtravel.travel_agent.log.trip_log import TripStory

ONE_RUNS: Final = "of a race one copy runs"
ENDED: Final = "every job ends"


def check_races(world: CheckedWorld) -> None:
    """Everybody has travelled. Never two copies; and one, where the user did not call the race off
    and no site of it lies, unless a copy came too late or was lost with its machine.
    """
    for laptop in world.laptops.values():
        if laptop.name in world.liars:
            continue
        undone = laptop.undone_s()
        for trip_id, story in laptop.stories().items():
            if story.copies:
                _check_race(world, story, is_undone=trip_id in undone)


def _check_race(world: CheckedWorld, story: TripStory, *, is_undone: bool) -> None:
    counts = world.event_log.counts
    copies = _copies(world, story.trip_id)
    ran = [each.job_id for each in copies if each.running_s is not None]
    if world.liars & {each.site for each in story.race_acceptors}:
        counts[f"races kept by a liar: {min(len(ran), 2)} copies ran"] += 1
        return
    counts[f"races: {min(len(ran), 2)} copies ran"] += 1
    if len(ran) > 1:
        world.event_log.broken(ONE_RUNS, f"{story.trip_id}: {ran} ran", story.trip_id)
    is_won_elsewhere = bool(world.liars & set(story.copy_sites))
    if ran or is_undone or is_won_elsewhere or story.state is not TripState.BOOKED:
        return
    ends = [each.over for each in copies if each.over is not None]
    is_explained = any(
        each.reason == RACE_TOO_LATE or each.state is JobState.FAILED for each in ends
    )
    if not is_explained:
        reasons = [each.reason for each in ends]
        world.event_log.broken(ONE_RUNS, f"{story.trip_id}: none ran: {reasons}", story.trip_id)


def _copies(world: CheckedWorld, trip_id: str) -> list[JobEntry]:
    """At honest sites, of the race's own owner: others cannot queue any under its name there."""
    return [
        entry
        for site in world.sites.values()
        if site.name not in world.liars
        for entry in site.ledger.jobs.values()
        if entry.race is not None
        and entry.race.trip_id == trip_id
        and entry.request[0] not in world.liars
    ]


def outcomes_of_races(world: CheckedWorld) -> dict[str, str]:
    """Of races among honest parties, once all is over: at most one copy ran, one did where a race
    was booked and not called off, and no copy is left. Where each ran, or ``ABSENT``.
    """
    ran: dict[str, list[str]] = {}
    for site in world.sites.values():
        for job in site.ledger.jobs.values():
            if job.race is None:
                continue
            race = job.race.trip_id
            winners = ran.setdefault(race, [])
            if job.running_s is not None:
                winners.append(site.name)
            if job.over is None:
                text = f"{site.name}: {job.job_id}, a copy of {race}, is not over"
                world.event_log.broken(ENDED, text, race)
    for trip_id, winners in ran.items():
        if len(winners) > 1:
            text = f"{trip_id} ran at {' and '.join(winners)}"
            world.event_log.broken(TWICE, text, trip_id)
    for laptop in world.laptops.values():
        for trip_id, story in laptop.stories().items():
            was_booked = story.copies and story.state in (TripState.BOOKED, TripState.COMPLETED)
            if was_booked and not ran.get(trip_id):
                world.event_log.broken(ONE_RUNS, f"{trip_id} ran nowhere", trip_id)
            if story.copies and not was_booked and not laptop.is_lost and ran.get(trip_id):
                text = f"{trip_id} is {story.state} there, it ran at {ran[trip_id][0]}"
                world.event_log.broken(ONE_RUNS, text, trip_id)
    return {trip_id: "BOOKED" if winners else "ABSENT" for trip_id, winners in ran.items()}

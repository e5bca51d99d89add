"""What a site, a manager and a laptop know again when they start from their journals: all of it, as
plain JSON under names of our own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from gridtravel.agents.node_agent import NodeAgent
from gridtravel.gridio.journal.contract import Record
from gridtravel.manager.calendar_manager import CalendarManager
from gridtravel.travel_agent.log.trip_log import TripStory
from tests.oracles.frozen_files import digest
from tests.oracles.plain_values import plain


def found_records(records: Iterable[Record]) -> dict[str, Any]:
    """What is stored, before anybody looks into it."""
    kept = list(records)
    return {
        "kinds": dict(sorted(Counter(each.kind for each in kept).items())),
        "digest": digest([[each.kind, each.at, each.body.decode("ascii")] for each in kept]),
    }


def state_of_agent(agent: NodeAgent, now: int) -> dict[str, Any]:
    """A site's book, jobs, votes and what it knows of itself; free room from ``now`` on."""
    calendar, jobs, site = agent.calendar, agent.jobs, agent.state
    calendar.advance(now)
    return {
        "reservations": plain(calendar.reservations),
        "finished at": plain(calendar.finished_at),
        "buried requests": plain(calendar.tombstoned),
        "ids given": [calendar.ids_given, jobs.ids_given],
        "free room": {name: plain(profile.steps()) for name, profile in calendar.free.items()},
        "jobs": plain(jobs.views),
        "rooms of jobs": plain(jobs.booked_until),
        "jobs inside": plain(jobs.runs_inside),
        "jobs of reservations": plain(jobs.bound_jobs),
        "reservations of jobs": plain(jobs.bound_reservations),
        "classes of jobs": plain(jobs.classes),
        "executions of jobs": {each: jobs.execution_id(each) for each in jobs.views},
        "held jobs": plain(jobs.held),
        "boosts": plain(jobs.boosts),
        "struck jobs": plain(jobs.on_failed_node),
        "jobs awaiting files": sorted(jobs.awaiting),
        "jobs of holds": plain(jobs.legs.held),
        "jobs that came with holds": plain(jobs.legs.bound),
        "inputs lacking": {
            each: plain(jobs.legs.lacking(v.spec)) for each, v in jobs.views.items()
        },
        "trips": plain(agent.trips.registers.registers),
        "legs that run": plain(agent.trips.runs),
        "votes": plain(agent.trips.registers.states),
        "mode": site.mode.value,
        "nodes down": plain(site.nodes_down),
        "skipped instances": plain(site.skipped),
        "notices": plain(site.notices),
        "hooks begun": plain(site.begun),
        "fixed nodes": plain(site.fixed),
        "access": plain(site.access),
        "standing": plain(site.standing),
        "places told": plain(site.told),
    }


def state_of_manager(manager: CalendarManager) -> dict[str, Any]:
    """A manager's groups, debts and balance of trade."""
    book = manager.book
    return {
        "groups": plain(book.groups),
        "successors": {each: book.successor_of(each) for each in book.groups},
        "asked": plain(book.asked),
        "owed": plain(book.owed),
        "finished at": plain(book.finished_at),
        "buried requests": plain(book.tombstoned),
        "ids given": book.opened,
        "trade": plain(book.trade.accounts()),
    }


def state_of_trip(story: TripStory) -> dict[str, Any]:
    """A trip as the laptop remembers it."""
    return {
        "trip": story.trip_id,
        "name": story.name,
        "metajob": digest(story.metajob_json),
        "state": story.state.value,
        "folder": story.base,
        "attempts": [story.attempt.number, story.attempts],
        "attempt": [story.attempt.nonce, story.attempt.asked_at],
        "legs": plain(story.legs),
        "asked": plain(story.asked),
        "probes": plain(story.probes),
        "acceptors": plain(story.attempt.acceptors or story.race_acceptors),
        "race": [plain(story.copies), story.race_ends_at],
        "sites of the race": plain(story.copy_sites),
        "undoing": story.is_undoing,
        "message": story.message,
        "files sent": plain(story.staged),
        "amended": story.is_amended,
        "amendment": plain(story.amendment),
        "dropped": plain(story.dropped),
        "people told": sorted(story.told),
        "itinerary": plain(story.itinerary()),
    }

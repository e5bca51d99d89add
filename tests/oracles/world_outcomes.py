"""What is left of a simulated world, as counts and ledgers: what each site's disk says it promised,
what its calendar still held at the end, what became of each trip, what each user was told, and how
many messages it took.

No words of a story, no name of a class: a change that only moves code changes nothing in here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.world import World, WorldPlan, WorldRecord, WorldTypes
from gridtravel.simulator.kernel.virtual_loop import run_virtual
from tests.oracles.frozen_files import columns, digest
from tests.oracles.plain_values import plain

if TYPE_CHECKING:
    from gridtravel.gridcore.booking.reservations import Reservation
    from gridtravel.simulator.grid.simulated_laptop import SimulatedLaptop
    from gridtravel.simulator.grid.simulated_site import SimulatedSite
    from gridtravel.simulator.kernel.virtual_loop import VirtualLoop

SITES_MOST: Final = 20
LOSS: Final = 0.5
"""Both as ``gurlab torture`` has them when nobody says otherwise."""
NAMES: Final = (
    *("sites", "users", "booked", "absent", "torn", "promises", "jobs", "messages", "faults"),
    *("broken", "books", "trips", "traffic"),
)
WIDTHS: Final = (5, 5, 6, 6, 4, 8, 4, 8, 6, 6, 8, 8, 8)
SECOND_DIGITS: Final = 6
"""Virtual time is exact to the microsecond."""


def line_of(seed: int) -> str:
    """The world of this seed in one line: counts, then three digests."""
    return columns(row_of(outcome_of(random_plan(seed, sites_most=SITES_MOST, loss=LOSS))), WIDTHS)


def heading() -> str:
    """What stands over the lines."""
    return f"seed  {columns(NAMES, WIDTHS)}"


def key_of(seed: int) -> str:
    """The beginning of a line."""
    return f"{seed:04}"


def row_of(outcome: dict[str, Any]) -> list[object]:
    """The columns of a line."""
    trips = Counter(each["outcome"] for each in outcome["trips"]["by the books"].values())
    sites = outcome["books"].values()
    return [
        len(sites),
        len(outcome["trips"]["users"]),
        *(trips[each] for each in ("BOOKED", "ABSENT", "TORN")),
        sum(len(each["promises"]) for each in sites),
        sum(len(each["jobs"]) for each in sites),
        sum(outcome["traffic"]["messages"].values()),
        sum(outcome["traffic"]["faults"]),
        outcome["broken"],
        *(digest(outcome[part]) for part in ("books", "trips", "traffic")),
    ]


def outcome_of(plan: WorldPlan) -> dict[str, Any]:
    """Live the world, and look at it before its end is cleared up."""

    async def main(loop: VirtualLoop) -> dict[str, Any]:
        world = World(plan, loop, WorldTypes())
        record = await world.live()
        return {
            "books": {name: _site(site) for name, site in world.sites.items()},
            "trips": {
                "by the books": {
                    trip_id: {"outcome": outcome} for trip_id, outcome in record.outcomes.items()
                },
                "users": {name: _user(laptop) for name, laptop in world.laptops.items()},
            },
            "traffic": _traffic(record),
            "broken": len(record.event_log.violations),
        }

    return run_virtual(main)


def _site(site: SimulatedSite) -> dict[str, Any]:
    """By the checkers' ledger of its disk; and what its living agent still knows."""
    agent = site.agent
    return {
        "nodes": site.plan.nodes,
        "starts": site.starts,
        "promises": {
            key: _reservation(promise.reservation)
            | {"life": [[_second(at), state.value] for at, state in promise.history]}
            for key, promise in site.ledger.promises.items()
        },
        "jobs": {
            key: {
                "request": list(job.request),
                "nodes": job.nodes,
                "inside": job.reservation_id,
                "start": job.starting and [job.starting.at, list(job.starting.node_names)],
                "stored": [_second(job.started_s), _second(job.over_s)],
                "over": job.over and [job.over.at, job.over.state.value, job.over.exit_code],
            }
            for key, job in site.ledger.jobs.items()
        },
        "released": sorted(site.ledger.released),
        "held in the end": None
        if agent is None
        else {
            "reservations": {
                key: _reservation(each) | {"state": each.state.value}
                for key, each in agent.calendar.reservations.items()
            },
            "finished": plain(agent.calendar.finished_at),
            "buried": plain(agent.calendar.tombstoned),
            "votes": plain(agent.trips.registers.states),
        },
    }


def _reservation(reservation: Reservation) -> dict[str, Any]:
    request, trip = reservation.request, reservation.request.trip
    return {
        "owner": reservation.owner,
        "request": request.request_id,
        "class": reservation.resource_class,
        "nodes": reservation.nodes,
        "from": reservation.start,
        "until": reservation.end,
        "price": reservation.price_millicredits,
        "replaces": request.replaces,
        "trip": trip and [trip.trip_id, trip.leg, trip.attempt, list(trip.participants)],
    }


def _user(laptop: SimulatedLaptop) -> dict[str, Any]:
    """What he was told, and what his laptop's logs say."""
    return {
        "lost": laptop.is_lost,
        "starts": laptop.starts,
        "told": [
            [each.trip_id, each.name, each.state and each.state.value, each.is_amended]
            for each in laptop.told
        ],
        "logs": {
            trip_id: {
                "state": story.state.value,
                "attempts": [story.attempt.number, story.attempts],
                "undoing": story.is_undoing,
                "legs": [
                    [
                        *(leg.name, leg.site, leg.reservation_id, plain(leg.interval)),
                        *(leg.nodes, leg.job_id, leg.state.value),
                    ]
                    for leg in story.legs
                ],
            }
            for trip_id, story in laptop.stories().items()
        },
    }


def _traffic(record: WorldRecord) -> dict[str, Any]:
    """Messages by verb, which is a word of the wire; of all else the numbers alone."""
    event_log = record.event_log
    return {
        "messages": dict(sorted(event_log.messages.items())),
        "faults": sorted(event_log.faults.values()),
        "counts": sorted(event_log.counts.values()),
        "doubt": _second(record.doubt_longest_s),
        "lasted": _second(record.lasted_s),
    }


def _second(at_s: float | None) -> float | None:
    return None if at_s is None else round(at_s, SECOND_DIGITS)

"""What must be true of a world once it is quiet, and once everybody has travelled.

Beside these, ``site_ledger`` checks each record when it is stored, each answer when it leaves and
each job when it is launched; ``trip_checkers`` looks at trips as wholes. A broken promise becomes a
``Violation`` of the event log; no checker raises.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.trips.registers import REGISTERS_MAX, STRANGE_VOTES_MAX
from gridtravel.gridio.sites.publishing import HEARTBEAT_S
from gridtravel.simulator.checks.race_checkers import check_races
from gridtravel.simulator.checks.site_ledger import COMMITTED, EARLY, HELD, OVER_COMMITTED
from gridtravel.simulator.checks.trip_checkers import check_logs, check_status, check_trips
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN

if TYPE_CHECKING:
    from gridtravel.simulator.checks.checked_world import LivingSite, LivingWorld
    from gridtravel.simulator.checks.site_ledger import Promise

REPLAYED: Final = "the journal replays to the live state"
RESOLVED: Final = "every hold ends"
HOLD_TTL_MOST_S: Final = 60
"""No traveller of these worlds asks for a longer lifetime of a hold."""
DOUBT_SLACK_S: Final = 60.0
"""For a round of questions that is under way when a doubt's time is over."""
PAID: Final = "accounts pay for what was kept, and for nothing else"
BOUNDED: Final = "what one caller can leave behind has a bound"
CONVERGED: Final = "shadows converge"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietWorld:
    """What a world has come to once it is quiet."""

    outcomes: dict[str, str]
    """What became of each trip, by the sites' books."""
    doubt_longest_s: float
    """Longest time from a hold to its outcome."""


async def check_quiet(world: LivingWorld) -> QuietWorld:
    """Storm and commands are over, no job of a trip has to have run yet."""
    doubt_longest_s = 0.0
    for site in honest_sites(world):
        doubt_longest_s = max(doubt_longest_s, _check_holds(world, site))
        check_replay(world, site)
    outcomes = check_trips(world, is_final=False)
    check_logs(world)
    await check_status(world)
    return QuietWorld(outcomes=outcomes, doubt_longest_s=doubt_longest_s)


def check_travelled(world: LivingWorld) -> None:
    """Every reservation's time is over."""
    for site in honest_sites(world):
        check_replay(world, site)
        _check_ends(world, site)
        _check_bounds(world, site)
        _check_machine(world, site)
        _check_accounts(world, site)
    for watcher in world.watchers:
        since_s = world.loop.time() - (watcher.agreed_at or 0.0)
        if watcher.agreed_at is None or since_s > 3 * HEARTBEAT_S:
            world.event_log.broken(
                CONVERGED, f"{watcher.name} has not agreed with its owner for {since_s:.0f} s"
            )
    check_trips(world, is_final=True)
    check_races(world)


def honest_sites(world: LivingWorld) -> list[LivingSite]:
    """Those of which anything is promised."""
    return [site for name, site in world.sites.items() if name not in world.liars]


def _check_ends(world: LivingWorld, site: LivingSite) -> None:
    """The room of every hold has come back, whoever's it was."""
    for key, promise in site.ledger.promises.items():
        if promise.state is HELD:
            world.event_log.broken(RESOLVED, f"{site.name}: {key} is held for ever", site.name, key)
        ended_s, begun_s = promise.ended_at, promise.since(HELD)
        if ended_s is None or begun_s is None:
            continue
        assert site.agent is not None, "it is back"
        rules = site.agent.calendar.rules
        ttl_s = min(rules.hold_ttl_max_s, HOLD_TTL_MOST_S)
        longest_s = ttl_s + rules.doubt_max_s + DOUBT_SLACK_S
        if ended_s - begun_s > longest_s and not world.was_away(site.name, begun_s, ended_s):
            world.event_log.broken(
                RESOLVED,
                f"{site.name}: {key} was in doubt for {ended_s - begun_s:.0f} s",
                site.name,
                key,
            )


def _check_accounts(world: LivingWorld, site: LivingSite) -> None:
    """No credits were made or lost, whoever died when; and every promise of which the disk tells
    has paid what its life came to, by sums of our own.
    """
    accounts = site.accounts
    try:
        accounts.check()
    except GridError as fault:
        world.event_log.broken(PAID, f"{site.name}: {fault}", site.name)
    due: dict[str, int] = {}
    for key, promise in site.ledger.promises.items():
        begin, end = promise.reservation.start, promise.reservation.end
        until = end if promise.state is ReservationState.COMPLETED else promise.released_at
        if promise.was(COMMITTED) and until is not None:
            used_s = max(0, min(until, end) - begin)
            price = promise.reservation.price_millicredits
            due[f"reservation/{key}"] = -(-price * used_s // (end - begin))
    for reference, hold in accounts.open_holds().items():
        if not reference.startswith("job/"):
            world.event_log.broken(PAID, f"{site.name}: {hold} is open for ever", site.name)
    for reference, amount in due.items():
        paid = accounts.hold_of(reference)
        if paid is None or paid.charged != amount:
            world.event_log.broken(
                PAID, f"{site.name}: {reference} came to {amount}, {paid} was paid", site.name
            )
    world.event_log.counts["promises paid"] += len(due)


def _check_bounds(world: LivingWorld, site: LivingSite) -> None:
    """Nobody has more on record at a site than its limits say."""
    assert site.agent is not None, "it is back"
    registers = site.agent.trips.registers
    owned = Counter(each.owner for each in registers.registers.values())
    strange = Counter(each.asked_by for each in registers.states.values() if each.asked_by)
    for what, counts, most in (
        ("registers", owned, REGISTERS_MAX),
        ("votes on unknown trips", strange, STRANGE_VOTES_MAX),
    ):
        for who, count in counts.items():
            if count > most:
                world.event_log.broken(
                    BOUNDED, f"{site.name}: {count} {what} of {who}, {most} at most", site.name
                )


def _check_holds(world: LivingWorld, site: LivingSite) -> float:
    """Nobody is left in doubt; how long it took at the most."""
    longest_s = 0.0
    for promise in site.ledger.promises.values():
        begun, ended = promise.since(HELD), promise.ended_at
        if begun is None:
            continue
        if ended is None and _may_stay_in_doubt(world, promise):
            world.event_log.counts["holds of liars still in doubt"] += 1
        elif ended is None:
            key = promise.reservation.reservation_id
            world.event_log.broken(RESOLVED, f"{site.name}: {key} is still held", site.name, key)
        else:
            longest_s = max(longest_s, ended - begun)
    return longest_s


def _may_stay_in_doubt(world: LivingWorld, promise: Promise) -> bool:
    """A liar's own hold, or one of a trip that a liar keeps, is in doubt until the site's limit."""
    trip = promise.reservation.request.trip
    keepers = {each.site for each in trip.acceptors} if trip is not None else set()
    return promise.is_of(world.liars) or bool(keepers & world.liars)


def check_replay(world: LivingWorld, site: LivingSite) -> None:
    """Start an agent from a copy of the disk; it must know what the living one knows, and both what
    the checkers' ledger says.
    """
    agent = site.agent
    if agent is None:
        world.event_log.broken("everybody comes back", f"{site.name} is down", site.name)
        return
    kept, again = _state_of(agent), _state_of(site.restarted())
    for name, value in kept.items():
        if again[name] != value:
            world.event_log.broken(
                REPLAYED,
                f"{site.name}: {name} differ: {_difference(value, again[name])}",
                site.name,
            )
    for key, promise in site.ledger.promises.items():
        known = agent.calendar.reservations.get(key)
        if known is not None and known.state is not promise.state:
            world.event_log.broken(
                REPLAYED,
                f"{site.name}: {key} is {known.state}, on the disk {promise.state}",
                site.name,
                key,
            )


def _state_of(agent: Any) -> dict[str, Any]:
    """All that an agent must know again after a restart."""
    calendar, jobs = agent.calendar, agent.jobs
    return {
        "reservations": calendar.reservations,
        "tombstones": calendar.finished_at,
        "buried requests": calendar.tombstoned,
        "jobs": jobs.views,
        "rooms of jobs": jobs.booked_until,
        "jobs inside": jobs.runs_inside,
        "bound jobs": jobs.bound_jobs,
        "bound reservations": jobs.bound_reservations,
        "votes": agent.trips.registers.states,
        "registers": agent.trips.registers.registers,
        "legs that run": agent.trips.runs,
    }


def _difference(live: Any, again: Any) -> str:
    keys = [key for key in {**live, **again} if live.get(key) != again.get(key)]
    return "; ".join(f"{key}: {live.get(key)} and {again.get(key)}" for key in keys[:2])


def _check_machine(world: LivingWorld, site: LivingSite) -> None:
    """By the machine itself: no node ran two tasks at once, none of them began too early."""
    uses = site.uses()
    for use in uses:
        entry = site.ledger.jobs.get(use.job_id)
        inside = entry and entry.starting and entry.starting.reservation_id
        promise = site.ledger.promises.get(inside or "")
        if promise is None:
            continue
        if use.begun < promise.reservation.start or not promise.was(COMMITTED):
            world.event_log.broken(
                EARLY, f"{site.name}: {use.job_id} ran from {use.begun:.3f}", site.name, use.job_id
            )
        begun_s = use.begun - WORLD_BEGIN - site.clock.offset_s()
        released_s = promise.since(ReservationState.RELEASED)
        if released_s is not None and begun_s > released_s + 1.0 and not site.has_clock_steps:
            world.event_log.broken(
                EARLY,
                f"{site.name}: {use.job_id} ran in a reservation that had been released",
                site.name,
                use.job_id,
            )
    if site.has_clock_steps:
        return  # Its own clock says when tasks ran; after a step those times cannot be compared.
    for number, use in enumerate(uses):
        for other in uses[:number]:
            shared = [each for each in use.nodes if each in other.nodes]
            if shared and use.begun < other.ended and other.begun < use.ended:
                text = f"{use.job_id} and {other.job_id} ran on {shared[0]} at the same time"
                world.event_log.broken(OVER_COMMITTED, f"{site.name}: {text}", site.name)

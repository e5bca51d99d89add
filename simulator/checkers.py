"""What must be true of a world once it is quiet, and once everybody has travelled.

Beside these, ``site_ledger`` checks each record when it is stored, each answer when it leaves and
each job when it is launched; ``trip_checkers`` looks at trips as wholes. A broken promise becomes a
``Violation`` of the chronicle; no checker raises.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from agents.job_table import JobTable
from gridcore.calendar_rules import ResourceClass
from gridcore.reservations import ReservationState
from gridio.ids import SeededIds
from gridio.journal_memory import Disk, MemoryJournal
from gridio.publishing import HEARTBEAT_S
from local_sched.scheduler_config import SchedulerConfig
from local_sched.site_scheduler import site_scheduler
from simulator.simulated_site import CLASS_NAME
from simulator.site_ledger import COMMITTED, EARLY, HELD, OVER_COMMITTED
from simulator.trip_checkers import check_logs, check_status, check_trips
from simulator.virtual_clock import WORLD_BEGIN

if TYPE_CHECKING:
    from simulator.simulated_site import SimulatedSite
    from simulator.worlds import World, WorldRecord

REPLAYED: Final = "the journal replays to the live state"
RESOLVED: Final = "every hold ends"
CONVERGED: Final = "shadows converge"


async def check_quiet(world: World, record: WorldRecord) -> None:
    """Storm and commands are over, no job of a trip has to have run yet."""
    for site in world.sites.values():
        _check_holds(world, site, record)
        check_replay(world, site)
    check_trips(world, record, is_final=False)
    check_logs(world)
    await check_status(world)


def check_travelled(world: World, record: WorldRecord) -> None:
    """Every reservation's time is over."""
    for site in world.sites.values():
        check_replay(world, site)
        _check_machine(world, site)
    for watcher in world.watchers:
        since_s = world.loop.time() - (watcher.agreed_at or 0.0)
        if watcher.agreed_at is None or since_s > 3 * HEARTBEAT_S:
            world.chronicle.broken(
                CONVERGED, f"{watcher.name} has not agreed with its owner for {since_s:.0f} s"
            )
    check_trips(world, record, is_final=True)


def _check_holds(world: World, site: SimulatedSite, record: WorldRecord) -> None:
    """Nobody is left in doubt; how long it took at the most."""
    for promise in site.ledger.promises.values():
        begun, ended = promise.since(HELD), promise.ended_at
        if begun is None:
            continue
        if ended is None:
            key = promise.reservation.reservation_id
            world.chronicle.broken(RESOLVED, f"{site.name}: {key} is still held", site.name, key)
        else:
            record.doubt_longest_s = max(record.doubt_longest_s, ended - begun)


def check_replay(world: World, site: SimulatedSite) -> None:
    """Start an agent from a copy of the disk; it must know what the living one knows, and both what
    the checkers' ledger says.
    """
    agent = site.agent
    if agent is None:
        world.chronicle.broken("everybody comes back", f"{site.name} is down", site.name)
        return
    disk = Disk(ids=SeededIds(0))
    disk.records = list(site.disk.records)
    live = agent.parts
    calendar = site.calendar_type(
        site.name,
        [ResourceClass(name=CLASS_NAME, nodes=site.plan.nodes)],
        rules=live.calendar.rules,
    )
    twin = site.agent_type(
        replace(
            live,
            calendar=calendar,
            scheduler=site_scheduler(calendar, SchedulerConfig()),
            jobs=JobTable(site.name),
            journal=MemoryJournal(disk),
        )
    )
    twin.replay()
    kept, again = _state_of(agent), _state_of(twin)
    for name, value in kept.items():
        if again[name] != value:
            world.chronicle.broken(
                REPLAYED,
                f"{site.name}: {name} differ: {_difference(value, again[name])}",
                site.name,
            )
    for key, promise in site.ledger.promises.items():
        known = agent.calendar.reservations.get(key)
        if known is not None and known.state is not promise.state:
            world.chronicle.broken(
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
        "buried requests": calendar.buried,
        "jobs": jobs.views,
        "rooms of jobs": jobs.room_until,
        "jobs inside": jobs.runs_inside,
        "bound jobs": jobs.bound_jobs,
        "bound reservations": jobs.bound_reservations,
        "votes": agent.trips.states,
    }


def _difference(live: Any, again: Any) -> str:
    keys = [key for key in {**live, **again} if live.get(key) != again.get(key)]
    return "; ".join(f"{key}: {live.get(key)} and {again.get(key)}" for key in keys[:2])


def _check_machine(world: World, site: SimulatedSite) -> None:
    """By the machine itself: no node ran two tasks at once, none of them began too early."""
    uses: list[tuple[float, float, str, tuple[str, ...]]] = []
    for job_id, launch in site.machine.launches.items():
        task = site.machine.task(job_id)
        if task.started is None:
            continue
        begun = task.started.at
        ended = task.ended.at if task.ended is not None else site.clock.now_precise()
        uses.append((begun, ended, job_id, launch.node_names))
        entry = site.ledger.jobs.get(job_id)
        inside = entry and entry.starting and entry.starting.reservation_id
        promise = site.ledger.promises.get(inside or "")
        if promise is None:
            continue
        if begun < promise.reservation.start or not promise.was(COMMITTED):
            world.chronicle.broken(
                EARLY, f"{site.name}: {job_id} ran from {begun:.3f}", site.name, job_id
            )
        begun_s = begun - WORLD_BEGIN - site.clock.offset_s()
        released_s = promise.since(ReservationState.RELEASED)
        if released_s is not None and begun_s > released_s + 1.0 and not site.plan.clock_steps:
            world.chronicle.broken(
                EARLY,
                f"{site.name}: {job_id} ran in a reservation that had been released",
                site.name,
                job_id,
            )
    if site.plan.clock_steps:
        return  # Its own clock says when tasks ran; after a step those times cannot be compared.
    for number, (begun, ended, job_id, nodes) in enumerate(uses):
        for begun_2, ended_2, job_id_2, nodes_2 in uses[:number]:
            shared = [each for each in nodes if each in nodes_2]
            if shared and begun < ended_2 and begun_2 < ended:
                world.chronicle.broken(
                    OVER_COMMITTED,
                    f"{site.name}: {job_id} and {job_id_2} ran on {shared[0]} at the same time",
                    site.name,
                )

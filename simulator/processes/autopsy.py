"""What was promised, kept and lost, when every daemon is dead: the same checkers as the
simulation's, over the journals of real sites and laptops, and what only real processes show.

Beside the simulation's rules: each leg's program itself wrote down when it began; what a laptop's
log says was acknowledged must stand in the sites' journals; and a site whose journal was cut must
have refused to start, or said by itself that promises may be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gridtravel.agents.journal.events import JobOver, JobRunning, JobStarting
from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.trips.itineraries import Leg
from gridtravel.simulator.checks.begin_checkers import TOGETHER
from gridtravel.simulator.checks.group_checkers import check_groups
from gridtravel.simulator.checks.race_checkers import outcomes_of_races
from gridtravel.simulator.checks.site_ledger import (
    ACKNOWLEDGED,
    COMMITTED,
    EARLY,
    HELD,
    OVER_COMMITTED,
    TWICE,
)
from gridtravel.simulator.checks.trip_checkers import (
    SHOWN,
    TORN,
    check_logs,
    check_shown,
    check_trips,
    trips_of,
)
from gridtravel.simulator.kernel.event_log import Violation
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from gridtravel.simulator.processes.crash_trips import NO_INPUT
from gridtravel.simulator.processes.found_books import TRIP_NAME, FoundSite, FoundWorld, trips_in
from gridtravel.travel_agent.log.events import JobSubmitted, RaceOpened, TripBooked, TripDecided

if TYPE_CHECKING:
    from gridtravel.simulator.processes.disks import Cut
    from gridtravel.simulator.processes.laptops import LiveLaptop

OWNED_UP: Final = "a cut journal is owned up to"
CUT_OFF: Final = "CUT"
"""What became of a trip that is torn because a journal was cut."""
RESOLVED: Final = "every hold ends"
FED: Final = "what begins has its input"


@dataclass(frozen=True, slots=True)
class Finding:
    """All that was found."""

    broken: list[Violation]
    excused: list[Violation]
    """Of trips that a cut journal had lost something of: what was cut off is gone."""
    outcomes: dict[str, str]
    doubt_longest_s: dict[str, float]
    """By trip, from a hold to its end; but for those whose end a cut may have taken away."""


def examine(world: FoundWorld, cuts: Sequence[Cut], evidence: Path) -> Finding:
    """Every check, on what everybody left."""
    check_trips(world, is_final=True)
    check_logs(world)
    races = outcomes_of_races(world)
    for manager in world.managers:
        check_groups(world, manager.name, manager.ledger)
    for laptop in world.laptops.values():
        _check_told(world, laptop)
        if laptop.shown is not None and laptop.trip_id not in races:
            check_shown(world, laptop.trip_id, laptop.shown)
        _check_acknowledged(world, laptop)
    for site in world.sites.values():
        _check_holds(world, site)
        _check_starts(world, site)
    _check_evidence(world, evidence)
    touched: set[str] = set()
    for cut in cuts:
        _check_cut(world, cut)
        touched |= trips_in(cut)
    broken: list[Violation] = []
    excused: list[Violation] = []
    for violation in world.event_log.violations:
        is_excused = violation.rule != OWNED_UP and touched.intersection(violation.about)
        (excused if is_excused else broken).append(violation)
    outcomes = {trip_id: books.outcome() for trip_id, books in trips_of(world).items()} | races
    for trip_id in touched:
        if outcomes.get(trip_id) == TORN:
            outcomes[trip_id] = CUT_OFF
    doubts = {trip_id: each for trip_id, each in _doubts(world).items() if trip_id not in touched}
    return Finding(broken, excused, outcomes, doubts)


def check_programs(world: FoundWorld, evidence: Path, races: Path) -> None:
    """Where daemons do nothing but die and come back: a leg of which it was settled that it runs
    has its program begun, unless its site was away when it should have; what began had all its
    input; and of a race one program began.
    """
    for site in world.sites.values():
        for trip_id, promise in site.ledger.of_trips():
            jobs = [
                each
                for key, each in site.ledger.jobs.items()
                if each.reservation_id == promise.reservation.reservation_id
            ]
            from_s = promise.reservation.start - WORLD_BEGIN
            until_s = promise.reservation.end - WORLD_BEGIN
            is_begun = (evidence / f"{trip_id}.{site.name}").exists()
            if promise.runs and promise.wants and jobs and not is_begun:
                if world.was_away(site.name, from_s, until_s):
                    world.event_log.counts["away when its program should have begun"] += 1
                    continue
                text = f"{trip_id} runs at {site.name}, its program never began"
                world.event_log.broken(TOGETHER, text, trip_id)
        for job in site.ledger.jobs.values():
            if job.over is not None and job.over.exit_code == NO_INPUT:
                text = f"{site.name}: {job.job_id} began without its input"
                world.event_log.broken(FED, text, job.reservation_id)
    for laptop in world.laptops.values():
        began = [each for each in races.glob(f"{laptop.name}.*") for _ in each.read_text().split()]
        if len(began) > 1:
            text = f"{laptop.trip_id} ran {len(began)} times"
            world.event_log.broken(TWICE, text, laptop.trip_id)


def _check_told(world: FoundWorld, laptop: LiveLaptop) -> None:
    """Who was told BOOKED: every leg was committed."""
    for site, key in laptop.told_legs:
        if key is None:
            continue  # A copy of a race, which waits in a queue.
        promise = world.sites[site].ledger.promises.get(key)
        if promise is None or not promise.was(COMMITTED):
            text = f"{laptop.trip_id} was called booked, {site} has not committed {key}"
            world.event_log.broken(SHOWN, text, laptop.trip_id)


def _check_acknowledged(world: FoundWorld, laptop: LiveLaptop) -> None:
    """What the laptop wrote down as granted stands in the sites' journals."""
    legs: dict[str, Leg] = {}
    is_race = False
    for event in laptop.events():
        is_race |= isinstance(event, RaceOpened)
        if isinstance(event, TripDecided | TripBooked):
            legs.update({leg.name: leg for leg in event.legs})
            was = HELD if isinstance(event, TripDecided) else COMMITTED
            for leg in event.legs:
                if not is_race:  # Its copies wait in queues.
                    _check_was(world, laptop.trip_id, leg, was)
                _check_queued(world, laptop.trip_id, leg.site, leg.job_id)
        elif isinstance(event, JobSubmitted):
            _check_queued(world, laptop.trip_id, legs[event.leg].site, event.job_id)


def _check_queued(world: FoundWorld, trip_id: str, site: str, job_id: str | None) -> None:
    if job_id is not None and job_id not in world.sites[site].ledger.jobs:
        text = f"{site} queued {job_id}, its journal does not know"
        world.event_log.broken(ACKNOWLEDGED, text, trip_id)


def _check_was(world: FoundWorld, trip_id: str, leg: Leg, was: ReservationState) -> None:
    promise = world.sites[leg.site].ledger.promises.get(leg.reservation_id or "")
    trip = promise.reservation.request.trip if promise is not None else None
    if promise is None or not promise.was(was) or trip is None or trip.trip_id != trip_id:
        text = f"{leg.site} said {leg.reservation_id} is {was.value}, its journal does not"
        world.event_log.broken(ACKNOWLEDGED, text, trip_id)


def _check_holds(world: FoundWorld, site: FoundSite) -> None:
    for key, promise in site.ledger.promises.items():
        if promise.state.is_live:
            trip = promise.reservation.request.trip
            about = [key, trip.trip_id] if trip is not None else [key]
            text = f"{site.name}: {key} is still {promise.state.value}"
            world.event_log.broken(RESOLVED, text, *about)


def _check_starts(world: FoundWorld, site: FoundSite) -> None:
    """By the journal: no node has two jobs, nobody starts early or what was not committed."""
    busy: dict[str, str] = {}
    at: dict[str, JobStarting] = {}
    for event in site.events:
        match event:
            case JobStarting():
                at[event.job_id] = event
                taken = [busy[node] for node in event.node_names if node in busy]
                if taken:
                    text = f"{site.name}: {event.job_id} takes a node of {taken[0]}"
                    world.event_log.broken(OVER_COMMITTED, text, *_trip_at(site, event))
                busy.update(dict.fromkeys(event.node_names, event.job_id))
            case JobRunning():
                if event.job_id in at:
                    _check_start(world, site, at[event.job_id], event.started_precise)
                else:
                    text = f"{site.name}: {event.job_id} runs, nobody started it"
                    world.event_log.broken(ACKNOWLEDGED, text, *_trip_of_job(site, event.job_id))
            case JobOver():
                for node in [node for node, job in busy.items() if job == event.job_id]:
                    del busy[node]


def _check_start(world: FoundWorld, site: FoundSite, starting: JobStarting, started: float) -> None:
    promise = site.ledger.promises.get(starting.reservation_id)
    if promise is None:
        return
    if started < promise.reservation.start or not promise.was(COMMITTED):
        text = f"{site.name}: {starting.job_id} began at {started:.3f}"
        world.event_log.broken(EARLY, text, *_trip_at(site, starting))


def _trip_of_job(site: FoundSite, job_id: str) -> list[str]:
    entry = site.ledger.jobs.get(job_id)
    named = TRIP_NAME.search(entry.request[1].encode()) if entry is not None else None
    return [named[0].decode()] if named is not None else [job_id]


def _trip_at(site: FoundSite, starting: JobStarting) -> list[str]:
    promise = site.ledger.promises.get(starting.reservation_id)
    trip = promise.reservation.request.trip if promise is not None else None
    return [trip.trip_id] if trip is not None else [starting.job_id]


def _check_evidence(world: FoundWorld, evidence: Path) -> None:
    """By the programs themselves: each began once at the most, not before its time, and did begin
    when its job is said to have ended well.
    """
    began = {
        each.name: [float(line) for line in each.read_text().split()]
        for each in sorted(evidence.iterdir())
    }
    for site in world.sites.values():
        for trip_id, promise in site.ledger.of_trips():
            moments = began.get(f"{trip_id}.{site.name}", [])
            if len(moments) > 1:
                text = f"{trip_id} ran {len(moments)} times at {site.name}"
                world.event_log.broken(TWICE, text, trip_id)
            if promise.was(COMMITTED) and moments and moments[0] < promise.reservation.start:
                text = f"{trip_id} ran at {site.name} from {moments[0]:.3f}"
                world.event_log.broken(EARLY, text, trip_id)
        for job in site.ledger.jobs.values():
            over, inside = job.over, job.starting and job.starting.reservation_id
            held = site.ledger.promises.get(inside or "")
            trip = held.reservation.request.trip if held is not None else None
            if over is None or trip is None:
                continue
            is_good = over.state is JobState.COMPLETED and over.exit_code == 0
            if is_good and not began.get(f"{trip.trip_id}.{site.name}"):
                text = f"{site.name} says {job.job_id} ran, its program never did"
                world.event_log.broken(ACKNOWLEDGED, text, trip.trip_id)
    _check_uncommitted(world, began)


def _check_uncommitted(world: FoundWorld, began: Mapping[str, Iterable[float]]) -> None:
    """What ran had been committed."""
    committed = {
        f"{trip_id}.{site.name}"
        for site in world.sites.values()
        for trip_id, promise in site.ledger.of_trips()
        if promise.was(COMMITTED)
    }
    for name in began:
        if name not in committed:
            trip_id = name.partition(".")[0]
            world.event_log.broken(EARLY, f"{name} ran and was never committed", trip_id)


def _check_cut(world: FoundWorld, cut: Cut) -> None:
    """A daemon whose journal was cut refuses, goes on with a prefix of it, and is loud about what
    it knows to be lost.
    """
    about = f"cut {cut.number} of {cut.site}"
    if cut.kept is None:
        if "journal" not in cut.words or "Traceback" in cut.words:
            text = f"{about}: it does not start, and says only {cut.words[-500:]!r}"
            world.event_log.broken(OWNED_UP, text, cut.site)
        return
    if cut.kept < min(cut.noted, len(cut.before)) and not cut.is_owned_up:
        text = f"{about}: {len(cut.lost)} records are lost, and it says nothing"
        world.event_log.broken(OWNED_UP, text, cut.site)


def _doubts(world: FoundWorld) -> dict[str, float]:
    doubts: dict[str, float] = {}
    for site in world.sites.values():
        for trip_id, promise in site.ledger.of_trips():
            begun, ended = promise.since(HELD), promise.ended_at
            if begun is not None and ended is not None:
                doubts[trip_id] = max(doubts.get(trip_id, 0.0), ended - begun)
    return doubts

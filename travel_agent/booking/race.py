"""A race (``single`` with ``race = true``): a copy in every site's queue, and exactly one runs.

The paper's Disneyland takes the earliest *reservation*; a race takes whoever's *queue* lets go
first, which nobody can know beforehand. That exactly one copy runs is settled among the sites
(``gridcore.jobs.races``), so the laptop may be closed once the copies are queued.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.errors import GridError, InputError, UnavailableError
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, Transport, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridcore.trips.registers import CLOCKS_APART_S
from gridtravel.gridcore.trips.trip_consensus import majority
from gridtravel.gridio.sites.trip_voting import RaceVoting, TripQuestions
from gridtravel.travel_agent.booking.outcome import DECIDE_WITHIN_S, RETRY_S, OutcomeOpenError
from gridtravel.travel_agent.booking.resume import Resumed
from gridtravel.travel_agent.booking.two_phase import CANCELLED
from gridtravel.travel_agent.log.events import (
    RaceOpened,
    TripBooked,
    TripEnded,
    TripOpened,
    UndoAsked,
)
from gridtravel.travel_agent.log.trip_log import TripLog, open_new_log
from gridtravel.travel_agent.metajob_file.writer import metajob_to_json
from gridtravel.travel_agent.news import Listener, News, Step
from gridtravel.travel_agent.running.jobs import command_of
from gridtravel.travel_agent.session import GridSession
from gridtravel.travel_agent.sites.destinations import (
    Destination,
    acceptors_of,
    without_keeper,
)
from gridtravel.travel_agent.trip_context import TripContext

SOON_S: Final = 60
"""Copies start as soon as they can; an earliest start beyond this would not be kept."""


async def start_race(session: GridSession, metajob: Metajob, listener: Listener) -> Itinerary:
    """Queue a copy at every site of the metajob; BOOKED when at least one is queued."""
    await session.meet(metajob)
    destinations = session.destinations(metajob)
    _check(metajob, destinations, session.clock.now())
    session.check_sites(destinations)
    await session.check_logins(destinations)
    keepers = session.keepers(metajob)
    refusal = without_keeper(destinations, keepers)
    if refusal is not None:
        raise InputError(refusal.message)
    trip_id = session.ids.new_id("trip")
    opened = TripOpened(trip_id=trip_id, name=metajob.name, metajob_json=metajob_to_json(metajob))
    log = await open_new_log(session.journals, session.clock, opened)
    try:
        await log.write(
            RaceOpened(
                copies=tuple(destinations),
                acceptors=acceptors_of(destinations, keepers),
                ends_at=metajob.latest_end,
                sites=tuple(each.site for each in destinations.values()),
            )
        )
        try:
            return await _queue_copies(session.trip(trip_id, metajob, log, listener, base=Path()))
        except (Exception, asyncio.CancelledError):
            await asyncio.shield(_call_off_quietly(session, log, listener))
            raise
    finally:
        log.close()


async def resume_race(session: GridSession, log: TripLog, listener: Listener) -> Resumed:
    """Finish or undo what an interrupted command left of a race."""
    story = log.story
    if story.is_undoing:
        itinerary = await call_off_race(session, log, listener)
        return Resumed(
            found=f"it was to be undone ({story.message})",
            done="called every copy off",
            itinerary=itinerary,
        )
    if story.state is TripState.PLANNED and not story.copies:
        await log.write(TripEnded(state=TripState.ABSENT.value, message="no copy was asked for"))
        return Resumed(
            found="no copy was asked for yet", done="gave it up", itinerary=log.story.itinerary()
        )
    if story.state is TripState.PLANNED:
        itinerary = await _queue_copies(session.trip_of(log, listener))
        return Resumed(
            found="not every copy was known to be queued", done="queued them", itinerary=itinerary
        )
    return Resumed(
        found=f"the trip is {story.state}", done="nothing to do", itinerary=story.itinerary()
    )


async def call_off_race(session: GridSession, log: TripLog, listener: Listener) -> Itinerary:
    """Cancel a race: first it is settled that no copy runs, so that a site that cannot be told now
    launches nothing later; then every copy is taken out of its queue, or ended where it runs.

    A site votes on a race whose copy it has met, and on no other. So the sites that keep the
    outcome are told of the race first, where that is not known: by the copy itself, since a
    submission that is still on its way would tell them of it later.
    """
    await log.write(UndoAsked(reason=CANCELLED))
    trip, story = session.trip_of(log, listener), log.story
    if story.copies:
        await _settle_that_none_runs(trip)
        answers = await asyncio.gather(
            *(_withdraw(trip, copy) for copy in story.copies), return_exceptions=True
        )
        for copy, answer in zip(story.copies, answers, strict=True):
            if isinstance(answer, UnavailableError):
                listener(News(step=Step.NOTE, place=copy, text=f"it will not run: {answer}"))
            elif isinstance(answer, BaseException):
                raise answer
    await log.write(TripEnded(state=TripState.CANCELLED.value))
    return log.story.itinerary()


async def _withdraw(trip: TripContext, copy: str) -> None:
    """Take a copy out of its queue, also one whose submission was never answered."""
    site, request_id = trip.destinations[copy].connection.site, _request_id(trip.trip_id, copy)
    job_ids = [leg.job_id for leg in trip.log.story.legs if leg.name == copy and leg.job_id]
    if not job_ids:
        job_ids = [job.job_id for job in await site.jobs() if job.spec.request_id == request_id]
    for job_id in job_ids:
        await site.cancel_job(job_id)
        trip.tell(News(step=Step.LET_GO, place=copy, text=job_id))


# -- inside ----------------------------------------------------------------------------------------


def _check(metajob: Metajob, destinations: dict[str, Destination], now: int) -> None:
    """Refuse what a race cannot do, before anybody is asked."""
    task = metajob.task
    tasks = [task, *(each.task for each in metajob.machines)]
    if not all(metajob.task_for(name) for name in destinations):
        raise InputError("a race needs a command at every machine", hint="add [task] command")
    if any(each.stage_in for each in tasks if each is not None):
        raise InputError(
            "a race brings no files: a copy may start before they are there",
            hint="leave race out, or have the command fetch them",
        )
    if metajob.earliest_start > now + SOON_S:
        raise InputError(
            "copies in a race start as soon as a queue lets them",
            hint='write earliest_start = "now", or leave race out',
        )
    if len(destinations) < 2:
        raise InputError("a race needs at least two machines", hint="leave race out")
    if not acceptors_of(destinations):
        raise InputError(
            "the sites of a race must be able to ask each other which copy runs",
            hint="name at least one site with an endpoint, and no manager",
        )


async def _queue_copies(trip: TripContext) -> Itinerary:
    """Submit every copy, again as well: the same request is the same job. A site that cannot be
    reached or refuses takes no part.
    """
    story = trip.log.story
    queued = {leg.name: leg for leg in story.legs}
    missing = [copy for copy in story.copies if copy not in queued]
    answers = await asyncio.gather(
        *(_submit(trip, copy) for copy in missing), return_exceptions=True
    )
    refusal: Decline | None = None
    fault: BaseException | None = None
    for copy, answer in zip(missing, answers, strict=True):
        if isinstance(answer, JobView):
            queued[copy] = _leg(copy, answer, trip.destinations[copy])
            trip.tell(News(step=Step.SUBMITTED, place=copy, text=answer.job_id))
        elif isinstance(answer, Decline):
            refusal = answer
            trip.tell(News(step=Step.DECLINED, place=copy, text=answer.message))
        elif isinstance(answer, GridError):
            fault = answer
            trip.tell(News(step=Step.UNREACHABLE, place=copy, text=str(answer)))
        else:
            raise answer
    keepers = [each.site for each in story.race_acceptors]
    heard = {
        trip.destinations[copy].site
        for copy, answer in zip(missing, answers, strict=True)
        if isinstance(answer, JobView | Decline)
    } | {leg.site for leg in queued.values()}
    if queued and len(heard & set(keepers)) < majority(tuple(keepers)):
        raise UnavailableError(
            f"too few of the sites that keep the race's outcome answer: {', '.join(keepers)}",
            hint="book it again, without the machines that do not answer",
        )
    if not queued:
        if refusal is None:
            assert fault is not None, "every copy had an answer"
            raise fault
        await trip.log.write(TripEnded(state=TripState.DECLINED.value, message=refusal.message))
        return Itinerary(trip_id=story.trip_id, name=story.name, state=TripState.PLANNED).declined(
            refusal
        )
    await trip.log.write(TripBooked(legs=tuple(queued.values())))
    return story.itinerary()


def _request_id(trip_id: str, copy: str) -> str:
    return f"{trip_id}.{copy}.job"


async def _submit(trip: TripContext, copy: str) -> JobView | Decline:
    metajob, destination = trip.metajob, trip.destinations[copy]
    task = metajob.task_for(copy)
    assert task is not None, "checked before"
    return await destination.connection.site.submit(
        JobSpec(
            request_id=_request_id(trip.trip_id, copy),
            name=f"{trip.log.story.name}.{copy}"[:128],
            account=destination.account,
            nodes=metajob.nodes_total,
            limit_s=metajob.duration_s,
            argv=command_of(task),
            environment=task.environment,
            features=destination.required_features,
            notify_email=destination.request.email_notify,
            race=trip.log.story.race_of(copy),
            deadline=metajob.latest_end,
            budget_millicredits=metajob.budget_millicredits,
            estimate_s=metajob.estimate_s,
            is_restartable=metajob.is_restartable,
            memory_mb=metajob.memory_mb,
            disk_mb=metajob.disk_mb,
        )
    )


def _leg(copy: str, job: JobView, destination: Destination) -> Leg:
    """A copy as a leg of the trip: where it would run, and when by its queue's plan."""
    start = job.started_at or job.planned_start or job.submitted_at
    return Leg(
        name=copy,
        machine=copy,
        site=job.site,
        nodes=job.spec.nodes,
        interval=Interval(start, start + job.spec.limit_s),
        transport=Transport(destination.connection.transport),
        job_id=job.job_id,
    )


async def _tell_keepers(trip: TripContext) -> None:
    """Every site that keeps the outcome has met its copy, as far as it can be reached."""
    story = trip.log.story
    keepers = {each.site for each in story.race_acceptors}
    queued = {leg.name for leg in story.legs}
    untold = [
        copy
        for copy in story.copies
        if copy not in queued and trip.destinations[copy].site in keepers
    ]
    answers = await asyncio.gather(
        *(_submit(trip, copy) for copy in untold), return_exceptions=True
    )
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, GridError):
            raise answer


async def _settle_that_none_runs(trip: TripContext) -> None:
    """Return when no copy will ever start: that is settled, or its window is over. A site votes
    about a race of which a copy has reached it, so one that none has reached is brought its own.
    """
    race = trip.log.story.race_of(trip.log.story.copies[0])
    ports = {each.site: each.connection.calendar for each in trip.destinations.values()}
    acceptors = {each.site: ports[each.site] for each in race.acceptors}

    voting = RaceVoting(race, lambda question: TripQuestions(question, acceptors))
    give_up_at = trip.clock.now_precise() + DECIDE_WITHIN_S
    while trip.clock.now() <= race.ends_at + CLOCKS_APART_S:
        await _tell_keepers(trip)
        if await voting.call_off() is not None:
            return
        if trip.clock.now_precise() >= give_up_at:
            raise OutcomeOpenError(
                f"race {race.trip_id} cannot be called off now: too few of its sites answer",
                hint=f"run `gur resume {race.trip_id}` when they are back",
            )
        await trip.clock.sleep_until(trip.clock.now_precise() + RETRY_S)


async def _call_off_quietly(session: GridSession, log: TripLog, listener: Listener) -> None:
    try:
        await call_off_race(session, log, listener)
    except GridError as fault:
        # The log says that it is to be undone; `gur resume` goes on from there.
        listener(News(step=Step.NOTE, text=str(fault)))

"""A race (``single`` with ``race = true``): a copy in every site's queue, and exactly one runs.

The paper's Disneyland takes the earliest *reservation*; a race takes whoever's *queue* lets go
first, which nobody can know beforehand. That exactly one copy runs is settled among the sites
(``gridcore.races``), so the laptop may be closed once the copies are queued.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from gridcore.errors import GridError, InputError, UnavailableError
from gridcore.instants import Interval
from gridcore.itineraries import Itinerary, Leg, LegState, Transport, TripState
from gridcore.jobs import JobSpec, JobState, JobView
from gridcore.metajobs import Metajob
from gridcore.races import Race
from gridcore.reservations import Decline
from gridio.trip_racing import RaceVoting
from gridio.trip_voting import TripVoting
from travel_agent.booking import CANCELLED
from travel_agent.deciding import DECIDE_WITHIN_S, RETRY_S, OutcomeOpenError, acceptors_of
from travel_agent.legs import command_of
from travel_agent.metajob_writer import metajob_to_json
from travel_agent.news import Listener, News, Step
from travel_agent.office import Office
from travel_agent.reports import LegLook, TripReport
from travel_agent.resuming import Resumed
from travel_agent.searching import DEFAULT_ACCOUNT, Destination
from travel_agent.trip_events import RaceOpened, TripBooked, TripEnded, TripOpened, UndoAsked
from travel_agent.trip_log import JournaledTripLog, TripStory

RACERS: Final = (LegState.RUNNING, LegState.COMPLETED, LegState.FAILED)
"""States of the one copy that runs, or ran."""
SOON_S: Final = 60
"""Copies start as soon as they can; an earliest start beyond this would not be kept."""


async def start_race(office: Office, metajob: Metajob, listener: Listener) -> Itinerary:
    """Queue a copy at every site of the metajob; BOOKED when at least one is queued."""
    destinations = office.destinations(metajob)
    _check(metajob, destinations, office.clock.now())
    await office.check_logins(destinations)
    trip_id = office.ids.new_id("trip")
    log = JournaledTripLog(office.journals.create(trip_id), office.clock)
    try:
        await log.write(
            TripOpened(trip_id=trip_id, name=metajob.name, metajob_json=metajob_to_json(metajob))
        )
        await log.write(
            RaceOpened(
                copies=tuple(destinations),
                acceptors=acceptors_of(destinations),
                ends_at=metajob.latest_end,
            )
        )
        try:
            return await _queue_copies(office, metajob, log, listener)
        except (Exception, asyncio.CancelledError):
            await asyncio.shield(_call_off_quietly(office, metajob, log, listener))
            raise
    finally:
        log.close()


async def resume_race(
    office: Office, metajob: Metajob, log: JournaledTripLog, listener: Listener
) -> Resumed:
    """Finish or undo what an interrupted command left of a race."""
    story = log.story
    if story.is_undoing:
        itinerary = await call_off_race(office, metajob, log, listener)
        return Resumed(
            found=f"it was to be undone ({story.message})",
            done="called every copy off",
            itinerary=itinerary,
        )
    if story.state is TripState.PLANNED:
        itinerary = await _queue_copies(office, metajob, log, listener)
        return Resumed(
            found="not every copy was known to be queued", done="queued them", itinerary=itinerary
        )
    return Resumed(
        found=f"the trip is {story.state}", done="nothing to do", itinerary=story.itinerary()
    )


async def call_off_race(
    office: Office, metajob: Metajob, log: JournaledTripLog, listener: Listener
) -> Itinerary:
    """Cancel a race: first it is settled that no copy runs, so that a site that cannot be told now
    launches nothing later; then every copy is taken out of its queue, or ended where it runs.
    """
    await log.write(UndoAsked(reason=CANCELLED))
    destinations = office.destinations(metajob)
    story = log.story
    if story.copies:
        await _settle_that_none_runs(office, story.race_of(story.copies[0]), destinations)
        answers = await asyncio.gather(
            *(_withdraw(copy, story, destinations[copy], listener) for copy in story.copies),
            return_exceptions=True,
        )
        for copy, answer in zip(story.copies, answers, strict=True):
            if isinstance(answer, UnavailableError):
                listener(News(step=Step.NOTE, place=copy, text=f"it will not run: {answer}"))
            elif isinstance(answer, BaseException):
                raise answer
    await log.write(TripEnded(state=TripState.CANCELLED.value))
    return log.story.itinerary()


async def _withdraw(
    copy: str, story: TripStory, destination: Destination, listener: Listener
) -> None:
    """Take a copy out of its queue, also one whose submission was never answered."""
    site, request_id = destination.connection.site, _request_id(story.trip_id, copy)
    job_ids = [leg.job_id for leg in story.legs if leg.name == copy and leg.job_id]
    if not job_ids:
        job_ids = [job.job_id for job in await site.jobs() if job.spec.request_id == request_id]
    for job_id in job_ids:
        await site.cancel_job(job_id)
        listener(News(step=Step.LET_GO, place=copy, text=job_id))


def race_report(itinerary: Itinerary, looks: list[LegLook]) -> TripReport:
    """A race as its sites tell of it: it stands where its winner stands."""
    legs = tuple(_leg_now(each.leg, each.job) for each in looks)
    states = [leg.state for leg in legs]
    if LegState.COMPLETED in states:
        state = TripState.COMPLETED
    elif LegState.RUNNING in states:
        state = TripState.RUNNING
    elif LegState.FAILED in states:
        state = TripState.FAILED
    elif LegState.PLANNED in states:
        state = itinerary.state
    else:
        state = TripState.FAILED
    return TripReport(
        itinerary=replace(itinerary, state=state, legs=legs),
        jobs={each.leg.name: each.job for each in looks if each.job is not None},
        notes=tuple(each.problem for each in looks if each.problem),
    )


async def withdraw_losers(report: TripReport, destinations: dict[str, Destination]) -> None:
    """Take the copies that wait still out of their queues once another has won: they would find it
    out at their start, and keep a place until then. Who cannot be told finds it out so.
    """
    if report.itinerary.state is TripState.BOOKED:
        return

    async def withdraw(leg: Leg) -> None:
        try:
            await destinations[leg.machine].connection.site.cancel_job(leg.job_id or "")
        except GridError:
            return

    waiting = [leg for leg in report.itinerary.legs if leg.state is LegState.PLANNED and leg.job_id]
    await asyncio.gather(*(withdraw(leg) for leg in waiting))


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
    if metajob.budget_millicredits is not None:
        raise InputError("nobody can say beforehand what a race costs", hint="leave the budget out")
    if len(destinations) < 2:
        raise InputError("a race needs at least two machines", hint="leave race out")
    if not acceptors_of(destinations):
        raise InputError(
            "the sites of a race must be able to ask each other which copy runs",
            hint="name at least one site with an endpoint, and no manager",
        )


async def _queue_copies(
    office: Office, metajob: Metajob, log: JournaledTripLog, listener: Listener
) -> Itinerary:
    """Submit every copy, again as well: the same request is the same job. A site that cannot be
    reached or refuses takes no part.
    """
    destinations = office.destinations(metajob)
    story = log.story
    queued = {leg.name: leg for leg in story.legs}
    missing = [copy for copy in story.copies if copy not in queued]
    answers = await asyncio.gather(
        *(
            _submit(metajob, story.name, story.race_of(copy), destinations[copy])
            for copy in missing
        ),
        return_exceptions=True,
    )
    refusal: Decline | None = None
    fault: BaseException | None = None
    for copy, answer in zip(missing, answers, strict=True):
        if isinstance(answer, JobView):
            queued[copy] = _leg(copy, answer, destinations[copy])
            listener(News(step=Step.SUBMITTED, place=copy, text=answer.job_id))
        elif isinstance(answer, Decline):
            refusal = answer
            listener(News(step=Step.DECLINED, place=copy, text=answer.message))
        elif isinstance(answer, GridError):
            fault = answer
            listener(News(step=Step.UNREACHABLE, place=copy, text=str(answer)))
        else:
            raise answer
    if not queued:
        if refusal is None:
            assert fault is not None, "every copy had an answer"
            raise fault
        await log.write(TripEnded(state=TripState.DECLINED.value, message=refusal.message))
        return Itinerary(trip_id=story.trip_id, name=story.name, state=TripState.PLANNED).declined(
            refusal
        )
    await log.write(TripBooked(legs=tuple(queued.values())))
    return log.story.itinerary()


def _request_id(trip_id: str, copy: str) -> str:
    return f"{trip_id}.{copy}.job"


async def _submit(
    metajob: Metajob, name: str, race: Race, destination: Destination
) -> JobView | Decline:
    task = metajob.task_for(race.copy)
    assert task is not None, "checked before"
    request = destination.request
    return await destination.connection.site.submit(
        JobSpec(
            request_id=_request_id(race.trip_id, race.copy),
            name=f"{name}.{race.copy}"[:128],
            account=request.account or DEFAULT_ACCOUNT,
            nodes=metajob.nodes_total,
            limit_s=metajob.duration_s,
            argv=command_of(task),
            environment=task.environment,
            features=destination.required_features,
            notify_email=request.email_notify,
            race=race,
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


def _leg_now(leg: Leg, job: JobView | None) -> Leg:
    if job is None:
        return leg
    states = {
        JobState.QUEUED: LegState.PLANNED,
        JobState.STARTING: LegState.PLANNED,
        JobState.RUNNING: LegState.RUNNING,
        JobState.COMPLETED: LegState.COMPLETED,
        JobState.CANCELLED: LegState.RELEASED,
    }
    start = job.started_at or job.planned_start or leg.start
    interval = Interval(start, start + job.spec.limit_s)
    return replace(leg, state=states.get(job.state, LegState.FAILED), interval=interval)


async def _settle_that_none_runs(
    office: Office, race: Race, destinations: dict[str, Destination]
) -> None:
    ports = {each.site: each.connection.calendar for each in destinations.values()}
    acceptors = {each.site: ports[each.site] for each in race.acceptors}

    def ask(question: str) -> TripVoting:
        proposer = f"traveller:{office.ids.new_id('run')}"
        return TripVoting(question, acceptors, proposer, keep_until=race.ends_at)

    voting = RaceVoting(race, ask)
    give_up_at = office.clock.now_precise() + DECIDE_WITHIN_S
    while await voting.call_off() is None:
        if office.clock.now_precise() >= give_up_at:
            raise OutcomeOpenError(
                f"race {race.trip_id} cannot be called off now: too few of its sites answer",
                hint=f"run `gur resume {race.trip_id}` when they are back",
            )
        await office.clock.sleep_until(office.clock.now_precise() + RETRY_S)


async def _call_off_quietly(
    office: Office, metajob: Metajob, log: JournaledTripLog, listener: Listener
) -> None:
    try:
        await call_off_race(office, metajob, log, listener)
    except GridError as fault:
        # The log says that it is to be undone; `gur resume` goes on from there.
        listener(News(step=Step.NOTE, text=str(fault)))

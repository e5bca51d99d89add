"""A booked trip at work: files in, jobs bound to their reservations, output, files out."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aiostream import stream

from gridtravel.gridcore.booking.reservations import Decline, ReservationState
from gridtravel.gridcore.errors import ConflictError, InputError
from gridtravel.gridcore.jobs.job import Companion, JobSpec, JobView
from gridtravel.gridcore.jobs.tasks import TaskSpec
from gridtravel.gridcore.ports import SitePort
from gridtravel.gridcore.trips.itineraries import InputWay, Itinerary, Leg
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.travel_agent.log.events import FilesSent, JobSubmitted
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.running.pipeline_inputs import (
    check_stages,
    handover_of,
    input_way,
    neighbours,
    waits_for,
    with_inputs,
)
from gridtravel.travel_agent.running.reports import in_its_zone
from gridtravel.travel_agent.running.staging import (
    Arrival,
    check_programs,
    fetch_all,
    files_of,
    plan_fetch,
    send_all,
)
from gridtravel.travel_agent.sites.destinations import Destination
from gridtravel.travel_agent.trip_context import TripContext

PREPARE_THEN_RUN: Final = """\
test -z "$1" || eval "$1" || exit 126
test -z "$2" || "$GRID_BARRIER" || exit 125
eval "exec $3\""""
"""Run by ``/bin/sh -c``: the command that prepares (or nothing), whether to wait for the other legs
(or nothing), and the command that runs, both quoted for the shell.
"""
STREAMS: Final = ("stdout", "stderr")


@dataclass(frozen=True, slots=True, kw_only=True)
class LegOutput:
    """A piece of what a leg's job wrote."""

    leg: str
    stream: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LegChange:
    """A leg's job has another state."""

    leg: str
    view: JobView


class LegWork:
    """What the travel agent does at the sites once a trip is booked."""

    def __init__(self, trip: TripContext) -> None:
        self._trip = trip

    def task_of(self, leg: Leg) -> TaskSpec | None:
        """What runs at a leg."""
        return self._trip.metajob.task_for(leg.machine, leg.name)

    async def queue_jobs(
        self, itinerary: Itinerary, base: Path, *, sent: Collection[str] = ()
    ) -> Itinerary:
        """Files in and jobs queued, at all sites at the same time; what is queued already stays.
        The job of a stage whose input the laptop brings is queued with that (``relay``);
        ``sent``: the reservations of such stages whose own files are there already. ``base``: where
        relative paths begin. The legs come back with their sites' time zones.
        """
        log = self._trip.log

        async def prepare(leg: Leg) -> Leg:
            leg = await in_its_zone(leg, self._trip.destinations[leg.machine])
            if self.task_of(leg) is None or leg.job_id is not None:
                return leg
            if leg.reservation_id not in sent:
                await self._stage_in(leg, base)
            if self.is_relayed(leg, itinerary):
                if leg.reservation_id not in sent:
                    await log.write(
                        FilesSent(leg=leg.name, reservation_id=leg.reservation_id or "")
                    )
                return leg
            try:
                view = await self.submit(leg, itinerary)
            except ConflictError:
                # A stage of a pipeline, or a whole trip, may be over before the laptop comes back.
                if not await self._is_over(leg):
                    raise
                return leg
            await log.write(JobSubmitted(leg=leg.name, job_id=view.job_id))
            return replace(leg, job_id=view.job_id)

        legs = await asyncio.gather(*(prepare(leg) for leg in itinerary.legs))
        queued = replace(itinerary, legs=tuple(legs))
        return with_inputs(self._trip.metajob, queued, self._trip.destinations)

    def is_relayed(self, leg: Leg, itinerary: Itinerary) -> bool:
        """True for a stage whose input this laptop has to bring before its job can be queued."""
        before = waits_for(self._trip.metajob, itinerary, leg)
        if before is None:
            return False
        return input_way(before, leg, self._trip.destinations) is InputWay.LAPTOP

    async def submit(self, leg: Leg, itinerary: Itinerary, *, request_id: str = "") -> JobView:
        """Queue the leg's job inside its reservation; the same trip again submits nothing twice.
        ``request_id``: of a job that takes another one's place.
        """
        request_id = request_id or f"{itinerary.trip_id}.{leg.name}.job"
        spec = self.job_spec(leg, itinerary, request_id=request_id)
        answer = await self._site(leg).submit(spec)
        if isinstance(answer, Decline):
            raise ConflictError(
                f"{leg.site} does not take the leg's job: {answer.message}",
                hint="gur amend changes what the trip asks for; gur cancel undoes it",
            )
        self._trip.tell(News(step=Step.SUBMITTED, place=leg.name, text=answer.job_id))
        return answer

    def job_spec(self, leg: Leg, itinerary: Itinerary, *, request_id: str) -> JobSpec:
        """The leg's job, as the trip is now."""
        task = self.task_of(leg)
        assert task is not None, "the caller asks only for legs with a task"
        companions = tuple(
            Companion(leg=each.name, site=each.site, nodes=each.nodes, contact=each.contact)
            for each in itinerary.legs
            if each.name != leg.name
        )
        before, after = neighbours(self._trip.metajob, itinerary, leg)
        return JobSpec(
            request_id=request_id,
            name=f"{itinerary.name}.{leg.name}"[:128],
            account=self._trip.destinations[leg.machine].account,
            nodes=leg.nodes,
            limit_s=leg.interval.duration_s,
            argv=command_of(task),
            environment=task.environment,
            reservation_id=leg.reservation_id or "",
            companions=companions,
            leg_before="" if before is None else before.name,
            leg_after="" if after is None else after.name,
            handover=handover_of(self._trip.metajob, itinerary, leg, self._trip.destinations),
        )

    async def follow(self, itinerary: Itinerary) -> AsyncIterator[LegOutput | LegChange]:
        """Output and states of all legs as they come, until every job is over."""
        sources = []
        for leg in itinerary.legs:
            if leg.job_id is None:
                continue
            sources.append(self._changes(leg))
            sources.extend(self._output(leg, name) for name in STREAMS)
        if not sources:
            return
        async with stream.merge(*sources).stream() as merged:
            async for item in merged:
                yield item

    async def plan_fetch(
        self, leg: Leg, home: Path, folder: str, *, overwrite: bool
    ) -> list[Arrival]:
        """Where the leg's results would go, in ``folder`` below ``home``; writes nothing."""
        area = leg.reservation_id or leg.job_id
        if area is None:
            return []
        return await plan_fetch(
            self._site(leg),
            area,
            self.task_of(leg),
            home,
            folder,
            site=leg.site,
            overwrite=overwrite,
        )

    async def fetch(self, leg: Leg, arrivals: Sequence[Arrival], *, overwrite: bool) -> list[Path]:
        """Bring the leg's results home as planned."""
        area = leg.reservation_id or leg.job_id
        if area is None:
            return []
        return await fetch_all(
            self._site(leg),
            area,
            arrivals,
            place=leg.name,
            overwrite=overwrite,
            listener=self._trip.tell,
        )

    # -- inside ------------------------------------------------------------------------------------

    async def _stage_in(self, leg: Leg, base: Path) -> None:
        """Send the leg's files into its folder."""
        task = self.task_of(leg)
        if task is None or leg.reservation_id is None:
            return
        files = [each for staged in task.stage_in for each in files_of(staged, base)]
        port = self._site(leg)
        await send_all(port, leg.reservation_id, files, place=leg.name, listener=self._trip.tell)

    async def _is_over(self, leg: Leg) -> bool:
        """True when the leg's time has gone by, as its site says."""
        kept = await self._site(leg).reservations(everybody=False)
        found = next((each for each in kept if each.reservation_id == leg.reservation_id), None)
        if found is None or found.state is not ReservationState.COMPLETED:
            return False
        self._trip.tell(
            News(step=Step.NOTE, place=leg.name, text="its time is over; it ran nothing")
        )
        return True

    def _site(self, leg: Leg) -> SitePort:
        return self._trip.destinations[leg.machine].connection.site

    async def _changes(self, leg: Leg) -> AsyncIterator[LegOutput | LegChange]:
        async for view in self._site(leg).watch_job(leg.job_id or ""):
            yield LegChange(leg=leg.name, view=view)

    async def _output(self, leg: Leg, name: str) -> AsyncIterator[LegOutput | LegChange]:
        async for chunk in self._site(leg).follow_output(leg.job_id or "", name, 0):
            yield LegOutput(leg=leg.name, stream=name, content=chunk.content)


def check_files(metajob: Metajob, destinations: Mapping[str, Destination], base: Path) -> None:
    """Refuse before anything is booked when a file to stage in is not there, or a place runs no
    programs.
    """
    check_stages(metajob)
    places = [(stage.name, machine) for stage in metajob.stages for machine in stage.machines]
    if not metajob.stages:
        places = [(each.machine, each.machine) for each in metajob.candidates]
    for leg, machine in places:
        task = metajob.task_for(machine, leg)
        if task is not None and destinations[machine].is_manager:
            raise InputError(
                f"{machine} is a manager, which books time at its sites and runs no programs",
                hint="leave [task] out to reserve time alone, or name the sites themselves",
            )
        if task is not None:
            files = [each for staged in task.stage_in for each in files_of(staged, base)]
            check_programs(task, files)


def command_of(task: TaskSpec) -> tuple[str, ...]:
    """The leg's command; with something to do before it, a tiny shell script does that and then
    becomes the program. The user's words are its arguments and never part of its text.
    """
    if not task.compile_command and not task.waits_for_companions:
        return task.command
    return (
        "/bin/sh",
        "-c",
        PREPARE_THEN_RUN,
        "grid-leg",
        shlex.join(task.compile_command),
        "barrier" if task.waits_for_companions else "",
        shlex.join(task.command),
    )

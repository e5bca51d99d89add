"""A booked trip at work: files in, jobs bound to their reservations, output, files out."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiostream import stream

from gridcore.errors import ConflictError, InputError
from gridcore.itineraries import InputWay, Itinerary, Leg
from gridcore.jobs import Companion, JobSpec, JobView
from gridcore.metajobs import Metajob
from gridcore.ports import SitePort
from gridcore.reservations import Decline, ReservationState
from gridcore.tasks import TaskSpec
from travel_agent.news import Listener, News, Step, deaf
from travel_agent.reports import in_its_zone
from travel_agent.searching import DEFAULT_ACCOUNT, Destination
from travel_agent.stages import (
    check_stages,
    handover_of,
    input_way,
    neighbours,
    waits_for,
    with_inputs,
)
from travel_agent.staging import fetch_all, files_of, send_all

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

    def __init__(
        self,
        metajob: Metajob,
        destinations: Mapping[str, Destination],
        *,
        listener: Listener = deaf,
    ) -> None:
        self._metajob = metajob
        self._destinations = destinations
        self._tell = listener

    def task_of(self, leg: Leg) -> TaskSpec | None:
        """What runs at a leg."""
        return self._metajob.task_for(leg.machine, leg.name)

    async def in_its_zone(self, leg: Leg) -> Leg:
        """The leg with its site's time zone, where the site says it."""
        return await in_its_zone(leg, self._destinations[leg.machine])

    def check_files(self, base: Path) -> None:
        """Refuse before anything is booked when a file to stage in is not there, or a place runs no
        programs.
        """
        job = self._metajob
        check_stages(job)
        places = [(stage.name, machine) for stage in job.stages for machine in stage.machines]
        if not job.stages:
            places = [(each.machine, each.machine) for each in job.candidates]
        for leg, machine in places:
            task = job.task_for(machine, leg)
            if task is not None and self._destinations[machine].is_manager:
                raise InputError(
                    f"{machine} is a manager, which books time at its sites and runs no programs",
                    hint="leave [task] out to reserve time alone, or name the sites themselves",
                )
            for staged in task.stage_in if task else ():
                files_of(staged, base)

    async def stage_in(self, leg: Leg, base: Path) -> int:
        """Send the leg's files into its folder; returns how many. Paths begin at ``base``."""
        task = self.task_of(leg)
        if task is None or leg.reservation_id is None:
            return 0
        files = [each for staged in task.stage_in for each in files_of(staged, base)]
        port = self._site(leg)
        return await send_all(port, leg.reservation_id, files, place=leg.name, listener=self._tell)

    async def is_over(self, leg: Leg) -> bool:
        """True when the leg's time has gone by, as its site says."""
        kept = await self._site(leg).reservations(everybody=False)
        found = next((each for each in kept if each.reservation_id == leg.reservation_id), None)
        if found is None or found.state is not ReservationState.COMPLETED:
            return False
        self._tell(News(step=Step.NOTE, place=leg.name, text="its time is over; it ran nothing"))
        return True

    def is_relayed(self, leg: Leg, itinerary: Itinerary) -> bool:
        """True for a stage whose input this laptop has to bring before its job can be queued."""
        before = waits_for(self._metajob, itinerary, leg)
        if before is None:
            return False
        return input_way(before, leg, self._destinations) is InputWay.LAPTOP

    def with_inputs(self, itinerary: Itinerary) -> Itinerary:
        """The trip with the way that each stage's input takes."""
        return with_inputs(self._metajob, itinerary, self._destinations)

    async def submit(self, leg: Leg, itinerary: Itinerary, *, request_id: str = "") -> JobView:
        """Queue the leg's job inside its reservation; the same trip again submits nothing twice.
        ``request_id``: of a job that takes another one's place.
        """
        request_id = request_id or f"{itinerary.trip_id}.{leg.name}.job"
        spec = self.job_spec(leg, itinerary, request_id=request_id)
        answer = await self._site(leg).submit(spec)
        if isinstance(answer, Decline):
            raise ConflictError(f"{leg.site} does not take the leg's job: {answer.message}")
        self._tell(News(step=Step.SUBMITTED, place=leg.name, text=answer.job_id))
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
        before, after = neighbours(self._metajob, itinerary, leg)
        return JobSpec(
            request_id=request_id,
            name=f"{itinerary.name}.{leg.name}"[:128],
            account=self._destinations[leg.machine].request.account or DEFAULT_ACCOUNT,
            nodes=leg.nodes,
            limit_s=leg.interval.duration_s,
            argv=command_of(task),
            environment=task.environment,
            reservation_id=leg.reservation_id or "",
            companions=companions,
            leg_before="" if before is None else before.name,
            leg_after="" if after is None else after.name,
            handover=handover_of(self._metajob, itinerary, leg, self._destinations),
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

    async def fetch(self, leg: Leg, folder: Path) -> list[Path]:
        """Bring the leg's results into ``folder``; what is there already, unharmed, is not sent
        again.
        """
        area = leg.reservation_id or leg.job_id
        if area is None:
            return []
        return await fetch_all(
            self._site(leg),
            area,
            self.task_of(leg),
            folder,
            place=leg.name,
            site=leg.site,
            listener=self._tell,
        )

    # -- inside ------------------------------------------------------------------------------------

    def _site(self, leg: Leg) -> SitePort:
        return self._destinations[leg.machine].connection.site

    async def _changes(self, leg: Leg) -> AsyncIterator[LegOutput | LegChange]:
        async for view in self._site(leg).watch_job(leg.job_id or ""):
            yield LegChange(leg=leg.name, view=view)

    async def _output(self, leg: Leg, name: str) -> AsyncIterator[LegOutput | LegChange]:
        async for chunk in self._site(leg).follow_output(leg.job_id or "", name, 0):
            yield LegOutput(leg=leg.name, stream=name, content=chunk.content)


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

"""What a trip runs: jobs that go with the holds of its legs, files in, output, files out."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aiostream import stream

from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.job import Companion, JobSpec, JobState, JobView
from gridtravel.gridcore.jobs.tasks import TaskSpec
from gridtravel.gridcore.ports import SitePort
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.sites.transfers import AT_ONCE
from gridtravel.travel_agent.local_files import LocalInput, files_of
from gridtravel.travel_agent.log.events import AskedLeg, FilesSent
from gridtravel.travel_agent.running.pipeline_inputs import (
    check_stages,
    grant_of,
    handover_of,
    neighbours,
    relayed_from,
    with_inputs,
)
from gridtravel.travel_agent.running.reports import in_its_zone
from gridtravel.travel_agent.running.staging import (
    Arrival,
    check_programs,
    fetch_all,
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
SMALL_INPUTS_BYTES: Final = 1 << 20
"""Inputs of a leg that are sent while it is held, together: a fraction of a second on a slow line,
where a hold lives for half a minute.
"""
SMALL_INPUTS_MAX: Final = AT_ONCE
"""How many: they travel at the same time, so a booking waits for one answer of each site more."""


class InputsUnsentError(UnavailableError):
    """A booked trip whose files could not all be sent: it stays booked, and they may still come."""


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
    """What the travel agent has its sites run, from the hold of a leg to its results."""

    def __init__(self, trip: TripContext) -> None:
        self._trip = trip
        self._sent: dict[str, set[str]] = {}
        """By reservation that this command has held: the paths that were sent since."""
        self._complete: set[str] = set()
        """Reservations to which everything was sent while they were held."""

    def task_of(self, leg: Leg) -> TaskSpec | None:
        """What runs at a leg."""
        return self._trip.metajob.task_for(leg.machine, leg.name)

    # -- with the holds ----------------------------------------------------------------------------

    async def learn_inputs(self) -> None:
        """Read every file that the trip may take along, wherever it will go: while nodes are held
        nobody waits for a disk.
        """
        metajob = self._trip.metajob
        places = [(each.machine, "") for each in metajob.candidates]
        places += [(machine, stage.name) for stage in metajob.stages for machine in stage.machines]
        for machine, name in places:
            await self._trip.inputs.of(metajob.task_for(machine, name or machine))

    async def held_job(self, asked: AskedLeg, legs: Sequence[AskedLeg]) -> HeldJob | None:
        """What goes with the hold of a leg; ``None``: nothing runs there."""
        trip, leg = self._trip, self._trip.wanted_leg(asked)
        if self.task_of(leg) is None:
            return None
        itinerary = Itinerary(
            trip_id=trip.trip_id,
            name=trip.metajob.name,
            state=TripState.PLANNED,
            legs=tuple(trip.wanted_leg(each) for each in legs),
        )
        request_id = f"{asked.request_id}.job"
        return HeldJob(spec=await self.job_spec(leg, itinerary, request_id=request_id))

    async def send_small(self, legs: Sequence[Leg]) -> None:
        """Send what is small to legs that have just been held: it is there when the trip is
        decided, so that nothing depends on this laptop any more.
        """
        await asyncio.gather(*(self._send_small(leg) for leg in legs))

    async def _send_small(self, leg: Leg) -> None:
        if leg.reservation_id is None:
            return
        inputs = await self._trip.inputs.of(self.task_of(leg))
        small = small_ones(inputs)
        await self._send(leg, small, is_new=True)
        if len(small) == len(inputs):
            self._complete.add(leg.reservation_id)

    # -- after the commits -------------------------------------------------------------------------

    def has_all(self, leg: Leg) -> bool:
        """True when the leg takes nothing along, or this command has sent all of it while the leg
        was held.
        """
        task = self.task_of(leg)
        return task is None or not task.stage_in or leg.reservation_id in self._complete

    async def finish(self, itinerary: Itinerary, *, sent: Collection[str] = ()) -> Itinerary:
        """Send what is not there yet, at all sites at the same time. ``sent``: reservations to
        which everything was sent before. The legs come back with their sites' time zones.
        """

        async def prepare(leg: Leg) -> Leg:
            leg = await in_its_zone(leg, self._trip.destinations[leg.machine])
            if leg.reservation_id not in sent:
                await self._send_rest(leg)
            return leg

        legs = await asyncio.gather(*(prepare(leg) for leg in itinerary.legs))
        finished = replace(itinerary, legs=tuple(legs))
        return with_inputs(self._trip.metajob, finished, self._trip.destinations)

    async def send_rest(self, itinerary: Itinerary, *, sent: Collection[str]) -> None:
        """Send what jobs that are queued still wait for."""
        legs = [each for each in itinerary.legs if each.reservation_id not in sent]
        await asyncio.gather(*(self._send_rest(each) for each in legs if each.job_id is not None))

    async def _send_rest(self, leg: Leg) -> None:
        """Send what the leg lacks of its files, and write down that it has them all."""
        task = self.task_of(leg)
        if task is None or not task.stage_in:
            return
        area = leg.reservation_id or ""
        is_new = area in self._sent
        expected: dict[str, str] = {}
        if leg.job_id is not None and not is_new:
            (view,) = await self._site(leg).jobs(job_ids=[leg.job_id])
            if view.state is not JobState.QUEUED:
                return
            expected = {each.path: each.sha256 for each in view.spec.inputs}
        inputs = await self._trip.inputs.of(task)
        _check_unchanged(inputs, expected)
        rest = [each for each in inputs if each.status.path not in self._sent.get(area, ())]
        try:
            await self._send(leg, rest, is_new=is_new)
        except UnavailableError as fault:
            trip_id = self._trip.trip_id
            raise InputsUnsentError(
                f"trip {trip_id} is booked, and {leg.name} still lacks files: {fault}",
                hint=f"`gur resume {trip_id}` sends the rest; the job waits for it until its start",
            ) from fault
        await self._trip.log.write(FilesSent(leg=leg.name, reservation_id=area))

    async def _send(self, leg: Leg, inputs: Sequence[LocalInput], *, is_new: bool) -> None:
        area = leg.reservation_id or ""
        known = {each.status.path: each.status for each in inputs}
        await send_all(
            self._site(leg),
            area,
            [(each.source, each.status.path) for each in inputs],
            place=leg.name,
            listener=self._trip.tell,
            known=known,
            is_new=is_new,
        )
        self._sent.setdefault(area, set()).update(known)

    async def job_spec(self, leg: Leg, itinerary: Itinerary, *, request_id: str) -> JobSpec:
        """The leg's job, as the trip is now."""
        metajob, destinations = self._trip.metajob, self._trip.destinations
        task = self.task_of(leg)
        inputs = await self._trip.inputs.of(task)
        assert task is not None, "the caller asks only for legs with a task"
        companions = tuple(
            Companion(leg=each.name, site=each.site, nodes=each.nodes, contact=each.contact)
            for each in itinerary.legs
            if each.name != leg.name
        )
        before, after = neighbours(metajob, itinerary, leg)
        relayed = relayed_from(metajob, itinerary, leg, destinations)
        return JobSpec(
            request_id=request_id,
            name=f"{itinerary.name}.{leg.name}"[:128],
            account=destinations[leg.machine].account,
            nodes=leg.nodes,
            limit_s=leg.interval.duration_s,
            argv=command_of(task),
            environment=task.environment,
            reservation_id=leg.reservation_id or "",
            companions=companions,
            leg_before="" if before is None else before.name,
            leg_after="" if after is None else after.name,
            handover=handover_of(metajob, itinerary, leg, destinations),
            inputs=tuple(each.file for each in inputs),
            relayed_from=relayed,
            gives=grant_of(metajob, itinerary, leg, destinations),
            deadline=metajob.latest_end,
            estimate_s=metajob.estimate_s,
            is_restartable=metajob.is_restartable,
            memory_mb=metajob.memory_mb,
            disk_mb=metajob.disk_mb,
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


def small_ones(inputs: Sequence[LocalInput]) -> list[LocalInput]:
    """The smallest inputs, as far as they may be sent while their leg is held."""
    small: list[LocalInput] = []
    total = 0
    for each in sorted(inputs, key=lambda one: (one.status.size_bytes, one.status.path)):
        total += each.status.size_bytes
        if total > SMALL_INPUTS_BYTES or len(small) == SMALL_INPUTS_MAX:
            break
        small.append(each)
    return small


def _check_unchanged(inputs: Sequence[LocalInput], expected: Mapping[str, str]) -> None:
    """Refuse to send what the job would not take. ``expected``: checksums by path, as its site has
    them since the booking.
    """
    for each in inputs:
        if expected.get(each.status.path, each.status.sha256) != each.status.sha256:
            raise InputError(
                f"{each.source} is not what it was when the trip was booked",
                hint="put it back as it was, or change the trip with `gur amend`",
            )


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

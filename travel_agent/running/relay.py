"""The laptop brings a stage's input, where no site can ask the one that has it.

A site that only this user reaches, by SSH or on this computer, gives its files to nobody else. The
job of the stage behind it waits at its site until the laptop has said which files came, and they
are there. So nothing can start without its input. The price is that the laptop must be there
between the two stages: ``gur watch`` does it as soon as the stage before is over, ``gur resume``
does what can be done now. A stage whose time goes by without is a failed one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from gridtravel.gridcore.errors import NotFoundError, UnavailableError
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.ports import FileStatus, OutputChunk, SitePort
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg
from gridtravel.gridio.sites.transfers import (
    as_announced,
    deliver,
    handed_files,
    some_at_once,
    what_is_there,
)
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.running.jobs import LegWork
from gridtravel.travel_agent.running.pipeline_inputs import relayed_from, stage_of, waits_for
from gridtravel.travel_agent.trip_context import TripContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """What brings the inputs of one trip's stages."""

    trip: TripContext
    work: LegWork

    async def bring_now(self, itinerary: Itinerary) -> list[str]:
        """Bring every input that is there already (``gur resume``); the stages whose inputs were
        brought.
        """
        names = []
        for leg in self._pending(itinerary):
            if not await self._is_queued(leg):
                continue
            if not await self._bring(itinerary, leg, may_wait=False):
                break
            names.append(leg.name)
        return names

    async def bring_in_time(self, itinerary: Itinerary) -> None:
        """Bring each input as soon as the stage before has ended (``gur watch``)."""
        for leg in self._pending(itinerary):
            if not await self._is_queued(leg):
                continue
            if not await self._bring(itinerary, leg, may_wait=True):
                return

    def _pending(self, itinerary: Itinerary) -> list[Leg]:
        """Stages whose jobs wait for this laptop, or have waited for it, in order."""
        trip = self.trip
        return [
            leg
            for leg in itinerary.legs
            if leg.job_id is not None
            and relayed_from(trip.metajob, itinerary, leg, trip.destinations)
        ]

    async def _bring(self, itinerary: Itinerary, leg: Leg, *, may_wait: bool) -> bool:
        """Bring the input of ``leg`` when the stage before has ended well. False: it has not ended
        (only without ``may_wait``), or badly, or has no job.
        """
        before = waits_for(self.trip.metajob, itinerary, leg)
        assert before is not None, "only stages with one before them are pending"
        if before.job_id is None:
            return False
        state = await self._end_of(before, may_wait=may_wait)
        if state is not JobState.COMPLETED:
            why = (
                f"{before.name} ended as {state}" if state.is_over else f"{before.name} is {state}"
            )
            self.trip.tell(
                News(step=Step.NOTE, place=leg.name, text=f"its input is not there: {why}")
            )
            return False
        await self._pass_on(before, leg)
        return True

    async def _end_of(self, leg: Leg, *, may_wait: bool) -> JobState:
        """Where a leg's job stands, or how it ended."""
        site = self.trip.destinations[leg.machine].connection.site
        async for view in site.watch_job(leg.job_id or ""):
            if view.state.is_over or not may_wait:
                return view.state
        raise UnavailableError(f"{leg.site} stopped telling of job {leg.job_id}")

    async def _is_queued(self, leg: Leg) -> bool:
        site = self.trip.destinations[leg.machine].connection.site
        (view,) = await site.jobs(job_ids=[leg.job_id or ""])
        return view.state is JobState.QUEUED

    async def _pass_on(self, before: Leg, leg: Leg) -> None:
        """Every file that is handed over, from site to site through here; nothing is kept. The
        site where the job waits for them is told before they come what they must be.
        """
        giver = self.trip.destinations[before.machine].connection.site
        receiver = self.trip.destinations[leg.machine].connection.site
        area, own = before.reservation_id or "", leg.reservation_id or ""
        stage = stage_of(self.trip.metajob, leg)
        assert stage is not None, "only stages are relayed"
        files: list[tuple[FileStatus, FileStatus]] = []
        for wanted in stage.receives:
            found = await giver.list_files(area, wanted.source, with_checksums=True)
            handed = handed_files(found, wanted.source, wanted.destination)
            if not handed:
                raise NotFoundError(
                    f"{before.name} at {before.site} left no {wanted.source!r}",
                    hint="receives must name what the stage before writes",
                )
            files += handed
        await receiver.name_inputs(own, [_as_input(target) for _, target in files])
        there = await what_is_there(receiver, own)

        async def bring(pair: tuple[FileStatus, FileStatus]) -> bool:
            file, target = pair
            read = partial(_read, giver, area, file)
            return await deliver(receiver, own, target, read, there.get(target.path))

        count = sum(await some_at_once(bring, files))
        text = f"{count} files brought from {before.name}"
        self.trip.tell(News(step=Step.STAGED, place=leg.name, text=text))


def _as_input(file: FileStatus) -> InputFile:
    return InputFile(path=file.path, size_bytes=file.size_bytes, sha256=file.sha256)


def _read(giver: SitePort, area: str, file: FileStatus, offset: int) -> AsyncIterator[OutputChunk]:
    return as_announced(giver.get_file(area, file.path, offset), file, offset)

"""GUR, the travel agent: one user's way to all sites, as a Python class.

``gur`` is a thin command line over this; whatever it prints comes from the values here. The agent
belongs to its user, needs no privilege and keeps no promise of its own: what is booked stands in
the sites' books, and in the trip's log on the laptop how it came about.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from gridcore.errors import (
    GridError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
)
from gridcore.itineraries import Itinerary, Leg, TripState
from gridcore.metajobs import MachineRequest, Metajob, UsagePattern
from gridio.clock import Clock
from gridio.connections import SiteConnection
from gridio.ids import IdSource
from travel_agent.booking import Booking
from travel_agent.deciding import OutcomeOpenError
from travel_agent.grid_config import GridConfig, MachineEntry
from travel_agent.legs import LegChange, LegOutput, LegWork
from travel_agent.metajob_files import parse_metajob
from travel_agent.metajob_writer import metajob_to_json
from travel_agent.news import Listener, News, Step, deaf
from travel_agent.offers import offered
from travel_agent.reports import SiteReport, TripReport, look_at, report_on
from travel_agent.resuming import Resumed, over, resume
from travel_agent.searching import Destination, Sweep
from travel_agent.trip_events import JobSubmitted, TripEnded, TripOpened
from travel_agent.trip_folders import TripFolders, TripJournals
from travel_agent.trip_log import ForgetfulLog, JournaledTripLog, TripLog, find_trip

Connect = Callable[[MachineEntry], SiteConnection]
"""Makes the connection to a machine; the command line chooses the transport."""

CLEAN_UP_S: Final = 3.0
"""How long a cancelled booking (Ctrl-C) may take to release its holds before they are left to
expire.
"""

ALTERNATIVES_TRIED_MAX: Final = 17
"""The metajob's own 16 at most, and one that a refusal offers."""


class TravelAgent:
    """One user at one laptop. Close it when done; connections are kept until then."""

    def __init__(
        self,
        config: GridConfig,
        state: Path,
        connect: Connect,
        *,
        clock: Clock,
        ids: IdSource,
        journals: TripJournals | None = None,
    ) -> None:
        """``journals``: where the trips' logs stand; default: in folders below ``state``."""
        self.config = config
        self._trips: TripJournals = journals or TripFolders(state / "trips")
        self._connect = connect
        self._clock = clock
        self._ids = ids
        self._connections: dict[tuple[str, ...], SiteConnection] = {}

    async def close(self) -> None:
        """End all connections."""
        await asyncio.gather(*(each.close() for each in self._connections.values()))
        self._connections.clear()

    # -- before the trip ---------------------------------------------------------------------------

    async def sites(self) -> list[SiteReport]:
        """Every machine of the user's list, reachable or not."""

        async def look(entry: MachineEntry) -> SiteReport:
            connection = self.connection(entry.machine)
            try:
                description = await connection.calendar.describe()
            except GridError as fault:
                return SiteReport(machine=entry, description=None, skew=None, problem=str(fault))
            return SiteReport(
                machine=entry,
                description=description,
                skew=connection.skew_s(),
                transport=connection.transport,
            )

        return list(await asyncio.gather(*(look(each) for each in self.config.machines.values())))

    async def quote(self, metajob: Metajob, *, listener: Listener = deaf) -> Itinerary:
        """What ``book`` would book now, without holding anything."""
        metajob.check_still_possible(self._clock.now())
        trip_id = self._ids.new_id("quote")
        booking = await self._booking(metajob, trip_id, ForgetfulLog(), listener)
        return await booking.quote()

    async def book(
        self,
        metajob: Metajob,
        *,
        base: Path | None = None,
        accept_alternative: bool = False,
        listener: Listener = deaf,
    ) -> Itinerary:
        """Book a trip and queue its jobs; the answer is BOOKED or DECLINED.

        ``base``: where relative paths of files to stage in begin. ``accept_alternative``: when the
        answer is a refusal with an offer, take that. A fault, and Ctrl-C, undo what was begun.
        """
        itinerary = await self._book_once(metajob, base, listener)
        tried = [metajob]
        wanted = [metajob.shaped_by(each) for each in metajob.alternatives]
        while itinerary.decline is not None:
            if not wanted and (accept_alternative or metajob.accepts_alternative):
                wanted = [
                    each for each in offered(tried[-1], itinerary.decline) if each not in tried
                ][:1]
            if not wanted or len(tried) > ALTERNATIVES_TRIED_MAX:
                break
            tried.append(wanted.pop(0))
            listener(News(step=Step.NOTE, text="trying the alternative"))
            itinerary = await self._book_once(tried[-1], base, listener)
        return itinerary

    async def _book_once(
        self, metajob: Metajob, base: Path | None, listener: Listener
    ) -> Itinerary:
        now = self._clock.now()
        metajob.check_still_possible(now)
        trip_id = self._ids.new_id("trip")
        destinations = self._destinations(metajob)
        work = LegWork(metajob, destinations, listener=listener)
        work.check_files(base or Path())
        await self._check_logins(destinations)
        log = JournaledTripLog(self._trips.create(trip_id), self._clock)
        try:
            await log.write(
                TripOpened(
                    trip_id=trip_id, name=metajob.name, metajob_json=metajob_to_json(metajob)
                )
            )
            booking = await self._booking(metajob, trip_id, log, listener)
            try:
                itinerary = await booking.book()
                if itinerary.state is TripState.BOOKED:
                    itinerary = await self._set_off(itinerary, work, base or Path(), log)
            except OutcomeOpenError:
                raise
            except (Exception, asyncio.CancelledError) as fault:
                # An undo that could not reach every site is not said again at once.
                if not log.story.is_undoing or isinstance(fault, asyncio.CancelledError):
                    await self._clean_up(log, booking, destinations)
                raise
            return itinerary
        finally:
            log.close()

    async def _set_off(
        self, itinerary: Itinerary, work: LegWork, base: Path, log: TripLog
    ) -> Itinerary:
        """Files in and jobs queued, at all sites at the same time."""

        async def prepare(leg: Leg) -> Leg:
            if work.task_of(leg) is None or leg.job_id is not None:
                return leg
            await work.stage_in(leg, base)
            view = await work.submit(leg, itinerary)
            await log.write(JobSubmitted(leg=leg.name, job_id=view.job_id))
            return replace(leg, job_id=view.job_id)

        legs = await asyncio.gather(*(prepare(leg) for leg in itinerary.legs))
        return replace(itinerary, legs=tuple(legs))

    async def _clean_up(
        self, log: JournaledTripLog, booking: Booking, destinations: dict[str, Destination]
    ) -> None:
        """Undo a booking that was interrupted, within ``CLEAN_UP_S``; holds expire otherwise."""

        async def undo() -> None:
            story = log.story
            async with asyncio.timeout(CLEAN_UP_S):
                if story.is_undoing:
                    await resume(story, booking, destinations, log)
                elif story.state is TripState.HELD:
                    await booking.abandon(story.itinerary(), story.attempt, story.acceptors)
                elif story.state is TripState.BOOKED:
                    await booking.cancel(story.itinerary(), story.attempt, story.acceptors)
                elif not story.state.is_over:
                    await resume(story, booking, destinations, log)

        task = asyncio.ensure_future(undo())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.gather(task, return_exceptions=True)
        except (GridError, TimeoutError):
            # The log knows what may be left; `gur resume` goes on from there.
            return

    # -- after booking -----------------------------------------------------------------------------

    def trips(self) -> list[str]:
        """Ids of all trips that this laptop knows, the oldest first."""
        return self._trips.trip_ids()

    async def status(self, wanted: str) -> TripReport:
        """Where a trip stands, by the books of its sites."""
        log = self._open(wanted)
        try:
            story = log.story
            itinerary = story.itinerary()
            if not itinerary.legs or story.state.is_over:
                return TripReport(itinerary=itinerary, jobs={})
            destinations = self._destinations(self._metajob(log))
            looks = await asyncio.gather(
                *(look_at(leg, destinations[leg.name]) for leg in itinerary.legs)
            )
            report = report_on(itinerary, looks)
            if report.itinerary.state.is_over and not story.state.is_over:
                await log.write(TripEnded(state=report.itinerary.state.value))
            return report
        finally:
            log.close()

    async def cancel(self, wanted: str, *, listener: Listener = deaf) -> Itinerary:
        """Undo a trip at every site: jobs are stopped, reservations released."""
        log = self._open(wanted)
        try:
            story = log.story
            if story.state.is_over:
                return story.itinerary()
            metajob = self._metajob(log)
            booking = await self._booking(metajob, story.trip_id, log, listener)
            if story.state is TripState.PLANNED:
                destinations = self._destinations(metajob)
                return (await resume(story, booking, destinations, log)).itinerary
            if story.state is TripState.HELD:
                return await booking.abandon(story.itinerary(), story.attempt, story.acceptors)
            return await booking.cancel(story.itinerary(), story.attempt, story.acceptors)
        finally:
            log.close()

    async def resume(self, wanted: str, *, listener: Listener = deaf) -> Resumed:
        """Finish or undo what an interrupted command left, and say what was found."""
        log = self._open(wanted)
        try:
            if log.story.state.is_over:
                return over(log.story)
            metajob = self._metajob(log)
            destinations = self._destinations(metajob)
            booking = await self._booking(metajob, log.story.trip_id, log, listener)
            answer = await resume(log.story, booking, destinations, log)
            if answer.itinerary.state is TripState.BOOKED:
                work = LegWork(metajob, destinations, listener=listener)
                itinerary = await self._set_off(answer.itinerary, work, Path(), log)
                if itinerary != answer.itinerary:
                    done = f"{answer.done}; queued its jobs"
                    answer = replace(answer, itinerary=itinerary, done=done)
            return answer
        finally:
            log.close()

    async def follow(self, wanted: str) -> AsyncIterator[LegOutput | LegChange]:
        """Output and states of a trip's jobs as they come, until all are over."""
        metajob, itinerary = self._remembered(wanted)
        work = LegWork(metajob, self._destinations(metajob))
        async for item in work.follow(itinerary):
            yield item

    async def fetch(
        self, wanted: str, folder: Path, *, listener: Listener = deaf
    ) -> dict[str, list[Path]]:
        """Bring the results of every leg into ``folder/<leg>/``."""
        metajob, itinerary = self._remembered(wanted)
        work = LegWork(metajob, self._destinations(metajob), listener=listener)
        fetched = await asyncio.gather(
            *(work.fetch(leg, folder / leg.name) for leg in itinerary.legs)
        )
        return {leg.name: paths for leg, paths in zip(itinerary.legs, fetched, strict=True)}

    def connection(self, machine: str) -> SiteConnection:
        """The connection to a machine of the user's list, kept until ``close``."""
        entry = self.config.machine(machine)
        key = (entry.site, *entry.ways, entry.ssh_socket)
        if key not in self._connections:
            self._connections[key] = self._connect(entry)
        return self._connections[key]

    # -- inside ------------------------------------------------------------------------------------

    def _open(self, wanted: str) -> JournaledTripLog:
        trip_id = find_trip(self._trips, wanted, self._clock)
        return JournaledTripLog(self._trips.open(trip_id), self._clock, trip_id=trip_id)

    def _remembered(self, wanted: str) -> tuple[Metajob, Itinerary]:
        """What was asked for and what was booked, without keeping the log from others."""
        log = self._open(wanted)
        try:
            itinerary = log.story.itinerary()
            if not itinerary.legs:
                raise NotFoundError(
                    f"trip {itinerary.trip_id} is {itinerary.state} and has no legs",
                    hint="`gur status` shows it",
                )
            return self._metajob(log), itinerary
        finally:
            log.close()

    def _metajob(self, log: JournaledTripLog) -> Metajob:
        return parse_metajob(
            log.story.metajob_json,
            now=self._clock.now(),
            zone=self.config.zone,
            source="the trip's log",
            form="json",
            may_be_past=True,
        ).metajob

    def _destinations(self, metajob: Metajob) -> dict[str, Destination]:
        if metajob.usage_pattern is UsagePattern.PIPELINE:
            raise InputError(
                "pipelines cannot be booked yet", hint="book each stage as a trip of its own"
            )
        return {request.machine: self._destination(request) for request in metajob.candidates}

    def _destination(self, request: MachineRequest) -> Destination:
        entry = self.config.machine(request.machine)
        return Destination(
            request=request,
            connection=self.connection(request.machine),
            site=entry.site,
            endpoint=entry.shared_endpoint,
            features=entry.features,
            is_manager=entry.is_manager,
        )

    async def _booking(
        self, metajob: Metajob, trip_id: str, log: TripLog, listener: Listener
    ) -> Booking:
        destinations = self._destinations(metajob)
        search = Sweep(metajob, destinations, trip_id, listener=listener)
        return Booking(
            metajob,
            trip_id,
            destinations,
            search,
            log,
            self._clock,
            run_id=self._ids.new_id("run"),
            listener=listener,
        )

    async def _check_logins(self, destinations: dict[str, Destination]) -> None:
        """Where the metajob names a login, the site must know the user by it."""
        named = {name: each for name, each in destinations.items() if each.request.login}

        async def check(name: str, destination: Destination) -> None:
            known = (await destination.connection.calendar.describe()).login
            if known != destination.request.login:
                told = f"as {known!r}" if known else "not at all"
                raise NotAuthorisedError(
                    f"{name} knows you {told}; the metajob names {destination.request.login!r}",
                    hint="correct the login, or ask the site for an entry in its grid-mapfile",
                )

        await asyncio.gather(*(check(name, each) for name, each in named.items()))

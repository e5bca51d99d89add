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

from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridcore.trips.trip_wishes import TripEvent
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.gridio.system.notify import Notifier
from gridtravel.travel_agent.booking.amend import Changed, TripChange, amend
from gridtravel.travel_agent.booking.amendment import TripAmendment
from gridtravel.travel_agent.booking.book import ask_only, set_out
from gridtravel.travel_agent.booking.heal import PATIENCE_S, Healed, heal
from gridtravel.travel_agent.booking.outcome import say_ready
from gridtravel.travel_agent.booking.race import call_off_race, resume_race
from gridtravel.travel_agent.booking.resume import Resumed, over, resume
from gridtravel.travel_agent.booking.two_phase import Booking
from gridtravel.travel_agent.log.folders import TripFolders, TripJournals
from gridtravel.travel_agent.news import Listener, News, Step, deaf
from gridtravel.travel_agent.running.history import TripHistory, histories, history
from gridtravel.travel_agent.running.jobs import LegChange, LegOutput, LegWork
from gridtravel.travel_agent.running.notify import notify_people
from gridtravel.travel_agent.running.race_reports import RACERS
from gridtravel.travel_agent.running.relay import Relay
from gridtravel.travel_agent.running.reports import SiteReport, TripReport
from gridtravel.travel_agent.running.staging import check_apart, check_size
from gridtravel.travel_agent.running.watch import attend, report
from gridtravel.travel_agent.search.alternatives import offered
from gridtravel.travel_agent.session import Connect, GridSession
from gridtravel.travel_agent.sites.config import GridConfig, MachineEntry

FETCH_BYTES_MAX: Final = 10_000_000_000
"""Results of one trip, unless the user says that more may come."""
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
        notifier: Notifier | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``journals``: where the trips' logs stand; default: in folders below ``state``.
        ``notifier``: how mail goes out; default: by the mail server of ``config``.
        ``tell``: hears what the user should know beside the answers.
        """
        self.config = config
        self._session = GridSession(
            config,
            connect,
            clock=clock,
            ids=ids,
            journals=journals or TripFolders(state / "trips"),
            notifier=notifier or config.notifier(),
            tell=tell,
        )

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    def connection(self, machine: str) -> SiteConnection:
        """The connection to a machine of the user's list, kept until ``close``."""
        return self._session.connection(machine)

    # -- before the trip ---------------------------------------------------------------------------

    async def sites(self) -> list[SiteReport]:
        """Every machine of the user's list, reachable or not."""

        async def look(entry: MachineEntry) -> SiteReport:
            try:
                connection = self._session.connection(entry.machine)
                description = await connection.calendar.describe()
            except GridError as fault:
                return SiteReport(machine=entry, description=None, skew=None, fault=fault)
            return SiteReport(
                machine=entry,
                description=description,
                skew=connection.skew_s(),
                transport=connection.transport,
            )

        return list(await asyncio.gather(*(look(each) for each in self.config.machines.values())))

    async def quote(self, metajob: Metajob, *, listener: Listener = deaf) -> Itinerary:
        """What ``book`` would book now, without holding anything."""
        return await ask_only(self._session, metajob, listener)

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
        itinerary = await set_out(self._session, metajob, base or Path(), listener)
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
            itinerary = await set_out(self._session, tried[-1], base or Path(), listener)
        return itinerary

    # -- after booking -----------------------------------------------------------------------------

    def trips(self) -> list[str]:
        """Ids of all trips that this laptop knows, the oldest first."""
        return self._session.journals.trip_ids()

    async def status(
        self, wanted: str, *, listener: Listener = deaf, is_brief: bool = False
    ) -> TripReport:
        """Where a trip stands, by the books of its sites; people are told what is new in it.
        ``is_brief``: of a trip that is over only what this laptop remembers.
        """
        return await report(self._session, wanted, listener, is_brief=is_brief)

    def itinerary_ics(self, wanted: str) -> str:
        """A trip as iCalendar, as this laptop remembers it."""
        from gridtravel.travel_agent.running.icalendar import itinerary_ics

        log = self._session.open_log(wanted)
        try:
            story, now = log.story, self._session.clock.now()
            return itinerary_ics(story.itinerary(), now=now, sequence=story.attempt.number)
        finally:
            log.close()

    def histories(
        self,
        *,
        state: TripState | None = None,
        since: Instant = 0,
        on_fault: Callable[[str, GridError], None] = lambda _, __: None,
    ) -> list[TripHistory]:
        """What this laptop remembers of its trips, the oldest first; no site is asked.
        ``on_fault``: is told of each trip whose log cannot be read.
        """
        return list(histories(self._session, state=state, since=since, on_fault=on_fault))

    def history(self, wanted: str) -> TripHistory:
        """One trip step by step, from its log."""
        return history(self._session, self._session.find(wanted))

    async def amend(
        self,
        wanted: str,
        change: TripChange,
        *,
        base: Path | None = None,
        listener: Listener = deaf,
    ) -> Changed:
        """Change a booked trip as a whole: another window, another size, another metajob. The old
        is not let go before all of the new is held; a refusal leaves it as it was. ``base``: where
        relative paths of files to stage in begin.
        """
        return await amend(self._session, wanted, change, base or Path(), listener)

    async def heal(
        self, wanted: str, *, patience_s: int = PATIENCE_S, listener: Listener = deaf
    ) -> Healed:
        """Look whether every leg of a booked trip can be kept, and mend the trip by its metajob's
        healing rules. ``patience_s``: how long a silent site is waited for.
        """
        return await heal(self._session, wanted, listener, patience_s=patience_s)

    async def cancel(self, wanted: str, *, listener: Listener = deaf) -> Itinerary:
        """Undo a trip at every site: jobs are stopped, reservations released."""
        log = self._session.open_log(wanted)
        try:
            story = log.story
            if story.state.is_over:
                return story.itinerary()
            if self._session.metajob_of(log).is_race:
                return await call_off_race(self._session, log, listener)
            await TripAmendment(self._session, log, listener).settle(is_cancelled=True)
            if log.story.itinerary().state.is_over:
                return story.itinerary()
            trip = self._session.trip_of(log, listener)
            booking = Booking(trip)
            if story.state is TripState.PLANNED:
                return (await resume(booking)).itinerary
            if story.state is TripState.HELD:
                return await booking.abandon(story.itinerary(), story.attempt)
            return await booking.cancel(story.itinerary(), story.attempt)
        finally:
            log.close()

    async def resume(self, wanted: str, *, listener: Listener = deaf) -> Resumed:
        """Finish or undo what an interrupted command left, and say what was found."""
        log = self._session.open_log(wanted)
        try:
            if log.story.state.is_over:
                return over(log.story)
            if self._session.metajob_of(log).is_race:
                return await resume_race(self._session, log, listener)
            settled = await TripAmendment(self._session, log, listener).settle()
            trip = await self._session.met(self._session.trip_of(log, listener))
            answer = await resume(Booking(trip))
            if settled:
                answer = replace(answer, found="a change was not finished", done=settled)
            if answer.itinerary.state is TripState.BOOKED:
                work, staged = LegWork(trip), log.story.staged
                itinerary = await work.finish(answer.itinerary, sent=staged)
                await say_ready(trip, log.story.attempt, itinerary.legs)
                if log.story.staged != staged:
                    answer = replace(answer, done=f"{answer.done}; sent its files")
                if names := await Relay(trip=trip, work=work).bring_now(itinerary):
                    told = f"{answer.done}; brought the input of {', '.join(names)}"
                    answer = replace(answer, done=told)
                answer = replace(answer, itinerary=itinerary)
                await notify_people(self._session, trip, TripEvent.BOOKED, itinerary)
            return answer
        finally:
            log.close()

    def follow(
        self, wanted: str, *, listener: Listener = deaf
    ) -> AsyncIterator[LegOutput | LegChange]:
        """Output and states of a trip's jobs as they come, until all are over; people are told
        before the start and at the end.
        """
        return attend(self._session, wanted, listener)

    async def fetch(
        self,
        wanted: str,
        folder: Path,
        *,
        overwrite: bool = False,
        bytes_max: int = FETCH_BYTES_MAX,
        listener: Listener = deaf,
    ) -> dict[str, list[Path]]:
        """Bring the results of every leg into ``folder/<trip's name>/<leg>/``. What is there
        already is not sent again; ``InputError`` before anything is written when other files lie in
        their place, unless they are to be overwritten, or when they are larger than ``bytes_max``
        in all, or than the disk has room for.
        """
        trip = self._session.remembered(wanted, listener)
        legs = trip.log.story.itinerary().legs
        if trip.metajob.is_race:
            now = (await self.status(wanted, listener=listener)).itinerary
            legs = tuple(each for each in now.legs if each.state in RACERS)
        work, name = LegWork(trip), trip.metajob.name
        plans = await asyncio.gather(
            *(
                work.plan_fetch(leg, folder, f"{name}/{leg.name}", overwrite=overwrite)
                for leg in legs
            )
        )
        check_apart(plans)
        check_size(plans, folder, bytes_max)
        fetched = await asyncio.gather(
            *(
                work.fetch(leg, plan, overwrite=overwrite)
                for leg, plan in zip(legs, plans, strict=True)
            )
        )
        return {leg.name: paths for leg, paths in zip(legs, fetched, strict=True)}

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

from gridcore.errors import GridError
from gridcore.instants import Instant
from gridcore.itineraries import Itinerary, TripState
from gridcore.metajobs import Metajob
from gridcore.trip_wishes import TripEvent
from gridio.clock import Clock
from gridio.connections import SiteConnection
from gridio.ids import IdSource
from gridio.notify import Notifier
from travel_agent.amending import Amending
from travel_agent.attending import attend, report
from travel_agent.changing import Changed, TripChange, amend, requeue_jobs
from travel_agent.grid_config import GridConfig, MachineEntry
from travel_agent.healing import PATIENCE_S, Healed, heal
from travel_agent.histories import TripHistory, histories, history
from travel_agent.legs import LegChange, LegOutput, LegWork
from travel_agent.news import Listener, News, Step, deaf
from travel_agent.offers import offered
from travel_agent.office import Connect, Office
from travel_agent.racing import RACERS, call_off_race, resume_race
from travel_agent.relaying import Relay, bring_now
from travel_agent.reports import SiteReport, TripReport
from travel_agent.resuming import Resumed, over, resume
from travel_agent.setting_out import ask_only, queue_jobs, set_out
from travel_agent.telling import tell_people
from travel_agent.trip_folders import TripFolders, TripJournals

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
        self._office = Office(
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
        await self._office.close()

    def connection(self, machine: str) -> SiteConnection:
        """The connection to a machine of the user's list, kept until ``close``."""
        return self._office.connection(machine)

    # -- before the trip ---------------------------------------------------------------------------

    async def sites(self) -> list[SiteReport]:
        """Every machine of the user's list, reachable or not."""

        async def look(entry: MachineEntry) -> SiteReport:
            connection = self._office.connection(entry.machine)
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
        return await ask_only(self._office, metajob, listener)

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
        itinerary = await set_out(self._office, metajob, base or Path(), listener)
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
            itinerary = await set_out(self._office, tried[-1], base or Path(), listener)
        return itinerary

    # -- after booking -----------------------------------------------------------------------------

    def trips(self) -> list[str]:
        """Ids of all trips that this laptop knows, the oldest first."""
        return self._office.journals.trip_ids()

    async def status(
        self, wanted: str, *, listener: Listener = deaf, is_brief: bool = False
    ) -> TripReport:
        """Where a trip stands, by the books of its sites; people are told what is new in it.
        ``is_brief``: of a trip that is over only what this laptop remembers.
        """
        return await report(self._office, wanted, listener, is_brief=is_brief)

    def itinerary_ics(self, wanted: str) -> str:
        """A trip as iCalendar, as this laptop remembers it."""
        from travel_agent.calendar_file import itinerary_ics

        log = self._office.open_log(wanted)
        try:
            story, now = log.story, self._office.clock.now()
            return itinerary_ics(story.itinerary(), now=now, sequence=story.attempt)
        finally:
            log.close()

    def histories(self, *, state: TripState | None = None, since: Instant = 0) -> list[TripHistory]:
        """What this laptop remembers of its trips, the oldest first; no site is asked."""
        return list(histories(self._office, state=state, since=since))

    def history(self, wanted: str) -> TripHistory:
        """One trip step by step, from its log."""
        return history(self._office, self._office.find(wanted))

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
        return await amend(self._office, wanted, change, base or Path(), listener)

    async def heal(
        self, wanted: str, *, patience_s: int = PATIENCE_S, listener: Listener = deaf
    ) -> Healed:
        """Look whether every leg of a booked trip can be kept, and mend the trip by its metajob's
        healing rules. ``patience_s``: how long a silent site is waited for.
        """
        return await heal(self._office, wanted, listener, patience_s=patience_s)

    async def cancel(self, wanted: str, *, listener: Listener = deaf) -> Itinerary:
        """Undo a trip at every site: jobs are stopped, reservations released."""
        log = self._office.open_log(wanted)
        try:
            story = log.story
            if story.state.is_over:
                return story.itinerary()
            metajob = self._office.metajob_of(log)
            if metajob.is_race:
                return await call_off_race(self._office, metajob, log, listener)
            await Amending(self._office, log, listener).settle(is_cancelled=True)
            if log.story.itinerary().state.is_over:
                return story.itinerary()
            metajob = self._office.metajob_of(log)
            booking = self._office.booking(metajob, story.trip_id, log, listener)
            if story.state is TripState.PLANNED:
                destinations = self._office.destinations(metajob)
                return (await resume(story, booking, destinations, log)).itinerary
            if story.state is TripState.HELD:
                return await booking.abandon(story.itinerary(), story.attempt, story.acceptors)
            return await booking.cancel(story.itinerary(), story.attempt, story.acceptors)
        finally:
            log.close()

    async def resume(self, wanted: str, *, listener: Listener = deaf) -> Resumed:
        """Finish or undo what an interrupted command left, and say what was found."""
        log = self._office.open_log(wanted)
        try:
            if log.story.state.is_over:
                return over(log.story)
            metajob = self._office.metajob_of(log)
            if metajob.is_race:
                return await resume_race(self._office, metajob, log, listener)
            settled = await Amending(self._office, log, listener).settle()
            metajob = self._office.metajob_of(log)
            destinations = self._office.destinations(metajob)
            booking = self._office.booking(metajob, log.story.trip_id, log, listener)
            answer = await resume(log.story, booking, destinations, log)
            if settled:
                answer = replace(answer, found="a change was not finished", done=settled)
            if answer.itinerary.state is TripState.BOOKED:
                work = LegWork(metajob, destinations, listener=listener)
                if log.story.is_amended:
                    itinerary = await requeue_jobs(self._office, log, Path(), listener)
                else:
                    sent = log.story.staged
                    itinerary = await queue_jobs(answer.itinerary, work, Path(), log, sent=sent)
                relay = Relay(metajob=metajob, destinations=destinations, work=work, tell=listener)
                itinerary = await bring_now(relay, itinerary, log)
                jobs = {leg.name: leg.job_id for leg in itinerary.legs}
                if jobs != {leg.name: leg.job_id for leg in answer.itinerary.legs}:
                    answer = replace(answer, done=f"{answer.done}; queued its jobs")
                answer = replace(answer, itinerary=itinerary)
                await tell_people(
                    self._office, log, metajob, TripEvent.BOOKED, itinerary, listener=listener
                )
            return answer
        finally:
            log.close()

    def follow(
        self, wanted: str, *, listener: Listener = deaf
    ) -> AsyncIterator[LegOutput | LegChange]:
        """Output and states of a trip's jobs as they come, until all are over; people are told
        before the start and at the end.
        """
        return attend(self._office, wanted, listener)

    async def fetch(
        self, wanted: str, folder: Path, *, listener: Listener = deaf
    ) -> dict[str, list[Path]]:
        """Bring the results of every leg into ``folder/<leg>/``."""
        metajob, itinerary = self._office.remembered(wanted)
        legs = itinerary.legs
        if metajob.is_race:
            now = (await self.status(wanted, listener=listener)).itinerary
            legs = tuple(each for each in now.legs if each.state in RACERS)
        work = LegWork(metajob, self._office.destinations(metajob), listener=listener)
        fetched = await asyncio.gather(*(work.fetch(leg, folder / leg.name) for leg in legs))
        return {leg.name: paths for leg, paths in zip(legs, fetched, strict=True)}

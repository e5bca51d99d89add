"""One user's session on the grid: the machines with a connection to each, and the logs of trips.

Every part of the travel agent is given one; it books nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gridtravel.gridcore.errors import (
    GridError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
)
from gridtravel.gridcore.trips.metajobs import MachineRequest, Metajob, UsagePattern
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.gridio.system.notify import Notifier
from gridtravel.travel_agent.local_files import LocalInputs
from gridtravel.travel_agent.log.finding import find_trip
from gridtravel.travel_agent.log.folders import TripJournals
from gridtravel.travel_agent.log.trip_log import JournaledTripLog, SharedTripLog, TripLog
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.news import Listener
from gridtravel.travel_agent.sites.config import GridConfig, MachineEntry
from gridtravel.travel_agent.sites.destinations import Destination
from gridtravel.travel_agent.trip_context import TripContext

Connect = Callable[[MachineEntry], SiteConnection]
"""Makes the connection to a machine; the command line chooses the transport."""


class GridSession:
    """One user's machines and trips. Close it when done; connections are kept until then."""

    def __init__(
        self,
        config: GridConfig,
        connect: Connect,
        *,
        clock: Clock,
        ids: IdSource,
        journals: TripJournals,
        notifier: Notifier,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.config = config
        self.journals = journals
        self.notifier = notifier
        self.clock = clock
        self.ids = ids
        self._connect = connect
        self._tell = tell
        self._connections: dict[tuple[str, ...], SiteConnection] = {}
        self._cards: dict[str, str] = {}
        """By site: where other sites reach it, as it has told this command, or an earlier one."""
        self._met: set[str] = set()
        """Sites that this command has asked for their cards."""

    async def close(self) -> None:
        """End all connections."""
        await asyncio.gather(*(each.close() for each in self._connections.values()))
        self._connections.clear()

    def connection(self, machine: str) -> SiteConnection:
        """The connection to a machine of the user's list, kept until ``close``."""
        entry = self.config.machine(machine)
        key = entry.connection_key
        if key not in self._connections:
            self._connections[key] = self._connect(entry)
        return self._connections[key]

    def destinations(self, metajob: Metajob) -> dict[str, Destination]:
        """The machines at which the trip may go, by name."""
        return {request.machine: self._destination(request) for request in metajob.candidates}

    @staticmethod
    def check_sites(destinations: dict[str, Destination]) -> None:
        """Two machines without an agent that the same commands serve are one site; nobody there
        could say that it was taken for two (docs/ssh.md).
        """
        known: dict[str, tuple[str, str]] = {}
        for name, each in destinations.items():
            if not each.commands:
                continue
            other, site = known.setdefault(each.commands, (name, each.site))
            if site != each.site:
                raise InputError(
                    f"{other} and {name} are one site: both are {each.commands}, and your list"
                    f" calls them {site} and {each.site}",
                    hint="give both the same site, or correct the login of one",
                )

    async def check_logins(self, destinations: dict[str, Destination]) -> None:
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

    def keepers(self, metajob: Metajob) -> tuple[str, ...]:
        """The sites that alone may keep a trip, by its metajob, else by the user's settings; none:
        any.
        """
        return metajob.keepers or self.config.keepers

    def check_keepers(self, metajob: Metajob) -> None:
        """``InputError`` when a trip goes to all its machines at once, and to none of its keepers.
        Where machines are chosen among, each plan is looked at (``TripContext.without_keeper``).
        """
        keepers = self.keepers(metajob)
        sites = dict.fromkeys(each.site for each in self.destinations(metajob).values())
        goes_everywhere = metajob.usage_pattern is UsagePattern.MULTIPLE and len(sites) > 1
        if goes_everywhere and keepers and not set(keepers) & set(sites):
            where = "the metajob" if metajob.keepers else str(self.config.path)
            raise InputError(
                f"the trip may be kept by {', '.join(keepers)} ({where}), and goes to none of them",
                hint=f"name one of its sites: keepers = {list(sites)}",
            )

    async def meet(self, metajob: Metajob) -> None:
        """Ask the sites of a trip for their cards, once in a command, so that they can be passed on
        to the other sites. One that does not answer is no reason to give up: others may do.
        ``destinations`` and ``trip`` have the cards from then on.
        """
        if metajob.usage_pattern is UsagePattern.SINGLE and not metajob.is_race:
            return  # one leg, which nobody else has to be asked about
        places = {
            each.site: each
            for each in self.destinations(metajob).values()
            if each.endpoint and not each.is_manager and each.site not in self._met
        }

        async def ask(site: str, destination: Destination) -> None:
            try:
                self._cards[site] = (await destination.connection.calendar.describe()).card
            except GridError:
                return
            self._met.add(site)

        await asyncio.gather(*(ask(site, each) for site, each in places.items()))

    async def met(self, trip: TripContext) -> TripContext:
        """A trip with the cards of its sites, where its legs wait for each other."""
        if not trip.metajob.stages:
            return trip
        await self.meet(trip.metajob)
        return replace(trip, destinations=self.destinations(trip.metajob))

    def find(self, wanted: str) -> str:
        """The id of the trip that ``wanted`` names; the user is told when it was a choice."""
        found = find_trip(self.journals, wanted)
        if found.note:
            self._tell(found.note)
        return found.trip_id

    def open_log(self, wanted: str) -> JournaledTripLog:
        """The log of the trip that ``wanted`` names; nobody else writes it until it is closed."""
        trip_id = self.find(wanted)
        journal = self.journals.open(trip_id)
        if journal.was_rewound:
            self._tell_of_older_copy(trip_id)
        return JournaledTripLog(journal, self.clock, trip_id=trip_id)

    def read_log(self, trip_id: str) -> tuple[Record, ...]:
        """What is stored of a trip by now, also while another command works on it."""
        stored = self.journals.read(trip_id)
        if stored.is_older_copy:
            self._tell_of_older_copy(trip_id)
        return stored.records

    def _tell_of_older_copy(self, trip_id: str) -> None:
        self._tell(
            f"the log of {trip_id} is an older copy of what this laptop wrote; what was booked or "
            f"undone since stands in its sites' books"
        )

    def metajob_of(self, log: TripLog) -> Metajob:
        """What was asked for, as the log has it."""
        return self.parsed(log.story.metajob_json)

    def trip_of(self, log: TripLog, listener: Listener) -> TripContext:
        """The trip as its log has it now."""
        story = log.story
        for each in (*story.attempt.acceptors, *story.race_acceptors):
            if each.card:
                self._cards.setdefault(each.site, each.card)
        return self.trip(story.trip_id, self.metajob_of(log), log, listener, base=Path(story.base))

    def trip(
        self, trip_id: str, metajob: Metajob, log: TripLog, listener: Listener, *, base: Path
    ) -> TripContext:
        """A trip to the machines of ``metajob``. ``base``: where relative paths of files begin."""
        return TripContext(
            trip_id=trip_id,
            metajob=metajob,
            destinations=self.destinations(metajob),
            log=log,
            clock=self.clock,
            inputs=LocalInputs(base),
            ids=self.ids,
            tell=listener,
            keepers=self.keepers(metajob),
        )

    def parsed(self, metajob_json: str) -> Metajob:
        """A metajob as a log keeps it."""
        return parse_metajob(
            metajob_json,
            now=self.clock.now(),
            zone=self.config.zone,
            source="the trip's log",
            form="json",
            may_be_past=True,
        ).metajob

    def remembered(self, wanted: str, listener: Listener) -> TripContext:
        """A trip that was booked, with a log that is not kept from other commands."""
        log = self.open_log(wanted)
        try:
            story = log.story
            if not story.itinerary().legs:
                raise NotFoundError(
                    f"trip {story.trip_id} is {story.state} and has no legs",
                    hint="`gur status` shows it",
                )
            return self.trip_of(SharedTripLog(self.journals, story, self.clock), listener)
        finally:
            log.close()

    def _destination(self, request: MachineRequest) -> Destination:
        entry = self.config.machine(request.machine)
        return Destination(
            request=request,
            connection=self.connection(request.machine),
            site=entry.site,
            endpoint=entry.shared_endpoint,
            features=entry.features,
            is_manager=entry.is_manager,
            only_sets=entry.only_sets,
            has_agent=entry.batch is None,
            commands=entry.ways[0] if entry.batch is not None else "",
            card=self._cards.get(entry.site),
        )

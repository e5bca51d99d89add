"""The travel agent's office: the user's machines with a connection to each, and the logs of trips.

Every part of the travel agent works from here; nothing here books anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gridcore.errors import NotAuthorisedError, NotFoundError
from gridcore.itineraries import Itinerary
from gridcore.metajobs import MachineRequest, Metajob
from gridio.clock import Clock
from gridio.connections import SiteConnection
from gridio.ids import IdSource
from gridio.notify import Notifier
from travel_agent.booking import Booking
from travel_agent.grid_config import GridConfig, MachineEntry
from travel_agent.metajob_files import parse_metajob
from travel_agent.news import Listener
from travel_agent.search_choice import choose_search
from travel_agent.searches import SearchChoice
from travel_agent.searching import Destination
from travel_agent.trip_finding import find_trip
from travel_agent.trip_folders import TripJournals
from travel_agent.trip_log import JournaledTripLog, TripLog

Connect = Callable[[MachineEntry], SiteConnection]
"""Makes the connection to a machine; the command line chooses the transport."""


class Office:
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

    def booking(
        self,
        metajob: Metajob,
        trip_id: str,
        log: TripLog,
        listener: Listener,
        *,
        search: SearchChoice = SearchChoice.AUTO,
    ) -> Booking:
        """A booking of this trip, new or gone on with; ``search`` matters when it proposes."""
        destinations = self.destinations(metajob)
        return Booking(
            metajob,
            trip_id,
            destinations,
            choose_search(
                search, metajob, destinations, trip_id, log, self.clock, listener=listener
            ),
            log,
            self.clock,
            run_id=self.ids.new_id("run"),
            listener=listener,
        )

    def find(self, wanted: str) -> str:
        """The id of the trip that ``wanted`` names; the user is told when it was a choice."""
        found = find_trip(self.journals, wanted, self.clock)
        if found.note:
            self._tell(found.note)
        return found.trip_id

    def open_log(self, wanted: str) -> JournaledTripLog:
        """The log of the trip that ``wanted`` names; nobody else writes it until it is closed."""
        trip_id = self.find(wanted)
        return JournaledTripLog(self.journals.open(trip_id), self.clock, trip_id=trip_id)

    def metajob_of(self, log: JournaledTripLog) -> Metajob:
        """What was asked for, as the log has it."""
        return self.parsed(log.story.metajob_json)

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

    def remembered(self, wanted: str) -> tuple[Metajob, Itinerary]:
        """What was asked for and what was booked, without keeping the log from others."""
        log = self.open_log(wanted)
        try:
            itinerary = log.story.itinerary()
            if not itinerary.legs:
                raise NotFoundError(
                    f"trip {itinerary.trip_id} is {itinerary.state} and has no legs",
                    hint="`gur status` shows it",
                )
            return self.metajob_of(log), itinerary
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
        )

"""Fake sites, a network that does one wrong thing at a chosen message, and a laptop that can die.

Everything is in one process and in no time: clocks jump when somebody sleeps. The travel agent is
the real one; sites settle what is in doubt by the same consensus as real ones, on demand.
"""

from __future__ import annotations

import asyncio
import enum
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import NotFoundError, UnavailableError
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridcore.trips.trip_consensus import Outcome
from gridtravel.gridio.journal.contract import Journal, Record
from gridtravel.gridio.journal.memory import Disk, MemoryJournal, WriteStage
from gridtravel.gridio.rpc.inproc import InprocSite
from gridtravel.gridio.sites.connections import ClockSkew, SiteConnection, TransportName
from gridtravel.gridio.sites.trip_voting import OutsidersVoting
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.gridio.system.notify import RecordingNotifier
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.log.folders import StoredTrip
from gridtravel.travel_agent.log.trip_log import JournaledTripLog, TripStory
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.sites.config import GridConfig, MachineEntry
from tests.support.fake_services import FakeSite
from tests.support.grid_world import metajob_text

NOW: Final = 1_000_000
START: Final = NOW + 200
"""Holds are over long before."""
TRAVELLER: Final = Caller(subject="/O=test/CN=ada", login="ada", accounts=())
TURNS_MAX: Final = 200
"""Turns of the loop that a dead laptop's tasks are given to fall over."""


class Fault(enum.Enum):
    """What goes wrong with one message."""

    LOST_QUESTION = "the question never arrives"
    LOST_ANSWER = "the answer never comes back"
    DOUBLED = "the question arrives twice"
    LATE = "given up as lost, it arrives when all is over"
    DECLINED = "the site refuses"
    SITE_GONE = "the site answers nothing any more"
    LAPTOP_DIES_BEFORE = "the laptop dies before it sends the question"
    LAPTOP_DIES_AFTER = "the laptop dies before it hears the answer"


class LaptopDied(BaseException):
    """The process of the travel agent is gone: no error, and nobody may catch it."""


class LeapingClock(ManualClock):
    """Nobody waits: whoever sleeps wakes at once, and it is that late."""

    async def sleep_until(self, instant: float) -> None:
        """Let the others have a turn first."""
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
        if instant > self.now_precise():
            self.advance_to(instant)


@dataclass(frozen=True, slots=True)
class Mishap:
    """One wrong thing: ``fault`` at the ``nth`` time that ``verb`` is said to ``site``."""

    site: str
    verb: str
    nth: int
    fault: Fault

    def __str__(self) -> str:
        return f"{self.fault.name} at {self.verb} {self.nth} of {self.site}"


class FaultWorld:
    """Sites, one laptop's disk, and what is to go wrong."""

    def __init__(self, folder: Path, *sites: str, nodes: int = 4) -> None:
        self.clock = LeapingClock(NOW)
        self.sites: dict[str, FakeSite] = {}
        for name in sites:
            home = folder / name
            home.mkdir(parents=True, exist_ok=True)
            self.sites[name] = FakeSite(self.clock, home, name=name, nodes=nodes)
        for site in self.sites.values():
            site.beside = self.sites
        self.disks: dict[str, Disk] = {}
        self.mishaps: tuple[Mishap, ...] = ()
        self.die_at_write: tuple[int, WriteStage] | None = None
        self.writes = 0
        self.said: Counter[tuple[str, str]] = Counter()
        """How often each verb was said to each site."""
        self.gone: set[str] = set()
        self.late: list[Callable[[], Awaitable[object]]] = []
        self.is_dead = False
        self.notifier = RecordingNotifier()
        self._open: list[MemoryJournal] = []
        self._lives = 0

    # -- the laptop --------------------------------------------------------------------------------

    def laptop(self, **settings: Any) -> TravelAgent:
        """The travel agent in a new process, on the disk that there is. ``settings``: of its user's
        list of machines.
        """
        self._lives += 1
        self.is_dead = False
        machines = {
            name: MachineEntry(machine=f"{name}-machine", site=name, endpoint=f"inproc:{name}")
            for name in self.sites
        }
        config = GridConfig(
            path=Path("sites.toml"),
            credential_folder=Path("none"),
            zone=ZoneInfo("UTC"),
            machines={each.machine: each for each in machines.values()},
            **settings,
        )
        return TravelAgent(
            config,
            Path("nowhere"),
            lambda entry: cast(SiteConnection, FaultyConnection(self, entry.site)),
            clock=self.clock,
            ids=SeededIds(self._lives),
            journals=self,
            notifier=self.notifier,
        )

    def die(self) -> None:
        """The laptop's process ends at this instruction."""
        self.is_dead = True
        for journal in self._open:
            journal.crash()
        self._open.clear()

    async def live(self, work: Awaitable[object]) -> object:
        """What a command says, or its fault, or ``LaptopDied``."""
        task = asyncio.ensure_future(work)
        turns = 0
        while not task.done() and turns < TURNS_MAX:
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
            turns += self.is_dead
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        return LaptopDied() if self.is_dead else result

    def heal(self) -> None:
        """From now on nothing goes wrong any more."""
        self.mishaps, self.die_at_write = (), None
        self.gone.clear()

    def story(self) -> TripStory | None:
        """What the laptop's log of its latest trip says; ``None``: there is none."""
        if not self.disks:
            return None
        trip_id = max(self.disks)
        journal = MemoryJournal(self.disks[trip_id])
        try:
            return JournaledTripLog(journal, self.clock, trip_id=trip_id).story
        finally:
            journal.close()

    # -- ``TripJournals`` --------------------------------------------------------------------------

    def trip_ids(self) -> list[str]:
        """All trips, the oldest first."""
        return sorted(self.disks)

    def create(self, trip_id: str) -> Journal:
        """A journal on a new disk."""
        self.disks[trip_id] = Disk()
        return self.open(trip_id)

    def has(self, trip_id: str) -> bool:
        """Whether there is a disk for it."""
        return trip_id in self.disks

    def read(self, trip_id: str) -> StoredTrip:
        """What is on the disk."""
        if trip_id not in self.disks:
            raise NotFoundError(f"no trip {trip_id}", hint="")
        return StoredTrip(records=tuple(self.disks[trip_id].records))

    def open(self, trip_id: str) -> Journal:
        """The journal on the disk that is there."""
        if trip_id not in self.disks:
            raise NotFoundError(f"no trip {trip_id}", hint="")
        journal = MemoryJournal(self.disks[trip_id], on_write=self._on_write)
        self._open.append(journal)
        return journal

    def discard(self, trip_id: str) -> None:
        """The new trip is forgotten, unless the laptop is dead."""
        if not self.is_dead:
            del self.disks[trip_id]

    def _on_write(self, stage: WriteStage, records: Sequence[Record]) -> None:
        self.writes += stage is WriteStage.BEFORE
        if self.die_at_write == (self.writes, stage):
            self.die()

    # -- the sites ---------------------------------------------------------------------------------

    async def deliver_late(self) -> None:
        """Whatever the network kept arrives now."""
        late, self.late = self.late, []
        for question in late:
            await asyncio.gather(question(), return_exceptions=True)

    async def settle(self) -> None:
        """Every hold comes to the end of its life, and its site finds out what became of its trip;
        every leg comes near its start, and its site asks whether the trip was cancelled.
        """
        for site in self.sites.values():
            for hold in site.calendar.due_holds(self.clock.now()):
                await self._settle(site, hold)
        for site in self.sites.values():
            for kept in site.calendar.live():
                trip = kept.request.trip
                if trip is not None and trip.acceptors:
                    voting = self._voting(site, trip, trip.cancellation)
                    if await voting.learn() is Outcome.COMMIT:
                        now = self.clock.now()
                        events = site.calendar.decide_release(kept.reservation_id, None, now)
                        await site.carry_out(events)

    async def _settle(self, site: FakeSite, hold: Reservation) -> None:
        trip, calendar = hold.request.trip, site.calendar
        outcome: Outcome | None = Outcome.ABORT
        if trip is not None and trip.acceptors:
            voting = self._voting(site, trip, trip.instance)
            outcome = await voting.learn() or await voting.settle(Outcome.ABORT)
        assert outcome is not None, "all sites are there"
        now = self.clock.now()
        if outcome is Outcome.COMMIT:
            await site.carry_out(calendar.decide_late_commit(hold.reservation_id, now)[1])
        else:
            await site.carry_out(
                calendar.decide_release(
                    hold.reservation_id, None, now, event=ReservationEvent.EXPIRE
                )
            )

    def _voting(self, site: FakeSite, trip: TripRef, question: str) -> OutsidersVoting:
        name = site.calendar.site
        caller = Caller(subject=f"/O=test/CN={name}", role=Role.SITE, site=name)
        ports = {each.site: self.sites[each.site].calendar_port(caller) for each in trip.acceptors}
        return OutsidersVoting(question, ports, f"{name}:0")

    def live_legs(self) -> dict[str, list[ReservationState]]:
        """States of all live reservations, by site."""
        for site in self.sites.values():
            site.calendar.validate()
        return {
            name: [each.state for each in site.calendar.live()] for name, site in self.sites.items()
        }

    def changes(self) -> list[int]:
        """Grows whenever a book changes."""
        return [site.calendar.changes for site in self.sites.values()]

    def metajob(self, nodes: int = 0, **others: Any) -> Metajob:
        """One node at each site at ``START`` or later, with a job."""
        text = metajob_text(
            dict.fromkeys(self.sites, (1, 4)),
            nodes or len(self.sites),
            earliest=START,
            latest=START + 600,
            duration_s=60,
            command=["/bin/true"],
            **others,
        )
        return parse_metajob(text, now=NOW, zone=ZoneInfo("UTC"), form="toml").metajob

    # -- the network -------------------------------------------------------------------------------

    async def carry(
        self, site: str, verb: str, question: Callable[[], Awaitable[object]]
    ) -> object:
        """One question and its answer, with whatever is to go wrong."""
        if self.is_dead:
            raise LaptopDied
        self.said[site, verb] += 1
        nth = self.said[site, verb]
        wrong = next(
            (m.fault for m in self.mishaps if (m.site, m.verb, m.nth) == (site, verb, nth)), None
        )
        lost = UnavailableError(f"{verb} at {site}: no answer")
        if wrong is Fault.SITE_GONE:
            self.gone.add(site)
        if site in self.gone or wrong is Fault.LOST_QUESTION:
            raise lost
        if wrong is Fault.LATE:
            self.late.append(question)
            raise lost
        if wrong is Fault.LAPTOP_DIES_BEFORE:
            self.die()
            raise LaptopDied
        if wrong is Fault.DECLINED:
            return await self._decline(site, verb, question)
        if wrong is Fault.DOUBLED:
            await question()
        answer = await question()
        if wrong is Fault.LAPTOP_DIES_AFTER:
            self.die()
        if self.is_dead:
            raise LaptopDied
        if wrong is Fault.LOST_ANSWER:
            raise lost
        return answer

    async def _decline(
        self, site: str, verb: str, question: Callable[[], Awaitable[object]]
    ) -> object:
        """The site's own no, where the verb has one."""
        no = Decline(rule=DeclineRule.CHANGED, message=f"{site} changed its mind", site=site)
        if verb == "inquire":
            return [no for _ in cast(list[object], await question())]
        return no if verb in ("reserve", "submit", "commit") else await question()


class FaultyConnection:
    """``SiteConnection`` to a fake site over the faulty network."""

    def __init__(self, world: FaultWorld, site: str) -> None:
        inner = InprocSite(world.sites[site], TRAVELLER, clock=world.clock, name=site)
        self.calendar = cast(CalendarPort, FaultyPort(world, site, inner.calendar))
        self.site = cast(SitePort, FaultyPort(world, site, inner.site))
        self.transport: TransportName = inner.transport
        self.endpoint = inner.endpoint

    def skew_s(self) -> ClockSkew | None:
        """One clock for all."""
        return None

    async def close(self) -> None:
        """Nothing to end."""


class FaultyPort:
    """Every verb of a port, carried by the faulty network."""

    def __init__(self, world: FaultWorld, site: str, inner: object) -> None:
        self._world = world
        self._site = site
        self._inner = inner

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[object]]:
        work = getattr(self._inner, verb)

        async def say(*arguments: object, **named: object) -> object:
            return await self._world.carry(self._site, verb, lambda: work(*arguments, **named))

        return say


def told_truth(world: FaultWorld) -> str:
    """Why the laptop's log and the sites' books do not fit together, or nothing."""
    story, legs = world.story(), world.live_legs()
    states = [state for each in legs.values() for state in each]
    is_absent = not states
    is_whole = all(each == [ReservationState.COMMITTED] for each in legs.values())
    if not (is_absent or is_whole):
        return f"neither whole nor absent: {legs}"
    if story is None:
        return "" if is_absent else "booked, and the laptop knows nothing of it"
    if story.state is TripState.BOOKED and not is_whole:
        return "the log says BOOKED, and no site has it"
    if story.state.is_over and not is_absent:
        return f"the log says {story.state}, and the sites have it"
    return ""

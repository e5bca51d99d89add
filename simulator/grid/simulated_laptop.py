"""One traveller of a simulated world: the unmodified travel agent, and a user who keeps at it.

Each life of the laptop is a run of ``gur`` commands: first ``gur resume`` for every trip that an
earlier life left, until it succeeds; then the trips that the user still wishes for. What the user
was told is kept in the world (people remember), the trips' logs on the laptop's disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import (
    ConflictError,
    GridError,
    InputError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.journal.memory import Disk, MemoryJournal, WriteStage
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.simulator.checks.checked_world import undo_asked_at
from gridtravel.simulator.grid.simulated_site import endpoint_of, subject_of_laptop
from gridtravel.simulator.kernel.network_wire import SimulatedConnection
from gridtravel.simulator.kernel.processes import PointKind, SimulatedProcess, first_fault
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN, ClockStep, VirtualClock
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.booking.amend import TripChange
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.log.events import TripOpened
from gridtravel.travel_agent.log.folders import StoredTrip
from gridtravel.travel_agent.log.trip_log import CODEC, TripStory, story_of
from gridtravel.travel_agent.sites.config import GridConfig, MachineEntry

if TYPE_CHECKING:
    from gridtravel.gridio.journal.contract import Record
    from gridtravel.gridio.sites.connections import SiteConnection
    from gridtravel.simulator.grid.world_frame import WorldFrame

ASK_AGAIN_S: Final = 7.0
"""A user tries a command again this long after it failed."""
FAULTS_HEARD_MAX: Final = 200
"""After so many failures of one command the user gives up, and the world says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripWish:
    """What a user wants, and when."""

    at_s: float
    """Virtual second at which ``gur book`` is typed."""
    metajob: Metajob
    cancel_after_s: float | None = None
    """``gur cancel`` this long after the trip is booked; ``None``: never."""
    change: TripChange | None = None
    """``gur amend`` into this; ``None``: never."""
    amend_after_s: float = 0.0
    """This long after the trip is booked."""
    tries: int = 1
    """``gur book`` again when nothing came of it, so many times in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaptopPlan:
    """A traveller."""

    name: str
    wishes: tuple[TripWish, ...]
    skew_s: float = 0.0
    clock_steps: tuple[ClockStep, ...] = ()
    search: SearchChoice = SearchChoice.AUTO
    keepers: tuple[str, ...] = ()
    """Sites that may keep its trips; empty: any."""
    managers: tuple[str, ...] = ()
    """Calendar managers in its list of machines, beside all sites."""
    accounts: tuple[str, ...] = ()
    """Those that its user may charge at every site; none: the user's own."""


@dataclass(slots=True)
class Told:
    """What the user knows of one trip."""

    wish: TripWish
    number: int = 1
    """Which try of this wish."""
    trip_id: str = ""
    state: TripState | None = None
    """Last thing said by a command that ended well."""
    itinerary: Itinerary | None = None
    cancel_at_s: float | None = None
    amend_at_s: float | None = None
    is_amended: bool = False
    """``gur amend`` was typed."""
    is_settled: bool = False
    """No command about it is left to type."""

    @property
    def name(self) -> str:
        """The trip's name, another for each try."""
        return f"{self.wish.metajob.name}-{self.number}"


def read_story(disk: Disk) -> TripStory:
    """What a trip's log says, whoever has it open."""
    return story_of(disk.records)


class TripDisks:
    """``travel_agent.log.folders.TripJournals`` on simulated disks."""

    def __init__(self) -> None:
        self.disks: dict[str, Disk] = {}
        self.hook: Callable[[WriteStage, Sequence[Record]], None] | None = None
        self._open: dict[str, MemoryJournal] = {}

    def trip_ids(self) -> list[str]:
        """See ``TripJournals``."""
        return sorted(self.disks)

    def create(self, trip_id: str) -> MemoryJournal:
        """See ``TripJournals``."""
        self.disks[trip_id] = Disk()
        return self.open(trip_id)

    def has(self, trip_id: str) -> bool:
        """See ``TripJournals``."""
        return trip_id in self.disks

    def read(self, trip_id: str) -> StoredTrip:
        """See ``TripJournals``."""
        if trip_id not in self.disks:
            raise NotFoundError(f"there is no trip {trip_id!r}", hint="gur status lists them")
        return StoredTrip(records=tuple(self.disks[trip_id].records))

    def open(self, trip_id: str) -> MemoryJournal:
        """See ``TripJournals``."""
        if trip_id not in self.disks:
            raise NotFoundError(f"there is no trip {trip_id!r}", hint="book it first")
        journal = MemoryJournal(self.disks[trip_id], on_write=self.hook)
        self._open[trip_id] = journal
        return journal

    def discard(self, trip_id: str) -> None:
        """See ``TripJournals``. What a process had open that is dead stays as it was."""
        if self._open.pop(trip_id, None) is not None:
            del self.disks[trip_id]

    def crash(self) -> None:
        """The process that had them open dies."""
        for journal in self._open.values():
            journal.crash()
        self._open.clear()


class SimulatedLaptop:
    """See the module."""

    agent_type: type[TravelAgent] = TravelAgent

    def __init__(self, plan: LaptopPlan, sites: Sequence[str], frame: WorldFrame) -> None:
        self.plan = plan
        self.frame = frame
        self.name = plan.name
        self.clock = VirtualClock(frame.loop, skew_s=plan.skew_s, steps=plan.clock_steps)
        self.ids = SeededIds(frame.chance.child(plan.name).number())
        self.journals = TripDisks()
        self.told = [Told(wish) for wish in plan.wishes]
        self.starts = 0
        self.is_lost = False
        """It never comes back."""
        self._life: SimulatedProcess | None = None
        self._config = GridConfig(
            path=Path("sites.toml"),
            credential_folder=Path("credential"),
            zone=ZoneInfo("UTC"),
            search=plan.search,
            keepers=plan.keepers,
            machines={
                name: MachineEntry(
                    machine=name,
                    site=name,
                    endpoint=endpoint_of(name),
                    is_manager=name in plan.managers,
                )
                for name in (*sites, *plan.managers)
            },
        )

    @property
    def life(self) -> SimulatedProcess | None:
        """The life of its commands, if it lives."""
        return self._life if self._life is not None and self._life.is_alive else None

    @property
    def is_settled(self) -> bool:
        """True when its user has nothing left to type, or is gone."""
        return self.is_lost or all(each.is_settled for each in self.told)

    def stories(self) -> dict[str, TripStory]:
        """What its disks say, by trip."""
        return {trip_id: read_story(disk) for trip_id, disk in self.journals.disks.items()}

    def undone_s(self) -> dict[str, float]:
        """See ``CheckedLaptop``. Records bear whole seconds, and are not older than they say."""
        asked = {key: undo_asked_at(disk.records) for key, disk in self.journals.disks.items()}
        return {
            key: at - WORLD_BEGIN - self.clock.offset_s(at - WORLD_BEGIN)
            for key, at in asked.items()
            if at is not None
        }

    # -- as a host: nobody calls a laptop ----------------------------------------------------------

    def services(self) -> None:
        """None."""

    def acknowledged(self, method: str, question: Any, answer: Any) -> None:
        """Never called."""

    # -- lives -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the lid."""
        if self.life is not None or self.is_lost or self.frame.loop.is_ending:
            return
        self.starts += 1
        point = self.frame.crash_point_of(self.name) if self.starts == 1 else None
        life = SimulatedProcess(
            self.name, on_death=lambda: self.frame.crash_now(self.name), crash_at=point
        )
        self._life = life

        def hook(stage: WriteStage, records: Sequence[Record]) -> None:
            if stage is WriteStage.BEFORE:
                life.passes(PointKind.WRITE_BEFORE)
                return
            for record in records:
                self.frame.event_log.tell(self.name, "stores {}", CODEC.decode(record))
            life.passes(PointKind.WRITE_AFTER)

        self.journals.hook = hook
        self.frame.event_log.tell(self.name, "starts (start {})", self.starts)
        life.start(self._use(life), "user")

    def crash(self, *, is_power_cut: bool = False) -> None:
        """It dies here and now."""
        life = self.life
        if life is not None:
            life.end()
            self.journals.crash()

    def agent(self, life: SimulatedProcess) -> TravelAgent:
        """A travel agent as ``travel_agent.composition`` makes it."""
        caller = Caller(
            subject=subject_of_laptop(self.name), login=self.name, accounts=self.plan.accounts
        )

        def connect(entry: MachineEntry) -> SiteConnection:
            return SimulatedConnection(self.frame.network, life, self.clock, entry.site, caller)

        return self.agent_type(
            self._config,
            Path("/nowhere"),
            connect,
            clock=self.clock,
            ids=self.ids,
            journals=self.journals,
        )

    # -- the user ----------------------------------------------------------------------------------

    async def _use(self, life: SimulatedProcess) -> None:
        """All that the user types in one life; trips do not wait for each other."""
        agent = self.agent(life)
        try:
            async with asyncio.TaskGroup() as group:
                for told in list(self.told):
                    if not told.is_settled:
                        group.create_task(self._see_to(agent, told))
        except* Exception as faults:
            self.frame.event_log.broken(
                "no defects", f"{self.name}: {first_fault(faults)}", self.name
            )

    async def _see_to(self, agent: TravelAgent, told: Told) -> None:
        """One trip, from where an earlier life left it."""
        told.trip_id = self._trip_named(told.name)
        if not told.trip_id:
            await self._sleep_till(told.wish.at_s)
            await self._book(agent, told)
        if told.trip_id and told.state is None:
            await self._insist(agent, told, "resume")
        await self._change(agent, told)
        if told.state is TripState.BOOKED and told.wish.cancel_after_s is not None:
            if told.cancel_at_s is None:
                told.cancel_at_s = self.frame.loop.time() + told.wish.cancel_after_s
            await self._sleep_till(told.cancel_at_s)
            await self._insist(agent, told, "cancel")
        told.is_settled = True
        if told.state is TripState.ABSENT and told.number < told.wish.tries:
            again = Told(told.wish, told.number + 1)
            self.told.append(again)
            await self._see_to(agent, again)

    async def _change(self, agent: TravelAgent, told: Told) -> None:
        """Type ``gur amend``, once; a life that ends meanwhile makes the next one resume."""
        change = told.wish.change
        if change is None or told.is_amended or told.state is not TripState.BOOKED:
            return
        if told.amend_at_s is None:
            told.amend_at_s = self.frame.loop.time() + told.wish.amend_after_s
        await self._sleep_till(told.amend_at_s)
        told.is_amended, told.state = True, None
        event_log = self.frame.event_log
        event_log.tell(self.name, "$ gur amend {}", told.trip_id)
        try:
            changed = await agent.amend(told.trip_id, change)
        except (UnavailableError, InputError, ConflictError) as fault:
            # Out of reach; or it has begun, or the new window has passed.
            event_log.tell(self.name, "gur amend: {}", fault)
            await self._insist(agent, told, "resume")
        else:
            said = "changed" if changed.decline is None else "not changed"
            event_log.counts[f"amended: {said}"] += 1
            self._hear(told, changed.itinerary)

    async def _book(self, agent: TravelAgent, told: Told) -> None:
        """Type ``gur book``."""
        event_log = self.frame.event_log
        event_log.tell(self.name, "$ gur book {}", told.name)
        try:
            itinerary = await agent.book(replace(told.wish.metajob, name=told.name))
        except UnavailableError as fault:
            event_log.tell(self.name, "gur book: {}", fault)
            told.trip_id = self._trip_named(told.name)
        except InputError as fault:
            # Its window has passed, and nothing was begun.
            event_log.tell(self.name, "gur book: {}", fault)
        else:
            self._hear(told, itinerary)

    def _trip_named(self, name: str) -> str:
        """The trip on the laptop's disk that was opened under this name, as ``gur status`` finds
        it.
        """
        for trip_id, disk in self.journals.disks.items():
            opened = CODEC.decode(disk.records[0]) if disk.records else None
            if isinstance(opened, TripOpened) and opened.name == name:
                return trip_id
        return ""

    async def _sleep_till(self, at_s: float) -> None:
        while (left_s := at_s - self.frame.loop.time()) > 0:
            await self.clock.sleep_until(self.clock.now_precise() + left_s)

    async def _insist(self, agent: TravelAgent, told: Told, command: str) -> None:
        """Type a command until it ends well."""
        event_log = self.frame.event_log
        for _ in range(FAULTS_HEARD_MAX):
            event_log.tell(self.name, "$ gur {} {}", command, told.trip_id)
            try:
                if command == "resume":
                    itinerary = (await agent.resume(told.trip_id)).itinerary
                else:
                    itinerary = await agent.cancel(told.trip_id)
            except UnavailableError as fault:
                event_log.tell(self.name, "gur {}: {}", command, fault)
                command = "resume"
                await self.clock.sleep_until(self.clock.now_precise() + ASK_AGAIN_S)
                continue
            except GridError as fault:
                if isinstance(fault, ConflictError) and self._is_over(told.trip_id):
                    # Its legs' time went by while nobody was there to queue the jobs.
                    event_log.counts["resumed when it was over"] += 1
                    return
                event_log.broken(
                    "commands end well",
                    f"{self.name}: gur {command} {told.trip_id}: {type(fault).__name__}: {fault}",
                    told.trip_id,
                )
                return
            self._hear(told, itinerary)
            return
        event_log.broken(
            "commands end well",
            f"{self.name}: gur {command} {told.trip_id} fails for ever",
            told.trip_id,
        )

    def _is_over(self, trip_id: str) -> bool:
        """True when the time of every decided leg has come, by the trip's log."""
        story = read_story(self.journals.disks[trip_id])
        return all(leg.start <= self.clock.now() for leg in story.legs)

    def _hear(self, told: Told, itinerary: Itinerary) -> None:
        """A command ended well and said this."""
        told.trip_id, told.state, told.itinerary = itinerary.trip_id, itinerary.state, itinerary
        self.frame.event_log.tell(
            self.name, "gur says {} is {}", itinerary.trip_id, itinerary.state.value
        )
        self.frame.event_log.counts[f"told {itinerary.state.value}"] += 1
        self.frame.told(itinerary)

"""What the checkers need to see of a world: one that was simulated, or what real processes left.

The same checkers look at both (``trip_checkers``), so that what a real daemon wrote is judged as
strictly as a simulated one. Only a simulated world can be asked while it lives (``LivingWorld``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gridtravel.travel_agent.log.events import UndoAsked
from gridtravel.travel_agent.log.trip_log import CODEC

if TYPE_CHECKING:
    from gridtravel.agents.node_agent import NodeAgent
    from gridtravel.gridcore.timing.instants import Instant
    from gridtravel.gridcore.trips.itineraries import TripState
    from gridtravel.gridio.journal.contract import Record
    from gridtravel.gridio.ledger.ledger import Ledger
    from gridtravel.simulator.checks.site_ledger import SiteLedger
    from gridtravel.simulator.kernel.event_log import EventLog, Timekeeper
    from gridtravel.simulator.kernel.processes import SimulatedProcess
    from gridtravel.travel_agent.agent import TravelAgent
    from gridtravel.travel_agent.log.trip_log import TripStory


class CheckedClock(Protocol):
    """A site's clock."""

    def offset_s(self, at_s: float | None = None) -> float:
        """How far ahead of the true time it was at second ``at_s`` of the world, by default now."""
        ...


class CheckedSite(Protocol):
    """A site, by what is on its disk."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def ledger(self) -> SiteLedger:
        """The checkers' own book of its disk."""
        ...

    @property
    def clock(self) -> CheckedClock:
        """Its clock."""
        ...


class CheckedTold(Protocol):
    """What a user was told of one trip."""

    @property
    def trip_id(self) -> str:
        """The trip; empty: none was begun."""
        ...

    @property
    def state(self) -> TripState | None:
        """Last thing said by a command that ended well."""
        ...


class CheckedLaptop(Protocol):
    """A laptop, by what is on its disk and what its user was told."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def is_lost(self) -> bool:
        """True when it never comes back."""
        ...

    @property
    def told(self) -> Sequence[CheckedTold]:
        """By trip, or by wish."""
        ...

    def stories(self) -> dict[str, TripStory]:
        """What its logs say, by trip."""
        ...

    def undone_s(self) -> dict[str, float]:
        """By trip: the second of the world at which its log first says that it is to be undone."""
        ...


def undo_asked_at(records: Iterable[Record]) -> Instant | None:
    """When a trip's log first says that the trip is to be undone, by the laptop's clock. ``None``:
    it does not; a trip that has failed or is completed was not undone.
    """
    undoing = (each.at for each in records if isinstance(CODEC.decode(each), UndoAsked))
    return next(undoing, None)


class CheckedWorld(Protocol):
    """All of it."""

    @property
    def sites(self) -> Mapping[str, CheckedSite]:
        """By name."""
        ...

    @property
    def laptops(self) -> Mapping[str, CheckedLaptop]:
        """By name."""
        ...

    @property
    def event_log(self) -> EventLog:
        """Where broken promises are written down."""
        ...

    @property
    def storm_ends_s(self) -> float:
        """From this second on everybody who comes back was back, and nothing more went wrong."""
        ...

    @property
    def liars(self) -> frozenset[str]:
        """Names of the sites and laptops that lie."""
        ...

    def why_unheard(
        self, site: str, acceptors: Sequence[str], from_s: float, until_s: float
    ) -> str:
        """Why ``site`` may not have learned an outcome from ``acceptors`` between these seconds, by
        what really happened in the world; empty: it should have.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUse:
    """A task that ran, as the machine itself knows it; seconds since the epoch on its clock."""

    job_id: str
    begun: float
    ended: float
    """Now, as long as it runs."""
    nodes: tuple[str, ...]


class LivingSite(CheckedSite, Protocol):
    """A site whose agent can be looked at."""

    @property
    def agent(self) -> NodeAgent | None:
        """The agent; ``None`` while it is down."""
        ...

    @property
    def accounts(self) -> Ledger:
        """What its users pay from."""
        ...

    @property
    def has_clock_steps(self) -> bool:
        """True when somebody sets its clock meanwhile, so that its times cannot be compared."""
        ...

    def restarted(self) -> NodeAgent:
        """An agent beside the living one, started from a copy of the disk."""
        ...

    def uses(self) -> list[MachineUse]:
        """Every task that began."""
        ...


class LivingLaptop(CheckedLaptop, Protocol):
    """A laptop on which a command can be typed."""

    @property
    def life(self) -> SimulatedProcess | None:
        """The life of its commands, if it lives."""
        ...

    def agent(self, life: SimulatedProcess) -> TravelAgent:
        """A travel agent that belongs to this life."""
        ...


class CheckedWatcher(Protocol):
    """Somebody who keeps a shadow of a site's calendar."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def agreed_at(self) -> float | None:
        """When the shadow was last found equal to its owner's calendar."""
        ...


class LivingWorld(CheckedWorld, Protocol):
    """A simulated world between two of its days."""

    @property
    def loop(self) -> Timekeeper:
        """Its time."""
        ...

    @property
    def sites(self) -> Mapping[str, LivingSite]:
        """By name."""
        ...

    @property
    def laptops(self) -> Mapping[str, LivingLaptop]:
        """By name."""
        ...

    def was_away(self, site: str, from_s: float, until_s: float) -> bool:
        """True when a site did nothing at some moment between these seconds."""
        ...

    @property
    def watchers(self) -> Sequence[CheckedWatcher]:
        """Those who subscribe to a site's calendar."""
        ...

"""What the parties of a simulated world share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gridtravel.gridcore.booking.reservations import Reservation, TripRef
    from gridtravel.gridcore.trips.itineraries import Itinerary
    from gridtravel.gridio.trust.cards import SharedKeyCards
    from gridtravel.simulator.kernel.chance import Chance
    from gridtravel.simulator.kernel.event_log import EventLog
    from gridtravel.simulator.kernel.network import Network
    from gridtravel.simulator.kernel.processes import CrashPoint
    from gridtravel.simulator.kernel.virtual_loop import VirtualLoop


class Startable(Protocol):
    """A party that can be started."""

    def start(self) -> None:
        """Start it, if it is down."""
        ...


class WorldFrame(Protocol):
    """The world as its parties see it."""

    loop: VirtualLoop
    chance: Chance
    event_log: EventLog
    network: Network
    cards: SharedKeyCards
    """In place of an authority, which a simulated grid has not."""

    def crash_point_of(self, party: str) -> CrashPoint | None:
        """Where the first life of ``party`` is to crash."""
        ...

    def crash_now(self, party: str) -> None:
        """A crash point was reached."""
        ...

    def told(self, itinerary: Itinerary) -> None:
        """A command ended well, and showed a user this."""
        ...

    def restart_later(self, party: Startable, delay_s: float) -> None:
        """Start a party again after a while."""
        ...


class LiarsFrame(WorldFrame, Protocol):
    """The same, as those see it who know of everybody's trips."""

    storm_s: float
    """How long new faults come."""

    def site_names(self) -> Sequence[str]:
        """All sites of the world."""
        ...

    def known_trips(self) -> Sequence[TripRef]:
        """A leg of each attempt that any site has held, in the order in which they came: an id is
        no secret.
        """
        ...

    def known_reservations(self, site: str) -> Sequence[Reservation]:
        """What a site has held, whoever owns it."""
        ...

"""What the checkers need to see of a world: one that was simulated, or what real processes left.

The same checkers look at both (``trip_checkers``), so that what a real daemon wrote is judged as
strictly as a simulated one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gridcore.itineraries import TripState
    from simulator.chronicle import Chronicle
    from simulator.site_ledger import SiteLedger
    from travel_agent.trip_log import TripStory


class Timekeeper(Protocol):
    """What second of the world it is: a virtual loop, or a reader of old records."""

    is_ending: bool
    """True when the world only clears up."""

    def time(self) -> float:
        """Seconds since the world's beginning."""
        ...


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
    def chronicle(self) -> Chronicle:
        """Where broken promises are written down."""
        ...

    @property
    def storm_ends_s(self) -> float:
        """From this second on everybody who comes back was back, and nothing more went wrong."""
        ...

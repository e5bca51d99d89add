"""One open connection to one site, whatever carries it.

The travel agent and the managers hold one of these for each site they talk to and keep it for life.
They never ask which kind it is: gRPC, gRPC through SSH and the in-process twin all have this shape,
and one conformance suite runs over them. ``SkewMeter`` is what they learn a site's clock with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from gridtravel.gridcore.errors import NotAuthorisedError, UnavailableError
from gridtravel.gridcore.ports import CalendarPort, SitePort

TransportName = Literal["grpc", "ssh", "inproc"]

DRIFT_MAX: Final = 100e-6
"""Two clocks part by at most this fraction of the time that passes: twice 50 ppm, the worst of
ordinary crystals.
"""


class IdentityNotProvenError(NotAuthorisedError):
    """The two ends could not prove to each other who they are: no certificate, an expired one, a
    foreign authority, or another site's name. The verb itself was not looked at.

    Unlike a plain ``NotAuthorisedError`` it says nothing about what the caller may do, so another
    way to the same site (SSH) is worth trying.
    """


class UnreachableError(UnavailableError):
    """There is no connection to the site: nobody listens there, there is no route, no such name, or
    something else answers. Another way to the same site is worth trying.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSkew:
    """The site's clock minus ours: the truth lies within ``uncertainty_s`` of ``skew_s``."""

    skew_s: float
    """Positive: the site's clock is ahead of ours."""
    uncertainty_s: float
    """Half of the round trip it was measured on, and what clocks may have drifted since; never
    negative.
    """


class SkewMeter:
    """The site's clock minus ours, learnt from ordinary calls (Cristian's method); keeps the best
    measurement so far.

    An answer carries the site's clock of the moment it was made, which lies somewhere between our
    sending and our receiving: the middle is the best guess, and half of the round trip bounds the
    error, however unequal the two ways are. So the shortest round trip tells most; it is kept until
    drift has eaten its advantage.
    """

    def __init__(self) -> None:
        self._skew_s = 0.0
        self._uncertainty_s = math.inf
        self._measured_at = 0.0

    def measure(self, *, sent_at: float, received_at: float, site_time: float) -> None:
        """Take one exchange into account; times in seconds, the first two on our clock.

        An exchange during which our clock was set back, or an absurd site time, says nothing.
        """
        round_trip_s = received_at - sent_at
        if not (round_trip_s >= 0 and math.isfinite(site_time)):
            return
        uncertainty_s = round_trip_s / 2
        if uncertainty_s <= self._uncertainty_at(received_at):
            self._skew_s = site_time - (sent_at + received_at) / 2
            self._uncertainty_s = uncertainty_s
            self._measured_at = received_at

    def estimate(self, now: float) -> ClockSkew | None:
        """What is known at ``now`` on our clock; ``None`` before the first exchange."""
        uncertainty_s = self._uncertainty_at(now)
        if math.isinf(uncertainty_s):
            return None
        return ClockSkew(skew_s=self._skew_s, uncertainty_s=uncertainty_s)

    def _uncertainty_at(self, now: float) -> float:
        return self._uncertainty_s + abs(now - self._measured_at) * DRIFT_MAX


class SiteConnection(Protocol):
    """A way to one site, as one caller. The ports raise ``UnavailableError`` while it is down and
    work again when it is back; a connection need never be replaced.
    """

    @property
    def calendar(self) -> CalendarPort:
        """The site's calendar."""
        ...

    @property
    def site(self) -> SitePort:
        """The site for its own users. Where a service has none (a manager), each call is a
        ``NotFoundError``.
        """
        ...

    @property
    def transport(self) -> TransportName:
        """What carries the calls."""
        ...

    @property
    def endpoint(self) -> str:
        """Where it leads, for messages and logs: ``host:port``, ``unix:/path``, ``inproc:name``."""
        ...

    def skew_s(self) -> ClockSkew | None:
        """The best estimate of the site's clock minus ours; ``None`` before the first answer."""
        ...

    async def close(self) -> None:
        """End the connection and what runs over it. Twice is the same as once."""
        ...

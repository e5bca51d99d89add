"""One open connection to one site, whatever carries it.

The travel agent and the managers hold one of these for each site they talk to and keep it for life.
They never ask which kind it is: gRPC, gRPC through SSH and the in-process twin all have this shape,
and one conformance suite runs over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from gridcore.errors import NotAuthorisedError, UnavailableError
from gridcore.ports import CalendarPort, SitePort

TransportName = Literal["grpc", "ssh", "inproc"]


class IdentityNotProvenError(NotAuthorisedError):
    """The two ends could not prove to each other who they are: no certificate, an expired one, a
    foreign authority, or another site's name. The verb itself was not looked at.

    Unlike a plain ``NotAuthorisedError`` it says nothing about what the caller may do, so another
    way to the same site (SSH) is worth trying.
    """


class UnreachableError(UnavailableError):
    """The door is shut: nobody listens there, no way leads there, there is no such name, or what
    answers is something else. Another way to the same site is worth trying.
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

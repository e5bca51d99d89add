"""Where the legs of a trip meet: one port a leg, fixed with its hold, so that companions can be
told of it long before anything runs.

The port is only a number that no other live reservation of the site has. The leg's program listens
on it; the system does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from gridtravel.gridcore.booking.reservations import Reservation

_CONTACT_OF: Final = attrgetter("contact")


class PortPool:
    """Hands out ``host:port`` from the site's range."""

    def __init__(self, host: str, ports: range) -> None:
        self._host = host
        self._ports = ports

    def pick(self, live: Iterable[Reservation]) -> str:
        """A contact that no live reservation has; empty when the range is used up."""
        taken = set(map(_CONTACT_OF, live))
        for port in self._ports:
            contact = f"{self._host}:{port}"
            if contact not in taken:
                return contact
        return ""

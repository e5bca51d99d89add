"""What the legs of a trip need to know of each other, once all of them are held.

The traveller learns it with the holds and proposes it with COMMIT, as part of that value: whoever
learns that a trip is committed learns in the same message where the other legs listen. So a leg's
job is whole without another word from the laptop (docs/decisions/0034). Everything that is known
earlier, such as the names, sites and sizes of the legs, travels with the hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.identifiers import check_id

MANIFEST_LEGS_MAX: Final = 256
"""As many as a metajob can name machines."""
CONTACT_LENGTH_MAX: Final = 261
"""``host:port``, with the longest name that DNS has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Where each leg of an attempt can be reached by the others. An empty one says nothing: no leg
    has a task, or no site gives its legs a contact.
    """

    contacts: tuple[tuple[str, str], ...] = ()
    """(leg, ``host:port`` of its first node), sorted by leg, each leg once. A leg whose site gives
    none is left out.
    """

    def __post_init__(self) -> None:
        legs = [leg for leg, _ in self.contacts]
        if len(legs) > MANIFEST_LEGS_MAX:
            raise InputError(
                f"a manifest of {len(legs)} legs, at most {MANIFEST_LEGS_MAX} are allowed"
            )
        if len(set(legs)) < len(legs):
            raise InputError("a manifest names a leg twice")
        for leg, contact in self.contacts:
            check_id("leg name", leg)
            if not is_contact(contact):
                told = f"{contact[:60]!r} is no contact of leg {leg}"
                raise InputError(told, hint="written as host:port")
        if legs != sorted(legs):
            object.__setattr__(self, "contacts", tuple(sorted(self.contacts)))

    def contact_of(self, leg: str) -> str:
        """Where ``leg`` listens; empty: its site gives no contact."""
        return dict(self.contacts).get(leg, "")


NO_CONTACTS: Final = Manifest()
"""Of a trip whose legs need to know nothing of each other."""


def is_contact(text: str) -> bool:
    """True for the form ``host:port``; whether anybody listens there is not asked."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 1 << 16
    is_host = bool(host) and host.isascii() and host.isprintable() and " " not in host
    return is_host and is_port and len(text) <= CONTACT_LENGTH_MAX

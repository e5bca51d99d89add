"""Who asks. Made from what the channel proved, never from a field of a message."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Role(enum.StrEnum):
    """What a caller may do beside looking after its own things."""

    USER = "user"
    MANAGER = "manager"
    """May reserve on behalf of a beneficiary."""
    SITE = "site"
    """Another site of the grid: may ask for a trip's outcome and move files of trips."""
    ADMIN = "admin"
    """Looks after the site: sees and changes everything in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A proven identity, as one site maps it."""

    subject: str
    """Subject of the certificate, or ``login:<name>`` for a login proven by the kernel."""
    login: str = ""
    """Local account that the grid-mapfile (or the kernel) names; empty: known, but mapped to
    no login.
    """
    accounts: tuple[str, ...] = ()
    """Charge accounts it may use; empty: any."""
    role: Role = Role.USER
    site: str = ""
    """Name of the site that the certificate proves; empty: not a site."""

    @property
    def owner(self) -> str:
        """The name under which this caller's reservations and jobs are kept."""
        return self.login or self.subject

    def may_charge(self, account: str) -> bool:
        """True when ``account`` may be named in its requests."""
        return not self.accounts or account in self.accounts

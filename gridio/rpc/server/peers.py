"""From what a channel proves to the ``Caller`` that the services see."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from gridtravel.gridcore import callers
from gridtravel.gridcore.callers import Caller
from gridtravel.gridio.trust import identity
from gridtravel.gridio.trust.gridmap import GridMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What the carrier proved about the other end: exactly one of ``subject`` and ``login``."""

    subject: str = ""
    """Subject of the certificate of a TLS connection, still valid at the time of the call."""
    login: str = ""
    """Local account of the process at the other end of the local socket, as the kernel says."""
    address: str = ""
    """Where it comes from, for logs; proves nothing."""

    @property
    def name(self) -> str:
        """The proven name: the subject, or ``login:<name>``."""
        return self.subject or f"login:{self.login}"


Identify: TypeAlias = Callable[[Peer], Caller]
"""How one site maps a proven name; ``NotAuthorisedError`` for a peer that may not even look."""


def map_caller(peer: Peer, grid_map: GridMap, admins: Collection[str] = ()) -> Caller:
    """The ordinary ``Identify``: by grid-mapfile and local login.

    A subject that the file does not name is nobody: an empty login, which may only look; a site of
    the grid is a site by its certificate alone, since each participant of a trip may ask for its
    outcome. A manager is one only where the file says ``@manager``. A local login may charge what
    the file gives to the subjects that map to it, and its own name. ``admins`` are logins; they
    look after the site, whichever way they come.
    """
    if peer.login:
        accounts = dict.fromkeys([peer.login])
        for subject in grid_map.subjects_of(peer.login):
            accounts.update(dict.fromkeys(grid_map.accounts_of(subject)))
        return Caller(
            subject=peer.name,
            login=peer.login,
            accounts=tuple(accounts),
            role=callers.Role.ADMIN if peer.login in admins else callers.Role.USER,
        )
    login = grid_map.login_of(peer.subject) or ""
    known = identity.GridIdentity.parse(peer.subject)
    is_site = known is not None and known.role is identity.Role.SITE
    role = callers.Role.USER
    if login and login in admins:
        role = callers.Role.ADMIN
    elif grid_map.role_of(peer.subject) is identity.Role.MANAGER:
        role = callers.Role.MANAGER
    elif is_site:
        role = callers.Role.SITE
    return Caller(
        subject=peer.subject,
        login=login,
        accounts=grid_map.accounts_of(peer.subject),
        role=role,
        site=known.name if known is not None and is_site else "",
    )

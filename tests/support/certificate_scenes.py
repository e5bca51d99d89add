"""A grid's authority and credentials for tests, with defaults; a test states only what matters to
it.
"""

from __future__ import annotations

from pathlib import Path

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.credentials import Credential

NOW: Instant = 1_700_000_000
HOUR_S = 3600


def an_authority(folder: Path, *, grid: str = "grid", now: Instant = NOW) -> Authority:
    """A fresh authority in ``folder / "ca"``."""
    return Authority.create(folder / "ca", grid, SeededIds(1), now)


def a_site(
    authority: Authority, folder: Path, *, name: str = "sdsc", now: Instant = NOW
) -> Credential:
    """A site on loopback, its files in ``folder / name``."""
    return authority.issue_site(name, folder / name, now, hosts=["localhost", "127.0.0.1"])


def a_user(
    authority: Authority, folder: Path, *, login: str = "kenneth", now: Instant = NOW
) -> Credential:
    """A user for twelve hours, the files in ``folder / login``."""
    return authority.issue_user(login, folder / login, now)

"""One caller at one site: the two ports, what the site says of itself, and whose zone counts.

Who is calling is the kernel's word about this process; there is nothing to log in with.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from gridtravel.gridcore.errors import InputError, NotAuthorisedError, UnavailableError
from gridtravel.gridcore.ports import CalendarPort, SiteDescription, SitePort
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import find_zone

if TYPE_CHECKING:
    from gridtravel.gridio.sites.connections import SiteConnection

SOCKET_VARIABLE: Final = "CATALINA_SOCKET"
ZONE_VARIABLE: Final = "CATALINA_ZONE"
DEFAULT_SOCKET: Final = "/run/gridtravel/agent.sock"
"""Where a site's package lets its agent listen (``[site] socket``)."""
SOCKET_HINT: Final = f"name the agent's socket with --socket or {SOCKET_VARIABLE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a command works with."""

    calendar: CalendarPort
    site: SitePort
    description: SiteDescription
    zone: ZoneInfo
    """Times without a zone are read in it, and all times are shown in it."""
    new_id: Callable[[str], str]
    """Makes request ids."""

    @property
    def now(self) -> Instant:
        """The site's clock when the session began: relative times are counted from it."""
        return int(self.description.time_precise)

    def earlier(self, seconds: int) -> Session:
        """The same session as it would have been so much earlier."""
        then = self.description.time_precise - seconds
        return replace(self, description=replace(self.description, time_precise=then))


def find_socket(named: str, environment: Mapping[str, str]) -> Path:
    """The socket named by the option, else by the environment, else the default; checked, so that
    the answer says at once what is wrong with it.
    """
    text = named or environment.get(SOCKET_VARIABLE, "") or DEFAULT_SOCKET
    path = Path(text.removeprefix("unix:")).expanduser().absolute()
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UnavailableError(
            f"no agent serves at {path}", hint=f"start the site's daemon, or {SOCKET_HINT}"
        ) from None
    except PermissionError:
        raise _not_let_in(path) from None
    except (OSError, ValueError) as fault:
        raise InputError(f"{str(path)[:120]!r} is no path of a socket: {fault}") from None
    if not stat.S_ISSOCK(mode):
        raise InputError(f"{path} is no socket", hint=SOCKET_HINT)
    if not os.access(path, os.W_OK):
        raise _not_let_in(path)
    return path


@asynccontextmanager
async def open_session(
    socket: str, zone_name: str, environment: Mapping[str, str]
) -> AsyncIterator[Session]:
    """Connect to the site's agent on this machine.

    The zone is the one named, else that of ``CATALINA_ZONE``, else the site's own: times at a site
    are its clocks' times, wherever the caller's terminal stands.
    """
    named_zone = zone_name or environment.get(ZONE_VARIABLE, "")
    zone = find_zone(named_zone) if named_zone else None
    path = find_socket(socket, environment)
    from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
    from gridtravel.gridio.system.ids import new_id

    connection = GrpcSite(f"unix:{path}")
    try:
        yield await session_on(connection, zone, new_id)
    finally:
        await connection.close()


async def session_on(
    connection: SiteConnection, zone: ZoneInfo | None, new_id: Callable[[str], str]
) -> Session:
    """A session over any connection; ``zone`` ``None``: the site's."""
    description = await connection.calendar.describe()
    return Session(
        calendar=connection.calendar,
        site=connection.site,
        description=description,
        zone=zone or find_zone(description.time_zone),
        new_id=new_id,
    )


def _not_let_in(path: Path) -> NotAuthorisedError:
    return NotAuthorisedError(
        f"you may not connect to {path}",
        hint="ask whoever runs the site to let your group in ([site] socket_group)",
    )

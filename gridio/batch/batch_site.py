"""One site that has only a batch system's own commands, as a connection like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gridcore.ports import CalendarPort, SitePort
from gridio.batch.batch_calendar import BatchCalendar
from gridio.batch.batch_site_port import BatchSitePort
from gridio.batch.gridengine import GridEngine
from gridio.batch.options import BatchOptions
from gridio.batch.running import CommandRunner
from gridio.batch.shell import Shell
from gridio.batch.slurm import Slurm
from gridio.batch.systems import BatchSystem
from gridio.clock import Clock, SystemClock
from gridio.connections import ClockSkew, TransportName

_SYSTEMS: Final[dict[str, BatchSystem]] = {each.name: each for each in (GridEngine(), Slurm())}


class BatchSite:
    """A ``SiteConnection`` whose every call is one or a few commands of the batch system, run as
    the account to which ``runner`` leads. Nothing is connected before the first call.
    """

    def __init__(
        self,
        runner: CommandRunner,
        options: BatchOptions,
        *,
        site: str,
        features: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        """``features``: what the user knows the nodes to have; the batch system is not asked."""
        clock = clock or SystemClock()
        system = _SYSTEMS[options.system]
        self._runner = runner
        self._shell = Shell(runner, options, clock, site=site)
        self._calendar = BatchCalendar(self._shell, system, site=site, features=frozenset(features))
        self._site = BatchSitePort(self._shell, system, self._calendar, clock, site=site)

    @property
    def calendar(self) -> CalendarPort:
        """The site's calendar."""
        return self._calendar

    @property
    def site(self) -> SitePort:
        """The site for its own users."""
        return self._site

    @property
    def transport(self) -> TransportName:
        """``ssh``, or ``inproc`` on a login node."""
        return self._runner.transport

    @property
    def endpoint(self) -> str:
        """Where the commands are run."""
        return self._runner.endpoint

    def skew_s(self) -> ClockSkew | None:
        """The best estimate of the site's clock minus ours; ``None`` before the first answer."""
        return self._shell.skew_s()

    async def close(self) -> None:
        """End the login. What runs at the far end is not touched."""
        await self._runner.close()

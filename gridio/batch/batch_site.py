"""One site that has only a batch system's own commands, as a connection like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridio.batch.batch_calendar import BatchCalendar
from gridtravel.gridio.batch.batch_jobs import BatchJobs
from gridtravel.gridio.batch.batch_site_port import BatchSitePort
from gridtravel.gridio.batch.gridengine import GridEngine
from gridtravel.gridio.batch.options import BatchOptions
from gridtravel.gridio.batch.running import CommandRunner
from gridtravel.gridio.batch.shell import Shell
from gridtravel.gridio.batch.slurm import Slurm
from gridtravel.gridio.batch.systems import BatchSystem
from gridtravel.gridio.sites.connections import ClockSkew, TransportName
from gridtravel.gridio.system.clock import Clock, SystemClock

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
        jobs = BatchJobs(self._shell, system, clock, site=site)
        calendar = BatchCalendar(self._shell, system, jobs, site=site, features=frozenset(features))
        self.calendar: CalendarPort = calendar
        self.site: SitePort = BatchSitePort(self._shell, system, calendar, jobs, clock, site=site)

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

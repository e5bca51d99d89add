"""What keeps simulated sites busy while a study asks them for something: jobs of a recorded log, or
jobs that were made up.

Each site lives another stretch of the same log, so that sites of one size are loaded differently. A
task's true run time travels in its command line, which only the simulated machine reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.calendar_rules import FlatTariff
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.local_sched.resource_managers.simulated import SimulatedRun
from gridtravel.simulator.grid.simulated_site import SimulatedSite
from gridtravel.simulator.replay.swf import TraceJob

if TYPE_CHECKING:
    from gridtravel.agents.agent_parts import AgentParts
    from gridtravel.gridio.journal.memory import MemoryJournal
    from gridtravel.local_sched.resource_managers.base import Launch
    from gridtravel.simulator.kernel.chance import Chance
    from gridtravel.simulator.kernel.network import Network
    from gridtravel.simulator.kernel.processes import SimulatedProcess

LOCAL: Final = Caller(subject="login:queue", login="queue")
ESTIMATES_S: Final = (900, 3_600, 7_200, 21_600, 64_800)
"""Limits of made-up jobs; each as likely as the others."""
WIDTHS: Final = (1, 2, 4, 8, 16, 32)
"""Their sizes, as far as the machine has so many; each as likely as the others."""
RUNS_LEAST: Final = 0.05
"""The least part of its limit that a made-up job runs."""


class LoadedSite(SimulatedSite):
    """A site whose tasks run as long as their command says, at a price."""

    unit_price: int = 0
    """Millicredits a node and hour."""

    def run_of(self, launch: Launch) -> SimulatedRun:
        """See ``SimulatedSite``; the jobs of trips are no part of a study's load."""
        words = launch.argv
        return SimulatedRun(run_s=float(words[1]) if len(words) > 1 else 1.0)

    def _parts(self, life: SimulatedProcess, journal: MemoryJournal) -> AgentParts:
        parts = super()._parts(life, journal)
        parts.calendar.tariff = FlatTariff(self.unit_price)
        return parts


def stretches(jobs: Sequence[TraceJob], sites: int, length_s: int) -> list[list[TraceJob]]:
    """A stretch of the log for each site, evenly spread over it, each from time zero."""
    found = []
    for number in range(sites):
        first = jobs[len(jobs) * (number + 1) // (sites + 1)].submit
        found.append(
            [
                job._replace(submit=job.submit - first)
                for job in jobs
                if first <= job.submit < first + length_s
            ]
        )
    if not all(found):
        raise InputError("the log is too short for so many sites", hint="ask for fewer sites")
    return found


def made_up(chance: Chance, nodes: int, load: float, length_s: int) -> list[TraceJob]:
    """Jobs that ask for the share ``load`` of the machine, in the mean."""
    widths = [each for each in WIDTHS if each <= nodes]
    mean_run_s = sum(ESTIMATES_S) / len(ESTIMATES_S) * (1 + RUNS_LEAST) / 2
    mean_area = sum(widths) / len(widths) * mean_run_s
    every_s = mean_area / (load * nodes)
    jobs: list[TraceJob] = []
    at_s = 0.0
    while at_s < length_s:
        estimate_s = chance.one_of(ESTIMATES_S)
        jobs.append(
            TraceJob(
                job_id=len(jobs) + 1,
                submit=int(at_s),
                run_s=max(1, int(estimate_s * chance.seconds(RUNS_LEAST, 1.0))),
                procs=chance.one_of(widths),
                estimate_s=estimate_s,
                user=-1,
                group=-1,
            )
        )
        at_s += chance.seconds(0.0, 2 * every_s)
    return jobs


def keep_busy(network: Network, site: SimulatedSite, jobs: Sequence[TraceJob]) -> None:
    """See to it that each job is handed in at its time; larger ones than the machine never."""
    for job in jobs:
        if job.procs <= site.plan.nodes:
            _schedule(network, site, job)


def _schedule(network: Network, site: SimulatedSite, job: TraceJob) -> None:
    async def submit() -> None:
        assert site.agent is not None, "nothing dies in a study"
        spec = JobSpec(
            request_id=f"load-{job.job_id}",
            name=f"load-{job.job_id}",
            account="queue",
            nodes=job.procs,
            limit_s=job.estimate_s,
            argv=("work", str(job.run_s)),
        )
        await site.agent.site_port(LOCAL).submit(spec)

    def arrive() -> None:
        if site.life is not None and site.agent is not None:
            site.life.start(submit(), f"load-{job.job_id}")

    network.later(job.submit + 1.0, arrive)

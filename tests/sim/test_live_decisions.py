"""A live site on a virtual clock decides as ``gurlab decide`` does: the same jobs are admitted, at
the same price, and end at the same moment. The two share the policy and its class, no more: here
jobs come through the site's door, are journaled, launched and measured by the simulated
machine, whose clock tells when they are over.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.jobs.job import JobSpec, JobState
from gridtravel.local_sched.admission.registry import policy_named
from gridtravel.local_sched.policies.shared_nodes import SharingPolicy
from gridtravel.local_sched.sharing.shared_class import SharedClass
from gridtravel.simulator.economy.decide import decide
from gridtravel.simulator.economy.workload import Decision, EconomyJob
from tests.support.maintenance_world import MaintenanceWorld

NODES = 6
JOBS = 150
MILLI = 1_000
LAST_MILLISECOND_S = 0.1
"""A task with a millisecond left is over when something happens on its node; at a small share it
would have gone on for so long, and the two ask at different moments."""


def a_workload(seed: int) -> list[EconomyJob]:
    """Jobs of up to three nodes, some of one instant, with exact and over-estimates, deadlines and
    budgets from hopeless to generous.
    """
    chance = random.Random(seed)
    jobs, now = [], 10
    for number in range(JOBS):
        now += chance.choice((0, 1, 7, 20, 45))
        run = chance.randint(10, 300)
        estimate = run if chance.random() < 0.5 else chance.randint(run, 3 * run)
        patience = max(2, int(estimate * chance.uniform(0.8, 6)))
        jobs.append(
            EconomyJob(
                job=str(number),
                submit=now,
                run_s=run,
                estimate_s=estimate,
                procs=chance.choice((1, 1, 1, 2, 3)),
                deadline=now + patience,
                budget=round(estimate * chance.uniform(0.9, 8), 3),
            )
        )
    return jobs


class LiveSite:
    """One site with one shared class, told of a workload job by job."""

    def __init__(self, folder: Path, policy: SharingPolicy) -> None:
        def classes() -> Iterator[SharedClass]:
            names = [f"cpu-{number}" for number in range(NODES)]
            yield SharedClass("cpu", names, policy, ("cpu",))

        self.world = MaintenanceWorld(folder, now=0, shared=classes)
        self.decisions: dict[str, Decision] = {}
        self._names: dict[str, str] = {}
        """Job's id -> its name in the workload."""

    async def decide(self, jobs: Sequence[EconomyJob]) -> list[Decision]:
        """What becomes of each."""
        await self.world.start()
        for job in jobs:
            await self._live_until(job.submit)
            await self._submit(job)
        await self._live_until(None)
        await self.world.stop()
        await self.world.machine.close()
        return [self.decisions[each.job] for each in jobs]

    async def _submit(self, job: EconomyJob) -> None:
        job_id = f"{self.world.agent.jobs.ids_given + 1}.lab"
        self.world.runs[job_id] = job.run_s
        answer = await self.world.desk().submit(
            JobSpec(
                request_id=job.job,
                name=job.job,
                account="kenneth",
                nodes=job.procs,
                limit_s=1,
                argv=("true",),
                features=("cpu",),
                estimate_s=int(job.estimate_s),
                deadline=int(job.deadline),
                budget_millicredits=round(job.budget * MILLI),
            )
        )
        decision = self.decisions[job.job] = Decision()
        if not isinstance(answer, Decline):
            assert answer.terms is not None
            decision.cost = answer.terms.price_millicredits / MILLI
            self._names[answer.job_id] = job.job

    async def _live_until(self, until: float | None) -> None:
        """Everything that happens up to an instant; ``None``: until all jobs are over."""
        world = self.world
        while True:
            await world.tick()
            wake_at = await world.agent.tick()
            await world.tick()
            world.agent.scheduler.validate()
            self._note_ends()
            if until is None and not self._names:
                return
            due = world.clock.next_wake_up
            moment = wake_at if due is None else min(wake_at, due)
            if until is not None and moment > until:
                world.clock.advance_to(until)
                return
            world.clock.advance_to(max(moment, world.clock.now_precise()))

    def _note_ends(self) -> None:
        for job_id, name in list(self._names.items()):
            view = self.world.view(job_id)
            if view.state.is_over:
                assert view.state is JobState.COMPLETED, view
                self.decisions[name].end = self.world.clock.now_precise()
                del self._names[job_id]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("policy", ["libra", "libra-dollar", "edf-dollar"])
async def test_a_live_site_decides_as_the_simulation_does(
    tmp_path: Path, policy: str, seed: int
) -> None:
    """Job by job."""
    sharing = policy_named(policy).sharing
    assert sharing is not None
    jobs = a_workload(seed)
    simulated = decide(jobs, policy_named(policy), NODES)
    live = await LiveSite(tmp_path, sharing).decide(jobs)
    assert [each.cost is not None for each in live] == [each.cost is not None for each in simulated]
    accepted = sum(each.cost is not None for each in live)
    assert JOBS // 5 < accepted < JOBS, "the workload tells policies apart"
    for one, other in zip(live, simulated, strict=True):
        if one.cost is None or other.cost is None:
            continue
        assert one.cost == pytest.approx(other.cost, abs=2e-3)
        assert one.end == pytest.approx(other.end, abs=LAST_MILLISECOND_S)

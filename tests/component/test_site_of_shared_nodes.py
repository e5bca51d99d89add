"""A daemon whose nodes are all shared: no class can be reserved, and jobs with deadlines run. What
they get of the processors is measured in ``integration/test_libra_live``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.agents.daemon import run_agent
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridio.cli_frame import EXIT_DECLINED
from gridtravel.local_sched.catalina.session import open_session
from gridtravel.local_sched.catalina.work.jobs import submit_job
from gridtravel.local_sched.catalina.work.questions import ask
from gridtravel.local_sched.catalina.work.reservation_requests import ReservationWords
from gridtravel.local_sched.catalina.work.reservations import set_reservation
from gridtravel.local_sched.resource_managers.host import HostResourceManager
from tests.support.daemon_folders import a_daemon_folder
from tests.support.host_tasks import until

SHARED = """\
name = "cpu"
nodes = 2
policy = "libra-dollar"
[policy.libra-dollar]
beta = 0.3"""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, tuple[float, ...]]]:
    """What the back end is told of shares."""
    orders: list[dict[str, tuple[float, ...]]] = []
    divide = HostResourceManager.set_shares

    async def set_shares(self: HostResourceManager, shares: Mapping[str, Sequence[float]]) -> None:
        orders.append({name: tuple(each) for name, each in shares.items()})
        await divide(self, shares)

    monkeypatch.setattr(HostResourceManager, "set_shares", set_shares)
    return orders


async def test_jobs_with_deadlines_run_and_nothing_is_reserved(
    tmp_path: Path, told: list[dict[str, tuple[float, ...]]]
) -> None:
    """Over the local socket, as users see it."""
    site = a_daemon_folder(tmp_path, "agent")
    site.tables["[[classes]]"] = SHARED
    # In turns: by control groups this process would have the weight of a daemon from then on.
    site.tables["[host]"] = 'run_as = "daemon"\ncontrol_groups = false'
    daemon = asyncio.create_task(run_agent(load_site_config(site.config)))
    socket = tmp_path / "state" / "agent.sock"
    try:
        async with asyncio.timeout(60):
            await until(lambda: socket.exists() or daemon.done())
            async with open_session(str(socket), "UTC", {}) as session:
                await _live(session, told)
    finally:
        daemon.cancel()
        await asyncio.gather(daemon, return_exceptions=True)


async def _live(session: Any, told: list[dict[str, tuple[float, ...]]]) -> None:
    assert session.description.classes == ()
    spec = JobSpec(
        request_id="a",
        name="a",
        account="default",
        nodes=1,
        limit_s=60,
        argv=("true",),
        estimate_s=5,
        budget_millicredits=50_000,
    )
    taken = await submit_job(session, spec, deadline="+30m")
    assert taken.exit_code == 0
    job_id, price = taken.as_object["job"], taken.as_object["terms"]["price"]
    assert 5_000 < price < 50_000
    again = await submit_job(session, spec, deadline="+30m")
    assert again.as_object["job"] == job_id, "the same words mean the same instant"
    poor = replace(spec, request_id="b", budget_millicredits=500)
    refused = await submit_job(session, poor, deadline="+30m")
    assert refused.exit_code == EXIT_DECLINED
    assert refused.as_object["decline"]["would_pass"][0]["budget"] > 5_000
    words = ReservationWords(nodes=1, duration="60")
    reserved = await set_reservation(session, words, dry_run=False)
    assert reserved.exit_code == EXIT_DECLINED
    assert "shared by jobs" in reserved.as_object["decline"]["message"]
    async for view in session.site.watch_job(job_id):
        last = view
    assert (last.state.value, last.exit_code) == ("COMPLETED", 0)
    assert {job_id: (1.0,)} in told
    nodes = await ask(session, "nodes", {})
    assert nodes["classes"][0]["is_shared"] is True

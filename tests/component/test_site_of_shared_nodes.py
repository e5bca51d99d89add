"""A daemon whose nodes are all shared: no class can be reserved, and jobs with deadlines run. The
host back end is made to say that it can divide nodes; whether it does is not looked at here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
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
from gridtravel.local_sched.resource_managers import host
from gridtravel.local_sched.resource_managers.base import Launch
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
    """What the back end is told of shares, which it lets be."""
    orders: list[dict[str, tuple[float, ...]]] = []
    launch = host.HostResourceManager.launch

    async def launch_whole(self: host.HostResourceManager, order: Launch) -> None:
        await launch(self, replace(order, shares=()))

    async def set_shares(self: object, shares: Mapping[str, Sequence[float]]) -> None:
        orders.append({name: tuple(each) for name, each in shares.items()})

    async def processor_time(self: object, job_ids: Collection[str]) -> dict[str, Any]:
        return {}

    monkeypatch.setattr(host, "CAN_SHARE", True)
    monkeypatch.setattr(host.HostResourceManager, "launch", launch_whole)
    monkeypatch.setattr(host.HostResourceManager, "set_shares", set_shares)
    monkeypatch.setattr(host.HostResourceManager, "processor_time", processor_time)
    return orders


async def test_jobs_with_deadlines_run_and_nothing_is_reserved(
    tmp_path: Path, told: list[dict[str, tuple[float, ...]]]
) -> None:
    """Over the local socket, as users see it."""
    site = a_daemon_folder(tmp_path, "agent")
    site.tables["[[classes]]"] = SHARED
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

"""Shares of processors as the kernel counts them, of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gridtravel.local_sched.resource_managers.supervised.processes import cpu_of
from gridtravel.simulator.market.share_meter import ShareMeter
from tests.support.grid_world import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
BURN = "while True: pass"


@contextmanager
def task(folder: Path, job_id: str) -> Iterator[int]:
    """A process as a site starts it; its id."""
    folder.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-c", BURN], cwd=folder, env={**os.environ, "GRID_JOB": job_id}
    )
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_jobs_of_one_site_are_measured(tmp_path: Path) -> None:
    """What the kernel counts for a job's process, by the time that passed; a job of the same name
    at another site is none of its.
    """
    meter, moment = ShareMeter(tmp_path / "here"), 0.0
    here, elsewhere = tmp_path / "here" / "work", tmp_path / "elsewhere" / "work"
    with task(here, "1.lab") as pid, task(elsewhere, "2.lab"):
        until(lambda: cpu_of([pid]) > 0.1, "some work")
        before_s = cpu_of([pid])
        meter.sample(moment)
        until(lambda: cpu_of([pid]) > before_s + 0.2, "more work")
        meter.sample(moment + 0.5)
        after_s = cpu_of([pid])
    assert [each.job_id for each in meter.samples] == ["1.lab", "1.lab"]
    first, second = meter.samples
    assert first.share == 0.0
    assert before_s <= first.cpu_s <= second.cpu_s <= after_s
    assert second.share == pytest.approx((second.cpu_s - first.cpu_s) / 0.5)
    meter.sample(1.0)
    assert len(meter.samples) == 2, "it is over"

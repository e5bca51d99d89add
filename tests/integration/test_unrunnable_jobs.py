"""What could never run is refused by the commands that are typed, before any site is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtravel.gridio.system.clock import SystemClock
from tests.support.certificate_scenes import a_user, an_authority
from tests.support.gur_runner import GurProcess, Said

pytestmark = pytest.mark.integration

HEAD = (
    'name = "t"\nusage_pattern = "single"\nnodes_total = 1\nduration = "1h"\n'
    'earliest_start = "now"\nlatest_end = "+1d"\n[[machines]]\nname = "lab"\nnodes_max = 1\n'
    "[task]\n"
)
SCRIPT = "#!/bin/sh\r\necho hello\r\n"


@pytest.fixture(scope="module")
def gur(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GurProcess]:
    """The command, ready to be typed."""
    process = GurProcess(tmp_path_factory.mktemp("gur"))
    yield process
    process.end()


def book(gur: GurProcess, folder: Path, task: str) -> Said:
    """A trip with this task, to a machine where nobody is."""
    now = SystemClock().now()
    a_user(an_authority(folder, now=now), folder, login="ada", now=now)
    config, trip = folder / "sites.toml", folder / "trip.toml"
    config.write_text(
        f'credential = "{folder / "ada"}"\n[machines.lab]\nsite = "lab"\nendpoint = "127.0.0.1:9"\n'
    )
    trip.write_text(HEAD + task)
    own = {"GUR_CONFIG": str(config), "GUR_STATE": str(folder / "memory")}
    return gur.run(["book", str(trip)], {**os.environ, **own}, None)


@pytest.mark.parametrize(
    ("task", "place"),
    [
        ("command = []\n", "trip.toml, line 11: "),
        ('command = [""]\n', "trip.toml, line 11: "),
        ('command = [" "]\n', "trip.toml, line 11: "),
        (f'command = ["a", "{"x" * 200_000}"]\n', "trip.toml, line 11: "),
        (f'command = ["a", "{"é" * 65_536}"]\n', "trip.toml, line 11: "),
        ('command = ["a"]\ncompile = [""]\n', "trip.toml, line 12: "),
        ('command = ["./run.sh"]\nstage_in = ["run.sh"]\n', "run.sh, line 1: "),
        ('command = ["a"]\ncompile = ["run.sh"]\nstage_in = ["run.sh"]\n', "run.sh, line 1: "),
    ],
    ids=range(8),
)
def test_a_trip_that_could_never_run(
    gur: GurProcess, tmp_path: Path, task: str, place: str
) -> None:
    """Exit code 2, with the line and the next step; no trip is remembered."""
    (tmp_path / "run.sh").write_bytes(SCRIPT.encode())
    said = book(gur, tmp_path, task)
    assert said.code == 2, said
    first, second = said.err.splitlines()
    assert place in first, said
    assert second.startswith("  "), said
    assert not (tmp_path / "memory").exists()


def test_data_may_have_what_ends_of_lines_it_likes(gur: GurProcess, tmp_path: Path) -> None:
    """Only what is started is looked at: this trip fails because nobody is there."""
    (tmp_path / "run.sh").write_bytes(SCRIPT.encode())
    said = book(gur, tmp_path, 'command = ["cat", "run.sh"]\nstage_in = ["run.sh"]\n')
    assert said.code == 4, said


@pytest.mark.parametrize(
    ("words", "script", "named"),
    [
        (["--", ""], "", "empty program name"),
        (["--", "  "], "", "empty program name"),
        (["--script", "-"], SCRIPT, "line 1: "),
        (["--script", "-"], "#!\n", "line 1: "),
        (["--script", "-"], "", "line 1: "),
    ],
    ids=range(5),
)
def test_a_job_that_could_never_run(words: list[str], script: str, named: str) -> None:
    """``catalina submit`` says so without a site."""
    module = "gridtravel.local_sched.catalina.main"
    done = subprocess.run(
        [sys.executable, "-m", module, "submit", "--limit", "1h", *words],
        input=script.encode(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done
    first, second = done.stderr.decode().splitlines()
    assert named in first
    assert second.startswith("  ")

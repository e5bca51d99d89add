"""Which control over processors is found, and what it writes; on a made-up tree of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.resource_managers.cpu_share import (
    CpuShareKind,
    NoShares,
    detect,
    nice_of,
)


def test_version_two_is_taken_when_it_has_the_cpu_controller(tmp_path: Path) -> None:
    """The controller is handed down, and a share is a weight of ten thousand."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory")
    (tmp_path / "cgroup.subtree_control").write_text("memory")
    shares = detect(mount=tmp_path)
    assert shares.kind is CpuShareKind.CGROUP2
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
    assert (tmp_path / "grid" / "cgroup.subtree_control").read_text() == "+cpu"
    assert shares.set_share("j1", 0.25, [os.getpid()])
    assert (tmp_path / "grid" / "j1" / "cpu.weight").read_text() == "2500"
    assert (tmp_path / "grid" / "j1" / "cgroup.procs").read_text() == str(os.getpid())


def test_version_one_is_taken_where_two_has_no_cpu(tmp_path: Path) -> None:
    """Shares of version one keep the ratio, and never fall below the least the kernel takes."""
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cgroup.procs").touch()
    shares = detect(mount=tmp_path)
    assert shares.kind is CpuShareKind.CGROUP1
    assert shares.set_share("j1", 0.75, [])
    assert shares.set_share("j2", 0.000001, [])
    assert (tmp_path / "cpu" / "grid" / "j1" / "cpu.shares").read_text() == "196608"
    assert (tmp_path / "cpu" / "grid" / "j2" / "cpu.shares").read_text() == "2"


def test_without_control_groups_niceness_has_to_do(tmp_path: Path) -> None:
    """An unwritable or missing tree falls back to nice; a process that is gone is no failure."""
    shares = detect(mount=tmp_path / "missing")
    assert shares.kind is CpuShareKind.NICE
    assert shares.set_share("j1", 0.5, [2**22 + 1])
    shares.release("j1")


def test_where_nothing_works_the_answer_says_so() -> None:
    """A share that had no effect is told as such."""
    assert NoShares().set_share("j1", 0.5, [os.getpid()]) is False


@pytest.mark.parametrize(("share", "nice"), [(1.0, 0), (0.8, 1), (0.5, 3), (0.327, 5), (1e-9, 19)])
def test_niceness_follows_the_weights_of_the_kernel(share: float, nice: int) -> None:
    """A step of niceness is a quarter more or less; it ends at 19."""
    assert nice_of(share) == nice


@pytest.mark.parametrize("share", [0.0, -1.0, 1.01, float("nan")])
def test_a_share_is_a_fraction(share: float) -> None:
    """Nothing, less than nothing and more than all are refused."""
    with pytest.raises(InputError):
        NoShares().set_share("j1", share, [])


def test_a_group_is_named_by_a_proper_job_id(tmp_path: Path) -> None:
    """An id with a path in it reaches no folder."""
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cgroup.procs").touch()
    with pytest.raises(InputError):
        detect(mount=tmp_path).set_share("../j1", 0.5, [])

"""``gurlab decide`` on workloads small enough to check by hand, and on bad ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gridtravel.simulator.cli.main import main

HEAD = "job,submit,run,estimate,procs,deadline,budget\n"


def decide(monkeypatch: pytest.MonkeyPatch, folder: Path, rows: str, *words: object) -> int:
    """Write a workload and decide it; the exit code."""
    workload = folder / "workload.csv"
    workload.write_text(rows)
    told = ["decide", workload, "--decisions", folder / "out.csv", *words]
    monkeypatch.setattr(sys, "argv", ["gurlab", *map(str, told)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_decisions_of_libra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One is admitted and ends early, since the node is busy whenever it has a task; one is too
    poor, one too long, one too wide.
    """
    rows = HEAD + "a,0,10,10,2,100,50\nb,1,10,10,1,100,10\n\nc,1,10,100,1,100,500\nd,2,1,1,3,9,99\n"
    assert decide(monkeypatch, tmp_path, rows, "--policy", "libra", "--procs", 2) == 0
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "job,accepted,cost,end",
        "a,1,10.100000,10.000",
        "b,0,,",
        "c,0,,",
        "d,0,,",
    ]


def test_settings_are_the_policys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Strict shares are needs: the job ends at its deadline. The summary is equations 7 and 8."""
    rows = HEAD + "a,0,10,10,1,100,25.25\nb,0,1,1,1,0,1\n"
    words = ("--policy", "libra", "--set", "control=strict", "--procs", 1, "--json")
    assert decide(monkeypatch, tmp_path, rows, *words) == 0
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == "a,1,10.100000,100.000"
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "policy": "libra",
        "jobs": 2,
        "accepted": 1,
        "satisfaction": 0.5,
        "profitability": pytest.approx(10.1 / 26.25),
    }


def test_backfilling_drops_what_is_late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A waiting job leaves when its deadline is before now; one that starts is accepted, though it
    ends late; times are to the millisecond.
    """
    rows = HEAD + "a,0,10.0005,10.5,1,5,9\nb,1,1,1,1,10,9\nc,1,2,2,1,11,9\nd,1,1,1,2,90,9\n"
    assert decide(monkeypatch, tmp_path, rows, "--policy", "fcfs-bf", "--procs", 1) == 0
    assert (tmp_path / "out.csv").read_text().splitlines()[1:] == [
        "a,1,10.500000,10.000",
        "b,1,1.000000,11.000",
        "c,1,2.000000,13.000",
        "d,0,,",
    ]
    rows = rows.replace("a,0,10.0005", "a,0,10.001")
    assert decide(monkeypatch, tmp_path, rows, "--policy", "fcfs-bf", "--procs", 1) == 0
    assert (tmp_path / "out.csv").read_text().splitlines()[2:4] == [
        "b,0,,",
        "c,1,2.000000,12.001",
    ]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("job,submit\n", "the columns of a workload are"),
        (HEAD, "no job in it"),
        (HEAD + "a,0,1,1,1,9\n", "line 2: 6 fields"),
        (HEAD + "a,0,nan,1,1,9,9\n", "line 2, run: 'nan' is not a number"),
        (HEAD + "a,0,1,0,1,9,9\n", "line 2, estimate: 0 is not"),
        (HEAD + "a,0,1,1,0,9,9\n", "procs: '0' is not a number of processors"),
        (HEAD + "a,0,1,1,1.5,9,9\n", "procs: '1.5' is not a number of processors"),
        (HEAD + "a,0,1,1,1,9,-1\n", "line 2, budget: -1 is not"),
        (HEAD + "a,0,1,1,1,9,1e30\n", "line 2, budget: 1e30 is not"),
        (HEAD + "a,5,1,1,1,9,9\nb,4,1,1,1,9,9\n", "line 3: submitted before"),
        (HEAD + "a,5,1,1,1,9,9\na,5,1,1,1,9,9\n", "line 3: job 'a' is there twice"),
        (HEAD + ",5,1,1,1,9,9\n", "line 2: the job has no name"),
    ],
)
def test_a_bad_workload_is_told_by_its_line(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rows: str,
    told: str,
) -> None:
    """Nothing is decided, nothing written."""
    assert decide(monkeypatch, tmp_path, rows, "--policy", "libra", "--procs", 2) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--policy", "magic"), "unknown policy 'magic'"),
        (("--policy", "libra", "--set", "beta=1"), "libra has no setting 'beta'"),
        (("--policy", "libra", "--set", "control=none"), "unknown control 'none'"),
        (("--policy", "easy"), "easy knows no deadlines and no prices"),
    ],
)
def test_a_wrong_policy_is_told(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    told: str,
) -> None:
    """Also one that would ignore what the workload says."""
    rows = HEAD + "a,0,1,1,1,9,9\n"
    assert decide(monkeypatch, tmp_path, rows, *words, "--procs", 2) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_files_that_are_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder to write to, and one to read."""
    (tmp_path / "out.csv").mkdir()
    rows = HEAD + "a,0,1,1,1,9,9\n"
    assert decide(monkeypatch, tmp_path, rows, "--policy", "libra", "--procs", 2) == 2
    assert "cannot be written" in " ".join(capsys.readouterr().err.split())
    told = ["decide", tmp_path, "--policy", "libra", "--procs", 2, "--decisions", tmp_path / "x"]
    monkeypatch.setattr(sys, "argv", ["gurlab", *map(str, told)])
    with pytest.raises(SystemExit):
        main()
    assert "cannot be read" in " ".join(capsys.readouterr().err.split())


def test_replay_refuses_what_a_log_cannot_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log has no deadlines and no budgets, so such a policy would silently be another."""
    log = tmp_path / "log.swf"
    log.write_text("1 0 -1 5 1 -1 -1 -1 5 -1 1 1 1 -1 -1 -1 -1 -1\n")
    for name in ("libra", "fcfs-bf"):
        words = ["gurlab", "replay", str(log), "--policy", name, "--procs", "2"]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit):
            main()
        assert "gurlab decide" in capsys.readouterr().err

"""The command line of the laboratory, on a trace small enough to check by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.simulator.cli.main import main
from gridtravel.simulator.replay.metrics import measure
from gridtravel.simulator.replay.swf import TraceJob


def job(number: int, submit: int, run_s: int, procs: int, estimate_s: int) -> str:
    """One line of a log."""
    return f"{number} {submit} -1 {run_s} {procs} -1 -1 -1 {estimate_s} -1 1 1 1 -1 -1 -1 -1 -1"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Four processors: a wide job waits behind a long one, and a short one slips in front."""
    path = tmp_path / "tiny.swf"
    path.write_text("\n".join([job(1, 0, 100, 3, 100), job(2, 1, 10, 4, 10), job(3, 2, 50, 1, 60)]))
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object, command: str = "replay") -> int:
    """Call the entry point as the shell would; its exit code."""
    monkeypatch.setattr(sys, "argv", ["gurlab", command, *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_policies_side_by_side(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], trace: Path
) -> None:
    """FCFS makes the short job wait behind the wide one; EASY lets it pass; both are reported."""
    code = run(monkeypatch, trace, "--policy", "fcfs,easy", "--procs", 4, "--json",
               "--starts", trace.with_name("out.csv"))  # fmt: skip
    assert code == 0
    told = json.loads(capsys.readouterr().out)
    assert told["policies"]["fcfs"]["wait_mean_s"] == (0 + 99 + 108) / 3
    assert told["policies"]["easy"]["wait_mean_s"] == (0 + 99 + 0) / 3
    assert told["policies"]["easy"]["backfill_rate"] == 1 / 3
    assert told["lines"]["kept"] == 3
    easy = trace.with_name("out.easy.csv").read_text().splitlines()
    assert easy[0] == "job,submit,start,run,procs,estimate"
    assert easy[1:] == ["1,0,0,100,3,100", "2,1,100,10,4,10", "3,2,2,50,1,60"]
    assert trace.with_name("out.fcfs.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--policy", "magic"], "known: fcfs"),
        (["--policy", "easy,edf"], "no deadlines"),
        (["--policy", "named-edf"], "no deadlines"),
        (["--ties", "coin"], "known: sequential, ends-first, batch"),
        (["--limit", "0"], "at least 1"),
        (["--gantt-jobs", "9-1"], "FIRST-LAST"),
        (["--starts", "/nonexistent/x.csv"], "cannot be written"),
    ],
)
def test_wrong_usage_is_exit_code_two(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    trace: Path,
    arguments: list[str],
    expected: str,
) -> None:
    """One line on standard error that names what would be right, and no traceback."""
    assert run(monkeypatch, trace, "--procs", 4, *arguments) == 2
    told = capsys.readouterr().err
    assert expected in told
    assert "Traceback" not in told


def test_gantt_chart_is_drawn(monkeypatch: pytest.MonkeyPatch, trace: Path) -> None:
    """A picture of a stretch, when the drawing library is there."""
    pytest.importorskip("matplotlib")
    assert run(monkeypatch, trace, "--procs", 4, "--gantt", trace.with_name("g.png")) == 0
    assert trace.with_name("g.png").read_bytes().startswith(b"\x89PNG")


def test_metrics_by_hand() -> None:
    """Wait, bounded slowdown with its ten-second floor, utilisation and makespan as defined."""
    jobs = [TraceJob(1, 0, 5, 1, 5, -1, -1), TraceJob(2, 0, 20, 1, 20, -1, -1)]
    figures = measure(jobs, [0, 5], 1)
    assert figures.wait_mean_s == 2.5
    assert figures.bounded_slowdown_mean == (1.0 + 25 / 20) / 2
    assert (figures.makespan_s, figures.utilisation) == (25, 1.0)
    with pytest.raises(InputError):
        measure([], [], 1)


def test_reservation_study_delays_no_planned_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Accounts ask all the time, the limits hold, and no plan of the queue gets later by it."""
    path = tmp_path / "busy.swf"
    path.write_text("\n".join(job(n, 40 * n, 90 + n % 7, 1 + n % 3, 200) for n in range(1, 120)))
    options = ["--procs", 4, "--interval-s", 60, "--seconds", 100, "--nodes", 2]
    assert run(monkeypatch, path, *options, "--json", command="reservations") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["granted"] > 10
    assert told["plans_compared"] > 0
    assert told["starts_delayed"] == 0
    assert told["reserved_node_seconds"] <= 115_200
    assert run(monkeypatch, path, *options, command="reservations") == 0
    assert "later in" in capsys.readouterr().out
    slots = ("--slots", "4 x 40s, *x 320s")
    assert run(monkeypatch, path, *options, *slots, "--json", command="reservations") == 0
    slotted = json.loads(capsys.readouterr().out)
    assert 10 < slotted["granted"] <= told["granted"]
    assert slotted["starts_delayed"] == 0

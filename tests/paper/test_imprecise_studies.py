"""The calendar paper's study on short slices of its logs: same files, same shape, same bytes."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from gridtravel.gridcore.capacity.ladders import EXACT
from gridtravel.gridcore.errors import InputError
from gridtravel.simulator.cli import main
from gridtravel.simulator.replay.loop import policy, replay
from gridtravel.simulator.replay.swf import ReadingRule, RunTime, TraceJob, read_trace
from gridtravel.simulator.studies import figure_6_7, figure_8_9, kth
from gridtravel.simulator.studies.delays import CLASSES, class_of, delays_of
from gridtravel.simulator.studies.logs import SiteTime, find_log, of_month
from gridtravel.simulator.studies.registry import STUDIES, study_named
from gridtravel.simulator.studies.slot_ladders import BEST, FIGURE_4, slots_for
from gridtravel.simulator.studies.study import Setting, write_claims
from tests.support.shared_data import shared_path

pytest.importorskip("matplotlib", reason="NOT TESTED: pictures need the extra 'lab'")

SLICE = 60
"""Jobs of each stretch of a log."""

FILES = {
    "imprecise-figure-2": {"figure-2", "figure-2-causes", "figure-2-noise", "figure-3", "figure-4"},
    "imprecise-figure-5": {"figure-5", "figure-5-noise"},
    "imprecise-figure-6-7": {"figure-6", "figure-6-patience", "figure-7"},
    "imprecise-figure-8-9": {"figure-8", "figure-9"},
}


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Call the entry point as the shell would; its exit code."""
    monkeypatch.setattr(sys, "argv", ["gurlab", "study", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


def rows(path: Path) -> list[dict[str, str]]:
    """A table as its readers see it."""
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("name", list(FILES))
def test_a_study_writes_tables_pictures_and_claims(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str,
) -> None:
    """One command; progress on standard error; every claim has the five fields and a verdict."""
    log = shared_path("traces", STUDIES[name].log)
    assert run(monkeypatch, name, "--out", tmp_path, "--trace", log, "--limit", SLICE) == 0
    assert f"reading {log.name}" in capsys.readouterr().err
    written = {path.name for path in tmp_path.iterdir()}
    assert {path.stem for path in tmp_path.glob("*.csv")} == FILES[name]
    pictures = {path.stem for path in tmp_path.glob("*.png")}
    assert pictures == {path.stem for path in tmp_path.glob("*.svg")} != set()
    assert "claims.json" in written
    for table in tmp_path.glob("*.csv"):
        assert rows(table), f"{table.name} is empty"
    claims = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert all(list(claim) == ["id", "claim", "paper", "ours", "holds"] for claim in claims)
    assert all(isinstance(claim["holds"], bool) and claim["claim"] for claim in claims)
    ids = [claim["id"] for claim in claims]
    assert len(set(ids)) == len(ids) >= 4


@pytest.mark.parametrize("name", ["imprecise-figure-5", "imprecise-figure-6-7"])
def test_one_job_is_a_study_too(tmp_path: Path, name: str) -> None:
    """Nothing divides by what a tiny slice lacks: empty queues, no delay, no trade."""
    study = study_named(name)
    log = shared_path("traces", study.log)
    claims = study.run(Setting(trace=log, out=tmp_path, tell=lambda _: None, limit=1))
    assert claims


@pytest.mark.parametrize("name", ["figure-5.csv", "figure-5.png"])
def test_what_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    """A folder in the way of a table or a picture is one line, no traceback."""
    (tmp_path / name).mkdir()
    log = tmp_path / "log.swf"
    head = "; UnixStartTime: 844128000\n; TimeZoneString: UTC\n"
    log.write_text(head + job_line(0, 1) + job_line(31 * 86_400, 1))
    setting = Setting(trace=log, out=tmp_path, tell=lambda _: None)
    with pytest.raises(InputError, match="cannot be"):
        study_named("imprecise-figure-5").run(setting)


def test_claims_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    """The same for claims.json."""
    with pytest.raises(InputError, match="cannot be written"):
        write_claims(tmp_path, [])


def test_jobs_go_to_the_partition_of_their_size() -> None:
    """Equal partitions take turns; a job of the whole machine has no partition and is left out."""
    sizes = (32, 32, 32, 64, 512, 1024)
    jobs = [TraceJob(number, 0, 1, procs, 1, 1, 1) for number, procs in enumerate(sizes)]
    assert [home for home, _ in figure_6_7.homes_of(jobs)] == ["1", "2", "1", "3", "6"]


def test_a_log_of_another_time_is_refused(tmp_path: Path) -> None:
    """A log without the month, or without ten of them, is refused by name."""
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 4\n; UnixStartTime: 0\n; TimeZoneString: UTC\n" + job_line(0, 1))
    setting = Setting(trace=log, out=tmp_path, tell=lambda _: None)
    for name, words in (("6-7", "no job of 1995-03"), ("8-9", "10 months are needed")):
        with pytest.raises(InputError, match=words):
            study_named(f"imprecise-figure-{name}").run(setting)


def test_the_same_log_gives_the_same_bytes(tmp_path: Path) -> None:
    """Two runs of a study write identical tables, pictures and claims."""
    log = shared_path("traces", kth.LOG)
    study = study_named("imprecise-figure-5")
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
        study.run(Setting(trace=log, out=tmp_path / name, tell=lambda _: None, limit=SLICE))
    once = {path.name: path.read_bytes() for path in sorted((tmp_path / "once").iterdir())}
    twice = {path.name: path.read_bytes() for path in sorted((tmp_path / "twice").iterdir())}
    assert once == twice


def test_the_months_are_the_papers() -> None:
    """October and November 1996 by local submit month have the counts of figure 3, within 2 %."""
    log = shared_path("traces", kth.LOG)
    jobs, clock = read_trace(log, kth.NODES).jobs, SiteTime.of(log)
    for month, paper in (((1996, 10), (156, 1005, 496, 747)), ((1996, 11), (194, 580, 376, 832))):
        classes = [class_of(job) for job in of_month(jobs, clock, month, None)]
        for position, count in enumerate(paper):
            assert abs(classes.count(position) - count) <= 0.02 * count


def test_a_sixtieth_of_the_slots() -> None:
    """The paper: 1,511 slots instead of 100,000, a reduction by a factor of sixty."""
    assert slots_for(FIGURE_4[1]) == 100_000
    assert slots_for(FIGURE_4[BEST]) == 1_608


def test_exact_ladder_schedules_a_real_log_as_conservative_backfilling_does() -> None:
    """2,000 jobs of KTH, start by start: the exact profile is the ladder of one second."""
    jobs = read_trace(shared_path("traces", kth.LOG), kth.NODES, 2_000).jobs
    assert kth.serve_slotted(jobs, EXACT).starts == replay(jobs, kth.NODES, policy("conservative"))


def test_cpu_times_of_march_1995_are_the_papers_workload() -> None:
    """By CPU time the six queues' loads in March 1995 are in the proportions of figure 7, which
    identifies month and field; by the wall clock two of them would exceed their partitions.
    """
    log = shared_path("traces", figure_6_7.LOG)
    load: dict[RunTime, list[float]] = {}
    for field in (RunTime.CPU, RunTime.WALL_CLOCK):
        rule = ReadingRule(run_time=field, cuts_at_estimate=False)
        month = of_month(read_trace(log, rule=rule).jobs, SiteTime.of(log), (1995, 3), None)
        work = dict.fromkeys(figure_6_7.QUEUES, 0)
        for home, job in figure_6_7.homes_of(month):
            work[home] += job.run_s * job.procs
        load[field] = [work[q] / nodes / (31 * 864) for q, nodes in figure_6_7.QUEUES.items()]
    ratios = [
        ours / paper for ours, paper in zip(load[RunTime.CPU], figure_6_7.PAPER_APART, strict=True)
    ]
    assert max(ratios) / min(ratios) < 1.1
    assert sum(each > 100 for each in load[RunTime.WALL_CLOCK]) == 2


def test_narrow_logs_are_widened_and_wide_ones_are_not(tmp_path: Path) -> None:
    """Ten clusters of 336 nodes from ten months: a log of 128 nodes is scaled, one of 430 is cut
    to what fits a cluster; jobs behind the eighth day stay out.
    """
    lines = []
    for month in range(11):
        begin = int((30.4375 * month + 2) * 86_400)
        lines += [job_line(begin, 64), job_line(begin + 20 * 86_400, 64)]
    for procs, nodes in ((128, 168), (430, 64)):
        log = tmp_path / f"{procs}.swf"
        head = f"; MaxProcs: {procs}\n; UnixStartTime: 946684800\n; TimeZoneString: UTC\n"
        log.write_text(head + "".join(lines))
        setting = Setting(trace=log, out=tmp_path, tell=lambda _: None)
        homed, months = figure_8_9.clusters_of(setting)
        assert list(months.values())[:2] == ["2000-02", "2000-03"]
        assert len(homed) == 10
        assert {job.procs for _, job in homed} == {nodes}
        assert all(0 <= job.submit < 8 * 86_400 for _, job in homed)


def job_line(submit: int, procs: int) -> str:
    """One line of a log."""
    return f"1 {submit} 0 100 {procs} 50 -1 {procs} 200 -1 1 1 1 1 1 -1 -1 -1\n"


def test_delays_are_the_papers_metric() -> None:
    """Submission to end over run time, as means over all jobs and by class of run time."""
    jobs = [TraceJob(1, 0, 5, 1, 10, 1, 1), TraceJob(2, 10, 1000, 1, 2000, 1, 1)]
    found = delays_of(jobs, [5, 510])
    assert found.mean == (2 + 1.5) / 2
    assert list(found.by_class) == [2, None, 1.5, None]
    assert CLASSES[class_of(jobs[1])] == "100 to 1,000 s"
    assert found.by_request == (1 + 0.75) / 2
    assert found.of_sums == (10 + 1500) / 1005
    with pytest.raises(InputError):
        delays_of([], [])


def test_the_list_names_every_study(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``gurlab study --list`` tells name, subject and log."""
    monkeypatch.setattr(sys, "argv", ["gurlab", "study", "--list"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    told = capsys.readouterr().out
    assert all(study.name in told and study.log in told for study in STUDIES.values())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["imprecise-figure-2"], "where to write"),
        (["imprecise-figure-99", "--out", "OUT"], "known: imprecise-figure-2"),
        (
            ["imprecise-figure-2", "--out", "OUT", "--trace", "nowhere.swf"],
            "nowhere.swf is missing",
        ),
        (["imprecise-figure-2", "--out", "FILE/below", "--trace", "FILE"], "cannot be made"),
    ],
)
def test_wrong_use_is_said_in_two_lines(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    words: str,
) -> None:
    """Exit code 2 and the next step, before any work is done."""
    file = tmp_path / "file"
    file.write_text("; nothing\n")
    known = {"OUT": str(tmp_path / "out"), "FILE": str(file), "FILE/below": str(file / "below")}
    assert run(monkeypatch, *(known.get(word, word) for word in arguments)) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 2
    assert words in told


def test_a_missing_log_names_the_variable_that_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without --trace the log is looked for in GRID_SHARED/traces, and the message says so."""
    monkeypatch.setenv("GRID_SHARED", str(tmp_path))
    with pytest.raises(InputError, match="GRID_SHARED"):
        find_log(None, kth.LOG)


def test_missing_drawing_library_is_said_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without matplotlib the study names the extra to install, and writes nothing."""
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 4\n")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    out = tmp_path / "out"
    assert run(monkeypatch, "imprecise-figure-5", "--out", out, "--trace", log) == 2
    assert "install the extra 'lab'" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("; MaxProcs: 4\n", "UnixStartTime"),
        ("; UnixStartTime: 0\n; TimeZoneString: Middle/Earth\n", "unknown time zone"),
    ],
)
def test_a_log_without_a_clock_is_refused(tmp_path: Path, head: str, words: str) -> None:
    """Months are cut by the site's own calendar, which the header has to tell."""
    log = tmp_path / "log.swf"
    log.write_text(head + job_line(0, 1))
    with pytest.raises(InputError, match=words):
        SiteTime.of(log)

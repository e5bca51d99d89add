"""Reading workload logs: one convention for what counts, one clear error for what does not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.simulator.replay.swf import read_header, read_trace


def line(job: int, submit: object = 0, run: object = 10, allocated: int = 1, **more: object) -> str:
    """A job line of 18 fields with the ones that matter set."""
    words: list[object] = [
        job,
        submit,
        -1,
        run,
        allocated,
        -1,
        -1,
        -1,
        -1,
        -1,
        1,
        7,
        3,
        -1,
        -1,
        -1,
        -1,
        -1,
    ]
    words[7] = more.get("requested", -1)
    words[8] = more.get("estimate", -1)
    return " ".join(str(word) for word in words)


def log(folder: Path, *lines: str, header: str = "; MaxProcs: 8") -> Path:
    """A plain log file."""
    path = folder / "log.swf"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_fields_follow_the_convention(tmp_path: Path) -> None:
    """Field 5 before 8, estimate or else the run time, run time cut to the estimate; counted."""
    path = log(
        tmp_path,
        line(1, 5, 30, 2, requested=4, estimate=60),
        line(2, 6, 30, -1, requested=4, estimate=20),
        line(3, 7, 30, 1),
    )
    trace = read_trace(path)
    assert [(j.submit, j.run_s, j.procs, j.estimate_s) for j in trace.jobs] == [
        (5, 30, 2, 60),
        (6, 20, 4, 20),
        (7, 30, 1, 30),
    ]
    assert (trace.jobs[0].user, trace.jobs[0].group) == (7, 3)
    assert (trace.report.capped_at_estimate, trace.report.without_estimate) == (1, 1)
    assert trace.procs == 8


def test_what_cannot_run_is_dropped_and_counted(tmp_path: Path) -> None:
    """No run time, no processors, larger than the machine: three counts, no error."""
    path = log(tmp_path, line(1, run=0), line(2, allocated=-1), line(3, allocated=9), line(4))
    trace = read_trace(path)
    assert [job.job_id for job in trace.jobs] == [4]
    report = trace.report
    assert (report.dropped_no_run_time, report.dropped_no_processors, report.dropped_too_large) == (
        1,
        1,
        1,
    )
    assert report.dropped == 3


def test_jobs_out_of_order_are_sorted_and_counted(tmp_path: Path) -> None:
    """Submit time decides, the file's order breaks ties, and the limit counts after sorting."""
    path = log(tmp_path, line(1, 9), line(2, 5), line(3, 9), line(4, 5))
    assert [job.job_id for job in read_trace(path).jobs] == [2, 4, 1, 3]
    assert read_trace(path).report.out_of_order == 2
    assert [job.job_id for job in read_trace(path, limit=1).jobs] == [2]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ("1 2 3", "line 3: 3 fields where a job has 18"),
        (line(2, "soon"), "line 3, field 2: 'soon' is not a number"),
        (line(2, 0, "nan"), "line 3, field 4: 'nan' is not a number"),
        (line(2, 0, "inf"), "line 3, field 4: 'inf' is not a number"),
        (line(2, -3), "line 3: job 2 is submitted at -3 s"),
        (line(2, 1 << 70), "line 3: job 2 has a time above 100000000000 s"),
        (line(2, 0, "1e30"), "line 3: job 2 has a time above 100000000000 s"),
        ("x" * 5000, "line 3: longer than 4096 characters"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, bad: str, expected: str) -> None:
    """One InputError with file and line, whatever is wrong."""
    path = log(tmp_path, line(1), bad)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert expected in str(caught.value)
    assert "log.swf" in str(caught.value)


def test_decimals_are_cut_to_whole_seconds(tmp_path: Path) -> None:
    """Some logs carry decimals in time fields; time is whole seconds here."""
    job = read_trace(log(tmp_path, line(1, "3.0", "12.75"))).jobs[0]
    assert (job.submit, job.run_s) == (3, 12)


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    """The name does not matter; a cut-off file is an InputError."""
    packed = gzip.compress(("; MaxProcs: 4\n" + line(1) + "\n").encode())
    whole = tmp_path / "log"
    whole.write_bytes(packed)
    assert len(read_trace(whole).jobs) == 1
    cut = tmp_path / "cut"
    cut.write_bytes(packed[:-12])
    with pytest.raises(InputError, match="cannot be read"):
        read_trace(cut)


def test_missing_file_and_missing_processors(tmp_path: Path) -> None:
    """A file that is not there, and a header without a machine, each say what to do."""
    with pytest.raises(InputError, match="cannot be read"):
        read_trace(tmp_path / "nowhere", 4)
    with pytest.raises(InputError, match="--procs"):
        read_trace(log(tmp_path, line(1), header="; Version: 2"))
    with pytest.raises(InputError, match="at least 1"):
        read_trace(log(tmp_path, line(1)), 0)


def test_header_ends_at_the_first_job(tmp_path: Path) -> None:
    """Keys and values before the first job, first value of each key."""
    path = log(tmp_path, line(1), "; MaxProcs: 99", header="; MaxProcs: 8\n; MaxNodes: 2 (big)")
    assert read_header(path) == {"MaxProcs": "8", "MaxNodes": "2 (big)"}

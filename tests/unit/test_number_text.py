"""Numbers in foreign text: plain digits only, wherever something reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridcore.number_text import (
    is_count,
    is_decimal,
    is_whole,
    read_decimal,
    read_whole,
)
from gridtravel.gridio.batch.gridengine import GridEngine
from gridtravel.gridio.batch.job_files import read_jobs
from gridtravel.gridio.batch.slurm import Slurm
from gridtravel.gridio.rpc.client.diagnosis import split_endpoint
from gridtravel.gridio.ssh.target import SshTarget
from gridtravel.local_sched.reservations.standing import StartRule
from gridtravel.simulator.replay.swf import read_header, read_trace
from gridtravel.simulator.studies.logs import SiteTime

TRICKS: Final = ("1_0", "١٢", "²", "nan", "inf", "true", "0x10", "", "1 2", "1e9999")
"""What ``int`` or ``float`` takes for a number, and what crashes those that ask ``isdigit``."""


@pytest.mark.parametrize("word", TRICKS)
def test_no_trick_is_a_number(word: str) -> None:
    """None of them is read, and none of them is anything but a ``ValueError``."""
    assert [is_whole(word), is_decimal(word), is_count(word)] == [False] * 3
    with pytest.raises(ValueError, match="not a"):
        read_whole(word)
    with pytest.raises(ValueError, match="not a"):
        read_decimal(word)


@given(st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_numbers(whole: int, number: float) -> None:
    """Whatever Python writes for a number within the bounds is read back to the same."""
    assert read_whole(str(whole)) == whole
    assert is_count(str(whole)) == (whole >= 0)
    if 1e-90 < abs(number) < 1e90 or number == 0:
        assert read_decimal(repr(number)) == number


@given(st.text(max_size=12))
def test_what_is_taken_is_plain(text: str) -> None:
    """Only digits, signs, one point and one exponent, all of them ASCII; ``int`` and ``float``
    agree that it is a number, and it is finite.
    """
    if is_whole(text):
        assert set(text) <= set("+-0123456789")
        assert int(text) == read_whole(text)
    if is_decimal(text):
        assert set(text) <= set("+-.eE0123456789")
        assert abs(read_decimal(text)) < float("inf")


def a_log(folder: Path, procs: str = "4", run_s: str = "10", origin: str = "0") -> Path:
    """One job."""
    path = folder / "log.swf"
    header = f"; MaxProcs: {procs}\n; UnixStartTime: {origin}\n; TimeZoneString: UTC\n"
    path.write_text(f"{header}1 0 -1 {run_s} 2 -1 -1 -1 100 -1 1 1 1 -1 -1 -1 -1 -1\n")
    return path


PLACES: Final[dict[str, Callable[[Path, str], object]]] = {
    "a field of a log": lambda folder, word: read_trace(a_log(folder, run_s=word)),
    "the processors of a log": lambda folder, word: read_trace(a_log(folder, procs=word)),
    "the origin of a log": lambda folder, word: SiteTime.of(a_log(folder, origin=word)),
    "the port of a login": lambda _, word: SshTarget.parse(f"host:{word}x"[:-1] or "host:x"),
    "a start rule": lambda _, word: StartRule(text=f"{word} 8 * * *", zone="UTC"),
    "nodes of a Slurm reservation": lambda _, word: Slurm().read_list(
        "ReservationName=a StartTime=2026-01-01T00:00:00 EndTime=2026-01-01T00:00:01"
        f" NodeCnt={word}"
    ),
    "slots of a queue": lambda _, word: GridEngine().read_size(
        "<?xml version='1.0'?><a><cluster_queue_summary>"
        f"<total>{word}</total></cluster_queue_summary></a>",
        "",
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("word", ["1_0", "١٢", "²", "nan", "inf", "true"])
def test_no_place_takes_a_trick(tmp_path: Path, place: str, word: str) -> None:
    """Every reader refuses with one fault of the grid's own, never with a traceback."""
    with pytest.raises(GridError) as told:
        PLACES[place](tmp_path, word)
    assert "\n" not in told.value.message


@pytest.mark.parametrize("word", ["1_0", "١٢", "²", "+7"])
def test_ports_are_plain(word: str) -> None:
    """Of an endpoint."""
    with pytest.raises(ValueError, match="host"):
        split_endpoint(f"host:{word}")


def test_a_field_with_a_trick_is_named(tmp_path: Path) -> None:
    """File, line and field; a decimal is a number, in a log too."""
    with pytest.raises(InputError, match=r"line 4, field 4: '1_000' is not a number"):
        read_trace(a_log(tmp_path, run_s="1_000"))
    assert read_trace(a_log(tmp_path, run_s="12.75")).jobs[0].run_s == 12
    assert read_header(a_log(tmp_path))["MaxProcs"] == "4"


def test_a_far_clock_that_is_none_is_passed_over() -> None:
    """A moment that a far site's file names as ``nan`` is not known, and nothing fails of it."""
    assert read_jobs(["job gurj.a", "started nan"]) == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[[classes]]\nnodes = true", "classes.0.nodes"),
        ('[[classes]]\nnodes = "16"', "classes.0.nodes"),
        ("[[classes]]\nnodes = 16.0", "classes.0.nodes"),
        ("[queue]\nkill_grace_s = true", "queue.kill_grace_s"),
        ("[queue]\nkill_grace_s = nan", "queue.kill_grace_s"),
        ("[qos.high]\ntarget_expansion = inf", "qos.high.target_expansion"),
        ('[notify]\nsmtp_port = "25"', "notify.smtp_port"),
        ("[site]\nname = true", "site.name"),
        ('[site]\nname = "lab"\ncontact_ports = "٢١٠٠٠-٢١٩٩٩"', "site.contact_ports"),
    ],
)
def test_a_configuration_guesses_no_type(tmp_path: Path, text: str, key: str) -> None:
    """``true`` nodes are not one node; the key is named."""
    path = tmp_path / "site.toml"
    path.write_text(text if "[site]" in text else f'[site]\nname = "lab"\n{text}')
    with pytest.raises(InputError, match=key):
        load_site_config(path)

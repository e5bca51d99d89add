"""What people write to catalina, and the requests it becomes; nothing is sent anywhere."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import Reservation, TripRef
from gridtravel.gridcore.errors import ConflictError, InputError
from gridtravel.gridcore.jobs.job import SCRIPT_BYTES_MAX
from gridtravel.gridcore.ports import SiteDescription
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.timing.timetext import find_zone
from gridtravel.local_sched.catalina import words
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.work.jobs import JobWords, job_spec, read_script
from gridtravel.local_sched.catalina.work.reservation_requests import (
    ReservationWords,
    changed_request,
    new_request,
)
from tests.support.builders import a_request, a_reservation

NOW = 1_100_000_000
DAY_S = 86_400


def a_session(zone: str = "UTC") -> Session:
    """A session that can only be asked what time it is."""
    nowhere: Any = None
    return Session(
        calendar=nowhere,
        site=nowhere,
        description=SiteDescription(
            site="lab",
            is_manager=False,
            classes=(),
            time_zone=zone,
            time_precise=NOW + 0.75,
            lead_s=3,
            hold_ttl_max_s=300,
            horizon_s=90 * DAY_S,
            millicredits_per_node_hour=0,
            software="fake",
            login="ada",
        ),
        zone=find_zone(zone),
        new_id=lambda prefix: f"{prefix}-1",
    )


def test_the_six_parameters_of_the_paper() -> None:
    """GUR and Catalina paper, section 3, with the original's time format in the site's zone."""
    request = new_request(
        a_session("America/Los_Angeles"),
        ReservationWords(
            account="TG-STA040001N",
            maxnodes=4,
            duration="3600",
            earliest_start="07:00_11/10/2004",
            latest_end="12:00_11/10/2004",
            email="kenneth@sdsc.edu",
        ),
        [],
    )
    assert request.account == "TG-STA040001N"
    assert (request.nodes_min, request.nodes_max) == (1, 4)
    assert request.duration_s == 3600
    assert (request.earliest_start, request.latest_end) == (1_100_098_800, 1_100_116_800)
    assert request.notify_email == "kenneth@sdsc.edu"


def test_what_is_left_out_has_a_default() -> None:
    """Now, the site's horizon, the site's choice of account, no mail; exactly so many nodes."""
    request = new_request(a_session(), ReservationWords(nodes=2, duration="1h30m"), [])
    assert (request.nodes_min, request.nodes_max, request.duration_s) == (2, 2, 5400)
    assert (request.earliest_start, request.latest_end) == (NOW, NOW + 90 * DAY_S)
    assert (request.account, request.notify_email) == ("default", "")
    assert request.request_id == "catalina-1"


def test_a_start_beyond_the_horizon_is_the_sites_to_refuse() -> None:
    """The request is well formed: the site says which rule forbids it."""
    request = new_request(
        a_session(), ReservationWords(nodes=1, duration="1h", earliest_start="2030-01-01T00:00"), []
    )
    assert request.latest_end == request.earliest_start + 3600


def test_a_time_with_two_readings_is_noted() -> None:
    """The hour that happens twice in autumn: the first is taken, and the user told."""
    notes: list[str] = []
    new_request(
        a_session("America/Los_Angeles"),
        ReservationWords(nodes=1, duration="1h", earliest_start="01:30_10/30/2005"),
        notes,
    )
    assert len(notes) == 1
    assert "happens twice" in notes[0]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (ReservationWords(duration="1h"), "how many nodes"),
        (ReservationWords(nodes=1, maxnodes=2, duration="1h"), "exclude each other"),
        (ReservationWords(nodes=1), "for how long"),
        (ReservationWords(nodes=1, duration="0"), "at least one second"),
        (ReservationWords(nodes=1, duration="soon"), "not a duration"),
        (ReservationWords(nodes=1, duration="1h", earliest_start="noonish"), "not a time"),
        (
            ReservationWords(nodes=1, duration="1h", earliest_start="25:00_01/01/2005"),
            "time of day",
        ),
        (
            ReservationWords(nodes=1, duration="2h", earliest_start="+1h", latest_end="+2h"),
            "3600 s lie between",
        ),
        (
            ReservationWords(nodes=1, duration="1h", earliest_start="+2h", latest_end="+1h"),
            "latest end is not after",
        ),
        (ReservationWords(nodes=1, duration="1h", email="ada at home"), "no e-mail address"),
        (ReservationWords(nodes=1, duration="1h", account="a;b"), "no account"),
        (ReservationWords(nodes=1, duration="1h", features="a b"), "no feature"),
        (ReservationWords(nodes=1, duration="1h", request_id="a b"), "not allowed"),
        (ReservationWords(nodes=10**30, duration="1h"), "nodes must satisfy"),
    ],
)
def test_a_wrong_word_is_one_clear_refusal(wish: ReservationWords, said: str) -> None:
    """Each names what is wrong."""
    with pytest.raises(InputError, match=said):
        new_request(a_session(), wish, [])


def a_booking(**others: Any) -> Reservation:
    """Two nodes for an hour from an hour from now, asked for within a day."""
    request = replace(
        a_request(duration_s=3600, earliest=NOW, until=NOW + DAY_S), features=("fast",)
    )
    interval = Interval(NOW + 3600, NOW + 7200)
    return a_reservation(request=replace(request, **others), interval=interval)


@pytest.mark.parametrize(
    ("wish", "nodes", "window"),
    [
        (ReservationWords(nodes=4), (4, 4), (NOW + 3600, NOW + 7200)),
        (ReservationWords(maxnodes=4), (1, 4), (NOW + 3600, NOW + 7200)),
        (ReservationWords(duration="2h"), (2, 2), (NOW + 3600, NOW + 10_800)),
        (ReservationWords(earliest_start="+2h"), (2, 2), (NOW + 7200, NOW + DAY_S)),
        (ReservationWords(latest_end="+5h"), (2, 2), (NOW, NOW + 18_000)),
        (ReservationWords(earliest_start="+24h"), (2, 2), (NOW + DAY_S, NOW + DAY_S + 3600)),
    ],
)
def test_a_change_keeps_what_it_does_not_name(
    wish: ReservationWords, nodes: tuple[int, int], window: tuple[int, int]
) -> None:
    """Without a window the start stays; with one, the other side is that of the old request."""
    changed = changed_request(a_session(), a_booking(), wish, [])
    assert (changed.nodes_min, changed.nodes_max) == nodes
    assert (changed.earliest_start, changed.latest_end) == window
    assert (changed.account, changed.features) == ("physics", ("fast",))
    assert changed.request_id == "catalina-1"


def test_a_leg_of_a_trip_is_not_moved_alone() -> None:
    """The common start of the trip is a promise that the site's client must not break."""
    leg = a_booking(trip=TripRef(trip_id="trip-1", leg="ocean"))
    with pytest.raises(ConflictError, match="leg of trip trip-1"):
        changed_request(a_session(), leg, ReservationWords(nodes=3), [])


@pytest.mark.parametrize(
    ("given", "found"),
    [(["a,b", "c"], ["a", "b", "c"]), (["a, b ,a"], ["a", "b"]), (["7.lab,,"], ["7.lab"])],
)
def test_ids_come_with_commas_or_spaces(given: list[str], found: list[str]) -> None:
    """In order, without doubles."""
    assert words.read_ids(given, "job") == found


@pytest.mark.parametrize("given", [[], [","], ["$(id)"], ["a b"], ["x" * 129], ["é"]])
def test_wrong_ids_are_refused(given: list[str]) -> None:
    """Before anything is asked of the site."""
    with pytest.raises(InputError):
        words.read_ids(given, "job")


@pytest.mark.parametrize("given", ["a;b", "$(id)", "../x", "a b", "-x", "a\nb", "'", "é", "x" * 70])
def test_a_user_name_with_shell_characters_is_refused(given: str) -> None:
    """It is nobody's name."""
    with pytest.raises(InputError, match="is no user name"):
        words.read_user(given)


@pytest.mark.parametrize("given", ["ada", "TG_user-1", "a.b", "machine$", ""])
def test_user_names_of_sites_are_taken(given: str) -> None:
    """Also a machine account's."""
    assert words.read_user(given) == given


def test_variables_are_given_or_taken_from_here() -> None:
    """``NAME=VALUE`` may contain anything; ``NAME`` alone must be set."""
    found = words.read_variables(["B=1=2", "A", "B=$(id)"], {"A": "here"})
    assert found == (("A", "here"), ("B", "$(id)"))
    for wrong in ("C", "1x=2", "=x", "a-b=1"):
        with pytest.raises(InputError):
            words.read_variables([wrong], {})


def test_what_a_site_sets_is_not_given() -> None:
    """Neither by value nor as it is here: a job inside a job would else be told it is the outer."""
    for word in ("GRID_JOB=lab.1", "GRID_TRIP"):
        with pytest.raises(InputError, match="set by the site"):
            words.read_variables([word], {"GRID_TRIP": "t-1"})


def a_job(**others: Any) -> Any:
    """The spec of these words."""
    return job_spec(JobWords(**others), {}, io.BytesIO(), lambda prefix: f"{prefix}-1")


def test_a_job_is_named_after_its_command() -> None:
    """And its words stay words."""
    spec = a_job(command=["/bin/echo", "$HOME; rm x"], limit="90m", nodes=3)
    assert (spec.name, spec.nodes, spec.limit_s) == ("echo", 3, 5400)
    assert spec.argv == ("/bin/echo", "$HOME; rm x")
    assert spec.account == "default"


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"limit": "1h"}, "a command or a script"),
        ({"limit": "1h", "command": ["a"], "script": "b"}, "a command or a script"),
        ({"command": ["a"]}, "how long may the job run"),
        ({"command": ["a"], "limit": "1h", "reservation": "a b"}, "not allowed"),
        ({"command": ["a"], "limit": "1h", "name": "a\tb"}, "not printable"),
        ({"command": ["a"], "limit": "1h", "nodes": 10**9}, "a job needs 1 to"),
        ({"command": ["a\0b"], "limit": "1h"}, "NUL"),
    ],
)
def test_a_wrong_job_is_one_clear_refusal(wish: dict[str, Any], said: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InputError, match=said):
        a_job(**wish)


def test_a_script_may_have_a_mebibyte(tmp_path: Path) -> None:
    """To the last byte."""
    script = tmp_path / "job.sh"
    text = "#!/bin/sh\n" + "#" * (SCRIPT_BYTES_MAX - 10)
    script.write_text(text)
    assert a_job(script=str(script), limit="1h").script == text
    script.write_text(text + "#")
    with pytest.raises(InputError, match="larger than 1048576 bytes"):
        a_job(script=str(script), limit="1h")


def test_a_script_of_fifty_megabytes_is_not_read(tmp_path: Path) -> None:
    """No more of it than may be sent, so that a wrong file costs nothing."""
    script = tmp_path / "data"
    with script.open("wb") as file:
        file.write(b"#!/bin/sh\n")
        file.truncate(50 << 20)
    with pytest.raises(InputError, match="larger than 1048576 bytes"):
        read_script(str(script), io.BytesIO())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"echo hello\n", "does not say what runs it"),
        (b"#!/bin/sh\n\xff\xfe", "no text in UTF-8"),
        (b"#!/bin/sh\n\0", "NUL"),
        (b"", "does not say what runs it"),
    ],
)
def test_what_is_no_script_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """By the first thing that is wrong with it."""
    script = tmp_path / "job"
    script.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_script(str(script), io.BytesIO())
    with pytest.raises(InputError, match=said):
        read_script("-", io.BytesIO(content))


def test_a_script_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file, a folder, a path that is none."""
    for path in (str(tmp_path / "none"), str(tmp_path), "a\0b"):
        with pytest.raises(InputError, match="cannot read the script"):
            read_script(path, io.BytesIO())

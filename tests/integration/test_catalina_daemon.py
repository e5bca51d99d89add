"""catalina against a real agent over its local socket: real processes, the kernel's word for who is
calling, and the site's own rules.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtravel.gridio.system.clock import SystemClock
from tests.support.lab import Lab, lay_out

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for the peer of a socket"),
]
IS_ROOT = os.getuid() == 0
ME = pwd.getpwuid(os.getuid()).pw_name

SITE = """\
[site]
name = "lab"
time_zone = "America/Los_Angeles"
listen = "127.0.0.1:0"
socket = "open/agent.sock"
{group}

[[classes]]
name = "thin"
nodes = 8
features = ["fast"]

[queue]
kill_grace_s = 1

[reservations]
per_account = 3
nodes = 6
window_node_seconds = 60000

[reservations.accounts.poor]
per_account = 0

[host]
run_as = "daemon"
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A site of eight nodes, in a folder that every login may enter."""
    folder = Path(tempfile.mkdtemp(prefix="catalina-"))
    try:
        group = 'socket_group = "nogroup"' if IS_ROOT else ""
        site = lay_out(folder, SITE.replace("{group}", group))
        site.start()
        yield site
    finally:
        with contextlib.suppress(UnboundLocalError):
            site.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def empty(lab: Lab) -> Iterator[None]:
    """Each test leaves no reservation and no job."""
    yield
    for each in lab.catalina("show-res", "--json").json["reservations"]:
        lab.catalina("cancel-res", each["reservation"])
    # The last first: what waits must not start where another one has just ended.
    for each in reversed(lab.catalina("show-q", "--json").json["jobs"]):
        lab.catalina("del-job", each["job"])
    lab.ask_until(lambda said: said.json["total"] == 0, "show-q", "--json")


def test_the_originals_words_through_a_link(lab: Lab, tmp_path: Path) -> None:
    """``user_set_res`` as a link to the command: the paper's six parameters, and its cancellation,
    which goes on past single errors.
    """
    installed = Path(sys.executable).with_name("catalina")
    if not installed.exists():
        pytest.skip("the command is not installed beside the interpreter")
    for name in ("user_set_res", "user_cancel_res"):
        (tmp_path / name).symlink_to(installed)
    made = lab.process(
        str(tmp_path / "user_set_res"),
        "--maxnodes=4",
        "--duration=3600",
        f"--earliest_start={SystemClock().now() + 86_400}",
        f"--latest_end={SystemClock().now() + 2 * 86_400}.0",
        f"--account={ME}",
        "--email=NONOTIFY",
        "--json",
    )
    assert (made.code, made.json["nodes"], made.json["owner"]) == (0, 4, ME)
    key = made.json["reservation"]
    gone = lab.process(str(tmp_path / "user_cancel_res"), f"lab.999,{key}")
    assert (gone.code, gone.out) == (2, f"reservation {key} is cancelled\n")


def test_a_reservation_is_bound_used_and_amended(lab: Lab) -> None:
    """Set now, changed in one step, kept for one job, which runs inside it; another one waits."""
    made = lab.catalina("set-res", "--nodes", "2", "--duration", "1h", "--json")
    key = made.json["reservation"]
    assert lab.catalina("modify-res", key, "--nodes", "7").code == 3
    changed = lab.catalina("modify-res", key, "--nodes", "3", "--duration", "30m", "--json")
    assert (changed.json["nodes"], changed.json["duration_s"]) == (3, 1800)
    outside = lab.catalina("submit", "--nodes", "1", "--limit", "5m", "--json", "sleep", "300")
    waiting = lab.catalina(
        "submit", "--nodes", "8", "--limit", "5m", "--json", "sleep", "300"
    ).json["job"]
    assert lab.catalina("bind-res", key, outside.json["job"]).code == 0
    inside = lab.catalina(
        "submit", "--limit", "5m", "--reservation", key, "--json", "sleep", "300"
    ).json["job"]
    lab.ask_until(lambda said: "kept for other jobs" in said.out, "why", inside)
    assert lab.catalina("bind-res", key, inside).code == 0
    said = lab.ask_until(lambda said: said.json["jobs"][-1]["planned_start"], "show-q", "--json")
    queue = {each["job"]: each for each in said.json["jobs"]}
    assert queue[inside]["reservations"] == [key]
    assert queue[waiting]["planned_start"] is not None
    assert queue[waiting]["position"] == 1
    shown = lab.catalina("show-res", key)
    assert f"{outside.json['job']}, {inside}" in shown.out
    assert lab.catalina("bind-job", waiting, key).code == 0
    assert lab.catalina("unbind-job", waiting, key).out == f"job {waiting} is in the open queue\n"


def test_a_script_runs_and_its_output_comes_back(lab: Lab, tmp_path: Path) -> None:
    """From a file and from standard input, with variables; then it is in the history."""
    script = tmp_path / "job.sh"
    script.write_text('#!/bin/sh\necho "$WORD $1"\nexit 3\n')
    made = lab.catalina(
        "submit", "--limit", "5m", "--script", str(script), "--env", "WORD=hi; $(id)", "--json"
    )
    key = made.json["job"]
    assert lab.catalina("output", key).out == "hi; $(id) \n"
    done = {each["job"]: each for each in lab.catalina("history", "--json").json["jobs"]}
    assert (done[key]["state"], done[key]["exit_code"]) == ("FAILED", 3)
    assert "FAILED" in lab.catalina("why", key).out
    assert lab.catalina("del-job", key).code == 1
    made = lab.catalina(
        "submit", "--limit", "5m", "--script", "-", "--json", stdin="#!/bin/sh\necho x\n"
    )
    assert lab.catalina("output", made.json["job"], "--json").json["text"] == "x\n"


def test_what_is_wrong_is_one_message_and_nothing_happens(lab: Lab, tmp_path: Path) -> None:
    """A script of fifty megabytes, a name with shell characters, a bad time, a start beyond the
    horizon, a job larger than the site.
    """
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.write(b"#!/bin/sh\n")
        file.truncate(50 << 20)
    wrong = [
        (2, ("submit", "--limit", "1h", "--script", str(huge))),
        (2, ("show-q", "--user", "$(touch /tmp/x)")),
        (2, ("set-res", "--nodes", "1", "--duration", "1h", "--earliest-start", "32/13/2004")),
        (2, ("set-res", "--nodes", "1", "--duration", "1h", "--zone", "PST")),
        (2, ("why", "77.lab")),
        (3, ("set-res", "--nodes", "1", "--duration", "1h", "--earliest-start", "+1000d")),
        (3, ("submit", "--nodes", "9", "--limit", "1h", "true")),
        (3, ("estimate", "--nodes", "9")),
        (5, ("set-res", "--nodes", "1", "--duration", "1h", "--account", "physics")),
    ]
    for code, words in wrong:
        said = lab.catalina(*words)
        assert said.code == code, (words, said)
        message, clean = (said.out, said.err) if code == 3 else (said.err, said.out)
        assert clean == "", words
        assert 1 <= len(message.splitlines()) <= 3, message
    assert lab.catalina("show-q", "--json").json["total"] == 0
    assert lab.catalina("show-res", "--json").json["reservations"] == []


def test_the_limits_hold_and_are_shown(lab: Lab) -> None:
    """Nodes of one, number for an account, the global window; what is left of it, and where a
    reservation would still be allowed.
    """
    assert "6 nodes at a time" in lab.catalina("set-res", "--nodes", "7", "--duration", "1h").out
    assert lab.catalina("set-res", "--nodes", "6", "--duration", "2h").code == 0
    left = lab.catalina("show-available", "--json").json["window_node_seconds_left"]
    assert 16_800 <= left <= 16_800 + 60 * 6
    full = lab.catalina("set-res", "--nodes", "6", "--duration", "1h", "--latest-end", "+20h")
    assert full.code == 3
    assert "in any 86400 s" in full.out
    windows = lab.catalina("show-windows", "--nodes", "6", "--duration", "1h", "--json").json
    granted = lab.catalina("set-res", "--nodes", "6", "--duration", "1h", "--json").json
    assert granted["start"] >= windows["windows"][0]["start"]
    assert lab.catalina("set-res", "--nodes", "1", "--duration", "60").code == 0
    assert "3 is the most" in lab.catalina("set-res", "--nodes", "1", "--duration", "60").out


def test_priorities_and_backfill(lab: Lab) -> None:
    """The terms add up, and a window leaves the waiting job its place."""
    lab.catalina("submit", "--nodes", "6", "--limit", "1h", "sleep", "300")
    key = lab.catalina("submit", "--nodes", "8", "--limit", "1h", "--json", "true").json["job"]
    (job,) = lab.catalina("query_priority", "--json").json["jobs"]
    assert job["job"] == key
    assert sum(job["terms"].values()) == pytest.approx(job["priority"])
    (window,) = lab.catalina("show_bf", "--json").json["windows"]
    assert window["nodes"] == 2
    assert 3500 <= window["duration_s"] <= 3600
    said = lab.ask_until(lambda said: said.json["classes"][0]["busy"] == 6, "show-nodes", "--json")
    assert (said.json["classes"][0]["idle"], said.json["classes"][0]["down"]) == (2, 0)


def test_promises_outlive_the_daemon(lab: Lab) -> None:
    """Without it every command ends with 4 and says how to go on; after kill -9 and a new start all
    is as it was.
    """
    key = lab.catalina("set-res", "--nodes", "2", "--duration", "1h", "--json").json["reservation"]
    job = lab.catalina("submit", "--nodes", "8", "--limit", "1h", "--json", "true").json["job"]
    assert lab.catalina("bind-res", key, job).code == 0
    before = lab.catalina("show-res", key, "--json").json
    lab.stop(signal.SIGKILL)
    for words in (["show-q"], ["cancel-res", key]):
        said = lab.catalina(*words)
        assert (said.code, said.out) == (4, "")
        assert "daemon" in said.err
    lab.start()
    assert lab.catalina("show-res", key, "--json").json == before
    said = lab.catalina("why", job, "--json")
    assert said.json.get("state") == "QUEUED", said


def test_no_socket_no_site(tmp_path: Path, lab: Lab) -> None:
    """A path that is not there, and one that is no socket."""
    said = lab.catalina("show-q", "--socket", str(tmp_path / "none"))
    assert said.code == 4
    assert said.err.splitlines()[0] == f"catalina: no agent serves at {tmp_path / 'none'}"
    (tmp_path / "file").touch()
    assert lab.catalina("show-q", "--socket", str(tmp_path / "file")).code == 2


@pytest.mark.skipif(not IS_ROOT, reason="another login needs root")
def test_another_login_is_another_user(lab: Lab) -> None:
    """The kernel says who is calling: others see that there is something, not whose it is, and may
    not touch it; a socket that is not theirs ends with 5.
    """
    key = lab.catalina("set-res", "--nodes", "2", "--duration", "1h", "--json").json["reservation"]
    job = lab.catalina("submit", "--nodes", "8", "--limit", "1h", "--json", "true").json["job"]
    of_mine = (["show-q", "--user", ME], ["show-q", "--account", ME])
    looks = (["show-nodes"], ["show-res"], ["show-q"], *of_mine)
    nodes, res, queue, *found = lab.as_nobody(*([*words, "--json"] for words in looks))
    assert nodes.json["login"] == "nobody"
    (seen,) = res.json["reservations"]
    assert (seen["owner"], seen["account"]) == ("somebody", "hidden")
    (row,) = queue.json["jobs"]
    assert (row["owner"], row["name"], row["reason"]) == ("somebody", "hidden", "")
    assert (row["account"], row["reservations"]) == ("hidden", [])
    assert [each.json["jobs"] for each in found] == [[], []]
    for said in lab.as_nobody(
        ["cancel-res", key], ["modify-res", key, "--nodes", "1"], ["del-job", job], ["why", job]
    ):
        assert (said.code, said.out) == (5, ""), said
    (lab.folder / "open").chmod(0o700)
    try:
        (said,) = lab.as_nobody(["show-q"])
    finally:
        (lab.folder / "open").chmod(0o755)
    assert said.code == 5
    assert "socket_group" in said.err

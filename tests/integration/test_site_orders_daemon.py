"""Named nodes, standing reservations by order, holds and the past, at a real daemon with kill -9 in
between; every command as a person types it, and its old name.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.trust.authority import Authority
from tests.integration.test_catalina_daemon import IS_ROOT, ME
from tests.support.lab import Lab, Said

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for the peer of a socket"),
]

SITE = """\
[site]
name = "lab"
time_zone = "America/Los_Angeles"
listen = "127.0.0.1:0"
socket = "open/agent.sock"
{group}

[[classes]]
name = "thin"
nodes = 4

[queue]
kill_grace_s = 1
limit_max_s = 7200

[host]
run_as = "daemon"
"""


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A site of four nodes on which no job may take more than two hours."""
    folder = Path(tempfile.mkdtemp(prefix="orders-"))
    try:
        folder.chmod(0o755)
        (folder / "open").mkdir(mode=0o755)
        now = SystemClock().now()
        authority = Authority.create(folder / "authority", "test", RandomIds(), now)
        authority.issue_site("lab", folder / "credential", now, hosts=["127.0.0.1"])
        (folder / "grid-mapfile").write_text("")
        group = 'socket_group = "nogroup"' if IS_ROOT else ""
        (folder / "site.toml").write_text(SITE.replace("{group}", group))
        site = Lab(folder)
        site.start()
        yield site
    finally:
        with contextlib.suppress(UnboundLocalError):
            site.stop()
        shutil.rmtree(folder, ignore_errors=True)


def crash(lab: Lab) -> None:
    """``kill -9``, and a new start."""
    lab.stop(signal.SIGKILL)
    lab.start()


def names_of(lab: Lab, job: str) -> set[str]:
    """Where a job runs, when it does."""

    def found(said: Said) -> set[str]:
        return next(set(row["node_names"]) for row in said.json["jobs"] if row["job"] == job)

    return found(lab.ask_until(found, "show-q", "--json"))


def sleeper(lab: Lab, nodes: int, limit: str, *more: str) -> str:
    """A job that runs until it is ended."""
    words = ("submit", "--nodes", str(nodes), "--limit", limit, "--json", *more, "sleep", "600")
    said = lab.catalina(*words)
    assert said.code == 0, said
    return str(said.json["job"])


def test_named_nodes_are_kept_free(lab: Lab) -> None:
    """A long job gets other nodes, a short one may have these; what is in the way is named; nobody
    forgets any of it.
    """
    order = ("reserve-nodes", "thin-0,thin-1", "--start", "+1h", "--duration", "1h")
    made = lab.catalina(*order, "--request-id", "drain-1")
    assert made.code == 0, made
    again = lab.catalina(*order, "--request-id", "drain-1")
    assert again.out.split()[1:6] == made.out.split()[1:6], "said again it is the same"
    assert "thin-0, thin-1" in made.out
    key = made.out.split()[1]
    long, short = sleeper(lab, 2, "90m"), sleeper(lab, 2, "30m")
    assert names_of(lab, long) == {"thin-2", "thin-3"}
    assert names_of(lab, short) == {"thin-0", "thin-1"}
    refused = lab.catalina("set_res", "--node_list=thin-2", "--start=+1h", "--end=+2h")
    assert refused.code == 3
    assert f"jobs may still run then on thin-2: {long}" in refused.out
    crash(lab)
    shown = lab.catalina("show-res", key)
    assert "these    thin-0, thin-1" in shown.out
    assert lab.catalina("del-job", short).code == 0
    lab.ask_until(lambda said: said.json["classes"][0]["idle"] == 2, "show-nodes", "--json")
    waiting = sleeper(lab, 1, "2h")
    why = lab.ask_until(lambda said: said.json["planned_start"], "why", waiting, "--json").json
    assert why["is_promised"]
    assert names_of(lab, sleeper(lab, 1, "10m")) == {"thin-0"}
    dry = ("reserve-nodes", "thin-3", "--start", "+3h", "--duration", "1h", "--dry-run", "--json")
    assert lab.catalina(*dry).json["reservation"] is None
    assert lab.catalina("set_res", *dry[1:6], "--mode=lookahead").code == 2, "a name is no option"
    assert lab.catalina("cancel-res", key).code == 0
    assert names_of(lab, waiting)
    past = lab.catalina("history", "--reservations", "--json").json
    assert [each["reservation"] for each in past["reservations"]] == [key]
    assert past["reservations"][0]["state"] == "RELEASED"
    told = lab.catalina("show_events", "--userres")
    assert key in told.out
    assert lab.catalina("history", "--reservations", "--state", "running").code == 2


def test_standing_reservations_by_order(lab: Lab) -> None:
    """Made, listed, used by whom they admit, kept over a crash, and taken back."""
    made = lab.catalina(
        "create_standing_res", "--name=class", "--start_spec=0 8 * * *", "--resource_amount=2",
        "--duration=3600", "--depth=3", "--tz=America/New_York", f"--user_list={ME}", "--json",
    )  # fmt: skip
    assert made.code == 0, made
    assert len(made.json["instances"]) == 3
    crash(lab)
    (rule,) = lab.catalina("show_standing_res", "--json").json["standing"]
    assert (rule["name"], rule["made_by"], rule["admits_you"]) == ("class", "order", True)
    assert [each["reservation"] for each in rule["instances"]] == [
        each["reservation"] for each in made.json["instances"]
    ]
    instance = rule["instances"][0]["reservation"]
    job = sleeper(lab, 1, "1h", "--reservation", instance)
    said = lab.ask_until(lambda said: "has not begun" in said.out, "why", job)
    assert said.code == 0
    assert "class" in lab.catalina("show-standing-res").out
    assert (
        lab.catalina("create-standing-res", "--start", "0 8 30 2 *", "--duration", "1h").code == 2
    )
    gone = lab.catalina("cancel_standing_res", "--res=class")
    assert gone.code == 0
    assert "instances taken back: 3" in gone.out
    crash(lab)
    assert lab.catalina("show-standing-res").out == "no standing reservations\n"
    assert lab.catalina("cancel-standing-res", "class").code == 2
    assert lab.catalina("show-res").out == "no reservations\n"


def test_jobs_are_held_and_let_go(lab: Lab) -> None:
    """The reason says it, a crash keeps it, and a watching terminal shows it."""
    sleeper(lab, 4, "2h")
    job = sleeper(lab, 1, "1h")
    assert lab.catalina("hold-job", f"{job},99.lab").code == 2, "99.lab is not there"
    crash(lab)
    row = lab.ask_until(
        lambda said: said.json["jobs"][-1]["planned_start"] is None, "show-q", "--json"
    ).json["jobs"][-1]
    assert (row["job"], row["state"]) == (job, "QUEUED")
    assert row["reason"].startswith("it was put on hold")
    watched = lab.catalina("show-q", "--watch", "0.2", "--times", "2")
    assert watched.out.count(job) == 2
    assert lab.catalina("release-job", job).out == f"job {job} is in line\n"
    lab.ask_until(lambda said: said.json["planned_start"], "why", job, "--json")


@pytest.mark.skipif(not IS_ROOT, reason="another login needs root")
def test_users_give_no_such_orders(lab: Lab) -> None:
    """A login that does not look after the site; nothing changes. A rule for others is not his."""
    lab.catalina(
        "create-standing-res", "--name", "ours", "--start", "0 8 * * *", "--duration", "1h",
        "--users", ME,
    )  # fmt: skip
    job = sleeper(lab, 1, "1h")
    (rule,) = lab.catalina("show-standing-res", "--json").json["standing"]
    instance = rule["instances"][0]["reservation"]
    said = lab.as_nobody(
        ["reserve-nodes", "thin-0", "--duration", "1h"],
        ["create-standing-res", "--start", "0 8 * * *", "--duration", "1h"],
        ["cancel-standing-res", "ours"],
        ["hold-job", job],
        ["submit", "--limit", "1m", "--reservation", instance, "true"],
        ["show-standing-res", "--json"],
    )
    assert [each.code for each in said] == [5, 5, 5, 5, 5, 0], said
    (shown,) = said[-1].json["standing"]
    assert "users" not in shown
    assert not shown["admits_you"]

"""A real daemon that looks after itself: standing reservations, failed nodes, modes, hooks and
notices, with kill -9 in between.
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
from tests.integration.test_catalina_daemon import IS_ROOT
from tests.support.lab import Lab

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for the peer of a socket"),
]

SITE = """\
[site]
name = "lab"
listen = "127.0.0.1:0"
socket = "open/agent.sock"
{group}

[[classes]]
name = "thin"
nodes = 4

[queue]
kill_grace_s = 1
on_node_failure = "requeue"

[[standing]]
name = "night"
start = "0 2 * * *"
time_zone = "America/Los_Angeles"
duration_s = 3600
nodes = 2
depth = 2

[hooks]
prologue = ["{folder}/hook"]
epilogue = ["{folder}/hook"]

[notify]
command = ["{folder}/mailer"]

[host]
run_as = "daemon"
"""


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A site of four nodes with everything configured."""
    folder = Path(tempfile.mkdtemp(prefix="upkeep-"))
    try:
        folder.chmod(0o755)
        (folder / "open").mkdir(mode=0o755)
        for name, told in (
            ("hook", "$GRID_HOOK $GRID_RESERVATION_ID $GRID_PURPOSE"),
            ("mailer", "$GRID_NOTICE_TO $GRID_NOTICE_SUBJECT"),
        ):
            (folder / name).write_text(f'#!/bin/sh\necho "{told}" >> {folder}/{name}.told\n')
            (folder / name).chmod(0o755)
            (folder / f"{name}.told").touch()
        now = SystemClock().now()
        authority = Authority.create(folder / "authority", "test", RandomIds(), now)
        authority.issue_site("lab", folder / "credential", now, hosts=["127.0.0.1"])
        (folder / "grid-mapfile").write_text("")
        group = 'socket_group = "nogroup"' if IS_ROOT else ""
        (folder / "site.toml").write_text(SITE.format(group=group, folder=folder))
        site = Lab(folder)
        site.start()
        yield site
    finally:
        with contextlib.suppress(UnboundLocalError):
            site.stop()
        shutil.rmtree(folder, ignore_errors=True)


def told(lab: Lab, name: str) -> list[str]:
    """What a command of the site wrote down."""
    return (lab.folder / f"{name}.told").read_text().splitlines()


def test_a_site_looks_after_itself(lab: Lab) -> None:
    """Orders of the daemon's own login over the socket, their effect on jobs, and all of it after
    kill -9: nothing is forgotten, nothing is done twice.
    """
    lab.ask_until(lambda said: len(said.json["reservations"]) == 2, "show-res", "--json")
    job = lab.catalina(
        "submit", "--nodes", "2", "--limit", "1h", "--email", "a@lab.example", "--json",
        "sh", "-c", "echo $$; sleep 300",
    ).json["job"]  # fmt: skip
    lab.ask_until(lambda said: "RUNNING" in said.out, "show-q")
    down = lab.catalina("node-down", "thin-0")
    assert down.code == 0
    assert job in down.out
    shown = lab.ask_until(
        lambda said: said.json["classes"][0]["down"] == 1 and said.json["classes"][0]["busy"] == 2,
        *("show-nodes", "--json"),
    )
    assert shown.json["classes"][0]["idle"] == 1
    assert "down: thin-0" in lab.catalina("show-nodes").out
    lab.ask_until(lambda _: (lab.folder / "mailer.told").stat().st_size, "show-q")
    assert told(lab, "mailer") == [f"a@lab.example [lab] job {job} was hit: node thin-0 failed"]
    now = lab.catalina("set-res", "--nodes", "1", "--duration", "1h", "--json").json
    lab.ask_until(lambda _: told(lab, "hook"), "show-q")
    assert (
        lab.catalina("set_config", "--key_value=state:suspended").out == "the site is suspended\n"
    )
    waiting = lab.catalina("submit", "--limit", "1m", "--json", "true").json["job"]
    drain = ("create-system-res", "--nodes", "3", "--duration", "1h", "--earliest-start", "+2h")
    assert lab.catalina(*drain, "--dry-run").code == 0
    made = lab.catalina(*drain, "--json").json
    assert made["owner"] == "system"
    lab.stop(signal.SIGKILL)
    lab.start()
    queue = lab.catalina("show-q", "--json").json
    assert queue["mode"] == "suspended"
    rows = {each["job"]: each for each in queue["jobs"]}
    assert rows[job]["state"] == "RUNNING"
    assert rows[waiting]["state"] == "QUEUED"
    assert lab.catalina("show-nodes", "--json").json["classes"][0]["down"] == 1
    kept = {each["reservation"] for each in lab.catalina("show-res", "--json").json["reservations"]}
    assert len(kept) == 4
    assert {now["reservation"], made["reservation"]} <= kept
    assert lab.catalina("node-up", "thin-0").out == "node thin-0 is up\n"
    assert lab.catalina("node-up", "thin-0").out == "node thin-0 is up already\n"
    assert lab.catalina("set-mode", "running").code == 0
    lab.catalina("cancel-res", now["reservation"])
    lab.ask_until(lambda _: len(told(lab, "hook")) == 2, "show-q")
    key = now["reservation"]
    assert told(lab, "hook") == [f"prologue {key} user", f"epilogue {key} user"]
    assert lab.catalina("node-down", "thick-0").code == 2
    assert lab.catalina("set-mode", "idle").code == 2
    assert lab.catalina("set_config", "--key_value=depth:3").code == 2


@pytest.mark.skipif(not IS_ROOT, reason="another login needs root")
def test_others_give_no_orders(lab: Lab) -> None:
    """A login that does not look after the site is refused, and nothing changes."""
    before = lab.catalina("show-nodes", "--json").json["classes"]
    for said in lab.as_nobody(
        ["node-down", "thin-0"],
        ["set-mode", "stopped"],
        ["create-system-res", "--nodes", "1", "--duration", "1h"],
    ):
        assert (said.code, said.out) == (5, ""), said
    assert lab.catalina("show-nodes", "--json").json["classes"] == before

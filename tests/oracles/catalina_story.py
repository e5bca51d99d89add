"""Every command of ``catalina`` with ``--json``, at one site with users and an administrator."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from gridtravel.local_sched.catalina.main import run_command
from gridtravel.local_sched.resource_managers.simulated import SimulatedRun
from tests.oracles.grid_scene import ADMIN, GridScene
from tests.oracles.transcripts import Transcript


class CatalinaStory:
    """Types commands of ``catalina`` at ``alpha`` and writes down what they say."""

    def __init__(self, scene: GridScene, transcript: Transcript) -> None:
        self.scene = scene
        self.transcript = transcript

    def catalina(self, command: str, *words: str, fails: int = 0) -> Any:
        """One command, to its end; ``fails``: the exit code it must have."""
        printed = io.BytesIO()
        out = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
        err = io.StringIO()
        # Options stand before the words of a job.
        options = [command, "--json", *words]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_command(["catalina", *options])
        told = printed.getvalue().decode()
        assert code == fails, (command, words, code, told, err.getvalue())
        self.scene.passes(1)
        return self.transcript.add(f"catalina {command}", words, code, told)

    def submit(self, name: str, nodes: int, limit: str, *more: str) -> str:
        """Queue a job; its id."""
        words = ("--name", name, "--nodes", str(nodes), "--limit", limit, *more)
        said = self.catalina("submit", *words, "--env", f"NAME={name}", "./run", name)
        return str(said["job"])

    def as_user(self, login: str) -> None:
        """From now on somebody else types."""
        self.transcript.heading(f"{login} types")
        self.scene.caller = self.scene.local(login)


def tell(scene: GridScene, transcript: Transcript) -> None:
    """All of it, in order."""
    story = CatalinaStory(scene, transcript)
    story.as_user("ada")
    jobs(story)
    reservations(story)
    bindings(story)
    story.as_user("grace")
    looks(story)
    story.as_user(ADMIN)
    orders(story)
    standing(story)
    looks(story)
    story.as_user("ada")
    afterwards(story)


def looks(story: CatalinaStory) -> None:
    """Questions, which change nothing."""
    catalina = story.catalina
    catalina("show-q")
    catalina("show-q", "--state", "queued", "--columns", "all")
    catalina("show-nodes")
    catalina("show-bf")
    catalina("show-res")
    catalina("show-res", "--over")
    catalina("show-available")
    catalina("show-available", "--account", "physics", "--start", "+1d")
    catalina("estimate", "--nodes", "3", "--duration", "2h")
    catalina("estimate", "--nodes", "1", "--features", "mem")
    catalina("priority")
    catalina("show-standing-res")
    catalina("show-windows", "--nodes", "2", "--duration", "1h", "--latest-end", "+8h")
    catalina("history")


def jobs(story: CatalinaStory) -> None:
    """Queued, run, ended in several ways."""
    scene, catalina = story.scene, story.catalina
    scene.runs["quick"] = SimulatedRun(run_s=20, stdout=b"out\n", stderr=b"err\n")
    scene.runs["bad"] = SimulatedRun(run_s=30, exit_code=3)
    scene.runs["long"] = SimulatedRun(run_s=10**6)
    quick = story.submit("quick", 2, "10m", "--email", "ada@example.org")
    bad = story.submit("bad", 1, "10m", "--account", "physics")
    catalina("show-q")
    catalina("output", quick)
    catalina("output", quick, "--stderr")
    scene.passes(60)
    catalina("why", bad)
    story.submit("long", 4, "2h")
    waiting = story.submit("waits", 6, "1h")
    mem = story.submit("mem", 1, "30m", "--features", "mem")
    catalina("why", waiting)
    catalina("priority", waiting)
    catalina("del-job", mem, "99.alpha", fails=2)
    catalina("submit", "--nodes", "1", "./run", fails=2)
    catalina("submit", "--nodes", "40", "--limit", "1h", "./run", fails=3)


def reservations(story: CatalinaStory) -> None:
    """Set, changed, refused, cancelled."""
    catalina = story.catalina
    window = ("--earliest-start", "2030-03-17T22:00Z", "--latest-end", "2030-03-18T12:00Z")
    asked = ("--nodes", "2", "--duration", "1h", *window)
    catalina("set-res", *asked, "--dry-run")
    made = catalina("set-res", *asked, "--request-id", "once", "--email", "ada@example.org")
    catalina("set-res", *asked, "--request-id", "once", "--email", "ada@example.org")
    key = made["reservation"]
    catalina("modify-res", key, "--nodes", "3", "--duration", "90m")
    catalina("modify-res", key, "--nodes", "6", "--dry-run")
    catalina("show-res", key)
    catalina("set-res", "--maxnodes", "6", "--duration", "30m", "--latest-end", "+12h")
    catalina("set-res", "--nodes", "40", "--duration", "1h", fails=3)
    catalina("set-res", "--nodes", "2", "--duration", "3d", fails=3)
    catalina("set-res", fails=2)
    third = catalina("set-res", "--nodes", "1", "--duration", "10m", "--account", "physics")
    catalina("cancel-res", third["reservation"])
    catalina("cancel-res", "alpha.99", fails=2)


def bindings(story: CatalinaStory) -> None:
    """Jobs in reservations."""
    catalina = story.catalina
    made = catalina("set-res", "--nodes", "2", "--duration", "2h", "--earliest-start", "+6h")
    key = made["reservation"]
    inside = story.submit("inside", 2, "1h", "--reservation", key)
    other = story.submit("other", 2, "4h")
    catalina("bind-res", key, f"{inside},{other}")
    catalina("show-res", key)
    catalina("unbind-res", key, inside)
    catalina("bind-job", other, key)
    catalina("why", other)
    catalina("unbind-job", other, key)
    catalina("hold-job", other)
    catalina("why", other)
    catalina("release-job", other)


def orders(story: CatalinaStory) -> None:
    """What only an administrator may."""
    scene, catalina = story.scene, story.catalina
    (waiting, *_) = [
        each["job"] for each in catalina("show-q")["jobs"] if each["state"] == "QUEUED"
    ]
    catalina("boost-job", waiting, "--points", "5000")
    catalina("priority", waiting)
    catalina("hold-job", waiting)
    story.as_user("ada")
    catalina("release-job", waiting, fails=5)
    catalina("boost-job", waiting, fails=5)
    catalina("set-mode", "stopped", fails=5)
    story.as_user(ADMIN)
    catalina("release-job", waiting)
    catalina("create-system-res", "--nodes", "1", "--duration", "1h", "--earliest-start", "+9h")
    window = ("--start", "+10h", "--duration", "1h")
    catalina("reserve-nodes", "thin-3,fat-0", *window, "--dry-run", fails=2)
    catalina("reserve-nodes", "thin-3", "thin-4", *window, "--users", "ada", "--limit-max", "30m")
    catalina("reserve-nodes", "thin-3", *window, fails=3)
    catalina("node-down", "fat-1")
    catalina("node-down", "thin-0", "--jobs", "requeue")
    scene.passes(5)
    catalina("show-q", "--columns", "all")
    catalina("node-down", "nosuch", fails=2)
    catalina("node-up", "fat-1")
    catalina("set-mode", "suspended")
    catalina("submit", "--limit", "1h", "./run")
    catalina("set-mode", "stopped")
    catalina("submit", "--limit", "1h", "./run", fails=3)
    catalina("set-mode", "running")
    catalina("set-mode", "asleep", fails=2)
    # This site keeps no accounts.
    catalina("account", "physics", fails=2)
    catalina("accounts", fails=2)
    catalina("grant", "physics", "12.5", "--note", "a start", fails=2)
    catalina("refund", "job/1.alpha", "1", fails=2)


def standing(story: CatalinaStory) -> None:
    """Reservations again and again."""
    catalina = story.catalina
    rule = ("--start", "0 8 * * 1-5", "--duration", "2h", "--name", "class", "--depth", "2")
    catalina("create-standing-res", *rule, "--nodes", "2", "--accounts", "teaching")
    catalina("create-standing-res", *rule, "--nodes", "1", "--qos", "urgent")
    catalina("show-standing-res")
    catalina("create-standing-res", "--start", "0 25 * * *", "--duration", "1h", fails=2)
    nightly = ("--start", "0 3 * * *", "--duration", "1h", "--name", "nightly", "--depth", "1")
    catalina("create-standing-res", *nightly)
    catalina("cancel-standing-res", "nightly")
    catalina("cancel-standing-res", "nosuch", fails=2)


def afterwards(story: CatalinaStory) -> None:
    """A day later."""
    catalina = story.catalina
    story.scene.passes(16 * 3600)
    catalina("history")
    catalina("history", "--state", "failed", "--columns", "all", "--limit", "2")
    catalina("history", "--reservations")
    catalina("show-q")
    catalina("show-res", "--mine", "--over")
    catalina("priority", "99.alpha", fails=2)
    catalina("why", "99.alpha", fails=2)

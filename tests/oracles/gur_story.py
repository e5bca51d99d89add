"""Every command of ``gur`` with ``--json``, as one user's days on a small grid."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from gridtravel.local_sched.resource_managers.simulated import SimulatedRun
from gridtravel.travel_agent.cli.main import app
from tests.oracles.grid_scene import GridScene
from tests.oracles.transcripts import Transcript

HEAD: Final = """\
name = "{name}"
usage_pattern = "{pattern}"
nodes_total = {nodes}
duration = "{duration}"
earliest_start = "{earliest}"
latest_end = "{latest}"
"""


class GurStory:
    """Types commands of ``gur`` and writes down what they say."""

    def __init__(self, scene: GridScene, transcript: Transcript) -> None:
        self.scene = scene
        self.transcript = transcript

    def gur(self, command: str, *words: str, fails: int = 0) -> Any:
        """One command, to its end; ``fails``: the exit code it must have."""
        result = CliRunner().invoke(app, [*command.split(), *words, "--json"])
        assert result.exit_code == fails, (command, words, result.output, result.exception)
        self.scene.passes(1)
        return self.transcript.add(f"gur {command}", words, result.exit_code, result.stdout)

    def wish(
        self,
        name: str,
        machines: dict[str, int],
        *,
        pattern: str = "multiple",
        nodes: int | None = None,
        earliest: str = "+10m",
        latest: str = "+3h",
        duration: str = "20m",
        more: str = "",
        task: str = "",
    ) -> str:
        """A metajob file; ``machines``: most nodes by site."""
        total = sum(machines.values()) if nodes is None else nodes
        text = HEAD.format(
            name=name,
            pattern=pattern,
            nodes=total,
            duration=duration,
            earliest=earliest,
            latest=latest,
        )
        tables = "".join(
            f'[[machines]]\nname = "{site}-machine"\nnodes_max = {most}\n'
            for site, most in machines.items()
        )
        path = self.scene.folder / "wishes" / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}{more}\n{task}\n{tables}", encoding="utf-8")
        return str(path)


TASK: Final = """\
[task]
command = ["./coupled", "--steps", "40"]
environment = { NAME = "coupled" }
stage_in = ["input.txt"]
stage_out = ["out/result.txt"]
"""


COPY: Final = '[task]\ncommand = ["./copy"]\nenvironment = { NAME = "copy" }\n'


def tell(scene: GridScene, transcript: Transcript) -> None:
    """All of it, in order."""
    story = GurStory(scene, transcript)
    wishes = scene.folder / "wishes"
    wishes.mkdir()
    (wishes / "input.txt").write_text("42\n", encoding="utf-8")
    before_booking(story)
    a_trip_to_its_end(story)
    changes(story)
    other_patterns(story)
    bad_luck(story)
    interruptions(story)
    through_the_manager(story)
    transcript.heading("what is remembered of all this")
    story.gur("status")
    story.gur("history")
    story.gur("history", "--state", "cancelled")
    story.gur("history", "--since", "2030-03-17T20:00Z")


def before_booking(story: GurStory) -> None:
    """Looking around."""
    story.transcript.heading("looking around")
    story.gur("sites")
    story.gur("sites", "--trade")
    two = story.wish("two", {"alpha": 4, "beta": 4})
    story.gur("quote", two)
    story.gur("quote", two, "--search", "probe")
    story.gur("status")
    story.gur("history")
    story.gur("status", "nosuch", fails=2)
    story.gur("book", str(story.scene.folder / "nofile.toml"), fails=2)


def a_trip_to_its_end(story: GurStory) -> None:
    """Booked, followed, fetched."""
    scene, gur = story.scene, story.gur
    story.transcript.heading("a trip from its booking to its results")
    scene.runs["coupled"] = SimulatedRun(run_s=300, stdout=b"step 1\nstep 2\n", stderr=b"warm\n")
    trip = gur("book", story.wish("coupled", {"alpha": 2, "beta": 3}, task=TASK))
    gur("status", "coupled")
    gur("history", "coupled")
    scene.passes(700)
    gur("status", trip["trip"])
    for leg in trip["legs"]:
        scene.write(leg["site"], leg["reservation"], "out/result.txt", f"{leg['leg']}\n")
    gur("watch", "coupled")
    gur("status", "coupled")
    gur("fetch", "coupled", "--to", str(scene.folder / "home"))
    gur("resume", "coupled")
    gur("cancel", "coupled")
    gur("fetch", "nosuch", fails=2)


def changes(story: GurStory) -> None:
    """Amended, refused, cancelled."""
    gur = story.gur
    story.transcript.heading("a trip that is changed")
    gur("book", story.wish("moving", {"alpha": 4, "beta": 4}, nodes=6))
    gur("amend", "moving", "--earliest-start", "+1h", "--duration", "30m")
    gur("amend", "moving", "--nodes", "8")
    gur("amend", "moving", "--nodes", "40", fails=2)
    story.scene.occupy("beta", 8, 2 * 3600, 2 * 3600)
    window = ("--earliest-start", "+2h", "--latest-end", "+3h")
    gur("amend", "moving", *window, fails=3)
    gur("amend", "moving", fails=2)
    three = story.wish("three", {"alpha": 1, "beta": 2, "gamma": 3}, earliest="+2h", latest="+6h")
    gur("amend", "moving", "--file", three)
    gur("history", "moving")
    gur("resume", "moving")
    gur("cancel", "moving")
    gur("cancel", "moving")
    gur("status", "moving")


def other_patterns(story: GurStory) -> None:
    """A single machine, a race, a pipeline, a refusal."""
    scene, gur = story.scene, story.gur
    story.transcript.heading("other patterns of use")
    everywhere = {"alpha": 4, "beta": 4, "gamma": 4}
    gur("book", story.wish("anywhere", everywhere, pattern="single", nodes=3))
    copies = story.wish(
        "copies",
        everywhere,
        pattern="single",
        nodes=2,
        earliest="now",
        more="race = true",
        task=COPY,
    )
    gur("book", copies)
    gur("status", "copies")
    scene.passes(60)
    gur("watch", "copies")
    gur("status", "copies")
    stages = "".join(
        f'[[stages]]\nname = "{name}"\nmachine = "{site}-machine"\n{more}'
        for name, site, more in (
            ("mesh", "beta", ""),
            ("solve", "alpha", 'receive = ["mesh.dat"]\nduration = "5m"\n'),
            ("draw", "gamma", 'receive = ["field.dat"]\nnodes = 1\n'),
        )
    )
    task = '[task]\ncommand = ["./stage"]\nstage_in = ["input.txt"]\n'
    pipeline = story.wish(
        "stages", everywhere, pattern="pipeline", nodes=2, more='transfer = "1m"', task=task
    )
    path = Path(pipeline)
    path.write_text(path.read_text("utf-8") + stages, encoding="utf-8")
    gur("quote", pipeline)
    trip = gur("book", pipeline)
    for leg, name in zip(trip["legs"], ("mesh.dat", "field.dat"), strict=False):
        scene.write(leg["site"], leg["reservation"], name, "1 2 3\n")
    gur("watch", "stages")
    gur("status", "stages")
    scene.passes(3600)
    gur("book", story.wish("full", {"gamma": 4}, latest="+30m"))
    gur("book", story.wish("late", {"gamma": 4}, latest="+30m"), fails=3)
    gur("book", story.wish("later", {"gamma": 4}, latest="+30m"), "--accept-alternative")
    gur("book", story.wish("huge", {"gamma": 400}), fails=3)
    gur("book", story.wish("probing", {"alpha": 1, "gamma": 1}), "--search", "probe")


def bad_luck(story: GurStory) -> None:
    """A leg that is lost, and a site that is away."""
    scene, gur = story.scene, story.gur
    story.transcript.heading("bad luck")
    healing = 'healing = ["replace_leg", "shrink", "move_trip"]'
    trip = gur(
        "book",
        story.wish("brittle", {"alpha": 2, "beta": 2, "gamma": 2}, nodes=4, more=healing),
    )
    gur("heal", "brittle")
    lost = trip["legs"][0]
    root = scene.local("root")
    scene.run(scene.way(lost["site"], root).calendar.release(lost["reservation"]))
    gur("heal", "brittle")
    scene.away.add("beta")
    gur("sites")
    gur("status", "brittle")
    gur("book", story.wish("nobody", {"alpha": 1, "beta": 1}), fails=4)
    gur("resume", "nobody")
    scene.away.clear()
    hopeless = gur("book", story.wish("hopeless", {"alpha": 1, "beta": 1}))
    leg = hopeless["legs"][0]
    scene.run(scene.way(leg["site"], root).calendar.release(leg["reservation"]))
    gur("heal", "hopeless", fails=3)
    gur("cancel", "hopeless")


def interruptions(story: GurStory) -> None:
    """Commands whose laptop dies: what its disk held at that moment is found by the next."""
    story.transcript.heading("a laptop that dies")
    with_files = f'{COPY}stage_in = ["input.txt"]\n'
    for verb, name, task in (
        ("reserve", "asked", COPY),
        ("commit", "decided", COPY),
        ("put_file", "sending", with_files),
    ):
        with cut_off(story.scene, verb):
            story.gur("book", story.wish(name, {"alpha": 1, "beta": 1}, task=task))
        story.gur("resume", name)
        story.gur("status", name)
    with cut_off(story.scene, "commit"):
        story.gur("amend", "decided", "--nodes", "2", "--duration", "10m")
    story.gur("resume", "decided")
    story.gur("resume", "decided")
    for name in ("asked", "decided", "sending"):
        story.gur("cancel", name)


@contextmanager
def cut_off(scene: GridScene, verb: str) -> Iterator[None]:
    """The laptop's disk is afterwards as it was when the first ``verb`` left."""
    laptop, copy = scene.folder / "laptop", scene.folder / "copy"

    def keep() -> None:
        shutil.copytree(laptop, copy)

    scene.at_verb[verb] = keep
    yield
    shutil.rmtree(laptop)
    copy.rename(laptop)


def through_the_manager(story: GurStory) -> None:
    """Nodes of two sites behind one name."""
    scene, gur = story.scene, story.gur
    story.transcript.heading("through a manager")
    scene.passes(3 * 3600)
    gur("book", story.wish("wide", {"north": 9}, earliest="+6h", latest="+9h"))
    across = {"alpha": 1, "gamma": 1, "north": 5}
    gur("book", story.wish("across", across, earliest="+6h", latest="+9h"))
    gur("cancel", "across")
    scene.at_verb["reserve"] = lambda: scene.away.add("gamma")
    gur("book", story.wish("unlucky", {"north": 9}, earliest="+8h", latest="+9h"), fails=3)
    scene.away.clear()
    gur("resume", "unlucky")
    scene.passes(7 * 3600)
    gur("status", "wide")
    gur("sites", "--trade")

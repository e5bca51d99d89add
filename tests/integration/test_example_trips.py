"""The examples of the documentation, on the demonstration grid: real programs, to the picture at
home.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.travel_agent.demo.grid import DemoGrid, demo_grid
from gridtravel.travel_agent.demo.pictures import draw, render, simulate
from tests.support.pictures import read_png

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="the demonstration grid is Linux's"),
]
PATIENCE_S = 250


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoGrid]:
    """The three sites of the demonstration, with nobody else on them."""
    with demo_grid(SystemClock(), RandomIds()) as grid:
        yield grid


class Laptop:
    """A laptop that types ``gur``."""

    def __init__(self, grid: DemoGrid, state: Path) -> None:
        self._environment = {
            **os.environ,
            "GUR_CONFIG": str(grid.config),
            "GUR_STATE": str(state),
            "COLUMNS": "120",
        }

    def gur(self, *words: str) -> str:
        """Standard output of a command that ends well."""
        done = subprocess.run(
            [sys.executable, "-m", "gridtravel.travel_agent.cli.main", *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def gur_json(self, *words: str) -> dict[str, Any]:
        """The object that a command prints."""
        found: dict[str, Any] = json.loads(self.gur(*words, "--json"))
        return found


@pytest.fixture
def laptop(demo: DemoGrid, tmp_path: Path) -> Laptop:
    """A laptop of its own."""
    return Laptop(demo, tmp_path / "state")


def test_a_plate_is_heated_at_one_site_and_drawn_at_another(laptop: Laptop, tmp_path: Path) -> None:
    """The pipeline of docs/examples.md: the picture that comes home is the one of the field that
    was computed at the other site, to the last pixel.
    """
    home = tmp_path / "heat"
    laptop.gur("init", "pipeline", "--with-programs", str(home))
    quoted = laptop.gur("quote", str(home / "pipeline.toml"))
    assert "simulate at datastar655" in " ".join(quoted.split())
    trip = laptop.gur_json("book", str(home / "pipeline.toml"))
    stages = [(leg["leg"], leg["machine"], leg.get("input_by")) for leg in trip["legs"]]
    assert stages == [("simulate", "datastar655", None), ("draw", "purduesp", "sites")]
    watched = laptop.gur("watch", trip["trip"])
    assert "draw at purdue: 64 by 64, from simulate" in watched
    laptop.gur("fetch", trip["trip"], "--to", str(tmp_path / "home"))
    field = simulate.plate()
    for _ in range(600):
        field = simulate.advance(field)
    assert read_png(tmp_path / "home" / trip["name"] / "draw" / "plate.png") == draw.picture(field)
    note = json.loads((tmp_path / "home" / trip["name"] / "simulate" / "field.json").read_text())
    assert note["site"] == "datastar"
    assert laptop.gur_json("status", trip["trip"])["state"] == "COMPLETED"


def test_a_picture_is_computed_where_it_can_start_first(laptop: Laptop, tmp_path: Path) -> None:
    """The single of docs/examples.md: one leg, at the cheapest of the machines free now."""
    home = tmp_path / "mirrors"
    laptop.gur("init", "single", "--with-programs", str(home))
    trip = laptop.gur_json("book", str(home / "single.toml"))
    assert [leg["machine"] for leg in trip["legs"]] == ["purduesp"]
    laptop.gur("watch", trip["trip"])
    laptop.gur("fetch", trip["trip"], "--to", str(tmp_path / "home"))
    scene = render.read_scene(home / "scene.json")
    picture = read_png(tmp_path / "home" / trip["name"] / "purduesp" / "mirrors.png")
    assert picture == render.picture(scene, 160)


@pytest.mark.parametrize("pattern", ["single", "multiple", "pipeline"])
def test_the_commented_examples_can_be_quoted(laptop: Laptop, tmp_path: Path, pattern: str) -> None:
    """What ``gur init`` prints names the machines of the demonstration and fits on them; the
    pipeline is booked as well, and cancelled.
    """
    path = tmp_path / f"{pattern}.toml"
    path.write_text(laptop.gur("init", pattern))
    assert laptop.gur_json("quote", str(path))["state"] == "PLANNED"
    if pattern == "pipeline":
        text = path.read_text().replace("[stages.task]\n", "[stages.task]\n# ")
        path.write_text(text.replace("stage_out", "# stage_out").replace("[stages.task]", ""))
        path.write_text(path.read_text().replace('receive = ["field.dat"]', ""))
        trip = laptop.gur_json("book", str(path))
        assert trip["state"] == "BOOKED"
        assert [leg["leg"] for leg in trip["legs"]] == ["simulate", "draw"]
        assert laptop.gur_json("cancel", trip["trip"])["state"] == "CANCELLED"


def test_an_example_overwrites_nothing(laptop: Laptop, tmp_path: Path) -> None:
    """A folder with the same files is refused."""
    laptop.gur("init", "single", "--with-programs", str(tmp_path / "a"))
    (tmp_path / "a" / "render.py").write_text("mine")
    with pytest.raises(AssertionError, match="is there already"):
        laptop.gur("init", "single", "--with-programs", str(tmp_path / "a"))
    assert (tmp_path / "a" / "render.py").read_text() == "mine"

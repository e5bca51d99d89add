"""``gur sites``: a list of which nothing can be reached is a fault, and each machine says why."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.strange_site import StrangeScene, a_strange_scene

pytestmark = pytest.mark.integration

NOWHERE = '[machines.{name}]\nsite = "{name}"\nendpoint = "127.0.0.1:9"\n'


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[StrangeScene]:
    """A site and a laptop."""
    async with a_strange_scene(tmp_path) as made:
        yield made


def listed(scene: StrangeScene, *, with_lab: bool) -> None:
    """Rewrite the list of machines: two where nobody is, with or without the one that is there."""
    path = scene.folder / "sites.toml"
    first, lab = path.read_text().split("[machines.lab]")
    lab = f"[machines.lab]{lab}" if with_lab else ""
    path.write_text(first + lab + NOWHERE.format(name="far") + NOWHERE.format(name="away"))


async def test_nothing_can_be_reached(scene: StrangeScene) -> None:
    """Two lines for each machine, exit code 4, and for scripts the same in the answer."""
    listed(scene, with_lab=False)
    screen = await scene.at_terminal("sites")
    assert screen.code == 4
    told = screen.text.replace("\r\n", "\n").split("\n")
    for machine in ("far", "away"):
        (at,) = [n for n, line in enumerate(told) if line.startswith(f"{machine}: ")]
        assert told[at + 1].startswith("  ")
    for_scripts = await scene.at_terminal("sites", "--json")
    assert for_scripts.code == 4
    answer, _ = json.JSONDecoder().raw_decode(for_scripts.text)
    assert [each["reachable"] for each in answer["sites"]] == [False, False]
    assert all(each["problem"] for each in answer["sites"])


async def test_some_can_be_reached(scene: StrangeScene) -> None:
    """A list is an answer as long as one machine of it is."""
    listed(scene, with_lab=True)
    screen = await scene.at_terminal("sites")
    assert screen.code == 0
    assert "\r\nfar: " in screen.text

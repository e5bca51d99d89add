"""The programs of the examples, as a site runs them: what they compute, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gridtravel.travel_agent.demo.pictures
from gridtravel.travel_agent.demo.pictures import draw, render, simulate
from tests.support.pictures import read_png

SCENE = Path(gridtravel.travel_agent.demo.pictures.__file__).with_name("scene.json")


def test_heat_spreads_until_every_point_is_the_mean_of_its_neighbours(tmp_path: Path) -> None:
    """No point gets hotter than the hottest of the rim; in the end nothing changes, and the rim is
    as it was.
    """
    rim = simulate.plate()
    field = rim
    for _ in range(300):
        field = simulate.advance(field)
    hottest = max(max(row) for row in rim)
    assert max(max(row) for row in field) == hottest
    assert field[0] == rim[0]
    assert [row[0] for row in field] == [row[0] for row in rim]
    assert simulate.unrest(field, simulate.advance(field)) < 0.05
    simulate.write_field(tmp_path / "field.dat", field)
    assert draw.read_field(tmp_path / "field.dat") == field


def test_the_picture_shows_the_field(tmp_path: Path) -> None:
    """The hottest point has the hottest colour, the coldest the coldest, each as a square; the note
    beside the field says how it was made.
    """
    assert simulate.main(["--steps", "5", "--out", str(tmp_path / "field.dat")]) == 0
    assert json.loads((tmp_path / "field.json").read_text())["steps"] == 5
    field = draw.read_field(tmp_path / "field.dat")
    assert draw.main([str(tmp_path / "field.dat"), str(tmp_path / "plate.png")]) == 0
    rows = read_png(tmp_path / "plate.png")
    assert (len(rows), len(rows[0])) == (simulate.SIZE * draw.SCALE,) * 2
    points = [(value, y, x) for y, row in enumerate(field) for x, value in enumerate(row)]
    _, y, x = max(points)
    corner = [
        row[x * draw.SCALE : (x + 1) * draw.SCALE] for row in rows[y * draw.SCALE :][: draw.SCALE]
    ]
    assert {pixel for line in corner for pixel in line} == {draw.PALETTE[-1][1]}
    _, y, x = min(points)
    assert rows[y * draw.SCALE][x * draw.SCALE] == draw.PALETTE[0][1]


@pytest.mark.parametrize("content", [b"", b"plate 1\n", b"plate 1\n2\n" + bytes(31), b"\x89PNG"])
def test_what_is_no_field_is_not_drawn(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 1, and no picture that somebody could believe."""
    (tmp_path / "field.dat").write_bytes(content)
    assert draw.main([str(tmp_path / "field.dat"), str(tmp_path / "plate.png")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "plate.png").exists()


def test_rays_find_the_balls_the_floor_and_the_sky(tmp_path: Path) -> None:
    """The sky above, the chequered floor below, the red ball where the scene has it; the same scene
    gives the same picture to the last bit.
    """
    scene = render.read_scene(SCENE)
    pixels = render.picture(scene, 80)
    assert render.picture(scene, 80) == pixels
    assert (len(pixels), len(pixels[0])) == (60, 80)
    sky = pixels[0][0]
    assert sky[2] == 255
    assert sky[0] < sky[1] < sky[2]
    assert len(set(pixels[-1])) > 1
    ray = render.unit((-1.3, -0.2, 4.6))
    distance, ball = render.hit(scene, (0.0, 1.0, -4.0), ray)
    assert ball == scene.balls[0]
    assert distance < 5.0
    out = tmp_path / "mirrors.png"
    assert render.main(["--scene", str(SCENE), "--out", str(out), "--width", "80"]) == 0
    assert read_png(out) == pixels


def test_a_scene_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and exit code 1."""
    broken = tmp_path / "scene.json"
    broken.write_text('{"light": [1, 1, 1], "balls": [{}]}')
    assert render.main(["--scene", str(broken), "--out", str(tmp_path / "x.png")]) == 1
    assert "is not a scene" in capsys.readouterr().err

"""Three mirrors on a chequered floor, by following rays: a picture for any one machine.

``python3 -I render.py --scene scene.json --out mirrors.png``
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from gridtravel.travel_agent.demo.pictures.png import Colour, write_png
else:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from png import Colour, write_png

Vector = tuple[float, float, float]
BOUNCES_MAX = 3
"""Mirrors in mirrors are followed so far."""
NEAR = 1e-6
"""Rays leave a surface this far from it, so that they do not hit it again."""
WIDTH_MAX = 4_000


@dataclass(frozen=True)
class Ball:
    """A shining ball."""

    centre: Vector
    radius: float
    colour: Vector
    """Red, green, blue: 0 to 1."""
    mirror: float
    """Share of the light that is reflected."""


@dataclass(frozen=True)
class Scene:
    """What is looked at, from one unit above the floor."""

    balls: tuple[Ball, ...]
    light: Vector
    """Where the light comes from."""


def read_scene(path: Path) -> Scene:
    """The scene in a JSON file."""
    told = json.loads(path.read_text())
    balls = tuple(
        Ball(tuple(each["centre"]), each["radius"], tuple(each["colour"]), each["mirror"])
        for each in told["balls"]
    )
    return Scene(balls, unit(tuple(told["light"])))


def dot(a: Vector, b: Vector) -> float:
    """The scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def along(start: Vector, direction: Vector, length: float) -> Vector:
    """Where one comes to."""
    return (
        start[0] + length * direction[0],
        start[1] + length * direction[1],
        start[2] + length * direction[2],
    )


def unit(vector: Vector) -> Vector:
    """The direction alone."""
    return along((0.0, 0.0, 0.0), vector, 1.0 / math.sqrt(dot(vector, vector)))


def hit(scene: Scene, start: Vector, ray: Vector) -> tuple[float, Ball | None]:
    """How far the nearest thing is and which ball; ``None`` with a finite distance: the floor."""
    nearest, found = math.inf, None
    if ray[1] < 0.0:
        nearest = -start[1] / ray[1]
    for ball in scene.balls:
        to_centre = along(ball.centre, start, -1.0)
        middle = dot(to_centre, ray)
        root = middle * middle - dot(to_centre, to_centre) + ball.radius * ball.radius
        if root >= 0.0:
            distance = middle - math.sqrt(root)
            if NEAR < distance < nearest:
                nearest, found = distance, ball
    return nearest, found


def light_along(scene: Scene, start: Vector, ray: Vector, bounces: int = 0) -> Vector:
    """The colour that comes from where a ray goes."""
    distance, ball = hit(scene, start, ray)
    if distance == math.inf:
        height = max(ray[1], 0.0)
        return (0.75 - 0.5 * height, 0.85 - 0.35 * height, 1.0)
    point = along(start, ray, distance)
    if ball is None:
        normal: Vector = (0.0, 1.0, 0.0)
        is_dark = (math.floor(point[0]) + math.floor(point[2])) % 2
        colour, mirror = ((0.2, 0.2, 0.25) if is_dark else (0.9, 0.9, 0.85)), 0.1
    else:
        normal = unit(along(point, ball.centre, -1.0))
        colour, mirror = ball.colour, ball.mirror
    outside = along(point, normal, NEAR)
    is_lit = hit(scene, outside, scene.light)[0] == math.inf
    bright = 0.25 + (0.75 * max(dot(normal, scene.light), 0.0) if is_lit else 0.0)
    own: Vector = (colour[0] * bright, colour[1] * bright, colour[2] * bright)
    if bounces == BOUNCES_MAX:
        return own
    back = along(ray, normal, -2.0 * dot(ray, normal))
    seen = light_along(scene, outside, back, bounces + 1)
    return along(along((0.0, 0.0, 0.0), own, 1.0 - mirror), seen, mirror)


def picture(scene: Scene, width: int) -> list[list[Colour]]:
    """Rows of pixels, four to three."""
    height = width * 3 // 4
    rows = []
    for y in range(height):
        row = []
        for x in range(width):
            ray = unit(((x + 0.5) / width * 2 - 1, (0.5 - (y + 0.5) / height) * 1.5, 1.8))
            red, green, blue = light_along(scene, (0.0, 1.0, -4.0), ray)
            row.append((_byte(red), _byte(green), _byte(blue)))
        rows.append(row)
    return rows


def _byte(share: float) -> int:
    return round(255 * min(max(share, 0.0), 1.0))


def main(words: list[str]) -> int:
    """Read, render, write; 0 when it went well."""
    parser = argparse.ArgumentParser(prog="render")
    parser.add_argument("--scene", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--width", type=int, default=160)
    asked = parser.parse_args(words)
    if not 4 <= asked.width <= WIDTH_MAX:
        parser.error(f"--width is 4 to {WIDTH_MAX}")
    try:
        scene = read_scene(asked.scene)
    except (OSError, ValueError, KeyError, TypeError) as fault:
        print(f"render: {asked.scene} is not a scene: {fault}", file=sys.stderr)
        return 1
    print(f"render at {os.environ.get('GRID_SITE', 'here')}: {len(scene.balls)} balls", flush=True)
    write_png(asked.out, picture(scene, asked.width))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

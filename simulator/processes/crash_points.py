"""Every point of one real trip at which somebody can die, from the first hold to the last start.

A trip of each kind is lived once without trouble; the diary of it (``diary``) names each write of
each party. Then it is lived again for each of these writes, and whoever it is dies there: who
writes, on either side of the write; the laptop and a manager also when somebody else writes, and a
site when the laptop does. Where files are staged the point at which half of one has come is added.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gridtravel.simulator.processes.diary import Entry
from gridtravel.simulator.processes.live_batch import CLUSTER
from gridtravel.simulator.processes.live_grid import CHILDREN, HOLD_S, MANAGER, SITES
from gridtravel.simulator.processes.mortal import Stage
from gridtravel.simulator.processes.rounds import Return

LAPTOP: Final = "laptop"
HALF_STAGED: Final = "half-staged"
"""In place of the words of a write: half of a leg's large file has come."""
AT_CLUSTER: Final = {
    "reserved": "book/*/granted",
    "marked": "book/*/committed",
    "queued": "jobs/*/id",
}
"""The same of a site without an agent, and the files there that show it."""
AWAY_S: Final = (0.0, HOLD_S + 2.0)
"""How long a daemon that died is away, before it starts: not at all, or until holds are over."""
WAYS_BACK: Final = {True: (Return.NEVER, Return.SOON), False: (Return.LATER, Return.SOON)}
"""Of the laptop, and where a leg is without an agent: nobody but the laptop finishes or undoes that
leg (docs/threats.md), so it comes back.
"""
LAST_WORDS: Final = "job-running"
"""Of a site's writes, the last of a start."""


class TripKind(enum.StrEnum):
    """The trips that are lived."""

    CO_START = "co-start"
    PIPELINE = "pipeline"
    RACE = "race"
    GROUP = "group"
    NO_AGENT = "no-agent"


class Phase(enum.StrEnum):
    """How far a trip has come, between its first hold and its last start."""

    HELD = "held"
    DECIDED = "decided"
    COMMITTED = "committed"
    STAGED = "staged"
    READY = "ready"
    SETTLED = "settled"
    BEGUN = "begun"


PHASE_OF: Final = {
    "trip-opened": Phase.HELD,
    "race-opened": Phase.HELD,
    "holds-asked": Phase.HELD,
    "granted": Phase.HELD,
    "group-held": Phase.HELD,
    "held-job-kept": Phase.HELD,
    "trip-registered": Phase.HELD,
    "trip-decided": Phase.DECIDED,
    "vote:outcome": Phase.DECIDED,
    "promise:outcome": Phase.DECIDED,
    "group-decided": Phase.DECIDED,
    "changed:commit": Phase.COMMITTED,
    "group-committed": Phase.COMMITTED,
    "job-accepted": Phase.COMMITTED,
    "job-submitted": Phase.COMMITTED,
    "trip-booked": Phase.COMMITTED,
    "reserved": Phase.HELD,
    "marked": Phase.COMMITTED,
    "queued": Phase.COMMITTED,
    HALF_STAGED: Phase.STAGED,
    "input-arrived": Phase.STAGED,
    "inputs-named": Phase.STAGED,
    "handover-done": Phase.STAGED,
    "files-sent": Phase.STAGED,
    "vote:ready": Phase.READY,
    "promise:ready": Phase.READY,
    "vote:cancel": Phase.SETTLED,
    "promise:cancel": Phase.SETTLED,
    "vote:runs": Phase.SETTLED,
    "promise:runs": Phase.SETTLED,
    "leg-runs": Phase.SETTLED,
    "job-starting": Phase.BEGUN,
    LAST_WORDS: Phase.BEGUN,
}
"""By what a write says first, or what shows at a site."""


@dataclass(frozen=True, slots=True)
class Point:
    """One write of a trip."""

    writer: str
    words: str
    number: int
    """Which of this writer's writes of these words, from 1."""

    @property
    def phase(self) -> Phase | None:
        """How far the trip has come there; ``None``: nothing of the trip, or it has begun."""
        return PHASE_OF.get(self.words.split(",")[0])

    def __str__(self) -> str:
        return f"{self.writer} {self.words} {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Who dies at which point of which trip, and when they come back."""

    kind: TripKind
    at: Point
    stage: Stage
    victim: str
    away_s: float = 0.0
    """Of a daemon."""
    back: Return = Return.SOON
    """Of the laptop."""

    @property
    def is_watched(self) -> bool:
        """True when nobody writes down that the trip is there."""
        return self.at.words == HALF_STAGED or self.at.words in AT_CLUSTER

    def __str__(self) -> str:
        way = self.back.value if self.victim == LAPTOP else f"after {self.away_s:.0f} s"
        return f"{self.kind}: {self.victim} dies {self.stage} {self.at}, is back {way}"


def points_of(kind: TripKind, diary: Sequence[Entry]) -> list[Point]:
    """Every point of a trip that was lived without trouble: all writes in their order, and what
    nobody writes down.
    """
    points: list[Point] = []
    counts: dict[tuple[str, str], int] = {}
    for entry in diary:
        number = counts[entry.writer, entry.words] = counts.get((entry.writer, entry.words), 0) + 1
        point = Point(entry.writer, entry.words, number)
        if point.phase is not None:
            points.append(point)
    if kind is TripKind.NO_AGENT:
        points += [Point(CLUSTER, words, 1) for words in AT_CLUSTER]
    if kind is TripKind.CO_START:
        sites = dict.fromkeys(each.writer for each in points if each.writer in SITES)
        points += [Point(site, HALF_STAGED, 1) for site in sites]
    return points


def crashes_of(kind: TripKind, points: Sequence[Point]) -> list[Crash]:
    """Whoever may die at these points. The ways back take turns, so that each victim meets each of
    them in each phase on one side of a write or the other.
    """
    crashes: list[Crash] = []
    turns: dict[str, int] = {}
    for point in points:
        for victim, stage in _deaths(kind, point):
            turn = turns[victim] = turns.get(victim, -1) + 1
            crashes.append(
                Crash(
                    kind=kind,
                    at=point,
                    stage=stage,
                    victim=victim,
                    away_s=AWAY_S[turn % len(AWAY_S)],
                    back=WAYS_BACK[kind is not TripKind.NO_AGENT][turn % 2],
                )
            )
    return crashes


def spread_over(crashes: Sequence[Crash], count: int) -> list[Crash]:
    """So many of them, evenly, the first among them; all where there are no more."""
    if count >= len(crashes):
        return list(crashes)
    edges = [len(crashes) * each // count for each in range(count + 1)]
    return [crashes[first] for first, _ in pairwise(edges)]


def _deaths(kind: TripKind, point: Point) -> list[tuple[str, Stage]]:
    """(who, on which side of the write). What somebody else does is felt when it is done."""
    if point.writer == CLUSTER:
        return [(LAPTOP, Stage.AFTER), ("alpha", Stage.AFTER)]
    if point.words == HALF_STAGED:
        return [(LAPTOP, Stage.AFTER), (point.writer, Stage.AFTER)]
    deaths = [(point.writer, Stage.BEFORE), (point.writer, Stage.AFTER)]
    if point.writer != LAPTOP:
        deaths.append((LAPTOP, Stage.AFTER))
    else:
        deaths.append(("alpha" if kind is TripKind.NO_AGENT else "beta", Stage.AFTER))
    if kind is TripKind.GROUP and point.writer in (*CHILDREN, LAPTOP):
        deaths.append((MANAGER, Stage.AFTER))
    return deaths

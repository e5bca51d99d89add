"""Chance from a seed: independent streams by name, so that one more draw in one place changes
nothing in another.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """One stream. The same seed and name give the same draws, on any machine and in any process."""

    def __init__(self, seed: int, name: str = "world") -> None:
        self._seed = seed
        self._name = name
        self._random = random.Random(f"{seed}/{name}")

    def child(self, name: str) -> Chance:
        """The stream called ``name`` below this one, whatever was drawn from this one before."""
        return Chance(self._seed, f"{self._name}/{name}")

    def happens(self, probability: float) -> bool:
        """True with this probability; draws nothing for 0."""
        return probability > 0 and self._random.random() < probability

    def seconds(self, least: float, most: float) -> float:
        """Uniform in [least, most], to the microsecond."""
        return round(self._random.uniform(least, most), 6)

    def whole(self, least: int, most: int) -> int:
        """Uniform among least, ..., most."""
        return self._random.randint(least, most)

    def one_of(self, values: Sequence[T]) -> T:
        """Any of them."""
        return self._random.choice(values)

    def some_of(self, values: Sequence[T], count: int) -> list[T]:
        """``count`` different ones, in random order."""
        return self._random.sample(values, count)

    def number(self) -> int:
        """A seed for somebody else."""
        return self._random.getrandbits(48)

"""A thousand simulated worlds come to the same books, trips and messages as they always did."""

from __future__ import annotations

from typing import Final

import pytest

from tests.oracles.frozen_files import Frozen
from tests.oracles.world_outcomes import heading, key_of, line_of

WORLDS: Final = 1_000
"""Seeds 1 to 1000."""
A_PART: Final = 50
"""Worlds of one test: some ten seconds."""
PARTS: Final = {
    f"{first}-{first + A_PART - 1}": range(first, first + A_PART)
    for first in range(1, WORLDS + 1, A_PART)
}
EVERY: Final = 40
"""The suite lives each fortieth world."""
SAMPLE: Final = {"sample": range(EVERY, WORLDS + 1, EVERY)}


@pytest.mark.usefixtures("silent")
def test_worlds(part: str, frozen: Frozen) -> None:
    """Seed for seed: counts and ledgers, by three digests and the numbers they come from."""
    seeds = PARTS[part] if part in PARTS else SAMPLE[part]
    frozen.lines("worlds.txt", heading(), {key_of(seed): line_of(seed) for seed in seeds})

"""The slot configurations of the calendar paper: figure 4, and footnote 2 for the grid studies."""

from __future__ import annotations

from typing import Final

from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.capacity.slot_grid import SlotGrid

FIGURE_4: Final = {
    1: SlotLadder.parse("*x40"),
    2: SlotLadder.parse("64x40, *x2560"),
    3: SlotLadder.parse("8x40, 8x320, *x2560"),
    4: SlotLadder.parse("2x40, 2x1280, *x2560"),
    5: SlotLadder.parse("2x10, 2x1280, *x2560"),
    6: SlotLadder.parse("32x10, 8x320, *x2560"),
}
"""Configuration 1 is "100,000 slots of 40 s"; here the last level of every ladder is open."""

BEST: Final = 6
"""The paper's text calls it the fifth and describes the sixth of figure 4: 32 slots of 10 s."""

FOOTNOTE_2: Final = SlotLadder.parse("16x10, 16x40, 16x160, 16x640, *x2560")
"""For the Los Alamos study; the cluster study does not name its slots and takes the same here."""

COMPARED_S: Final = 100_000 * 40
"""The time that configuration 1 covers with its 100,000 slots."""


def slots_for(ladder: SlotLadder, covered_s: int = COMPARED_S) -> int:
    """Slots to cover so much time from 0 on."""
    return SlotGrid.at(ladder, 0).count(covered_s)

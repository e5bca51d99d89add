"""Falling out of step with competing travellers, the same way each time."""

from __future__ import annotations

import hashlib
from typing import Final

JITTER_STEP_S: Final = 0.1
"""Attempt n waits up to n times this long, so that competing travellers fall out of step."""


def jitter_s(trip_id: str, attempt: int) -> float:
    """A fraction of the attempt's longest wait, fixed by the trip's name: chance is not needed to
    fall out of step, only difference.
    """
    digest = hashlib.sha256(f"{trip_id}.{attempt}".encode()).digest()
    return attempt * JITTER_STEP_S * digest[0] / 255

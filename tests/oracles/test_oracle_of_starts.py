"""Every policy starts every job when it always did, under each rule for things of one second."""

from __future__ import annotations

from tests.oracles.frozen_files import Frozen
from tests.oracles.schedule_digests import PROCS, SMALL_CASES, heading, lines_of

PARTS = [SMALL_CASES, *PROCS]
SAMPLE = [SMALL_CASES, "KTH-SP2-1996-2.1-cln", "DAS2-fs1-2003-1"]


def test_starts(part: str, frozen: Frozen) -> None:
    """Job by job, over a slice of the log."""
    frozen.lines("starts.txt", heading(), lines_of(part))

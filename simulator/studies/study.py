"""What a study is: a name, the log it takes unless told otherwise, and what it finds.

A study reads its setting, serves workloads with production classes, writes tables and pictures into
the folder given, and returns claims. Nothing else is shared between studies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gridtravel.gridcore.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run of a study."""

    trace: Path
    """Its log; of a study without one the empty path."""
    out: Path
    """A folder that exists."""
    tell: Callable[[str], None]
    """Says in one line what is being done now."""
    limit: int | None = None
    """Only the first so many jobs of each stretch of the log; for trying things out."""
    seed: int = 1
    """The first of the seeds."""
    seeds: int = 1
    workers: int = 1
    """Processes that may work at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement of the paper beside what came out here."""

    id: str
    claim: str
    paper: Any
    """Figures as printed in the paper, or its words; JSON values."""
    ours: Any
    holds: bool
    """True when our figures say the same, by the test that ``claim`` spells out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One entry of the registry."""

    name: str
    title: str
    log: str
    """File name of the log, in the folder ``traces`` of the shared folder; empty: it has none."""
    run: Callable[[Setting], list[Claim]]
    seeds: int = 0
    """How many seeds it takes unless told otherwise; 0: nothing in it is drawn."""


def write_claims(path: Path, claims: Sequence[Claim]) -> None:
    """All claims as one JSON list, in the study's order."""
    text = json.dumps([asdict(claim) for claim in claims], indent=2, ensure_ascii=False)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}") from fault

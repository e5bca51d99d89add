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
    out: Path
    """A folder that exists."""
    tell: Callable[[str], None]
    """Says in one line what is being done now."""
    limit: int | None = None
    """Only the first so many jobs of each stretch of the log; for trying things out."""


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
    """File name of the log, in the folder ``traces`` of the shared folder."""
    run: Callable[[Setting], list[Claim]]


def write_claims(path: Path, claims: Sequence[Claim]) -> None:
    """All claims as one JSON list, in the study's order."""
    text = json.dumps([asdict(claim) for claim in claims], indent=2, ensure_ascii=False)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}") from fault

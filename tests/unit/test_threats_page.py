"""docs/threats.md names only what is there: tests, files, rows of the model, decisions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "threats.md").read_text()
TESTS: Final = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))
OPEN: Final = "## Known and open"


@cache
def source(path: Path) -> str:
    """A test file's text; empty when it is not there."""
    return path.read_text() if path.is_file() else ""


def rows() -> list[str]:
    """Lines of the tables by party, without their headings."""
    tables = PAGE[PAGE.index("## The network between") : PAGE.index(OPEN)]
    return [
        line
        for line in tables.splitlines()
        if line.startswith("| ") and not line.startswith("| could ")
    ]


def test_every_test_that_the_page_names_is_there() -> None:
    """So what it says is shown is shown by something."""
    missing = [
        f"{path}::{name}"
        for path, name in TESTS
        if not re.search(rf"^(?:async )?def {name}\(", source(ROOT / "tests" / path), re.MULTILINE)
    ]
    assert not missing


def test_every_file_that_the_page_names_is_there() -> None:
    """Rules by their files, decisions and pages by their links."""
    named = re.findall(r"`([\w/]+/[\w/]+\.py)`", PAGE)
    linked = [f"docs/{target}" for target in re.findall(r"\]\(([\w/.-]+)\)", PAGE)]
    assert named
    assert linked
    assert not [each for each in (*named, *linked) if not (ROOT / each).exists()]


def test_every_row_of_the_model_that_the_page_names_is_there() -> None:
    """As `make check-model` searches it, by the table of the protocol."""
    named = [
        row
        for words in re.findall(r"\*model: ([^*]+)\*", PAGE)
        for row in re.findall(r"`([^`]+)`", words)
        if row != "row"
    ]
    protocol = (ROOT / "docs" / "protocol.md").read_text()
    known = set()
    for line in protocol.splitlines():
        if match := re.match(r"\| ((?:`[^`]+`(?:, )?)+) \|", line):
            first, *others = re.findall(r"`([^`]+)`", match[1])
            known |= {first, *(f"{first.split()[0]} {each}" for each in others)}
    assert named
    assert not [row for row in named if row not in known]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_claim_says_what_shows_it(row: str) -> None:
    """One test at least; where there is none the gap stands below, among what is open."""
    could, stopped, shown = (each.strip() for each in row.strip("|").split(" | "))
    assert could
    assert stopped
    assert "::" in shown

"""The pages about the local client name what there is."""

from __future__ import annotations

import re

import pytest

from gridtravel.agents.ports.queries import QUESTIONS
from gridtravel.local_sched.catalina.main import app
from gridtravel.local_sched.catalina.old.translate import OLD_COMMANDS
from tests.support.shared_data import CHECKOUT

CATALINA = (CHECKOUT / "docs" / "catalina.md").read_text(encoding="utf-8")
QUERIES = (CHECKOUT / "docs" / "queries.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(OLD_COMMANDS))
def test_every_old_name_stands_beside_the_new_one(name: str) -> None:
    """Those who know the original find each of its commands in the table."""
    rows = [line for line in CATALINA.splitlines() if line.startswith("| `") and name in line]
    assert any(f"`{OLD_COMMANDS[name].new}`" in row for row in rows)


def test_every_command_is_described() -> None:
    """Each of ours has a row."""
    told = set(re.findall(r"`([a-z-]+)", CATALINA))
    assert {str(each.name) for each in app.registered_commands} <= told


def test_every_question_is_described() -> None:
    """Name, arguments and answer; and no question is described that nobody answers."""
    told = set(re.findall(r"^[*][*]`([a-z]+)`[*][*]", QUERIES, re.MULTILINE))
    assert told == set(QUESTIONS)
    assert all(f"| `{name}` |" in QUERIES for name in QUESTIONS)

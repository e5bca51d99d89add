"""A manager's configuration file: defaults, and one clear line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.manager.config import load_manager_config

GOOD = """
[manager]
name = "north"

[[children]]
name = "datastar"
endpoint = "datastar.example.org:7101"

[[children]]
name = "east"
endpoint = "east.example.org:7100"
kind = "manager"
"""


def written(folder: Path, text: str) -> Path:
    """The file."""
    path = folder / "manager.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_least_that_must_be_said(tmp_path: Path) -> None:
    """A name and the children; paths are relative to the file, and a manager gets more patience
    than an agent, because it has to ask others first.
    """
    config = load_manager_config(written(tmp_path, GOOD))
    assert config.name == "north"
    assert config.credential == tmp_path / "credential"
    assert config.rules.commit_margin_s == 5
    agent, manager = config.file.children
    assert (agent.kind, manager.kind) == ("agent", "manager")
    assert agent.patience_s < manager.patience_s
    patient = GOOD.replace('kind = "manager"', 'kind = "manager"\nanswer_within_s = 9.5')
    assert load_manager_config(written(tmp_path, patient)).file.children[1].patience_s == 9.5


def test_a_parent_and_a_limit_of_debt(tmp_path: Path) -> None:
    """Both are optional; a parent may take longer to answer than any child, for it asks this
    manager too.
    """
    plain = load_manager_config(written(tmp_path, GOOD))
    assert plain.file.parent is None
    assert plain.rules.debt_max_node_s is None
    above = '[parent]\nname = "top"\nendpoint = "top.example.org:7100"\npatience_s = 60\n'
    config = load_manager_config(
        written(tmp_path, f"{GOOD}\n{above}\n[trade]\ndebt_max_node_s = 0\n")
    )
    assert config.file.parent is not None
    assert config.file.parent.patience_s == 60
    assert config.file.parent.answer_within_s > config.file.children[1].patience_s
    assert config.rules.debt_max_node_s == 0


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('name = "north"', 'name = "north"\nnodes = 4', "manager.nodes: this key is not known"),
        ('name = "east"', 'name = "datastar"', "'datastar' is announced twice"),
        ("east.example.org:7100", "datastar.example.org:7101", "have the same endpoint"),
        ('name = "east"', 'name = "north"', "cannot be its own child"),
        ("east.example.org:7100", "east.example.org", "is no address of the child 'east'"),
        ('name = "east"', 'name = "e ast"', "characters that are not allowed"),
        ('kind = "manager"', 'kind = "boss"', "children.1.kind"),
        (
            "[[children]]",
            '[parent]\nname = "top"\nendpoint = "top"\n[[children]]',
            "is no address of the parent 'top'",
        ),
        (
            "[[children]]",
            '[parent]\nname = "east"\nendpoint = "top:1"\n[[children]]',
            "cannot be the parent too: that is a cycle",
        ),
        (
            "[[children]]",
            "[trade]\ndebt_max_node_s = -1\n[[children]]",
            "trade.debt_max_node_s",
        ),
        ("[manager]", "[manager", "is not TOML"),
        ('name = "north"', 'name = "north"\ntime_zone = "Mars/Olympus"', "Mars"),
        (
            "[[children]]",
            "[calendar]\npublished_slots = '8x7, *x10'\n[[children]]",
            "calendar.published_slots: slot length",
        ),
        (
            "[[children]]",
            "[calendar]\nthreshold_permille = 1001\n[[children]]",
            "threshold_permille",
        ),
        ("[[children]]", "[calendar]\nhold_ttl_max_s = 1\n[[children]]", "contradict"),
        ("[[children]]", "[upkeep]\nclock_skew_max_s = 0\n[[children]]", "clock_skew_max_s"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, before: str, after: str, message: str) -> None:
    """The file or the key is in the message, and nothing is started."""
    with pytest.raises(InputError, match=message):
        load_manager_config(written(tmp_path, GOOD.replace(before, after, 1)))


def test_files_that_are_none(tmp_path: Path) -> None:
    """Missing, without children, or absurdly large."""
    with pytest.raises(InputError, match="there is no configuration at"):
        load_manager_config(tmp_path / "nowhere.toml")
    with pytest.raises(InputError, match="children"):
        load_manager_config(written(tmp_path, '[manager]\nname = "north"\n'))
    with pytest.raises(InputError, match="larger than"):
        load_manager_config(written(tmp_path, "#" * (1 << 21)))

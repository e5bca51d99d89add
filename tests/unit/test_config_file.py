"""Sites, managers and laptops read their configuration in one way, and tell mistakes alike."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from gridtravel.agents.config import site_file
from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.config_file import CONFIG_BYTES_MAX
from gridtravel.gurd.cli import app
from gridtravel.manager import config as manager_config
from gridtravel.travel_agent.sites import config as laptop_config

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Kind:
    """One kind of configuration: its loader, and a file that is good."""

    load: Callable[[Path], Any]
    model: type[BaseModel]
    page: str
    good: str
    required: str
    """A key of ``good`` that must be there, as a path."""
    zone: str
    """Header under which the time zone stands."""


KINDS = {
    "site": Kind(
        site_file.load_site_config,
        site_file.SiteFile,
        site_file.PAGE,
        '[site]\nname = "alpha"\n',
        "site.name",
        "site.time_zone",
    ),
    "manager": Kind(
        manager_config.load_manager_config,
        manager_config.ManagerFile,
        manager_config.PAGE,
        '[manager]\nname = "north"\n[[children]]\nname = "a"\nendpoint = "a.example.org:1"\n',
        "manager.name",
        "manager.time_zone",
    ),
    "laptop": Kind(
        laptop_config.load_grid_config,
        laptop_config._File,
        laptop_config.PAGE,
        '[machines.a]\nsite = "alpha"\nendpoint = "a.example.org:1"\n',
        "machines.a.site",
        "time_zone",
    ),
}


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each of the three."""
    return KINDS[request.param]


def refusal(kind: Kind, path: Path, content: bytes | None = None) -> InputError:
    """What the loader says."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        kind.load(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_good_file(kind: Kind, tmp_path: Path) -> None:
    """The least that must be said is enough."""
    path = tmp_path / "good.toml"
    path.write_text(kind.good)
    assert kind.load(path).path == path


def test_only_a_regular_file(kind: Kind, tmp_path: Path) -> None:
    """A pipe, a device or a folder is refused at once: nobody waits for what never comes."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        assert "it is no regular file" in refusal(kind, path).message
    missing = refusal(kind, tmp_path / "nowhere.toml")
    assert missing.message.startswith("there is no ")
    assert kind.page in str(missing.hint)


def test_bounded_text_in_toml(kind: Kind, tmp_path: Path) -> None:
    """Too large, not UTF-8, not TOML, or TOML that the parser cannot take."""
    path = tmp_path / "bad.toml"
    assert "larger than" in refusal(kind, path, b"#" * (CONFIG_BYTES_MAX + 1)).message
    for content, words in (
        (b'name = "\xff"', "is not UTF-8 text: invalid start byte at byte 8"),
        (b"\n[site", "is not TOML: "),
        (b"a = " + b"[" * 5000, "is not usable TOML: nested too deep"),
        (b".".join([b"a"] * 100) + b" = 1", "is not usable TOML: a key has too many parts"),
    ):
        told = refusal(kind, path, content)
        assert words in told.message
        assert told.hint == f"{kind.page} lists every key"


def test_a_key_that_is_not_known(kind: Kind, tmp_path: Path) -> None:
    """File, line and key; before the key that is missing because it was misspelled."""
    path = tmp_path / "bad.toml"
    *table, key = kind.required.split(".")
    spoiled = kind.good.replace(f"{key} =", f"{key}s =", 1)
    told = refusal(kind, path, spoiled.encode())
    wrong = ".".join([*table, f"{key}s"])
    assert told.message == f"{path}, line 2: {wrong}: this key is not known"
    assert told.hint == f"{kind.page} lists every key"
    # A key with a line break in its name stays one line for a terminal.
    refusal(kind, path, b'"a\\nb" = 1\n' + kind.good.encode())


def test_a_value_of_the_wrong_type(kind: Kind, tmp_path: Path) -> None:
    """The same form."""
    path = tmp_path / "bad.toml"
    *_, key = kind.required.split(".")
    lines = [
        f"{key} = 7" if line.startswith(f"{key} =") else line for line in kind.good.split("\n")
    ]
    told = refusal(kind, path, "\n".join(lines).encode())
    assert told.message.startswith(f"{path}, line 2: {kind.required}: ")


def test_what_the_domain_says(kind: Kind, tmp_path: Path) -> None:
    """File, line and key stand in front of it, and its own hint stays."""
    path = tmp_path / "bad.toml"
    *table, key = kind.zone.split(".")
    header = f"[{table[0]}]\n" if table else ""
    text = kind.good.replace(header, f"{header}{key} = 'EST'\n", 1)
    told = refusal(kind, path, text.encode())
    line = 2 if table else 1
    assert told.message.startswith(f"{path}, line {line}: {kind.zone}: ")
    assert "America/" in str(told.hint)
    spaced = kind.good.replace('"a', '"a b', 1).replace('"north"', '"n orth"')
    assert "line 2: " in refusal(kind, path, spaced.encode()).message


def test_the_page_lists_every_key(kind: Kind) -> None:
    """A key that the hint sends people to look for is there."""
    text = (DOCS / Path(kind.page).name).read_text(encoding="utf-8")
    assert [each for each in sorted(keys_of(kind.model)) if each not in text] == []


def keys_of(model: type[BaseModel]) -> Iterator[str]:
    """The keys of a table and of those inside it."""
    for name, field in model.model_fields.items():
        yield field.alias or name
        for inner in models_in(field.annotation):
            yield from keys_of(inner)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The tables within a type such as ``list[Table] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from models_in(each)


def test_check_config_says_the_same(tmp_path: Path) -> None:
    """It begins with the loader's words, whosever file it is."""
    os.mkfifo(tmp_path / "pipe")
    done = CliRunner().invoke(app, ["check-config", str(tmp_path / "pipe")])
    assert done.exit_code == 2
    assert "it is no regular file" in done.stderr
    path = tmp_path / "bad.toml"
    for name in ("site", "manager"):
        path.write_text(KINDS[name].good.replace("name =", "label =", 1))
        done = CliRunner().invoke(app, ["check-config", str(path)])
        assert done.exit_code == 2
        assert f"line 2: {name}.label: this key is not known" in done.stderr


@pytest.mark.parametrize("level", ["debug", "warning"])
def test_a_managers_log_level_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """What the file says is the level of the daemon's log."""
    path = tmp_path / "manager.toml"
    good = KINDS["manager"].good
    path.write_text(good.replace("[[children]]", f'log_level = "{level}"\n[[children]]', 1))
    root, levels = logging.getLogger(), []
    before, handlers = root.level, list(root.handlers)

    async def serve(_: object) -> None:
        levels.append(root.level)

    monkeypatch.setattr("gridtravel.manager.daemon.run_manager", serve)
    try:
        done = CliRunner().invoke(app, ["manager", "--config", str(path)])
    finally:
        root.setLevel(before)
        root.handlers[:] = handlers
    assert done.exit_code == 0, done.output
    assert levels == [getattr(logging, level.upper())]

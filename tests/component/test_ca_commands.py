from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.credentials import Usage, check_credential, load_credential
from gridtravel.gridio.trust.gridmap import load_grid_map
from gridtravel.gurd.ca import ca_app


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(ca_app, [str(argument) for argument in arguments])


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    """The folder of a founded grid."""
    folder = tmp_path / "ca"
    assert _run("init", folder, "--grid", "grid").exit_code == 0
    return folder


def test_a_grid_is_founded_in_four_commands(ca: Path, tmp_path: Path) -> None:
    """init, site, manager and user give good credentials and a grid-mapfile that knows them."""
    grid_map = tmp_path / "grid-mapfile"
    runs = [
        _run("site", ca, "sdsc", "--loopback", "--out", tmp_path / "sdsc"),
        _run("manager", ca, "north", "--host", "n.example.org", "--out", tmp_path / "north",
             "--grid-map", grid_map),
        _run("user", ca, "kenneth", "--out", tmp_path / "me", "--hours", "0.5",
             "--grid-map", grid_map, "--account", "sys200"),
    ]  # fmt: skip
    assert [run.exit_code for run in runs] == [0, 0, 0]
    assert "/O=grid/OU=users/CN=kenneth is in" in runs[2].stdout
    now = SystemClock().now()
    for name, usage in (("sdsc", Usage.SERVER), ("north", Usage.SERVER), ("me", Usage.CLIENT)):
        assert check_credential(load_credential(tmp_path / name), now, usage) == []
    known = load_grid_map(grid_map)
    assert known.accounts_of("/O=grid/OU=users/CN=kenneth") == ("kenneth", "sys200")


def test_json_is_one_object(ca: Path, tmp_path: Path) -> None:
    """--json prints one object for a script; show lists what is valid."""
    issued = json.loads(_run("user", ca, "kenneth", "--out", tmp_path / "me", "--json").stdout)
    assert issued["subject"] == "/O=grid/OU=users/CN=kenneth"
    shown = json.loads(_run("show", ca, "--json").stdout)
    assert (shown["grid"], shown["issued"]) == ("grid", 1)
    assert shown["valid"][0]["not_after"] == issued["not_after"]
    assert "issued       1, of which 1 valid" in _run("show", ca).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["site", "{ca}", "sdsc", "--out", "{out}"], "would name no host"),
        (["site", "{ca}", "a/b", "--loopback", "--out", "{out}"], "cannot be the name of a site"),
        (["user", "{ca}", "kenneth", "--out", "{out}", "--hours", "0"], "cannot last 0 hours"),
        (["user", "{ca}", "kenneth", "--out", "{out}", "--hours", "nan"], "'nan' is not a number"),
        (["user", "{ca}", "kenneth", "--out", "{out}", "--account", "x"], "needs --grid-map"),
        (["user", "{ca}", "k", "--out", "{out}", "--grid-map", "{out}/m", "--account", "a b"],
         "no name of a login"),
        (["user", "{out}/none", "kenneth", "--out", "{out}"], "holds no certificate authority"),
        (["init", "{ca}", "--grid", "other"], "authority of the grid grid, not of other"),
        (["show", "{out}/none"], "gurd ca init"),
    ],
)  # fmt: skip
def test_wrong_words_get_one_line_and_exit_code_two(
    ca: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    """A mistake is one line on standard error, one below it says what to do, exit code 2, and
    nothing written.
    """
    out = tmp_path / "out"
    before = sorted(tmp_path.rglob("*"))
    run = _run(*(argument.format(ca=ca, out=out) for argument in arguments))
    assert run.exit_code == 2
    assert message in run.stderr
    told, hint = run.stderr.splitlines()
    assert told.startswith("ca: ")
    assert hint.startswith("  ")
    assert run.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before

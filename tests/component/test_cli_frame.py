"""Every program ends a command in the same way, whatever went wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from gridtravel.gridcore.errors import (
    ConflictError,
    GridError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridio.cli_frame import (
    CommandFrame,
    JsonOption,
    Without,
    command_line,
    with_groups,
)
from gridtravel.gurd.cli import app as gurd
from gridtravel.local_sched.catalina.main import app as catalina
from gridtravel.simulator.cli.main import app as gurlab
from gridtravel.travel_agent.cli.main import app as gur

PROGRAMS = {"gur": gur, "catalina": catalina, "gurd": gurd, "gurlab": gurlab}
ENTRIES = {
    "gur": "gridtravel.travel_agent.cli.entry",
    "catalina": "gridtravel.local_sched.catalina.main",
    "gurd": "gridtravel.gurd.entry",
    "gurlab": "gridtravel.simulator.cli.main",
}
HELP_OF = """
import sys
program, entry = sys.argv[1:]
sys.argv = [program, "--help"]
main = __import__(entry, fromlist=["main"]).main
try:
    main()
finally:
    sys.stderr.write(" ".join(each for each in SLOW if each in sys.modules))
""".replace("SLOW", repr(("pydantic", "grpc", "rich", "asyncio", "matplotlib", "sqlite3")))


def failing(fault: BaseException, frame: type[CommandFrame] = CommandFrame) -> typer.Typer:
    """A program one of whose commands meets this fault."""
    app = command_line("prog", "For this test.", frame)

    @app.command()
    def fail(words: list[str], as_json: JsonOption = False) -> None:
        """Fail."""
        raise fault

    @app.command()
    def other() -> None:
        """Not asked for."""

    return app


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("words", [["nix"], ["--nix"]])
def test_wrong_words(name: str, words: list[str]) -> None:
    """One line and where to look; with --json also as one object. Exit code 2."""
    plain = CliRunner().invoke(PROGRAMS[name], words)
    assert (plain.exit_code, plain.stdout) == (2, "")
    first, second = plain.stderr.splitlines()
    assert first.startswith(f"{name}: no such ")
    assert second == f"  see: {name} --help"
    for_scripts = CliRunner().invoke(PROGRAMS[name], [*words, "--json"])
    assert for_scripts.stderr == plain.stderr
    assert json.loads(for_scripts.stdout) == {
        "error": {
            "message": first.removeprefix(f"{name}: "),
            "hint": second.strip(),
            "exit_code": 2,
        }
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_words(name: str) -> None:
    """The help, which is wrong usage; asked for it is not. A group of commands says one line."""
    asked = CliRunner().invoke(PROGRAMS[name], ["--help"])
    silent = CliRunner().invoke(PROGRAMS[name], [])
    assert (asked.exit_code, silent.exit_code) == (0, 2)
    assert silent.stdout == asked.stdout
    if name == "gurd":
        group = CliRunner().invoke(gurd, ["ca"])
        assert (group.exit_code, group.stderr) == (
            2,
            "gurd: missing command\n  see: gurd ca --help\n",
        )


def test_a_missing_argument_is_of_its_command() -> None:
    """The hint names the command."""
    done = CliRunner().invoke(gurd, ["ca", "show"])
    assert done.stderr == "gurd: missing argument 'DIR'\n  see: gurd ca show --help\n"


@pytest.mark.parametrize(
    ("fault", "second"),
    [
        (InputError("no", hint="say yes"), "say yes"),
        (InputError("no"), "see: prog fail --help"),
        (NotFoundError("no", hint=""), "see: prog fail --help"),
        (UnavailableError("no"), "try again later"),
        (NotAuthorisedError("no", hint=""), "ask whoever runs the site"),
        (ConflictError("no", hint=""), "ask whoever runs the site"),
    ],
)
def test_a_fault(fault: GridError, second: str) -> None:
    """Its line, always one with what helps, and its exit code; for scripts the same."""
    plain = CliRunner().invoke(failing(fault), ["fail", "x"])
    assert (plain.exit_code, plain.stdout) == (fault.exit_code, "")
    assert plain.stderr == f"prog: no\n  {second}\n"
    for_scripts = CliRunner().invoke(failing(fault), ["fail", "x", "--json"])
    assert for_scripts.stderr == plain.stderr
    assert json.loads(for_scripts.stdout) == {
        "error": {"message": "no", "hint": fault.next_step, "exit_code": fault.exit_code}
    }


def test_json_is_for_the_command_alone() -> None:
    """A word behind ``--`` that looks like the option is not the option."""
    done = CliRunner().invoke(failing(InputError("no")), ["fail", "--", "x", "--json"])
    assert (done.exit_code, done.stdout) == (2, "")


@dataclass(frozen=True, kw_only=True)
class Room:
    """Options that belong together."""

    nodes: Annotated[int, typer.Option("--nodes", min=1)] = 1
    name: Annotated[str, typer.Option("--name")] = "hall"


def test_options_that_belong_together() -> None:
    """A parameter that is a dataclass stands for an option a field, but for those left out."""
    app = command_line("prog", "For this test.")
    met: list[tuple[str, Room, bool]] = []

    def both(what: str, availability: Room, *, again: bool = False) -> None:
        """Two words."""
        met.append((what, availability, again))

    def nameless(availability: Annotated[Room, Without("name")], what: str = "x") -> None:
        """One word."""
        met.append((what, availability, False))

    app.command("both")(with_groups(both))
    app.command("nameless")(with_groups(nameless))
    assert CliRunner().invoke(app, ["both", "y", "--nodes", "3", "--again"]).exit_code == 0
    assert CliRunner().invoke(app, ["nameless"]).exit_code == 0
    assert met == [("y", Room(nodes=3), True), ("x", Room(), False)]
    assert CliRunner().invoke(app, ["nameless", "--name", "a"]).exit_code == 2
    wrong = CliRunner().invoke(app, ["both", "y", "--nodes", "0"])
    assert (wrong.exit_code, len(wrong.stderr.splitlines())) == (2, 2)
    assert "Two words." in CliRunner().invoke(app, ["both", "--help"]).stdout


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), EOFError()])
def test_ctrl_c(fault: BaseException) -> None:
    """130, no traceback, and what a program has to say of it; so is the end of input."""

    class Frame(CommandFrame):
        interrupted = ("interrupted in the midst", "look again")

    done = CliRunner().invoke(failing(fault, Frame), ["fail", "x"])
    assert done.exit_code == 130
    assert done.stderr.lstrip() == "prog: interrupted in the midst\n  look again\n"


def test_what_is_no_fault_of_the_grid_is_a_defect() -> None:
    """It is not hidden."""
    done = CliRunner().invoke(failing(ZeroDivisionError()), ["fail", "x"])
    assert isinstance(done.exception, ZeroDivisionError)


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_loads_little(name: str) -> None:
    """Whatever takes time to load is loaded by the command that needs it."""
    words = [sys.executable, "-c", HELP_OF, name, ENTRIES[name]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "Usage: " in done.stdout
    slow = set(done.stderr.split())
    # The daemons' program runs event loops only.
    assert slow - ({"asyncio"} if name == "gurd" else set()) == set()


@pytest.mark.parametrize("name", PROGRAMS)
def test_nobody_reads_the_output(name: str, tmp_path: Path) -> None:
    """A closed pipe is exit code 1, and nothing is said."""
    ends = os.pipe()
    os.close(ends[0])
    with os.fdopen(ends[1], "w") as pipe, (tmp_path / "err").open("w+") as errors:
        code = f"import sys; sys.argv = ['{name}', '--help']; import {ENTRIES[name]} as e; e.main()"
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=pipe, stderr=errors, timeout=60, check=False
        )
        errors.seek(0)
        assert (done.returncode, errors.read()) == (1, "")

"""The text that a far end's shell is given, and what is made of its answer."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from gridtravel.gridcore.errors import NotAuthorisedError, UnavailableError
from gridtravel.gridio.batch.local_runner import LocalRunner
from gridtravel.gridio.batch.options import BatchOptions
from gridtravel.gridio.batch.running import FarFiles, Finished
from gridtravel.gridio.batch.shell import Shell
from gridtravel.gridio.sites.connections import TransportName
from gridtravel.gridio.system.clock import ManualClock

T = TypeVar("T")
NOW = 1_000_000.0
NASTY = (
    "",
    " ",
    "a b",
    "'",
    '"',
    "\\",
    "$(id)",
    "`id`",
    "$HOME",
    "!x",
    "*",
    "a\nb",
    "é",
    "-n",
    ";",
)


class ScriptedRunner:
    """A far end that answers as it is told, and remembers what it was asked."""

    endpoint = "scripted:"
    transport: TransportName = "ssh"

    def __init__(self, answer: Finished) -> None:
        self.answer = answer
        self.texts: list[bytes] = []

    async def run(self, text: bytes, *, within_s: float) -> Finished:
        """The answer that was set."""
        self.texts.append(text)
        return self.answer

    async def with_files(self, work: Callable[[FarFiles], T]) -> T:
        """Nobody asks for files here."""
        raise AssertionError("no files")

    async def close(self) -> None:
        """Nothing is open."""


def answered(out: bytes, err: bytes = b"", code: int = 0) -> tuple[Shell, ScriptedRunner]:
    """A shell that asks such a far end."""
    runner = ScriptedRunner(Finished(code=code, out=out, err=err))
    options = BatchOptions(system="gridengine")
    return Shell(runner, options, ManualClock(NOW), site="lab"), runner


def a_real_shell(tmp_path: Path, **environment: str) -> Shell:
    """The shell of this computer, with programs of the right names that do nothing."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("qrsub", "qrdel", "qrstat", "qsub", "qstat", "qdel"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    options = BatchOptions(
        system="gridengine",
        folder=str(tmp_path / "far"),
        environment={"PATH": f"{tools}:/usr/bin:/bin", **environment},
    )
    return Shell(LocalRunner(), options, ManualClock(NOW), site="lab")


async def test_words_arrive_as_they_are(tmp_path: Path) -> None:
    """No character of a word, of the account or of the environment means anything to the shell."""
    shell = a_real_shell(tmp_path, NASTY="$(touch pwned) `id` '\"")
    before = sorted(each.name for each in os.scandir(tmp_path))
    body = 'b_part words; for each in "$@"; do printf "<%s>" "$each"; done; printf "%s" "$NASTY"'
    answer = await shell.ask(body, *NASTY, account="x; touch pwned")
    expected = "".join(f"<{each}>" for each in NASTY) + "$(touch pwned) `id` '\""
    assert answer.parts["words"] == expected
    assert sorted(each.name for each in os.scandir(tmp_path)) == sorted([*before, "far"])
    assert sorted(each.name for each in os.scandir(tmp_path / "far")) == ["areas", "book", "jobs"]


def text_for(tmp_path: Path, body: str) -> bytes:
    """What a far end would be given for ``body``, made to work on a machine without a batch
    system.
    """
    shell, runner = answered(b"\ngrid-batch 1 1000000 ada\n")
    asyncio.run(shell.ask(body))
    text = runner.texts[0].replace(b"qrsub qrdel qrstat qsub qstat qdel", b"")
    return text.replace(b"b_folder=.gridtravel", f"b_folder={tmp_path}/far".encode())


def test_a_broken_connection_executes_nothing(tmp_path: Path) -> None:
    """However much of the text arrives, a shell that does not see its end does nothing at all."""
    text = text_for(tmp_path, f"touch {tmp_path}/done")
    for part in range(0, len(text) - len(b"} < /dev/null\n"), 97):
        subprocess.run(["/bin/sh", "-s"], input=text[:part], capture_output=True, check=False)
    assert list(tmp_path.iterdir()) == []
    subprocess.run(["/bin/sh", "-s"], input=text, capture_output=True, check=True)
    assert (tmp_path / "done").exists()


async def test_start_up_files_may_talk() -> None:
    """What a login prints before the marker is not taken for the answer; parts are told apart."""
    shell, _ = answered(
        b"Welcome!\ngrid-part fake\nno\n\ngrid-batch 1 1000000.25 ada\nfirst\n"
        b"\ngrid-part one\na\n\n\ngrid-part two\nb\n"
    )
    answer = await shell.ask("")
    assert (answer.at, answer.now, answer.user) == (1_000_000.25, 1_000_000, "ada")
    assert (answer.lines(""), answer.lines("one"), answer.lines("two")) == (["first"], ["a"], ["b"])
    assert "fake" not in answer.parts
    skew = shell.skew_s()
    assert skew is not None
    assert skew.skew_s == pytest.approx(0.25)


async def test_whole_seconds_are_not_taken_for_more() -> None:
    """A far end whose ``date`` knows no fractions leaves half a second of doubt."""
    shell, _ = answered(b"\ngrid-batch 1 1000000 ada\n")
    await shell.ask("")
    skew = shell.skew_s()
    assert skew is not None
    assert skew.uncertainty_s >= 0.5


async def test_forced_command() -> None:
    """A key that executes something else whatever is asked is told from a fault of the commands."""
    shell, _ = answered(b"grid-bridge 1\n")
    with pytest.raises(NotAuthorisedError, match=r"grid-bridge 1.*forced command"):
        await shell.ask("")


async def test_commands_that_fail_keep_their_words() -> None:
    """What a command said is in the message, as one line."""
    shell, _ = answered(b"\ngrid-batch 1 1000000 ada\n", b"error: commlib error:\n no qmaster", 1)
    with pytest.raises(UnavailableError, match="lab: error: commlib error: no qmaster"):
        await shell.ask("")
    shell, _ = answered(b"", b"", 127)
    with pytest.raises(UnavailableError, match="batch_environment"):
        await shell.ask("")


def test_whoever_hung_up_is_not_missed(tmp_path: Path) -> None:
    """What was begun is finished, also when nobody reads the answer any more."""
    body = f"for i in 1 2 3; do echo x; done; kill -HUP $$; touch {tmp_path}/done"
    text = text_for(tmp_path, body)
    process = subprocess.Popen(
        ["/bin/sh", "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.communicate(text)
    assert (tmp_path / "done").exists()

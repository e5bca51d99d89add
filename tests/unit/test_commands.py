"""What no operating system can run is refused when it is asked for; what it can run is not."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.errors import FieldError, InputError
from gridtravel.gridcore.jobs.commands import (
    ARGUMENT_BYTES_MAX,
    ARGUMENTS_MAX,
    COMMAND_BYTES_MAX,
    check_arguments,
    check_quoted,
    check_runnable,
    check_script,
)
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridcore.jobs.tasks import TaskSpec
from tests.support.maintenance_world import KENNETH, MaintenanceWorld


def a_job(**what: Any) -> JobSpec:
    """A job that runs this."""
    return JobSpec(request_id="j", name="job", account=KENNETH.login, nodes=1, limit_s=60, **what)


def a_task(**what: Any) -> TaskSpec:
    """A leg's task that runs this."""
    return TaskSpec(**what)


def starts(argv: Sequence[str], **environment: str) -> bool:
    """Whether this machine's kernel starts it."""
    try:
        subprocess.run(argv, env=environment, check=True)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("text", ["x", "é"])
def test_the_longest_argument_is_the_kernels(text: str) -> None:
    """In bytes, whatever the characters; one more is one too many for both."""
    longest = text * (ARGUMENT_BYTES_MAX // len(text.encode()))
    longest += "x" * (ARGUMENT_BYTES_MAX - len(longest.encode()))
    assert starts(["/bin/true", longest])
    check_arguments("command", ["/bin/true", longest])
    assert not starts(["/bin/true", longest + "x"])
    with pytest.raises(FieldError) as fault:
        check_arguments("command", ["/bin/true", longest + "x"])
    assert (fault.value.index, bool(fault.value.hint)) == (1, True)


def test_the_longest_variable_is_the_kernels() -> None:
    """With its name and the sign between both."""
    longest = "x" * (ARGUMENT_BYTES_MAX - len("A="))
    assert starts(["/bin/true"], A=longest)
    check_runnable(a_job(argv=("true",), environment=(("A", longest),)))
    assert not starts(["/bin/true"], A=longest + "x")
    with pytest.raises(InputError):
        check_runnable(a_job(argv=("true",), environment=(("A", longest + "x"),)))


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("",),
        (" \t",),
        ("true", "zero\0"),
        ("true", "half \ud800"),
        ("true",) * (ARGUMENTS_MAX + 1),
        ("x" * 100_000,) * (COMMAND_BYTES_MAX // 100_000 + 1),
    ],
    ids=range(7),
)
def test_commands_that_nothing_can_run(argv: tuple[str, ...]) -> None:
    """Each with the next step; a task with such a command is refused, too."""
    with pytest.raises(FieldError) as fault:
        check_arguments("command", argv)
    assert fault.value.hint
    for field in ("command", "compile_command"):
        if argv or field == "command":
            with pytest.raises(FieldError) as fault:
                a_task(**{"command": ("true",), field: argv})
            assert fault.value.field == field


def test_a_command_behind_another_is_one_argument() -> None:
    """What is compiled first hands the command on as one word."""
    long = ("true", *["x" * 1000] * 200)
    TaskSpec(command=long)
    check_quoted("command", ("true",))
    for behind in ({"compile_command": ("make",)}, {"waits_for_companions": True}):
        with pytest.raises(FieldError):
            a_task(command=long, **behind)


@pytest.mark.parametrize(
    ("first", "runs"),
    [
        ("#!/bin/sh\n", True),
        ("#! /bin/sh -e\n", True),
        ("#!/bin/sh\r\n", False),
        ("#!/bin/sh -e\r\n", False),
        ("#!\n", False),
        ("#! \n", False),
        ("echo\n", False),
    ],
)
def test_first_lines_of_scripts(tmp_path: Path, first: str, runs: bool) -> None:
    """As the kernel reads them; a carriage return elsewhere is the interpreter's matter."""
    script = tmp_path / "script"
    script.write_bytes(f"{first}: 'a\r\n'\n".encode())
    script.chmod(0o755)
    if runs:
        assert starts([str(script)])
        check_script(script.read_bytes().decode(), "it")
        return
    with pytest.raises(InputError, match="it, line 1: ") as fault:
        check_script(first, "it")
    assert fault.value.hint
    with pytest.raises(InputError):
        check_runnable(a_job(script=f"{first}true\n"))


async def test_a_site_refuses_what_another_client_submits(tmp_path: Path) -> None:
    """Nothing is accepted, and the site takes the next one."""
    world = MaintenanceWorld(tmp_path)
    await world.start()
    try:
        for what in ({"argv": ("",)}, {"argv": ("a", "x" * 200_000)}, {"script": "#!/bin/sh\r\n"}):
            with pytest.raises(InputError):
                await world.desk().submit(a_job(**what))
        assert not world.agent.jobs.views
        assert await world.submit(1, 60)
    finally:
        await world.stop()

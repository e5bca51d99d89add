"""The ``host`` back end against real processes: what the contract cannot say of a simulated one."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.accounts.run_accounts import RunAs, resolve_account
from gridtravel.local_sched.resource_managers.base import (
    EndReason,
    Launch,
    NodeDescription,
    OutputStream,
    TaskEventKind,
)
from gridtravel.local_sched.resource_managers.host import HostResourceManager
from gridtravel.local_sched.resource_managers.supervised.processes import process_stat
from tests.support.host_tasks import command, numbers_in, run, script, text_of
from tests.support.resource_manager_worlds import PATIENCE_S, HostWorld, Listener, read_all

pytestmark = pytest.mark.integration


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HostWorld]:
    """This machine, with an open manager."""
    made = HostWorld(tmp_path)
    await made.manager.recover()
    yield made
    await made.close()


def groups_of(pid: int) -> str:
    """The control groups of a process, as the kernel tells them."""
    return Path(f"/proc/{pid}/cgroup").read_text()


async def test_the_environment_holds_only_what_was_given(
    world: HostWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the daemon's environment reaches a task; the order's variables win, and what only
    the site may say wins over them.
    """
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "leaked")
    monkeypatch.setenv("TERM", "xterm")
    order = replace(
        command("j1", "env"),
        environment={"LANG": "C", "TRIP": "t 1", "GRID_JOB": "j2", "GRID_NODELIST": "n9"},
        node_names=("n1", "n2"),
    )
    await run(world, order)
    pairs = dict(line.split("=", 1) for line in text_of(world, "j1").splitlines())
    assert pairs.pop("GRID_TASK").startswith("j1:")
    assert pairs == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": pwd.getpwuid(os.geteuid()).pw_dir,
        "LANG": "C",
        "GRID_JOB": "j1",
        "GRID_NODELIST": "n1,n2",
        "TRIP": "t 1",
    }


async def test_a_task_inherits_no_open_file_and_leads_its_session(world: HostWorld) -> None:
    """Standard input is empty, no descriptor of the daemon's is open, signals are as at login."""
    code = (
        "import os, signal, sys\n"
        "print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:4])\n"
        "print(repr(sys.stdin.read()), os.getsid(0) == os.getpid())\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    )
    leaked = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    try:
        await run(world, command("j1", sys.executable, "-I", "-S", "-c", code))
    finally:
        os.close(leaked)
    # Descriptor 3 is the listing's own.
    assert text_of(world, "j1").splitlines() == ["[0, 1, 2, 3]", "'' True", "set()"]


async def test_output_is_captured_in_the_named_files(world: HostWorld, tmp_path: Path) -> None:
    """Both streams go to files of the working folder, also into one and the same."""
    folder = tmp_path / "somewhere"
    folder.mkdir()
    both = replace(
        script("j1", "echo out; echo err >&2; pwd"),
        workdir=folder,
        stdout_name="log.txt",
        stderr_name="log.txt",
    )
    await run(world, both)
    await run(world, script("j2", "echo out; echo err >&2"))
    assert (folder / "log.txt").read_text() == f"out\nerr\n{folder}\n"
    assert text_of(world, "j2") == "out\n"
    assert text_of(world, "j2", OutputStream.STDERR) == "err\n"


async def test_a_script_runs_under_the_interpreter_it_names(world: HostWorld) -> None:
    """The first line of a script is honoured."""
    await run(world, script("j1", f"#!{sys.executable}\nprint(6 * 7)\n"))
    assert text_of(world, "j1") == "42\n"


async def test_a_signal_is_told_apart_from_an_exit_code(world: HostWorld) -> None:
    """A task that a signal ended has a signal number and no exit code."""
    ended = await run(world, script("j1", "kill -SEGV $$"))
    assert (ended.signal_number, ended.exit_code) == (signal.SIGSEGV, None)
    assert ended.reason is EndReason.EXITED


@pytest.mark.parametrize(
    ("order", "code", "words"),
    [
        (command("j1", "no-such-command"), 127, "cannot run no-such-command: No such file"),
        (command("j1", "/etc/passwd"), 126, "cannot run /etc/passwd: Permission denied"),
        (script("j1", "#!/no/such/interpreter\n"), 127, "cannot run the script: No such file"),
        (replace(command("j1", "true"), workdir=Path("/no/such")), 126, "enter the folder"),
    ],
)
async def test_what_cannot_run_ends_with_a_clear_word(
    world: HostWorld, order: Launch, code: int, words: str
) -> None:
    """A command that cannot run ends as in a shell, with the reason told and in standard error."""
    ended = await run(world, order)
    assert (ended.kind, ended.reason) == (TaskEventKind.ENDED, EndReason.EXITED)
    assert (ended.exit_code, ended.actual_start) == (code, None)
    assert words in ended.message
    if order.workdir is None:
        assert words in text_of(world, "j1", OutputStream.STDERR)


async def test_a_task_that_heeds_term_may_tidy_up(world: HostWorld) -> None:
    """A task has its grace after TERM, also when its main process dies of it at once."""
    text = "sh -c 'trap \"sleep 0.2; echo saved; exit\" TERM; echo up; sleep 60 & wait' & wait"
    await world.manager.launch(replace(script("j1", text), kill_grace_s=20.0))
    listener = Listener(world)
    await listener.next()
    output = world.manager.follow("j1", OutputStream.STDOUT)
    assert await world.during(anext(output)) == b"up\n"
    await world.manager.stop("j1", 20.0)
    ended = await listener.next()
    assert ended.reason is EndReason.STOPPED
    assert text_of(world, "j1") == "up\nsaved\n"


async def test_nothing_of_a_task_survives_its_end(world: HostWorld, tmp_path: Path) -> None:
    """What a task left in the background is ended with it, also in a session of its own."""
    seen = tmp_path / "pids"
    text = (
        f'for n in 1 2 3; do setsid sh -c \'trap "" TERM HUP; echo $$ >> {seen};'
        " sleep 600; sleep 600' & done\n"
        f"while [ $(grep -c . {seen}) -lt 3 ]; do sleep 0.01; done"
    )
    seen.touch()
    ended = await run(world, script("j1", text))
    assert ended.exit_code == 0
    pids = numbers_in(seen)
    assert len(pids) == 3
    assert [process_stat(pid) for pid in pids] == [None, None, None]


async def test_a_task_that_keeps_forking_is_ended(world: HostWorld) -> None:
    """Killing goes on, pass after pass, until nothing new turns up."""
    job_id = f"forks-{os.getpid()}"  # looked for on the whole machine, where others test too
    code = (
        "import os, time\n"
        "print('up', flush=True)\n"
        "for _ in range(40):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        for _ in range(3):\n"
        "            if os.fork(): os._exit(0)\n"
        "            time.sleep(0.01)\n"
        "        time.sleep(600)\n"
        "time.sleep(600)\n"
    )
    order = replace(
        command(job_id, sys.executable, "-I", "-S", "-c", code), limit_s=0.3, kill_grace_s=0.0
    )
    await world.manager.launch(order)
    started, ended = await Listener(world).until_over(job_id)
    assert ended.reason is EndReason.LIMIT
    assert ended.message == ""
    assert started.pid is not None
    assert _processes_of(job_id) == []


def _processes_of(job_id: str) -> list[int]:
    """All living processes that were started for the job."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(one.startswith(f"GRID_TASK={job_id}:".encode()) for one in variables):
            found.append(int(folder.name))
    return found


async def test_an_output_replaced_by_a_link_is_not_read(world: HostWorld, tmp_path: Path) -> None:
    """The daemon reads nothing for a task's owner that the owner laid a link to, and hangs on no
    pipe."""
    await run(world, script("j1", "ln -sf /etc/passwd stdout; rm stderr; mkfifo stderr"))
    for stream in OutputStream:
        with pytest.raises(NotAuthorisedError):
            await world.during(read_all(world.manager, "j1", stream))


async def test_a_login_the_machine_does_not_know_is_refused(
    world: HostWorld, tmp_path: Path
) -> None:
    """An account that does not exist is an error of one line, and nothing is left behind."""
    with pytest.raises(InputError, match="no account"):
        await world.manager.launch(replace(command("j1", "true"), login="no-such-login"))
    assert list((tmp_path / "control" / "active").iterdir()) == []
    assert list((tmp_path / "work").iterdir()) == []


async def test_a_demonstration_runs_everybody_as_the_daemon(tmp_path: Path) -> None:
    """With run_as = daemon a declared login needs no account, and HOME is the sandbox."""
    manager = HostResourceManager(
        root=tmp_path,
        clock=SystemClock(),
        nodes=(NodeDescription(name="n-1"),),
        files=AccountFiles(),
        run_as=RunAs.DAEMON,
    )
    await manager.launch(
        Launch(job_id="j1", login="no-such-login", argv=("sh", "-c", "echo $HOME; id -u"))
    )
    async with asyncio.timeout(PATIENCE_S):
        written = await read_all(manager, "j1", OutputStream.STDOUT)
    assert written.decode().split() == [str(manager.sandbox("j1")), str(os.geteuid())]
    await manager.close()


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A root that other accounts can pass through, unlike the folder of the test."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start tasks of other accounts")
async def test_root_runs_a_task_as_its_owner(open_root: Path) -> None:
    """As root: user, group and groups are given up before anything of the task runs."""
    files = AccountFiles()
    manager = HostResourceManager(root=open_root / "r", clock=SystemClock(), nodes=(), files=files)
    nobody = pwd.getpwnam("nobody")
    text = f"id -u; id -g; id -G; ls {open_root}/r/control || echo closed; pwd"
    await manager.launch(Launch(job_id="j1", login="nobody", script=text))
    async with asyncio.timeout(PATIENCE_S):
        written = await read_all(manager, "j1", OutputStream.STDOUT)
    lines = written.decode().splitlines()
    assert lines[:2] == [str(nobody.pw_uid), str(nobody.pw_gid)]
    assert "0" not in lines[2].split()
    assert lines[3:] == ["closed", str(manager.sandbox("j1"))]
    assert manager.output_path("j1", OutputStream.STDOUT).stat().st_uid == nobody.pw_uid
    await manager.close()
    files.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another account first")
async def test_a_daemon_without_privilege_starts_only_its_own(tmp_path: Path) -> None:
    """A daemon that is not root says so when it is to run another's task."""
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        assert resolve_account("nobody", RunAs.LOGIN).login == "nobody"
        with pytest.raises(InputError, match="cannot start tasks as 'daemon'"):
            resolve_account("daemon", RunAs.LOGIN)
    finally:
        os.seteuid(0)

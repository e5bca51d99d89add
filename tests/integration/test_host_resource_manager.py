"""The ``host`` back end against real processes: what the contract cannot say of a simulated one."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridcore.errors import InputError, NotAuthorisedError, NotFoundError
from gridio.clock import SystemClock
from local_sched.resource_managers.base import (
    EndReason,
    Launch,
    OutputStream,
    TaskEvent,
    TaskEventKind,
)
from local_sched.resource_managers.cpu_share import CgroupShares, CpuShareKind, detect
from local_sched.resource_managers.host import HostResourceManager, detected_nodes
from local_sched.resource_managers.processes import identity, process_stat
from local_sched.resource_managers.run_accounts import RunAs, resolve_account
from local_sched.resource_managers.spawning import spawn_supervisor
from tests.resource_manager_worlds import PATIENCE_S, HostWorld, Listener, own_login, read_all

pytestmark = pytest.mark.integration

DAEMON = """
import asyncio, json, sys
from pathlib import Path
from gridio.clock import SystemClock
from local_sched.resource_managers.base import Launch
from local_sched.resource_managers.cpu_share import CgroupShares, CpuShareKind, detect
from local_sched.resource_managers.host import HostResourceManager

async def main():
    manager = HostResourceManager(root=Path(sys.argv[1]), clock=SystemClock(), nodes=())
    await manager.recover()
    for order in json.loads(sys.argv[2]):
        await manager.launch(Launch(login=sys.argv[3], **order))
    print("launched", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
"""A daemon reduced to its resource manager, to be killed."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HostWorld]:
    """This machine, with an open manager."""
    made = HostWorld(tmp_path)
    await made.manager.recover()
    yield made
    await made.close()


def command(job_id: str, *argv: str) -> Launch:
    """An order for a command of the daemon's own account."""
    return Launch(job_id=job_id, login=own_login(), argv=argv)


def script(job_id: str, text: str) -> Launch:
    """An order for a script of the daemon's own account."""
    return Launch(job_id=job_id, login=own_login(), script=text)


async def run(world: HostWorld, launch: Launch) -> TaskEvent:
    """Launch a task and wait for its end."""
    await world.manager.launch(launch)
    return (await Listener(world).until_over(launch.job_id))[-1]


def text_of(world: HostWorld, job_id: str, stream: OutputStream = OutputStream.STDOUT) -> str:
    """What the task wrote."""
    return world.manager.output_path(job_id, stream).read_text()


async def until(holds: Callable[[], bool]) -> None:
    """Look at what processes of nobody's here do, which no event tells."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - what is awaited happens in another process
            await asyncio.sleep(0.01)


def numbers_in(path: Path) -> list[int]:
    """The whole lines of a file that a task writes, as numbers."""
    return [int(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def groups_of(pid: int) -> str:
    """The control groups of a process, as the kernel tells them."""
    return Path(f"/proc/{pid}/cgroup").read_text()


async def test_the_environment_holds_only_what_was_given(
    world: HostWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the daemon's environment reaches a task; the order's variables win."""
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "leaked")
    monkeypatch.setenv("TERM", "xterm")
    order = replace(
        command("j1", "env"),
        environment={"LANG": "C", "TRIP": "t 1"},
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


async def test_many_supervisors_run_a_task_once(world: HostWorld, tmp_path: Path) -> None:
    """However many supervisors come up for one folder, the fence lets one of them run it."""
    seen = tmp_path / "runs"
    order = script("j1", f"echo $$ >> {seen}; sleep 0.2")
    await world.manager.launch(order)
    folder = tmp_path / "control" / "active" / "j1"
    pids = [spawn_supervisor(folder) for _ in range(5)]
    (started, _) = await Listener(world).until_over("j1")
    codes = [await asyncio.to_thread(os.waitpid, pid, 0) for pid in pids]
    assert [status for _, status in codes] == [0] * 5
    assert numbers_in(seen) == [started.pid]


async def test_a_second_supervisor_makes_room_for_the_first(
    world: HostWorld, tmp_path: Path
) -> None:
    """A daemon that launches again without having recovered follows the task that runs."""
    seen = tmp_path / "runs"
    order = script("j1", f"echo $$ >> {seen}; sleep 600")
    await world.manager.launch(order)
    started = await Listener(world).next()
    await world.reopen()
    await world.manager.launch(order)
    await world.manager.stop("j1", 10.0)
    ended = (await Listener(world).until_over("j1"))[-1]
    assert (ended.reason, ended.pid) == (EndReason.STOPPED, started.pid)
    assert numbers_in(seen) == [started.pid]


async def test_a_killed_daemon_leaves_its_tasks_in_good_hands(tmp_path: Path) -> None:
    """After kill -9 what ran goes on, what waited starts in time, limits hold, all is told."""
    moment = SystemClock().now_precise() + 1.5
    orders: list[dict[str, object]] = [
        {"job_id": "done", "script": "exit 7"},
        {"job_id": "limited", "script": "sleep 600", "limit_s": 1.0},
        {"job_id": "running", "script": "sleep 600"},
        {"job_id": "waiting", "script": "exit 8", "start_not_before": moment},
    ]
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DAEMON, str(tmp_path), json.dumps(orders), own_login()),
        stdout=asyncio.subprocess.PIPE,
    )
    assert daemon.stdout is not None
    assert await daemon.stdout.readline() == b"launched\n"
    daemon.kill()
    await daemon.wait()
    world = HostWorld(tmp_path)
    known = {event.job_id: event for event in await world.manager.recover()}
    assert known["running"].kind is TaskEventKind.STARTED
    await world.manager.stop("running", 10.0)
    ended = [name for name, event in known.items() if event.kind is not TaskEventKind.STARTED]
    names = [str(one["job_id"]) for one in orders]
    seen = await Listener(world).until_over(*(name for name in names if name not in ended))
    ends = {
        event.job_id: event
        for event in [*known.values(), *seen]
        if event.kind is not TaskEventKind.STARTED
    }
    assert ends["done"].exit_code == 7
    assert ends["limited"].reason is EndReason.LIMIT
    assert ends["running"].reason is EndReason.STOPPED
    assert ends["waiting"].exit_code == 8
    assert ends["waiting"].actual_start is not None
    assert ends["waiting"].actual_start >= moment
    await world.close()


async def test_a_killed_supervisor_means_lost_and_dead(world: HostWorld, tmp_path: Path) -> None:
    """When the supervisor is killed its task is told as lost, and nothing of it goes on."""
    seen = tmp_path / "pids"
    text = f"echo $$ >> {seen}; setsid sh -c 'echo $$ >> {seen}; sleep 600; true' & sleep 600; true"
    await world.manager.launch(script("j1", text))
    listener = Listener(world)
    await listener.next()
    await until(lambda: len(numbers_in(seen)) == 2)
    pids = numbers_in(seen)
    fence = json.loads((tmp_path / "control" / "active" / "j1" / "fence.json").read_text())
    os.kill(fence["pid"], signal.SIGKILL)
    lost = await listener.next()
    assert (lost.kind, lost.reason) == (TaskEventKind.LOST, EndReason.LOST)
    assert "without a record" in lost.message
    await until(lambda: all(process_stat(pid) is None for pid in pids))
    assert await world.manager.recover() == [lost]


async def test_a_process_id_given_to_somebody_else_is_not_the_supervisor(
    world: HostWorld, tmp_path: Path
) -> None:
    """A living process counts only with its start time: ids are given out again."""
    folder = tmp_path / "control" / "active" / "j1"
    await run(world, command("j1", "true"))
    own = identity(os.getpid())
    (folder / "fence.json").write_text(json.dumps({**own, "start_ticks": 1}))
    (folder / "ended.json").unlink()
    await world.reopen()
    (lost,) = await world.manager.recover()
    assert lost.kind is TaskEventKind.LOST
    assert process_stat(os.getpid()) is not None


async def test_an_order_without_a_supervisor_is_lost_and_never_run(
    world: HostWorld, tmp_path: Path
) -> None:
    """A daemon that died between order and supervisor: the task is told as lost, and fenced off."""
    folder = tmp_path / "control" / "active" / "j1"
    order = command("j1", "true")
    await run(world, order)
    for name in ("fence.json", "started.json", "ended.json"):
        (folder / name).unlink()
    await world.reopen()
    (lost,) = await world.manager.recover()
    assert (lost.kind, lost.actual_start) == (TaskEventKind.LOST, None)
    await asyncio.to_thread(os.waitpid, spawn_supervisor(folder), 0)
    assert not (folder / "started.json").exists()
    await world.manager.launch(order)
    assert await world.manager.recover() == [lost]


async def test_damaged_records_lose_one_task_and_not_the_daemon(
    world: HostWorld, tmp_path: Path
) -> None:
    """A record that a failing disk destroyed is a lost task, with the supervisor's last words."""
    await run(world, command("j1", "true"))
    await run(world, command("j2", "true"))
    folder = tmp_path / "control" / "active" / "j1"
    for name in ("fence.json", "ended.json"):
        (folder / name).unlink()
    (folder / "launch.json").write_text("{")
    await asyncio.to_thread(os.waitpid, spawn_supervisor(folder), 0)
    await world.reopen()
    lost, ended = await world.manager.recover()
    assert (lost.kind, ended.exit_code) == (TaskEventKind.LOST, 0)
    assert "damaged" in lost.message
    assert "JSONDecodeError" in lost.message
    with pytest.raises(NotFoundError, match="damaged"):
        world.manager.output_path("j1", OutputStream.STDOUT)
    await world.manager.forget("j1")
    assert await world.manager.recover() == [ended]


async def test_polling_replaces_what_the_kernel_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without process descriptors ends are found by looking, also that of a killed supervisor."""

    def missing(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    world = HostWorld(tmp_path)
    assert (await run(world, command("j1", "true"))).exit_code == 0
    await world.manager.launch(command("j2", "sleep", "600"))
    listener = Listener(world)
    await listener.next()
    fence = json.loads((tmp_path / "control" / "active" / "j2" / "fence.json").read_text())
    os.kill(fence["pid"], signal.SIGKILL)
    assert (await listener.next()).kind is TaskEventKind.LOST
    await world.close()


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
        root=tmp_path, clock=SystemClock(), nodes=detected_nodes(), run_as=RunAs.DAEMON
    )
    await manager.launch(
        Launch(job_id="j1", login="no-such-login", argv=("sh", "-c", "echo $HOME; id -u"))
    )
    async with asyncio.timeout(PATIENCE_S):
        written = await read_all(manager, "j1", OutputStream.STDOUT)
    assert written.decode().split() == [str(manager.sandbox("j1")), str(os.geteuid())]
    await manager.close()


async def test_a_share_holds_the_processes_of_a_task(world: HostWorld) -> None:
    """All processes of a task are put under the control this machine really offers."""
    assert isinstance(world.manager, HostResourceManager)
    job_id = f"share-{os.getpid()}"
    shares = detect(group=f"grid-test-{os.getpid()}")
    await world.manager.launch(script(job_id, "sleep 600 & sleep 600; true"))
    listener = Listener(world)
    await listener.next()
    manager = world.manager
    await until(lambda: len(manager.pids(job_id)) == 3)
    pids = manager.pids(job_id)
    assert shares.set_share(job_id, 0.5, pids)
    if shares.kind is CpuShareKind.NICE:
        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids} == {3}
    else:
        assert all(job_id in groups_of(pid) for pid in pids)
    await manager.stop(job_id, 0.0)
    await listener.next()
    assert manager.pids(job_id) == []
    shares.release(job_id)
    if isinstance(shares, CgroupShares):
        shares.close()


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
    manager = HostResourceManager(root=open_root / "r", clock=SystemClock(), nodes=())
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

"""The supervisor's child on its way to becoming the task: everything that can be done before the
moment of the start.

Runs between fork and exec, as root only up to the change of account: all files of the task are
opened and written by its owner, so no link laid out in the working folder can lend it another's
rights. Standard library alone.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import stat

from gridtravel.local_sched.resource_managers.supervised.processes import PR_SET_PDEATHSIG, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from gridtravel.local_sched.resource_managers.supervised.task_records import LaunchRecord

NOT_FOUND_CODE = 127
"""Exit code of a command that does not exist, as in a shell."""
NOT_RUN_CODE = 126
"""Exit code of a task that could not be prepared or run, as in a shell."""


def become_task(
    order: LaunchRecord,
    environment: dict[str, str],
    go: int,
    told: int,
    outputs: tuple[int, ...] | OSError,
) -> NoReturn:
    """Prepare, wait for a ``g`` from the pipe ``go``, and become the command; never returns.
    ``outputs`` is what ``open_outputs`` has found.

    A failure is told as code and message through the pipe ``told``, which a successful exec closes,
    and in the task's standard error. An end of ``go`` without its letter means that the task is not
    to run any more.
    """
    code, doing = NOT_RUN_CODE, "become the task"
    try:
        supervisor = os.getppid()
        os.setsid()
        doing = "keep to its processors"
        if order.get("processors"):
            os.sched_setaffinity(0, order["processors"])
        doing = f"become the account {order['account']['login']}"
        _change_account(order)
        doing = f"enter the folder {order['workdir']}"
        os.chdir(order["workdir"])
        doing = "open the output files"
        if isinstance(outputs, OSError):
            raise outputs
        os.dup2(outputs[0], 1)
        os.dup2(outputs[-1], 2)
        argv = order["argv"]
        if order["script"] is not None:
            doing = "write the script"
            argv = _write_script(order["script_path"], order["script"])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if os.read(go, 1) != b"g" or os.getppid() != supervisor:
            os._exit(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        doing = f"run {argv[0] if order['script'] is None else 'the script'}"
        _execute(argv, environment)
    except Exception as fault:  # whatever it is: this process can only tell it and end
        if doing.startswith("run ") and isinstance(fault, FileNotFoundError):
            code = NOT_FOUND_CODE
        reason = getattr(fault, "strerror", None) or str(fault)
        message = f"cannot {doing}: {reason}".encode("utf-8", "replace")
        os.write(told, b"%d %s" % (code, message[: select.PIPE_BUF - 8]))
        os.write(2, b"grid: " + message + b"\n")
    finally:
        os._exit(code)


def _change_account(order: LaunchRecord) -> None:
    """Give up the daemon's rights for the owner's; a daemon without privilege has nothing to give
    up."""
    account = order["account"]
    if account["uid"] != os.geteuid():
        os.setgroups(account["groups"])
        os.setgid(account["gid"])
        os.setuid(account["uid"])
    os.umask(0o022)


def open_outputs(order: LaunchRecord) -> tuple[int, ...] | OSError:
    """Descriptors for standard output and error, or for both: opened with the rights of the task's
    account alone, by the supervisor, which measures them. Else the reason why not.

    The rights are put aside for this moment only. No process of the account can use that: whom the
    kernel lets signal or look into another counts by the rights that were kept.
    """
    account, own = order["account"], (os.geteuid(), os.getegid(), os.getgroups())
    is_other = account["uid"] != own[0]
    names = dict.fromkeys((order["stdout_name"], order["stderr_name"]))
    found: list[int] = []
    folder = -1
    umask = os.umask(0o022)
    try:
        if is_other:
            os.setgroups(account["groups"])
            os.setegid(account["gid"])
            os.seteuid(account["uid"])
        folder = os.open(order["workdir"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        found.extend(_open_output(name, folder) for name in names)
    except OSError as fault:
        for each in found:
            os.close(each)
        return fault
    finally:
        os.umask(umask)
        if folder >= 0:
            os.close(folder)
        if is_other and os.geteuid() != own[0]:
            os.seteuid(own[0])
        if is_other and own[0] == 0:
            os.setegid(own[1])
            os.setgroups(own[2])
    return tuple(found)


def _open_output(name: str, folder: int) -> int:
    """Open an output file for appending: never through a link that waits there, never a pipe that
    would hang."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(name, flags, 0o644, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{name} is no regular file")
    os.ftruncate(descriptor, 0)
    os.set_blocking(descriptor, True)
    return descriptor


def _write_script(path: str, text: str) -> list[str]:
    """Write the script as its owner; without a first line that names an interpreter it is the
    shell's."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        stream.write(text)
    return [path] if text.startswith("#!") else ["/bin/sh", path]


def _execute(argv: list[str], environment: dict[str, str]) -> NoReturn:
    """Become the command, looked up in the task's PATH; a text without a first line is the shell's.

    Not ``os.execvpe``, which imports a module on its way: the account may not be allowed to read
    the daemon's Python, whose interpreter is already running it.
    """
    command = argv[0]
    folders = [""] if "/" in command else environment.get("PATH", "").split(":")
    failure: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in folders:
        path = os.path.join(folder, command)
        try:
            os.execve(path, argv, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as fault:
            if fault.errno == errno.ENOEXEC:
                os.execve("/bin/sh", ["/bin/sh", path, *argv[1:]], environment)
            failure = fault  # a better reason than that another folder does not have it
    raise failure

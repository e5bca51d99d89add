"""The small files through which a supervisor and a daemon tell each other about a task; see
``supervisor``.

Standard library alone, and no ``typing`` at run time: every supervisor pays for what is imported
here.
"""

from __future__ import annotations

import itertools
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class AccountRecord(TypedDict):
        """Whom a task runs as; numbers, so that the supervisor looks nothing up."""

        login: str
        uid: int
        gid: int
        groups: list[int]

    class LaunchRecord(TypedDict):
        """The order, complete: environment and paths are resolved."""

        job_id: str
        account: AccountRecord
        argv: list[str]
        script: str | None
        script_path: str
        environment: dict[str, str]
        workdir: str
        stdout_name: str
        stderr_name: str
        start_not_before: float | None
        end: int | None
        limit_s: float | None
        kill_grace_s: float

    class ProcessRecord(TypedDict):
        """Names a process for good; ``start_ticks`` None stands for one that was dead already."""

        pid: int
        start_ticks: int | None
        boot_id: str

    class EndRecord(TypedDict):
        """What became of a task."""

        reason: str
        exit_code: int | None
        signal_number: int | None
        ended_at: float
        message: str
        cpu_s: float | None


LAUNCH = "launch.json"
FENCE = "fence.json"
STARTED = "started.json"
STOP = "stop.json"
ENDED = "ended.json"
_serial = itertools.count()
"""Tells the writers of one process apart, which may be threads."""


def read_record(path: str) -> Any:
    """The record, or None when it was not written."""
    try:
        with open(path, "rb") as stream:
            return json.loads(stream.read())
    except FileNotFoundError:
        return None


def write_record(path: str, record: Any, *, once: bool, durable: bool = True) -> bool:
    """Write the record whole, or not at all. With ``once`` an existing one stays and the answer is
    False."""
    beside = f"{path}.{os.getpid()}.{next(_serial)}.new"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(json.dumps(record).encode("ascii"))
        if durable:
            stream.flush()
            os.fsync(descriptor)
    try:
        if once:
            os.link(beside, path)
        else:
            os.rename(beside, path)
    except FileExistsError:
        return False
    finally:
        if once:
            os.unlink(beside)
    if durable:
        sync_folder(os.path.dirname(path) or ".")
    return True


def sync_folder(folder: str) -> None:
    """Force the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

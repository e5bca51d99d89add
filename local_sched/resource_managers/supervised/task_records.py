"""The small files through which a supervisor and a daemon tell each other about a task; see
``supervisor``.

Standard library alone, and no ``typing`` at run time: every supervisor pays for what is imported
here.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NotRequired, TypedDict

    class AccountRecord(TypedDict):
        """Whom a task runs as; numbers, so that the supervisor looks nothing up."""

        login: str
        uid: int
        gid: int
        groups: list[int]

    class LimitsRecord(TypedDict, total=False):
        """See ``task_limits``; an order of an older release has none."""

        processes_max: int | None
        memory_max_bytes: int | None
        output_max_bytes: int | None
        area_max_bytes: int | None
        disk_free_min_bytes: int | None
        control_groups: bool
        """False where a batch system has put the task into groups of its own."""

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
        limits: NotRequired[LimitsRecord]
        processors: NotRequired[list[int]]
        """Those it may run on; missing or empty: any."""
        share: NotRequired[float]
        """So many of them it gets at first, such as 0.5, by control groups; missing: all."""

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
ROOM_BYTES = 4096
_serial = itertools.count()
"""Tells the writers of one process apart, which may be threads."""


def read_record(path: str) -> Any:
    """The record, or None when it was not written."""
    try:
        with open(path, "rb") as stream:
            return json.loads(stream.read())
    except FileNotFoundError:
        return None


def take_room(path: str) -> None:
    """Take room on the disk for a record that is to be written whatever else fills it. Where there
    is none even now, the record has to find its own.
    """
    try:
        descriptor = os.open(f"{path}.room", os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError:
        return
    try:
        os.posix_fallocate(descriptor, 0, ROOM_BYTES)
    except OSError:
        os.unlink(f"{path}.room")
    finally:
        os.close(descriptor)


def write_record(path: str, record: Any, *, once: bool, durable: bool = True) -> bool:
    """Write the record whole, or not at all. With ``once`` an existing one stays and the answer is
    False."""
    beside = f"{path}.{os.getpid()}.{next(_serial)}.new"
    content = json.dumps(record).encode("ascii")
    if len(content) <= ROOM_BYTES:
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}.room", beside)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(content)
        stream.truncate()
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

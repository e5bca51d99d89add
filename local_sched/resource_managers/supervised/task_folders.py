"""Where the ``host`` back end keeps its tasks on disk, and the one place that lays folders out.

    ROOT/control/active/JOB/   the records of a task, see ``supervisor``; the daemon's alone
    ROOT/control/done/JOB/     the same, once the scheduler has recorded the end
    ROOT/control/wake          named pipe: a line with a job's id when its records changed
    ROOT/work/JOB/             the task's sandbox, its owner's alone

The records never lie in a folder that the task's owner can write to.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.local_sched.accounts.run_accounts import RunAccount
from gridtravel.local_sched.resource_managers.base import Launch, OutputStream, check_job_id
from gridtravel.local_sched.resource_managers.supervised.output_following import OutputFile
from gridtravel.local_sched.resource_managers.supervised.processes import (
    descendants,
    identity,
    is_alive,
)
from gridtravel.local_sched.resource_managers.supervised.task_records import (
    ENDED,
    FENCE,
    LAUNCH,
    read_record,
    sync_folder,
    write_record,
)

if TYPE_CHECKING:
    from gridtravel.local_sched.resource_managers.supervised.task_records import (
        EndRecord,
        LaunchRecord,
        ProcessRecord,
    )

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
SCRIPT_NAME = ".grid-script"


class TaskFolders:
    """The folders below one root. Blocking: some calls wait for the disk."""

    def __init__(self, root: Path) -> None:
        self._control = root / "control"
        self._active = self._control / "active"
        self._done = self._control / "done"
        self._work = root / "work"
        try:
            for folder, mode in (
                (root, 0o711),
                (self._work, 0o711),
                (self._control, 0o700),
                (self._active, 0o700),
                (self._done, 0o700),
            ):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(mode)
        except OSError as fault:
            raise InputError(
                f"cannot keep tasks in {root}: {fault.strerror}",
                hint="name a folder of the daemon's own",
            ) from fault

    @property
    def wake_pipe(self) -> Path:
        """The named pipe of the supervisors; whoever opens it makes it."""
        return self._control / "wake"

    def sandbox(self, job_id: str) -> Path:
        """The folder a task works in unless told otherwise; made by ``prepare``."""
        check_job_id(job_id)
        return self._work / job_id

    def active_ids(self) -> list[str]:
        """The ids of all tasks not retired, sorted. A folder without any record is left of a daemon
        that died before it had taken the order: nothing was launched from it.
        """
        return sorted(folder.name for folder in self._active.iterdir() if _has_records(folder))

    def folder(self, job_id: str) -> Path:
        """The folder of the task's records. Raises ``NotFoundError`` when it was never launched."""
        check_job_id(job_id)
        for above in (self._active, self._done):
            if _has_records(above / job_id):
                return above / job_id
        raise NotFoundError(
            f"no task {job_id} was ever launched here",
            hint="see the daemon's log for who asked",
        )

    def prepare(
        self,
        launch: Launch,
        account: RunAccount,
        *,
        control_groups: bool,
        processors: Sequence[int] = (),
    ) -> Path:
        """Take the order durably and make the sandbox; the same order again changes nothing.
        ``control_groups``: whether the supervisor may put the task into groups of its own.
        ``processors``: those that the task may run on; none: any.

        Raises ``ConflictError`` when the id has another order already.
        """
        order = self._order_of(launch, account, control_groups=control_groups)
        if processors:
            order["processors"] = list(processors)
        if launch.shares:
            order["share"] = sum(launch.shares)
        if (self._done / launch.job_id).exists():
            folder = self._done / launch.job_id
        else:
            folder = self._active / launch.job_id
            folder.mkdir(mode=0o700, exist_ok=True)
            self._make_sandbox(launch.job_id, account)
        is_new = write_record(str(folder / LAUNCH), order, once=True)
        if not is_new and not _is_same(read_record(str(folder / LAUNCH)), order):
            raise ConflictError(
                f"task {launch.job_id} was launched before with another order",
                hint="give every execution an id of its own",
            )
        sync_folder(str(self._active))
        return folder

    def retire(self, job_id: str) -> None:
        """Move the records of a task that is over out of the way of ``active_ids``."""
        folder = self.folder(job_id)
        if self.end_record(folder) is None:
            raise ConflictError(f"task {job_id} is not over", hint="stop it first")
        if folder.parent == self._active:
            folder.rename(self._done / job_id)
            sync_folder(str(self._done))
            sync_folder(str(self._active))

    def order(self, folder: Path) -> LaunchRecord:
        """The order as it was taken. Raises ``NotFoundError`` when the disk destroyed it."""
        try:
            order: LaunchRecord | None = read_record(str(folder / LAUNCH))
        except ValueError as fault:
            raise NotFoundError(
                f"the order of task {folder.name} is damaged: {fault}",
                hint="it cannot be run any more; submit the job again",
            ) from fault
        if order is None:
            raise NotFoundError(
                f"the order of task {folder.name} is gone",
                hint="it cannot be run any more; submit the job again",
            )
        return order

    def output(self, job_id: str, stream: OutputStream) -> OutputFile:
        """Where the task writes a stream, and as whom."""
        order = self.order(self.folder(job_id))
        is_stdout = stream is OutputStream.STDOUT
        return OutputFile(
            folder=Path(order["workdir"]),
            name=order["stdout_name" if is_stdout else "stderr_name"],
            uid=order["account"]["uid"],
        )

    def end_record(self, folder: Path) -> EndRecord | None:
        """How the task ended, or None while nobody has written it down."""
        record: EndRecord | None = read_record(str(folder / ENDED))
        return record

    def fence(self, folder: Path) -> ProcessRecord | None:
        """Who runs the task, or None while nobody does."""
        record: ProcessRecord | None = read_record(str(folder / FENCE))
        return record

    def living_pids(self, job_id: str) -> list[int]:
        """The processes of the task at this moment; its supervisor is none of them."""
        fence = self.fence(self.folder(job_id))
        return descendants(fence["pid"]) if fence is not None and is_alive(fence) else []

    def take_fence(self, folder: Path) -> bool:
        """Make sure that no supervisor starts the task any more; False when one was faster."""
        return write_record(str(folder / FENCE), identity(os.getpid()), once=True)

    def _make_sandbox(self, job_id: str, account: RunAccount) -> None:
        sandbox = self._work / job_id
        sandbox.mkdir(mode=0o700, exist_ok=True)
        if sandbox.stat().st_uid != account.uid:
            os.chown(sandbox, account.uid, account.gid, follow_symlinks=False)

    def _order_of(
        self, launch: Launch, account: RunAccount, *, control_groups: bool
    ) -> LaunchRecord:
        """The order with everything resolved, so that the supervisor has nothing to find out."""
        sandbox = self.sandbox(launch.job_id).absolute()
        environment = {
            "PATH": DEFAULT_PATH,
            "HOME": account.home or str(sandbox),
            "LANG": "C.UTF-8",
            **launch.environment,
            "GRID_JOB": launch.job_id,
            "GRID_NODELIST": ",".join(launch.node_names),
        }
        return {
            "job_id": launch.job_id,
            "account": {
                "login": account.login,
                "uid": account.uid,
                "gid": account.gid,
                "groups": list(account.groups),
            },
            "argv": list(launch.argv),
            "script": launch.script,
            "script_path": str(sandbox / SCRIPT_NAME),
            "environment": environment,
            "workdir": str(launch.workdir or sandbox),
            "stdout_name": launch.stdout_name,
            "stderr_name": launch.stderr_name,
            "start_not_before": launch.start_not_before,
            "end": launch.end,
            "limit_s": launch.limit_s,
            "kill_grace_s": launch.kill_grace_s,
            "limits": {
                "processes_max": launch.limits.processes_max,
                "memory_max_bytes": launch.limits.memory_max_bytes,
                "output_max_bytes": launch.limits.output_max_bytes,
                "area_max_bytes": launch.limits.area_max_bytes,
                "disk_free_min_bytes": launch.limits.disk_free_min_bytes,
                "control_groups": control_groups,
            },
        }


def _is_same(known: LaunchRecord, order: LaunchRecord) -> bool:
    """True for the same order; what a task shares its nodes for may be another part by now."""
    return {**known, "share": order.get("share")} == {**order, "share": order.get("share")}


def _has_records(folder: Path) -> bool:
    """Whether a task was ever ordered here, also where the disk has lost one of its records."""
    return any((folder / name).exists() for name in (LAUNCH, FENCE, ENDED))

"""From the records of a task to the events that a resource manager tells."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gridtravel.local_sched.resource_managers.base import EndReason, TaskEvent, TaskEventKind
from gridtravel.local_sched.resource_managers.supervised.task_records import (
    ENDED,
    STARTED,
    read_record,
)


def start_event(job_id: str, folder: Path) -> TaskEvent | None:
    """The start that the records of a task tell of, or None."""
    started = read_record(str(folder / STARTED))
    if started is None:
        return None
    return TaskEvent(
        job_id=job_id,
        kind=TaskEventKind.STARTED,
        at=started["actual_start"],
        pid=started["pid"],
        actual_start=started["actual_start"],
    )


LOST_REASONS: Final = (EndReason.LOST, EndReason.NEVER_RAN)


def end_event(job_id: str, folder: Path) -> TaskEvent | None:
    """The end that the records of a task tell of, or None."""
    ended = read_record(str(folder / ENDED))
    if ended is None:
        return None
    started = read_record(str(folder / STARTED)) or {}
    reason = EndReason(ended["reason"])
    return TaskEvent(
        job_id=job_id,
        kind=TaskEventKind.LOST if reason in LOST_REASONS else TaskEventKind.ENDED,
        at=ended["ended_at"],
        pid=started.get("pid"),
        actual_start=started.get("actual_start"),
        exit_code=ended["exit_code"],
        signal_number=ended["signal_number"],
        reason=reason,
        message=ended["message"],
        cpu_s=ended["cpu_s"],
    )

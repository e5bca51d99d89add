"""The port between the local scheduler and whatever runs tasks: `ResourceManager`, and the values
that cross it.

Not a scheduler: it is told when to start what, and tells what became of it. A task is one
execution. Its ``job_id`` names that execution for good, so a back end never runs the same id twice;
a job that its scheduler wants to run again (requeue, kill-and-restart) gets a new id, such as
``17.2``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.commands import ARGUMENTS_MAX
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.resource_managers.task_limits import NO_TASK_LIMITS, TaskLimits

SCRIPT_BYTES_MAX = 4 * 1024 * 1024
"""Longest job script, in bytes: what Slurm takes too; longer ones are data and belong into staged
files."""
"""Most words of a command line."""
KILL_GRACE_S_MAX = 3600.0
"""Longest time between TERM and KILL, in seconds."""
JOB_ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")
"""Job ids become names of folders, so they hold nothing that a path gives a meaning to."""
VARIABLE_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")


class OutputStream(StrEnum):
    """The two streams a task writes."""

    STDOUT = "stdout"
    STDERR = "stderr"


class TaskEventKind(StrEnum):
    """What can happen to a task. ``ENDED`` and ``LOST`` are final; one of them comes, once."""

    STARTED = "started"
    NODE_ENDED = "node-ended"
    """Its part on one node (``node_name``) is over, and others go on. Only of tasks with shares,
    and only where the back end can tell the parts apart.
    """
    ENDED = "ended"
    LOST = "lost"

    @property
    def is_final(self) -> bool:
        """True when nothing more will happen to the task."""
        return self in (TaskEventKind.ENDED, TaskEventKind.LOST)


class EndReason(StrEnum):
    """Why a task is over: by itself, over a limit (``message`` says which), at the end of its time,
    on demand, or nobody knows. ``NEVER_RAN``: whoever ordered it died before anybody took it up,
    and now nobody can.
    """

    EXITED = "exited"
    EXCEEDED = "exceeded"
    LIMIT = "limit"
    STOPPED = "stopped"
    LOST = "lost"
    NEVER_RAN = "never-ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """A node that the back end can give out; ``features`` are sorted words such as ``gpu``."""

    name: str
    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("a node needs a name")
        if list(self.features) != sorted(set(self.features)):
            raise InputError(f"the features of node {self.name} must be sorted and different")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """An order to run one task. Exactly one of ``argv`` and ``script`` is given.

    The time of the task ends at ``end`` or ``limit_s`` after its actual start, whichever comes
    first; without both it has no limit. Then it gets TERM, and KILL ``kill_grace_s`` later.
    """

    job_id: str
    """Names this execution for good, see ``JOB_ID_PATTERN``."""
    login: str
    """The account of the machine that owns the task; who may use it was decided before."""
    argv: tuple[str, ...] = ()
    """The command and its arguments, run without a shell; the command is looked up in ``PATH``."""
    script: str | None = None
    """A script's text; run by the interpreter of its first line, or by ``/bin/sh``."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """All that the task sees besides PATH, HOME, LANG and what the back end tells it (GRID_JOB,
    GRID_NODELIST and GRID_TASK); wins over the first three and never over those."""
    workdir: Path | None = None
    """An absolute folder that exists; ``None`` gives the task a sandbox of its own."""
    node_names: tuple[str, ...] = ()
    """The nodes chosen for the task, first node first."""
    limit_s: float | None = None
    """Longest run, in seconds from the actual start; more than 0."""
    end: Instant | None = None
    """The instant at which the reserved time is over."""
    start_not_before: float | None = None
    """Never start earlier than this moment (seconds UTC, with fraction); ``None`` is at once."""
    stdout_name: str = "stdout"
    """Name of the file for standard output, in the working folder."""
    stderr_name: str = "stderr"
    """Name of the file for standard error; may equal ``stdout_name``."""
    kill_grace_s: float = 10.0
    """Seconds between TERM and KILL at the end of the time; 0 up to ``KILL_GRACE_S_MAX``."""
    limits: TaskLimits = NO_TASK_LIMITS
    """A task that is over one is ended."""
    shares: tuple[float, ...] = field(default=(), compare=False)
    """Part that it gets of each of ``node_names`` from its start on, until ``set_shares``; none:
    the nodes are its own. Orders that differ in it are the same order.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", MappingProxyType(dict(self.environment)))
        check_job_id(self.job_id)
        if bool(self.argv) == (self.script is not None):
            raise InputError(f"job {self.job_id}: give either a command or a script")
        self._check_texts()
        self._check_times()
        if self.workdir is not None and not self.workdir.is_absolute():
            raise InputError(
                f"job {self.job_id}: the working folder must be absolute, not {self.workdir}"
            )

    def _check_texts(self) -> None:
        """Whatever the operating system cannot take is refused here, with a name to it."""
        if len((self.script or "").encode("utf-8", "replace")) > SCRIPT_BYTES_MAX:
            raise InputError(
                f"job {self.job_id}: the script is longer than {SCRIPT_BYTES_MAX} bytes",
                hint="put data into files and stage them in",
            )
        if len(self.argv) > ARGUMENTS_MAX:
            raise InputError(f"job {self.job_id}: more than {ARGUMENTS_MAX} arguments")
        for name in (self.stdout_name, self.stderr_name):
            if name in ("", ".", "..") or "/" in name or len(name) > 200:
                raise InputError(f"job {self.job_id}: {name!r} is not a plain file name for output")
        for variable in self.environment:
            if VARIABLE_PATTERN.fullmatch(variable) is None:
                raise InputError(f"job {self.job_id}: {variable!r} is not a name of a variable")
        named = {
            "login": self.login,
            "output name": self.stdout_name + self.stderr_name,
            "working folder": str(self.workdir or "/"),
            "command": "".join(self.argv),
            "script": self.script or "",
            "environment": "".join(self.environment.values()),
        }
        for what, text in named.items():
            if "\0" in text or not _is_encodable(text):
                raise InputError(
                    f"job {self.job_id}: the {what} holds a character that no process can be given"
                )
        if not self.login:
            raise InputError(f"job {self.job_id}: whose task is it? The login is empty")
        if self.shares:
            check_shares(self.job_id, self.shares, len(self.node_names))

    def _check_times(self) -> None:
        if self.limit_s is not None and not self.limit_s > 0:
            raise InputError(
                f"job {self.job_id}: a limit of {self.limit_s} s leaves no time to run"
            )
        if not 0 <= self.kill_grace_s <= KILL_GRACE_S_MAX:
            raise InputError(
                f"job {self.job_id}: the grace before KILL must be 0 to {KILL_GRACE_S_MAX:.0f} s"
            )
        if self.end is not None and self.end <= (self.start_not_before or 0):
            raise InputError(f"job {self.job_id}: its time ends before it may start")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """What became of a task.

    A task that never ran (stopped before its start, command not found) ends without ``STARTED``. Of
    ``exit_code`` and ``signal_number`` one is set when the main process of the task ran and was
    seen to end.
    """

    job_id: str
    kind: TaskEventKind
    at: float
    """When it happened: seconds UTC, with fraction."""
    pid: int | None = None
    """The task's main process, once started."""
    actual_start: float | None = None
    """The moment the command was let go; never before ``start_not_before``. ``None``: it never ran.
    """
    exit_code: int | None = None
    """0 to 255; 127 when the command does not exist and 126 when it cannot be run, as in a shell.
    """
    signal_number: int | None = None
    """The signal that ended the main process."""
    reason: EndReason | None = None
    """Set with ``ENDED`` and ``LOST``."""
    message: str = ""
    """One line for people; empty when the numbers say it all."""
    cpu_s: float | None = None
    """Processor time of the whole task, in seconds, when the back end knows it."""
    node_name: str = ""
    """Set with ``NODE_ENDED``."""


class ResourceManager(Protocol):
    """A back end. Every verb may be said twice; the second time changes nothing.

    Order of use: ``recover`` once, before anything else; then the other verbs, while one reader,
    and only one, iterates over ``events``; at last ``close``, which leaves running tasks running.
    """

    @property
    def can_share(self) -> bool:
        """True when it can divide a node between tasks and measure what each gets. Else ``launch``
        with shares, ``set_shares`` and ``processor_time`` raise ``InputError``.
        """
        ...

    async def nodes(self) -> tuple[NodeDescription, ...]:
        """The nodes that can be given out, in a stable order, with different names."""
        ...

    async def launch(self, launch: Launch) -> None:
        """Take the order durably; afterwards the task runs once, at its time, also if the daemon
        dies.

        Call it a second or so before ``start_not_before``: preparations then do not delay the
        start. Raises ``InputError`` for a login the back end cannot run as, ``ConflictError`` for a
        ``job_id`` that was given another order before.
        """
        ...

    async def stop(self, job_id: str, grace_s: float) -> None:
        """End a task: TERM now, KILL ``grace_s`` seconds later; before its start, it never runs.

        Said again with a shorter grace, the shorter one counts. Nothing happens to a task that is
        over. Raises ``NotFoundError`` for an id never launched. The end itself comes as an event.
        """
        ...

    async def set_shares(self, shares: Mapping[str, Sequence[float]]) -> None:
        """From now on each of these executions gets this part of the processors of each of its
        nodes, in the order of its ``node_names``, whatever else wants them; the others keep theirs.

        Shares are rounded here, not before. Nothing happens to an execution that is over, was never
        launched, or was launched without shares. Raises ``InputError`` for a share outside 0 to 1.
        """
        ...

    async def processor_time(self, job_ids: Collection[str]) -> Mapping[str, tuple[float, ...]]:
        """Processor time that each of these executions has had on each of its nodes, in seconds, up
        to its end; in the order of its ``node_names``. One that never ran is left out.

        A back end that measures a task as a whole divides that in proportion to the shares which it
        was given.
        """
        ...

    def events(self) -> AsyncIterator[TaskEvent]:
        """What happens from now on, each event once, until ``close``."""
        ...

    async def recover(self) -> list[TaskEvent]:
        """What is known of every task launched and not forgotten, in the order of ids: its latest
        event, and for one that lives on shared nodes its parts that are over (``NODE_ENDED``).

        Tasks still alive go on being followed. One that nobody watches and that left no record is
        ``LOST``, is made sure to be dead, and is never run again by itself.
        """
        ...

    async def forget(self, job_id: str) -> None:
        """The scheduler has recorded the end: ``recover`` need not tell it again. The id stays
        used.

        Raises ``ConflictError`` when the task is not over, ``NotFoundError`` for an id never
        launched.
        """
        ...

    def output_path(self, job_id: str, stream: OutputStream) -> Path:
        """The file a stream is written to; it may not exist yet. Raises ``NotFoundError``."""
        ...

    def follow(self, job_id: str, stream: OutputStream, offset: int = 0) -> AsyncIterator[bytes]:
        """The bytes of a stream from ``offset`` on as they come, until the task is over."""
        ...

    async def close(self) -> None:
        """Stop following; tasks go on. ``events`` ends."""
        ...


def check_job_id(job_id: str) -> None:
    """Raise ``InputError`` unless the id may become the name of a folder."""
    if JOB_ID_PATTERN.fullmatch(job_id) is None:
        raise InputError(
            f"{job_id[:140]!r} is not a job id",
            hint="use up to 128 letters, digits and . _ : @ + -, beginning with a letter or digit",
        )


def check_shares(job_id: str, shares: Sequence[float], nodes: int) -> None:
    """Raise ``InputError`` unless there is a part of each node; not-a-number is none."""
    if len(shares) != nodes or not all(0 <= each <= 1 for each in shares):
        raise InputError(f"job {job_id}: {list(shares)} are no shares of {nodes} nodes")


def not_divided() -> InputError:
    """What a back end says that leaves nodes whole."""
    return InputError(
        "this resource manager cannot divide nodes between tasks",
        hint="give each job whole nodes: leave the policy of the class out",
    )


def check_grace(grace_s: float) -> None:
    """Raise ``InputError`` unless the time between TERM and KILL is within its bounds."""
    if not 0 <= grace_s <= KILL_GRACE_S_MAX:
        raise InputError(
            f"the grace before KILL must be 0 to {KILL_GRACE_S_MAX:.0f} s, not {grace_s}"
        )


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True

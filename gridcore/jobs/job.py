"""Jobs as they cross the wire: what a user asks to be run, and what a site tells of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    BUDGET_LIMIT_MILLICREDITS,
    DURATION_LIMIT_S,
    ID_LENGTH_MAX,
    NODES_LIMIT,
    check_id,
)
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.handovers import Handover, HandoverGrant
from gridtravel.gridcore.jobs.inputs import InputFile, check_inputs
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import INSTANT_LIMIT

SCRIPT_BYTES_MAX: Final = 1 << 20
ENVIRONMENT_BYTES_MAX: Final = 128 << 10
SPACE_LIMIT_MB: Final = 10**9
"""A petabyte on each node."""


class JobState(enum.StrEnum):
    """Where a job stands."""

    QUEUED = "QUEUED"
    STARTING = "STARTING"
    """Its nodes are taken, and the resource manager has been told."""
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    """Ended by itself with exit code 0."""
    FAILED = "FAILED"
    """Ended by itself otherwise, or lost."""
    TIMED_OUT = "TIMED_OUT"
    """Stopped at its limit or at the end of its reservation."""
    CANCELLED = "CANCELLED"

    @property
    def is_over(self) -> bool:
        """True when nothing more will happen to it."""
        return self not in (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """Another leg of the same trip, as a leg's task is told of it (``GRID_COMPANIONS``)."""

    leg: str
    site: str
    nodes: int
    contact: str = ""
    """``host:port`` where its first node listens; empty: the site names none."""

    def __post_init__(self) -> None:
        check_id("leg name", self.leg)
        check_id("site", self.site)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What to run, on how many nodes, for how long."""

    request_id: str
    name: str
    account: str
    nodes: int
    limit_s: int
    argv: tuple[str, ...] = ()
    """Command and arguments; never given to a shell. Either this or ``script``."""
    script: str = ""
    """Text of a script whose first line names its interpreter (``#!``)."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables beside those the site sets; sorted by name."""
    reservation_id: str = ""
    """Run inside this reservation and not elsewhere; empty: the queue."""
    features: tuple[str, ...] = ()
    notify_email: str = ""
    quality_of_service: str = ""
    companions: tuple[Companion, ...] = ()
    """The other legs of the trip that the reservation belongs to."""
    leg_before: str = ""
    """Name of the stage before this one; empty: it is the first, or no stage of a pipeline."""
    leg_after: str = ""
    """Name of the stage behind this one; empty: as above."""
    handover: Handover | None = None
    """What has to arrive from the stage before, before the job may start; ``None``: nothing."""
    race: Race | None = None
    """The race this is a copy in: it runs only when it has won; ``None``: it runs alone."""
    inputs: tuple[InputFile, ...] = ()
    """Files that must be in the area of its reservation, unharmed, before it may start."""
    relayed_from: str = ""
    """Name of the stage before, whose files the traveller brings: the job waits until they have
    been named (``SitePort.name_inputs``) and are there. Empty: no such stage, or they are named.
    """
    gives: HandoverGrant | None = None
    """What the stage behind may take of its files; ``None``: nothing."""
    deadline: Instant | None = None
    """Its result is worth nothing later (Libra+$, section IV: DT); ``None``: any time will do."""
    budget_millicredits: int | None = None
    """Most that it may cost (B); ``None``: anything."""
    estimate_s: int | None = None
    """Processor time that it needs on each of its nodes, in whole seconds (RE), which is no limit;
    ``None``: ``limit_s``.
    """
    is_restartable: bool = False
    """True: it may be ended and run again from its beginning."""
    memory_mb: int | None = None
    """Memory that it needs on each node, where jobs share nodes (MEM); ``None``: not said."""
    disk_mb: int | None = None
    """Disk space, likewise (DISK)."""

    def __post_init__(self) -> None:
        check_id("request id", self.request_id)
        if not self.name or len(self.name) > ID_LENGTH_MAX or not self.name.isprintable():
            raise InputError("the job's name is missing, too long or not printable")
        if not self.account or len(self.account) > ID_LENGTH_MAX:
            raise InputError("the job's account is missing or too long")
        if not 1 <= self.nodes <= NODES_LIMIT:
            raise InputError(f"a job needs 1 to {NODES_LIMIT} nodes: {self.nodes}")
        if self.limit_s < 1:
            raise InputError(f"a job's time limit must be at least 1 second: {self.limit_s}")
        self._check_worth()
        if bool(self.argv) == bool(self.script):
            raise InputError(
                "a job has either a command or a script", hint="give exactly one of both"
            )
        if len(self.script.encode()) > SCRIPT_BYTES_MAX:
            raise InputError(
                f"the script is longer than {SCRIPT_BYTES_MAX} bytes",
                hint="stage it as a file instead",
            )
        for leg in (self.leg_before, self.leg_after, self.relayed_from):
            if leg:
                check_id("leg name", leg)
        check_inputs(self.inputs)
        if self.race is not None and self.reservation_id:
            raise InputError("a copy in a race waits in the queue, not in a reservation")
        if any("\0" in text for text in (*self.argv, self.script)):
            raise InputError("the command contains a NUL character")
        size = 0
        for name, value in self.environment:
            if not name.isidentifier() or not name.isascii() or "\0" in value:
                raise InputError(f"not an environment variable: {name[:40]!r}")
            size += len(name) + len(value.encode())
        if size > ENVIRONMENT_BYTES_MAX:
            raise InputError(f"the environment is larger than {ENVIRONMENT_BYTES_MAX} bytes")

    def _check_worth(self) -> None:
        """Deadline, budget and estimate, each said so that not-a-number is refused as well."""
        if self.deadline is not None and not 1 <= self.deadline <= INSTANT_LIMIT:
            raise InputError(
                f"a job's deadline is no moment between 1970 and 9999: {self.deadline}"
            )
        budget = self.budget_millicredits
        if budget is not None and not 0 <= budget <= BUDGET_LIMIT_MILLICREDITS:
            raise InputError(
                f"a job's budget is negative or beyond all money: {budget} millicredits",
                hint=f"0 to {BUDGET_LIMIT_MILLICREDITS // 1000} credits",
            )
        if self.estimate_s is not None and not 1 <= self.estimate_s <= DURATION_LIMIT_S:
            raise InputError(
                f"a job's estimate must be 1 to {DURATION_LIMIT_S} seconds: {self.estimate_s}"
            )
        for what, amount in (("memory", self.memory_mb), ("disk space", self.disk_mb)):
            if amount is not None and not 1 <= amount <= SPACE_LIMIT_MB:
                raise InputError(f"a job's {what} must be 1 to {SPACE_LIMIT_MB} MB: {amount}")

    @property
    def waits_for_files(self) -> bool:
        """True for a job that only a reservation can have: files are brought into its area."""
        return self.handover is not None or bool(self.inputs) or bool(self.relayed_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTerms:
    """What a site and the owner of a job agreed when it was accepted. Neither a restart nor another
    configuration changes it.
    """

    agreed_at: float
    """The moment of the acceptance, from which the time up to a deadline counts."""
    price_millicredits: int = 0
    """Of the whole job."""
    deadline: Instant | None = None
    """The promise: as asked for, or looser; ``None``: none was given."""
    node_numbers: tuple[int, ...] = ()
    """Nodes of a shared class, by their position in it; none: whole nodes, chosen at the start."""

    def __post_init__(self) -> None:
        if not 0 <= self.price_millicredits <= BUDGET_LIMIT_MILLICREDITS:
            raise InputError(f"no job costs {self.price_millicredits} millicredits")
        if not 0 <= self.agreed_at <= INSTANT_LIMIT:
            raise InputError(f"nothing was agreed at {self.agreed_at}")
        if any(number < 0 for number in self.node_numbers):
            raise InputError("nodes of a class are numbered from 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as its site shows it to callers who may see it."""

    job_id: str
    site: str
    owner: str
    spec: JobSpec
    state: JobState
    submitted_at: Instant
    planned_start: Instant | None = None
    started_at: Instant | None = None
    started_precise: float | None = None
    """Actual start to the microsecond, on the site's clock."""
    ended_at: Instant | None = None
    exit_code: int | None = None
    """Exit status, or minus the signal that ended it."""
    node_names: tuple[str, ...] = ()
    reason: str = ""
    """Why it waits, or why it ended as it did."""
    terms: JobTerms | None = None
    """Price and promise; ``None``: its class has no policy that agrees on any."""
    shares: tuple[float, ...] = ()
    """Part that it gets of each of ``node_names`` at present; none: they are its own."""

"""The metajob: what a user asks of the travel agent, complete and consistent in itself.

The paper's seven wishes (GUR paper, section 4: total nodes, minimum and maximum per machine,
duration, earliest start, latest end, usage scenario, and preference) and those it stops short of:
pipelines, tasks, budget, healing. A value of this type contains no contradiction that can be seen
without asking a site; whether a machine exists is for the travel agent.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    BUDGET_LIMIT_MILLICREDITS,
    DURATION_LIMIT_S,
    Begin,
)
from gridtravel.gridcore.errors import FieldError
from gridtravel.gridcore.jobs.job import SPACE_LIMIT_MB
from gridtravel.gridcore.jobs.tasks import StagedFile, TaskSpec
from gridtravel.gridcore.timing.durations import format_duration
from gridtravel.gridcore.timing.instants import Instant, Interval
from gridtravel.gridcore.timing.timetext import INSTANT_LIMIT, format_utc
from gridtravel.gridcore.trips.machines import (
    MachineRequest,
    Stage,
    check_duration,
    check_nodes,
    check_trip_name,
)
from gridtravel.gridcore.trips.trip_wishes import (
    Alternative,
    HealingRule,
    Notifications,
    Objective,
    check_keepers,
)

__all__ = [
    "Alternative",
    "HealingRule",
    "MachineRequest",
    "Metajob",
    "Notifications",
    "Objective",
    "Stage",
    "StagedFile",
    "TaskSpec",
    "UsagePattern",
]

MACHINES_MAX: Final = 256
STAGES_MAX: Final = 64
ALTERNATIVES_MAX: Final = 16


class UsagePattern(enum.StrEnum):
    """How the legs of a trip relate to each other."""

    SINGLE = "single"
    """Any one machine, the first that is free (the paper's Disneyland)."""
    MULTIPLE = "multiple"
    """All machines at the same moment (co-scheduled)."""
    PIPELINE = "pipeline"
    """One stage after the other, with time for the transfer between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metajob:
    """One trip as its user wishes it."""

    name: str
    usage_pattern: UsagePattern
    nodes_total: int
    """SINGLE: on the one machine. MULTIPLE: over all machines. PIPELINE: the most that any stage
    uses."""
    machines: tuple[MachineRequest, ...]
    """In order of preference, each machine once."""
    duration_s: int
    """Run time of every leg. PIPELINE: of a stage that does not say otherwise; ``stages`` has what
    holds."""
    earliest_start: Instant
    latest_end: Instant
    preference_reorder: bool = True
    """True: the least loaded machine first, preference breaks ties. False: the user's order
    holds."""
    objective: Objective = Objective.EARLIEST_FINISH
    budget_millicredits: int | None = None
    """Most that the whole trip may cost; ``None``: no limit."""
    estimate_s: int | None = None
    """Processor time that a leg's job needs on each node; ``None``: as long as it is reserved."""
    is_restartable: bool = False
    """True: a leg's job may be ended and run again from its beginning."""
    memory_mb: int | None = None
    """Memory that it needs on each node, where jobs share nodes; ``None``: not said."""
    disk_mb: int | None = None
    """Disk space, likewise."""
    guard_s: int = 0
    """Added to the end of each leg's reservation, so that a clock that is late costs no run
    time."""
    is_race: bool = False
    """SINGLE only: queue a copy at every machine; exactly one of them runs."""
    accepts_alternative: bool = False
    """Take what a refusal offers instead, without asking."""
    task: TaskSpec | None = None
    """What runs on every leg that has no task of its own; ``None``: the trip is reserved time
    only."""
    stages: tuple[Stage, ...] = ()
    """PIPELINE only, in order."""
    alternatives: tuple[Alternative, ...] = ()
    """Tried in order when the trip as asked for cannot be booked."""
    healing: tuple[HealingRule, ...] = ()
    """Tried in order when a site fails before the start; empty: give up and cancel the rest."""
    notifications: Notifications = field(default_factory=Notifications)
    keepers: tuple[str, ...] = ()
    """Names of the sites that alone may keep the trip's outcome; none: as the user's settings say.
    """
    begin_wish: Begin | None = None
    """Whether legs that start together begin all or none; ``None``: as is usual for the pattern."""

    def __post_init__(self) -> None:
        check_trip_name("name", self.name)
        check_nodes("nodes_total", self.nodes_total)
        check_duration("duration_s", self.duration_s)
        check_duration("guard_s", self.guard_s, at_least_s=0)
        self._check_machines()
        if self.usage_pattern is UsagePattern.PIPELINE:
            self._check_stages()
        elif self.stages:
            raise FieldError(
                "stages",
                f"stages belong to a pipeline, but the usage pattern is {self.usage_pattern}",
                hint='write usage_pattern = "pipeline", or leave the stages out',
            )
        self._check_nodes_fit()
        self._check_window()
        self._check_wishes()

    @property
    def window(self) -> Interval:
        """The stretch in which everything must happen."""
        return Interval(self.earliest_start, self.latest_end)

    @property
    def begin(self) -> Begin:
        """When a leg of the trip begins: where all start at one time, together."""
        if self.begin_wish is not None:
            return self.begin_wish
        is_multiple = self.usage_pattern is UsagePattern.MULTIPLE
        return Begin.TOGETHER if is_multiple else Begin.EACH

    @property
    def span_min_s(self) -> int:
        """Shortest time from the first start to the last end, guard bands included."""
        if self.usage_pattern is UsagePattern.PIPELINE:
            return sum(s.transfer_s + s.duration_s + self.guard_s for s in self.stages)
        return self.duration_s + self.guard_s

    @property
    def candidates(self) -> tuple[MachineRequest, ...]:
        """Machines that can be part of a solution: for SINGLE those that take all nodes, for
        PIPELINE those of a stage, else all."""
        if self.usage_pattern is UsagePattern.SINGLE:
            return tuple(m for m in self.machines if m.accepts(self.nodes_total))
        if self.usage_pattern is UsagePattern.PIPELINE:
            used = {name for stage in self.stages for name in stage.machines}
            return tuple(m for m in self.machines if m.machine in used)
        return self.machines

    def machine(self, name: str) -> MachineRequest | None:
        """The request for the machine called ``name``; ``None`` when the metajob does not name
        it."""
        return next((m for m in self.machines if m.machine == name), None)

    def length_s(self, leg: str) -> int:
        """How long the leg called ``leg`` is reserved, guard band included."""
        stage = next((s for s in self.stages if s.name == leg), None)
        return (self.duration_s if stage is None else stage.duration_s) + self.guard_s

    def task_for(self, machine: str, stage: str | None = None) -> TaskSpec | None:
        """What runs at ``machine`` (in ``stage``): the stage's task, else the machine's, else the
        metajob's."""
        named = next((s for s in self.stages if s.name == stage), None)
        if named is not None and named.task is not None:
            return named.task
        request = self.machine(machine)
        if request is not None and request.task is not None:
            return request.task
        return self.task

    def shaped_by(self, alternative: Alternative) -> Metajob:
        """This metajob with ``alternative`` in place of what was asked, without further
        alternatives.

        ``FieldError`` when the result would contradict itself.
        """

        def chosen(new: int | None, old: int) -> int:
            return old if new is None else new

        budget = alternative.budget_millicredits
        return replace(
            self,
            nodes_total=chosen(alternative.nodes_total, self.nodes_total),
            duration_s=chosen(alternative.duration_s, self.duration_s),
            earliest_start=chosen(alternative.earliest_start, self.earliest_start),
            latest_end=chosen(alternative.latest_end, self.latest_end),
            budget_millicredits=self.budget_millicredits if budget is None else budget,
            alternatives=(),
        )

    def check_still_possible(self, now: Instant) -> None:
        """Refuse a window that lies in the past, or of which too little is left; alternatives do
        not help here."""
        if self.latest_end <= now:
            raise FieldError(
                "latest_end",
                f"the window ended at {format_utc(self.latest_end)}, it is {format_utc(now)} now",
                hint="give a window in the future",
            )
        left_s = self.latest_end - max(self.earliest_start, now)
        if left_s < self.span_min_s:
            raise FieldError(
                "latest_end",
                f"only {format_duration(left_s)} of the window are left,"
                f" the trip takes {format_duration(self.span_min_s)}",
                hint="give a later end, or ask for less time",
            )

    def _check_machines(self) -> None:
        if not 1 <= len(self.machines) <= MACHINES_MAX:
            raise FieldError(
                "machines",
                f"the metajob names {len(self.machines)} machines",
                hint=f"name 1 to {MACHINES_MAX}",
            )
        seen: set[str] = set()
        for position, request in enumerate(self.machines):
            if request.machine in seen:
                raise FieldError(
                    "machines",
                    f"machine {request.machine} is named twice",
                    hint="name each machine once, with its minimum and maximum",
                    index=position,
                )
            seen.add(request.machine)

    def _check_stages(self) -> None:
        if not 1 <= len(self.stages) <= STAGES_MAX:
            raise FieldError(
                "stages",
                f"a pipeline of {len(self.stages)} stages",
                hint=f"give 1 to {STAGES_MAX} stages, in order",
            )
        names = [stage.name for stage in self.stages]
        for position, stage in enumerate(self.stages):
            if stage.name in names[:position]:
                raise FieldError(
                    "stages",
                    f"two stages are called {stage.name}",
                    hint="name each differently",
                    index=position,
                )
            self._check_stage(position, stage)
        first = self.stages[0]
        if first.transfer_s or first.slack_s is not None or first.receives:
            raise FieldError(
                "stages",
                f"the first stage, {first.name}, has nothing before it to wait for",
                hint="give transfer, slack and receive to later stages; use stage_in for input",
                index=0,
            )

    def _check_stage(self, position: int, stage: Stage) -> None:
        for name in stage.machines:
            request = self.machine(name)
            if request is None:
                raise FieldError(
                    "stages",
                    f"stage {stage.name} may run at {name}, which is not among the machines",
                    hint="known here: " + ", ".join(m.machine for m in self.machines),
                    index=position,
                )
            if not request.accepts(stage.nodes):
                raise FieldError(
                    "stages",
                    f"stage {stage.name} wants {stage.nodes} nodes, {name} takes"
                    f" {request.nodes_min} to {request.nodes_max}",
                    hint="change the stage's nodes or the machine's minimum and maximum",
                    index=position,
                )

    def _check_nodes_fit(self) -> None:
        if self.usage_pattern is UsagePattern.SINGLE and not self.candidates:
            ranges = ", ".join(f"{m.machine} {m.nodes_min} to {m.nodes_max}" for m in self.machines)
            raise FieldError(
                "nodes_total",
                f"no machine takes {self.nodes_total} nodes: {ranges}",
                hint="ask for fewer or more nodes, or change a machine's minimum or maximum",
            )
        if self.usage_pattern is UsagePattern.MULTIPLE:
            least = sum(m.nodes_min for m in self.machines)
            most = sum(m.nodes_max for m in self.machines)
            if not least <= self.nodes_total <= most:
                raise FieldError(
                    "nodes_total",
                    f"{self.nodes_total} nodes in total, but the machines together take"
                    f" {least} to {most}",
                    hint="change the total, or a machine's minimum or maximum",
                )
        if self.usage_pattern is UsagePattern.PIPELINE:
            most = max(stage.nodes for stage in self.stages)
            if most != self.nodes_total:
                raise FieldError(
                    "nodes_total",
                    f"{self.nodes_total} nodes in total, but the largest stage uses {most}",
                    hint="leave the total out, or make it that of the largest stage",
                )

    def _check_window(self) -> None:
        for name, instant in (
            ("earliest_start", self.earliest_start),
            ("latest_end", self.latest_end),
        ):
            if not 0 <= instant <= INSTANT_LIMIT:
                raise FieldError(name, f"{name} is out of range", hint="use the years 1970 to 9999")
        length_s = self.latest_end - self.earliest_start
        if length_s <= 0:
            raise FieldError(
                "latest_end",
                f"the latest end {format_utc(self.latest_end)} is not after the earliest start"
                f" {format_utc(self.earliest_start)}",
                hint="give a later end or an earlier start",
            )
        if length_s > DURATION_LIMIT_S:
            raise FieldError(
                "latest_end", "the window is longer than ten years", hint="give an earlier end"
            )
        if length_s < self.span_min_s:
            raise FieldError(
                "latest_end",
                f"the window of {format_duration(length_s)} is shorter than the trip,"
                f" which takes {format_duration(self.span_min_s)}",
                hint="allow a later end or an earlier start, or ask for less time",
            )

    def _check_wishes(self) -> None:
        budget = self.budget_millicredits
        if budget is not None and not 0 <= budget <= BUDGET_LIMIT_MILLICREDITS:
            raise FieldError(
                "budget_millicredits",
                "the budget is negative or beyond all money",
                hint=f"0 to {BUDGET_LIMIT_MILLICREDITS // 1000} credits",
            )
        if self.estimate_s is not None:
            check_duration("estimate_s", self.estimate_s)
        for name, amount in (("memory_mb", self.memory_mb), ("disk_mb", self.disk_mb)):
            if amount is not None and not 1 <= amount <= SPACE_LIMIT_MB:
                raise FieldError(
                    name, f"{name} is {amount}", hint=f"1 to {SPACE_LIMIT_MB} megabytes"
                )
        if self.is_race and self.usage_pattern is not UsagePattern.SINGLE:
            raise FieldError(
                "is_race",
                f"a race has one winner, but the usage pattern is {self.usage_pattern}",
                hint='write usage_pattern = "single", or leave the race out',
            )
        is_multiple = self.usage_pattern is UsagePattern.MULTIPLE
        if self.begin_wish is Begin.TOGETHER and not is_multiple:
            raise FieldError(
                "begin_wish",
                f"only legs with one start begin together; the pattern is {self.usage_pattern}",
                hint='leave begin out, or write usage_pattern = "multiple"',
            )
        tasks = [self.task, *(m.task for m in self.machines), *(s.task for s in self.stages)]
        if self.usage_pattern is not UsagePattern.MULTIPLE and any(
            task is not None and task.waits_for_companions for task in tasks
        ):
            raise FieldError(
                "waits_for_companions",
                f"a barrier is for legs that start together; the pattern is {self.usage_pattern}",
                hint='leave the barrier out, or write usage_pattern = "multiple"',
            )
        check_keepers(self.keepers)
        if len(set(self.healing)) < len(self.healing):
            raise FieldError("healing", "a healing rule is given twice", hint="give each once")
        if len(self.alternatives) > ALTERNATIVES_MAX:
            raise FieldError(
                "alternatives",
                f"{len(self.alternatives)} alternatives, at most {ALTERNATIVES_MAX} are allowed",
            )
        for number, alternative in enumerate(self.alternatives, 1):
            self._check_alternative(number, alternative)

    def _check_alternative(self, number: int, alternative: Alternative) -> None:
        if self.usage_pattern is UsagePattern.PIPELINE and (
            alternative.nodes_total is not None or alternative.duration_s is not None
        ):
            raise FieldError(
                "alternatives",
                f"alternative {number} changes nodes or duration, which a pipeline's stages fix",
                hint="an alternative of a pipeline changes its window or budget",
                index=number - 1,
            )
        try:
            self.shaped_by(alternative)
        except FieldError as error:
            raise FieldError(
                "alternatives",
                f"alternative {number}: {error.message}",
                hint=error.hint,
                index=number - 1,
            ) from None

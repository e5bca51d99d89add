"""From the file's model to the domain's value: times read, defaults filled in, tasks merged,
contradictions located.

The domain refuses contradictions by naming one of its fields (``FieldError``); here that becomes a
line of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from gridtravel.gridcore.booking.reservations import Begin
from gridtravel.gridcore.errors import FieldError, InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import find_zone, read_instant
from gridtravel.gridcore.trips.metajobs import (
    Alternative,
    HealingRule,
    MachineRequest,
    Metajob,
    Notifications,
    Objective,
    Stage,
    StagedFile,
    TaskSpec,
    UsagePattern,
)
from gridtravel.gridcore.trips.trip_wishes import TripEvent
from gridtravel.gridio.file_faults import KeyPath
from gridtravel.travel_agent.metajob_file.model import (
    AlternativeModel,
    MachineModel,
    MetajobModel,
    NotificationsModel,
    StagedFileModel,
    StageModel,
    TaskModel,
)
from gridtravel.travel_agent.metajob_file.places import KeyPlaces

_KEYS: Final = {
    "machine": "name",
    "duration_s": "duration",
    "budget_millicredits": "budget_credits",
    "guard_s": "guard",
    "is_race": "race",
    "begin_wish": "begin",
    "accepts_alternative": "accept_alternative",
    "transfer_s": "transfer",
    "slack_s": "slack",
    "receives": "receive",
    "compile_command": "compile",
    "waits_for_companions": "barrier",
    "hook_command": "hook",
    "before_start_s": "before_start",
    "estimate_s": "estimate",
    "is_restartable": "restartable",
}
"""Keys of the file by the domain's field, where they differ."""

SEGMENTS: Final = ("details", "requirements", "constraints", "optimisation")
"""Tables in which keys may stand that else stand outside (Libra+$ paper, section IV)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetajobReading:
    """A metajob, and what its writer should know about how the file was read."""

    metajob: Metajob
    notes: tuple[str, ...] = ()
    """One line each, such as which of two equal local times was taken."""


@dataclass(slots=True, kw_only=True)
class MetajobBuilder:
    """Builds one metajob from one model."""

    places: KeyPlaces
    now: Instant
    zone: ZoneInfo
    """Of times that name none; the file's own ``zone`` goes before it."""
    default_name: str
    base_folder: Path | None = None
    """Where relative paths on the laptop begin; ``None`` leaves them as they are."""
    may_be_past: bool = False
    """Read also a window that is over; a new trip needs one that is still possible."""
    notes: list[str] = field(default_factory=list)
    end_key: str = "latest_end"
    """Which of its two words this file uses for the latest end."""
    segments: dict[str, str] = field(default_factory=dict)
    """The segment that each key stands in, of those that stand in one."""

    def build(self, model: MetajobModel) -> MetajobReading:
        """The metajob the model describes; ``InputError`` with the line for any contradiction."""
        model = self._out_of_segments(model)
        if model.zone is not None:
            with self._at("zone"):
                self.zone = find_zone(model.zone)
        pattern = UsagePattern(model.usage_pattern)
        task = self._task(("task",), None, model.task)
        machines = tuple(
            self._machine(n, machine, model.task) for n, machine in enumerate(model.machines)
        )
        nodes_total, duration_s = self._size(model, pattern)
        stages: tuple[Stage, ...] = ()
        if pattern is UsagePattern.PIPELINE and not model.stages:
            stages = self._stage_per_machine(model, machines, nodes_total, duration_s)
        else:
            stages = tuple(
                self._stage(n, stage, model, nodes_total, duration_s)
                for n, stage in enumerate(model.stages)
            )
        earliest_start = self._instant(("earliest_start",), model.earliest_start)
        latest_end = self._latest_end(model)
        alternatives = tuple(self._alternative(n, a) for n, a in enumerate(model.alternatives))
        notifications = self._notifications(model.notifications)
        self._check_commands(model)
        with self._at():
            metajob = Metajob(
                name=model.name if model.name is not None else self.default_name,
                usage_pattern=pattern,
                nodes_total=nodes_total,
                machines=machines,
                duration_s=duration_s,
                earliest_start=earliest_start,
                latest_end=latest_end,
                preference_reorder=model.preference_reorder,
                objective=Objective(model.objective),
                budget_millicredits=model.budget_credits,
                estimate_s=model.estimate,
                is_restartable=model.restartable,
                memory_mb=model.memory_mb,
                disk_mb=model.disk_mb,
                guard_s=model.guard,
                is_race=model.race,
                accepts_alternative=model.accept_alternative,
                task=task,
                stages=stages,
                alternatives=alternatives,
                begin_wish=None if model.begin is None else Begin(model.begin),
                healing=tuple(HealingRule(rule) for rule in model.healing),
                notifications=notifications,
                keepers=tuple(model.keepers),
            )
            if not self.may_be_past:
                metajob.check_still_possible(self.now)
        return MetajobReading(metajob=metajob, notes=tuple(self.notes))

    def _out_of_segments(self, model: MetajobModel) -> MetajobModel:
        """The same with every key outside."""
        found: dict[str, object] = {}
        for segment in SEGMENTS:
            table = getattr(model, segment)
            for key in () if table is None else sorted(table.model_fields_set):
                if key in model.model_fields_set:
                    raise self.places.fault(
                        (segment, key),
                        f"{key} is said twice, in [{segment}] and outside",
                        hint="say it once",
                    )
                found[key] = getattr(table, key)
                self.segments[key] = segment
        return model.model_copy(update=found)

    def _placed(self, path: KeyPath) -> KeyPath:
        """Where a key stands in the file."""
        segment = self.segments.get(str(path[0])) if path else None
        return path if segment is None else (segment, *path)

    @contextmanager
    def _at(self, *path: str | int) -> Iterator[None]:
        """Give the errors of the domain a place in the file; ``path`` is the table being read."""
        try:
            yield
        except FieldError as error:
            key = _KEYS.get(error.field, error.field)
            place: KeyPath = (*path, self.end_key if (path, key) == ((), "latest_end") else key)
            if error.index is not None:
                place = (*place, error.index)
            raise self.places.fault(self._placed(place), error.message, hint=error.hint) from None
        except InputError as error:
            raise self.places.fault(self._placed(path), error.message, hint=error.hint) from None

    def _instant(self, path: KeyPath, text: str) -> Instant:
        with self._at(*path):
            reading = read_instant(text, now=self.now, zone=self.zone)
        if reading.note is not None:
            self.notes.append(f"{self.places.name_of(str(path[-1]))}: {reading.note}")
        return reading.instant

    def _latest_end(self, model: MetajobModel) -> Instant:
        if (model.latest_end is None) == (model.deadline is None):
            raise self.places.fault(
                self._placed(("deadline",)),
                "the key 'latest_end' is missing"
                if model.deadline is None
                else "latest_end and deadline are two words for the same thing",
                hint='write one of them, for example latest_end = "tomorrow 18:00"',
            )
        if model.deadline is not None:
            self.end_key = "deadline"
            return self._instant(("deadline",), model.deadline)
        return self._instant(("latest_end",), model.latest_end or "")

    def _size(self, model: MetajobModel, pattern: UsagePattern) -> tuple[int, int]:
        """Nodes in total and duration; a pipeline whose stages all say theirs needs neither."""
        nodes, duration_s = model.nodes_total, model.duration
        if pattern is UsagePattern.PIPELINE and model.stages:
            if nodes is None and all(stage.nodes is not None for stage in model.stages):
                nodes = max(stage.nodes or 0 for stage in model.stages)
            if duration_s is None and all(s.duration is not None for s in model.stages):
                duration_s = max(stage.duration or 0 for stage in model.stages)
        for key, value, example in (
            ("nodes_total", nodes, "nodes_total = 12"),
            ("duration", duration_s, 'duration = "2h"'),
        ):
            if value is None:
                raise self.places.fault(
                    (key,),
                    f"the key {self.places.name_of(key)!r} is missing",
                    hint=f"add it, for example {example}",
                )
        return nodes or 0, duration_s or 0

    def _machine(
        self, position: int, model: MachineModel, default_task: TaskModel | None
    ) -> MachineRequest:
        place: KeyPath = ("machines", position)
        task = None
        if model.task is not None:
            task = self._task((*place, "task"), default_task, model.task)
        with self._at(*place):
            return MachineRequest(
                machine=model.name,
                nodes_min=model.nodes_min,
                nodes_max=model.nodes_max,
                account=model.account,
                login=model.login,
                email_notify=model.email_notify,
                features=tuple(model.features),
                task=task,
            )

    def _stage(
        self, position: int, stage: StageModel, model: MetajobModel, nodes: int, duration_s: int
    ) -> Stage:
        place: KeyPath = ("stages", position)
        if (stage.machine is None) == (stage.machines is None):
            raise self.places.fault(
                place, f"stage {stage.name[:60]} needs either machine or machines", hint="give one"
            )
        machines = [stage.machine] if stage.machine is not None else stage.machines or []
        transfer_s = model.transfer if position else 0
        task = None
        if stage.task is not None:
            task = self._task((*place, "task"), model.task, stage.task)
        with self._at(*place):
            return Stage(
                name=stage.name,
                machines=tuple(machines),
                nodes=nodes if stage.nodes is None else stage.nodes,
                duration_s=duration_s if stage.duration is None else stage.duration,
                transfer_s=transfer_s if stage.transfer is None else stage.transfer,
                slack_s=stage.slack,
                receives=_staged_files(stage.receive),
                task=task,
            )

    def _stage_per_machine(
        self,
        model: MetajobModel,
        machines: tuple[MachineRequest, ...],
        nodes: int,
        duration_s: int,
    ) -> tuple[Stage, ...]:
        """The paper's idea of a pipeline: the machines in order, each after the one before."""
        stages: list[Stage] = []
        for position, request in enumerate(machines):
            with self._at("machines", position):
                stages.append(
                    Stage(
                        name=f"{position + 1}-{request.machine}"[:64].translate(_STAGE_NAME),
                        machines=(request.machine,),
                        nodes=min(nodes, request.nodes_max),
                        duration_s=duration_s,
                        transfer_s=model.transfer if position else 0,
                    )
                )
        return tuple(stages)

    def _task(
        self, place: KeyPath, default: TaskModel | None, own: TaskModel | None
    ) -> TaskSpec | None:
        """``own`` over ``default``; ``None`` when together they name no command."""
        merged = _merged(default, own)
        if merged is None or merged.command is None:
            return None
        stage_in = tuple(
            StagedFile(source=self._laptop_path(place, e.source), destination=e.destination)
            for e in self._checked_files((*place, "stage_in"), merged.stage_in or [])
        )
        with self._at(*place):
            return TaskSpec(
                command=tuple(merged.command),
                environment=tuple(sorted((merged.environment or {}).items())),
                stage_in=stage_in,
                compile_command=tuple(merged.compile or ()),
                stage_out=_staged_files(merged.stage_out or []),
                waits_for_companions=bool(merged.barrier),
            )

    def _checked_files(
        self, place: KeyPath, models: list[StagedFileModel]
    ) -> tuple[StagedFile, ...]:
        with self._at(*place):
            return _staged_files(models)

    def _laptop_path(self, place: KeyPath, path: str) -> str:
        """``path`` as seen from the metajob's own folder, so that a trip can be booked from
        anywhere."""
        if self.base_folder is None:
            return path
        try:
            return str(self.base_folder / Path(path).expanduser())
        except (RuntimeError, ValueError):
            raise self.places.fault(
                (*place, "stage_in"), f"there is no folder {path[:60]!r}", hint="write a full path"
            ) from None

    def _check_commands(self, model: MetajobModel) -> None:
        """A task that nothing gives a command to would silently not run."""
        if _has_command(model.task):
            return
        stages_run = model.stages and all(_has_command(stage.task) for stage in model.stages)
        machines_run = all(_has_command(machine.task) for machine in model.machines)
        tables: list[tuple[KeyPath, TaskModel | None]] = [(("task",), model.task)]
        tables += [(("machines", n, "task"), m.task) for n, m in enumerate(model.machines)]
        tables += [(("stages", n, "task"), s.task) for n, s in enumerate(model.stages)]
        for path, task in tables:
            runs = _has_command(task)
            if task is None or runs or (path == ("task",) and (stages_run or machines_run)):
                continue
            raise self.places.fault(
                path, "this task has no command", hint='write command = ["./program", "argument"]'
            )

    def _alternative(self, position: int, model: AlternativeModel) -> Alternative:
        place: KeyPath = ("alternatives", position)
        times = {
            key: None if text is None else self._instant((*place, key), text)
            for key, text in (
                ("earliest_start", model.earliest_start),
                ("latest_end", model.latest_end),
            )
        }
        with self._at(*place):
            return Alternative(
                nodes_total=model.nodes_total,
                duration_s=model.duration,
                earliest_start=times["earliest_start"],
                latest_end=times["latest_end"],
                budget_millicredits=model.budget_credits,
            )

    def _notifications(self, model: NotificationsModel | None) -> Notifications:
        if model is None:
            return Notifications()
        with self._at("notifications"):
            return Notifications(
                emails=tuple(model.emails),
                events=tuple(TripEvent if model.events is None else map(TripEvent, model.events)),
                before_start_s=model.before_start,
                hook_command=tuple(model.hook),
            )


_STAGE_NAME: Final = str.maketrans(dict.fromkeys("@:+", "-"))
"""Characters a machine's name may have and a stage's may not."""


def _has_command(task: TaskModel | None) -> bool:
    return task is not None and task.command is not None


def _merged(default: TaskModel | None, own: TaskModel | None) -> TaskModel | None:
    """Each key as ``own`` says it, else as ``default`` does. Nothing is joined: the empty list
    means none."""
    if default is None or own is None:
        return own or default
    said = {key for key in TaskModel.model_fields if getattr(own, key) is not None}
    return default.model_copy(update={key: getattr(own, key) for key in said})


def _staged_files(models: list[StagedFileModel]) -> tuple[StagedFile, ...]:
    return tuple(StagedFile(source=m.source, destination=m.destination) for m in models)

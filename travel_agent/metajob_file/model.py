"""The metajob file's schema: every key of the TOML and JSON forms, its type, and what it means.

The edge of the travel agent: nothing inward sees these models (``builder`` turns them into
``gridcore.trips.metajobs`` values). They check types and spelling; what the values must be to each
other is the domain's to check.

``python -m travel_agent.metajob_file.model docs/metajob.schema.json`` writes the published schema.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from gridtravel.gridcore.booking.reservations import BUDGET_LIMIT_MILLICREDITS, NODES_LIMIT
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import SPACE_LIMIT_MB
from gridtravel.gridcore.timing.timetext import parse_duration

CREDITS_MAX: Final = BUDGET_LIMIT_MILLICREDITS // 1000
_EPOCH_DIGITS_MAX: Final = 12


def _read_duration(value: object) -> int:
    """Seconds from a number of seconds or any text that ``gridcore.timing.durations`` reads."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("duration", 'must be seconds or a text such as "1h30m"')
    if isinstance(value, int) and not 0 <= value < 10**_EPOCH_DIGITS_MAX:
        raise PydanticCustomError("duration", "must be 0 seconds to ten years")
    try:
        return parse_duration(str(value))
    except InputError as error:
        raise PydanticCustomError(
            "told", "{message}", {"message": error.message, "hint": error.hint}
        ) from None


def _read_time_text(value: object) -> str:
    """A time as text; a bare number is epoch seconds. What it means needs ``now`` and a zone: see
    the builder."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError(
            "time", 'must be a text such as "tomorrow 07:00", or epoch seconds'
        )
    if isinstance(value, int) and not 0 <= value < 10**_EPOCH_DIGITS_MAX:
        raise PydanticCustomError("time", "must be epoch seconds of the years 1970 to 9999")
    return str(value)


def _read_millicredits(value: object) -> int:
    """Credits with up to three decimals, in millicredits. Exact: readers give ``Decimal``, never
    ``float``."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise PydanticCustomError("credits", "must be a number of credits")
    amount = Decimal(value) if isinstance(value, int) and abs(value) <= CREDITS_MAX else value
    if not isinstance(amount, Decimal) or not amount.is_finite() or not 0 <= amount <= CREDITS_MAX:
        raise PydanticCustomError("credits", f"must be 0 to {CREDITS_MAX} credits")
    millicredits = amount * 1000
    if millicredits != millicredits.to_integral_value():
        raise PydanticCustomError("credits", "must not be finer than a thousandth of a credit")
    return int(millicredits)


def _read_staged_in(value: object) -> object:
    """``"dir/file"`` is short for that file, under its own name, in the leg's folder."""
    return _staged(value, keep_folders=False)


def _read_staged_moved(value: object) -> object:
    """``"dir/file"`` is short for that path at both ends."""
    return _staged(value, keep_folders=True)


def _staged(value: object, *, keep_folders: bool) -> object:
    if isinstance(value, str):
        name = value if keep_folders else PurePosixPath(value).name or value
        return {"source": value, "destination": name}
    if not isinstance(value, dict):
        raise PydanticCustomError(
            "staged", 'must be a path in quotes or { source = "...", destination = "..." }'
        )
    return value


class FileModel(BaseModel):
    """What all tables of the file share: unknown keys are refused, and no type is guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class StagedFileModel(FileModel):
    """A file or folder and where it goes."""

    source: str
    destination: str


DurationText = Annotated[
    int,
    BeforeValidator(_read_duration),
    WithJsonSchema(
        {"type": ["integer", "string"], "minimum": 0, "examples": [7200, "2h", "1h30m", "01:30:00"]}
    ),
]
TimeText = Annotated[
    str,
    BeforeValidator(_read_time_text),
    WithJsonSchema(
        {
            "type": ["integer", "string"],
            "minimum": 0,
            "examples": ["2004-11-09T07:00", "07:00_11/09/2004", "tomorrow 07:00", "+2h"],
        }
    ),
]
Credits = Annotated[
    int,
    BeforeValidator(_read_millicredits),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": CREDITS_MAX}),
]
Nodes = Annotated[int, Field(ge=1, le=NODES_LIMIT)]
Megabytes = Annotated[int, Field(ge=1, le=SPACE_LIMIT_MB)]
StagedIn = Annotated[
    StagedFileModel, BeforeValidator(_read_staged_in, json_schema_input_type=str | StagedFileModel)
]
StagedMoved = Annotated[
    StagedFileModel,
    BeforeValidator(_read_staged_moved, json_schema_input_type=str | StagedFileModel),
]


class TaskModel(FileModel):
    """What runs. A machine's or stage's task takes each key it does not give from the metajob's."""

    command: list[str] | None = None
    """Program and arguments, as a list; never given to a shell."""
    environment: dict[str, str] | None = None
    """Variables for the program, beside those the site sets."""
    stage_in: list[StagedIn] | None = None
    """Files and folders to bring: "path" (relative to this file), or source here and destination
    there."""
    compile: list[str] | None = None
    """Command that prepares the program at the site before the start."""
    stage_out: list[StagedMoved] | None = None
    """Results to bring home: "path" in the leg's folder, or source there and destination in the
    output folder."""
    barrier: bool | None = None
    """Begin only when every leg of the trip is prepared; "multiple" only."""


class MachineModel(FileModel):
    """One machine, in order of preference."""

    name: str
    """The machine as the site list knows it."""
    nodes_min: Nodes = 1
    """Fewest nodes here."""
    nodes_max: Nodes
    """Most nodes here."""
    account: str = ""
    """Account to charge; empty: the default at the site."""
    login: str = ""
    """Login at the site; empty: as the site maps you."""
    email_notify: str = ""
    """Where the site reports failures."""
    features: list[str] = Field(default_factory=list)
    """What every node must have."""
    task: TaskModel | None = None
    """What runs here, where it differs."""


class StageModel(FileModel):
    """One stage of a pipeline."""

    name: str
    """Name of the stage, which is also its leg's."""
    machine: str | None = None
    """Where it runs."""
    machines: list[str] | None = None
    """Where it may run, the preferred first, in place of `machine`."""
    nodes: Nodes | None = None
    """Nodes it uses; else nodes_total."""
    duration: DurationText | None = None
    """Its run time; else the metajob's duration."""
    transfer: DurationText | None = None
    """Time for moving data between the stage before and this one; else the metajob's transfer."""
    slack: DurationText | None = None
    """Longest further wait; without it as long as the window allows."""
    receive: list[StagedMoved] = Field(default_factory=list)
    """Files moved from the folder of the stage before."""
    task: TaskModel | None = None
    """What runs, where it differs."""


class AlternativeModel(FileModel):
    """What to take when the trip as asked for cannot be booked; what is not said stays."""

    nodes_total: Nodes | None = None
    """Nodes instead."""
    duration: DurationText | None = None
    """Run time instead."""
    earliest_start: TimeText | None = None
    """Earliest start instead."""
    latest_end: TimeText | None = None
    """Latest end instead."""
    budget_credits: Credits | None = None
    """Budget instead."""


class DetailsModel(FileModel):
    """What is known of the job (segment JobDetails of Libra+$, section IV)."""

    estimate: DurationText | None = None
    """Processor time it needs on each node, which is no limit; else the duration."""
    restartable: bool = False
    """true: it may be ended and run again from its beginning."""


class RequirementsModel(FileModel):
    """What it needs (ResourceRequirements)."""

    nodes_total: Nodes | None = None
    """As outside."""
    duration: DurationText | None = None
    """As outside."""
    memory_mb: Megabytes | None = None
    """Memory on each node, where jobs share nodes."""
    disk_mb: Megabytes | None = None
    """Disk space, likewise."""


class ConstraintsModel(FileModel):
    """What has to be kept (QoSConstraints)."""

    latest_end: TimeText | None = None
    """As outside."""
    deadline: TimeText | None = None
    """Another word for latest_end."""
    budget_credits: Credits | None = None
    """As outside."""


class OptimisationModel(FileModel):
    """What is to be best within that (QoSOptimization)."""

    objective: Literal["earliest_finish", "lowest_cost"] = "earliest_finish"
    """As outside."""


class NotificationsModel(FileModel):
    """Whom to tell of what."""

    emails: list[str] = Field(default_factory=list)
    """Mail addresses."""
    events: list[Literal["booked", "starts_soon", "failed", "healed", "done"]] | None = None
    """What to tell of; all of it when left out."""
    before_start: DurationText = 900
    """How long before the start to say `starts_soon`."""
    hook: list[str] = Field(default_factory=list)
    """Command run on the laptop at each event, with the itinerary as JSON on its input."""


class MetajobModel(FileModel):
    """A metajob: the trip you want the travel agent to book."""

    name: str | None = None
    """Name of the trip; the file's name when left out."""
    usage_pattern: Literal["single", "multiple", "pipeline"]
    """single: the first machine that is free. multiple: all at the same moment. pipeline: one after
    the other."""
    nodes_total: Nodes | None = None
    """Nodes altogether; for a pipeline of each stage that does not say otherwise."""
    duration: DurationText | None = None
    """Run time; for a pipeline of each stage that does not say otherwise."""
    earliest_start: TimeText
    """Not before."""
    latest_end: TimeText | None = None
    """Everything is over by then."""
    deadline: TimeText | None = None
    """Another word for latest_end."""
    zone: str | None = None
    """IANA zone of the times in this file that name none; else yours."""
    preference_reorder: bool = True
    """true: the least loaded machine first. false: in the order of this file."""
    objective: Literal["earliest_finish", "lowest_cost"] = "earliest_finish"
    """What makes one itinerary better than another."""
    budget_credits: Credits | None = None
    """Most the trip may cost, to a thousandth of a credit."""
    estimate: DurationText | None = None
    """Processor time that a leg's job needs on each node, which is no limit; else the duration."""
    restartable: bool = False
    """true: a leg's job may be ended and run again from its beginning."""
    memory_mb: Megabytes | None = None
    """Memory that it needs on each node, where jobs share nodes."""
    disk_mb: Megabytes | None = None
    """Disk space, likewise."""
    details: DetailsModel | None = None
    """The segments of a job specification: each key may stand in its segment instead."""
    requirements: RequirementsModel | None = None
    """What the job needs."""
    constraints: ConstraintsModel | None = None
    """What has to be kept."""
    optimisation: OptimisationModel | None = None
    """What is to be best within that."""
    guard: DurationText = 0
    """Added to the end of each reservation, so that a clock that is late costs no run time."""
    transfer: DurationText = 0
    """Time for moving data between two stages of a pipeline."""
    race: bool = False
    """single: queue a copy everywhere; exactly one runs."""
    accept_alternative: bool = False
    """Take what a refusal offers instead, without asking."""
    begin: Literal["together", "each"] | None = None
    healing: list[Literal["replace_leg", "shrink", "move_trip"]] = Field(default_factory=list)
    """What to try, in order, when a site fails before the start; empty: give up."""
    keepers: list[str] = Field(default_factory=list)
    """Sites that alone may keep the trip's outcome; else those of your settings, else any."""
    task: TaskModel | None = None
    """What runs on every leg."""
    machines: list[MachineModel] = Field(min_length=1)
    """Where to go, in order of preference."""
    stages: list[StageModel] = Field(default_factory=list)
    """The stages of a pipeline, in order; without them one stage a machine."""
    alternatives: list[AlternativeModel] = Field(default_factory=list)
    """Tried in order when the trip as asked for cannot be booked."""
    notifications: NotificationsModel | None = None
    """Whom to tell of what."""


def metajob_schema_text() -> str:
    """The JSON Schema (draft 2020-12) of the TOML and JSON forms, exactly as
    docs/metajob.schema.json holds it.
    """
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **MetajobModel.model_json_schema(mode="validation"),
        "title": "Metajob",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(metajob_schema_text(), encoding="utf-8")

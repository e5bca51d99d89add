"""A metajob as JSON in the published schema, for the journal, for ``--json`` and for other
programs.

Everything is written out, so that what is read back is equal whatever the reader's zone, folder or
time of day.
"""

from __future__ import annotations

import json
from typing import Any

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.metajobs import Alternative, Metajob, Stage, StagedFile, TaskSpec


def metajob_to_json(metajob: Metajob) -> str:
    """One JSON object over several lines; ``reader.parse_metajob`` reads it back as an equal
    value."""
    return json.dumps(metajob_to_document(metajob), indent=2, ensure_ascii=False) + "\n"


def metajob_to_document(metajob: Metajob) -> dict[str, Any]:
    """The same as plain dictionaries and lists, keys in the schema's order."""
    notifications = metajob.notifications
    document: dict[str, Any] = {
        "name": metajob.name,
        "usage_pattern": metajob.usage_pattern.value,
        "nodes_total": metajob.nodes_total,
        "duration": metajob.duration_s,
        "earliest_start": format_utc(metajob.earliest_start),
        "latest_end": format_utc(metajob.latest_end),
        "preference_reorder": metajob.preference_reorder,
        "objective": metajob.objective.value,
        "budget_credits": _credits(metajob.budget_millicredits),
        "estimate": metajob.estimate_s,
        "restartable": metajob.is_restartable,
        "memory_mb": metajob.memory_mb,
        "disk_mb": metajob.disk_mb,
        "guard": metajob.guard_s,
        "race": metajob.is_race,
        "begin": None if metajob.begin_wish is None else metajob.begin_wish.value,
        "accept_alternative": metajob.accepts_alternative,
        "healing": [rule.value for rule in metajob.healing],
        "keepers": list(metajob.keepers),
        "task": _task(metajob.task),
        "machines": [
            {
                "name": machine.machine,
                "nodes_min": machine.nodes_min,
                "nodes_max": machine.nodes_max,
                "account": machine.account,
                "login": machine.login,
                "email_notify": machine.email_notify,
                "features": list(machine.features),
                "task": _task(machine.task),
            }
            for machine in metajob.machines
        ],
        "stages": [_stage(stage) for stage in metajob.stages],
        "alternatives": [_alternative(alternative) for alternative in metajob.alternatives],
        "notifications": {
            "emails": list(notifications.emails),
            "events": [event.value for event in notifications.events],
            "before_start": notifications.before_start_s,
            "hook": list(notifications.hook_command),
        },
    }
    return document


def _task(task: TaskSpec | None) -> dict[str, Any] | None:
    if task is None:
        return None
    return {
        "command": list(task.command),
        "environment": dict(task.environment),
        "stage_in": _files(task.stage_in),
        "compile": list(task.compile_command),
        "stage_out": _files(task.stage_out),
        "barrier": task.waits_for_companions,
    }


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "machines": list(stage.machines),
        "nodes": stage.nodes,
        "duration": stage.duration_s,
        "transfer": stage.transfer_s,
        "slack": stage.slack_s,
        "receive": _files(stage.receives),
        "task": _task(stage.task),
    }


def _alternative(alternative: Alternative) -> dict[str, Any]:
    return {
        "nodes_total": alternative.nodes_total,
        "duration": alternative.duration_s,
        "earliest_start": _time(alternative.earliest_start),
        "latest_end": _time(alternative.latest_end),
        "budget_credits": _credits(alternative.budget_millicredits),
    }


def _files(files: tuple[StagedFile, ...]) -> list[dict[str, str]]:
    return [{"source": entry.source, "destination": entry.destination} for entry in files]


def _time(instant: Instant | None) -> str | None:
    return None if instant is None else format_utc(instant)


def _credits(millicredits: int | None) -> int | float | None:
    """Exact as a JSON number: the domain's bound on a budget keeps it below 2**53 thousandths."""
    if millicredits is None or millicredits % 1000 == 0:
        return None if millicredits is None else millicredits // 1000
    return millicredits / 1000

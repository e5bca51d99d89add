"""What pydantic found wrong with a file, as the one line its writer needs."""

from __future__ import annotations

import difflib
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.file_faults import KeyPath
from gridtravel.travel_agent.metajob_file.model import FileModel, MetajobModel
from gridtravel.travel_agent.metajob_file.places import KeyPlaces

_OTHER_WORDS: Final = {
    "total_nodes": "nodes_total",
    "nodes": "nodes_total",
    "min_int": "nodes_min",
    "max_int": "nodes_max",
    "min_nodes": "nodes_min",
    "max_nodes": "nodes_max",
    "username_string": "login",
    "username": "login",
    "user": "login",
    "account_string": "account",
    "machine_preference": "machines",
    "machine_preference_reorder": "preference_reorder",
    "machines_dict_string": "machines",
    "budget": "budget_credits",
    "email": "email_notify",
    "env": "environment",
    "argv": "command",
    "machine": "machines",
}
"""The paper's and other systems' words for our keys, which spelling alone would not find."""

_EXPECTED: Final = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "string_type": "must be a text in quotes",
    "bool_type": "must be true or false",
    "list_type": "must be a list in [ ]",
    "dict_type": "must be a table of texts",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "too_short": "must not be empty",
}
_EXAMPLES: Final = {
    "usage_pattern": 'usage_pattern = "multiple"',
    "earliest_start": 'earliest_start = "tomorrow 07:00"',
    "machines": "[[machines]] with name, nodes_min and nodes_max",
    "name": 'name = "datastar655"',
    "nodes_max": "nodes_max = 12",
    "source": 'source = "input.dat"',
    "destination": 'destination = "input.dat"',
}


def validated(document: dict[str, object], places: KeyPlaces) -> MetajobModel:
    """The document as a model; ``InputError`` for the first thing wrong with it."""
    try:
        return MetajobModel.model_validate(document)
    except ValidationError as error:
        raise _fault(error.errors(include_url=False, include_input=False), places) from None


def _fault(errors: list[Any], places: KeyPlaces) -> InputError:
    """A misspelled key first: it is usually why another one is missing."""
    chosen = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    kind, path = str(chosen["type"]), tuple(chosen["loc"])
    key = str(next((part for part in reversed(path) if isinstance(part, str)), "metajob"))
    spelled = places.name_of(key)[:60]
    if kind == "extra_forbidden":
        return places.fault(
            path, f"unknown key {spelled!r}", hint=_nearest(key, _known_keys(path[:-1]))
        )
    if kind == "missing":
        inside = _inside(path[:-1])
        return places.fault(
            path,
            f"the key {spelled!r} is missing{inside}",
            hint=f"add it, for example {_EXAMPLES.get(key, spelled + ' = ...')}",
        )
    context = chosen.get("ctx", {})
    if kind == "told":
        return places.fault(path, f"{spelled}: {context['message']}", hint=context["hint"])
    if kind == "literal_error":
        return places.fault(path, f"{spelled} must be {context['expected']}")
    if kind == "greater_than_equal":
        return places.fault(path, f"{spelled} must be {context['ge']} or more")
    if kind == "less_than_equal":
        return places.fault(path, f"{spelled} must be {context['le']} or less")
    return places.fault(path, f"{spelled} {_EXPECTED.get(kind, chosen['msg'])}")


def _inside(path: KeyPath) -> str:
    """``in machine 2``, for a key of a table that occurs several times."""
    if len(path) >= 2 and isinstance(path[-1], int):
        return f" in {str(path[-2]).removesuffix('s')} {path[-1] + 1}"
    return f" in {path[-1]}" if path else ""


def _nearest(key: str, known: list[str]) -> str:
    if _OTHER_WORDS.get(key) in known:
        return f"did you mean {_OTHER_WORDS[key]!r}?"
    near = difflib.get_close_matches(key[:60], known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known here are {', '.join(known)}"


def _known_keys(path: KeyPath) -> list[str]:
    """Keys of the table at ``path``."""
    model: type[BaseModel] = MetajobModel
    for part in path:
        if isinstance(part, str) and part in model.model_fields:
            model = _table_of(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def _table_of(annotation: Any) -> type[BaseModel] | None:
    """The model inside ``list[Model]`` or ``Model | None``."""
    if isinstance(annotation, type) and issubclass(annotation, FileModel):
        return annotation
    return next(filter(None, map(_table_of, get_args(annotation))), None)

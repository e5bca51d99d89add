"""Whether examples show all there is: each field once with something else than its default, each
enumeration with all of its members.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any


def parts_of(value: Any) -> Iterator[Any]:
    """Every dataclass instance and enumeration member within a value, itself first."""
    if isinstance(value, enum.Enum):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield value
        for each in dataclasses.fields(value):
            yield from parts_of(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from (*parts_of(key), *parts_of(one))
    elif isinstance(value, tuple | list | Set):
        for one in value:
            yield from parts_of(one)


def never_shown(values: Iterable[Any]) -> list[str]:
    """Fields that have their default in every value, and members that occur in none."""
    shown: dict[str, bool] = {}
    for value in values:
        for part in parts_of(value):
            if isinstance(part, enum.Enum):
                for member in type(part):
                    shown.setdefault(str(repr(member)), False)
                shown[str(repr(part))] = True
                continue
            for each in dataclasses.fields(part):
                name = f"{type(part).__name__}.{each.name}"
                is_shown = _has_more(getattr(part, each.name), each)
                shown[name] = shown.get(name, False) or is_shown
    return [name for name, is_shown in shown.items() if not is_shown]


def _has_more(value: Any, field: dataclasses.Field[Any]) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value != field.default)
    if field.default_factory is not dataclasses.MISSING:
        return bool(value != field.default_factory())
    return not field.init or value not in ((), "", None)

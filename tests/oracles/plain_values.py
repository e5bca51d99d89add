"""Values of the program as plain JSON: fields by name, no name of a class or a module."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Set
from typing import Any


def plain(value: Any) -> Any:
    """``value`` with fields for dataclasses, values for enumerations, and every order explicit."""
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {each.name: plain(getattr(value, each.name)) for each in fields}
    if isinstance(value, Mapping):
        return dict(sorted((_key(key), plain(one)) for key, one in value.items()))
    if isinstance(value, Set):
        return sorted(plain(one) for one in value)
    if isinstance(value, Iterable):
        return [plain(one) for one in value]
    raise TypeError(f"no plain form of {value!r}")


def _key(key: Any) -> str:
    """A key of a mapping as text; a pair with a space between its parts."""
    told = plain(key)
    return " ".join(map(str, told)) if isinstance(told, list) else str(told)

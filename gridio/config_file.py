"""Configuration files: one way to read them, for daemons and laptops alike.

A regular file of bounded size, UTF-8, TOML, and a model that names every key. Each mistake is one
``InputError`` with the file, the line where it is known, the key, and the page that lists all keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gridtravel.gridcore.errors import (
    GridError,
    InputError,
    NotAuthorisedError,
    UnavailableError,
)
from gridtravel.gridio.file_faults import KeyPath, located, nearest_line
from gridtravel.gridio.system.private_files import read_bounded
from gridtravel.gridio.toml_text import NotToml, key_lines, parse_toml

CONFIG_BYTES_MAX: Final = 1 << 20


class ConfigTable(BaseModel):
    """A table of a configuration file; a key that it does not name is refused, and so is a value
    of another type: ``true`` is no number, ``"16"`` neither, and ``nan`` and ``inf`` are none that
    anything could be done with.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


M = TypeVar("M", bound=ConfigTable)


class KeyFault(InputError):
    """An ``InputError`` about the value of one key; ``ConfigFile.told`` adds file and line.

    ``family``: what it becomes then, where the value is right in itself and what it leads to is
    not, such as a certificate that has expired (``NotAuthorisedError``).
    """

    def __init__(
        self,
        key: KeyPath,
        message: str,
        *,
        hint: str = "",
        family: type[GridError] = InputError,
    ) -> None:
        super().__init__(f"{'.'.join(map(str, key))}: {message}", hint=hint)
        self.key = key
        self.family = family


@contextmanager
def at_key(*key: str | int) -> Iterator[None]:
    """Within it, what is said of a value is said of this key."""
    try:
        yield
    except KeyFault:
        raise
    except InputError as fault:
        raise KeyFault(key, fault.message, hint=fault.hint) from None
    except (NotAuthorisedError, UnavailableError) as fault:
        raise KeyFault(key, fault.message, hint=fault.hint, family=type(fault)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile(Generic[M]):
    """A file that was read, and whose keys and types are right."""

    path: Path
    text: str
    page: str
    content: M

    @contextmanager
    def told(self) -> Iterator[None]:
        """Within it, what the domain says is said of this file."""
        try:
            yield
        except InputError as fault:
            key = fault.key if isinstance(fault, KeyFault) else ()
            hint = fault.hint or _hint(self.page)
            told = _located(self.path, self.text, key, fault.message, hint)
            family = fault.family if isinstance(fault, KeyFault) else InputError
            raise family(told.message, hint=told.hint) from None


def read_config(
    path: Path, model: type[M], *, page: str, what: str = "configuration", missing: str = ""
) -> ConfigFile[M]:
    """Read and check. ``page``: the document that lists every key; ``what``: what the file is
    called; ``missing``: the hint when there is none that can be read.
    """
    text, document = _parsed(path, what, _hint(page), missing)
    try:
        content = model.model_validate(document)
    except ValidationError as fault:
        errors = fault.errors(include_url=False, include_input=False)
        # A misspelled key first: it is usually why another one is missing.
        first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
        message = "this key is not known" if first["type"] == "extra_forbidden" else first["msg"]
        key = first["loc"]
        told = f"{'.'.join(map(str, key))}: {message}" if key else message
        raise _located(path, text, key, told, _hint(page)) from None
    return ConfigFile(path=path, text=text, page=page, content=content)


def read_document(path: Path, page: str) -> dict[str, Any]:
    """The tables of a configuration before any model has seen them: to learn whose it is."""
    return _parsed(path, "configuration", _hint(page), "")[1]


# -- inside ----------------------------------------------------------------------------------------


def _parsed(path: Path, what: str, hint: str, missing: str) -> tuple[str, dict[str, Any]]:
    content = read_bounded(path, size_max=CONFIG_BYTES_MAX, what=what, hint=missing or hint)
    try:
        text = content.decode("utf-8")
        return text, parse_toml(text)
    except UnicodeDecodeError as fault:
        told = f"{path} is not UTF-8 text: {fault.reason} at byte {fault.start}"
        raise InputError(told, hint=hint) from None
    except NotToml as fault:
        raise InputError(f"{path} is {fault}", hint=hint) from None


def _located(path: Path, text: str, key: KeyPath, message: str, hint: str) -> InputError:
    return located(str(path), nearest_line(key_lines(text), key), message, hint=hint)


def _hint(page: str) -> str:
    return f"{page} lists every key"

"""Metajob files in JSON: the same keys as in TOML, and what the travel agent writes into its
journal."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Final, NoReturn

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.file_faults import KeyPath, located
from gridtravel.travel_agent.metajob_file.places import KeyPlaces, RawMetajob

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]:,\n]|[^"{}\[\]:,\n]+')


def read_json(text: str, source: str) -> RawMetajob:
    """The document of a JSON file; ``InputError`` with the line when it is not one object."""
    try:
        document = json.loads(
            text,
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_doubles,
        )
    except json.JSONDecodeError as error:
        raise located(
            source, error.lineno, f"not JSON: {error.msg}", hint="see docs/metajob.schema.json"
        ) from None
    except InputError as error:
        raise located(source, None, error.message, hint=error.hint) from None
    except (RecursionError, ValueError, ArithmeticError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else "a number is too long"
        raise located(source, None, f"not usable JSON: {reason}") from None
    if not isinstance(document, dict):
        raise located(source, 1, "a metajob is one JSON object", hint="begin with {")
    return RawMetajob(
        document=document, places=KeyPlaces(source=source, find_lines=lambda: _key_lines(text))
    )


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"{name} is not a number that can be used")


def _refuse_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """JSON allows a key twice and takes the last; a user who wrote it twice meant something
    else."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f"the key {key[:60]!r} stands twice in one object", hint="keep one")
        found[key] = value
    return found


def _key_lines(text: str) -> dict[KeyPath, int]:
    """The line of every key and of every member of a list, in text that is known to be valid."""
    lines: dict[KeyPath, int] = {}
    path: list[str | int] = []
    line = 1
    last_string = ""
    for token in (match[0] for match in _TOKEN.finditer(text)):
        if token in "{[":
            if token == "{" and path and isinstance(path[-1], int):
                lines.setdefault(tuple(path), line)
            path.append("" if token == "{" else 0)
        elif token in "}]":
            path.pop()
        elif token == ":":
            path[-1] = json.loads(last_string)
            lines.setdefault(tuple(path), line)
        elif token == ",":
            position = path[-1]
            path[-1] = position + 1 if isinstance(position, int) else ""
        elif token.startswith('"'):
            last_string = token
        line += token.count("\n")
    return lines

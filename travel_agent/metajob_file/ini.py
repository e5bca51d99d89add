"""The paper's metajob file, as printed in the GUR paper, section 4.

Not read by ``configparser``: in the print the lines of ``machines_dict_string`` begin wherever they
like, the closing brace in column 0, and ``configparser`` takes only indented lines as a
continuation. Here the value runs to the bracket that closes it. What it holds is in
``literal``.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final

from gridtravel.gridio.file_faults import KeyPath, located
from gridtravel.travel_agent.metajob_file.literal import read_machines_literal, take_literal
from gridtravel.travel_agent.metajob_file.places import KeyPlaces, RawMetajob

_SECTION: Final = re.compile(r"\[([^\[\]]*)\]")
_ENTRY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*[=:][ \t]*(.*)")
_TRUTH: Final = {"yes": True, "true": True, "on": True, "1": True}
_FALSEHOOD: Final = {"no": False, "false": False, "off": False, "0": False}

_SCHEMA_KEYS: Final = {
    "name": "name",
    "total_nodes": "nodes_total",
    "machine_preference": "machine_preference",
    "machine_preference_reorder": "preference_reorder",
    "duration": "duration",
    "earliest_start": "earliest_start",
    "latest_end": "latest_end",
    "usage_pattern": "usage_pattern",
    "machines_dict_string": "machines",
    "zone": "zone",
}
"""The paper's keys, ``name`` and ``zone``, and what the common schema calls them."""
_REQUIRED: Final = tuple(
    key
    for key in _SCHEMA_KEYS
    if key not in ("name", "zone", "machine_preference", "machine_preference_reorder")
)
_NAMES: Final = {
    "nodes_total": "total_nodes",
    "preference_reorder": "machine_preference_reorder",
    "machines": "machines_dict_string",
    "login": "username_string",
    "account": "account_string",
    "nodes_min": "min_int",
    "nodes_max": "max_int",
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One ``key = value`` of the file."""

    text: str
    line: int
    """Where the key stands."""
    text_line: int
    """Where the value begins."""


def read_ini(text: str, source: str) -> RawMetajob:
    """The document of a file in the paper's form, in the common schema's keys; ``InputError`` with
    the line."""
    entries = _entries(text, source)
    missing = [key for key in _REQUIRED if key not in entries]
    if missing:
        raise located(
            source,
            None,
            f"the key {missing[0]!r} is missing in [metajob]",
            hint=f"add it; needed are {', '.join(_REQUIRED)}",
        )
    machines_entry = entries["machines_dict_string"]
    machines, machine_lines = read_machines_literal(
        machines_entry.text, source=source, first_line=machines_entry.text_line
    )
    order = _preference(entries.get("machine_preference"), machines, source)
    document: dict[str, object] = {}
    lines: dict[KeyPath, int] = {}
    for key, entry in entries.items():
        if key not in ("machine_preference", "machines_dict_string"):
            document[_SCHEMA_KEYS[key]] = _value(key, entry, source)
        lines[(_SCHEMA_KEYS[key],)] = entry.line
    document["machines"] = [{"name": name, **machines[name]} for name in order]
    for position, name in enumerate(order):
        for inner, line in machine_lines[name].items():
            lines[("machines", position, *inner)] = line
    return RawMetajob(
        document=document, places=KeyPlaces(source=source, find_lines=lambda: lines, names=_NAMES)
    )


def _entries(text: str, source: str) -> dict[str, _Entry]:
    """The keys of the one section, each once."""
    rows = text.split("\n")
    entries: dict[str, _Entry] = {}
    in_section = False
    row = 0
    while row < len(rows):
        number, content = row + 1, rows[row].strip()
        if not content or content[0] in "#;":
            row += 1
        elif section := _SECTION.fullmatch(content):
            if section[1].strip().lower() != "metajob" or in_section:
                raise located(
                    source, number, f"unexpected section {content[:60]}", hint="one [metajob] only"
                )
            in_section = True
            row += 1
        else:
            match = _ENTRY.fullmatch(content)
            if match is None:
                raise located(
                    source,
                    number,
                    f"{content[:60]!r} is neither a key with a value nor part of one",
                    hint="write key=value; brackets of machines_dict_string must close",
                )
            key = match[1].lower()
            if not in_section:
                raise located(
                    source, number, f"{key!r} stands before [metajob]", hint="begin with [metajob]"
                )
            _check_key(key, number, entries, source)
            entries[key], row = _take_value(key, match[2], rows, row, source)
    if not in_section:
        raise located(source, None, "there is no section [metajob]", hint="begin with [metajob]")
    return entries


def _check_key(key: str, line: int, entries: dict[str, _Entry], source: str) -> None:
    if key not in _SCHEMA_KEYS:
        near = difflib.get_close_matches(key[:60], _SCHEMA_KEYS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_SCHEMA_KEYS)}"
        raise located(source, line, f"unknown key {key[:60]!r}", hint=hint)
    if key in entries:
        raise located(
            source, line, f"the key {key!r} stands twice", hint=f"see line {entries[key].line}"
        )


def _take_value(key: str, text: str, rows: list[str], row: int, source: str) -> tuple[_Entry, int]:
    """The value that begins in ``rows[row]``, and the row after it."""
    if key == "machines_dict_string":
        opens_at = row
        while not text and opens_at + 1 < len(rows):
            opens_at += 1
            text = rows[opens_at].strip()
        if not text or (opens_at > row and not text.startswith("{")):
            raise located(source, row + 1, f"{key} is empty", hint="write {'machine': {...}}")
        literal, after = take_literal([text, *rows[opens_at + 1 :]], source, opens_at + 1)
        return _Entry(literal, row + 1, opens_at + 1), opens_at + after
    indent = _indent(rows[row])
    after = row + 1
    parts = [text]
    while after < len(rows) and rows[after].strip() and _indent(rows[after]) > indent:
        parts.append(rows[after].strip())
        after += 1
    return _Entry("\n".join(parts).strip(), row + 1, row + 1), after


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


def _value(key: str, entry: _Entry, source: str) -> object:
    """The value in the schema's type."""
    if not entry.text:
        raise located(source, entry.line, f"{key} has no value", hint=f"write {key}=...")
    if key == "total_nodes":
        if not re.fullmatch(r"[+-]?[0-9]{1,12}", entry.text):
            raise located(
                source,
                entry.line,
                f"total_nodes must be a whole number, not {entry.text[:40]!r}",
                hint="total_nodes=12",
            )
        return int(entry.text)
    if key == "machine_preference_reorder":
        truth = {**_TRUTH, **_FALSEHOOD}.get(entry.text.lower())
        if truth is None:
            raise located(source, entry.line, f"{key} must be yes or no, not {entry.text[:40]!r}")
        return truth
    if key == "usage_pattern":
        return entry.text.lower()
    return entry.text


def _preference(
    entry: _Entry | None, machines: dict[str, dict[str, object]], source: str
) -> list[str]:
    """The machines in the user's order; that of the dictionary when no preference is given."""
    if entry is None:
        return list(machines)
    order = [name for name in re.split(r"[\s,]+", entry.text) if name]
    for position, name in enumerate(order):
        if name in order[:position]:
            raise located(
                source, entry.line, f"machine {name[:60]} stands twice in machine_preference"
            )
        if name not in machines:
            raise located(
                source,
                entry.line,
                f"machine {name[:60]} of machine_preference is not in machines_dict_string",
                hint=f"described there: {', '.join(machines) or 'none'}",
            )
    for name in machines:
        if name not in order:
            raise located(
                source,
                entry.line,
                f"machine {name} of machines_dict_string is not in machine_preference",
                hint="name it there, or take it out of machines_dict_string",
            )
    return order

"""The original's commands under their old names: which of ours each is, and how its options read.

Names, options and the meaning of each follow the original's usage texts; a script written for it
runs unchanged. What it asked for and this site has no place for is said in a note, never passed
over; what would change the meaning is refused. ``translate`` is pure: words in, words out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.catalina.old.table import (
    CONFIGURATION,
    NO_COUNTERPART,
    OLD_COMMANDS,
    OldCommand,
    OldOption,
    flag,
    value_of,
)

__all__ = ["NO_COUNTERPART", "OLD_COMMANDS", "Translation", "is_old", "translate"]

_EPOCH_WITH_FRACTION: Final = re.compile(r"([0-9]{9,12})\.[0-9]*")
_SECONDS_WITH_FRACTION: Final = re.compile(r"([0-9]{1,9})\.0*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The same command in our words."""

    words: tuple[str, ...]
    notes: tuple[str, ...] = ()


_OURS: Final[Mapping[str, OldOption]] = {
    "json": flag("--json"),
    "help": flag("--help"),
    "?": flag("--help"),
    "socket": value_of("--socket"),
    "zone": value_of("--zone"),
    "request_id": value_of("--request-id"),
    "dry_run": flag("--dry-run"),
}
"""New options that old commands take too."""


def is_old(name: str) -> bool:
    """True for a name of the original's, offered or not."""
    return name in OLD_COMMANDS or name in NO_COUNTERPART


def translate(name: str, words: Sequence[str]) -> Translation:
    """The command ``name`` of the original with its arguments, in our words."""
    if name in NO_COUNTERPART:
        raise InputError(f"{name} of the original is not offered", hint=NO_COUNTERPART[name])
    command = OLD_COMMANDS[name]
    made: list[str] = []
    notes: list[str] = []
    columns: dict[str, None] = {}
    positional: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("--") and rest[0] != "--":
        old, value = _next_option(name, command, rest)
        option = _options_of(command)[old]
        if option.refusal:
            raise InputError(f"{name} --{old}: {option.refusal}")
        if option.note:
            notes.append(f"--{old} has no effect: {option.note}")
        elif option.column:
            columns[option.column] = None
        elif option.choices:
            made += _chosen(name, old, option, value)
        elif option.is_positional:
            positional[old] = _shortened(name, old, option, value)
        elif option.new:
            made.append(option.new if not option.takes_value else _joined(option, value))
    if columns:
        made.append(f"--columns={'all' if 'all' in columns else ','.join(columns)}")
    for new, value in command.defaults:
        rivals = ("--nodes", "--maxnodes") if new == "--nodes" else (new,)
        if not any(each.startswith(f"{rival}=") for each in made for rival in rivals):
            made.append(f"{new}={value}")
    arguments = [positional[each] for each in command.arguments if each in positional]
    return Translation(words=(command.new, *made, *arguments, *rest), notes=tuple(notes))


def _options_of(command: OldCommand) -> Mapping[str, OldOption]:
    return {**_OURS, **command.options}


def _next_option(name: str, command: OldCommand, rest: list[str]) -> tuple[str, str]:
    """Take one option off ``rest`` as getopt did: with ``=`` or a word for the value, and a prefix
    for the name where it is unique. Dashes are as good as underscores.
    """
    written, equals, value = rest.pop(0)[2:].partition("=")
    known = _options_of(command)
    wanted = written.replace("-", "_")
    found = [each for each in known if each == wanted]
    found = found or [each for each in command.options if each.startswith(wanted)]
    if len(found) != 1:
        listed = ", ".join(f"--{each}" for each in command.options) or "none"
        told = "is not unique" if found else "is not known"
        raise InputError(f"{name}: the option --{written[:40]} {told}", hint=f"options: {listed}")
    if not known[found[0]].takes_value:
        if equals:
            raise InputError(f"{name}: the option --{found[0]} takes no value")
        return found[0], ""
    if not equals:
        if not rest:
            raise InputError(f"{name}: the option --{found[0]} needs a value")
        value = rest.pop(0)
    return found[0], value


def _chosen(name: str, old: str, option: OldOption, value: str) -> list[str]:
    """What one of a few values means in our words."""
    if value not in option.choices:
        raise InputError(
            f"{name} --{old}: {value[:40]!r} is not known",
            hint=f"one of: {', '.join(option.choices)}",
        )
    word = option.choices[value]
    return [word] if word else []


def _shortened(name: str, old: str, option: OldOption, value: str) -> str:
    """The value without the prefix that says what it is about."""
    if not value.startswith(option.prefix):
        raise InputError(
            f"{name} --{old}: only {option.prefix}... can be set here, not {value[:40]!r}",
            hint=CONFIGURATION,
        )
    return value.removeprefix(option.prefix)


def _joined(option: OldOption, value: str) -> str:
    """Our option with its value; numbers that the original allowed a fraction lose it."""
    if option.is_count:
        value = str(len(value.split("+")))
    elif option.new in ("--earliest-start", "--latest-end", "--start", "--since", "--until"):
        found = _EPOCH_WITH_FRACTION.fullmatch(value)
        value = found[1] if found else value
    elif option.new == "--duration":
        found = _SECONDS_WITH_FRACTION.fullmatch(value)
        value = found[1] if found else value
    return f"{option.new}={value}"

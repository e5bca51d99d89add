"""What a command has to say: one object for scripts, lines and tables for people, one exit code.

The JSON objects are a promise to scripts: keys are added, never renamed or removed. Instants are
ISO 8601 in UTC, lengths of time whole seconds, prices integer millicredits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gridtravel.gridcore.errors import GridError
from gridtravel.gridio import cli_frame
from gridtravel.gridio.cli_frame import EXIT_DONE, tell_fault
from gridtravel.gridio.terminal.text import print_json, say, tell_all

if TYPE_CHECKING:
    from rich.table import Table

_LOCAL_CALL: Final = re.compile(r"^[A-Z][A-Za-z]* at unix:[^:]*: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of one command."""

    as_object: Mapping[str, Any]
    shown: Sequence[str | Table] = ()
    """For people, on standard output."""
    notes: Sequence[str] = ()
    """What they should know beside it, on standard error."""
    faults: Sequence[GridError] = ()
    """Single errors of a command that went on past them."""
    exit_code: int = EXIT_DONE


def show(answer: Answer, *, as_json: bool) -> None:
    """Print it; JSON is one object on standard output."""
    if as_json:
        print_json(answer.as_object)
    elif answer.shown:
        _show_all(answer.shown)
    tell_all(f"note: {note}" for note in answer.notes)
    for fault in answer.faults:
        show_fault(fault)


def _show_all(shown: Sequence[str | Table]) -> None:
    """Lines as they are, tables within the terminal's width unless their columns need more."""
    from gridtravel.gridio.terminal.console import TerminalConsole

    console = TerminalConsole()
    width = console.width
    for each in shown:
        if isinstance(each, str):
            say(each)
            continue
        title, each.title = each.title, None
        if title:
            say(str(title))
        needed = sum((column.min_width or 0) + each.padding[1] for column in each.columns)
        console.width = max(width, needed)
        console.print(each)
        console.width = width


def show_fault(fault: GridError) -> None:
    """One line, and one that says what to do next."""
    tell_fault("catalina", plain_words(fault), fault.next_step)


def error_object(fault: GridError) -> dict[str, Any]:
    """A fault for scripts."""
    return cli_frame.error_object(fault, plain_words(fault))


def plain_words(fault: GridError) -> str:
    """The message without the verb and the path of the socket, which on one's own machine say
    nothing that the command does not.
    """
    return _LOCAL_CALL.sub("", fault.message, count=1)

"""What an operating system can run: refused when it is asked for, not when the nodes are there.

Linux starts no program whose name is empty, none with an argument (or a variable with its name) of
128 KiB or more, and looks for an interpreter by all that stands behind ``#!``, a carriage return
included. These rules are for what is submitted; what is in a journal already is not judged again.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from gridtravel.gridcore.errors import FieldError, InputError
from gridtravel.gridcore.jobs.job import JobSpec

ARGUMENTS_MAX: Final = 4096
ARGUMENT_BYTES_MAX: Final = 128 * 1024 - 1
"""Of one argument, and of a variable with its name and ``=``; with the zero behind it, Linux's
``MAX_ARG_STRLEN``.
"""
COMMAND_BYTES_MAX: Final = 1 << 20
"""Of all arguments: half of what Linux takes where stacks have their usual size."""

INTERPRETER_MARK: Final = "#!"


def check_runnable(spec: JobSpec) -> None:
    """Refuse a job that no site could start: ``InputError``."""
    if spec.script:
        check_script(spec.script, "the script")
    else:
        check_arguments("command", spec.argv)
    for name, value in spec.environment:
        if len(f"{name}={value}".encode()) > ARGUMENT_BYTES_MAX:
            raise InputError(
                f"the variable {name} has more than {ARGUMENT_BYTES_MAX} bytes with its name",
                hint="put it into a file and stage it in",
            )


def check_arguments(field: str, arguments: Sequence[str]) -> None:
    """Refuse a command that names no program, or is more than a program can be given:
    ``FieldError`` about the argument.
    """
    if len(arguments) > ARGUMENTS_MAX:
        raise FieldError(
            field,
            f"{field} has {len(arguments)} arguments, at most {ARGUMENTS_MAX} are allowed",
            hint="put long lists into a file and stage it in",
        )
    if not arguments or not arguments[0].strip():
        raise FieldError(
            field,
            f"{field} has an empty program name",
            hint="name a program first, such as ./program",
            index=0,
        )
    for position, argument in enumerate(arguments):
        if not is_plain_text(argument):
            raise FieldError(
                field,
                f"argument {position} of {field} is no text that a program can be given",
                hint="leave out zero bytes and halves of surrogate pairs",
                index=position,
            )
        if len(argument.encode()) > ARGUMENT_BYTES_MAX:
            raise FieldError(
                field,
                f"argument {position} of {field} has {len(argument.encode())} bytes, and no program"
                f" can be given more than {ARGUMENT_BYTES_MAX} in one",
                hint="put it into a file and stage it in",
                index=position,
            )
    if sum(len(each.encode()) + 1 for each in arguments) > COMMAND_BYTES_MAX:
        raise FieldError(
            field,
            f"{field} has more than {COMMAND_BYTES_MAX} bytes in all",
            hint="put long lists into a file and stage it in",
        )


def check_quoted(field: str, arguments: Sequence[str]) -> None:
    """Refuse a command that is too long to be handed to a shell as one argument, as it is where
    something has to be done before it.
    """
    if len(shlex.join(arguments).encode()) > ARGUMENT_BYTES_MAX:
        raise FieldError(
            field,
            f"{field} has more than {ARGUMENT_BYTES_MAX} bytes in all, and something is to be done"
            " before it",
            hint="put long lists into a file and stage it in",
        )


def check_script(text: str, what: str) -> None:
    """Refuse a script whose first line names no interpreter that could be found. ``what``: how the
    script is called in the fault.
    """
    first = text.split("\n", 1)[0]
    if not first.startswith(INTERPRETER_MARK) or not first.removeprefix(INTERPRETER_MARK).strip():
        raise InputError(
            f"{what}, line 1: it does not say what runs it",
            hint="its first line must name an interpreter, such as #!/bin/sh",
        )
    if "\r" in first:
        raise InputError(
            f"{what}, line 1: it ends as on Windows (CR LF), and no interpreter is called so",
            hint="write it with Unix line ends: sed -i 's/\\r$//' FILE",
        )


def is_plain_text(text: str) -> bool:
    """True when ``text`` can be handed to a program: no zero byte, and no half of a surrogate pair
    (JSON allows one).
    """
    return not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text)

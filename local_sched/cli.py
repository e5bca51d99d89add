"""``catalina``: the local client of one site, for its users and its administrators.

Exit codes as everywhere (docs/exit-codes.md): 0 done; 1 anything else; 2 wrong usage or input; 3
declined, with what would work; 4 the site's agent is not there; 5 not authorised. The original's
commands work under their old names, as ``catalina user_set_res ...`` and through links of these
names (docs/catalina.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

import typer

from gridcore.errors import GridError, InputError
from local_sched.catalina import (
    job_commands,
    order_commands,
    question_commands,
    reservation_commands,
    site_commands,
)
from local_sched.catalina.answers import (
    EXIT_INTERRUPTED,
    EXIT_OTHER,
    EXIT_USAGE,
    error_object,
    print_json,
    show_fault,
)
from local_sched.catalina.old_names import is_old, translate
from local_sched.catalina.shell import app, tell_interrupted

__all__ = ["app", "main", "run_command"]

COMMANDS: Final = (
    reservation_commands,
    job_commands,
    question_commands,
    site_commands,
    order_commands,
)
"""The modules whose import declares the commands."""

_USAGE_FAULTS: Final[tuple[type[Exception], ...]] = tuple(
    each
    for each in typer.BadParameter.__mro__
    if each.__name__ == "ClickException" and issubclass(each, Exception)
)
"""What Typer raises for wrong words, by whatever name its parser goes."""


def main() -> None:
    """Entry point of the ``catalina`` command, and of links to it under the original's names."""
    try:
        code = run_command(sys.argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is left must not be flushed at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_OTHER
    sys.exit(code)


def run_command(argv: Sequence[str]) -> int:
    """Carry out one command line, its first word the name it was called by; the exit code."""
    program = PurePath(argv[0]).name.removesuffix(".py") if argv else ""
    words = list(argv[1:])
    try:
        if is_old(program):
            words = _in_our_words(program, words)
        elif words and is_old(words[0]):
            words = _in_our_words(words[0], words[1:])
        if not words:
            app(args=["--help"], prog_name="catalina", standalone_mode=False)
            return EXIT_USAGE
        return int(app(args=words, prog_name="catalina", standalone_mode=False) or 0)
    except GridError as fault:
        return _refused(fault, words)
    except _USAGE_FAULTS as fault:
        return _refused(_usage_fault(fault, words), words)
    except (KeyboardInterrupt, typer.Abort):
        tell_interrupted()
        return EXIT_INTERRUPTED


def _in_our_words(name: str, words: list[str]) -> list[str]:
    translation = translate(name, words)
    for note in translation.notes:
        sys.stderr.write(f"note: {note}\n")
    return list(translation.words)


def _usage_fault(fault: Exception, words: Sequence[str]) -> InputError:
    """One line for wrong words; the parser's own takes three, or prints the whole help."""
    describe = getattr(fault, "format_message", None)
    told = " ".join(str(describe() if describe else fault).split()).rstrip(".")
    command = words[0] if words and not words[0].startswith("-") else ""
    known = any(each.name == command for each in app.registered_commands)
    hint = f"see: catalina {command} --help" if known else "see: catalina --help"
    return InputError(told[:1].lower() + told[1:], hint=hint)


def _refused(fault: GridError, words: Sequence[str]) -> int:
    if "--json" in words:
        print_json(error_object(fault))
    show_fault(fault)
    return fault.exit_code


if __name__ == "__main__":
    main()

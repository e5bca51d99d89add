"""``catalina``: the local client of one site, for its users and its administrators.

Exit codes as everywhere (docs/exit-codes.md): 0 done; 1 anything else; 2 wrong usage or input; 3
declined, with what would work; 4 the site's agent is not there; 5 not authorised. The original's
commands work under their old names, as ``catalina user_set_res ...`` and through links of these
names (docs/catalina.md).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from gridtravel.gridcore.errors import GridError
from gridtravel.gridio.terminal.text import tell_all
from gridtravel.local_sched.catalina.commands import (
    accounts,
    jobs,
    orders,
    questions,
    reservations,
    site_admin,
)
from gridtravel.local_sched.catalina.old.translate import is_old, translate
from gridtravel.local_sched.catalina.shell import CatalinaFrame, app

__all__ = ["app", "main", "run_command"]

COMMANDS: Final = (
    reservations,
    jobs,
    questions,
    site_admin,
    orders,
    accounts,
)
"""The modules whose import declares the commands."""


def main() -> None:
    """Entry point of the ``catalina`` command, and of links to it under the original's names."""
    sys.exit(run_command(sys.argv))


def run_command(argv: Sequence[str]) -> int:
    """Carry out one command line, its first word the name it was called by; the exit code."""
    program = PurePath(argv[0]).name.removesuffix(".py") if argv else ""
    words = list(argv[1:])
    try:
        if is_old(program):
            words = _in_our_words(program, words)
        elif words and is_old(words[0]):
            words = _in_our_words(words[0], words[1:])
    except GridError as fault:
        return CatalinaFrame.refuse(fault, "catalina", as_json="--json" in words)
    return int(app(args=words, standalone_mode=False))


def _in_our_words(name: str, words: list[str]) -> list[str]:
    translation = translate(name, words)
    tell_all(f"note: {note}" for note in translation.notes)
    return list(translation.words)


if __name__ == "__main__":
    main()

"""Asks the person at the terminal what an SSH server wants to know."""

from __future__ import annotations

import atexit
import getpass
import sys
import termios
import threading
from typing import TYPE_CHECKING, TextIO

from gridtravel.gridio.terminal.text import as_text, error_stream

if TYPE_CHECKING:
    from gridtravel.gridio.ssh.prompting import Prompt


class TerminalPrompter:
    """Questions on standard error, answers from standard input; several logins ask in turn. Belongs
    to a terminal: see ``at_terminal``.
    """

    def __init__(self, source: TextIO, sink: TextIO) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()

    def __call__(self, prompt: Prompt) -> list[str]:
        """The answers; ``EOFError`` when the user ends the input."""
        with self._lock:
            for line in prompt.text.splitlines():
                self._sink.write(f"({prompt.who}) {as_text(line)}\n")
            self._sink.flush()
            return [
                self._ask(f"({prompt.who}) {as_text(each.text)}", is_secret=each.is_secret)
                for each in prompt.fields
            ]

    def _ask(self, text: str, *, is_secret: bool) -> str:
        if is_secret:
            return getpass.getpass(text, stream=self._sink)
        self._sink.write(text)
        self._sink.flush()
        line = self._source.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")


def at_terminal() -> TerminalPrompter | None:
    """A prompter when somebody sits there. Whatever interrupts it, the terminal shows again at the
    end what is typed.
    """
    if not sys.stdin.isatty():
        return None
    descriptor = sys.stdin.fileno()
    atexit.register(termios.tcsetattr, descriptor, termios.TCSADRAIN, termios.tcgetattr(descriptor))
    return TerminalPrompter(sys.stdin, error_stream())

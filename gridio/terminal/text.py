"""Words of strangers, and what every command writes to its two streams.

What a site, a file or a user of somewhere else has called something is text: it is shown, and never
acted upon by the terminal. ``as_text`` makes it so, and ``say`` and ``tell`` put every line that a
command writes through it; the linter bans every other way (``sys.stdout``, ``typer.echo``). Tables
go through ``gridio.terminal.console``, by the same rule.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
import unicodedata
from collections.abc import Iterable
from typing import Final, TextIO

CHARACTERS_MAX: Final = 16_384
"""Of one line, after which it is cut: a site's message may be megabytes."""

_ORDINARY_SPACES: Final = frozenset("\t\N{NO-BREAK SPACE}")
_INVISIBLE: Final = frozenset(
    "\N{COMBINING GRAPHEME JOINER}\N{HANGUL CHOSEONG FILLER}\N{HANGUL JUNGSEONG FILLER}"
    "\N{HANGUL FILLER}\N{HALFWIDTH HANGUL FILLER}\N{KHMER VOWEL INHERENT AQ}"
    "\N{KHMER VOWEL INHERENT AA}\N{BRAILLE PATTERN BLANK}"
)
"""Letters and marks that leave no trace, though their category says that they are letters."""
_ESCAPED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that steer a terminal (C0 with the escape and the line end, C1), turn or
hide what stands beside them (marks of direction, of no width), end lines, or stand for nothing.
"""


def as_text(words: str) -> str:
    """``words`` as one line that a terminal only shows. A character that would do anything else
    stands there as Python writes it, such as ``\\x1b`` or ``\\u202e``.
    """
    cut = words[:CHARACTERS_MAX]
    if not (cut.isascii() and cut.isprintable()):
        cut = "".join(each if _is_ordinary(each) else _written(each) for each in cut)
    left = len(words) - CHARACTERS_MAX
    return f"{cut} … and {left} characters more" if left > 0 else cut


def say(line: str = "") -> None:
    """One line of the answer, to standard output, at once: a command may go on for hours."""
    _write(sys.stdout, as_text(line) + "\n")


def say_all(lines: Iterable[str]) -> None:
    """Several lines of the answer."""
    for each in lines:
        say(each)


def tell(line: str) -> None:
    """One line beside the answer, to standard error."""
    _write(sys.stderr, as_text(line) + "\n")


def tell_all(lines: Iterable[str]) -> None:
    """Several lines beside the answer."""
    for each in lines:
        tell(each)


def print_json(value: object, *, indent: int | None = 2) -> None:
    """One object for scripts, on lines of its own. JSON writes as ASCII what is not, so strangers'
    words are whole in it and do nothing to a terminal.
    """
    written = json.dumps(value, indent=indent).replace("\x7f", "\\u007f")
    _write(sys.stdout, written + "\n")


def say_document(text: str) -> None:
    """A file's content, for a redirection: the strangers' words in it have been through ``as_text``
    where it was made.
    """
    _write(sys.stdout, text)


def error_stream() -> TextIO:
    """Standard error itself, for what writes over its own line or asks a question; each of its
    words goes through ``as_text`` first.
    """
    return sys.stderr


def is_terminal() -> bool:
    """Whether the answer goes to somebody's screen."""
    return sys.stdout.isatty()


class JobOutput:
    """Where the bytes that a job wrote go: as they are into a file or a pipe, as text to a screen,
    unless its user wants them raw there too.
    """

    def __init__(self, *, is_raw: bool = False) -> None:
        self._is_raw = is_raw or not is_terminal()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def write(self, content: bytes) -> None:
        """The next bytes of it, at once."""
        if self._is_raw:
            sys.stdout.buffer.write(content)
        else:
            text = self._decoder.decode(content).replace("\r\n", "\n")
            sys.stdout.write("\n".join(map(as_text, text.split("\n"))))
        flush()


def flush() -> None:
    """Everything that was said has left this process; ``BrokenPipeError``: nobody reads it."""
    sys.stdout.flush()


def drop_the_rest() -> None:
    """Whoever read our output has seen enough; what is left must not be flushed at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def use_any_characters() -> None:
    """From now on a character that the terminal's encoding lacks is written as an escape, rather
    than ending the command.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _is_ordinary(character: str) -> bool:
    if character in _ORDINARY_SPACES:
        return True
    return character not in _INVISIBLE and unicodedata.category(character) not in _ESCAPED


def _written(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()

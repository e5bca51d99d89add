"""TOML text: the standard library's parser with a bound, and the line of every key for messages.

``tomllib`` gives no positions. Rather than parse a second time, ``key_lines`` walks over the text,
which is known to be valid by then, and notes where headers and keys begin; keys inside an inline
value share that value's line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from typing import Any, Final

from gridtravel.gridio.file_faults import KeyPath

_PLACE: Final = re.compile(r" \(at (?:line ([0-9]+), column [0-9]+|end of document)\)")
_LONG_KEY: Final = re.compile(
    r"""(?<![\w-])(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
    r"""(?:[ \t]*+\.[ \t]*+(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')){32}"""
)
"""A key of more than 32 parts: ``tomllib`` needs memory by the square of that number, our keys have
four."""
_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{}=\n]"
    r"|[^\[\]{}=\n\"'#]+"
    r"|.",
    re.DOTALL,
)


class NotToml(ValueError):
    """The text is not TOML, or none that is read. ``message`` goes without the place, as a text it
    comes with it.
    """

    def __init__(self, message: str, line: int | None = None, text: str = "") -> None:
        super().__init__(text or (message if line is None else f"{message} (at line {line})"))
        self.message = message
        self.line = line


def parse_toml(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The document; ``NotToml`` says what is wrong, in words that follow "it is"."""
    if long_key := _LONG_KEY.search(text):
        line = text.count("\n", 0, long_key.start()) + 1
        raise NotToml("not usable TOML: a key has too many parts", line)
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        known = int(place[1]) if place and place[1] else None
        told = _PLACE.sub("", str(error))
        raise NotToml(f"not TOML: {told}", known, f"not TOML: {error}") from None
    except (RecursionError, ValueError, ArithmeticError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else "a number is too long"
        raise NotToml(f"not usable TOML: {reason}") from None


def key_lines(text: str) -> dict[KeyPath, int]:
    """The first line of every header and key."""
    lines: dict[KeyPath, int] = {}
    tables: dict[KeyPath, int] = {}
    table: KeyPath = ()
    words: list[str] = []
    line, begun_at, depth = 1, 1, 0
    in_value = False
    for token in (match[0] for match in _TOKEN.finditer(text + "\n")):
        if token == "\n" and depth == 0:
            statement = "".join(words).strip()
            if statement.startswith("["):
                table = _enter_table(statement, tables)
                lines.setdefault(table, begun_at)
            words, in_value = [], False
        elif token.startswith("#") or (token == "\n" and not in_value):
            pass
        elif not in_value:
            in_header = bool(words) and words[0].startswith("[")
            if not words and not token.strip():
                pass
            elif token == "=" and not in_header:
                path = table
                for part in _key_parts("".join(words)):
                    path = (*path, part)
                    lines.setdefault(path, begun_at)
                in_value = True
            else:
                begun_at = begun_at if words else line
                words.append(token)
        elif token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        line += token.count("\n")
    return lines


def _enter_table(header: str, tables: dict[KeyPath, int]) -> KeyPath:
    """Path of the table that ``[a.b]`` or ``[[a.b]]`` opens; ``tables`` counts the arrays of
    tables."""
    is_array = header.startswith("[[")
    parts = _key_parts(header.strip("[] \t"))
    path: KeyPath = ()
    for position, part in enumerate(parts):
        path = (*path, part)
        if is_array and position == len(parts) - 1:
            tables[path] = tables.get(path, 0) + 1
        if path in tables:
            path = (*path, tables[path] - 1)
    return path


def _key_parts(key: str) -> list[str]:
    """The parts of a dotted key, quotes undone."""
    parts: list[str] = []
    inner: object = tomllib.loads(f"{key} = 0")
    while isinstance(inner, dict):
        part, inner = next(iter(inner.items()))
        parts.append(part)
    return parts

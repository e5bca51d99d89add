"""What commands print with ``--json``, one after the other, as one text that is reviewed as a diff.

What is inherently another in each run is masked, by the short list below and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

MASKED: Final = "(masked)"
MASKS: Final[Mapping[str, tuple[str, ...]]] = {
    # Processor time.
    "gurlab replay": ("cpu_s", "jobs_per_cpu_second"),
    "gurlab compare-search": ("cpu_ms_mean",),
    # Made of a fresh private key.
    "gurd ca init": ("fingerprint",),
    "gurd ca show": ("fingerprint",),
}
"""Program and command -> keys, at any depth, whose values are not compared."""


class Transcript:
    """Commands and their answers. ``folder``: temporary, so its name is masked everywhere."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._texts: list[str] = []

    def heading(self, words: str) -> None:
        """A line for readers."""
        self._texts.append(f"# {words}\n")

    def add(self, command: str, words: tuple[str, ...], code: int, out: str) -> Any:
        """``command``: program and command, ``words``: what followed. Returns what was printed."""
        said = _parsed(out)
        masked = _masked(said, MASKS.get(command, ()))
        text = json.dumps(masked, indent=1, ensure_ascii=True)
        typed = " ".join([command, *map(_quoted, words)])
        self._texts.append(self._without_folder(f"$ {typed}\nexit {code}\n{text}\n"))
        return said

    def text(self) -> str:
        """All of it."""
        return "\n".join(self._texts)

    def _without_folder(self, text: str) -> str:
        return text.replace(self._folder, "(folder)")


def _parsed(out: str) -> Any:
    """One JSON value, or one a line."""
    try:
        return json.loads(out)
    except ValueError:
        return [json.loads(line) for line in out.splitlines()]


def _masked(value: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: MASKED if key in keys else _masked(one, keys) for key, one in value.items()}
    if isinstance(value, list):
        return [_masked(one, keys) for one in value]
    return value


def _quoted(word: str) -> str:
    return word if word and " " not in word else f"'{word}'"


def commands_in(text: str, known: Iterable[str]) -> Iterator[str]:
    """The commands that were typed in a transcript, of those known."""
    typed = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    for command in known:
        if any(f"{each} ".startswith(f"{command} ") for each in typed):
            yield command


def commands_with_json(program: str, command: Any) -> Iterator[str]:
    """Every command below a parser's root that has ``--json``."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands_with_json(f"{program} {name}", inner)
    if any("--json" in each.opts for each in command.params):
        yield program

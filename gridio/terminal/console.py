"""A Rich console to which every string is text: no markup of Rich's, and nothing that a terminal
would act upon (``gridio.terminal.text``). Styles are given beside the words.

Rich makes a ``Text`` of each string at one place, for titles, headings, cells and lines alike; that
place is taken here. Whoever makes a ``Text`` would go past it, so the linter bans that.
"""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from gridtravel.gridio.terminal.text import as_text


class TerminalConsole(Console):
    """Where tables and coloured lines go."""

    def __init__(
        self,
        *,
        width: int | None = None,
        to_stderr: bool = False,
        is_quiet: bool = False,
        file: TextIO | None = None,
    ) -> None:
        """``width``: columns; default: as many as the terminal has. ``file``: default: the
        standard stream.
        """
        super().__init__(
            file=file,
            width=width,
            stderr=to_stderr,
            quiet=is_quiet,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def render_str(self, text: str, **settings: Any) -> Text:
        """See ``Console``; whatever a caller says, the words are words."""
        settings |= {"markup": False, "emoji": False}
        return super().render_str(as_text(text), **settings)

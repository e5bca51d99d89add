"""What the travel agent tells while it works, for people: a line for each step, and one line that
is written over while files are on their way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TextIO

from rich.filesize import decimal

from gridtravel.gridio.terminal.text import as_text
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.output.rendering import news_line

if TYPE_CHECKING:
    from gridtravel.gridio.system.clock import Clock

REDRAW_S: Final = 0.2
BAR_WIDTH: Final = 20


class NegotiationLines:
    """A ``Listener`` that writes to a stream. The bar is drawn where the stream is a terminal."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._drawn_at = 0.0
        self._is_bar_open = False

    def __call__(self, news: News) -> None:
        """Write one step."""
        if news.step is Step.STAGING:
            self._draw(news)
            return
        if self._is_bar_open:
            self._stream.write("\r\x1b[K")
            self._is_bar_open = False
        self._stream.write(as_text(news_line(news)) + "\n")
        self._stream.flush()

    def _draw(self, news: News) -> None:
        """The bar of the leg whose files moved last."""
        now, progress = self._clock.now_precise(), news.progress
        is_due = now - self._drawn_at >= REDRAW_S
        if progress is None or not is_due or not self._stream.isatty():
            return
        self._drawn_at = now
        part = progress.bytes_done / max(progress.bytes_total, 1)
        bar = ("=" * round(part * BAR_WIDTH)).ljust(BAR_WIDTH)
        size = f"{decimal(progress.bytes_done)} of {decimal(progress.bytes_total)}"
        line = f"{news.step.value:>11} {as_text(news.place)[:16]}: [{bar}] {size}"
        self._stream.write(f"\r\x1b[K{line[:79]}")
        self._stream.flush()
        self._is_bar_open = True

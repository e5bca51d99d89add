"""Merges what several legs write into whole lines, each marked with its leg.

The characters are the legs' own: whoever shows them to people writes them as text
(``gridio.terminal``).
"""

from __future__ import annotations

import codecs
from typing import Final

from gridtravel.travel_agent.running.jobs import LegChange, LegOutput

LINE_LENGTH_MAX: Final = 4096
"""A line without an end is cut here, so that a leg that writes no newline cannot fill the memory.
"""


class LineMarker:
    """Holds back the unfinished last line of every stream."""

    def __init__(self) -> None:
        self._rests: dict[tuple[str, str], str] = {}
        self._decoders: dict[tuple[str, str], codecs.IncrementalDecoder] = {}

    def lines(self, item: LegOutput | LegChange) -> list[dict[str, str]]:
        """The lines that ``item`` completes."""
        if isinstance(item, LegChange):
            view = item.view
            lines = self._flush(item.leg) if view.state.is_over else []
            reason = f" ({view.reason})" if view.reason else ""
            text = f"job {view.job_id} is {view.state}{reason}"
            return [*lines, {"leg": item.leg, "stream": "state", "text": text}]
        key = (item.leg, item.stream)
        decoder = self._decoders.get(key)
        if decoder is None:
            decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
            self._decoders[key] = decoder
        text = self._rests.get(key, "") + decoder.decode(item.content)
        *whole, rest = text.split("\n")
        while len(rest) > LINE_LENGTH_MAX:
            whole.append(rest[:LINE_LENGTH_MAX])
            rest = rest[LINE_LENGTH_MAX:]
        self._rests[key] = rest
        return [
            {"leg": item.leg, "stream": item.stream, "text": each.rstrip("\r")} for each in whole
        ]

    def _flush(self, leg: str) -> list[dict[str, str]]:
        found = []
        for (name, stream), rest in list(self._rests.items()):
            if name == leg and rest:
                found.append({"leg": leg, "stream": stream, "text": rest.rstrip("\r")})
                self._rests[name, stream] = ""
        return found

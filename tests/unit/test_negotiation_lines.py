"""What a user sees while the travel agent works."""

from __future__ import annotations

import io

from gridtravel.gridio.system.clock import ManualClock
from gridtravel.travel_agent.news import News, Progress, Step
from gridtravel.travel_agent.output.negotiation import NegotiationLines


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It does."""
        return True


def staging(done: int) -> News:
    """Half a gigabyte on its way to the ocean."""
    progress = Progress(bytes_done=done, bytes_total=500_000_000)
    return News(step=Step.STAGING, place="ocean", progress=progress)


def test_a_bar_is_drawn_over_and_gone_in_the_end() -> None:
    """At most five times a second; the line of the end stands alone."""
    clock, terminal = ManualClock(100.0), Terminal()
    lines = NegotiationLines(terminal, clock)
    for done in range(0, 100):
        lines(staging(done * 1_000_000))
        clock.advance(0.01)
    lines(News(step=Step.STAGED, place="ocean", text="1 files sent"))
    shown = terminal.getvalue()
    assert shown.count("\r") == 5 + 1
    assert "[===" in shown
    assert "80.0 MB of 500.0 MB" in shown
    assert shown.endswith("\r\x1b[K     staged ocean: 1 files sent\n")


def test_a_file_gets_no_bar() -> None:
    """What is no terminal gets the steps alone."""
    stream = io.StringIO()
    lines = NegotiationLines(stream, ManualClock(100.0))
    lines(staging(1))
    lines(News(step=Step.STAGED, place="ocean", text="1 files sent"))
    assert stream.getvalue() == "     staged ocean: 1 files sent\n"

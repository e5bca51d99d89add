"""What happened in a simulated world, in order of time: for the story of a failure, and for
counting.

Lines are kept as their parts and become text only when somebody reads them: thousands of worlds are
never read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gridtravel.simulator.kernel.event_text import in_words

LINES_MAX: Final = 200_000
"""Lines kept of one world; the oldest go first."""


class Timekeeper(Protocol):
    """What second of the world it is: a virtual loop, or a reader of old records."""

    is_ending: bool
    """True when the world only clears up."""

    def time(self) -> float:
        """Seconds since the world's beginning."""
        ...


@dataclass(frozen=True, slots=True)
class Line:
    """One happening."""

    at_s: float
    party: str
    template: str
    parts: tuple[Any, ...]

    def text(self) -> str:
        """The line for people: virtual time, who, what."""
        told = self.template.format(*map(in_words, self.parts))
        return f"{self.at_s:12.6f}  {self.party:<10} {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that was broken."""

    rule: str
    """Name of the checker's rule."""
    text: str
    at_s: float
    about: tuple[str, ...] = ()
    """Names (trips, sites, reservations) whose lines belong to the story."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


class EventLog:
    """The lines, the faults that were injected, and the promises that were broken."""

    def __init__(self, loop: Timekeeper) -> None:
        self._loop = loop
        self.lines: list[Line] = []
        self.faults: Counter[str] = Counter()
        """Injected, by kind."""
        self.messages: Counter[str] = Counter()
        """Carried, by verb and direction."""
        self.counts: Counter[str] = Counter()
        """Whatever else is worth a number: outcomes, most of all."""
        self.violations: list[Violation] = []

    def tell(self, party: str, template: str, *parts: Any) -> None:
        """Add a line; ``parts`` must not change afterwards."""
        if len(self.lines) >= LINES_MAX:
            del self.lines[: LINES_MAX // 2]
        self.lines.append(Line(self._loop.time(), party, template, parts))

    def fault(self, kind: str, party: str, template: str, *parts: Any) -> None:
        """Add a line about a fault of a kind, and count it."""
        self.faults[kind] += 1
        self.tell(party, "!! " + template, *parts)

    def broken(self, rule: str, text: str, *about: str) -> None:
        """A promise is broken. Not any more once the world is over, and only clears up."""
        if self._loop.is_ending:
            return
        violation = Violation(rule=rule, text=text, at_s=self._loop.time(), about=about)
        if all((each.rule, each.text) != (rule, text) for each in self.violations):
            self.violations.append(violation)
            self.tell(about[0] if about else "checker", "** BROKEN: {}: {}", rule, text)

    def story(self, about: Iterable[str] = (), *, lines_max: int = 400) -> list[str]:
        """The lines for people, all or those that name one of ``about``; the latest ones."""
        names = tuple(about)
        texts = [line.text() for line in self.lines]
        if names:
            texts = [text for text in texts if "!!" in text or any(each in text for each in names)]
        if len(texts) > lines_max:
            left_out = len(texts) - lines_max
            return [f"      ... {left_out} earlier lines", *texts[-lines_max:]]
        return texts

"""Who could hear whom in a world, and who did: what really kept a question from its answer.

The world writes down when each party was gone (dead, paused, its disk slow), which partitions there
were, and each message about a trip's outcome that was lost or heard. A checker asks it whether a
site may not have known better; it never believes the site.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from gridtravel.simulator.kernel.event_log import Timekeeper

STILL_OPEN: Final = float("inf")
SETTLED_WITHIN_S: Final = 17.0
"""So long a majority must have been within reach at a stretch before a site is expected to know
better: one question that went unanswered (its deadline is 15 s) and one that did not.
"""
LOSSES_LEAST: Final = 3
"""So many of a site's messages about outcomes must have been lost, doubled deadlines and all,
before it may say that it was the network.
"""


@dataclass(slots=True)
class _Span:
    parties: frozenset[str]
    """One party that is gone, or one side of a partition."""
    begins_s: float
    ends_s: float = STILL_OPEN


@dataclass(slots=True)
class ContactLog:
    """See the module. Times are virtual seconds."""

    time: Timekeeper
    _gone: dict[tuple[str, str], _Span] = field(default_factory=dict)
    """Open spans by (party, why)."""
    _cuts: dict[str, _Span] = field(default_factory=dict)
    """Open partitions by name."""
    _absences: list[_Span] = field(default_factory=list)
    _partitions: list[_Span] = field(default_factory=list)
    _heard: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """By listener: when, and which acceptor."""
    _lost: dict[str, list[float]] = field(default_factory=dict)
    """By party that sent or should have heard."""

    # -- what the world writes down ----------------------------------------------------------------

    def gone(self, party: str, why: str) -> None:
        """From now on the party does nothing."""
        if (party, why) not in self._gone:
            span = _Span(frozenset({party}), self.time.time())
            self._gone[party, why] = span
            self._absences.append(span)

    def back(self, party: str, why: str) -> None:
        """From now on it does, as far as this goes."""
        span = self._gone.pop((party, why), None)
        if span is not None:
            span.ends_s = self.time.time()

    def cut(self, name: str, side: frozenset[str]) -> None:
        """A partition begins."""
        self.mended(name)
        self._cuts[name] = span = _Span(side, self.time.time())
        self._partitions.append(span)

    def mended(self, name: str) -> None:
        """It is over."""
        span = self._cuts.pop(name, None)
        if span is not None:
            span.ends_s = self.time.time()

    def all_mended(self) -> None:
        """No partition is left."""
        for name in list(self._cuts):
            self.mended(name)

    def lost(self, one: str, other: str) -> None:
        """A message about an outcome between the two never came, or came late."""
        for party in (one, other):
            self._lost.setdefault(party, []).append(self.time.time())

    def heard(self, listener: str, speaker: str) -> None:
        """An answer about an outcome came."""
        self._heard.setdefault(listener, []).append((self.time.time(), speaker))

    # -- what the checkers ask ---------------------------------------------------------------------

    def why_unheard(
        self, site: str, acceptors: Sequence[str], from_s: float, until_s: float
    ) -> str:
        """Why ``site`` may not have learned an outcome from ``acceptors`` between the two seconds;
        empty: it should have.
        """
        if self._longest_reach_s(site, acceptors, from_s, until_s) < SETTLED_WITHIN_S:
            return "away or cut off"
        losses = [at for each in {site, *acceptors} for at in self._lost.get(each, ())]
        if sum(from_s <= at <= until_s for at in losses) < LOSSES_LEAST:
            return ""
        heard = {who for at, who in self._heard.get(site, ()) if from_s <= at <= until_s}
        heard |= {site} & set(acceptors)
        if len(heard & set(acceptors)) < len(acceptors) // 2 + 1:
            return "heard no majority"
        return "messages lost before all was settled"

    def was_gone(self, party: str, from_s: float, until_s: float) -> bool:
        """True when the party was dead, paused or without its disk at any moment between."""
        return any(
            party in each.parties and each.begins_s <= until_s and each.ends_s >= from_s
            for each in self._absences
        )

    def _longest_reach_s(
        self, site: str, acceptors: Sequence[str], from_s: float, until_s: float
    ) -> float:
        """The longest stretch in which the site lived, and so did a majority within its reach."""
        spans = [*self._absences, *self._partitions]
        edges = sorted(
            {from_s, until_s, *_within([s.begins_s for s in spans], from_s, until_s)}
            | {*_within([s.ends_s for s in spans], from_s, until_s)}
        )
        longest_s = stretch_s = 0.0
        for begins_s, ends_s in pairwise(edges):
            middle_s = (begins_s + ends_s) / 2
            is_there = self._reaches(site, acceptors, middle_s)
            stretch_s = stretch_s + ends_s - begins_s if is_there else 0.0
            longest_s = max(longest_s, stretch_s)
        return longest_s

    def _reaches(self, site: str, acceptors: Sequence[str], at_s: float) -> bool:
        gone = {
            party
            for each in self._absences
            if each.begins_s <= at_s < each.ends_s
            for party in each.parties
        }
        sides = [each.parties for each in self._partitions if each.begins_s <= at_s < each.ends_s]
        if site in gone:
            return False
        near = [
            each
            for each in acceptors
            if each not in gone and all((site in side) == (each in side) for side in sides)
        ]
        return len(near) >= len(acceptors) // 2 + 1


def _within(times: Iterable[float], from_s: float, until_s: float) -> Iterable[float]:
    return (each for each in times if from_s < each < until_s)

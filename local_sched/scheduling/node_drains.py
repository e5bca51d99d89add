"""Reservations of particular nodes, and how jobs are kept off those nodes.

Calendars count; names are chosen when a job starts. A reservation of named nodes takes its number
out of the count like any other, and that alone would not do: whoever starts before it and ends
after its begin must get other nodes, and whether enough of those are idle then no count can tell.
So the nodes *drain*::

count    |        drain        |     reservation     |
             drain_from          start                  end

From ``drain_from``, the longest limit of any job before the start, the named nodes are out of the
count as well, and starts get other nodes. What started earlier is over by its limit when the
reservation begins, wherever it runs. So both hold without a search over names: the plan never needs
a named node during the drain, and none of them is in use at the start.

A job that runs on a named node already takes that node's part of the drain with it, so nothing is
counted twice, and idle nodes that drain may be used by jobs that end in time (``pool``).

A reservation that was there before may leave too little for the whole drain. Then it begins later
for some nodes; until then they are like any others, since nothing else can start that would run
past the moment where nodes are short. That is sound only while what leaves none free ends before
the start, so the other case is refused (``fixed_nodes``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.timing.instants import Instant


@dataclass(slots=True, kw_only=True)
class NodeDrain:
    """The nodes of one reservation, bit *i* for node *i*, and how they are cleared for it."""

    reservation_id: str
    mask: int
    start: Instant
    end: Instant
    drain_from: Instant
    kept_from: dict[int, Instant] = field(default_factory=dict)
    """Node -> since when the drain has it booked, until ``start``."""
    excused: int = 0
    """Failed nodes that are missing already, and so not taken out for the reservation again."""


class NodeDrains:
    """All drains of one class on its profile. Owned by its resource pool."""

    __slots__ = ("_busy_until", "_down", "_drains", "_profile", "are_any")

    def __init__(self, profile: AvailabilityProfile) -> None:
        self._profile = profile
        self._drains: dict[str, NodeDrain] = {}
        self.are_any = False
        """True where there is a drain to think of; almost never, and asked in every cycle."""
        self._busy_until: dict[int, Instant] = {}
        """Node -> end of the booked time of the job on it; only nodes of these drains."""
        self._down = 0

    def __contains__(self, reservation_id: object) -> bool:
        return reservation_id in self._drains

    def __iter__(self) -> Iterator[NodeDrain]:
        return iter(self._drains.values())

    # -- what happens ------------------------------------------------------------------------------

    def add(
        self,
        drain: NodeDrain,
        jobs: Iterable[tuple[int, Instant]],
        down: int,
        now: Instant,
    ) -> None:
        """A reservation that is booked in the profile gets its nodes. ``jobs``: nodes and end of
        what runs; ``down``: nodes that have failed.
        """
        self._drains[drain.reservation_id] = drain
        self.are_any = True
        drain.kept_from = dict.fromkeys(bits(drain.mask), drain.start)
        for mask, until in jobs:
            self._busy_until.update(dict.fromkeys(bits(mask & drain.mask), until))
        self._down = down
        self.settle(now)

    def drop(self, reservation_id: str) -> None:
        """The reservation is over or cancelled; its drain is free again."""
        drain = self._drains.pop(reservation_id)
        self.are_any = bool(self._drains)
        self._withhold(drain, drain.excused.bit_count())
        for node, kept in drain.kept_from.items():
            self._release(1, kept, drain.start)
            if not any(other.mask >> node & 1 for other in self):
                self._busy_until.pop(node, None)

    def occupied(self, mask: int, until: Instant, now: Instant) -> None:
        """A job has these nodes until then; said again when it stays longer."""
        touched = mask & self._all
        if touched:
            self._busy_until.update(dict.fromkeys(bits(touched), until))
            self.settle(now)

    def vacated(self, mask: int, now: Instant) -> None:
        """The job on these nodes is gone."""
        touched = mask & self._all
        if touched:
            for node in bits(touched):
                self._busy_until.pop(node, None)
            self.settle(now)

    def failed(self, down: int, now: Instant) -> None:
        """Which nodes are down from now on."""
        self._down = down
        self.settle(now)

    def set_back(self, now: Instant) -> None:
        """The profile was made anew with the reservations, and without their drains."""
        for drain in self:
            drain.kept_from = dict.fromkeys(bits(drain.mask), drain.start)
            drain.excused = 0
        self.settle(now)

    def settle(self, now: Instant) -> None:
        """Bring every drain to what its nodes do, as far as nodes are free."""
        for drain in self:
            self._excuse(drain, now)
            if now >= drain.start:
                continue
            wanting: dict[tuple[Instant, Instant], list[int]] = {}
            for node, kept in drain.kept_from.items():
                wanted = self._wanted(drain, node)
                if wanted > kept:
                    self._release(1, kept, wanted)
                    drain.kept_from[node] = wanted
                elif wanted < kept and kept > self._profile.origin:
                    wanting.setdefault((wanted, kept), []).append(node)
            for (wanted, kept), nodes in wanting.items():
                self._extend(drain, nodes, wanted, kept)

    # -- what follows ------------------------------------------------------------------------------

    def closed(self, now: Instant) -> int:
        """Nodes that the plan leaves out now: they drain, or their reservation is running."""
        running = (each.mask for each in self if each.start <= now < each.end)
        return self.draining(now) | _union(running)

    def draining(self, now: Instant) -> int:
        """Nodes whose drain has begun and whose reservation has not."""
        ahead = (each.kept_from.items() for each in self if now < each.start)
        return _union(1 << node for nodes in ahead for node, kept in nodes if kept <= now)

    def barred(self, now: Instant, until: Instant) -> int:
        """Nodes whose reservation overlaps ``[now, until)``."""
        return _union(each.mask for each in self if now < each.end and each.start < until)

    def own(self, reservation_id: str) -> int | None:
        """The nodes of a reservation that has named ones."""
        drain = self._drains.get(reservation_id)
        return None if drain is None else drain.mask

    def ends_before(self, drain: NodeDrain, node: int) -> Instant:
        """When the last other reservation of a node is over that comes before this one; 0: none."""
        return max(
            (each.end for each in self if each.mask >> node & 1 and each.end <= drain.start),
            default=0,
        )

    # -- inside ------------------------------------------------------------------------------------

    @property
    def _all(self) -> int:
        return _union(each.mask for each in self)

    def _wanted(self, drain: NodeDrain, node: int) -> Instant:
        if self._down >> node & 1:
            return drain.start
        wanted = max(drain.drain_from, self._busy_until.get(node, 0), self.ends_before(drain, node))
        return min(drain.start, wanted)

    def _extend(self, drain: NodeDrain, nodes: list[int], wanted: Instant, kept: Instant) -> None:
        """Let as many of the nodes as can be spared drain from ``wanted`` on, the others from
        later on.
        """
        profile = self._profile
        later = [each for each in profile.times if wanted < each < kept]
        for at in [max(wanted, profile.origin), *later]:
            availability = min(len(nodes), profile.min_free(at, kept))
            if availability <= 0:
                continue
            profile.book(availability, at, kept)
            drain.kept_from.update(dict.fromkeys(nodes[:availability], at))
            nodes = nodes[availability:]
            if not nodes:
                return

    def _excuse(self, drain: NodeDrain, now: Instant) -> None:
        """A failed node is missing for good; it must not be missing for the reservation as well."""
        failed = drain.mask & self._down
        if failed == drain.excused:
            return
        more = (failed & ~drain.excused).bit_count()
        self._release(more, max(drain.start, now), drain.end)
        self._withhold(drain, (drain.excused & ~failed).bit_count())
        drain.excused = failed

    def _withhold(self, drain: NodeDrain, nodes: int) -> None:
        start = max(drain.start, self._profile.origin)
        if start < drain.end:
            self._profile.withdraw(nodes, start, drain.end)

    def _release(self, nodes: int, start: Instant, end: Instant) -> None:
        start = max(start, self._profile.origin)
        if start < end:
            self._profile.unbook(nodes, start, end)


def bits(mask: int) -> Iterator[int]:
    """The nodes of a mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _union(masks: Iterable[int]) -> int:
    found = 0
    for each in masks:
        found |= each
    return found

"""The most naive calendar there is: for each second and class a number of free nodes, and a dict of
entries. It searches by trying everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gridtravel.gridcore.booking.calendar_rules import CalendarRules, ResourceClass
from gridtravel.gridcore.booking.reservations import DeclineRule, ReservationRequest

SECONDS = 600
"""Length of the arrays; no test looks further ahead."""


@dataclass(frozen=True)
class PerClassTariff:
    """So many millicredits for a node-second, by class."""

    prices: tuple[tuple[str, int], ...]

    price_step_s: int = 0

    def unit_price_millicredits(self, resource_class: str, start: int, duration_s: int) -> int:
        """One node for the whole duration."""
        return dict(self.prices)[resource_class] * duration_s

    def highest_millicredits_per_node_hour(self, resource_class: str) -> int:
        """The price of an hour."""
        return self.unit_price_millicredits(resource_class, 0, 3600)


@dataclass
class Entry:
    """What the model knows of a reservation."""

    owner: str
    request: ReservationRequest
    resource_class: str
    nodes: int
    start: int
    state: str
    expires_at: int | None = None
    replaces: str | None = None
    """While it is a hold that is to replace another entry."""
    requests: list[ReservationRequest] = field(default_factory=list)
    """All that were ever granted for it."""
    finished_at: int = 0
    taken: dict[int, int] = field(default_factory=dict)
    """Second -> nodes that it has taken out of the room."""

    @property
    def end(self) -> int:
        return self.start + self.request.duration_s

    @property
    def is_live(self) -> bool:
        return self.state in ("HELD", "COMMITTED")

    def is_running(self, now: int) -> bool:
        """True for what is committed, within its time."""
        return self.state == "COMMITTED" and self.start <= now < self.end


@dataclass(frozen=True)
class Found:
    """One possible start in one class."""

    start: int
    unit_price: int
    nodes: int
    """Free throughout, and paid by the budget."""
    free: int
    """Free throughout."""
    resource_class: str


class CalendarModel:
    """Free nodes by class and second, and entries by id."""

    def __init__(
        self, classes: list[ResourceClass], rules: CalendarRules, tariff: PerClassTariff
    ) -> None:
        self.classes, self.rules, self.tariff = classes, rules, tariff
        self.availability = {each.name: [each.nodes] * SECONDS for each in classes}
        self.entries: dict[str, Entry] = {}
        self.tombstoned: dict[tuple[str, str], int] = {}
        self.granted = 0
        self.origin = 0

    # -- searches ----------------------------------------------------------------------------------

    def fitting(self, request: ReservationRequest) -> list[ResourceClass]:
        """Classes with all features asked for."""
        return [each for each in self.classes if not set(request.features) - set(each.features)]

    def room_without(self, old_id: str | None) -> dict[str, list[int]]:
        """The room as if one entry were not there."""
        availability = {name: list(free) for name, free in self.availability.items()}
        if old_id is not None:
            old = self.entries[old_id]
            for second, nodes in old.taken.items():
                availability[old.resource_class][second] += nodes
        return availability

    def starts(
        self, request: ReservationRequest, soonest: int, latest_end: int, old_id: str | None
    ) -> list[Found]:
        """Every second at which at least one node fits, by start, price, size and name."""
        availability, found = self.room_without(old_id), []
        for each in self.fitting(request):
            unit = self.tariff.unit_price_millicredits(each.name, 0, request.duration_s)
            for start in range(max(soonest, self.origin), latest_end - request.duration_s + 1):
                second_by_second = availability[each.name][start : start + request.duration_s]
                free = min(*second_by_second, request.nodes_max)
                if free > 0:
                    paid = self.paid(request, unit, free)
                    found.append(Found(start, unit, paid, free, each.name))
        return sorted(
            found, key=lambda one: (one.start, one.unit_price, -one.free, one.resource_class)
        )

    def paid(self, request: ReservationRequest, unit: int, free: int) -> int:
        """How many nodes can be paid, one by one."""
        budget = request.budget_millicredits
        nodes = 0
        while nodes < free and (budget is None or (nodes + 1) * unit <= budget):
            nodes += 1
        return nodes

    def possible(
        self, request: ReservationRequest, now: int, lead_s: int, old_id: str | None
    ) -> list[Found]:
        """What may be offered."""
        soonest = max(request.earliest_start, now + lead_s)
        latest_end = min(request.latest_end, now + self.rules.horizon_s)
        found = self.starts(request, soonest, latest_end, old_id)
        return [one for one in found if one.nodes >= request.nodes_min]

    def given_back(self, request: ReservationRequest, now: int, old_id: str) -> Found:
        """What a change leaves of an entry that needs nothing beside it. It is granted also where
        the same from anybody else would not be: beyond the horizon, or where nodes have failed.
        """
        old = self.entries[old_id]
        end = old.start + request.duration_s
        assert request.earliest_start <= old.start, "only what lies within the old one"
        assert end <= min(old.start + old.request.duration_s, request.latest_end)
        assert now < end
        (only,) = (each for each in self.fitting(request) if each.name == old.resource_class)
        price = self.tariff.unit_price_millicredits(only.name, 0, request.duration_s)
        nodes = min(old.nodes, request.nodes_max)
        if request.budget_millicredits is not None and price:
            nodes = min(nodes, request.budget_millicredits // price)
        assert nodes >= request.nodes_min
        return Found(old.start, price, nodes, nodes, only.name)

    def refusal(
        self, request: ReservationRequest, now: int, lead_s: int, old_id: str | None
    ) -> tuple[DeclineRule, int | None, int]:
        """Rule, earliest and nodes_now of a request for which nothing is possible."""
        soonest = max(request.earliest_start, now + lead_s)
        horizon = now + self.rules.horizon_s
        ever = self.starts(request, soonest, horizon, old_id)
        within = [one for one in ever if one.start + request.duration_s <= request.latest_end]
        earliest = min((one.start for one in ever if one.nodes >= request.nodes_min), default=None)
        nodes_now = max((one.nodes for one in within), default=0)
        sizes = [each.nodes for each in self.fitting(request)]
        if not sizes:
            rule = DeclineRule.FEATURES
        elif request.nodes_min > max(sizes):
            rule = DeclineRule.TOO_LARGE
        elif request.latest_end <= now:
            rule = DeclineRule.WINDOW_PAST
        elif soonest + request.duration_s > horizon:
            rule = DeclineRule.BEYOND_HORIZON
        elif soonest + request.duration_s > request.latest_end:
            rule = DeclineRule.START_TOO_SOON
        elif any(one.free >= request.nodes_min for one in within):
            rule = DeclineRule.BUDGET
        else:
            rule = DeclineRule.NO_ROOM
        return rule, earliest, nodes_now

    def running_nodes(self, entry_id: str, request: ReservationRequest, now: int) -> int:
        """Most nodes that a running entry could have from now on with this request; 0: none."""
        entry = self.entries[entry_id]
        end = entry.start + request.duration_s
        if entry.start < request.earliest_start or request.latest_end < end or end <= now:
            return 0
        if entry.resource_class not in [each.name for each in self.fitting(request)]:
            return 0
        if end > now + self.rules.horizon_s:
            return 0
        free = self.room_without(entry_id)[entry.resource_class]
        if now < self.origin:
            return 0
        unit = self.tariff.unit_price_millicredits(entry.resource_class, 0, request.duration_s)
        return self.paid(request, unit, min(free[now:end]))

    def heard(self, owner: str, request_id: str) -> tuple[str, ReservationRequest] | None:
        """The entry that a request was granted for."""
        for entry_id, entry in self.entries.items():
            for request in entry.requests:
                if (entry.owner, request.request_id) == (owner, request_id):
                    return entry_id, request
        return None

    def successor(self, entry_id: str) -> str | None:
        """The hold that is to replace an entry."""
        for other_id, other in self.entries.items():
            if other.state == "HELD" and other.replaces == entry_id:
                return other_id
        return None

    # -- changes -----------------------------------------------------------------------------------

    def put(self, entry: Entry, second: int, nodes: int) -> None:
        """Let an entry take so many nodes at one second."""
        self.availability[entry.resource_class][second] += entry.taken.pop(second, 0) - nodes
        entry.taken[second] = nodes

    def grant(self, entry_id: str, entry: Entry) -> None:
        """Take the room of a new entry."""
        old = self.entries.get(entry.replaces or "")
        entry.requests.append(entry.request)
        for second in range(entry.start, entry.end):
            covered = 0
            if old is not None and old.resource_class == entry.resource_class:
                covered = old.taken.get(second, 0)
            self.put(entry, second, max(0, entry.nodes - covered))
        self.entries[entry_id] = entry
        self.granted += 1

    def end_entry(self, entry_id: str, state: str, at: int) -> None:
        """Give back the room from `at` on; the hold that was to replace it now stands alone."""
        entry, successor_id = self.entries[entry_id], self.successor(entry_id)
        for second in [one for one in entry.taken if one >= at]:
            self.put(entry, second, 0)
        entry.state, entry.finished_at, entry.replaces = state, at, None
        if successor_id is not None:
            successor = self.entries[successor_id]
            successor.replaces = None
            for second in range(max(at, successor.start), successor.end):
                self.put(successor, second, successor.nodes)

    def move(
        self,
        entry_id: str,
        request: ReservationRequest,
        resource_class: str,
        nodes: int,
        start: int,
        at: int,
    ) -> None:
        """Another window or size from `at` on."""
        entry = self.entries[entry_id]
        for second in [one for one in entry.taken if one >= at]:
            self.put(entry, second, 0)
            del entry.taken[second]
        entry.request, entry.nodes, entry.start = request, nodes, start
        entry.resource_class = resource_class
        entry.requests.append(request)
        for second in range(max(at, start), entry.end):
            self.put(entry, second, nodes)

    def forget(self, before: int) -> None:
        """Drop old tombstones."""
        self.entries = {
            key: entry
            for key, entry in self.entries.items()
            if entry.is_live or entry.finished_at >= before
        }
        self.tombstoned = {key: at for key, at in self.tombstoned.items() if at >= before}

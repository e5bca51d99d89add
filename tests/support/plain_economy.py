"""The policies of the economy as plainly as they can be written, to hold the production classes to:
one list of tasks, every sum made anew, every node walked from one moment to the next.

Straight from the published conventions of the exchange of decisions; it shares no code with the
product. Nothing here is fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

SETTLED = 0.001


class Row(NamedTuple):
    """A line of a workload."""

    job: str
    submit: float
    run: float
    estimate: float
    procs: int
    deadline: float
    budget: float


@dataclass
class Task:
    """A row's part on one node."""

    row: Row
    rank: int
    had: float = 0.0
    rate: float = 0.0

    @property
    def left(self) -> float:
        """Estimate left; at most a millisecond counts as none."""
        left = self.row.estimate - self.had
        return 0.0 if left <= SETTLED else left

    def need(self, now: float) -> float:
        """Estimate left by time left; past either, as on the first day."""
        if self.left == 0 or now >= self.row.deadline:
            return self.row.estimate / (self.row.deadline - self.row.submit)
        return self.left / (self.row.deadline - now)


@dataclass
class Decision:
    """What became of a row."""

    cost: float | None = None
    ends: list[float] = field(default_factory=list)

    @property
    def end(self) -> float | None:
        """The latest end of its tasks."""
        return max(self.ends, default=None)


class PlainSite:
    """Nodes with tasks; subclasses say who comes in and who gets how much."""

    def __init__(self, procs: int) -> None:
        self.nodes: list[list[Task]] = [[] for _ in range(procs)]
        self.at = [0.0] * procs
        self.decisions: dict[str, Decision] = {}

    # What policies differ in.

    def choose(self, row: Row, now: float) -> tuple[float, list[int]] | None:
        """Cost and nodes, or no."""
        raise NotImplementedError

    def share(self, tasks: list[Task], now: float) -> None:
        """Set the rates of a node."""
        raise NotImplementedError

    def next_of_policy(self, tasks: list[Task], now: float) -> float:
        """When estimates are used up or deadlines pass."""
        moments = [task.row.deadline for task in tasks if task.row.deadline > now]
        for task in tasks:
            # To the end, and not to its last millisecond: at a small rate that can last a second,
            # and what is decided elsewhere meanwhile must not make a difference.
            left = task.row.estimate - task.had
            if left > 1e-7 and task.rate > 0:
                moments.append(now + left / task.rate)
        return min(moments, default=float("inf"))

    # What they have in common.

    def decide(self, rows: list[Row]) -> dict[str, Decision]:
        """All rows in their order; then everything runs to its end."""
        for rank, row in enumerate(rows):
            self.walk_to(row.submit)
            decision = self.decisions[row.job] = Decision()
            chosen = self.choose(row, row.submit)
            if chosen is not None:
                decision.cost, numbers = chosen
                for number in numbers:
                    self.nodes[number].append(Task(row, rank))
                    self.share(self.nodes[number], row.submit)
        self.walk_to(float("inf"))
        return self.decisions

    def walk_to(self, until: float) -> None:
        """Every node from event to event."""
        for number, tasks in enumerate(self.nodes):
            while tasks:
                now = self.at[number]
                ends = [now + (task.row.run - task.had) / task.rate for task in tasks if task.rate]
                event = min([*ends, self.next_of_policy(tasks, now)])
                step = min(event, until)
                for task in tasks:
                    task.had += task.rate * (step - now)
                self.at[number] = step
                over = [task for task in tasks if task.row.run - task.had <= SETTLED]
                for task in over:
                    tasks.remove(task)
                    self.decisions[task.row.job].ends.append(step)
                if over or event <= until:
                    self.share(tasks, step)
                if event > until and not over:
                    break
            if until < float("inf"):
                self.at[number] = until


class PlainLibra(PlainSite):
    """Least loaded nodes, price RE + RE/D."""

    def __init__(self, procs: int, *, strict: bool = False) -> None:
        super().__init__(procs)
        self.strict = strict

    def share(self, tasks: list[Task], now: float) -> None:
        needs = [task.need(now) for task in tasks]
        whole = sum(needs)
        for task, need in zip(tasks, needs, strict=True):
            task.rate = need if self.strict and whole <= 1 else need / whole

    def load(self, number: int, now: float) -> float:
        """Sum of the needs of a node."""
        return sum(task.need(now) for task in self.nodes[number])

    def can_finish(self, number: int, row: Row, now: float) -> bool:
        """Are there shares left for it?"""
        patience = row.deadline - row.submit
        return patience > 0 and row.estimate / patience + self.load(number, now) <= 1 + 1e-6

    def choose(self, row: Row, now: float) -> tuple[float, list[int]] | None:
        if row.deadline <= row.submit:
            return None
        cost = row.estimate + row.estimate / (row.deadline - row.submit)
        if cost > row.budget:
            return None
        able = [each for each in range(len(self.nodes)) if self.can_finish(each, row, now)]
        able.sort(key=lambda each: (round(self.load(each, now) * 1_000_000), each))
        return (cost, able[: row.procs]) if len(able) >= row.procs else None


class PlainLibraDollar(PlainLibra):
    """Algorithm 1."""

    def __init__(
        self, procs: int, *, strict: bool = False, beta: float = 0.1, window: bool = False
    ) -> None:
        super().__init__(procs, strict=strict)
        self.beta = beta
        self.window = window

    def res_free(self, number: int, row: Row, now: float) -> float:
        """What the job would leave of the node."""
        free = (row.deadline - row.submit) - row.estimate
        for task in self.nodes[number]:
            if self.window:
                free -= task.need(now) * max(min(task.row.deadline, row.deadline) - now, 0)
            else:
                free -= task.row.estimate
        return free

    def choose(self, row: Row, now: float) -> tuple[float, list[int]] | None:
        patience = row.deadline - row.submit
        deadline_list = []
        for number in range(len(self.nodes)):
            if self.can_finish(number, row, now):
                free = self.res_free(number, row, now)
                if free > 1e-6 * patience:
                    deadline_list.append((round(free * 10), number, free))
        if len(deadline_list) < row.procs:
            return None
        allocation = []
        for _, number, free in sorted(deadline_list):
            cost = row.estimate * (1 + self.beta * patience / free)
            if cost <= row.budget:
                allocation.append((cost, number))
        allocation = allocation[: row.procs]
        if len(allocation) < row.procs:
            return None
        return max(cost for cost, _ in allocation), [number for _, number in allocation]


class PlainEdfDollar(PlainLibraDollar):
    """Demand bound, one task at a time."""

    def __init__(self, procs: int, *, beta: float = 0.3) -> None:
        super().__init__(procs, beta=beta)

    def share(self, tasks: list[Task], now: float) -> None:
        for task in tasks:
            task.rate = 0.0
        if tasks:
            in_time = [task for task in tasks if task.row.deadline > now]
            first = min(in_time or tasks, key=lambda task: (task.row.deadline, task.rank))
            first.rate = 1.0

    def can_finish(self, number: int, row: Row, now: float) -> bool:
        return all(
            due <= (deadline - now) * (1 + 1e-6) for deadline, due in self.bounds(number, row, now)
        )

    def bounds(self, number: int, row: Row, now: float) -> list[tuple[float, float]]:
        """Each deadline with the work due by it, ours included; late tasks are nobody's demand."""
        work = [(row.deadline, row.estimate)]
        work += [
            (task.row.deadline, task.left) for task in self.nodes[number] if task.row.deadline > now
        ]
        return [
            (deadline, sum(left for by, left in work if by <= deadline)) for deadline, _ in work
        ]

    def res_free(self, number: int, row: Row, now: float) -> float:
        return min(
            deadline - now - due
            for deadline, due in self.bounds(number, row, now)
            if deadline >= row.deadline
        )


def plain_backfilling(rows: list[Row], procs: int, order: str) -> dict[str, Decision]:
    """EASY in the order of ``submit``, ``estimate`` or ``deadline``, whoever is late leaves."""

    def thousandths(seconds: float) -> int:
        return round(seconds * 1000)

    decisions = {row.job: Decision() for row in rows}
    coming = [(rank, row) for rank, row in enumerate(rows) if row.procs <= procs]
    queue: list[tuple[int, Row]] = []
    running: list[tuple[int, int, Row]] = []  # true end, expected end, row
    while coming or running:
        now = min(
            [end for end, _, _ in running] + [thousandths(row.submit) for _, row in coming[:1]]
        )
        running = [each for each in running if each[0] > now]
        while coming and thousandths(coming[0][1].submit) == now:
            queue.append(coming.pop(0))
        queue = [(rank, row) for rank, row in queue if thousandths(row.deadline) >= now]
        queue.sort(key=lambda each: (getattr(each[1], order), each[0]))

        free = procs - sum(row.procs for _, _, row in running)
        reserved_at = spare = None
        waiting = []
        for rank, row in queue:
            expected = now + thousandths(row.estimate)
            if reserved_at is None and row.procs <= free:
                fits = True
            elif reserved_at is None:
                # The first that does not fit gets the reservation.
                ends = sorted({max(by, now) for _, by, _ in running})
                for reserved_at in ends:
                    then = free + sum(
                        each.procs for _, by, each in running if max(by, now) <= reserved_at
                    )
                    if then >= row.procs:
                        spare = then - row.procs
                        break
                fits = False
            else:
                assert spare is not None
                fits = row.procs <= free and (expected <= reserved_at or row.procs <= spare)
                if fits and expected > reserved_at:
                    spare -= row.procs
            if not fits:
                waiting.append((rank, row))
                continue
            free -= row.procs
            end = now + thousandths(row.run)
            running.append((end, expected, row))
            decisions[row.job] = Decision(row.estimate, [end / 1000])
        queue = waiting
    return decisions

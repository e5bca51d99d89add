"""The nodes of one class that several jobs share, who is on them, and how much each task gets.

What a profile and a queue are to a class of whole nodes. Nobody waits here and nothing is planned:
an admitted job is on its nodes from then on, also before it has been launched, so that the next
admission counts it. Rates are recomputed when a task joins or leaves a node, when its processor
time is measured, and when the policy says that time alone changes them; never in between. Nodes do
not affect each other: one that nothing happens to is brought up to date when somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, Refused
from gridtravel.local_sched.policies.shared_nodes import (
    NEVER,
    SharedNode,
    SharedTask,
    SharingPolicy,
    task_of,
)


@dataclass(frozen=True, slots=True)
class SharedJob:
    """An admitted job of a shared class."""

    job: PolicyJob
    terms: Admitted
    tasks: dict[int, SharedTask] = field(default_factory=dict)
    """Those that are not over, by the number of their node."""


class SharedClass:
    """Mutable, with one owner. Instants are seconds with their fraction and never run backwards: an
    earlier one than the last counts as that.

    Bounds: an admission takes time in proportion to the nodes and their tasks; a task's join, end
    or measurement in proportion to the tasks of its node.
    """

    def __init__(
        self,
        name: str,
        node_names: Sequence[str],
        policy: SharingPolicy,
        features: Iterable[str] = (),
        *,
        memory_mb: float = NEVER,
        disk_mb: float = NEVER,
    ) -> None:
        self.name = name
        self.node_names = tuple(node_names)
        self.policy = policy
        self.features = frozenset(features)
        self.nodes = [
            SharedNode(number=number, memory_mb=memory_mb, disk_mb=disk_mb)
            for number in range(len(self.node_names))
        ]
        self.jobs: dict[str, SharedJob] = {}
        """Whoever has a task that is not over, by id."""
        self._due = [NEVER] * len(self.nodes)
        """When time alone changes the rates of each node."""
        self._heap: list[tuple[float, int]] = []
        """``_due`` with the numbers, earliest first; entries that differ from it are stale."""
        self._touched: dict[int, None] = {}
        """Nodes with new rates since ``take_changes``."""
        self._told: dict[tuple[str, int], float] = {}
        """The rate of each task as told last."""

    # --- admission ---

    def offer(self, job: PolicyJob, now: float) -> Admitted | Decline:
        """Would the job be admitted, on which terms? Promises nothing. A refusal is a ``Refused``
        with the terms that would pass, and tells them in its message.
        """
        answer = self.decide(job, now)
        if isinstance(answer, Admitted):
            return answer
        passing = self.policy.would_pass(self.nodes, job, now)
        told = " or ".join(
            f"a deadline of {each.deadline:.0f}"
            + ("" if each.budget is None else f" with a budget of {each.budget:.3f}")
            for each in passing
        )
        return Refused(
            rule=answer.rule,
            message=f"{answer.message}; {told or 'nothing'} would pass now",
            nodes_now=answer.nodes_now,
            would_pass=passing,
        )

    def decide(self, job: PolicyJob, now: float) -> Admitted | Decline:
        """The same answer, without the search for what would pass."""
        self.bring_up_to_date(now)
        return self.policy.admit(self.nodes, job, now)

    def join(self, job: PolicyJob, terms: Admitted, now: float) -> None:
        """Its tasks are on the nodes of its terms from now on; nothing when it is there already."""
        if job.job_id in self.jobs:
            return
        self.advance(now)
        # The promise counts from here on, should it be looser than what was asked for.
        if terms.deadline is not None and terms.deadline != job.deadline:
            job = replace(job, deadline=terms.deadline)
        shared = SharedJob(job, terms)
        for number in terms.node_numbers:
            node, task = self.nodes[number], task_of(job)
            _receive(node, now)
            shared.tasks[number] = task
            node.tasks.append(task)
            if len(node.tasks) > 1 and node.tasks[-2].sequence > task.sequence:
                node.tasks.sort(key=lambda each: each.sequence)
            self._divide(node, now)
        self.jobs[job.job_id] = shared

    # --- what happens ---

    def task_ended(self, job_id: str, node_number: int, now: float) -> bool:
        """One task is over. True when its job is gone, or was."""
        shared = self.jobs.get(job_id)
        if shared is None:
            return True
        task = shared.tasks.pop(node_number, None)
        if task is not None:
            self.advance(now)
            node = self.nodes[node_number]
            _receive(node, now)
            node.tasks.remove(task)
            self._told.pop((job_id, node_number), None)
            self._divide(node, now)
        if not shared.tasks:
            del self.jobs[job_id]
        return not shared.tasks

    def leave(self, job_id: str, now: float) -> None:
        """The whole job is gone: it ended, was cancelled or killed."""
        shared = self.jobs.get(job_id)
        for number in list(shared.tasks) if shared is not None else ():
            self.task_ended(job_id, number, now)

    def measured(self, job_id: str, node_number: int, received_s: float, now: float) -> None:
        """The processor time that a task has really had; its node is divided anew by it."""
        shared = self.jobs.get(job_id)
        task = None if shared is None else shared.tasks.get(node_number)
        if task is None:
            return
        self.advance(now)
        node = self.nodes[node_number]
        _receive(node, now)
        task.received_s = received_s
        self._divide(node, now)

    def node_down(self, node_number: int) -> None:
        """Nobody is admitted to it until ``node_up``; what becomes of its tasks is said apart."""
        self.nodes[node_number].is_up = False

    def node_up(self, node_number: int) -> None:
        """Jobs may come to it again."""
        self.nodes[node_number].is_up = True

    # --- time ---

    def advance(self, now: float) -> None:
        """Every change of rates that time alone brings up to now is made, at its own instant."""
        heap, due = self._heap, self._due
        while heap and heap[0][0] <= now:
            at, number = heappop(heap)
            if due[number] == at:
                node = self.nodes[number]
                _receive(node, at)
                self._divide(node, at)

    def bring_up_to_date(self, now: float) -> None:
        """``advance``, and ``received_s`` of every task is right as of now."""
        self.advance(now)
        for node in self.nodes:
            if node.tasks:
                _receive(node, now)
            elif now > node.updated_at:
                node.updated_at = now

    def next_change(self) -> float:
        """When time alone changes a rate; infinity: never, as things stand."""
        heap, due = self._heap, self._due
        while heap and due[heap[0][1]] != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else NEVER

    def take_changes(self) -> dict[str, dict[int, float]]:
        """Rates by job and node number that are others than when this was last asked, first rates
        included; without tasks that are over.
        """
        changes: dict[str, dict[int, float]] = {}
        for number in self._touched:
            for task in self.nodes[number].tasks:
                key = task.job_id, number
                if self._told.get(key) != task.rate:
                    self._told[key] = task.rate
                    changes.setdefault(task.job_id, {})[number] = task.rate
        self._touched.clear()
        return changes

    def take_divided(self) -> list[int]:
        """Numbers of the nodes that were divided anew since ``take_changes`` or this was asked."""
        numbers = list(self._touched)
        self._touched.clear()
        return numbers

    def validate(self) -> None:
        """Assert that nodes and jobs agree and that nobody gets more than there is."""
        on_nodes = {(task.job_id, node.number): task for node in self.nodes for task in node.tasks}
        of_jobs = {
            (job_id, number): task
            for job_id, shared in self.jobs.items()
            for number, task in shared.tasks.items()
        }
        assert on_nodes == of_jobs, "nodes and jobs name other tasks"
        assert all(shared.tasks for shared in self.jobs.values()), "a job without tasks"
        assert self._told.keys() <= on_nodes.keys(), "a rate was told of a task that is over"
        for node in self.nodes:
            assert all(task.rate >= 0 for task in node.tasks), f"node {node.number}: below 0"
            total = sum(task.rate for task in node.tasks)
            assert total <= 1 + 1e-9, f"node {node.number}: {total} of it are divided"
            ranks = [task.sequence for task in node.tasks]
            assert ranks == sorted(ranks), f"node {node.number}: tasks out of order"

    def _divide(self, node: SharedNode, now: float) -> None:
        """New rates for the tasks of a node, which is up to date."""
        number = node.number
        for task, rate in zip(node.tasks, self.policy.rates(node, now), strict=True):
            task.rate = rate
        due = self.policy.next_change(node, now) if node.tasks else NEVER
        if due != self._due[number]:
            self._due[number] = due
            if due < NEVER:
                heappush(self._heap, (due, number))
        self._touched[number] = None


def _receive(node: SharedNode, now: float) -> None:
    """Give the tasks of a node what they had at their rates since it was last looked at."""
    lasted_s = now - node.updated_at
    if lasted_s > 0:
        for task in node.tasks:
            task.received_s += task.rate * lasted_s
        node.updated_at = now

"""A workload on nodes that jobs share: the class and the policy of a live site, in virtual time.

The world owns time and the true run times. It tells the class of arrivals and of tasks that are
over, and asks it when rates change; no rule of sharing is in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from gridtravel.local_sched.policies.policy import Admitted
from gridtravel.local_sched.policies.shared_nodes import NEVER, SETTLED_S, SharingPolicy
from gridtravel.local_sched.sharing.shared_class import SharedClass
from gridtravel.simulator.economy.workload import Decision, EconomyJob


class SharedWorld:
    """One class of ``procs`` nodes and its users. A task is over when it has had its true run time
    but for ``SETTLED_S``.
    """

    def __init__(self, jobs: Sequence[EconomyJob], procs: int, policy: SharingPolicy) -> None:
        self.jobs = jobs
        self.shared = SharedClass("nodes", [str(number) for number in range(procs)], policy)
        self.decisions = [Decision() for _ in jobs]
        self._ends = [NEVER] * procs
        """When the first task of each node is over, at its present rate."""
        self._settled = [NEVER] * procs
        """From when on at most ``SETTLED_S`` of a task is left: whatever happens then ends it."""
        self._heap: list[tuple[float, int]] = []

    def run(self) -> list[Decision]:
        """Decide every job as it comes, and go on until all are over."""
        shared = self.shared
        for sequence, (job, decision) in enumerate(zip(self.jobs, self.decisions, strict=True)):
            now = job.submit
            self._live_until(now)
            for number, settled_at in enumerate(self._settled):
                if settled_at <= now:
                    self._look(number, now)
            self._follow(now)
            told = job.as_told(sequence)
            terms = shared.decide(told, now)
            if isinstance(terms, Admitted):
                decision.cost = terms.price
                shared.join(told, terms, now)
                self._follow(now)
        self._live_until(NEVER)
        return self.decisions

    def _live_until(self, until: float) -> None:
        """Everything that happens up to an instant, in its order."""
        shared, heap, ends = self.shared, self._heap, self._ends
        while True:
            while heap and ends[heap[0][1]] != heap[0][0]:
                heappop(heap)
            end_at = heap[0][0] if heap else NEVER
            change_at = shared.next_change()
            now = min(end_at, change_at)
            if now > until or now == NEVER:
                return
            if end_at <= change_at:
                number = heappop(heap)[1]
                ends[number] = NEVER
                self._look(number, now)
            else:
                shared.advance(now)
            self._follow(now)

    def _follow(self, now: float) -> None:
        """Rates have changed: when are the tasks of those nodes over now?"""
        while numbers := self.shared.take_divided():
            for number in numbers:
                self._look(number, now)

    def _look(self, number: int, now: float) -> None:
        """End what is over on a node, which divides it anew, or see when the next task is over."""
        node, jobs = self.shared.nodes[number], self.jobs
        since_s = now - node.updated_at
        end_at = settled_at = NEVER
        for task in node.tasks:
            rate = task.rate
            left_s = jobs[task.sequence].run_s - task.received_s - rate * since_s
            if left_s <= SETTLED_S:
                if self.shared.task_ended(task.job_id, number, now):
                    self.decisions[task.sequence].end = now
                return
            if rate > 0:
                task_end = now + left_s / rate
                if task_end < end_at:
                    end_at = task_end
                task_end -= SETTLED_S / rate
                if task_end < settled_at:
                    settled_at = task_end
        if end_at != self._ends[number]:
            self._ends[number] = end_at
            if end_at < NEVER:
                heappush(self._heap, (end_at, number))
        self._settled[number] = settled_at

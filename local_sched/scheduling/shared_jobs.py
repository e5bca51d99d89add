"""The shared classes of a site and the scheduler's jobs on them.

A job is on its nodes from its admission on and starts in the next cycle; nobody waits, nothing is
planned, and no reservation is made here. It ends when its processes do, or at its deadline,
whatever its limit. Moments are exact, in seconds with their fraction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import JobState, JobTerms
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob
from gridtravel.local_sched.policies.shared_nodes import NEVER
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason
from gridtravel.local_sched.scheduling.policy_views import policy_job
from gridtravel.local_sched.sharing.shared_class import SharedClass

DRIFT_S: Final = 0.01
"""A node is divided anew when a task has had so much more or less processor time than was counted.
Below it the rates stay, for dividing at other moments than those of the policy changes them."""
LATE_S: Final = 1.0
"""A job that is still there so long after its deadline, at which the resource manager ends it, is
told to end once more."""


class SharedJobs:
    """Mutable, owned by the scheduler."""

    def __init__(self, classes: Mapping[str, SharedClass]) -> None:
        self.classes = dict(classes)
        self._jobs: dict[str, Job] = {}
        """By id: everything that was admitted and is not over."""
        self._admitted: dict[str, Job] = {}
        """Those of them that start in the next cycle."""
        self.as_of = 0.0
        """The latest moment at which a cycle has looked."""
        self._deadlines: list[tuple[float, str]] = []
        """When to look whether a job is past its deadline, earliest first; those of jobs that are
        gone are dropped when their turn comes."""

    def __contains__(self, class_name: object) -> bool:
        return class_name in self.classes

    def of_features(self, features: Sequence[str]) -> Iterator[SharedClass]:
        """The classes whose nodes have all of them, in the site's order."""
        return (each for each in self.classes.values() if each.features.issuperset(features))

    def has_nodes_of(self, class_name: str, terms: JobTerms) -> bool:
        """True when the class is there with all the nodes that a job was promised parts of."""
        shared = self.classes.get(class_name)
        if shared is None or terms.deadline is None:
            return False
        return all(number < len(shared.nodes) for number in terms.node_numbers)

    # -- jobs come and go --------------------------------------------------------------------------

    def join(self, job: Job, moment: float) -> None:
        """It was admitted: from now on its nodes are divided with it."""
        terms = terms_of(job)
        shared = self.classes[job.class_name]
        if not self.has_nodes_of(job.class_name, terms):
            raise InputError(f"{job} has nodes that its class does not have")
        self._jobs[job.job_id] = job
        if job.state is JobState.QUEUED:
            self._admitted[job.job_id] = job
            job.reason = WaitReason.ADMITTED
        heappush(self._deadlines, (float(ends_by(job)), job.job_id))
        shared.join(admitted_job(job), as_admitted(terms), moment)

    def leave(self, job: Job, moment: float) -> None:
        """It is over."""
        self._admitted.pop(job.job_id, None)
        if self._jobs.pop(job.job_id, None) is not None:
            self.classes[job.class_name].leave(job.job_id, moment)

    def part_ended(self, job: Job, node_name: str, moment: float) -> None:
        """What it did on one node is over, and others go on."""
        shared = self.classes[job.class_name]
        if node_name in shared.node_names:
            shared.task_ended(job.job_id, shared.node_names.index(node_name), moment)

    def measured(self, job: Job, received_s: Sequence[float], moment: float) -> None:
        """Processor time that it has really had on each of its nodes."""
        shared = self.classes[job.class_name]
        shared.advance(moment)
        known = shared.jobs.get(job.job_id)
        if known is None:
            return
        for number, received in zip(terms_of(job).node_numbers, received_s, strict=True):
            task = known.tasks.get(number)
            if task is None:
                continue
            counted = task.received_s + task.rate * (moment - shared.nodes[number].updated_at)
            if abs(received - counted) > DRIFT_S:
                shared.measured(job.job_id, number, received, moment)

    def set_back(self, moment: float) -> None:
        """The clock was ahead and has been set right. Time does not run backwards in a class, so
        each is put together again: who is on it, what they have had, which nodes have failed.
        """
        self.as_of = moment
        for name, old in self.classes.items():
            shared = self.classes[name] = SharedClass(
                name,
                old.node_names,
                old.policy,
                old.features,
                memory_mb=old.nodes[0].memory_mb,
                disk_mb=old.nodes[0].disk_mb,
            )
            for node in old.nodes:
                if not node.is_up:
                    shared.node_down(node.number)
            for job_id, known in old.jobs.items():
                shared.join(known.job, known.terms, moment)
                for number in known.terms.node_numbers:
                    task = known.tasks.get(number)
                    if task is None:
                        shared.task_ended(job_id, number, moment)
                    else:
                        shared.measured(job_id, number, task.received_s, moment)

    # -- nodes -------------------------------------------------------------------------------------

    def node_down(self, class_name: str, node_name: str) -> list[Job]:
        """A node failed: nobody comes to it any more. Returns the jobs that are on it."""
        shared, number = self._node(class_name, node_name)
        shared.node_down(number)
        on_it = {task.job_id for task in shared.nodes[number].tasks}
        return [job for job_id, job in self._jobs.items() if job_id in on_it]

    def node_up(self, class_name: str, node_name: str) -> None:
        """It is back."""
        shared, number = self._node(class_name, node_name)
        shared.node_up(number)

    def class_of_node(self, node_name: str) -> str | None:
        """The shared class that has the node."""
        classes = self.classes.items()
        return next((name for name, each in classes if node_name in each.node_names), None)

    # -- the cycle ---------------------------------------------------------------------------------

    def advance(self, moment: float) -> None:
        """Let everything happen that time alone brings."""
        self.as_of = max(self.as_of, moment)
        for shared in self.classes.values():
            shared.advance(moment)

    def take_admitted(self) -> list[Job]:
        """Jobs that were admitted since this was last asked, and are to start."""
        admitted = list(self._admitted.values())
        self._admitted.clear()
        return admitted

    def overdue(self, moment: float) -> list[Job]:
        """Jobs that are well past their deadlines."""
        late = []
        while self._deadlines and self._deadlines[0][0] + LATE_S <= moment:
            _, job_id = heappop(self._deadlines)
            if job_id in self._jobs:
                late.append(self._jobs[job_id])
        for job in late:
            heappush(self._deadlines, (moment, job.job_id))  # said again while it stays
        return late

    def take_shares(self) -> dict[str, tuple[float, ...]]:
        """The shares of the jobs for which one has changed since this was last asked."""
        changed = [job_id for each in self.classes.values() for job_id in each.take_changes()]
        return {job_id: self.shares_of(self._jobs[job_id]) for job_id in changed}

    def next_change(self) -> float:
        """When a share changes by time alone, or a job is past its deadline; or infinity."""
        while self._deadlines and self._deadlines[0][1] not in self._jobs:
            heappop(self._deadlines)
        late = self._deadlines[0][0] + LATE_S if self._deadlines else NEVER
        return min([late, *(each.next_change() for each in self.classes.values())])

    # -- questions ---------------------------------------------------------------------------------

    @property
    def admitted(self) -> list[Job]:
        """Jobs that start in the next cycle."""
        return list(self._admitted.values())

    def shares_of(self, job: Job) -> tuple[float, ...]:
        """The part that it gets of each of its nodes; 0 where its part is over."""
        known = self.classes[job.class_name].jobs.get(job.job_id)
        tasks = {} if known is None else known.tasks
        numbers = terms_of(job).node_numbers
        return tuple(tasks[each].rate if each in tasks else 0.0 for each in numbers)

    def node_names(self, job: Job) -> tuple[str, ...]:
        """Names of its nodes, in the order of its shares."""
        names = self.classes[job.class_name].node_names
        return tuple(names[number] for number in terms_of(job).node_numbers)

    def validate(self, jobs: Mapping[str, Job]) -> None:
        """Assert that nodes, classes and ``jobs`` (all that are not over) name the same jobs."""
        for shared in self.classes.values():
            shared.validate()
            assert set(shared.jobs) <= set(self._jobs), "a task of nobody's job"
        here = {job_id for job_id, job in jobs.items() if job.class_name in self.classes}
        assert here == set(self._jobs), "an admitted job is lost, or lingers"

    def _node(self, class_name: str, node_name: str) -> tuple[SharedClass, int]:
        shared = self.classes[class_name]
        if node_name not in shared.node_names:
            raise InputError(f"no node is called {node_name[:80]!r}")
        return shared, shared.node_names.index(node_name)


def admitted_job(job: Job) -> PolicyJob:
    """The job as its policy knows it: its time counts from the moment of the admission."""
    return replace(policy_job(job), submitted_at=terms_of(job).agreed_at)


def as_admitted(terms: JobTerms) -> Admitted:
    """What was agreed, as the policy said it."""
    return Admitted(
        price=terms.price_millicredits / 1_000,
        deadline=None if terms.deadline is None else float(terms.deadline),
        node_numbers=terms.node_numbers,
    )


def ends_by(job: Job) -> Instant:
    """When it is ended if it is still there: its deadline, whatever its limit."""
    if job.deadline is None:
        raise InputError(f"{job} shares its nodes and has no deadline")
    return job.deadline


def terms_of(job: Job) -> JobTerms:
    """The terms of a job of a shared class; every one has some."""
    if job.terms is None or not job.terms.node_numbers:
        raise InputError(f"{job} was not admitted to nodes that jobs share")
    return job.terms

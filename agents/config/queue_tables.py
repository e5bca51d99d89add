"""The tables of a node's configuration about its queue: ``[queue]`` with its caps, ``[priority]``,
``[qos.NAME]`` and the policies' settings, ``[policy.NAME]``. Lengths of time are whole seconds and
say so in their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.config_file import ConfigTable, at_key
from gridtravel.local_sched.admission.registry import SitePolicy, policy_named
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.config import (
    JobLimits,
    OverrunRule,
    QueueRule,
    SchedulerConfig,
)
from gridtravel.local_sched.scheduling.job_queue import fixed_order
from gridtravel.local_sched.scheduling.priority import (
    PriorityRule,
    PriorityWeights,
    QualityOfService,
    by_priority,
)

_DEFAULTS = PriorityWeights()
_Cap = Annotated[int, Field(ge=0)] | None
_Weight = Annotated[float, Field(ge=-1e9, le=1e9)]
_Points = Annotated[float, Field(ge=0, le=1e9)]


class QueueTable(ConfigTable):
    """``[queue]``: the local scheduler. Caps that are not named do not exist."""

    policy: str = ""
    """Of the registry, in place of ``order`` and ``depth``; empty: these."""
    order: Literal["fcfs", "sjf", "priority"] = "priority"
    depth: Annotated[int, Field(ge=0)] | Literal["all"] = "all"
    """Waiting jobs that have a planned start: 0 first come first served, 1 EASY, "all"
    conservative.
    """
    limit_max_s: Annotated[int, Field(ge=1)] | None = None
    grace_s: Annotated[int, Field(ge=0)] = 120
    kill_grace_s: Annotated[float, Field(ge=0, le=3600)] = 10.0
    on_node_failure: Literal["notify", "requeue", "cancel"] = "notify"
    jobs_waiting_max: Annotated[int, Field(ge=0)] = JobLimits().jobs_waiting_max
    jobs_waiting_max_per_user: _Cap = None
    jobs_running_max_per_user: _Cap = None
    nodes_running_max_per_user: _Cap = None
    jobs_waiting_max_per_account: _Cap = None
    jobs_running_max_per_account: _Cap = None
    nodes_running_max_per_account: _Cap = None

    def limits(self) -> JobLimits:
        """The caps as the scheduler wants them."""
        return JobLimits(
            jobs_waiting_max=self.jobs_waiting_max,
            jobs_waiting_max_per_user=self.jobs_waiting_max_per_user,
            jobs_running_max_per_user=self.jobs_running_max_per_user,
            nodes_running_max_per_user=self.nodes_running_max_per_user,
            jobs_waiting_max_per_account=self.jobs_waiting_max_per_account,
            jobs_running_max_per_account=self.jobs_running_max_per_account,
            nodes_running_max_per_account=self.nodes_running_max_per_account,
            limit_max_s=self.limit_max_s,
        )


class PriorityTable(ConfigTable):
    """``[priority]``: points for one unit of each term (``local_sched.scheduling.priority``)."""

    resources: _Weight = _DEFAULTS.resources
    nodes_full: Annotated[int, Field(ge=1)] = 1
    """Nodes that ``resources`` is for."""
    expansion_factor: _Weight = _DEFAULTS.expansion_factor
    queue_time: _Weight = _DEFAULTS.queue_time
    wall_time: _Weight = _DEFAULTS.wall_time
    quality_of_service: _Weight = _DEFAULTS.quality_of_service
    administrator: _Weight = _DEFAULTS.administrator
    target_expansion: _Weight = _DEFAULTS.target_expansion
    target_queue_time: _Weight = _DEFAULTS.target_queue_time

    def weights(self) -> PriorityWeights:
        """As the scheduler wants them; ``InputError`` where jobs could starve."""
        return PriorityWeights(**self.model_dump(exclude={"nodes_full"}))


class ServiceTable(ConfigTable):
    """``[qos.NAME]``: a quality of service that jobs may ask for (``submit --qos``)."""

    priority: _Weight = 0.0
    priority_max: _Points = QualityOfService().priority_max
    target_expansion: float | None = None
    target_queue_time_s: int | None = None
    users: list[str] = Field(default_factory=list)
    accounts: list[str] = Field(default_factory=list)
    """On either list is enough; with neither it is everybody's."""

    def service(self) -> QualityOfService:
        """As the scheduler wants it."""
        return QualityOfService(
            priority=self.priority,
            priority_max=self.priority_max,
            target_expansion=self.target_expansion,
            target_queue_time_s=self.target_queue_time_s,
            users=tuple(self.users),
            accounts=tuple(self.accounts),
        )


Setting = bool | int | float | str
PolicyTables = Mapping[str, Mapping[str, Setting]]
"""``[policy.NAME]``: the settings of each policy."""


class Policies:
    """The policies that a file names, with their settings; each setting must have an effect."""

    def __init__(self, tables: PolicyTables) -> None:
        self._tables = tables
        self._used: set[str] = set()

    def named(self, name: str, *key: str | int) -> SitePolicy:
        """The policy that ``key`` names."""
        with at_key(*key):
            policy_named(name, {})
        self._used.add(name)
        with at_key("policy", name):
            return policy_named(name, self._tables.get(name, {}))

    def check_all_used(self) -> None:
        """Refuse settings of a policy that serves nobody here."""
        for name in self._tables:
            if name not in self._used:
                with at_key("policy", name):
                    raise InputError(
                        "it has no effect: no class and no queue has this policy",
                        hint="leave it out, or name the policy in [queue] or [[classes]]",
                    )


def scheduler_rules(
    queue: QueueTable,
    priority: PriorityTable,
    services: Mapping[str, ServiceTable],
    policies: Policies,
    by_class: Mapping[str, QueueRule],
) -> SchedulerConfig:
    """All of it as the scheduler wants it; a fault names its table. ``by_class``: the classes whose
    queues have policies of their own.
    """
    found = {}
    for name, each in services.items():
        with at_key("qos", name):
            found[name] = each.service()
    rule = _queue_rule(queue, priority, found, policies)
    return SchedulerConfig(
        order=rule.order,
        backfill=rule.backfill,
        policy=rule.policy,
        by_class=by_class,
        limits=queue.limits(),
        services=found,
        overrun=OverrunRule(grace_s=queue.grace_s),
    )


def _queue_rule(
    queue: QueueTable,
    priority: PriorityTable,
    services: Mapping[str, QualityOfService],
    policies: Policies,
) -> QueueRule:
    if queue.policy:
        for key in ("order", "depth"):
            if key in queue.model_fields_set:
                with at_key("queue", key):
                    raise InputError(
                        f"it has no effect: the policy {queue.policy[:40]!r} has an order and a"
                        " depth of its own",
                        hint=f"leave out {key}, or the policy",
                    )
        chosen = policies.named(queue.policy, "queue", "policy")
        return queue_rule_of(chosen, queue.policy, "queue", "policy")
    if queue.order != "priority":
        order = fixed_order(queue.order)
    else:
        with at_key("priority"):
            weights = priority.weights()
        rule = PriorityRule(weights=weights, services=services, nodes_full=priority.nodes_full)
        order = by_priority(rule)
    depth = None if queue.depth == "all" else queue.depth
    return QueueRule(order=order, backfill=BackfillRule(depth=depth))


def queue_rule_of(chosen: SitePolicy, name: str, *key: str | int) -> QueueRule:
    """A policy of whole nodes; one that divides nodes is refused, for which ``key`` names it."""
    if chosen.sharing is not None:
        with at_key(*key):
            raise InputError(
                f"{name[:40]} divides nodes between jobs, which have no queue",
                hint="name it as the policy of a class: [[classes]]",
            )
    return QueueRule(order=chosen.order, backfill=chosen.backfill, policy=chosen.queue)

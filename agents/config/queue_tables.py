"""The tables of a node's configuration about its queue: ``[queue]`` with its caps, ``[priority]``
and ``[qos.NAME]``. Lengths of time are whole seconds and say so in their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from gridtravel.gridio.config_file import ConfigTable, at_key
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.config import JobLimits, OverrunRule, SchedulerConfig
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


def scheduler_rules(
    queue: QueueTable, priority: PriorityTable, services: Mapping[str, ServiceTable]
) -> SchedulerConfig:
    """All of it as the scheduler wants it; a fault names its table."""
    found = {}
    for name, each in services.items():
        with at_key("qos", name):
            found[name] = each.service()
    if queue.order != "priority":
        order = fixed_order(queue.order)
    else:
        with at_key("priority"):
            weights = priority.weights()
        rule = PriorityRule(weights=weights, services=found, nodes_full=priority.nodes_full)
        order = by_priority(rule)
    return SchedulerConfig(
        order=order,
        backfill=BackfillRule(depth=None if queue.depth == "all" else queue.depth),
        limits=queue.limits(),
        services=found,
        overrun=OverrunRule(grace_s=queue.grace_s),
    )

"""Which of a caller's reservations lack nodes, for whoever can do something about it in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agents.question_words import only
from gridcore.callers import Caller, Role

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent


def shortages(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Nodes that are missing at the worst second of each reservation of the caller's that cannot be
    kept whole, by its id; an administrator sees all. Of several promises the older is kept first.
    """
    only(arguments)
    now = agent.clock.now()
    is_admin = caller.role is Role.ADMIN
    return {
        "as_of": now,
        "lacking": {
            each.reservation.reservation_id: each.nodes_missing
            for each in agent.upkeep.broken(now)
            if is_admin or each.reservation.owner == caller.owner
        },
    }

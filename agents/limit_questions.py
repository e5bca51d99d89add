"""The question how much of the limits on user-settable reservations is left (Catalina's
show_available).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agents.access import account_of, require_login
from agents.question_words import number_or, only, text_or_none
from gridcore.callers import Caller, Role
from local_sched.user_reservations import counted, quota_left

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent


def quota(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    """What an account may reserve, what it has, and what the global window that begins at
    ``start`` leaves to all.
    """
    only(arguments, "account", "start")
    require_login(caller, "reserve")
    now = agent.clock.now()
    wanted = text_or_none(arguments, "account") or ""
    is_free_to_ask = bool(wanted) and caller.role is Role.ADMIN
    account = wanted if is_free_to_ask else account_of(caller, wanted)
    start = max(number_or(arguments, "start", now, now + agent.calendar.rules.horizon_s), now)
    limits = agent.parts.limits
    own = limits.of(account)
    live = counted(agent.calendar.live(), now)
    return {
        "as_of": now,
        "account": account,
        "reservations": sum(each.request.account == account for each in live),
        "reservations_max": own.reservations_max,
        "nodes_max": own.nodes_max,
        "duration_max_s": own.duration_max_s,
        "start": start,
        "window_s": limits.window_s,
        "window_node_seconds_max": limits.window_node_seconds_max,
        "window_node_seconds_left": quota_left(limits, live, start),
    }

"""Questions about reservations (docs/queries.md): those that are over, the standing ones, what the
limits leave, and what failed nodes leave without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gridtravel.agents.ports.access import account_of, is_mine, require_login
from gridtravel.agents.ports.arguments import number_or, only, text_or_none, texts
from gridtravel.agents.ports.queries_about_queue import HIDDEN, ROWS_DEFAULT, ROWS_MAX, SOMEBODY
from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.reservations.standing import REQUEST_PREFIX, StandingReservation
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER, counted, quota_left

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore

_OVER: Final = tuple(each for each in ReservationState if not each.is_live)
NEXT_SHOWN: Final = 8


def past(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Reservations that are over, cancelled, expired or replaced, the latest end first."""
    only(arguments, "user", "account", "state", "class", "since", "until", "limit")
    now = core.clock.now()
    user, account = text_or_none(arguments, "user"), text_or_none(arguments, "account")
    states = _states(texts(arguments, "state"))
    classes = texts(arguments, "class")
    for name in classes:
        if name not in core.calendar.classes:
            known = ", ".join(core.calendar.classes)
            raise InputError(f"no resource class {name[:40]!r}", hint=f"known: {known}")
    since = number_or(arguments, "since", 0, now)
    until = number_or(arguments, "until", now + 1, now + 1)
    most = number_or(arguments, "limit", ROWS_DEFAULT, ROWS_MAX)

    def fits(each: Reservation, ended_at: int) -> bool:
        mine = is_mine(caller, each.owner)
        return (
            since <= ended_at < until
            and (user is None or (mine and each.owner == user))
            and (account is None or (mine and each.request.account == account))
            and (not states or each.state in states)
            and (not classes or each.resource_class in classes)
        )

    reservations = core.calendar.reservations
    over = (
        (_ended_at(reservations[key], noted_at), reservations[key])
        for key, noted_at in core.calendar.finished_at.items()
    )
    found = [(ended_at, each) for ended_at, each in over if fits(each, ended_at)]
    found.sort(key=lambda each: (each[0], each[1].reservation_id), reverse=True)
    return {
        "as_of": now,
        "remembered_s": core.calendar.rules.tombstone_s,
        "total": len(found),
        "reservations": [_past_row(core, caller, each, at) for at, each in found[:most]],
    }


def standing(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """The rules of recurring reservations, and the instances there are (show_standing_res)."""
    only(arguments)
    now = core.clock.now()
    configured = {each.name for each in core.parts.maintenance.standing}
    return {
        "as_of": now,
        "standing": [
            {
                "name": rule.name,
                "made_by": "configuration" if rule.name in configured else "order",
                "start_rule": rule.start_rule.text,
                "time_zone": rule.start_rule.zone,
                "duration_s": rule.duration_s,
                "nodes": rule.nodes,
                "depth": rule.depth,
                "features": list(rule.features),
                **_access_of(rule, caller),
                "instances": _instances(core, rule),
            }
            for rule in core.maintenance.standing()
        ],
    }


def quota(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """What an account may reserve, what it has, and what the global window that begins at
    ``start`` leaves to all.
    """
    only(arguments, "account", "start")
    require_login(caller, "reserve")
    now = core.clock.now()
    wanted = text_or_none(arguments, "account") or ""
    is_free_to_ask = bool(wanted) and caller.role is Role.ADMIN
    account = wanted if is_free_to_ask else account_of(caller, wanted)
    start = max(number_or(arguments, "start", now, now + core.calendar.rules.horizon_s), now)
    limits = core.parts.limits
    own = limits.of(account)
    live = counted(core.calendar.live(), now)
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


def shortages(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Nodes that are missing at the worst second of each reservation of the caller's that cannot be
    kept whole, by its id; an administrator sees all. Of several promises the older is kept first.
    """
    only(arguments)
    now = core.clock.now()
    is_admin = caller.role is Role.ADMIN
    return {
        "as_of": now,
        "lacking": {
            each.reservation.reservation_id: each.nodes_missing
            for each in core.maintenance.broken(now)
            if is_admin or each.reservation.owner == caller.owner
        },
    }


def _ended_at(each: Reservation, noted_at: int) -> int:
    """A reservation whose time ran out ended then, also when the site was not there to note it."""
    return each.end if each.state is ReservationState.COMPLETED else noted_at


def _past_row(core: AgentCore, caller: Caller, each: Reservation, ended_at: int) -> dict[str, Any]:
    mine = is_mine(caller, each.owner)
    return {
        "reservation": each.reservation_id,
        "state": each.state.value,
        "owner": each.owner if mine or each.owner == SYSTEM_OWNER else SOMEBODY,
        "account": each.request.account if mine else HIDDEN,
        "class": each.resource_class,
        "nodes": each.nodes,
        "node_names": list(core.state.fixed.get(each.reservation_id, ())),
        "start": each.start,
        "end": each.end,
        "created_at": each.created_at,
        "ended_at": ended_at,
    }


def _access_of(rule: StandingReservation, caller: Caller) -> dict[str, Any]:
    """Who may use the instances: whether the caller, and for administrators who else."""
    access = rule.access
    is_open = access.limit_max_s is not None and not (
        access.owners or access.accounts or access.qualities_of_service
    )
    is_named = caller.login in access.owners or bool(set(caller.accounts) & set(access.accounts))
    told: dict[str, Any] = {
        "admits_you": is_open or is_named,
        "limit_max_s": access.limit_max_s,
        "qualities_of_service": list(access.qualities_of_service),
    }
    if caller.role is Role.ADMIN:
        told |= {
            "account": rule.account,
            "users": list(access.owners),
            "accounts": list(access.accounts),
        }
    return told


def _instances(core: AgentCore, rule: StandingReservation) -> list[dict[str, Any]]:
    prefix = f"{REQUEST_PREFIX}{rule.name}/"
    return [
        {"reservation": each.reservation_id, "start": each.start, "nodes": each.nodes}
        for each in core.calendar.live()
        if each.owner == SYSTEM_OWNER and each.request.request_id.startswith(prefix)
    ][:NEXT_SHOWN]


def _states(words: tuple[str, ...]) -> tuple[ReservationState, ...]:
    try:
        found = tuple(ReservationState(each.upper()) for each in words)
    except ValueError:
        found = (ReservationState.HELD,)
    if any(each.is_live for each in found):
        known = ", ".join(state.value for state in _OVER)
        raise InputError(
            f"no reservation that is over has the state {', '.join(words)[:60]!r}",
            hint=f"known: {known}",
        )
    return found

"""Questions about reservations: those that are over, and the standing ones (docs/queries.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agents.question_words import number_or, only, text_or_none, texts
from agents.queue_questions import HIDDEN, ROWS_DEFAULT, ROWS_MAX, SOMEBODY
from gridcore.callers import Caller, Role
from gridcore.errors import InputError
from gridcore.reservations import Reservation, ReservationState
from local_sched.standing_reservations import REQUEST_PREFIX, StandingReservation
from local_sched.user_reservations import SYSTEM_OWNER

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent

_OVER: Final = tuple(each for each in ReservationState if not each.is_live)
NEXT_SHOWN: Final = 8


def past(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Reservations that are over, cancelled, expired or replaced, the latest end first."""
    only(arguments, "user", "account", "state", "class", "since", "until", "limit")
    now = agent.clock.now()
    user, account = text_or_none(arguments, "user"), text_or_none(arguments, "account")
    states = _states(texts(arguments, "state"))
    classes = texts(arguments, "class")
    for name in classes:
        if name not in agent.calendar.classes:
            known = ", ".join(agent.calendar.classes)
            raise InputError(f"no resource class {name[:40]!r}", hint=f"known: {known}")
    since = number_or(arguments, "since", 0, now)
    until = number_or(arguments, "until", now + 1, now + 1)
    most = number_or(arguments, "limit", ROWS_DEFAULT, ROWS_MAX)

    def fits(each: Reservation, ended_at: int) -> bool:
        is_mine = _is_mine(caller, each)
        return (
            since <= ended_at < until
            and (user is None or (is_mine and each.owner == user))
            and (account is None or (is_mine and each.request.account == account))
            and (not states or each.state in states)
            and (not classes or each.resource_class in classes)
        )

    reservations = agent.calendar.reservations
    found = [
        (ended_at, reservations[key])
        for key, ended_at in agent.calendar.finished_at.items()
        if fits(reservations[key], ended_at)
    ]
    found.sort(key=lambda each: (each[0], each[1].reservation_id), reverse=True)
    return {
        "as_of": now,
        "remembered_s": agent.calendar.rules.tombstone_s,
        "total": len(found),
        "reservations": [_past_row(agent, caller, each, at) for at, each in found[:most]],
    }


def standing(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    """The rules of recurring reservations, and the instances there are (show_standing_res)."""
    only(arguments)
    now = agent.clock.now()
    configured = {each.name for each in agent.parts.upkeep.standing}
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
                "instances": _instances(agent, rule),
            }
            for rule in agent.upkeep.standing()
        ],
    }


def _past_row(agent: NodeAgent, caller: Caller, each: Reservation, ended_at: int) -> dict[str, Any]:
    is_mine = _is_mine(caller, each)
    return {
        "reservation": each.reservation_id,
        "state": each.state.value,
        "owner": each.owner if is_mine or each.owner == SYSTEM_OWNER else SOMEBODY,
        "account": each.request.account if is_mine else HIDDEN,
        "class": each.resource_class,
        "nodes": each.nodes,
        "node_names": list(agent.state.fixed.get(each.reservation_id, ())),
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


def _instances(agent: NodeAgent, rule: StandingReservation) -> list[dict[str, Any]]:
    prefix = f"{REQUEST_PREFIX}{rule.name}/"
    return [
        {"reservation": each.reservation_id, "start": each.start, "nodes": each.nodes}
        for each in agent.calendar.live()
        if each.owner == SYSTEM_OWNER and each.request.request_id.startswith(prefix)
    ][:NEXT_SHOWN]


def _is_mine(caller: Caller, each: Reservation) -> bool:
    if caller.role is Role.ADMIN:
        return True
    return bool(caller.login) and each.owner == caller.owner


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

"""The policies that a site, a replay or a study can name, with their settings; nothing is
discovered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, get_type_hints

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.number_text import is_decimal
from gridtravel.local_sched.policies.deadline_backfill import DeadlineBackfill
from gridtravel.local_sched.policies.edf_dollar import EdfDollar
from gridtravel.local_sched.policies.libra import Libra
from gridtravel.local_sched.policies.libra_dollar import LibraDollar
from gridtravel.local_sched.policies.libra_posted import LibraPosted
from gridtravel.local_sched.policies.policy import QueuePolicy
from gridtravel.local_sched.policies.qops import Qops
from gridtravel.local_sched.policies.shared_nodes import SharingPolicy
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.job_queue import (
    EARLIEST_DEADLINE,
    FIRST_COME,
    SHORTEST_FIRST,
    QueueOrder,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePolicy:
    """How one class of nodes is served: shared, where ``sharing`` is set, else in turn."""

    order: QueueOrder = FIRST_COME
    backfill: BackfillRule = field(default_factory=BackfillRule)
    queue: QueuePolicy | None = None
    """``None``: everybody who fits is admitted, nothing is promised beyond the planned start."""
    sharing: SharingPolicy | None = None


_EASY: Final = BackfillRule(depth=1)

BACKFILLING: Final[Mapping[str, SitePolicy]] = MappingProxyType(
    {
        "fcfs": SitePolicy(backfill=BackfillRule(depth=0)),
        "sjf": SitePolicy(order=SHORTEST_FIRST, backfill=BackfillRule(depth=0)),
        "edf": SitePolicy(order=EARLIEST_DEADLINE, backfill=BackfillRule(depth=0)),
        "easy": SitePolicy(backfill=_EASY),
        "easy-sjbf": SitePolicy(backfill=BackfillRule(depth=1, fillers=SHORTEST_FIRST)),
        "conservative": SitePolicy(backfill=BackfillRule(compression_jobs_max=None)),
        "replan": SitePolicy(backfill=BackfillRule(keeps_planned_starts=False)),
    }
)
"""An order serves and the loop places; no deadlines, no prices, no settings."""

DEADLINE_BACKFILLING: Final[Mapping[str, QueueOrder]] = MappingProxyType(
    {"fcfs-bf": FIRST_COME, "sjf-bf": SHORTEST_FIRST, "edf-bf": EARLIEST_DEADLINE}
)
"""The baselines of Libra+$: EASY in this order; jobs past their deadline leave."""

SHARING: Final[Mapping[str, Callable[..., SharingPolicy]]] = MappingProxyType(
    {
        "libra": Libra,
        "libra-dollar": LibraDollar,
        "libra-posted": LibraPosted,
        "edf-dollar": EdfDollar,
    }
)
"""Nodes are divided; the settings are the fields of the class."""

PLANNING: Final[Mapping[str, Callable[..., QueuePolicy]]] = MappingProxyType({"qops": Qops})
"""Whole nodes on a plan that the policy makes; the settings are the fields of the class."""

POLICIES: Final = (*BACKFILLING, *DEADLINE_BACKFILLING, *PLANNING, *SHARING)


def policy_named(name: str, settings: Mapping[str, object] | None = None) -> SitePolicy:
    """The policy called ``name``. A setting is a number or a word, or either as text;
    ``InputError`` lists the known policies, keys or words.
    """
    given = settings or {}
    if name in SHARING:
        made = SHARING[name]
        return SitePolicy(sharing=made(**_checked(name, given, _keys_of(made))))
    if name in PLANNING:
        planning = PLANNING[name]
        return SitePolicy(queue=planning(**_checked(name, given, _keys_of(planning))))
    _checked(name, given, {})
    if name in BACKFILLING:
        return BACKFILLING[name]
    if name in DEADLINE_BACKFILLING:
        order = DEADLINE_BACKFILLING[name]
        return SitePolicy(order=order, backfill=_EASY, queue=DeadlineBackfill())
    raise InputError(f"unknown policy {name[:40]!r}", hint=f"known: {', '.join(POLICIES)}")


def read_settings(words: Iterable[str]) -> dict[str, str]:
    """Settings as they are typed, ``key=value`` each; ``InputError`` for anything else."""
    found: dict[str, str] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not (key and sign and value):
            raise InputError(f"not a setting: {word[:40]!r}", hint="say key=value")
        if key in found:
            raise InputError(f"the setting {key[:40]!r} is given twice", hint="give it once")
        found[key] = value
    return found


def _keys_of(made: Callable[..., QueuePolicy | SharingPolicy]) -> dict[str, Any]:
    """The settings of a policy and what may stand for them: a number, or a word of some."""
    assert isinstance(made, type)
    hints = get_type_hints(made)
    return {each.name: hints[each.name] for each in fields(made)}


def _checked(
    name: str, given: Mapping[str, object], keys: Mapping[str, Any]
) -> dict[str, float | StrEnum]:
    checked: dict[str, float | StrEnum] = {}
    for key, value in given.items():
        kind = keys.get(key)
        if kind is None:
            known = ", ".join(keys) or "none"
            raise InputError(f"{name[:40]} has no setting {key[:40]!r}", hint=f"known: {known}")
        checked[key] = _number(key, value) if kind is float else _word(key, value, kind)
    return checked


def _number(key: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and is_decimal(value):
        return float(value)
    raise InputError(f"{key} must be a number: {str(value)[:40]!r}")


def _word(key: str, value: object, kind: type[StrEnum]) -> StrEnum:
    try:
        return kind(str(value))
    except ValueError:
        known = ", ".join(kind)
        raise InputError(f"unknown {key} {str(value)[:40]!r}", hint=f"known: {known}") from None

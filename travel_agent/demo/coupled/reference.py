"""What the coupled run must come to: both models in one process, and the comparison with it.

Stays at home: the sites never see it, so neither model can know what the other will say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gridtravel.travel_agent.demo.coupled.atmosphere import Atmosphere
from gridtravel.travel_agent.demo.coupled.ocean import Ocean
from gridtravel.travel_agent.demo.coupled.stepping import Account, Model

BUDGET_TOLERANCE = 1e-9
"""Largest part of the heat turned over that rounding may create or destroy."""

_EXACT = ("steps", "temperatures", "mean_temperature", "heat_sent", "heat_received")
"""What must be equal to the last bit: the same operations in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What two results are worth."""

    faults: tuple[str, ...]
    """One line each; empty when the results are right."""
    budget_error: float
    """Heat of the coupled world that appeared or vanished, as a part of what was turned over; NaN
    when the results do not say."""


def run_in_one_process(steps: int) -> tuple[dict[str, object], dict[str, object]]:
    """The results of ocean and atmosphere after ``steps`` days, without any socket."""
    ocean, atmosphere = Ocean(), Atmosphere()
    water, air = Account(ocean), Account(atmosphere)
    for _ in range(steps):
        up, down = ocean.outgoing(), atmosphere.outgoing()
        water.step(up, down)
        air.step(down, up)
    return water.result(steps), air.result(steps)


def run_alone(model: Model, steps: int, received: Sequence[float]) -> dict[str, object]:
    """The result of a model that never hears of its companion, only of its first flux."""
    account = Account(model)
    for _ in range(steps):
        account.step(model.outgoing(), received)
    return account.result(steps)


def verify(ocean: Mapping[str, object], atmosphere: Mapping[str, object], steps: int) -> Verdict:
    """Compare two results from the sites with the reference, and their heat with each other's."""
    faults: list[str] = []
    for result, expected in zip((ocean, atmosphere), run_in_one_process(steps), strict=True):
        name = expected["model"]
        if result.get("model") != name:
            faults.append(f"this is no result of the {name}")
            continue
        if result.get("exchanges") != steps:
            faults.append(f"{name}: {result.get('exchanges')} exchanges in {steps} steps")
        faults.extend(
            f"{name}: {key.replace('_', ' ')} differs from the run in one process"
            for key in _EXACT
            if result.get(key) != expected[key]
        )
    error = _coupled_budget_error(ocean, atmosphere)
    if not error <= BUDGET_TOLERANCE:
        faults.append(f"the coupled world gained or lost heat: {error:.1e} of what it turned over")
    return Verdict(faults=tuple(faults), budget_error=error)


def _coupled_budget_error(ocean: Mapping[str, object], atmosphere: Mapping[str, object]) -> float:
    """Heat gained by both against sunlight minus what went into space: what crosses between them
    cancels only if both booked the same fluxes."""
    gained = came = turnover = 0.0
    for result in (ocean, atmosphere):
        outside, gain = result.get("heat_from_outside"), result.get("heat_gained")
        if not isinstance(outside, float) or not isinstance(gain, float):
            return math.nan
        gained, came, turnover = gained + gain, came + outside, turnover + abs(outside)
    return abs(gained - came) / turnover if turnover else math.nan

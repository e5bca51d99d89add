"""The time loop that both models share: exchange fluxes, advance, keep account of the heat.

Travels with the models and uses the standard library alone, as ``coupling`` does.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from gridtravel.travel_agent.demo.coupled import coupling
else:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import coupling

BANDS = 18
"""Bands of latitude, of equal area."""
BAND_CENTRES = tuple((2 * band + 1) / BANDS - 1.0 for band in range(BANDS))
"""The sine of the latitude in the middle of each band."""
STEP_S = 86_400.0
"""One day between two exchanges, in seconds of the model."""
STEPS_PER_YEAR = 360
YEARS_MAX = 10_000
RESULT_FILE = "result.json"

Exchange = Callable[[Sequence[float]], list[float]]
"""Gives the fluxes out of this model and takes those into it."""


class Model(Protocol):
    """One half of the world."""

    name: str
    temperatures: list[float]
    heat_from_outside: float

    def outgoing(self) -> list[float]:
        """Flux out of each band towards the other half, in W/m²."""
        ...

    def advance(self, sent: Sequence[float], received: Sequence[float]) -> None:
        """One coupling step."""
        ...

    def heat(self) -> float:
        """Heat content, in J/m² of the globe."""
        ...


class Account:
    """The heat of one model, so that anybody can check that none appeared or vanished."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._heat_start = model.heat()
        self.sent = 0.0
        self.received = 0.0
        """What crossed between the models so far, in J/m² of the globe."""

    def step(self, sent: Sequence[float], received: Sequence[float]) -> None:
        """One step of the model, and its place in the books."""
        self._model.advance(sent, received)
        self.sent += STEP_S * mean(sent)
        self.received += STEP_S * mean(received)

    def result(self, steps: int) -> dict[str, object]:
        """All that can be told at the end; numbers keep every bit as JSON."""
        model = self._model
        gained = model.heat() - self._heat_start
        came = model.heat_from_outside + self.received - self.sent
        turnover = abs(model.heat_from_outside) + self.sent + self.received
        return {
            "model": model.name,
            "steps": steps,
            "temperatures": list(model.temperatures),
            "mean_temperature": mean(model.temperatures),
            "heat_gained": gained,
            "heat_from_outside": model.heat_from_outside,
            "heat_sent": self.sent,
            "heat_received": self.received,
            "budget_error": abs(gained - came) / turnover if turnover else 0.0,
        }


def mean(values: Sequence[float]) -> float:
    """The mean over the globe, rounded once."""
    return math.fsum(values) / len(values)


def integrate(
    model: Model, steps: int, exchange: Exchange, *, after_step: Callable[[int], None]
) -> dict[str, object]:
    """Run ``model`` for ``steps`` days; ``after_step`` is called with the number of steps done."""
    account = Account(model)
    for step in range(1, steps + 1):
        sent = model.outgoing()
        account.step(sent, exchange(sent))
        after_step(step)
    return account.result(steps)


def run(model: Model, arguments: Sequence[str]) -> int:
    """Run as the task of a leg; the exit code. Progress goes to standard output."""
    parser = argparse.ArgumentParser(description=f"the {model.name} of a coupled climate model")
    parser.add_argument("--years", type=int, default=10, help="years of 360 days to simulate")
    parser.add_argument("--pace-s", type=float, default=0.0, help="spread over so many seconds")
    parser.add_argument("--patience-s", type=float, default=coupling.MEETING_S)
    parser.add_argument("--result", type=Path, default=Path(RESULT_FILE))
    options = parser.parse_args(arguments)
    if not 1 <= options.years <= YEARS_MAX or not 0 <= options.pace_s <= 86_400:
        parser.error(f"--years must be 1 to {YEARS_MAX}, --pace-s 0 to 86400")
    steps = options.years * STEPS_PER_YEAR
    try:
        place = coupling.Place.from_environment(os.environ)
        way = "waits for" if place.listens else "looks for"
        coupling.report(f"{model.name} on {place.nodes} nodes {way} {place.companion_leg}")
        agreement = {"steps": steps, "bands": BANDS}
        companion = coupling.meet(place, agreement, patience_s=options.patience_s)
        coupling.report(f"met {place.companion_leg} at {place.companion_site}")
        pace = coupling.Pace(steps, options.pace_s)

        def after_step(step: int) -> None:
            pace.keep(step)
            if step % STEPS_PER_YEAR == 0:
                coupling.report(
                    f"year {step // STEPS_PER_YEAR:2d}: {model.name} at"
                    f" {mean(model.temperatures):+7.3f} °C, {companion.exchanges} exchanges"
                )

        try:
            result = integrate(model, steps, companion.exchange, after_step=after_step)
        finally:
            companion.close()
    except coupling.CouplingError as fault:
        print(f"{model.name}: {fault}", file=sys.stderr, flush=True)
        return 1
    told = {"trip": place.trip, "leg": place.leg, "site": place.site, "nodes": place.nodes}
    coupling.write_result(options.result, {**told, "exchanges": companion.exchanges, **result})
    coupling.report(f"done: {options.result}")
    return 0

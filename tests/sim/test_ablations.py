"""A checker that finds nothing is not a checker: each safeguard is taken away once, and the damage
must be found within a bounded number of worlds.
"""

from __future__ import annotations

import pytest

from gridtravel.simulator.grid.world import live
from tests.support.sim_ablations import ABLATIONS, Ablation


@pytest.mark.parametrize("ablation", ABLATIONS, ids=[each.name for each in ABLATIONS])
def test_damage_is_found(ablation: Ablation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the safeguard some world breaks the very promise that it is there for."""
    plans = list(ablation.worlds())
    ablation.take_away(monkeypatch)
    seen: dict[str, None] = {}
    for plan in plans:
        for violation in live(plan, ablation.types).event_log.violations:
            seen[violation.rule] = None
        if any(rule in seen for rule in ablation.rules):
            return
    pytest.fail(f"without {ablation.name} nothing of {ablation.rules} was broken, only {seen}")

"""The safeguards among people who do not trust each other, and of a common start: each is taken
away once, and the checkers must find the damage; with it the same worlds are clean.
"""

from __future__ import annotations

import pytest

from gridtravel.simulator.grid.world import live
from tests.support.sim_ablations import Ablation
from tests.support.sim_trust_ablations import TRUST_ABLATIONS

CLEAN_MAX = 6
"""Worlds lived with the safeguard; `gurlab torture` lives the others."""


@pytest.mark.parametrize("ablation", TRUST_ABLATIONS, ids=[each.name for each in TRUST_ABLATIONS])
def test_damage_is_found_only_without(ablation: Ablation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the safeguard some world breaks the promise that it is there for, and with it none of
    the first worlds does.
    """
    plans = list(ablation.worlds())
    for plan in plans[:CLEAN_MAX]:
        broken = [str(each) for each in live(plan).event_log.violations]
        assert not broken, f"seed {plan.seed}: {broken}"
    ablation.take_away(monkeypatch)
    seen: dict[str, None] = {}
    for plan in plans:
        for violation in live(plan, ablation.types).event_log.violations:
            seen[violation.rule] = None
        if any(rule in seen for rule in ablation.rules):
            return
    pytest.fail(f"without {ablation.name} nothing of {ablation.rules} was broken, only {seen}")

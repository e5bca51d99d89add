"""The production policies decide as plain programs do that share no code with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.local_sched.admission.registry import policy_named
from gridtravel.simulator.economy.decide import decide
from tests.support.economy_workloads import KINDS, as_jobs, differing, some_rows
from tests.support.plain_economy import (
    PlainEdfDollar,
    PlainLibra,
    PlainLibraDollar,
    PlainSite,
    plain_backfilling,
)

JOBS = 60
SHARED: Mapping[str, tuple[str, Mapping[str, str], Callable[[int], PlainSite]]] = {
    "libra": ("libra", {}, PlainLibra),
    "libra strict": (
        "libra",
        {"control": "strict"},
        lambda procs: PlainLibra(procs, strict=True),
    ),
    "libra-dollar": ("libra-dollar", {}, PlainLibraDollar),
    "libra-dollar strict": (
        "libra-dollar",
        {"control": "strict", "beta": "0.3"},
        lambda procs: PlainLibraDollar(procs, strict=True, beta=0.3),
    ),
    "libra-dollar window": (
        "libra-dollar",
        {"res_free": "window", "beta": "0.5"},
        lambda procs: PlainLibraDollar(procs, window=True, beta=0.5),
    ),
    "edf-dollar": ("edf-dollar", {}, PlainEdfDollar),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHARED)
@given(seed=st.integers(0, 10**6))
def test_shared_nodes(name: str, kind: str, seed: int) -> None:
    """Every job: accepted or not, its cost, its end."""
    policy, settings, plain = SHARED[name]
    rng = Random(seed)
    procs = rng.randint(1, 6)
    rows = some_rows(rng, JOBS, procs, kind)
    theirs = plain(procs).decide(rows)
    ours = decide(as_jobs(rows), policy_named(policy, settings), procs)
    assert differing(rows, theirs, ours) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "order"), [("fcfs-bf", "submit"), ("sjf-bf", "estimate"), ("edf-bf", "deadline")]
)
@given(seed=st.integers(0, 10**6))
def test_backfilling_by_deadline(name: str, order: str, kind: str, seed: int) -> None:
    """The production scheduler, to the millisecond; also where jobs run past their estimates."""
    rng = Random(seed)
    procs = rng.randint(1, 9)
    rows = some_rows(rng, JOBS, procs, kind)
    theirs = plain_backfilling(rows, procs, order)
    ours = decide(as_jobs(rows), policy_named(name), procs)
    assert differing(rows, theirs, ours, within_s=0.0015) == []


def test_a_reservation_counts_all_that_ends_at_its_instant() -> None:
    """A job past its estimate is expected to end now, as one whose estimate ends now is: both leave
    room beside the reservation. (Found by the comparison above, with a step of a millisecond.)
    """
    rows = some_rows(Random("sjf-bfunder2"), JOBS, 3, "under")
    theirs = plain_backfilling(rows, 3, "estimate")
    ours = decide(as_jobs(rows), policy_named("sjf-bf"), 3)
    assert differing(rows, theirs, ours, within_s=0.0015) == []

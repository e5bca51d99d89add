"""Laws of every replayed schedule, and the fast conservative pass against the plain one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.local_sched.admission.registry import BACKFILLING
from gridtravel.simulator.replay.loop import TieRule, policy, replay
from gridtravel.simulator.replay.swf import TraceJob

PROCS = 4


@st.composite
def traces(draw: st.DrawFn) -> list[TraceJob]:
    """A few jobs with many equal times."""
    count = draw(st.integers(1, 25))
    jobs, submit = [], 0
    for number in range(count):
        submit += draw(st.sampled_from([0, 0, 1, 2, 5, 13]))
        estimate_s = draw(st.sampled_from([1, 2, 5, 10, 10, 20, 40]))
        run_s = draw(st.integers(1, estimate_s))
        procs = draw(st.integers(1, PROCS))
        jobs.append(TraceJob(number, submit, run_s, procs, estimate_s, number % 3, number % 2))
    return jobs


@pytest.mark.parametrize("ties", TieRule)
@pytest.mark.parametrize("name", BACKFILLING)
@given(jobs=traces())
def test_every_schedule_is_possible(name: str, ties: TieRule, jobs: list[TraceJob]) -> None:
    """Nobody starts before he comes, the machine is never over-committed, and a run repeats
    itself.
    """
    starts = replay(jobs, PROCS, policy(name), ties)
    assert starts == replay(jobs, PROCS, policy(name), ties)
    used: dict[int, int] = {}
    for job, start in zip(jobs, starts, strict=True):
        assert start >= job.submit
        for second in range(start, start + job.run_s):
            used[second] = used.get(second, 0) + job.procs
    assert max(used.values()) <= PROCS
    if name == "fcfs":
        assert starts == sorted(starts), "nothing overtakes"


@given(jobs=traces())
def test_conservative_equals_the_plain_loop(jobs: list[TraceJob]) -> None:
    """Loose stretch, skipped searches and partial moves change no start."""
    assert replay(jobs, PROCS, policy("conservative"), TieRule.BATCH) == plain_conservative(jobs)


def plain_conservative(jobs: list[TraceJob]) -> list[int]:
    """Second by second: ends; then each waiting job in turn gives up its place and takes the
    earliest; then arrivals take theirs; then whoever is due starts."""
    profile = AvailabilityProfile(PROCS)
    starts: dict[int, int] = {}
    places: dict[int, int] = {}
    now = 0
    while len(starts) < len(jobs):
        profile.advance(now)
        has_ended = False
        for index, start in starts.items():
            job = jobs[index]
            if start + job.run_s == now:
                has_ended = True
                if start + job.estimate_s > now:
                    profile.unbook(job.procs, now, start + job.estimate_s)
        arrivals = [i for i, job in enumerate(jobs) if job.submit == now]
        for index in [*(sorted(places) if has_ended else ()), *arrivals]:
            job = jobs[index]
            if index in places:
                profile.unbook(job.procs, places[index], places[index] + job.estimate_s)
            place = profile.earliest_fit(job.procs, job.estimate_s, now)
            assert place is not None
            profile.book(job.procs, place, place + job.estimate_s)
            places[index] = place
        for index in sorted(places):
            if places[index] == now:
                starts[index] = places.pop(index)
        now += 1
    return [starts[index] for index in range(len(jobs))]

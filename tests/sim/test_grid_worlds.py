"""Whole grids of unmodified agents and travel agents, in virtual time with faults: a sample that
takes seconds. ``make torture`` lives thousands.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from gridtravel.agents.agent_parts import AgentParts
from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridio.journal.memory import MemoryJournal
from gridtravel.gridio.sites.trip_participation import TripParticipant
from gridtravel.simulator.checks.begin_checkers import TOGETHER
from gridtravel.simulator.checks.trip_checkers import ATOMIC
from gridtravel.simulator.cli.torture import run_seed, story_of
from gridtravel.simulator.grid.exhaustive import (
    LAPTOP,
    LATER_S,
    PAIR_KINDS,
    SITES,
    alone,
    in_pairs,
    one_trip,
    points_of,
)
from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.simulated_laptop import LaptopPlan
from gridtravel.simulator.grid.simulated_site import SimulatedSite
from gridtravel.simulator.grid.world import (
    FaultKind,
    InjectedFault,
    PlannedCrash,
    WorldPlan,
    WorldRecord,
    WorldTypes,
    live,
)
from gridtravel.simulator.kernel.network import NetworkConditions
from gridtravel.simulator.kernel.processes import CrashPoint, PointKind, SimulatedProcess
from gridtravel.simulator.kernel.virtual_clock import ClockStep
from tests.support.sim_ablations import ABLATIONS

SAMPLE = 12
"""Worlds lived for each seed of the sample."""


def clean(plan: WorldPlan) -> WorldRecord:
    """Live a world in which every promise must be kept."""
    record = live(plan)
    broken = [str(each) for each in record.event_log.violations]
    assert record.is_clean, "\n".join([*broken, *story_of(record)])
    return record


def test_random_worlds(sim_seed: int) -> None:
    """Sites, travellers, and every kind of fault: no promise is broken."""
    for number in range(SAMPLE):
        clean(random_plan(sim_seed * 1000 + number, sites_most=8, loss=0.4))


def test_a_quiet_world_books_and_travels() -> None:
    """Without faults the trip is booked at its first attempt, its jobs start together at its start,
    and the messages are those of docs/protocol.md: three rounds of three and the votes.
    """
    record = clean(one_trip())
    messages = record.event_log.messages
    assert list(record.outcomes.values()) == ["BOOKED"]
    assert [messages[verb] for verb in ("Inquire", "Reserve", "Commit", "Submit")] == [3, 3, 3, 0]
    # A round to decide, and each leg is called ready. Before the start the first site settles in
    # three that the trip was not cancelled, the others learn it in one, and each learns in one
    # that all legs are ready. A site asks itself without a message.
    assert messages["Vote"] == 3 + 3 * 2 + (3 * 2 + 2 * 2) + 3 * 2
    starts = [line for line in record.event_log.lines if line.template.startswith("launches")]
    assert len(starts) == 3
    assert not record.event_log.faults


def test_every_message_and_write_of_a_trip_may_be_the_last() -> None:
    """One trip over three sites; each party dies at each message and each write, and comes back
    after its holds' lifetimes, the laptop never: the trip is whole or absent.
    """
    outcomes: dict[str, int] = {}
    whole = live(one_trip())
    for crashes in alone(points_of(whole, PAIR_KINDS)):
        if crashes[0].back_after_s not in (LATER_S, None):
            continue
        for outcome in clean(one_trip(crashes=crashes)).outcomes.values():
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert set(outcomes) == {"BOOKED", "ABSENT"}


def test_two_parties_may_die() -> None:
    """The same for a sample of pairs."""
    whole = live(one_trip())
    for crashes in list(in_pairs(points_of(whole, PAIR_KINDS)))[::60]:
        clean(one_trip(crashes=crashes))


def test_a_laptop_lost_after_the_decision_leaves_a_whole_trip() -> None:
    """Dead for good right after the last vote was heard, before any commit leaves: the sites find
    the outcome out among themselves when the holds' lifetimes end.
    """
    whole = live(one_trip())
    votes_heard = 12  # three answers each to Describe, Inquire, Reserve and Vote
    point = CrashPoint(party=LAPTOP, kind=PointKind.RECEIVED, number=votes_heard)
    record = clean(one_trip(crashes=(PlannedCrash(at=point, back_after_s=None),)))
    assert whole.event_log.messages["Vote"] < record.event_log.messages["Vote"]
    assert list(record.outcomes.values()) == ["BOOKED"]
    assert record.doubt_longest_s > 25.0


def test_a_trip_survives_a_majority_that_is_away() -> None:
    """Two of three sites are cut off from the laptop and each other during the decision; once they
    are back the trip is whole or absent, and nobody is left in doubt.
    """
    for at_s in (1.05, 1.15, 1.25, 1.35):
        fault = InjectedFault(
            kind=FaultKind.PARTITION, at_s=at_s, parties=(SITES[0], LAPTOP), lasts_s=60.0
        )
        clean(replace(one_trip(), faults=(fault,), storm_s=90.0))


def test_messages_that_come_twice_or_much_too_late() -> None:
    """Every message doubled, many later than any deadline: nothing is booked twice, and what was
    released stays released.
    """
    conditions = NetworkConditions(double=1.0, late=0.3, late_most_s=60.0)
    for seed in range(1, 9):
        record = clean(replace(one_trip(seed), conditions=conditions, storm_s=120.0))
        assert record.event_log.faults["doubled message"] >= 6


def test_a_full_disk_ends_the_daemon_and_not_its_promises() -> None:
    """A site whose disk refuses a write starts again from what is stored, and does not go on from
    what is only in memory (it once did, and showed a committed leg as released).
    """
    for at_s in (1.05, 1.12, 1.2, 1.3, 1.4):
        fault = InjectedFault(kind=FaultKind.FULL_DISK, at_s=at_s, parties=("east",), lasts_s=10.0)
        clean(replace(one_trip(), faults=(fault,), storm_s=30.0))
    clean(random_plan(35, sites_most=6, loss=0.3))


def test_a_clock_that_is_set_back_keeps_its_subscribers() -> None:
    """A site's clock is set back while somebody follows its calendar: the stream goes on, and the
    shadow equals its owner (it once ended with an error, or kept a first slot of the past).
    """
    steps = (ClockStep(at_s=3.0, by_s=-12.0), ClockStep(at_s=40.0, by_s=9.0))
    trip = one_trip()
    sites = tuple(replace(each, clock_steps=steps) for each in trip.sites)
    for storm_s in (20.0, 60.0):
        record = clean(replace(trip, sites=sites, watched=SITES, storm_s=storm_s))
        assert record.event_log.messages["Subscribe"] == len(SITES), "nobody had to ask again"


def test_a_lid_that_closes_in_the_middle_of_a_booking() -> None:
    """The laptop stands still for longer than its holds live, at whichever moment: the sites settle
    the trip without it, and it finds out what became of it.
    """
    outcomes: dict[str, int] = {}
    for tenths in range(10, 17):
        pause = InjectedFault(
            kind=FaultKind.PAUSE, at_s=tenths / 10, parties=(LAPTOP,), lasts_s=90.0
        )
        record = clean(replace(one_trip(), faults=(pause,), storm_s=100.0))
        for outcome in record.outcomes.values():
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes["BOOKED"] > 0


def test_who_does_not_begin_is_found_when_the_trip_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of three sites lets its leg go at the start, without a reason, and the laptop has looked
    at the trip when it was over: its log calls it FAILED, which does not mean that its user ended
    it.
    """
    ask = TripParticipant._check
    over = replace(one_trip(), storm_s=800.0)
    clean(over)

    async def east_lets_go(self: TripParticipant, leg: Reservation) -> None:
        if leg.reservation_id.startswith("east."):
            await self._release(leg.reservation_id, "nobody was here when it should have begun")
        else:
            await ask(self, leg)

    monkeypatch.setattr(TripParticipant, "_check", east_lets_go)
    broken = {each.rule for each in live(over).event_log.violations}
    assert broken == {ATOMIC, TOGETHER}


def test_the_same_seed_gives_the_same_world() -> None:
    """Two processes whose sets of strings have different orders live the same world, to the last
    line of its chronicle.
    """
    program = (
        "import hashlib, logging; logging.disable(50);"
        "from gridtravel.simulator.grid.random_worlds import random_plan;"
        "from gridtravel.simulator.grid.world import live;"
        "lines = [line.text() for seed in (3, 4, 35)"
        " for line in live(random_plan(seed, sites_most=8, loss=0.3)).event_log.lines];"
        "print(len(lines), hashlib.sha256('\\n'.join(lines).encode()).hexdigest())"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert int(told[0].split()[0]) > 200, "worlds in which something happens"


def test_a_failing_seed_tells_its_story() -> None:
    """A broken promise is told with what led to it, in order of time, faults and commands marked; a
    clean world tells nothing.
    """
    assert run_seed(1, 4, 0.2).story == ()
    weak = next(each for each in ABLATIONS if each.name == "hold expiry")
    records = (live(plan, weak.types) for plan in weak.worlds())
    record = next(each for each in records if each.event_log.violations)
    lines = story_of(record)
    assert any("BROKEN: every hold ends" in line for line in lines)
    assert any("stores ReservationGranted" in line for line in lines)
    assert any("!!" in line for line in lines)
    times = [float(line.split()[0]) for line in lines if not line.startswith("      ...")]
    assert times == sorted(times)


def test_a_world_without_travellers_is_quiet() -> None:
    """Nobody asks, nothing is promised, and the checkers have nothing to say."""
    plan = one_trip()
    record = clean(replace(plan, laptops=(LaptopPlan(name=LAPTOP, wishes=()),)))
    assert record.outcomes == {}


class ForgetfulSite(SimulatedSite):
    """Lets its leg go by itself, long before its start and without a reason."""

    def _parts(self, life: SimulatedProcess, journal: MemoryJournal) -> AgentParts:
        if self.name == SITES[0]:
            life.start(self._forget(), "forgets")
        return super()._parts(life, journal)

    async def _forget(self) -> None:
        await self.clock.sleep_until(self.clock.now_precise() + 300.0)
        assert self.agent is not None, "nothing dies in this world"
        (leg,) = self.agent.calendar.live()
        events = self.agent.calendar.decide_release(leg.reservation_id, None, self.clock.now())
        await self.agent.record(events).durable()


def test_a_cancellation_excuses_nothing_that_was_before_it() -> None:
    """A leg was lost without a reason, the others ran, and then the user types ``gur cancel``:
    it is torn all the same.
    """
    plan = one_trip()
    (laptop,) = plan.laptops
    (wish,) = laptop.wishes
    for cancel_after_s in (None, 800.0):
        later = replace(wish, cancel_after_s=cancel_after_s)
        record = live(
            replace(plan, laptops=(replace(laptop, wishes=(later,)),)),
            WorldTypes(site=ForgetfulSite),
        )
        broken = {each.rule for each in record.event_log.violations}
        assert ATOMIC in broken, cancel_after_s


def test_a_clock_that_was_set_is_not_called_a_cancellation() -> None:
    """A site's clock was set beyond the leg's start, and it did not begin with the others. Whether
    the user types ``gur cancel`` when all is over or not, that is why the trip is torn.
    """
    plan = one_trip()
    (laptop,) = plan.laptops
    (wish,) = laptop.wishes
    steps = (ClockStep(at_s=588.0, by_s=40.0),)
    sites = tuple(
        replace(each, clock_steps=steps) if each.name == SITES[1] else each for each in plan.sites
    )
    for cancel_after_s in (None, 800.0):
        later = replace(wish, cancel_after_s=cancel_after_s)
        laptops = (replace(laptop, wishes=(later,)),)
        counts = clean(replace(plan, sites=sites, laptops=laptops, storm_s=900.0)).event_log.counts
        assert counts["did not begin, alone: a clock was wrong"] == 1
        assert counts["torn, excused: no majority until its start"] == 1

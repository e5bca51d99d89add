"""What keeps trips whole among liars, and their legs together, taken away one at a time; see
``tests.support.sim_ablations``, and docs/decisions/0033 and 0034 for what is taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gridtravel.agents.ports import calendar_port as calendar_port_module
from gridtravel.agents.trips import site_trips as site_trips_module
from gridtravel.agents.trips.site_trips import SiteTrips
from gridtravel.gridcore.booking.calendar_rules import CalendarRules
from gridtravel.gridcore.booking.reservations import Begin, Reservation, ReservationRequest
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.metajobs import UsagePattern
from gridtravel.gridcore.trips.registers import TripRegister, Voter, check_voter
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion
from gridtravel.gridio.sites import trip_keeping as trip_keeping_module
from gridtravel.gridio.sites.trip_participation import TripParticipant
from gridtravel.gridio.sites.trip_voting import TravellersVoting
from gridtravel.simulator.checks.begin_checkers import TOGETHER
from gridtravel.simulator.checks.checkers import RESOLVED
from gridtravel.simulator.checks.race_checkers import ONE_RUNS
from gridtravel.simulator.checks.site_ledger import EARLY
from gridtravel.simulator.checks.trip_checkers import ATOMIC, LOGGED, SHOWN
from gridtravel.simulator.grid.exhaustive import LAPTOP, SITES, one_trip
from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.world import FaultKind, InjectedFault, PlannedCrash, WorldPlan
from gridtravel.simulator.kernel.network import NetworkConditions
from gridtravel.simulator.kernel.processes import CrashPoint, PointKind
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from tests.support.sim_ablations import Ablation

WORLDS_MAX = 40
START_S = 600.0
"""When the trip of ``one_trip`` starts."""
DOUBT_S = 15
"""A short doubt, so that it ends within a simulated storm."""


def worlds_with_liars() -> Iterator[WorldPlan]:
    """Small ones, in which laptops and mostly a site lie."""
    for seed in range(1, WORLDS_MAX + 1):
        yield random_plan(seed, sites_most=4, loss=0.1, liars=True)


def dead_at_the_start() -> Iterator[WorldPlan]:
    """One trip that is cancelled while one of its sites is dead, which is back after the start."""
    plan = one_trip()
    (laptop,) = plan.laptops
    (wish,) = laptop.wishes
    for site in SITES:
        for back_s in (5.0, 15.0):
            for cancel_s in (570.0, 580.0):
                dead = InjectedFault(
                    kind=FaultKind.CRASH,
                    at_s=560.0,
                    parties=(site,),
                    lasts_s=START_S + back_s - 560.0,
                )
                cancelled = replace(wish, cancel_after_s=cancel_s)
                yield replace(
                    plan,
                    laptops=(replace(laptop, wishes=(cancelled,)),),
                    faults=(dead,),
                    storm_s=START_S + 30.0,
                )


def cut_off_holders(
    begin: Begin = Begin.TOGETHER, *, until_s: float = 200.0
) -> Iterator[WorldPlan]:
    """One trip whose laptop is lost when it tells the sites to commit, and one of whose sites is
    cut off from then on until its doubt has ended, or beyond its start.
    """
    for site in SITES:
        for number in range(12, 40):
            plan = one_trip(
                crashes=(
                    PlannedCrash(
                        at=CrashPoint(party=LAPTOP, kind=PointKind.SENT, number=number),
                        back_after_s=None,
                    ),
                )
            )
            (laptop,) = plan.laptops
            (wish,) = laptop.wishes
            metajob = replace(wish.metajob, begin_wish=begin)
            rules = CalendarRules(doubt_max_s=DOUBT_S)
            cut = InjectedFault(
                kind=FaultKind.PARTITION, at_s=1.6, parties=(site,), lasts_s=until_s - 1.6
            )
            yield replace(
                plan,
                sites=tuple(replace(each, rules=rules) for each in plan.sites),
                laptops=(replace(laptop, wishes=(replace(wish, metajob=metajob),)),),
                faults=(cut,),
                storm_s=until_s + 30.0,
            )


def lossy_trips() -> Iterator[WorldPlan]:
    """One trip, beside whose network half of the messages are lost until its legs have begun."""
    for seed in range(1, WORLDS_MAX + 1):
        conditions = NetworkConditions(loss=0.2, notice=0.9)
        yield replace(one_trip(seed), conditions=conditions, storm_s=START_S + 30.0)


def one_race() -> Iterator[WorldPlan]:
    """A copy of a job at each of three sites, all of which have room."""
    plan = one_trip()
    (laptop,) = plan.laptops
    (wish,) = laptop.wishes
    metajob = replace(
        wish.metajob,
        usage_pattern=UsagePattern.SINGLE,
        is_race=True,
        nodes_total=2,
        earliest_start=WORLD_BEGIN + 1,
    )
    yield replace(plan, laptops=(replace(laptop, wishes=(replace(wish, metajob=metajob),)),))


def _anybody_votes(
    register: TripRegister | None, question: VoteQuestion, voter: Voter, site: str, now: Instant
) -> None:
    """In place of ``check_voter``: whoever knows a trip's id rules it."""
    if register is None:
        check_voter(register, question, voter, site, now)


def _withdraws_silently(self: TripParticipant, hold: Reservation) -> None:
    """In place of ``TripParticipant.note_withdrawn``."""


_settle = TripParticipant._settle


async def _doubts_without_end(self: TripParticipant, hold: Reservation) -> None:
    """In place of ``TripParticipant._settle``: only the start ends a doubt."""
    self._doubt_max_s = 10**9
    await _settle(self, hold)


async def _writes_nothing_down(self: site_trips_module._Legs, reservation_id: str) -> None:
    """In place of ``_Legs.note_runs``: that a leg runs is in memory only."""
    leg = self.leg(reservation_id)
    if leg is not None and leg.request.trip is not None:
        self._trips.runs[reservation_id] = leg.request.trip.instance
        self._trips.tell()


_after_replay = SiteTrips.after_replay


def _asks_nobody_after_a_restart(self: SiteTrips) -> None:
    """In place of ``SiteTrips.after_replay``: whose start has come by then begins."""
    _after_replay(self)
    for kept in self._calendar.unordered_live():
        trip = kept.request.trip
        if trip is not None and kept.start <= self._clock.now():
            self.runs[kept.reservation_id] = trip.instance


_vote = SiteTrips.vote


async def _ready_when_held(
    self: SiteTrips, question: VoteQuestion, caller: Caller
) -> AcceptorAnswer:
    """In place of ``SiteTrips.vote``: with COMMIT proposed a leg that is held is called ready."""
    answer = await _vote(self, question, caller)
    for hold in self._calendar.unordered_live():
        trip = hold.request.trip
        if trip is not None and trip.instance == question.instance and trip.acceptors:
            ready = TravellersVoting(trip.readiness(trip.leg), self._ports(trip.acceptors))
            self.background.start(f"ready {hold.reservation_id}", ready.propose_first)
    return answer


def _begins_alone(self: TripParticipant, leg: Reservation) -> object:
    """In place of ``TripParticipant._check``: the leg begins at its time, and asks nobody."""
    return self._book.note_runs(leg.reservation_id)


def _everything_came_through(request: ReservationRequest, manager: Caller) -> bool:
    """In place of ``came_through``: a manager touches whatever it names."""
    return True


async def _everybody_wins(self: SiteTrips, race: Race, is_wanted: Callable[[], bool]) -> bool:
    """In place of ``SiteTrips.claim``: a copy in a race starts when its queue lets it."""
    return True


TRUST_ABLATIONS = [
    Ablation(
        "what a manager may touch",
        rules=(ATOMIC, LOGGED, SHOWN, TOGETHER),
        patches={(calendar_port_module, "came_through"): _everything_came_through},
        worlds=worlds_with_liars,
    ),
    Ablation(
        "one copy wins",
        rules=(ONE_RUNS,),
        patches={(SiteTrips, "claim"): _everybody_wins},
        worlds=one_race,
    ),
    Ablation(
        "whose word counts",
        rules=(ATOMIC, LOGGED, SHOWN, TOGETHER),
        patches={(trip_keeping_module, "check_voter"): _anybody_votes},
        worlds=worlds_with_liars,
    ),
    Ablation(
        "ready when committed",
        rules=(TOGETHER,),
        patches={(SiteTrips, "vote"): _ready_when_held},
        worlds=lambda: cut_off_holders(until_s=START_S + 40.0),
    ),
    Ablation(
        "the end of a doubt",
        rules=(RESOLVED,),
        patches={(TripParticipant, "_settle"): _doubts_without_end},
        worlds=cut_off_holders,
    ),
    Ablation(
        "telling the others of a withdrawal",
        rules=(ATOMIC,),
        patches={(TripParticipant, "note_withdrawn"): _withdraws_silently},
        worlds=lambda: cut_off_holders(Begin.EACH),
    ),
    Ablation(
        "writing down that a leg runs",
        rules=(EARLY,),
        patches={(site_trips_module._Legs, "note_runs"): _writes_nothing_down},
        worlds=lossy_trips,
    ),
    Ablation(
        "asking after a restart",
        rules=(TOGETHER, EARLY),
        patches={(SiteTrips, "after_replay"): _asks_nobody_after_a_restart},
        worlds=dead_at_the_start,
    ),
    Ablation(
        "asking before a start",
        rules=(TOGETHER,),
        patches={(TripParticipant, "_check"): _begins_alone},
        worlds=dead_at_the_start,
    ),
]

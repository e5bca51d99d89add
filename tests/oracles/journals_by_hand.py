"""What no story brings about: every other kind of record, in an order that could have happened."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gridtravel.agents.journal.events import (
    AcceptorChanged,
    AcceptorsForgotten,
    AccessGiven,
    HandoverDone,
    HeldJobKept,
    HookBegun,
    InputArrived,
    InputsNamed,
    JobAccepted,
    JobBoosted,
    JobBound,
    JobHeld,
    JobMakesWay,
    JobOnFailedNode,
    JobOver,
    JobRequeued,
    JobResized,
    JobRunning,
    JobSpecChanged,
    JobStarting,
    LegRuns,
    ModeChanged,
    NodeChanged,
    NodesFixed,
    NoticeGiven,
    NumbersGiven,
    PlannedStartsTold,
    ReservationBound,
    StandingDeclared,
    StandingSkipped,
    StandingWithdrawn,
    TripRegistered,
)
from gridtravel.agents.maintenance_rules import NodeFailureRule
from gridtravel.gridcore.booking.calendar_events import (
    FinishedForgotten,
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.reservations import Reservation, ReservationEvent, ReservationState
from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.local_sched.scheduling.config import SchedulerMode
from gridtravel.manager.book.events import (
    AccountsCarried,
    GroupCommitted,
    GroupDecided,
    GroupEnded,
    GroupHeld,
    HoldsGivenUp,
    Part,
    PartRenewed,
    TripVoteKept,
    TripVotesForgotten,
    UndoLanded,
)
from gridtravel.manager.book.events import HoldsAsked as GroupHoldsAsked
from gridtravel.travel_agent.log.events import (
    AmendmentClosed,
    AmendmentDecided,
    AmendmentOpened,
    FilesSent,
    HoldsAsked,
    HoldsLetGo,
    JobSubmitted,
    LegsDropped,
    PeopleTold,
    ProbesAsked,
    RaceOpened,
    TripAmended,
    TripBooked,
    TripDecided,
    TripOpened,
)
from gridtravel.travel_agent.metajob_file.writer import metajob_to_json
from tests.oracles import example_values as some
from tests.oracles.example_values import NOW
from tests.oracles.record_examples import ASKED, RULE
from tests.support.metajob_builders import metajob

LONG_AGO: Final = NOW - 500_000
COMMIT: Final = ReservationEvent.COMMIT


def reserved(key: str, nodes: int = 2, start: int = NOW + 600, **others: object) -> Reservation:
    """A hold at ``alpha`` for half an hour."""
    held = replace(
        some.RESERVATION,
        reservation_id=key,
        request=replace(
            some.LEAST_REQUEST,
            request_id=f"for-{key}",
            nodes_min=nodes,
            nodes_max=nodes,
            duration_s=1_800,
            earliest_start=start,
            latest_end=start + 1_800,
        ),
        nodes=nodes,
        interval=Interval(start, start + 1_800),
        parts=(),
        granted_by="",
    )
    return replace(held, **others)  # type: ignore[arg-type]  # by name


MOVED: Final = replace(
    reserved("alpha.4", 3, state=ReservationState.COMMITTED, hold_expires_at=None),
    request=replace(
        some.LEAST_REQUEST,
        request_id="move-of-alpha.4",
        nodes_max=3,
        duration_s=1_800,
        earliest_start=NOW + 600,
        latest_end=NOW + 9_000,
    ),
)

AT_A_SITE: Final[tuple[object, ...]] = (
    NumbersGiven(reservations=3, jobs=2),
    ReservationGranted(reservation=reserved("alpha.4")),
    ReservationChanged(reservation_id="alpha.4", event=COMMIT, at=NOW),
    ReservationMoved(reservation=MOVED, at=NOW + 1),
    ReservationGranted(reservation=reserved("alpha.5", start=LONG_AGO + 100,
                                            hold_expires_at=LONG_AGO + 50)),
    ReservationChanged(reservation_id="alpha.5", event=ReservationEvent.RELEASE, at=LONG_AGO),
    FinishedForgotten(before=LONG_AGO + 10),
    ReservationGranted(reservation=reserved("alpha.6", 1, owner="system",
                                            state=ReservationState.COMMITTED,
                                            hold_expires_at=None)),
    NodesFixed(reservation_id="alpha.6", node_names=("thin-3",)),
    AccessGiven(reservation_id="alpha.6", access=RULE.access),
    RequestTombstoned(owner="ada", request_id="run-9:ocean", at=NOW),
    JobAccepted(
        job_id="3.alpha",
        owner="ada",
        spec=replace(some.SPEC, reservation_id="alpha.4", features=()),
        at=NOW,
        class_name="thin",
    ),
    JobResized(job_id="3.alpha", nodes=2, limit_s=900),
    HandoverDone(job_id="3.alpha", at=NOW + 1),
    ReservationBound(reservation_id="alpha.4", job_ids=("3.alpha",)),
    JobAccepted(job_id="4.alpha", owner="ada", spec=some.LEAST_SPEC, at=NOW, class_name="thin"),
    JobBound(job_id="4.alpha", reservation_ids=("alpha.4", "alpha.6")),
    JobHeld(job_id="4.alpha", is_held=True, by_admin=True, at=NOW),
    JobBoosted(job_id="4.alpha", points=70, at=NOW),
    PlannedStartsTold(places=(("4.alpha", NOW + 900),)),
    JobAccepted(job_id="5.alpha", owner="bob", spec=replace(some.LEAST_SPEC, request_id="k"),
                at=NOW, class_name="fat"),
    *(
        event
        for begun in (NOW + 2, NOW + 5)
        for event in (
            JobStarting(job_id="5.alpha", at=begun, until=begun + 1, reservation_id="",
                        node_names=("fat-0",)),
            JobRunning(job_id="5.alpha", started_precise=begun + 0.5),
            JobOnFailedNode(job_id="5.alpha", node_name="fat-0", rule=NodeFailureRule.REQUEUE,
                      at=begun + 1),
            JobRequeued(job_id="5.alpha", at=begun + 2),
        )
    ),
    JobStarting(job_id="5.alpha", at=NOW + 9, until=NOW + 10, reservation_id="",
                node_names=("fat-1",)),
    JobOnFailedNode(job_id="5.alpha", node_name="fat-1", rule=NodeFailureRule.CANCEL, at=NOW + 9),
    NodeChanged(name="fat-0", is_down=True, at=NOW + 3),
    ModeChanged(mode=SchedulerMode.SUSPENDED, at=NOW + 3),
    HookBegun(reservation_id="alpha.4", is_epilogue=False, at=NOW + 600),
    HookBegun(reservation_id="alpha.6", is_epilogue=False, at=NOW + 600),
    HookBegun(reservation_id="alpha.6", is_epilogue=True, at=NOW + 601),
    NoticeGiven(reservation_id="alpha.4", at=NOW + 4),
    NoticeGiven(reservation_id="alpha.4", at=NOW + 5),
    StandingDeclared(rule=RULE, at=NOW),
    StandingDeclared(rule=replace(RULE, name="night", serial=0), at=NOW),
    StandingWithdrawn(name="night", at=NOW),
    StandingSkipped(request_id="standing/class/1900040000", start=NOW + 40_000),
    AcceptorChanged(state=some.VOTED),
    AcceptorChanged(state=some.NOT_VOTED),
    AcceptorsForgotten(before=NOW),
)  # fmt: skip
"""Of ``alpha``."""

HELD_LEG: Final = replace(
    reserved("alpha.9"),
    request=replace(reserved("alpha.9").request, trip=some.TOGETHER),
)
BOUND: Final = replace(some.HELD_JOB.spec, reservation_id="alpha.9", features=())
HELD_LATER: Final = replace(
    reserved("alpha.10", start=NOW + 4_000),
    request=replace(
        reserved("alpha.10", start=NOW + 4_000).request,
        trip=replace(some.TOGETHER, attempt=4, nonce="m2r5"),
    ),
)

AT_A_SITE_OF_CARDS: Final[tuple[object, ...]] = (
    NumbersGiven(reservations=8, jobs=19),
    TripRegistered(register=some.REGISTER),
    ReservationGranted(reservation=HELD_LEG),
    HeldJobKept(reservation_id="alpha.9", job=some.HELD_JOB),
    InputArrived(reservation_id="alpha.9", path=some.INPUT.path, sha256="0b" * 32),
    AcceptorChanged(state=some.VOTED_YES),
    AcceptorChanged(state=some.VOTED_UNASKED),
    ReservationChanged(reservation_id="alpha.9", event=COMMIT, at=NOW),
    JobAccepted(
        job_id="20.alpha",
        owner="ada",
        spec=BOUND,
        at=NOW,
        class_name="thin",
        came_with_hold=True,
    ),
    JobSpecChanged(job_id="20.alpha", spec=replace(BOUND, request_id="run-5:ocean:job")),
    InputsNamed(job_id="20.alpha", inputs=(replace(some.INPUT, path="in/mesh.dat"),)),
    InputArrived(reservation_id="alpha.9", path=some.INPUT.path, sha256=some.INPUT.sha256),
    LegRuns(reservation_id="alpha.9", instance=some.TOGETHER.instance),
    JobAccepted(job_id="21.alpha", owner="ada", spec=some.LATER_SPEC, at=NOW),
    JobAccepted(job_id="22.alpha", owner="bob", spec=some.LEAST_SPEC, at=NOW, class_name="fat"),
    JobStarting(job_id="22.alpha", at=NOW, until=NOW + 9, reservation_id="",
                node_names=("fat-0",)),
    JobOver(job_id="22.alpha", at=NOW + 8, state=JobState.COMPLETED, exit_code=0, reason="",
            ended_at=NOW + 5),
    ReservationGranted(reservation=HELD_LATER),
    HeldJobKept(reservation_id="alpha.10", job=some.HELD_JOB),
)  # fmt: skip
"""Of ``alpha``: jobs that came with their holds, and trips that are known with all their legs."""

AT_A_SITE_OF_PRICES: Final[tuple[object, ...]] = (
    NumbersGiven(reservations=10, jobs=18),
    JobAccepted(job_id="19.alpha", owner="ada", spec=some.PRICED_SPEC, at=NOW, class_name="cpu",
                terms=some.TERMS),
    JobStarting(job_id="19.alpha", at=NOW, until=NOW + 3_600, reservation_id="",
                node_names=("cpu-0", "cpu-3")),
    JobRunning(job_id="19.alpha", started_precise=NOW + 0.5),
    JobAccepted(
        job_id="20.alpha", owner="bob", class_name="cpu", at=NOW,
        spec=replace(some.PRICED_SPEC, request_id="run-6:beta:job", budget_millicredits=None),
        terms=replace(some.TERMS, price_millicredits=0, node_numbers=(1,)),
    ),
    JobAccepted(job_id="21.alpha", owner="bob", spec=some.LEAST_SPEC, at=NOW, class_name="cpu",
                terms=replace(some.TERMS, deadline=None, node_numbers=())),
    JobOver(job_id="20.alpha", at=NOW + 8, state=JobState.TIMED_OUT, exit_code=-15,
            reason="kept short", by_site=True),
    JobMakesWay(job_id="19.alpha", for_job="21.alpha", free_from=NOW + 10, again_at=NOW + 90,
                at=NOW + 9),
)  # fmt: skip
"""Of ``alpha``: jobs whose price and promise were agreed, some on shared nodes."""

PARTS: Final = (
    Part(child="beta", request_id="north.8/beta/1", nodes=2, reservation_id="beta.9"),
    Part(child="gamma", request_id="north.8/gamma/1", nodes=1, reservation_id="gamma.3",
         lapses_at=NOW + 25),
)  # fmt: skip
LOST: Final = Part(
    child="beta", request_id="north.7/beta/1", nodes=2, reservation_id="beta.8", lapses_at=NOW + 25
)
FOUND: Final = replace(LOST, request_id="north.7/beta/2", reservation_id="beta.10", lapses_at=None)


def group(key: str, nodes: int) -> Reservation:
    """A hold over several children."""
    return reserved(key, nodes, site="north", resource_class="", contact="")


AT_A_MANAGER: Final[tuple[object, ...]] = (
    AccountsCarried(
        groups_opened=6,
        accounts=(
            TradeAccount(member="north", borrowed_node_s=60),
            TradeAccount(member="beta", lent_node_s=60, local_node_s=5),
        ),
    ),
    GroupHoldsAsked(group_id="north.7", parts=(LOST,)),
    GroupHeld(reservation=group("north.7", 2), parts=(LOST,)),
    GroupDecided(group_id="north.7", at=NOW + 1),
    GroupHoldsAsked(group_id="north.7", parts=(FOUND,)),
    PartRenewed(group_id="north.7", lost=LOST, part=FOUND),
    GroupCommitted(group_id="north.7", at=NOW + 2),
    UndoLanded(child="beta", request_id="north.7/beta/1"),
    GroupHoldsAsked(group_id="north.8", parts=PARTS),
    GroupHeld(reservation=group("north.8", 3), parts=PARTS),
    GroupEnded(group_id="north.8", event=ReservationEvent.EXPIRE, at=NOW + 20),
    GroupHoldsAsked(
        group_id="north.9",
        parts=tuple(replace(each, request_id=f"9/{each.child}") for each in PARTS),
    ),
    HoldsGivenUp(group_id="north.9", parts=(replace(PARTS[0], request_id="9/beta"),)),
    RequestTombstoned(owner="ada", request_id="run-9:ocean", at=NOW),
    FinishedForgotten(before=LONG_AGO),
    TripVoteKept(state=some.VOTED),
    TripVoteKept(state=some.NOT_VOTED),
    TripVotesForgotten(before=NOW),
)
"""Of ``north``: a group that stands, one that expired, and holds in the air."""

METAJOB_JSON: Final = metajob_to_json(metajob())
ON_LAPTOPS: Final[dict[str, tuple[object, ...]]] = {
    "trip-midchange": (
        TripOpened(trip_id="trip-midchange", name="weather", metajob_json=METAJOB_JSON),
        ProbesAsked(legs=(ASKED,)),
        ProbesAsked(legs=()),
        HoldsAsked(attempt=1, legs=(ASKED,)),
        HoldsLetGo(attempt=1),
        HoldsAsked(attempt=2, legs=(replace(ASKED, request_id="run-2:ocean"),)),
        TripDecided(attempt=2, legs=(some.LEG,), acceptors=some.ACCEPTORS),
        TripBooked(legs=(some.LEG,)),
        FilesSent(leg="ocean", reservation_id="alpha.7"),
        JobSubmitted(leg="ocean", job_id="18.alpha"),
        PeopleTold(occasion="booked.2"),
        AmendmentOpened(metajob_json=METAJOB_JSON, reason="as its user wishes"),
        AmendmentClosed(message="no room"),
        AmendmentOpened(metajob_json=METAJOB_JSON, reason="as its user wishes"),
        AmendmentDecided(attempt=3, legs=(some.LEG,), acceptors=some.ACCEPTORS),
        TripAmended(legs=(some.LEG,), dropped=(some.LEAST_LEG,)),
        LegsDropped(),
        AmendmentOpened(metajob_json=METAJOB_JSON, reason="healing"),
        HoldsAsked(attempt=4, legs=(replace(ASKED, request_id="run-4:ocean"),)),
        AmendmentDecided(attempt=4, legs=(some.LEG,)),
    ),
    "trip-unopened": (),
}
"""A trip in the middle of a change, and one whose command died before its first record."""

ON_LAPTOPS_OF_CARDS: Final[dict[str, tuple[object, ...]]] = {
    "trip-midchange": (
        TripOpened(
            trip_id="trip-midchange", name="weather", metajob_json=METAJOB_JSON, base="/home/ada"
        ),
        HoldsAsked(attempt=3, legs=(ASKED,)),
        TripDecided(
            attempt=3,
            legs=(some.LEG, some.LEAST_LEG),
            acceptors=some.KEEPERS,
            nonce=some.TOGETHER.nonce,
            asked_at=NOW,
        ),
        TripBooked(legs=(some.LEG, some.LEAST_LEG)),
        FilesSent(leg="ocean", reservation_id="alpha.7"),
        AmendmentOpened(metajob_json=METAJOB_JSON, reason="as its user wishes", base="/home/ada"),
        AmendmentDecided(
            attempt=4, legs=(some.LEG,), acceptors=some.KEEPERS, nonce="m2r5", asked_at=NOW + 60
        ),
        TripAmended(legs=(some.LEG,), dropped=(some.LEAST_LEG,)),
        AmendmentOpened(metajob_json=METAJOB_JSON, reason="healing", base="/home/ada"),
        AmendmentDecided(
            attempt=5, legs=(some.LEG,), acceptors=some.KEEPERS, nonce="p8t1", asked_at=NOW + 90
        ),
    ),
    "trip-race": (
        TripOpened(trip_id="trip-race", name="copies", metajob_json=METAJOB_JSON),
        RaceOpened(
            copies=("one", "two"),
            acceptors=some.KEEPERS,
            ends_at=NOW + 60,
            sites=("alpha", "beta"),
        ),
    ),
}
"""The same trip with its folder and the names of its attempts, and a race that knows its sites."""

"""Every kind of record that is journaled, with example values: what each looks like on a disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from gridtravel.agents.journal.events import (
    AGENT_EVENTS,
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
from gridtravel.agents.journal.events import CODEC as AGENT_CODEC
from gridtravel.agents.maintenance_rules import NodeFailureRule
from gridtravel.gridcore.booking.calendar_events import (
    FinishedForgotten,
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.reservations import ReservationEvent
from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.trips.itineraries import InputWay, LegState, Transport
from gridtravel.gridio.batch import far_book, job_files
from gridtravel.gridio.batch.far_book import Wish
from gridtravel.gridio.batch.job_files import JobRecord
from gridtravel.gridio.journal.records import EventCodec
from gridtravel.local_sched.reservations.standing import StandingReservation, StartRule
from gridtravel.local_sched.scheduling.config import SchedulerMode
from gridtravel.local_sched.scheduling.reservation_jobs import AccessRule
from gridtravel.manager.book.events import (
    MANAGER_EVENTS,
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
from gridtravel.manager.core import CODEC as MANAGER_CODEC
from gridtravel.travel_agent.log.events import (
    TRIP_EVENTS,
    AmendmentClosed,
    AmendmentDecided,
    AmendmentOpened,
    AskedLeg,
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
    TripEnded,
    TripOpened,
    UndoAsked,
)
from gridtravel.travel_agent.log.trip_log import CODEC as TRIP_CODEC
from tests.oracles import example_values as some
from tests.oracles.example_values import NOW

RULE: Final = StandingReservation(
    name="class",
    start_rule=StartRule(text="0 8 * * 1-5", zone="Europe/London"),
    duration_s=36_000,
    nodes=4,
    depth=3,
    account="teaching",
    features=("gpu",),
    access=AccessRule(
        owners=("ada",),
        accounts=("physics",),
        qualities_of_service=("urgent",),
        limit_max_s=3_600,
    ),
    serial=2,
)
ASKED: Final = AskedLeg(
    name="ocean", machine="alpha-machine", request_id="run-1:ocean", start=NOW + 900, nodes=3
)
PART: Final = Part(
    child="beta",
    request_id="north.5/beta/1",
    nodes=2,
    reservation_id="beta.9",
    replaces="beta.4",
    lapses_at=NOW + 25,
)
LEAST_PART: Final = Part(child="gamma", request_id="north.5/gamma/1", nodes=1)

AGENT: Final[tuple[object, ...]] = (
    ReservationGranted(reservation=some.RESERVATION),
    ReservationGranted(reservation=some.LEAST_RESERVATION),
    *(ReservationGranted(reservation=each) for each in some.in_every_state()),
    ReservationMoved(reservation=some.LEAST_RESERVATION, at=NOW),
    *(
        ReservationChanged(reservation_id="alpha.7", event=event, at=NOW)
        for event in ReservationEvent
    ),
    RequestTombstoned(owner="ada", request_id="run-1:ocean", at=NOW),
    FinishedForgotten(before=NOW),
    JobAccepted(job_id="17.alpha", owner="ada", spec=some.SPEC, at=NOW, class_name="thin"),
    JobAccepted(job_id="18.alpha", owner="ada", spec=some.RACING_SPEC, at=NOW),
    JobAccepted(job_id="19.alpha", owner="ada", spec=some.LEAST_SPEC, at=NOW),
    HeldJobKept(reservation_id="alpha.7", job=some.HELD_JOB),
    JobAccepted(
        job_id="20.alpha",
        owner="ada",
        spec=some.SPEC,
        at=NOW,
        class_name="thin",
        came_with_hold=True,
    ),
    JobSpecChanged(job_id="20.alpha", spec=some.SPEC),
    InputsNamed(job_id="20.alpha", inputs=(some.INPUT,)),
    InputArrived(reservation_id="alpha.7", path=some.INPUT.path, sha256=some.INPUT.sha256),
    JobStarting(
        job_id="17.alpha",
        at=NOW,
        until=NOW + 60,
        reservation_id="alpha.7",
        node_names=("thin-0", "thin-2"),
    ),
    JobRunning(job_id="17.alpha", started_precise=NOW + 0.25),
    JobRunning(job_id="17.alpha", started_precise=float(NOW)),
    *(
        JobOver(job_id="17.alpha", at=NOW, state=state, exit_code=1, reason="why")
        for state in JobState
    ),
    JobOver(job_id="17.alpha", at=NOW, state=JobState.CANCELLED, exit_code=None, reason=""),
    JobOver(
        job_id="17.alpha",
        at=NOW,
        state=JobState.COMPLETED,
        exit_code=0,
        reason="",
        ended_at=NOW - 60,
    ),
    JobOver(
        job_id="17.alpha",
        at=NOW,
        state=JobState.FAILED,
        exit_code=None,
        reason="lost",
        by_site=True,
    ),
    *(
        JobOnFailedNode(job_id="17.alpha", node_name="thin-0", rule=rule, at=NOW)
        for rule in NodeFailureRule
    ),
    JobMakesWay(
        job_id="17.alpha", for_job="18.alpha", free_from=NOW + 5, again_at=NOW + 60, at=NOW
    ),
    JobRequeued(job_id="17.alpha", at=NOW),
    JobHeld(job_id="17.alpha", is_held=True, by_admin=False, at=NOW),
    JobBoosted(job_id="17.alpha", points=-5, at=NOW),
    JobResized(job_id="17.alpha", nodes=2, limit_s=60),
    HandoverDone(job_id="17.alpha", at=NOW),
    ReservationBound(reservation_id="alpha.7", job_ids=("17.alpha", "18.alpha")),
    ReservationBound(reservation_id="alpha.7", job_ids=()),
    JobBound(job_id="17.alpha", reservation_ids=("alpha.7",)),
    AcceptorChanged(state=some.VOTED),
    AcceptorChanged(state=some.VOTED_YES),
    AcceptorChanged(state=some.NOT_VOTED),
    AcceptorsForgotten(before=NOW),
    NumbersGiven(reservations=7, jobs=19),
    *(ModeChanged(mode=mode, at=NOW) for mode in SchedulerMode),
    NodeChanged(name="thin-0", is_down=True, at=NOW),
    StandingSkipped(request_id="standing/class/1900000000", start=NOW),
    NoticeGiven(reservation_id="alpha.7", at=NOW),
    HookBegun(reservation_id="alpha.7", is_epilogue=True, at=NOW),
    PlannedStartsTold(places=(("17.alpha", NOW), ("18.alpha", NOW + 60))),
    PlannedStartsTold(places=()),
    NodesFixed(reservation_id="alpha.7", node_names=("thin-0",)),
    AccessGiven(reservation_id="alpha.7", access=RULE.access),
    AccessGiven(reservation_id="alpha.7", access=AccessRule()),
    StandingDeclared(rule=RULE, at=NOW),
    StandingWithdrawn(name="class", at=NOW),
    ReservationGranted(reservation=some.LEG_TOGETHER),
    JobAccepted(job_id="21.alpha", owner="ada", spec=some.LATER_SPEC, at=NOW),
    JobAccepted(
        job_id="19.alpha",
        owner="ada",
        spec=some.PRICED_SPEC,
        at=NOW,
        class_name="cpu",
        terms=some.TERMS,
    ),
    TripRegistered(register=some.REGISTER),
    AcceptorChanged(state=some.VOTED_UNASKED),
    LegRuns(reservation_id="alpha.9", instance=some.TOGETHER.instance),
)

MANAGER: Final[tuple[object, ...]] = (
    GroupHoldsAsked(group_id="north.5", parts=(PART, LEAST_PART)),
    HoldsGivenUp(group_id="north.5", parts=(PART,)),
    GroupHeld(reservation=some.RESERVATION, parts=(PART, LEAST_PART), amends="north.2"),
    GroupHeld(reservation=some.LEAST_RESERVATION, parts=(LEAST_PART,)),
    GroupDecided(group_id="north.5", at=NOW),
    PartRenewed(group_id="north.5", lost=PART, part=LEAST_PART),
    GroupCommitted(group_id="north.5", at=NOW),
    *(GroupEnded(group_id="north.5", event=event, at=NOW) for event in ReservationEvent),
    UndoLanded(child="beta", request_id="north.5/beta/1"),
    AccountsCarried(
        groups_opened=5,
        accounts=(
            TradeAccount(member="beta", lent_node_s=60, borrowed_node_s=30, local_node_s=10),
        ),
    ),
    AccountsCarried(groups_opened=0, accounts=()),
    RequestTombstoned(owner="ada", request_id="run-1:ocean", at=NOW),
    FinishedForgotten(before=NOW),
    TripVoteKept(state=some.VOTED),
    TripVotesForgotten(before=NOW),
)

TRIPS: Final[tuple[object, ...]] = (
    TripOpened(
        trip_id=some.TRIP_ID,
        name="weather \u00e9",
        metajob_json='{"name": "weather"}',
        base="/home/ada/work",
    ),
    ProbesAsked(legs=(ASKED,)),
    ProbesAsked(legs=()),
    HoldsAsked(attempt=3, legs=(ASKED,)),
    HoldsLetGo(attempt=3),
    TripDecided(attempt=3, legs=(some.LEG, some.LEAST_LEG), acceptors=some.ACCEPTORS),
    TripDecided(attempt=1, legs=(some.LEAST_LEG,)),
    TripBooked(legs=(some.LEG,)),
    TripBooked(legs=(replace(some.LEG, price_holds_until=some.NOW + 900),)),
    *(TripBooked(legs=(replace(some.LEG, input_by=way),)) for way in InputWay),
    *(TripBooked(legs=(replace(some.LEG, state=state),)) for state in LegState),
    *(TripBooked(legs=(replace(some.LEG, transport=way),)) for way in Transport),
    FilesSent(leg="ocean", reservation_id="alpha.7"),
    JobSubmitted(leg="ocean", job_id="17.alpha"),
    AmendmentOpened(
        metajob_json='{"name": "weather"}', reason="so many nodes", base="/home/ada/work"
    ),
    AmendmentDecided(attempt=4, legs=(some.LEG,), acceptors=some.ACCEPTORS),
    AmendmentDecided(attempt=4, legs=(some.LEG,)),
    TripAmended(legs=(some.LEG,), dropped=(some.LEAST_LEG,)),
    TripAmended(legs=(some.LEG,)),
    LegsDropped(),
    AmendmentClosed(message="no room"),
    RaceOpened(copies=("alpha", "beta"), acceptors=some.ACCEPTORS, ends_at=NOW),
    PeopleTold(occasion="booked.1"),
    UndoAsked(reason="cancelled by its user"),
    TripEnded(state="CANCELLED", message="cancelled", legs=(some.LEG,)),
    TripEnded(state="ABSENT"),
    TripDecided(
        attempt=3,
        legs=(some.LEG,),
        acceptors=some.KEEPERS,
        nonce=some.TOGETHER.nonce,
        asked_at=NOW,
    ),
    AmendmentDecided(
        attempt=4,
        legs=(some.LEG,),
        acceptors=some.KEEPERS,
        nonce=some.TOGETHER.nonce,
        asked_at=NOW,
    ),
    RaceOpened(
        copies=("alpha", "beta"), acceptors=some.KEEPERS, ends_at=NOW, sites=("alpha", "beta")
    ),
)

JOURNALED: Final[Mapping[str, tuple[EventCodec, Mapping[str, type], tuple[object, ...]]]] = (
    MappingProxyType(
        {
            "agent": (AGENT_CODEC, AGENT_EVENTS, AGENT),
            "manager": (MANAGER_CODEC, MANAGER_EVENTS, MANAGER),
            "trip": (TRIP_CODEC, TRIP_EVENTS, TRIPS),
        }
    )
)
"""Whose journal -> how it is written, the kinds there are, and the examples."""

WISHES: Final = (
    Wish(request=some.REQUEST, asked_at=NOW),
    Wish(request=some.LEAST_REQUEST, asked_at=0),
)
JOBS: Final = (
    JobRecord(spec=some.SPEC, submitted_at=NOW, latest_end=NOW + 60),
    JobRecord(spec=some.LEAST_SPEC, submitted_at=0, latest_end=0),
)


def far_lines() -> Iterator[tuple[str, str, Any]]:
    """What is written at the far end of a site without an agent: which file, line, value."""
    for wish in WISHES:
        yield "far wish", far_book.to_line(wish), wish
    for job in JOBS:
        yield "far job", job_files.to_line(job), job

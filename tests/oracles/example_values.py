"""One value of each kind that is written down or sent: with every field set, and with as few as may
be. Journals and messages are made of these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Begin,
    Decline,
    DeclineRule,
    PassingTerms,
    Reservation,
    ReservationPart,
    ReservationRequest,
    ReservationState,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.booking.summaries import (
    CalendarSummary,
    CalendarVersion,
    ClassSummary,
    SummarySlot,
)
from gridtravel.gridcore.jobs.handovers import HandedFile, Handover, HandoverGrant
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import Companion, JobSpec, JobState, JobTerms, JobView
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import InputWay, Leg, LegState, Transport
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridcore.trips.registers import TripRegister
from gridtravel.gridcore.trips.trip_consensus import AcceptorState, Ballot, Outcome, Vote

NOW: Final = 1_900_000_000
"""In March 2030."""
TRIP_ID: Final = "trip-00000001abcdefghjkmnpqrstv"
ACCEPTORS: Final = (
    Acceptor(site="alpha", endpoint="alpha.example.org:7101"),
    Acceptor(site="beta", endpoint="beta.example.org:7101"),
    Acceptor(site="gamma", endpoint=""),
)
TRIP: Final = TripRef(
    trip_id=TRIP_ID,
    leg="ocean",
    attempt=3,
    participants=("alpha", "beta", "gamma"),
    acceptors=ACCEPTORS,
    ends_at=NOW + 7_200,
)
KEEPERS: Final = tuple(replace(each, card=f"card.of.{each.site}") for each in ACCEPTORS)
"""The same with their cards."""
TOGETHER: Final = replace(
    TRIP,
    nonce="k3w9",
    acceptors=KEEPERS,
    legs=(
        TripLeg(leg="ocean", site="alpha", start=NOW + 900),
        TripLeg(leg="air", site="beta", start=NOW + 900, has_agent=False),
    ),
    begin=Begin.TOGETHER,
)
"""A trip whose legs begin together."""
REGISTER: Final = TripRegister(
    key=TOGETHER.instance,
    trip_id=TRIP_ID,
    owner="ada",
    participants=TOGETHER.participants,
    acceptors=KEEPERS,
    legs=TOGETHER.legs,
    starts_at=NOW + 900,
    ends_at=NOW + 7_200,
)
REQUEST: Final = ReservationRequest(
    request_id="run-1:ocean",
    account="physics",
    nodes_min=2,
    nodes_max=4,
    duration_s=1_800,
    earliest_start=NOW + 600,
    latest_end=NOW + 7_200,
    features=("gpu", "ib"),
    budget_millicredits=250_000,
    start_is_fixed=False,
    notify_email="ada@example.org",
    trip=TRIP,
    replaces="alpha.6",
    beneficiary="/O=grid/OU=users/CN=ada",
    via=("north", "world"),
    quote="quote1.e30.c2lnbmVk",
)
LEAST_REQUEST: Final = ReservationRequest(
    request_id="r",
    account="a",
    nodes_min=1,
    nodes_max=1,
    duration_s=1,
    earliest_start=0,
    latest_end=1,
)
RESERVATION: Final = Reservation(
    reservation_id="alpha.7",
    site="alpha",
    owner="/O=grid/OU=users/CN=ada",
    request=REQUEST,
    resource_class="thin",
    nodes=3,
    interval=Interval(NOW + 900, NOW + 2_700),
    state=ReservationState.HELD,
    created_at=NOW,
    price_millicredits=54_000,
    hold_expires_at=NOW + 30,
    contact="10.0.0.7:21001",
    parts=(
        ReservationPart(
            site="beta",
            reservation_id="beta.9",
            nodes=3,
            endpoint="beta.example.org:7101",
            contact="10.0.1.9:21002",
        ),
    ),
    granted_by="world",
    job_id="17.alpha",
)
LEAST_RESERVATION: Final = Reservation(
    reservation_id="alpha.8",
    site="alpha",
    owner="ada",
    request=LEAST_REQUEST,
    resource_class="thin",
    nodes=1,
    interval=Interval(0, 1),
    state=ReservationState.COMMITTED,
    created_at=0,
)
LEG_TOGETHER: Final = replace(
    RESERVATION,
    reservation_id="alpha.9",
    request=replace(REQUEST, request_id="run-3:ocean", trip=TOGETHER, replaces=None),
    job_id="",
)
"""A leg of it."""
HANDOVER: Final = Handover(
    leg="ocean",
    site="beta",
    endpoint="beta.example.org:7101",
    files=(HandedFile(source="field.dat", destination="in/field.dat"),),
)
RACE: Final = Race(
    trip_id=TRIP_ID,
    copy="beta",
    copies=("alpha", "beta"),
    acceptors=ACCEPTORS,
    ends_at=NOW + 7_200,
)
SPEC: Final = JobSpec(
    request_id="run-1:ocean:job",
    name="ocean \u00e9t\u00e9",
    account="physics",
    nodes=3,
    limit_s=1_800,
    argv=("./ocean", "--steps", "40"),
    environment=(("OMP_NUM_THREADS", "8"), ("WORD", 'a "b" c')),
    reservation_id="alpha.7",
    features=("gpu",),
    notify_email="ada@example.org",
    quality_of_service="urgent",
    companions=(Companion(leg="air", site="beta", nodes=2, contact="10.0.1.9:21002"),),
    leg_before="mesh",
    leg_after="picture",
    handover=HANDOVER,
)
INPUT: Final = InputFile(path="in/field.dat", size_bytes=40, sha256="0a" * 32)
HELD_JOB: Final = HeldJob(
    spec=replace(
        SPEC,
        reservation_id="",
        companions=(Companion(leg="air", site="beta", nodes=2),),
        inputs=(INPUT,),
        relayed_from="mesh",
        gives=HandoverGrant(leg="picture", site="beta", paths=("out",)),
    )
)
MANIFEST: Final = Manifest(contacts=(("air", "10.0.1.9:21002"), ("ocean", "10.0.0.9:21001")))
RACING_SPEC: Final = JobSpec(
    request_id="run-2:beta:job",
    name="copy",
    account="physics",
    nodes=1,
    limit_s=60,
    script="#!/bin/sh\necho \u00fc\n",
    race=RACE,
)
LATER_SPEC: Final = replace(
    RACING_SPEC,
    request_id="run-4:beta:job",
    handover=replace(HANDOVER, card="card.of.beta"),
    race=replace(RACE, acceptors=KEEPERS, sites=("alpha", "beta")),
)
PRICED_SPEC: Final = replace(
    RACING_SPEC,
    request_id="run-5:beta:job",
    race=None,
    deadline=NOW + 3_600,
    budget_millicredits=12_500,
    estimate_s=40,
    is_restartable=True,
    memory_mb=2_048,
    disk_mb=10_000,
)
TERMS: Final = JobTerms(
    agreed_at=NOW + 0.25, price_millicredits=9_750, deadline=NOW + 3_600, node_numbers=(0, 3)
)
LEAST_SPEC: Final = JobSpec(
    request_id="j", name="n", account="a", nodes=1, limit_s=1, argv=("true",)
)
JOB: Final = JobView(
    job_id="17.alpha",
    site="alpha",
    owner="ada",
    spec=SPEC,
    state=JobState.FAILED,
    submitted_at=NOW,
    planned_start=NOW + 900,
    started_at=NOW + 901,
    started_precise=NOW + 901.25,
    ended_at=NOW + 1_000,
    exit_code=-9,
    node_names=("thin-0", "thin-2"),
    reason="it was killed",
)
PRICED_JOB: Final = JobView(
    job_id="19.alpha",
    site="alpha",
    owner="ada",
    spec=PRICED_SPEC,
    state=JobState.RUNNING,
    submitted_at=NOW,
    started_at=NOW,
    started_precise=NOW + 0.5,
    node_names=("cpu-0", "cpu-3"),
    terms=TERMS,
    shares=(0.5, 0.25),
)
LEAST_JOB: Final = JobView(
    job_id="18.alpha",
    site="alpha",
    owner="ada",
    spec=LEAST_SPEC,
    state=JobState.QUEUED,
    submitted_at=0,
)
VOTED: Final = AcceptorState(
    instance=f"{TRIP_ID}/3",
    promised=Ballot(4, "beta:run-7"),
    vote=Vote(ballot=Ballot(3, "alpha:run-2"), outcome=Outcome.ABORT),
    keep_until=NOW + 7_200,
)
VOTED_YES: Final = AcceptorState(
    instance=f"{TRIP_ID}/2",
    vote=Vote(ballot=Ballot(0), outcome=Outcome.COMMIT, manifest=MANIFEST),
    keep_until=NOW,
)
VOTED_UNASKED: Final = AcceptorState(
    instance=f"{TOGETHER.instance}/ready/ocean", keep_until=NOW, asked_by="beta"
)
NOT_VOTED: Final = AcceptorState(instance=f"{TRIP_ID}/1")
LEG: Final = Leg(
    name="ocean",
    machine="alpha-machine",
    site="alpha",
    nodes=3,
    interval=Interval(NOW + 900, NOW + 2_700),
    transport=Transport.GRPC,
    price_millicredits=54_000,
    state=LegState.BOOKED,
    reservation_id="alpha.7",
    job_id="17.alpha",
    contact="10.0.0.7:21001",
    zone="America/Los_Angeles",
    input_by=InputWay.SITES,
)
LEAST_LEG: Final = Leg(
    name="air",
    machine="beta-machine",
    site="beta",
    nodes=1,
    interval=Interval(0, 1),
    transport=Transport.SSH,
)
SUMMARY: Final = CalendarSummary(
    site="alpha",
    version=CalendarVersion("epoch-1", 42),
    as_of=NOW,
    classes=(
        ClassSummary(
            name="thin",
            capacity=6,
            features=("gpu", "ib"),
            slots=(
                SummarySlot(NOW, NOW + 60, 2, 200),
                SummarySlot(NOW + 60, NOW + 360, 6, 1_800),
            ),
        ),
    ),
    millicredits_per_node_hour=36_000,
)
DECLINE: Final = Decline(
    rule=DeclineRule.NO_ROOM,
    message="no room for 4 nodes within the window",
    earliest=NOW + 9_000,
    nodes_now=2,
    site="alpha",
    summary=SUMMARY,
)
TOO_SOON: Final = Decline(
    rule=DeclineRule.DEADLINE,
    message="0 of 1 nodes could finish it by its deadline",
    site="alpha",
    passing=(PassingTerms(deadline=NOW + 9, budget_millicredits=40), PassingTerms(deadline=NOW)),
)
LEAST_DECLINE: Final = Decline(rule=DeclineRule.POLICY, message="")


def in_every_state() -> tuple[Reservation, ...]:
    """A reservation in each state there is."""
    return tuple(
        replace(
            LEAST_RESERVATION,
            state=state,
            hold_expires_at=NOW + 5 if state is ReservationState.HELD else None,
        )
        for state in ReservationState
    )

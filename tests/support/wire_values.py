"""Hypothesis strategies for every value that crosses the wire, also at its bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import (
    BUDGET_LIMIT_MILLICREDITS,
    DURATION_LIMIT_S,
    ID_LENGTH_MAX,
    NODES_LIMIT,
    Acceptor,
    Availability,
    Decline,
    DeclineRule,
    Offer,
    PassingTerms,
    Reservation,
    ReservationPart,
    ReservationRequest,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.booking.summaries import (
    CalendarSummary,
    CalendarVersion,
    ClassSummary,
    SummaryDelta,
    SummarySlot,
)
from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.gridcore.jobs.handovers import HandedFile, Handover, HandoverGrant
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import (
    SPACE_LIMIT_MB,
    Companion,
    JobSpec,
    JobState,
    JobTerms,
    JobView,
)
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.ports import ClassDescription, FileStatus, OutputChunk, SiteDescription
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.timing.timetext import INSTANT_LIMIT
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridcore.trips.trip_consensus import (
    ACCEPTORS_MAX,
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
)
from gridtravel.gridio.rpc.codec.checks import COUNT_MAX, INSTANT_MAX

ID_LETTERS = "abcXYZ019._:/+-"

ids = st.text(ID_LETTERS, min_size=1, max_size=ID_LENGTH_MAX)
words = st.text(max_size=40)
# Printable in Python's sense, which is what the codec and the domain ask for.
printable = st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.just(" ")
names = st.text(printable, min_size=1, max_size=20)
maybe_names = st.text(printable, max_size=20)
instants = st.integers(0, INSTANT_MAX)
counts = st.integers(0, COUNT_MAX)
nodes = st.integers(1, NODES_LIMIT)
tuples_of_names = st.lists(names, max_size=3).map(tuple)
moments = st.floats(0, INSTANT_MAX, allow_nan=False)

acceptors = st.builds(Acceptor, site=ids, endpoint=maybe_names)
trips = st.builds(
    TripRef,
    trip_id=ids,
    leg=ids,
    attempt=st.integers(1, 1000),
    participants=tuples_of_names,
    acceptors=st.lists(acceptors, max_size=ACCEPTORS_MAX).map(tuple),
    ends_at=instants,
)
ballots = st.builds(Ballot, st.integers(1, 1000), ids)
outcomes = st.sampled_from(Outcome)
manifests = st.dictionaries(ids, st.just("gate.example.org:7101"), max_size=3).map(
    lambda contacts: Manifest(contacts=tuple(contacts.items()))
)
vote_questions = st.one_of(
    st.builds(
        VoteQuestion,
        instance=ids,
        phase=st.just(Phase.PREPARE),
        ballot=ballots,
    ),
    st.builds(
        VoteQuestion,
        instance=ids,
        phase=st.just(Phase.ACCEPT),
        ballot=ballots,
        outcome=outcomes,
    ),
    st.builds(
        VoteQuestion,
        instance=ids,
        phase=st.just(Phase.ACCEPT),
        outcome=st.just(Outcome.COMMIT),
        manifest=manifests,
    ),
    st.builds(
        VoteQuestion,
        instance=ids,
        phase=st.just(Phase.LEARN),
        beside=st.lists(ids, max_size=3).map(tuple),
    ),
)
lone_answers = st.builds(
    AcceptorAnswer,
    acceptor=ids,
    is_granted=st.booleans(),
    promised=ballots,
    vote=st.none() | st.builds(Vote, ballot=ballots, outcome=outcomes, manifest=manifests),
)
vote_answers = st.builds(
    replace, lone_answers, beside=st.lists(lone_answers, max_size=3).map(tuple)
)


@st.composite
def requests(draw: st.DrawFn) -> ReservationRequest:
    """Any request that its own checks allow."""
    nodes_min, nodes_max = sorted((draw(nodes), draw(nodes)))
    duration_s = draw(st.integers(1, DURATION_LIMIT_S))
    earliest = draw(st.integers(0, INSTANT_MAX - DURATION_LIMIT_S))
    return ReservationRequest(
        request_id=draw(ids),
        account=draw(names),
        nodes_min=nodes_min,
        nodes_max=nodes_max,
        duration_s=duration_s,
        earliest_start=earliest,
        latest_end=draw(st.integers(earliest + duration_s, INSTANT_MAX)),
        features=draw(tuples_of_names),
        budget_millicredits=draw(st.none() | counts),
        start_is_fixed=draw(st.booleans()),
        notify_email=draw(maybe_names),
        trip=draw(st.none() | trips),
        replaces=draw(st.none() | ids),
        beneficiary=draw(maybe_names),
        via=draw(st.lists(ids, max_size=3, unique=True).map(tuple)),
    )


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """Any stretch between 1970 and the year 10000."""
    start = draw(st.integers(0, INSTANT_MAX - 1))
    return Interval(start, draw(st.integers(start + 1, INSTANT_MAX)))


parts = st.builds(
    ReservationPart,
    site=maybe_names,
    reservation_id=ids,
    nodes=nodes,
    endpoint=maybe_names,
    contact=maybe_names,
)


def reservations(now: int) -> st.SearchStrategy[Reservation]:
    """Any entry of a book; a hold lives at least until ``now``."""
    expiries = st.integers(now, now + DURATION_LIMIT_S)

    def of(state: ReservationState) -> st.SearchStrategy[Reservation]:
        return st.builds(
            Reservation,
            reservation_id=ids,
            site=maybe_names,
            owner=maybe_names,
            request=requests(),
            resource_class=maybe_names,
            nodes=nodes,
            interval=intervals(),
            state=st.just(state),
            created_at=instants,
            price_millicredits=counts,
            hold_expires_at=expiries if state is ReservationState.HELD else st.none(),
            contact=maybe_names,
            parts=st.lists(parts, max_size=2).map(tuple),
            granted_by=maybe_names,
        )

    return st.sampled_from(ReservationState).flatmap(of)


versions = st.builds(CalendarVersion, maybe_names, counts)


@st.composite
def class_summaries(draw: st.DrawFn, name: str | None = None) -> ClassSummary:
    """A class whose slots do not contradict themselves."""
    capacity = draw(st.integers(0, NODES_LIMIT))
    at = draw(st.integers(0, INSTANT_MAX // 2))
    slots: list[SummarySlot] = []
    for _ in range(draw(st.integers(0, 4))):
        length_s = draw(st.integers(1, 10**6))
        free_min = draw(st.integers(0, capacity))
        free_node_s = draw(st.integers(free_min * length_s, capacity * length_s))
        slots.append(SummarySlot(at, at + length_s, free_min, free_node_s))
        at += length_s
    return ClassSummary(
        name=draw(names) if name is None else name,
        capacity=capacity,
        features=draw(tuples_of_names),
        slots=tuple(slots),
    )


several_classes = st.lists(class_summaries(), max_size=3, unique_by=lambda each: each.name).map(
    tuple
)

summaries = st.builds(
    CalendarSummary,
    site=maybe_names,
    version=versions,
    as_of=instants,
    classes=several_classes,
    millicredits_per_node_hour=counts,
)

deltas = st.builds(
    SummaryDelta,
    site=maybe_names,
    since=versions,
    version=versions,
    as_of=instants,
    classes=several_classes,
)

passing_terms = st.builds(PassingTerms, deadline=instants, budget_millicredits=st.none() | counts)
declines = st.builds(
    Decline,
    passing=st.lists(passing_terms, max_size=2).map(tuple),
    rule=st.sampled_from(DeclineRule),
    message=words,
    earliest=st.none() | instants,
    nodes_now=st.integers(0, NODES_LIMIT),
    site=maybe_names,
    summary=st.none() | summaries,
)


@st.composite
def offers(draw: st.DrawFn) -> Offer:
    """Room for any start within a stretch."""
    availability = draw(intervals())
    return Offer(
        start=availability.start,
        start_until=availability.end,
        nodes=draw(nodes),
        resource_class=draw(maybe_names),
        unit_price_millicredits=draw(counts),
        quote=draw(maybe_names),
        quote_expires_at=draw(st.none() | instants),
    )


availabilities = st.builds(
    Availability,
    offers=st.lists(offers(), max_size=3).map(
        lambda found: tuple(sorted(found, key=lambda offer: offer.start))
    ),
    version=versions,
    known_until=instants,
)

descriptions = st.builds(
    SiteDescription,
    site=maybe_names,
    is_manager=st.booleans(),
    classes=st.lists(
        st.builds(
            ClassDescription,
            name=maybe_names,
            nodes=st.integers(0, NODES_LIMIT),
            features=tuples_of_names,
        ),
        max_size=2,
    ).map(tuple),
    time_zone=maybe_names,
    time_precise=moments,
    lead_s=counts,
    hold_ttl_max_s=counts,
    horizon_s=counts,
    millicredits_per_node_hour=counts,
    software=maybe_names,
    login=maybe_names,
    children=tuples_of_names,
    trade=st.lists(
        st.builds(
            TradeAccount,
            member=maybe_names,
            lent_node_s=counts,
            borrowed_node_s=counts,
            local_node_s=counts,
        ),
        max_size=2,
    ).map(tuple),
)


paths_to_hand = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
handovers = st.builds(
    Handover,
    leg=ids,
    site=ids,
    endpoint=maybe_names,
    files=st.lists(
        st.builds(HandedFile, source=paths_to_hand, destination=paths_to_hand), max_size=2
    ).map(tuple),
)


input_files = st.builds(
    InputFile,
    path=st.from_regex(r"[a-z]{1,5}(/[a-z.]{1,5}x){0,2}", fullmatch=True),
    size_bytes=counts,
    sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
)
inputs = st.lists(input_files, max_size=3, unique_by=lambda each: each.path).map(tuple)

grants = st.builds(
    HandoverGrant, leg=ids, site=ids, paths=st.lists(paths_to_hand, max_size=2).map(tuple)
)

races = st.builds(
    lambda copies, acceptors, ends_at: Race(
        trip_id="trip-1",
        copy=copies[0],
        copies=tuple(sorted(copies)),
        acceptors=tuple(acceptors),
        ends_at=ends_at,
    ),
    st.lists(st.text(ID_LETTERS, min_size=1, max_size=64), min_size=2, max_size=5, unique=True),
    st.lists(
        st.builds(Acceptor, site=ids, endpoint=st.just("gate.example.org:7101")),
        min_size=1,
        max_size=5,
    ),
    instants,
)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    """A command or a script, with an environment."""
    texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
    command: dict[str, Any] = (
        {"argv": tuple(draw(st.lists(texts, min_size=1, max_size=3)))}
        if draw(st.booleans())
        else {"script": "#!/bin/sh\n" + draw(texts)}
    )
    reservation_id = draw(st.just("") | ids)
    variables = st.tuples(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), texts)
    return JobSpec(
        request_id=draw(ids),
        name=draw(names),
        account=draw(names),
        nodes=draw(nodes),
        limit_s=draw(st.integers(1, COUNT_MAX)),
        environment=tuple(draw(st.lists(variables, max_size=3))),
        reservation_id=reservation_id,
        leg_before=draw(st.just("") | ids),
        leg_after=draw(st.just("") | ids),
        handover=draw(st.none() | handovers) if reservation_id else None,
        race=None if reservation_id else draw(st.none() | races),
        inputs=draw(inputs),
        relayed_from=draw(st.just("") | ids),
        gives=draw(st.none() | grants),
        features=draw(tuples_of_names),
        notify_email=draw(maybe_names),
        quality_of_service=draw(maybe_names),
        deadline=draw(st.none() | st.integers(1, INSTANT_LIMIT)),
        budget_millicredits=draw(st.none() | st.integers(0, BUDGET_LIMIT_MILLICREDITS)),
        estimate_s=draw(st.none() | st.integers(1, DURATION_LIMIT_S)),
        is_restartable=draw(st.booleans()),
        memory_mb=draw(st.none() | st.integers(1, SPACE_LIMIT_MB)),
        disk_mb=draw(st.none() | st.integers(1, SPACE_LIMIT_MB)),
        **command,
    )


@st.composite
def held_jobs(draw: st.DrawFn) -> HeldJob:
    """A job that names no reservation yet."""
    spec = replace(draw(specs()), reservation_id="", race=None)
    companions = draw(st.lists(st.builds(Companion, leg=ids, site=ids, nodes=nodes), max_size=2))
    return HeldJob(spec=replace(spec, companions=tuple(companions)))


job_terms = st.builds(
    JobTerms,
    agreed_at=st.floats(0, INSTANT_LIMIT, allow_nan=False),
    price_millicredits=st.integers(0, BUDGET_LIMIT_MILLICREDITS),
    deadline=st.none() | instants,
    node_numbers=st.lists(st.integers(0, NODES_LIMIT), max_size=3).map(tuple),
)

jobs = st.builds(
    JobView,
    job_id=ids,
    site=maybe_names,
    owner=maybe_names,
    spec=specs(),
    state=st.sampled_from(JobState),
    submitted_at=instants,
    planned_start=st.none() | instants,
    started_at=st.none() | instants,
    started_precise=st.none() | moments,
    ended_at=st.none() | instants,
    exit_code=st.none() | st.integers(-64, 255),
    node_names=tuples_of_names,
    reason=words,
    terms=st.none() | job_terms,
    shares=st.lists(st.floats(0, 1), max_size=3).map(tuple),
)

files = st.builds(
    FileStatus,
    path=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
    size_bytes=counts,
    is_folder=st.booleans(),
    mode=st.integers(0, 0o7777),
    sha256=st.just("") | st.text("0123456789abcdef", min_size=64, max_size=64),
)

chunks = st.builds(OutputChunk, offset=counts, content=st.binary(max_size=50))

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=10,
)

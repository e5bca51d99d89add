"""From the words of a user-settable reservation to the request that the site is asked.

The paper's six parameters (GUR and Catalina paper, section 3): account, exact or maximum number of
nodes, duration, earliest start, latest end, e-mail address. Each but the nodes and the duration has
a default: the site's choice of account, now, the end of what can be booked, no mail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gridtravel.gridcore.booking.reservations import Reservation, ReservationRequest, check_id
from gridtravel.gridcore.errors import ConflictError, InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.catalina.options import (
    AccountOption,
    AnyFeaturesOption,
    DurationOption,
    EarliestOption,
    EmailOption,
    LatestOption,
    MaxNodesOption,
    NodesOption,
    RequestOption,
)
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.words import (
    read_account,
    read_email,
    read_features,
    read_length,
    read_time,
)

ANY_ACCOUNT = "default"
"""Leaves the choice to the site: the caller's own account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationWords:
    """The options as they were written; empty and ``None``: not given."""

    nodes: NodesOption = None
    maxnodes: MaxNodesOption = None
    """Up to so many, at least one."""
    duration: DurationOption = ""
    earliest_start: EarliestOption = ""
    latest_end: LatestOption = ""
    account: AccountOption = ""
    email: EmailOption = None
    features: AnyFeaturesOption = None
    request_id: RequestOption = ""

    @property
    def moves(self) -> bool:
        """True when the words name a window."""
        return bool(self.earliest_start or self.latest_end)


def new_request(session: Session, words: ReservationWords, notes: list[str]) -> ReservationRequest:
    """The request for a new reservation."""
    nodes = _nodes(words)
    if nodes is None:
        raise InputError(
            "how many nodes?", hint="--nodes N for exactly N, or --maxnodes N for up to N"
        )
    if not words.duration:
        raise InputError("for how long?", hint="--duration 1h, or --duration 3600")
    duration_s = read_length(words.duration, "duration")
    earliest = session.now
    if words.earliest_start:
        earliest = read_time(session, words.earliest_start, notes)
    horizon = session.now + session.description.horizon_s
    latest = max(horizon, earliest + duration_s)
    if words.latest_end:
        latest = read_time(session, words.latest_end, notes)
    _check_window(earliest, latest, duration_s)
    return ReservationRequest(
        request_id=_request_id(session, words),
        account=read_account(words.account) or ANY_ACCOUNT,
        nodes_min=nodes[0],
        nodes_max=nodes[1],
        duration_s=duration_s,
        earliest_start=earliest,
        latest_end=latest,
        features=read_features(words.features or ""),
        notify_email=read_email(words.email or ""),
    )


def changed_request(
    session: Session, reservation: Reservation, words: ReservationWords, notes: list[str]
) -> ReservationRequest:
    """The request that changes ``reservation``: what the words do not name stays.

    Without a window its start stays too: who wants more nodes does not want another hour. With a
    window it may move within it, and the side that is not named is that of the old request.
    """
    old = reservation.request
    if old.trip is not None:
        raise ConflictError(
            f"{reservation.reservation_id} is a leg of trip {old.trip.trip_id}; moving it alone"
            " would break the trip",
            hint="change the whole trip with gur",
        )
    duration_s = reservation.interval.duration_s
    if words.duration:
        duration_s = read_length(words.duration, "duration")
    earliest, latest = reservation.start, reservation.start + duration_s
    if words.moves:
        earliest, latest = old.earliest_start, max(old.latest_end, earliest + duration_s)
    if words.earliest_start:
        earliest = read_time(session, words.earliest_start, notes)
        if not words.latest_end:
            latest = max(latest, earliest + duration_s)
    if words.latest_end:
        latest = read_time(session, words.latest_end, notes)
    _check_window(earliest, latest, duration_s)
    nodes_min, nodes_max = _nodes(words) or (reservation.nodes, reservation.nodes)
    features = old.features if words.features is None else read_features(words.features)
    email = old.notify_email if words.email is None else read_email(words.email)
    return replace(
        old,
        request_id=_request_id(session, words),
        account=read_account(words.account) or old.account,
        nodes_min=nodes_min,
        nodes_max=nodes_max,
        duration_s=duration_s,
        earliest_start=earliest,
        latest_end=latest,
        features=features,
        notify_email=email,
        replaces=None,
    )


def as_said_first(
    session: Session,
    known: ReservationRequest | None,
    read: Callable[[Session], ReservationRequest],
) -> ReservationRequest:
    """The request that the words are for. ``known``: what the site has under its id.

    Most times are counted from now, and "now", "+1h" and the end of what can be booked are another
    moment when the same command is given again. So the words are read as of the moment at which
    they give ``known``; where there is none they are another request, and the site refuses its id.
    """
    request = read(session)
    if known is None:
        return request
    for late_s in (
        request.earliest_start - known.earliest_start,
        request.latest_end - known.latest_end,
    ):
        again = read(session.earlier(late_s))
        if (again.earliest_start, again.latest_end) == (known.earliest_start, known.latest_end):
            return again
    return request


def _nodes(words: ReservationWords) -> tuple[int, int] | None:
    if words.nodes is not None and words.maxnodes is not None:
        raise InputError(
            "--nodes and --maxnodes exclude each other",
            hint="--nodes N for exactly N, --maxnodes N for up to N",
        )
    if words.nodes is not None:
        return words.nodes, words.nodes
    return None if words.maxnodes is None else (1, words.maxnodes)


def _check_window(earliest: Instant, latest: Instant, duration_s: int) -> None:
    if latest <= earliest:
        raise InputError(
            "the latest end is not after the earliest start",
            hint="dates are HH:MM_mm/dd/YYYY, month first, in the site's zone",
        )
    if latest - earliest < duration_s:
        raise InputError(
            f"{latest - earliest} s lie between earliest start and latest end, the reservation"
            f" is {duration_s} s long",
            hint="allow a later end or an earlier start, or ask for less time",
        )


def _request_id(session: Session, words: ReservationWords) -> str:
    if words.request_id:
        check_id("request id", words.request_id)
        return words.request_id
    return session.new_id("catalina")

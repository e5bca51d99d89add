"""Domain values to protobuf messages and back: the values that both services share.

Generated types stop in this package. Nothing is lost in either direction, with one intended change:
a hold's expiry is an instant on its owner's clock, crosses the wire as the lifetime that remains,
and becomes an instant on the receiver's clock, because clocks differ. ``encode_`` is for our own
values; ``decode_`` trusts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Final

from gridcore.instants import Interval
from gridcore.reservations import (
    DURATION_LIMIT_S,
    NODES_LIMIT,
    Acceptor,
    Decline,
    DeclineRule,
    Reservation,
    ReservationPart,
    ReservationRequest,
    ReservationState,
    TripRef,
    check_id,
)
from gridcore.summaries import CalendarSummary, CalendarVersion, ClassSummary, SummarySlot
from gridcore.trip_consensus import ACCEPTORS_MAX
from gridio.rpc.codec_checks import (
    TEXT_LENGTH_MAX,
    build,
    count,
    instant,
    items,
    label,
    labels,
    refuse,
    text,
)
from gridwire.v1 import common_pb2 as pb

SLOTS_MAX: Final = 100_000
"""Slots of one class in one summary: more than a message of 4 MiB holds honestly."""

EMAIL_LENGTH_MAX: Final = 320
SUBJECT_LENGTH_MAX: Final = 512
ADDRESS_LENGTH_MAX: Final = 512

_STATE_NUMBERS: Final = {
    state: pb.ReservationState.Value(f"RESERVATION_STATE_{state.name}")
    for state in ReservationState
}
_STATES: Final = {number: state for state, number in _STATE_NUMBERS.items()}
_RULES: Final = {rule.value: rule for rule in DeclineRule}


# -- requests --------------------------------------------------------------------------------------


def encode_trip(trip: TripRef) -> pb.TripRef:
    """The trip a request belongs to."""
    return build(
        pb.TripRef,
        trip_id=trip.trip_id,
        leg=trip.leg,
        attempt=trip.attempt,
        participants=trip.participants,
        acceptors=encode_acceptors(trip.acceptors),
        ends_at=trip.ends_at,
    )


def decode_trip(message: pb.TripRef) -> TripRef:
    """The reverse of ``encode_trip``."""
    return TripRef(
        trip_id=message.trip_id,
        leg=message.leg,
        attempt=count("trip.attempt", message.attempt, 1),
        participants=labels("trip.participants", message.participants),
        acceptors=decode_acceptors("trip.acceptors", message.acceptors),
        ends_at=instant("trip.ends_at", message.ends_at),
    )


def encode_acceptors(acceptors: Sequence[Acceptor]) -> list[pb.Acceptor]:
    """Who keeps an outcome."""
    return [build(pb.Acceptor, site=each.site, endpoint=each.endpoint) for each in acceptors]


def decode_acceptors(field: str, messages: Sequence[pb.Acceptor]) -> tuple[Acceptor, ...]:
    """The reverse of ``encode_acceptors``."""
    return tuple(
        Acceptor(
            site=each.site,
            endpoint=label(f"{field}.endpoint", each.endpoint, TEXT_LENGTH_MAX),
        )
        for each in items(field, messages, ACCEPTORS_MAX)
    )


def encode_request(request: ReservationRequest) -> pb.ReservationRequest:
    """What somebody wants."""
    message = build(
        pb.ReservationRequest,
        request_id=request.request_id,
        account=request.account,
        nodes_min=request.nodes_min,
        nodes_max=request.nodes_max,
        duration_s=request.duration_s,
        earliest_start=request.earliest_start,
        latest_end=request.latest_end,
        features=request.features,
        budget_millicredits=request.budget_millicredits,
        start_may_advance=not request.start_is_fixed,
        notify_email=request.notify_email,
        replaces=request.replaces,
        beneficiary=request.beneficiary,
        via=request.via,
    )
    if request.trip is not None:
        message.trip.CopyFrom(encode_trip(request.trip))
    return message


def decode_request(message: pb.ReservationRequest) -> ReservationRequest:
    """The reverse of ``encode_request``; the value itself checks sizes, times and its id."""
    return ReservationRequest(
        request_id=message.request_id,
        account=label("account", message.account),
        nodes_min=message.nodes_min,
        nodes_max=message.nodes_max,
        duration_s=message.duration_s,
        earliest_start=instant("earliest_start", message.earliest_start),
        latest_end=instant("latest_end", message.latest_end),
        features=labels("features", message.features),
        budget_millicredits=count("budget_millicredits", message.budget_millicredits)
        if message.HasField("budget_millicredits")
        else None,
        start_is_fixed=not message.start_may_advance,
        notify_email=label("notify_email", message.notify_email, EMAIL_LENGTH_MAX),
        trip=decode_trip(message.trip) if message.HasField("trip") else None,
        replaces=decode_id("replaces", message.replaces) if message.replaces else None,
        beneficiary=label("beneficiary", message.beneficiary, SUBJECT_LENGTH_MAX),
        via=labels("via", message.via),
    )


def decode_id(field: str, value: str) -> str:
    """``value`` when it may be the id of a reservation, job or request; its absence is refused."""
    check_id(field, value)
    return value


# -- reservations ----------------------------------------------------------------------------------


def encode_reservation(reservation: Reservation, now: float) -> pb.Reservation:
    """An entry of the owner's book, as it stands at ``now`` on the owner's clock."""
    expires_at = reservation.hold_expires_at
    message = pb.Reservation(
        reservation_id=reservation.reservation_id,
        site=reservation.site,
        owner=reservation.owner,
        request=encode_request(reservation.request),
        resource_class=reservation.resource_class,
        nodes=reservation.nodes,
        interval=pb.Interval(start=reservation.interval.start, end=reservation.interval.end),
        state=_STATE_NUMBERS[reservation.state],  # type: ignore[arg-type] # a plain int at run time
        created_at=reservation.created_at,
        price_millicredits=reservation.price_millicredits,
        hold_remaining_s=None if expires_at is None else max(0, floor(expires_at - now)),
        contact=reservation.contact,
        granted_by=reservation.granted_by,
    )
    if reservation.parts:
        message.parts.extend(
            pb.ReservationPart(
                site=part.site,
                reservation_id=part.reservation_id,
                nodes=part.nodes,
                endpoint=part.endpoint,
                contact=part.contact,
            )
            for part in reservation.parts
        )
    return message


def decode_reservation(message: pb.Reservation, now: float) -> Reservation:
    """The reverse of ``encode_reservation``.

    ``now`` is a moment on the receiver's clock that is not after the sender made the answer: the
    moment the question was sent. Then the expiry computed here is never later than the owner's,
    whatever the clocks say.
    """
    if not message.HasField("request"):
        refuse("reservation.request", "is missing")
    if not message.HasField("interval"):
        refuse("reservation.interval", "is missing")
    state = _STATES.get(message.state)
    if state is None:
        refuse("reservation.state", f"has the unknown number {message.state}")
    interval = Interval(
        instant("reservation.interval.start", message.interval.start),
        instant("reservation.interval.end", message.interval.end),
    )
    expires_at: int | None = None
    if message.HasField("hold_remaining_s"):
        remaining_s = count(
            "reservation.hold_remaining_s", message.hold_remaining_s, 0, DURATION_LIMIT_S
        )
        expires_at = floor(now + remaining_s)
    if expires_at is None and state is ReservationState.HELD:
        refuse("reservation.hold_remaining_s", "is missing")
    return Reservation(
        reservation_id=decode_id("reservation.reservation_id", message.reservation_id),
        site=label("reservation.site", message.site),
        owner=label("reservation.owner", message.owner, SUBJECT_LENGTH_MAX),
        request=decode_request(message.request),
        resource_class=label("reservation.resource_class", message.resource_class),
        nodes=count("reservation.nodes", message.nodes, 1, NODES_LIMIT),
        interval=interval,
        state=state,
        created_at=instant("reservation.created_at", message.created_at),
        price_millicredits=count("reservation.price_millicredits", message.price_millicredits),
        hold_expires_at=expires_at,
        contact=label("reservation.contact", message.contact, ADDRESS_LENGTH_MAX),
        parts=tuple(_decode_part(part) for part in items("reservation.parts", message.parts))
        if message.parts
        else (),
        granted_by=label("reservation.granted_by", message.granted_by),
    )


def _decode_part(message: pb.ReservationPart) -> ReservationPart:
    return ReservationPart(
        site=label("part.site", message.site),
        reservation_id=decode_id("part.reservation_id", message.reservation_id),
        nodes=count("part.nodes", message.nodes, 1, NODES_LIMIT),
        endpoint=label("part.endpoint", message.endpoint, ADDRESS_LENGTH_MAX),
        contact=label("part.contact", message.contact, ADDRESS_LENGTH_MAX),
    )


def encode_decline(decline: Decline) -> pb.Decline:
    """A refusal."""
    message = pb.Decline(
        rule=decline.rule.value,
        message=decline.message,
        earliest=decline.earliest,
        nodes_now=decline.nodes_now,
        site=decline.site,
    )
    if decline.summary is not None:
        message.summary.CopyFrom(encode_summary(decline.summary))
    return message


def decode_decline(message: pb.Decline) -> Decline:
    """The reverse of ``encode_decline``.

    A rule that only a newer site knows is still a refusal, and must not turn into a fault: it
    becomes ``POLICY``, with its name before the message.
    """
    rule = _RULES.get(message.rule)
    words = text("decline.message", message.message)
    if rule is None:
        if not message.rule:
            refuse("decline.rule", "is missing")
        rule, words = DeclineRule.POLICY, f"{label('decline.rule', message.rule)}: {words}"
    return Decline(
        rule=rule,
        message=words,
        earliest=instant("decline.earliest", message.earliest)
        if message.HasField("earliest")
        else None,
        nodes_now=count("decline.nodes_now", message.nodes_now, 0, NODES_LIMIT),
        site=label("decline.site", message.site),
        summary=decode_summary(message.summary) if message.HasField("summary") else None,
    )


def encode_answer(answer: Reservation | Decline, now: float) -> pb.ReservationOrDecline:
    """The answer to reserve, commit, amend and set_reservation."""
    if isinstance(answer, Reservation):
        return pb.ReservationOrDecline(reservation=encode_reservation(answer, now))
    return pb.ReservationOrDecline(decline=encode_decline(answer))


def decode_answer(message: pb.ReservationOrDecline, now: float) -> Reservation | Decline:
    """The reverse of ``encode_answer``; ``now`` as in ``decode_reservation``."""
    which = message.WhichOneof("answer")
    if which == "reservation":
        return decode_reservation(message.reservation, now)
    if which == "decline":
        return decode_decline(message.decline)
    refuse("answer", "is missing")


# -- summaries -------------------------------------------------------------------------------------


def encode_version(version: CalendarVersion) -> pb.CalendarVersion:
    """The version of a calendar."""
    return pb.CalendarVersion(epoch=version.epoch, number=version.number)


def decode_version(message: pb.CalendarVersion) -> CalendarVersion:
    """The reverse of ``encode_version``."""
    return CalendarVersion(label("version.epoch", message.epoch), count("version", message.number))


def encode_class_summary(summary: ClassSummary) -> pb.ClassSummary:
    """One resource class of a summary."""
    return pb.ClassSummary(
        name=summary.name,
        capacity=summary.capacity,
        features=summary.features,
        slots=[
            pb.SummarySlot(
                start=slot.start,
                end=slot.end,
                free_min=slot.free_min,
                free_node_s=slot.free_node_s,
            )
            for slot in summary.slots
        ],
    )


def decode_class_summary(message: pb.ClassSummary) -> ClassSummary:
    """The reverse of ``encode_class_summary``; contradictions are found by the value itself."""
    if len(message.slots) > SLOTS_MAX:
        refuse("slots", f"has more than {SLOTS_MAX} entries")
    slots = tuple(
        SummarySlot(slot.start, slot.end, slot.free_min, slot.free_node_s) for slot in message.slots
    )
    if slots:
        instant("slots.start", slots[0].start)
        instant("slots.end", slots[-1].end)
        count("slots.free_min", min(slot.free_min for slot in slots))
        count("slots.free_node_s", max(slot.free_node_s for slot in slots))
    return ClassSummary(
        name=label("class.name", message.name),
        capacity=count("class.capacity", message.capacity, 0, NODES_LIMIT),
        features=labels("class.features", message.features),
        slots=slots,
    )


def encode_summary(summary: CalendarSummary) -> pb.CalendarSummary:
    """What an owner publishes of its calendar."""
    return pb.CalendarSummary(
        site=summary.site,
        version=encode_version(summary.version),
        as_of=summary.as_of,
        classes=[encode_class_summary(each) for each in summary.classes],
        millicredits_per_node_hour=summary.millicredits_per_node_hour,
    )


def decode_summary(message: pb.CalendarSummary) -> CalendarSummary:
    """The reverse of ``encode_summary``."""
    if not message.HasField("version"):
        refuse("summary.version", "is missing")
    return CalendarSummary(
        site=label("summary.site", message.site),
        version=decode_version(message.version),
        as_of=instant("summary.as_of", message.as_of),
        classes=decode_classes(message.classes),
        millicredits_per_node_hour=count(
            "summary.millicredits_per_node_hour", message.millicredits_per_node_hour
        ),
    )


def decode_classes(messages: Sequence[pb.ClassSummary]) -> tuple[ClassSummary, ...]:
    """The classes of a summary or a delta; a name that comes twice is refused."""
    classes = tuple(decode_class_summary(each) for each in items("classes", messages))
    if len({each.name for each in classes}) != len(classes):
        refuse("classes", "names a class twice")
    return classes

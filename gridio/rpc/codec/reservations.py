"""Domain values to protobuf messages and back: the values that both services share.

Generated types stop in this package. Nothing is lost in either direction, with one intended change:
a hold's expiry is an instant on its owner's clock, crosses the wire as the lifetime that remains,
and becomes an instant on the receiver's clock, because clocks differ. ``encode`` is for our own
values; ``decode`` trusts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import floor
from operator import not_
from typing import Any, Final

from gridtravel.gridcore.booking.reservations import (
    CARD_LENGTH_MAX,
    DURATION_LIMIT_S,
    NODES_LIMIT,
    QUOTE_LENGTH_MAX,
    Acceptor,
    Availability,
    Begin,
    Decline,
    DeclineRule,
    Offer,
    PassingTerms,
    Reservation,
    ReservationPart,
    ReservationRequest,
    ReservationState,
    TripLeg,
    TripRef,
    check_id,
)
from gridtravel.gridcore.booking.summaries import (
    CalendarSummary,
    CalendarVersion,
    ClassSummary,
    SummaryDelta,
    SummarySlot,
)
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridcore.trips.trip_consensus import ACCEPTORS_MAX
from gridtravel.gridio.rpc.codec.checks import (
    TEXT_LENGTH_MAX,
    between,
    count,
    instant,
    items,
    label,
    refuse,
    short,
    text,
)
from gridtravel.gridio.rpc.codec.table import (
    AS_IS,
    Absence,
    Rule,
    Table,
    many,
    nested,
    numbered,
)
from gridwire.v1 import common_pb2 as pb

OFFERS_MAX: Final = 65_536
"""Offers in one answer; the owner's own bound is far lower."""

SLOTS_MAX: Final = 100_000
"""Slots of one class in one summary: more than a message of 4 MiB holds honestly."""

EMAIL: Final = short(320)
SUBJECT: Final = short(512)
ADDRESS: Final = short(512)
CARD: Final = short(CARD_LENGTH_MAX)
QUOTE: Final = short(QUOTE_LENGTH_MAX)
SOME_NODES: Final = between(1, NODES_LIMIT)
ANY_NODES: Final = between(0, NODES_LIMIT)


def an_id(field: str, value: str) -> str:
    """``value`` when it may be the id of a reservation, job or request; its absence is refused."""
    check_id(field, value)
    return value


# -- requests --------------------------------------------------------------------------------------


def acceptors_in(prefix: str) -> Rule:
    """Who keeps an outcome."""
    return many(
        Table(
            Acceptor, pb.Acceptor, prefix, site=AS_IS, endpoint=short(TEXT_LENGTH_MAX), card=CARD
        ),
        ACCEPTORS_MAX,
    )


def _contacts(_: str, messages: Sequence[pb.LegContact]) -> tuple[tuple[str, str], ...]:
    return tuple((each.leg, each.contact) for each in messages)


def _contact_fields(contacts: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"leg": leg, "contact": contact} for leg, contact in contacts]


_BEGIN: Final = numbered({Begin.EACH: pb.TRIP_BEGIN_EACH, Begin.TOGETHER: pb.TRIP_BEGIN_TOGETHER})


def _begin_of(field: str, number: int) -> Any:
    """What a trip says of its begin; one of an earlier release says nothing, and means each."""
    assert _BEGIN.read is not None, "it has one"
    return _BEGIN.read(field, number or pb.TRIP_BEGIN_EACH)


TRIP: Final = Table(
    TripRef,
    pb.TripRef,
    "trip.",
    trip_id=AS_IS,
    leg=AS_IS,
    attempt=between(1),
    acceptors=acceptors_in("trip.acceptors."),
    legs=many(
        Table(
            TripLeg,
            pb.TripLeg,
            "trip.legs.",
            leg=AS_IS,
            site=AS_IS,
            has_agent=Rule(name="lacks_agent", write=not_, read=lambda _, value: not value),
        )
    ),
    begin=Rule(read=_begin_of, write=_BEGIN.write),
)

MANIFEST: Final = Table(Manifest, pb.Manifest, contacts=Rule(read=_contacts, write=_contact_fields))
"""Names, addresses and their number are checked by the value itself."""

REQUEST: Final = Table(
    ReservationRequest,
    pb.ReservationRequest,
    request_id=AS_IS,
    nodes_min=AS_IS,
    nodes_max=AS_IS,
    duration_s=AS_IS,
    start_is_fixed=Rule(name="start_may_advance", write=not_, read=lambda _, value: not value),
    notify_email=EMAIL,
    trip=nested(TRIP, Absence.NONE),
    replaces=Rule(read=lambda field, value: an_id(field, value) if value else None),
    beneficiary=SUBJECT,
    quote=QUOTE,
)
"""Sizes, times and its id are checked by the value itself."""


# -- summaries -------------------------------------------------------------------------------------

VERSION: Final = Table(CalendarVersion, pb.CalendarVersion, "version.")

_SLOT: Final = Table(
    SummarySlot,
    pb.SummarySlot,
    start=AS_IS,
    end=AS_IS,
    free_min=AS_IS,
    free_node_s=AS_IS,
)


def _slots(_: str, messages: Sequence[pb.SummarySlot]) -> tuple[SummarySlot, ...]:
    """Slots, thousands of them, with one look at the outermost of each number: that they are in
    order and do not contradict themselves is found by ``ClassSummary``.
    """
    slots = tuple(
        SummarySlot(slot.start, slot.end, slot.free_min, slot.free_node_s)
        for slot in items("slots", messages, SLOTS_MAX)
    )
    if slots:
        instant("slots.start", slots[0].start)
        instant("slots.end", slots[-1].end)
        count("slots.free_min", min(slot.free_min for slot in slots))
        count("slots.free_node_s", max(slot.free_node_s for slot in slots))
    return slots


_CLASS: Final = Table(
    ClassSummary,
    pb.ClassSummary,
    "class.",
    capacity=ANY_NODES,
    slots=Rule(read=_slots, write=many(_SLOT).write),
)


def _classes(_: str, messages: Sequence[pb.ClassSummary]) -> tuple[ClassSummary, ...]:
    """The classes of a summary or a delta; a name that comes twice is refused."""
    classes = tuple(_CLASS.decode(each) for each in items("classes", messages))
    if len({each.name for each in classes}) != len(classes):
        refuse("classes", "names a class twice")
    return classes


_CLASSES: Final = Rule(read=_classes, write=many(_CLASS).write)

SUMMARY: Final = Table(
    CalendarSummary, pb.CalendarSummary, "summary.", version=nested(VERSION), classes=_CLASSES
)

DELTA: Final = Table(
    SummaryDelta,
    pb.SummaryDelta,
    "delta.",
    since=nested(VERSION),
    version=nested(VERSION),
    classes=_CLASSES,
)


# -- answers ---------------------------------------------------------------------------------------


def _ends_after_start(offer: Offer, _: pb.Offer) -> Offer:
    if offer.start_until <= offer.start:
        refuse("offer.start_until", "is not after its start")
    return offer


def _in_order(availability: Availability, _: pb.Availability) -> Availability:
    if any(later.start < earlier.start for earlier, later in pairwise(availability.offers)):
        refuse("availability.offers", "is not in order of start")
    return availability


_OFFER: Final = Table(
    Offer, pb.Offer, "offer.", nodes=SOME_NODES, quote=QUOTE, finish=_ends_after_start
)

AVAILABILITY: Final = Table(
    Availability,
    pb.Availability,
    "availability.",
    offers=many(_OFFER, OFFERS_MAX),
    version=nested(VERSION),
    finish=_in_order,
)

_RULES: Final = {rule.value: rule for rule in DeclineRule}


def _rule(field: str, name: str) -> DeclineRule:
    if not name:
        refuse(field, "is missing")
    return _RULES.get(name, DeclineRule.POLICY)


def _with_its_rule(decline: Decline, message: pb.Decline) -> Decline:
    """A rule that only a newer site knows is still a refusal, and must not turn into a fault: it
    becomes ``POLICY``, with its name before the message.
    """
    if message.rule in _RULES:
        return decline
    return replace(decline, message=f"{label('decline.rule', message.rule)}: {decline.message}")


_PASSING: Final = Table(PassingTerms, pb.PassingTerms, "decline.passing.")

DECLINE: Final = Table(
    Decline,
    pb.Decline,
    "decline.",
    rule=_rule,
    message=text,
    nodes_now=ANY_NODES,
    summary=nested(SUMMARY, Absence.NONE),
    passing=many(_PASSING),
    finish=_with_its_rule,
)

_INTERVAL: Final = Table(Interval, pb.Interval, "reservation.interval.")

_PART: Final = Table(
    ReservationPart,
    pb.ReservationPart,
    "part.",
    reservation_id=an_id,
    nodes=SOME_NODES,
    endpoint=ADDRESS,
    contact=ADDRESS,
)

_RESERVATION: Final = Table(
    Reservation,
    pb.Reservation,
    "reservation.",
    apart=["hold_expires_at"],
    reservation_id=an_id,
    owner=SUBJECT,
    request=nested(REQUEST),
    nodes=SOME_NODES,
    interval=nested(_INTERVAL),
    state=numbered(
        {each: pb.ReservationState.Value(f"RESERVATION_STATE_{each}") for each in ReservationState}
    ),
    contact=ADDRESS,
    parts=many(_PART),
    job_id=lambda field, value: value and an_id(field, value),
)


def reservation_fields(reservation: Reservation, now: float) -> dict[str, Any]:
    """An entry of the owner's book, as it stands at ``now`` on the owner's clock."""
    fields = _RESERVATION.fields(reservation)
    if reservation.hold_expires_at is not None:
        fields["hold_remaining_s"] = max(0, floor(reservation.hold_expires_at - now))
    return fields


def decode_reservation(message: pb.Reservation, now: float) -> Reservation:
    """The reverse of ``reservation_fields``.

    ``now`` is a moment on the receiver's clock that is not after the sender made the answer: the
    moment the question was sent. Then the expiry computed here is never later than the owner's,
    whatever the clocks say.
    """
    expires_at: int | None = None
    if message.HasField("hold_remaining_s"):
        remaining_s = message.hold_remaining_s
        expires_at = floor(
            now + count("reservation.hold_remaining_s", remaining_s, 0, DURATION_LIMIT_S)
        )
    elif message.state == pb.RESERVATION_STATE_HELD:
        refuse("reservation.hold_remaining_s", "is missing")
    return _RESERVATION.decode(message, hold_expires_at=expires_at)


def encode_answer(answer: Reservation | Decline, now: float) -> pb.ReservationOrDecline:
    """The answer to reserve, commit, amend and set_reservation."""
    if isinstance(answer, Reservation):
        return pb.ReservationOrDecline(**{"reservation": reservation_fields(answer, now)})
    return pb.ReservationOrDecline(**{"decline": DECLINE.fields(answer)})


def decode_answer(message: pb.ReservationOrDecline, now: float) -> Reservation | Decline:
    """The reverse of ``encode_answer``; ``now`` as in ``decode_reservation``."""
    which = message.WhichOneof("answer")
    if which == "reservation":
        return decode_reservation(message.reservation, now)
    if which == "decline":
        return DECLINE.decode(message.decline)
    refuse("answer", "is missing")

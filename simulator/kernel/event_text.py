"""Messages and events in a few words, for the story of a simulated world."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from google.protobuf.message import Message

from gridtravel.gridcore.booking.reservations import Reservation

WORDS_MAX: Final = 150
"""Characters of one part of a line."""


def in_words(part: Any) -> Any:
    """``part`` short enough for a line; what needs no words stays as it is."""
    if isinstance(part, Message):
        return _cut(_of_message(part))
    if isinstance(part, Reservation):
        return _of_reservation(part)
    if is_dataclass(part) and not isinstance(part, type):
        return _cut(_of_value(part))
    if isinstance(part, BaseException):
        return _cut(f"{type(part).__name__}: {part}")
    return part


def _of_message(message: Message) -> str:
    """The fields that name things; of a reservation only what tells it from others."""
    words = []
    for descriptor, value in message.ListFields():
        name = descriptor.name
        if name in ("reservation", "request", "job", "spec", "decline"):
            words.append(_of_message(value))
        elif name in (
            "reservation_id",
            "request_id",
            "job_id",
            "instance",
            "message",
            "login",
            "acceptor",
        ):
            words.append(str(value))
        elif descriptor.enum_type is not None:
            words.append(descriptor.enum_type.values_by_number[value].name.split("_")[-1])
        elif name in ("ballot", "promised", "accepted_ballot"):
            words.append(f"{name} ({value.round} {value.proposer})")
        elif name in ("reservations", "jobs", "answers", "requests"):
            words.append(f"{len(value)} {name}: " + ", ".join(_of_message(each) for each in value))
        elif name in ("earliest_start", "is_granted", "nodes", "hold_remaining_s", "ttl_s"):
            words.append(f"{name} {value}")
    return " ".join(words)


def _of_reservation(reservation: Reservation) -> str:
    trip = reservation.request.trip
    leg = f" of {trip.instance}" if trip is not None else ""
    return (
        f"{reservation.reservation_id}{leg} {reservation.state.value}: {reservation.nodes} nodes"
        f" [{reservation.start}, {reservation.end}) by {reservation.request.request_id}"
    )


def _of_value(value: Any) -> str:
    words = [type(value).__name__]
    for each in fields(value):
        inner = getattr(value, each.name)
        if isinstance(inner, Enum):
            inner = inner.value
        elif isinstance(inner, tuple):
            inner = f"({', '.join(str(in_words(one)) for one in inner)})"
        words.append(f"{each.name}={in_words(inner)}")
    return " ".join(words)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WORDS_MAX else text[: WORDS_MAX - 1] + "…"

"""Every value that crosses the wire arrives as it was, and no message, however made, becomes
anything but a value or an ``InputError``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary, SummaryDelta
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.ports import CalendarPort, FileStatus, OutputChunk, SiteDescription
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion
from gridtravel.gridio.rpc.codec import calendar_messages, reservations, site_messages, votes
from gridtravel.gridio.rpc.port_verbs import PORT_VERBS, PortVerb
from gridtravel.gridio.sites.forwarding import call
from gridwire.v1 import site_pb2
from tests.support import wire_values

NOW = 1_700_000_000


def carried(message: Message) -> Any:
    """The message as it arrives."""
    return type(message).FromString(message.SerializeToString())


@given(wire_values.requests())
def test_requests(request: ReservationRequest) -> None:
    """A reservation request, with or without trip, budget and replaced reservation."""
    assert reservations.REQUEST.decode(carried(reservations.REQUEST.encode(request))) == request


@given(st.one_of(wire_values.reservations(NOW), wire_values.declines))
def test_answers(answer: Reservation | Decline) -> None:
    """An entry of a book or a refusal, seen at the same moment by equal clocks."""
    assert (
        reservations.decode_answer(carried(reservations.encode_answer(answer, NOW)), NOW) == answer
    )


@given(
    wire_values.reservations(NOW).filter(lambda each: each.state is ReservationState.HELD),
    st.floats(0, 1000),
    st.floats(-(10**6), 10**6),
    st.floats(0, 30),
)
def test_lifetimes_survive_wrong_clocks(
    hold: Reservation, waited_s: float, skew_s: float, travelled_s: float
) -> None:
    """On the receiver's clock a hold never seems to live longer than on its owner's, and at most
    the journey and two seconds of rounding shorter, whatever the clocks say.
    """
    answered_at = NOW + waited_s
    asked_at = answered_at - skew_s - travelled_s
    message = reservations.encode_answer(hold, answered_at)
    seen = reservations.decode_reservation(message.reservation, asked_at)
    assert hold.hold_expires_at is not None
    assert seen.hold_expires_at is not None
    lives_s = max(0.0, hold.hold_expires_at - answered_at)
    seems_s = seen.hold_expires_at - (answered_at - skew_s)
    assert lives_s - travelled_s - 2.001 <= seems_s <= lives_s + 0.001


@given(wire_values.vote_questions, wire_values.vote_answers)
def test_votes(question: VoteQuestion, answer: AcceptorAnswer) -> None:
    """A question to an acceptor and its answer arrive as they were sent."""
    assert votes.QUESTION.decode(carried(votes.QUESTION.encode(question))) == question
    assert votes.decode_vote_answer(carried(votes.encode_vote_answer(answer))) == answer


@given(st.one_of(wire_values.summaries, wire_values.deltas))
def test_news(news: CalendarSummary | SummaryDelta) -> None:
    """What a subscription brings."""
    assert calendar_messages.NEWS.decode(carried(calendar_messages.NEWS.encode(news))) == news


@given(wire_values.descriptions)
def test_descriptions(description: SiteDescription) -> None:
    """What a site tells of itself, to the last bit of its clock."""
    message = carried(calendar_messages.DESCRIPTION.encode(description))
    assert calendar_messages.DESCRIPTION.decode(message) == description


@given(st.lists(wire_values.requests(), max_size=3))
def test_inquiries(requests: list[ReservationRequest]) -> None:
    """Several windows in one call."""
    asked = call(CalendarPort.inquire, requests)
    words = PORT_VERBS["inquire"].words
    assert words.call(carried(words.message(asked))) == asked


@given(wire_values.requests(), st.none() | wire_values.held_jobs(), wire_values.manifests)
def test_what_runs_in_a_leg(
    request: ReservationRequest, job: HeldJob | None, manifest: Manifest
) -> None:
    """A job with its hold, and what its companions are told with the commit."""
    asked = call(CalendarPort.reserve, request, ttl_s=30, job=job)
    words = PORT_VERBS["reserve"].words
    assert words.call(carried(words.message(asked))) == asked
    said = call(CalendarPort.commit, "lab.1", manifest=manifest)
    words = PORT_VERBS["commit"].words
    assert words.call(carried(words.message(said))) == said


@given(st.lists(st.one_of(wire_values.availabilities, wire_values.declines), max_size=3))
def test_inquiry_answers(answers: list[Availability | Decline]) -> None:
    """One answer a window, in order; another number of answers is refused."""
    answer = PORT_VERBS["inquire"].answer
    assert answer.decode(carried(answer.encode(answers, NOW)), NOW) == answers
    calendar_messages.check_number(answers, len(answers))
    with pytest.raises(InputError, match="answers"):
        calendar_messages.check_number(answers, len(answers) + 1)


@given(st.one_of(wire_values.jobs, wire_values.declines))
def test_submissions(answer: Any) -> None:
    """A job with its command, or a refusal."""
    message = carried(site_messages.SUBMISSION.encode(answer))
    assert site_messages.SUBMISSION.decode(message) == answer


@given(wire_values.files, wire_values.chunks)
def test_files(status: FileStatus, chunk: OutputChunk) -> None:
    """A file's status and a piece of its content."""
    assert site_messages.FILE.decode(carried(site_messages.FILE.encode(status))) == status
    (piece,) = site_messages.cut(chunk)
    assert site_messages.CHUNK.decode(carried(site_messages.CHUNK.encode(piece))) == chunk


@given(st.integers(0, 3 * site_messages.CHUNK_BYTES_MAX))
def test_large_chunks(size: int) -> None:
    """A large piece is cut into messages that fit, without a gap and without an overlap."""
    at = 7
    for piece in site_messages.cut(OutputChunk(offset=7, content=bytes(size))):
        assert piece.offset == at
        assert len(piece.content) <= site_messages.CHUNK_BYTES_MAX
        at += len(piece.content)
    assert at == 7 + size


@given(wire_values.json_values)
def test_query_answers(value: object) -> None:
    """Whatever JSON can say."""
    assert site_messages.decode_json(site_messages.encode_json(value)) == value


def answers_of(meant: PortVerb) -> Callable[[Any], object]:
    """Reads the answer of a verb."""
    return lambda message: meant.answer.decode(message, NOW)


DECODERS: list[tuple[type[Message], Callable[[Any], object]]] = [
    *((each.verb.question, each.words.call) for each in PORT_VERBS.values()),
    *((each.verb.answer, answers_of(each)) for each in PORT_VERBS.values()),
    (site_pb2.FileStatus, site_messages.FILE.decode),
    (site_pb2.Chunk, site_messages.CHUNK.decode),
]


@pytest.mark.parametrize(
    ("kind", "decode"), DECODERS, ids=[kind.DESCRIPTOR.name for kind, _ in DECODERS]
)
@given(st.data())
def test_hostile_messages(kind: Any, decode: Callable[[Any], object], data: st.DataObject) -> None:
    """A message of any fields at any values is a value or an ``InputError``, and nothing else."""
    message = data.draw(anything(kind))
    with suppress(InputError):
        decode(message)


@given(st.binary(max_size=200), st.sampled_from(DECODERS))
def test_hostile_bytes(content: bytes, pair: tuple[type[Message], Callable[[Any], object]]) -> None:
    """Bytes that parse by accident are no worse."""
    kind, decode = pair
    with suppress(DecodeError, InputError):
        decode(kind.FromString(content))


_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int": st.sampled_from([0, 1, -1, 2, 10, 2**31 - 1, -(2**31)]) | st.integers(0, 100),
    "long": st.sampled_from([0, 1, -1, NOW, 2**62, 2**63 - 1, -(2**63)]) | st.integers(0, 100),
    "float": st.floats(),
    "bool": st.booleans(),
    "text": st.sampled_from(["", "a", "lab.1", "no-room", "\x1b[31m", "x" * 20_000, "\0", "é"]),
    "bytes": st.binary(max_size=5),
}


@functools.cache
def anything(kind: type[Any], depth: int = 4) -> st.SearchStrategy[Any]:
    """Messages of ``kind`` with each field absent or at any value, also of enumerations."""

    @st.composite
    def made(draw: st.DrawFn) -> Message:
        message: Message = kind()
        for field in kind.DESCRIPTOR.fields:
            if not draw(st.integers(0, 3)):
                continue
            if field.message_type is not None:
                if field.message_type.GetOptions().map_entry or depth == 0:
                    continue
                descriptor: Any = field.message_type
                part: Any = GetMessageClass(descriptor)
                inner = anything(part, depth - 1)
                if field.is_repeated:
                    getattr(message, field.name).extend(draw(st.lists(inner, max_size=2)))
                else:
                    getattr(message, field.name).CopyFrom(draw(inner))
                continue
            scalar = _scalar(field)
            if field.is_repeated:
                getattr(message, field.name).extend(draw(st.lists(scalar, max_size=2)))
            else:
                setattr(message, field.name, draw(scalar))
        return message

    return made()


def _scalar(field: Any) -> st.SearchStrategy[Any]:
    if field.type in (field.TYPE_INT64,):
        return _SCALARS["long"]
    if field.type in (field.TYPE_INT32, field.TYPE_ENUM):
        return _SCALARS["int"]
    if field.type == field.TYPE_UINT32:
        return st.sampled_from([0, 1, 0o644, 2**32 - 1])
    if field.type == field.TYPE_DOUBLE:
        return _SCALARS["float"]
    if field.type == field.TYPE_BOOL:
        return _SCALARS["bool"]
    if field.type == field.TYPE_BYTES:
        return _SCALARS["bytes"]
    assert field.type == field.TYPE_STRING, field.name
    return _SCALARS["text"]

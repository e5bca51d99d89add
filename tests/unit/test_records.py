"""Events to records and back: everything comes back equal, and nothing unknown is let through."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NewType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.calendar_events import RequestBuried, ReservationGranted
from gridcore.errors import InputError
from gridcore.instants import Instant, Interval
from gridcore.reservations import Reservation, ReservationRequest, ReservationState, TripRef
from gridio.journal import Record
from gridio.records import EventCodec, RecordError

Serial = NewType("Serial", int)


class Colour(enum.StrEnum):
    """A text enum."""

    RED = "red"
    BLUE = "blue"


class Level(enum.Enum):
    """An enum that JSON does not know."""

    LOW = 1
    HIGH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A nested value that may contain itself."""

    name: str
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """One field of each type that a record can hold."""

    number: int
    text: str
    flag: bool
    share: float
    serial: Serial
    at: Instant
    colour: Colour
    level: Level
    maybe: int | None
    maybe_level: Level | None
    maybe_part: Part | None
    interval: Interval
    part: Part
    names: tuple[str, ...]
    levels: tuple[Level | None, ...]
    pair: tuple[int, Level]
    features: frozenset[str]
    counts: Mapping[str, int]
    parts_by_number: Mapping[int, Part]
    prices: dict[Colour, Level]


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """An event without fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    """An event whose field has the name of the version."""

    v: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Positive:
    """An event that checks itself, and has one field, a default and a derived value."""

    number: int = 1
    double: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.number < 1:
            raise InputError("the number must be positive")
        object.__setattr__(self, "double", 2 * self.number)


CODEC = EventCodec({"EVERYTHING": Everything, "EMPTY": Empty, "POSITIVE": Positive, "PART": Part})

texts = st.text(max_size=8)
levels = st.sampled_from(Level)
parts = st.recursive(
    st.builds(Part, name=texts),
    lambda inner: st.builds(Part, name=texts, parts=st.lists(inner, max_size=2).map(tuple)),
    max_leaves=4,
)
everything = st.builds(
    Everything,
    number=st.integers(),
    text=st.text(alphabet=st.characters(codec=None), max_size=8),
    flag=st.booleans(),
    share=st.floats(allow_nan=False, allow_infinity=False),
    serial=st.integers().map(Serial),
    at=st.integers(),
    colour=st.sampled_from(Colour),
    level=levels,
    maybe=st.none() | st.integers(),
    maybe_level=st.none() | levels,
    maybe_part=st.none() | parts,
    interval=st.integers(0, 9).map(lambda start: Interval(start, start + 1)),
    part=parts,
    names=st.lists(texts, max_size=2).map(tuple),
    levels=st.lists(st.none() | levels, max_size=2).map(tuple),
    pair=st.tuples(st.integers(), levels),
    features=st.frozensets(texts, max_size=3),
    counts=st.dictionaries(texts, st.integers(), max_size=2).map(MappingProxyType),
    parts_by_number=st.dictionaries(st.integers(), parts, max_size=2),
    prices=st.dictionaries(st.sampled_from(Colour), levels, max_size=2),
)


def body(**fields: Any) -> bytes:
    """A body of version 1 with these fields."""
    return json.dumps({"v": 1, **fields}).encode()


def decode(kind: str, content: bytes) -> Any:
    """What the codec reads."""
    return CODEC.decode(Record(kind=kind, at=0, body=content))


@given(everything)
def test_every_event_comes_back_equal(event: Everything) -> None:
    """Writing and reading is the identity for every type a field may have."""
    record = CODEC.encode(event, at=5)
    assert (record.kind, record.at) == ("EVERYTHING", 5)
    back = CODEC.decode(record)
    assert back == event
    assert CODEC.encode(back, at=5) == record


def test_events_of_a_calendar_come_back_equal() -> None:
    """The events of the owner's book are such events."""
    request = ReservationRequest(
        request_id="request-1",
        account="ocean",
        nodes_min=1,
        nodes_max=4,
        duration_s=600,
        earliest_start=1000,
        latest_end=9000,
        features=("gpu",),
        trip=TripRef(trip_id="trip-1", leg="a", participants=("x", "y")),
    )
    reservation = Reservation(
        reservation_id="res-1",
        site="x",
        owner="CN=alice",
        request=request,
        resource_class="any",
        nodes=4,
        interval=Interval(1000, 1600),
        state=ReservationState.HELD,
        created_at=500,
        hold_expires_at=560,
    )
    codec = EventCodec({"GRANTED": ReservationGranted, "BURIED": RequestBuried})
    for event in (
        ReservationGranted(reservation=reservation),
        RequestBuried(owner="CN=alice", request_id="request-2", at=7),
    ):
        assert codec.decode(codec.encode(event, at=500)) == event


def test_body_is_compact_and_readable() -> None:
    """A person who opens the file sees names and values, in a fixed order, as plain ASCII."""
    record = CODEC.encode(Part(name="ä", parts=(Part(name="x"),)), at=0)
    assert record.body == rb'{"name":"\u00e4","parts":[{"name":"x","parts":[]}],"v":1}'
    assert CODEC.encode(Empty(), at=0).body == b'{"v":1}'


def test_broken_characters_do_not_stop_the_journal() -> None:
    """A lone surrogate, as a file name may bring in, is stored and comes back."""
    event = Part(name="na\udcefve")
    assert CODEC.decode(CODEC.encode(event, at=0)) == event


def test_derived_fields_are_not_stored() -> None:
    """A value computed from the others is computed again."""
    record = CODEC.encode(Positive(number=4), at=0)
    assert record.body == b'{"number":4,"v":1}'
    assert CODEC.decode(record).double == 8


def test_field_with_a_default_may_be_missing() -> None:
    """An event may gain a field with a default: what was written before is still read."""
    assert decode("POSITIVE", body()) == Positive(number=1)


@pytest.mark.parametrize(
    ("kind", "content", "what"),
    [
        ("OTHER", body(), "unknown kind of record 'OTHER'"),
        ("PART", b"\xff", "is not JSON"),
        ("PART", b"{", "is not JSON"),
        ("PART", b"[" * 100_000, "is not JSON"),
        ("PART", b"[]", "version None, not 1"),
        ("PART", b'{"name":"x"}', "version None, not 1"),
        ("PART", b'{"v":2,"name":"x"}', "version 2, not 1"),
        ("PART", body(name="x", colour="red"), "Part has no field 'colour'"),
        ("PART", body(), "Part lacks the field 'name'"),
        ("PART", body(name=5), "name: expected text, found 5"),
        ("PART", body(name=None), "name: expected text, found None"),
        ("PART", body(name="x", parts={}), "parts: expected a list"),
        ("PART", body(name="x", parts=[{"name": "y"}, {}]), "parts.1: Part lacks the field 'name'"),
        ("PART", body(name="x", parts=[7]), r"parts.0: expected an object \(Part\), found 7"),
        ("POSITIVE", body(number=True), "number: expected a whole number, found True"),
        ("POSITIVE", body(number=1.0), "number: expected a whole number, found 1.0"),
        ("POSITIVE", body(number="9" * 99), "number: expected a whole number, found '999"),
        ("POSITIVE", body(number=0), "the number must be positive"),
        ("POSITIVE", body(double=4), "Positive has no field 'double'"),
    ],
)
def test_unknown_content_is_one_clear_error(kind: str, content: bytes, what: str) -> None:
    """Whatever is not understood whole is refused with the place and the reason."""
    with pytest.raises(RecordError, match=what):
        decode(kind, content)


@pytest.mark.parametrize(
    ("field_name", "value", "what"),
    [
        ("colour", "green", "colour: 'green' is not a Colour"),
        ("level", "1", "level: '1' is not a Level"),
        ("level", [1], "is not a Level"),
        ("pair", [1], "pair: expected 2 items, found 1"),
        ("pair", [1, 5], "pair.1: 5 is not a Level"),
        ("share", "1", "share: expected a number"),
        ("features", [1], "features.0: expected text"),
        ("counts", {"a": "b"}, "counts.a: expected a whole number"),
        ("parts_by_number", {"x": {}}, "expected a number as the key"),
        ("prices", {"green": 1}, "'green' is not a Colour"),
        ("interval", {"start": 5, "end": 5}, "must end after it starts"),
    ],
)
def test_wrong_value_is_named_with_its_place(field_name: str, value: object, what: str) -> None:
    """Each type says what it expected."""
    event = Everything(
        number=1,
        text="",
        flag=True,
        share=1.0,
        serial=Serial(1),
        at=1,
        colour=Colour.RED,
        level=Level.LOW,
        maybe=None,
        maybe_level=None,
        maybe_part=None,
        interval=Interval(1, 2),
        part=Part(name=""),
        names=(),
        levels=(),
        pair=(1, Level.LOW),
        features=frozenset(),
        counts={},
        parts_by_number={},
        prices={},
    )
    fields = json.loads(CODEC.encode(event, at=0).body)
    with pytest.raises(RecordError, match=what):
        decode("EVERYTHING", json.dumps({**fields, field_name: value}).encode())


@pytest.mark.parametrize(
    ("event", "what"),
    [
        (Interval(1, 2), "Interval is not an event of this journal"),
        (Part(name=5), "name: expected text, found 5"),  # type: ignore[arg-type]
        (Part(name="x", parts=None), "parts: expected a list, found None"),  # type: ignore[arg-type]
        (Part(name="x", parts=("y",)), "cannot store"),  # type: ignore[arg-type]
        (Positive(number=2.0), "number: expected a whole number, found 2.0"),  # type: ignore[arg-type]
        (Positive(number=True), "number: expected a whole number, found True"),
    ],
)
def test_event_that_could_not_be_read_again_is_not_written(event: object, what: str) -> None:
    """A value of another type than declared is refused when it is written: not at the restart."""
    with pytest.raises(RecordError, match=what):
        CODEC.encode(event, at=0)


def _event(annotation: object) -> type:
    return dataclass(frozen=True)(type("Strange", (), {"__annotations__": {"field": annotation}}))


@pytest.mark.parametrize(
    "annotation",
    [
        object,
        Any,
        bytes,
        set[str],
        list[int],
        int | str,
        Mapping[float, int],
        enum.Enum("E", {"A": 1.5}),
    ],
)
def test_types_that_no_record_holds_are_refused_at_once(annotation: object) -> None:
    """A codec that could fail later is not made."""
    with pytest.raises(InputError, match=r"Strange\.field"):
        EventCodec({"STRANGE": _event(annotation)})


def test_registry_is_one_to_one() -> None:
    """A type has one kind, is a dataclass, and leaves the version's name alone."""
    with pytest.raises(InputError, match="registered as A and B"):
        EventCodec({"A": Empty, "B": Empty})
    with pytest.raises(InputError, match="not a dataclass"):
        EventCodec({"A": int})
    with pytest.raises(InputError, match="field named 'v'"):
        EventCodec({"A": Versioned})

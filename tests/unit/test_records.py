"""Events to records and back: everything comes back equal, and nothing unknown is let through."""

from __future__ import annotations

import enum
import json
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, NewType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.calendar_events import RequestTombstoned, ReservationGranted
from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationRequest,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant, Interval
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.records import EventCodec, RecordError

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


LEAST = Everything(
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
    counts={},
    parts_by_number={},
    prices={},
)

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


def as_json(value: Any) -> Any:
    """`value` in the types that the standard library's JSON knows."""
    match value:
        case enum.Enum():
            return value.value
        case tuple():
            return [as_json(each) for each in value]
        case Mapping():
            return {str(key): as_json(each) for key, each in value.items()}
        case _ if is_dataclass(value):
            return {
                each.name: as_json(getattr(value, each.name)) for each in fields(value) if each.init
            }
    return value


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
    codec = EventCodec({"GRANTED": ReservationGranted, "BURIED": RequestTombstoned})
    for event in (
        ReservationGranted(reservation=reservation),
        RequestTombstoned(owner="CN=alice", request_id="request-2", at=7),
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
    "content",
    [
        b'{"v":1,"name":"x"}',
        b'{"name":"x","v":1}',
        b' { "name" : "x", "parts" : [ ] , "v" : 1 } ',
        b'{"v":1,"name":"\\u0078"}',
    ],
)
def test_any_json_of_the_same_meaning_is_read(content: bytes) -> None:
    """The order of fields and the room between them mean nothing."""
    assert decode("PART", content) == Part(name="x")


@pytest.mark.parametrize(
    ("kind", "content", "what"),
    [
        ("OTHER", body(), "unknown kind of record 'OTHER'"),
        ("PART", b"\xff", "is not JSON"),
        ("PART", b"{", "is not JSON"),
        ("EMPTY", b'{,"v":1}', "is not JSON"),
        ("PART", b"[" * 100_000, "is not JSON"),
        ("PART", b"[]", "version None, not 1"),
        ("PART", b'{"name":"x"}', "version None, not 1"),
        ("PART", b'{"v":2,"name":"x"}', "version 2, not 1"),
        ("PART", body(name="x", colour="red"), "kind 'PART': colour: Unexpected keyword argument"),
        ("PART", body(), "name: Field required"),
        ("PART", body(name=5), "name: Input should be a valid string, found 5"),
        ("PART", body(name=None), "name: Input should be a valid string, found None"),
        ("PART", body(name="x", parts={}), "parts: Input should be a valid tuple, found {}"),
        ("PART", body(name="x", parts=[{"name": "y"}, {}]), "parts.1.name: Field required"),
        ("PART", body(name="x", parts=[7]), "parts.0: Input should be .* Part, found 7"),
        ("POSITIVE", body(number=True), "number: Input should be a valid integer, found True"),
        ("POSITIVE", body(number=1.0), "number: Input should be a valid integer, found 1.0"),
        ("POSITIVE", body(number="9" * 99), r"integer, found '9{56}\.\.\. "),
        ("POSITIVE", body(number=0), "the number must be positive"),
        ("POSITIVE", body(double=4), "double: Unexpected keyword argument"),
    ],
)
def test_unknown_content_is_one_clear_error(kind: str, content: bytes, what: str) -> None:
    """Whatever is not understood whole is refused with the place and the reason."""
    with pytest.raises(RecordError, match=what) as raised:
        decode(kind, content)
    assert "\n" not in raised.value.message
    assert len(raised.value.message) < 300


@pytest.mark.parametrize(
    ("field_name", "value", "what"),
    [
        ("colour", "green", "colour: Input should be 'red' or 'blue', found 'green'"),
        ("level", "1", "level: .* not a Level, found '1'"),
        ("level", [1], "level: .* not a Level"),
        ("level", True, "level: .* not a Level, found True"),
        ("level", 7, "level: Input should be 1 or 2, found 7"),
        ("pair", [1], "pair.1: Field required"),
        ("pair", [1, 5], "pair.1: Input should be 1 or 2, found 5"),
        ("share", "1", "share: Input should be a valid number, found '1'"),
        ("share", True, "share: Input should be a valid number, found True"),
        ("share", math.nan, "share: Input should be a finite number, found nan"),
        ("names", ["x", 1], "names.1: Input should be a valid string, found 1"),
        ("counts", {"a": "b"}, "counts.a: Input should be a valid integer, found 'b'"),
        ("parts_by_number", {"x": {}}, "parts_by_number.x: Input should be a valid integer"),
        ("prices", {"green": 1}, "prices.green: Input should be 'red' or 'blue'"),
        ("interval", {"start": 5, "end": 5}, "must end after it starts"),
    ],
)
def test_wrong_value_is_named_with_its_place(field_name: str, value: object, what: str) -> None:
    """Each type says what it expected."""
    fields = json.loads(CODEC.encode(LEAST, at=0).body)
    with pytest.raises(RecordError, match=what):
        decode("EVERYTHING", json.dumps({**fields, field_name: value}).encode())


@pytest.mark.parametrize(
    ("event", "what"),
    [
        (Interval(1, 2), "Interval is not an event of this journal"),
        (Part(name=5), "name: Input should be a valid string, found 5"),  # type: ignore[arg-type]
        (Part(name=None), "name: Input should be a valid string, found None"),  # type: ignore[arg-type]
        (Part(name="\udcef", parts=(Part(name=5),)), "parts.0.name: Input .*, found 5"),  # type: ignore[arg-type]
        (Part(name="x", parts=(None,)), "parts.0: Input should be .* Part, found None"),  # type: ignore[arg-type]
        (Part(name="x", parts=[]), "kind 'PART': .*'parts'"),  # type: ignore[arg-type]
        (Part(name="x", parts=None), "parts: Input should be a valid tuple, found None"),  # type: ignore[arg-type]
        (Part(name="x", parts=("y",)), "parts.0: Input should be .* Part, found 'y'"),  # type: ignore[arg-type]
        (Positive(number=2.0), "number: Input should be a valid integer, found 2.0"),  # type: ignore[arg-type]
        (Positive(number=True), "number: Input should be a valid integer, found True"),
        (replace(LEAST, part=Part(name=True)), "part.name: Input .* string, found True"),  # type: ignore[arg-type]
        (replace(LEAST, interval=Interval(False, 2)), "interval.start: .* integer, found False"),
        (replace(LEAST, flag=1), "flag: Input should be a valid boolean, found 1"),  # type: ignore[arg-type]
        (replace(LEAST, share=math.nan), "share: Input should be a finite number, found nan"),
        (replace(LEAST, share=math.inf), "share: Input should be a finite number, found inf"),
        (replace(LEAST, share=True), "share: Input should be a valid number, found True"),
        (replace(LEAST, share=None), "share: Input should be a valid number, found None"),  # type: ignore[arg-type]
        (replace(LEAST, maybe=1.0), "maybe: Input should be a valid integer, found 1.0"),  # type: ignore[arg-type]
        (replace(LEAST, maybe_part=Part(name=None)), "maybe_part.name: .*, found None"),  # type: ignore[arg-type]
        (replace(LEAST, colour="red"), "kind 'EVERYTHING': .*'colour'"),  # type: ignore[arg-type]
        (replace(LEAST, colour=None), "colour: Input should be .*, found None"),  # type: ignore[arg-type]
        (replace(LEAST, pair=(1,)), "pair.1: Field required"),  # type: ignore[arg-type]
        (replace(LEAST, pair=(True, Level.LOW)), "pair.0: .* integer, found True"),
        (replace(LEAST, counts={"maybe": None}), "counts.maybe: .*, found None"),  # type: ignore[dict-item]
        (replace(LEAST, counts={"a": None}), "counts.a: .* integer, found None"),  # type: ignore[dict-item]
    ],
)
def test_event_that_could_not_be_read_again_is_not_written(event: object, what: str) -> None:
    """A value of another type than declared is refused when it is written: not at the restart."""
    with pytest.raises(RecordError, match=what) as raised:
        CODEC.encode(event, at=0)
    assert "\n" not in raised.value.message
    assert len(raised.value.message) < 300


def _event(annotation: object) -> type:
    return dataclass(frozen=True)(type("Strange", (), {"__annotations__": {"field": annotation}}))


@pytest.mark.parametrize(
    "annotation",
    [
        object,
        Any,
        bytes,
        set[str],
        frozenset[str],
        tuple[object, ...],
        tuple[int, frozenset[str]],
        list[int],
        int | str,
        Mapping[float, int],
        enum.Enum("E", {"A": 1.5}),
    ],
)
def test_types_that_no_record_holds_are_refused(annotation: object) -> None:
    """When the kind is first met, either way, whatever the event holds."""
    strange = _event(annotation)
    codec = EventCodec({"STRANGE": strange})
    with pytest.raises(InputError, match=r"Strange\.field"):
        codec.encode(strange(field=1), at=0)
    with pytest.raises(InputError, match=r"Strange\.field"):
        codec.decode(Record(kind="STRANGE", at=0, body=b'{"field":1,"v":1}'))


def test_type_unknown_to_pydantic_is_refused() -> None:
    """Its own complaint is told, with the name of the event."""
    strange = _event(type("Stranger", (), {}))
    with pytest.raises(InputError, match="Strange cannot be a record"):
        EventCodec({"STRANGE": strange}).encode(strange(field=1), at=0)


def test_pydantic_is_loaded_when_a_record_is_first_met() -> None:
    """Not by commands that read no journal: ``gur --help`` answers in half the time without it."""
    script = """
import sys
sys.argv = ["gur", "--help"]
from gridtravel.gridio.journal.contract import Record
from gridtravel.travel_agent.cli.entry import main
from gridtravel.travel_agent.log.trip_log import CODEC
try:
    main()
except SystemExit as left:
    assert not left.code, left
assert not any(name.startswith("pydantic") for name in sys.modules)
CODEC.decode(Record(kind="holds-let-go", at=0, body=b'{"attempt":3,"v":1}'))
assert "pydantic" in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_registry_is_one_to_one() -> None:
    """A type has one kind, is a dataclass, and leaves the version's name alone."""
    with pytest.raises(InputError, match="registered as A and B"):
        EventCodec({"A": Empty, "B": Empty})
    with pytest.raises(InputError, match="not a dataclass"):
        EventCodec({"A": int})
    with pytest.raises(InputError, match="field named 'v'"):
        EventCodec({"A": Versioned})


@given(everything)
@example(replace(LEAST, text="".join(map(chr, range(256))) + "\u2028\U0001f600"))
@example(replace(LEAST, text="na\udcefve", names=("\ud800",)))
@example(replace(LEAST, text='null,"maybe":null', maybe=-(10**30)))
@example(replace(LEAST, share=1e-05))
@example(replace(LEAST, share=1e16))
@example(replace(LEAST, share=5e-324))
@example(replace(LEAST, share=3))
def test_bytes_are_those_of_the_standard_library(event: Everything) -> None:
    """What every release so far wrote: pydantic on its own has another way with a few numbers and
    characters.
    """
    plain = json.dumps({**as_json(event), "v": 1}, separators=(",", ":"))
    assert CODEC.encode(event, at=5).body == plain.encode()


@given(texts)
@example("\x7f")
@example("na\udcefve")
def test_bytes_of_an_event_without_fractions(text: str) -> None:
    """The same for a kind that has no ``float``, which is written another way."""
    event = Part(name=text, parts=(Part(name="null"),))
    plain = json.dumps({**as_json(event), "v": 1}, separators=(",", ":"))
    assert CODEC.encode(event, at=5).body == plain.encode()


@given(everything)
def test_every_event_comes_back_equal(event: Everything) -> None:
    """Writing and reading is the identity for every type a field may have."""
    record = CODEC.encode(event, at=5)
    assert (record.kind, record.at) == ("EVERYTHING", 5)
    back = CODEC.decode(record)
    assert back == event
    assert CODEC.encode(back, at=5) == record

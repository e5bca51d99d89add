"""Every message of the protocol has the bytes it always had, and they still mean what they meant.

Looked at where messages pass from one program to the other: what encodes above and decodes below
may become something else altogether.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from gridtravel.gridcore.errors import GridError
from gridtravel.gridio.rpc import verbs
from gridtravel.gridio.rpc.codec.faults import code_of, details_of, metadata_of
from gridtravel.gridio.rpc.local_wire import LocalWire
from gridtravel.gridio.rpc.verbs import Verb
from gridwire.v1 import calendar_pb2, common_pb2, session_pb2, site_pb2
from tests.oracles.frozen_files import Frozen
from tests.oracles.last_release import FOLDER as LAST_RELEASE
from tests.oracles.wire_examples import CASES, FAULTS, STREAMS, Case, ScriptedSite

WITHDRAWN = {"gridwire.v1.VoteRequest.keep_until 5 int64"}
"""Its number is reserved; how long an outcome is kept is said with the hold."""
VERBS = [each for each in vars(verbs).values() if isinstance(each, Verb)]


@dataclass
class Tapped:
    """What went over the wire."""

    verbs: list[str] = field(default_factory=list)
    messages: list[tuple[str, Message]] = field(default_factory=list)
    """``>`` a question, ``<`` an answer."""

    def lines(self) -> Iterator[str]:
        """The bytes of each message, and for readers its fields."""
        for way, message in self.messages:
            content = message.SerializeToString(deterministic=True)
            yield f"{way} {message.DESCRIPTOR.full_name} {content.hex() or '-'}"
            fields = MessageToJson(
                message, preserving_proto_field_name=True, sort_keys=True, indent=1
            )
            yield from (f"  {line}" for line in fields.splitlines())


@pytest.fixture
def tapped(monkeypatch: pytest.MonkeyPatch) -> Tapped:
    """All that passes from now on."""
    tap = Tapped()
    ask, listen, tell = LocalWire.ask, LocalWire.listen, LocalWire.tell

    async def tapped_ask(wire: LocalWire, verb: Any, question: Any) -> Any:
        tap.verbs.append(verb.path)
        tap.messages.append((">", question))
        answer = await ask(wire, verb, question)
        tap.messages.append(("<", answer))
        return answer

    async def tapped_listen(wire: LocalWire, verb: Any, question: Any) -> AsyncIterator[Any]:
        tap.verbs.append(verb.path)
        tap.messages.append((">", question))
        async for answer in listen(wire, verb, question):
            tap.messages.append(("<", answer))
            yield answer

    async def tapped_tell(wire: LocalWire, verb: Any, parts: Any) -> Any:
        async def noted() -> AsyncIterator[Any]:
            async for part in parts:
                tap.messages.append((">", part))
                yield part

        tap.verbs.append(verb.path)
        answer = await tell(wire, verb, noted())
        tap.messages.append(("<", answer))
        return answer

    monkeypatch.setattr(LocalWire, "ask", tapped_ask)
    monkeypatch.setattr(LocalWire, "listen", tapped_listen)
    monkeypatch.setattr(LocalWire, "tell", tapped_tell)
    return tap


async def carry(case: Case) -> None:
    """Ask the question of a case over the wire; both ends must see the values of the case."""
    site = ScriptedSite(answer=case.answer)
    connection = site.connection()
    port = connection.calendar if hasattr(connection.calendar, case.verb) else connection.site
    words = [
        _pieces(each) if case.verb == "put_file" and each is case.words[2] else each
        for each in case.words
    ]
    asked = getattr(port, case.verb)(*words, **case.named)
    if case.verb in STREAMS:
        answer = [each async for each in asked]
    else:
        answer = await asked
    assert answer == case.answer
    assert site.asked == [(case.verb, case.words, dict(case.named))]


async def _pieces(chunks: tuple[Any, ...]) -> AsyncIterator[Any]:
    for each in chunks:
        yield each


def test_messages(tapped: Tapped, frozen: Frozen) -> None:
    """Each case: the values arrive as they were, and the bytes are those that are kept."""
    told = []
    for case in CASES:
        tapped.messages.clear()
        asyncio.run(carry(case))
        told += [f"# {case.verb}: {case.what}", *tapped.lines(), ""]
    frozen.text("wire.txt", "\n".join(told))
    assert set(tapped.verbs) == {each.path for each in VERBS}, "every verb has a case"


def test_cases_show_every_field(tapped: Tapped) -> None:
    """So that no field and no number of an enumeration can change unseen."""
    for case in CASES:
        asyncio.run(carry(case))
    shown: set[str] = set()
    for _, message in tapped.messages:
        shown |= set(_shown(message))
    there: set[str] = set()
    for verb in VERBS:
        there |= {*_there(verb.question.DESCRIPTOR), *_there(verb.answer.DESCRIPTOR)}
    assert sorted(there - shown) == []


def _shown(message: Message) -> Iterator[str]:
    """Fields and numbers that a message has."""
    for each, value in message.ListFields():
        yield each.full_name
        if each.enum_type is not None:
            yield f"{each.full_name}={value}"
        if each.message_type is None or each.message_type.GetOptions().map_entry:
            continue
        for inner in value if each.is_repeated else [value]:
            yield from _shown(inner)


def _there(kind: Any, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Fields and numbers that a message could have."""
    if kind.full_name in seen or kind.GetOptions().map_entry:
        return
    for each in kind.fields:
        yield each.full_name
        if each.enum_type is not None:
            yield from (f"{each.full_name}={n}" for n in each.enum_type.values_by_number if n)
        if each.message_type is not None:
            yield from _there(each.message_type, seen | {kind.full_name})


def test_faults(frozen: Frozen) -> None:
    """What becomes of a fault on its way: status, text, metadata, and the fault that arrives."""
    told = []
    for fault in FAULTS:
        site = ScriptedSite(fault=fault)
        with pytest.raises(GridError) as caught:
            asyncio.run(site.connection().calendar.describe())
        assert type(caught.value) is type(fault)
        told += [
            f"{code_of(fault).name} {details_of(fault)!r}",
            f"  {metadata_of(fault)}",
            f"  {caught.value.exit_code} {caught.value.message!r} {caught.value.hint!r}",
        ]
    frozen.text("faults.txt", "\n".join([*told, ""]))


def test_fields(frozen: Frozen) -> None:
    """Names, numbers and types of all fields, of the messages around messages too."""
    frozen.text("wire_fields.txt", "\n".join([*fields(), ""]))


def test_fields_of_last_release() -> None:
    """No field of the last release has gone or become another, but those that are named here."""
    before = (LAST_RELEASE / "wire_fields.txt").read_text("utf-8").splitlines()
    assert set(before) - set(fields()) == WITHDRAWN


def fields() -> list[str]:
    """A line for each field, number of an enumeration, and verb."""
    lines = []
    for file in (common_pb2, calendar_pb2, site_pb2, session_pb2):
        for kind in file.DESCRIPTOR.message_types_by_name.values():
            lines += [*_fields_of(kind)]
        for enumeration in file.DESCRIPTOR.enum_types_by_name.values():
            lines += [f"{enumeration.full_name} {v.name} {v.number}" for v in enumeration.values]
        for service in file.DESCRIPTOR.services_by_name.values():
            lines += [
                f"{method.full_name} {method.input_type.full_name} {method.output_type.full_name}"
                for method in service.methods
            ]
    return lines


def _fields_of(kind: Descriptor) -> Iterator[str]:
    for each in kind.fields:
        known = each.message_type or each.enum_type
        what = known.full_name if known is not None else TYPES[each.type]
        many = " repeated" if each.is_repeated else ""
        where = f" of {each.containing_oneof.name}" if each.containing_oneof else ""
        yield f"{each.full_name} {each.number} {what}{many}{where}"


TYPES = {
    getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
    for name in vars(FieldDescriptor)
    if name.startswith("TYPE_")
}

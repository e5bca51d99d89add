"""Every kind of record has the bytes it always had, and they still mean what they always meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridio.batch import far_book, job_files
from gridtravel.gridio.journal.contract import Record
from tests.oracles.completeness import never_shown
from tests.oracles.frozen_files import FOLDER, Frozen
from tests.oracles.last_release import FOLDER as LAST_RELEASE
from tests.oracles.last_release import lost
from tests.oracles.record_examples import JOBS, JOURNALED, WISHES, far_lines

AT = 1_900_000_007
FILE = "records.txt"
"""A record a line: whose journal, its kind, its body."""


def written() -> list[str]:
    """All examples as today's code writes them."""
    lines = [f"{whose}\t\t{line}" for whose, line, _ in far_lines()]
    for whose, (codec, _, examples) in JOURNALED.items():
        for event in examples:
            record = codec.encode(event, at=AT)
            lines.append(f"{whose}\t{record.kind}\t{record.body.decode('ascii')}")
    return lines


def kept(whose: str, folder: Path = FOLDER) -> list[tuple[str, bytes]]:
    """The lines of one journal: kind and body."""
    rows = (row.split("\t") for row in (folder / FILE).read_text("utf-8").splitlines())
    return [(kind, body.encode()) for journal, kind, body in rows if journal == whose]


def test_bytes(frozen: Frozen) -> None:
    """Each example is written byte for byte as it is kept."""
    frozen.text(FILE, "".join(f"{line}\n" for line in written()))


@pytest.mark.parametrize("whose", JOURNALED)
def test_meaning(whose: str) -> None:
    """What is kept is read as the value that it was written from."""
    codec, _, examples = JOURNALED[whose]
    read = [codec.decode(Record(kind=kind, at=AT, body=body)) for kind, body in kept(whose)]
    assert read == list(examples)


@pytest.mark.parametrize("whose", JOURNALED)
def test_records_of_last_release(whose: str) -> None:
    """A record of the last release is read as what it says, in each field that it had."""
    codec, _, _ = JOURNALED[whose]
    rows = kept(whose, LAST_RELEASE)
    assert rows
    for kind, body in rows:
        read = codec.decode(Record(kind=kind, at=AT, body=body))
        again = codec.encode(read, at=AT)
        assert again.kind == kind
        assert [*lost(json.loads(body), json.loads(again.body))] == [], kind


def test_far_files_of_last_release() -> None:
    """The same for what the last release wrote down at sites without an agent."""
    readers: dict[str, tuple[Callable[[Any], str], Callable[[Sequence[bytes]], list[Any]]]]
    readers = {"far wish": (far_book.to_line, _wishes), "far job": (job_files.to_line, _jobs)}
    for what, (to_line, read) in readers.items():
        rows = [body for _, body in kept(what, LAST_RELEASE)]
        values = read(rows)
        assert len(values) == len(rows) > 0
        for body, value in zip(rows, values, strict=True):
            assert [*lost(json.loads(body), json.loads(to_line(value)))] == [], what


def test_meaning_of_far_files() -> None:
    """The same for what is written down at sites without an agent."""
    assert _wishes([body for _, body in kept("far wish")]) == list(WISHES)
    assert _jobs([body for _, body in kept("far job")]) == list(JOBS)


def _wishes(bodies: Sequence[bytes]) -> list[Any]:
    pairs = [(f"entry w{number}", f"request {b.decode()}") for number, b in enumerate(bodies)]
    entries = far_book.read_entries(line for pair in pairs for line in pair)
    return [each.wish for each in entries.values()]


def _jobs(bodies: Sequence[bytes]) -> list[Any]:
    pairs = [(f"job j{number}", f"spec {b.decode()}") for number, b in enumerate(bodies)]
    return [each.record for each in job_files.read_jobs(line for pair in pairs for line in pair)]


@pytest.mark.parametrize("whose", JOURNALED)
def test_every_kind_has_an_example(whose: str) -> None:
    """A new kind of record comes with its example here, and no kind goes away unseen."""
    _, registry, examples = JOURNALED[whose]
    assert {type(each) for each in examples} == set(registry.values())
    assert {kind for kind, _ in kept(whose)} == set(registry)


def test_examples_show_every_field_and_member() -> None:
    """So that no field and no word of an enumeration can change unseen."""
    everything: list[Any] = [each for _, _, examples in JOURNALED.values() for each in examples]
    assert never_shown([*everything, *WISHES, *JOBS]) == []

"""Every kind of record has the bytes it always had, and they still mean what they always meant."""

from __future__ import annotations

from typing import Any

import pytest

from gridtravel.gridio.batch import far_book, job_files
from gridtravel.gridio.journal.contract import Record
from tests.oracles.completeness import never_shown
from tests.oracles.frozen_files import FOLDER, Frozen
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


def kept(whose: str) -> list[tuple[str, bytes]]:
    """The lines of one journal: kind and body."""
    rows = (row.split("\t") for row in (FOLDER / FILE).read_text("utf-8").splitlines())
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


def test_meaning_of_far_files() -> None:
    """The same for what is written down at sites without an agent."""
    wishes = [
        (f"entry w{number}", f"request {body.decode()}")
        for number, (_, body) in enumerate(kept("far wish"))
    ]
    entries = far_book.read_entries(line for pair in wishes for line in pair)
    assert [each.wish for each in entries.values()] == list(WISHES)
    jobs = [
        (f"job j{number}", f"spec {body.decode()}")
        for number, (_, body) in enumerate(kept("far job"))
    ]
    files = job_files.read_jobs(line for pair in jobs for line in pair)
    assert [each.record for each in files] == list(JOBS)


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

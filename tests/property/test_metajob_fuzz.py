"""Foreign matter: whatever bytes a file holds, the reader returns a metajob or raises InputError,
and runs nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.metajobs import UsagePattern
from gridtravel.travel_agent.demo.examples import example_metajob
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.metajob_file.writer import metajob_to_json
from tests.support.metajob_builders import NOON_BEFORE, PACIFIC, PAPER_FILE

PAPER = PAPER_FILE.read_text(encoding="utf-8")
TASK_JSON = """{"usage_pattern": "single", "nodes_total": 1, "duration": 60,
"earliest_start": "now", "latest_end": "+1h", "machines": [{"name": "a", "nodes_max": 1}],
"notifications": {"hook": ["say"]}, "task": {"command": ["./a", "b"], "environment": {"A": "b"},
"stage_in": ["c"], "stage_out": ["d"]}}"""
GOOD_FILES = [
    PAPER,
    TASK_JSON,
    *(example_metajob(pattern) for pattern in UsagePattern),
    metajob_to_json(parse_metajob(PAPER, now=NOON_BEFORE, zone=PACIFIC).metajob),
]
_SPLICES = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        '"',
        "'",
        "'''",
        "\\",
        "\n",
        "#",
        "=",
        ",",
        ":",
        "(",
        "lambda: 0",
        "**a",
        "0x",
        "1e9",
        "-1",
        "[[machines]]\n",
        "[task]\n",
        "[metajob]\n",
        "null",
        "true",
        "nan",
        "\x00",
        "\u2028",
        "\ud800",
        "\\ud800",
    ]
)


def _read(content: bytes | str, form: str | None = None) -> None:
    try:
        parse_metajob(content, now=NOON_BEFORE, zone=PACIFIC, form=form)
    except InputError as error:
        message = str(error)
        assert message.isprintable()
        assert "Traceback" not in message


@given(content=st.binary(max_size=300), form=st.sampled_from([None, "ini", "toml", "json"]))
def test_random_bytes_only_raise_input_error(content: bytes, form: str | None) -> None:
    """Binary junk is one clear error in every format."""
    _read(content, form)


@given(content=st.text(max_size=300), form=st.sampled_from(["ini", "toml", "json"]))
def test_random_text_only_raises_input_error(content: str, form: str) -> None:
    """So is any text."""
    _read(content, form)


@given(body=st.text(max_size=200))
def test_random_dictionaries_only_raise_input_error(body: str) -> None:
    """Whatever stands in machines_dict_string is refused or read, never run."""
    head = PAPER.split("machines_dict_string", maxsplit=1)[0]
    _read(f"{head}machines_dict_string = {{{body}}}\n", "ini")


@given(
    text=st.sampled_from(GOOD_FILES),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 40), st.one_of(st.just(""), _SPLICES)),
        min_size=1,
        max_size=4,
    ),
)
def test_damaged_files_only_raise_input_error(
    text: str, edits: list[tuple[float, int, str]]
) -> None:
    """Good files with pieces cut out and others put in never crash the reader, nor lose their
    line."""
    for place, cut, splice in edits:
        at = int(place * len(text))
        text = text[:at] + splice + text[at + cut :]
    _read(text)


@pytest.mark.parametrize("form", ["ini", "toml", "json"])
@pytest.mark.parametrize(
    "hostile",
    [
        "[" * 200_000,
        "{" * 200_000,
        "a" + ".a" * 200_000 + " = 1",
        "a = " + "[" * 200_000,
        "a = " + "9" * 100_000,
        "a = 1e99999999999",
        '{"a": ' * 50_000,
        '{"nodes_total": ' + "9" * 100_000 + "}",
        "[metajob]\n" * 50_000,
        "[" + " " * 500_000 + "x",
        "[metajob]\n" + "k" * 500_000 + " = 1",
        "[metajob]\nmachines_dict_string = " + "(" * 100_000,
        "[metajob]\nmachines_dict_string = {" + "-" * 100_000 + "1: 2}",
        "[metajob]\nmachines_dict_string = {" + "1+" * 50_000 + "1: 2}",
        "[metajob]\nmachines_dict_string = " + "'a'" * 50_000,
        "[metajob]\nmachines_dict_string = {'\\d': 1}",
        "[metajob]\nmachines_dict_string = {'a' is 1: 1}",
        "\ufeff" * 3,
        " " * 1_048_577,
    ],
)
def test_files_made_to_hurt_are_refused(hostile: str, form: str) -> None:
    """Depth, length and numbers without end meet a bound, not the limits of the machine."""
    if form == "ini" and "machines_dict_string" in hostile:
        rest = PAPER.split("[metajob]")[1].split("machines_dict_string")[0]
        hostile = hostile.replace("[metajob]", "[metajob]" + rest.rstrip(), 1)
    with pytest.raises(InputError):
        parse_metajob(hostile, now=NOON_BEFORE, zone=PACIFIC, form=form)

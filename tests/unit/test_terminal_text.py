"""Words of strangers are text: what a terminal would act upon is written out, the rest stays."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.table import Table

from gridtravel.gridcore.timing.instants import Instant, Interval
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, Transport, TripState
from gridtravel.gridio.terminal.console import TerminalConsole
from gridtravel.gridio.terminal.text import (
    CHARACTERS_MAX,
    JobOutput,
    as_text,
    print_json,
    say,
    tell,
    use_any_characters,
)
from gridtravel.travel_agent.running.icalendar import itinerary_ics

START: Instant = 1_800_000_000


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("line\rtrip: BOOKED", r"line\rtrip: BOOKED"),
        ("one\ntwo\x0b\x0c\x85\u2028\u2029", r"one\ntwo\x0b\x0c\x85\u2028\u2029"),
        ("\x1b]0;title\x07\x1b[2J\x9b2J", r"\x1b]0;title\x07\x1b[2J\x9b2J"),
        ("\x00\x08\x7f", r"\x00\x08\x7f"),
        ("a\u202eb\u2066c\u200ed\u061c", r"a\u202eb\u2066c\u200ed\u061c"),
        ("a\u200bb\u200cc\u200dd\u2060e\ufefff\xadg", r"a\u200bb\u200cc\u200dd\u2060e\ufefff\xadg"),
        ("a\u3164b\u115fc\u2800d\u034fe", r"a\u3164b\u115fc\u2800d\u034fe"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("half \ud800", r"half \ud800"),
    ],
    ids=ascii,
)
def test_what_acts_is_written_out(words: str, shown: str) -> None:
    """Ends of lines, controls of both sets, marks of direction and of no width, halves of pairs."""
    assert as_text(words) == shown


@pytest.mark.parametrize(
    "words",
    [
        "",
        "plain",
        "tab\there",
        "Zürich",
        "Ελλάδα",
        "東京 node",
        "עברית",
        "العربية",
        "🚀",
        "e\u0301",
        "a\xa0b",
    ],
    ids=ascii,
)
def test_ordinary_words_stay(words: str) -> None:
    """Every script, symbols, accents of their own, spaces that a page uses."""
    assert as_text(words) == words


def test_a_flood_of_words_is_cut() -> None:
    """Nobody's message pushes everything else off the screen; how much is missing is said."""
    shown = as_text("x" * (CHARACTERS_MAX + 7))
    assert shown.startswith("x" * CHARACTERS_MAX)
    assert shown.endswith("and 7 characters more")


def test_each_line_of_an_answer_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """To either stream."""
    say("one\ntwo")
    tell("one\ntwo")
    assert capsys.readouterr() == ("one\\ntwo\n", "one\\ntwo\n")


def test_json_is_whole_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts get every character, and none of them comes to a terminal that looks on."""
    words = "a\r\x1b\x7f\x9b\u202e\ud800é"
    print_json({"message": words})
    written = capsys.readouterr().out
    assert json.loads(written) == {"message": words}
    assert written.replace("\n", "").isprintable()
    assert written.isascii()


def test_an_encoding_without_the_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site's word ends no command on a terminal of another alphabet."""
    sink = io.BytesIO()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(sink, encoding="ascii"))
    use_any_characters()
    say("東")
    assert sink.getvalue() == b"\\u6771\n"


def test_tables_show_text() -> None:
    """Titles, headings, cells and lines: no markup, no escape, no forged row."""
    sink = io.StringIO()
    console = TerminalConsole(file=sink, width=200)
    table = Table("[bold]head\x1b[1m", title="[link=x]t\rt[/link]")
    table.add_row("a\nb\u202e:boom: and so much that the title fits")
    console.print(table)
    console.print("[red]line\x07", soft_wrap=True)
    shown = sink.getvalue()
    assert not [each for each in shown if not each.isprintable() and each != "\n"]
    for words in (r"[bold]head\x1b[1m", r"[link=x]t\rt[/link]", r"a\nb\u202e:boom:"):
        assert words in shown
    assert "[red]line\\x07\n" in shown


@pytest.mark.parametrize(
    ("is_screen", "is_raw", "shown"),
    [
        (False, False, b"a\x1b[1m\rb\nc"),
        (True, True, b"a\x1b[1m\rb\nc"),
        (True, False, b"a\\x1b[1m\\rb\nc"),
    ],
)
def test_a_jobs_bytes(
    monkeypatch: pytest.MonkeyPatch, is_screen: bool, is_raw: bool, shown: bytes
) -> None:
    """They are a job's own in a file; at a screen they are text, unless its user says raw."""
    sink = io.BytesIO()
    stream = io.TextIOWrapper(sink, encoding="utf-8", newline="")
    monkeypatch.setattr(stream, "isatty", lambda: is_screen, raising=False)
    monkeypatch.setattr(sys, "stdout", stream)
    out = JobOutput(is_raw=is_raw)
    out.write(b"a\x1b[1m")
    out.write(b"\rb\nc")
    assert sink.getvalue() == shown


def test_a_calendar_entry_shows_text() -> None:
    """What a trip is called does nothing to the program that shows the entry."""
    leg = Leg(
        name="leg",
        machine="lab",
        site="lab",
        nodes=1,
        interval=Interval(START, START + 60),
        transport=Transport.GRPC,
    )
    trip = Itinerary(trip_id="t", name="n\x07\u202e", state=TripState.BOOKED, legs=(leg,))
    written = itinerary_ics(trip, now=START)
    assert not [each for each in written if not each.isprintable() and each not in "\r\n"]
    assert r"n\\x07\\u202e" in written

"""Metajob files: what each format is read as, and the one line each mistake gets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.metajobs import Objective, StagedFile, TaskSpec, UsagePattern
from gridtravel.travel_agent.demo.examples import example_metajob
from gridtravel.travel_agent.metajob_file.model import metajob_schema_text
from gridtravel.travel_agent.metajob_file.reader import (
    FILE_BYTES_MAX,
    parse_metajob,
    read_metajob_file,
)
from gridtravel.travel_agent.metajob_file.writer import metajob_to_json
from tests.support.metajob_builders import NOON_BEFORE, PACIFIC, SC2004, metajob
from tests.support.metajob_reading import PAPER, changed, read, refusal

TOML = """\
name = "trip"
usage_pattern = "multiple"
nodes_total = 12
duration = "2h"
earliest_start = "07:00_11/09/2004"
latest_end = "09:30_11/09/2004"

[[machines]]
name = "datastar655"
nodes_min = 1
nodes_max = 158

[[machines]]
name = "purduesp"
nodes_max = 2
"""
BARE = '{"usage_pattern": "single", "earliest_start": "now"'
WHOLE = (
    BARE + ', "latest_end": "+1d", "nodes_total": 1, "duration": 60,'
    ' "machines": [{"name": "a", "nodes_max": 1}]'
)
PIPELINE = example_metajob(UsagePattern.PIPELINE)


def test_toml_and_json_say_the_same() -> None:
    """The paper's example in TOML is the paper's example; as JSON too, found by its content
    alone."""
    asked = read(TOML, "trip.toml")
    assert asked == metajob()
    assert read(metajob_to_json(asked)) == asked
    assert read(TOML, "trip.gur") == asked


def test_times_of_a_file_hold_in_its_own_zone() -> None:
    """The key ``zone`` goes before the reader's zone, and a zone in the text before both."""
    text = changed(TOML, 'name = "trip"', 'zone = "Europe/Berlin"\nname = "trip"')
    text = changed(text, '09:30_11/09/2004"', '09:30_11/09/2004 America/Los_Angeles"')
    found = read(text, "trip.toml")
    assert found.earliest_start == SC2004 - 9 * 3600
    assert found.latest_end == SC2004 + 9000


def test_a_time_that_happens_twice_is_noted() -> None:
    """The reading carries the note of a doubtful local time, with its key."""
    text = changed(TOML, "07:00_11/09/2004", "01:30_10/31/2004")
    found = parse_metajob(text, now=0, zone=PACIFIC)
    assert len(found.notes) == 1
    assert found.notes[0].startswith("earliest_start: 01:30 happens twice")


@pytest.mark.parametrize(
    "value", ["2004-11-09T07:00:00-08:00", "2004-11-09 07:00:00", "1100012400", '"tomorrow 07:00"']
)
def test_toml_has_times_of_its_own(value: str) -> None:
    """TOML's date-times and whole numbers are times as well as the texts are."""
    text = changed(TOML, '"07:00_11/09/2004"', value)
    assert read(text, "trip.toml").earliest_start == SC2004


def test_everything_beyond_the_paper_is_read() -> None:
    """Budget, objective, healing, race, deadline and notifications reach the metajob."""
    text = changed(TOML, "latest_end", "deadline")
    text = changed(text, '"multiple"', '"single"')
    head = (
        'objective = "lowest_cost"\nbudget_credits = 12.345\nguard = 5\nrace = true\n'
        'accept_alternative = true\nhealing = ["shrink"]\nnotifications.hook = ["say"]\n'
    )
    found = read(head + text, "trip.toml")
    assert found.objective is Objective.LOWEST_COST
    assert found.budget_millicredits == 12_345
    assert (found.guard_s, found.is_race, found.accepts_alternative) == (5, True, True)
    assert found.notifications.hook_command == ("say",)
    assert len(found.notifications.events) == 5


SEGMENTS = """\
usage_pattern = "single"
earliest_start = "07:00_11/09/2004"
[details]
estimate = "90m"
restartable = true
[requirements]
nodes_total = 2
duration = "2h"
memory_mb = 2048
disk_mb = 500
[constraints]
deadline = "09:30_11/09/2004"
budget_credits = 12.5
[optimisation]
objective = "lowest_cost"
[[machines]]
name = "datastar655"
nodes_max = 158
"""


def test_a_job_is_specified_in_segments() -> None:
    """Each key may stand in its segment (Libra+$, section IV) or outside, with one meaning."""
    found = read(SEGMENTS, "trip.toml")
    assert (found.estimate_s, found.is_restartable) == (5400, True)
    assert (found.nodes_total, found.duration_s) == (2, 7200)
    assert (found.memory_mb, found.disk_mb) == (2048, 500)
    assert (found.latest_end, found.budget_millicredits) == (SC2004 + 9000, 12_500)
    assert found.objective is Objective.LOWEST_COST
    flat = "\n".join(line for line in SEGMENTS.split("\n") if line[:1] != "[" or "mach" in line)
    assert read(flat, "trip.toml") == found
    assert read(metajob_to_json(found), "trip.json") == found


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('estimate = "90m"', "estimate = 0", 4, "the estimate is 0 seconds"),
        ('estimate = "90m"', "estimate = nan", 4, "estimate"),
        ('estimate = "90m"', 'estimate = "-5m"', 4, "estimate"),
        ("budget_credits = 12.5", "budget_credits = -1", 13, "budget_credits"),
        ("budget_credits = 12.5", "budget_credits = nan", 13, "budget_credits"),
        ("budget_credits = 12.5", "budget_credits = 1e30", 13, "budget_credits"),
        ("memory_mb = 2048", "memory_mb = 0", 9, "memory_mb must be 1 or more"),
        ("disk_mb = 500", "disk_mb = 10000000000", 10, "disk_mb must be 1000000000 or less"),
        ('deadline = "09:30_11/09/2004"', 'deadline = "06:30_11/09/2004"', 12, "not after the"),
        ('deadline = "09:30_11/09/2004"', 'deadline = "07:30_11/09/2004"', 12, "is shorter than"),
        ("restartable = true", "deadline = 5", 5, "unknown key 'deadline'"),
        ("[details]", "objective = 'earliest_finish'\n[details]", 16, "objective is said twice"),
        ("[details]", "latest_end = '+1d'\n[details]", 13, "two words for the same thing"),
    ],
)
def test_what_is_wrong_in_a_segment_is_told_with_its_line(
    old: str, new: str, line: int, said: str
) -> None:
    """As of any other key."""
    told = refusal(changed(SEGMENTS, old, new), "trip.toml")
    assert told.startswith(f"trip.toml, line {line}: "), told
    assert said in told


def test_a_machine_takes_from_the_common_task_what_it_does_not_say() -> None:
    """Keys of a machine's task go before the metajob's, key by key; nothing is joined."""
    text = TOML + (
        "[machines.task]\nenvironment = {}\ncommand = ['./air']\n"
        "[task]\ncommand = ['./all']\nenvironment = {A = '1'}\nstage_out = ['log/a', "
        "{source = 'b', destination = 'c'}]\nstage_in = ['in/x']\n"
    )
    found = read(text, "trip.toml")
    assert found.task is not None
    assert found.machines[0].task is None
    assert found.machines[1].task == TaskSpec(
        command=("./air",),
        stage_in=(StagedFile(source="in/x", destination="x"),),
        stage_out=(
            StagedFile(source="log/a", destination="log/a"),
            StagedFile(source="b", destination="c"),
        ),
    )


def test_files_to_stage_are_found_beside_the_metajob(tmp_path: Path) -> None:
    """A relative path on the laptop begins at the metajob's folder, wherever the command is
    given."""
    path = tmp_path / "My trip (2).toml"
    text = changed(TOML, 'name = "trip"\n', "")
    path.write_text(text + "[task]\ncommand=['a']\nstage_in=['in/x', '/abs/y']\n")
    found = read_metajob_file(path, now=NOON_BEFORE, zone=PACIFIC).metajob
    assert found.task is not None
    assert [f.source for f in found.task.stage_in] == [str(tmp_path / "in/x"), "/abs/y"]
    assert found.name == "My-trip-2"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("nodes_max = 2", "nodes_max = 0", "line 15: nodes_max must be 1 or more"),
        ("nodes_max = 2", "nodes_max = 99999999", "line 15: nodes_max must be 10000000 or less"),
        ("nodes_max = 2", "nodes_max = 2.0", "line 15: nodes_max must be a whole number"),
        ("nodes_max = 2", "nodes_max = '2'", "line 15: nodes_max must be a whole number"),
        ("nodes_max = 2", "nodes_max = true", "line 15: nodes_max must be a whole number"),
        ("nodes_max = 2", "nodes_mx = 2", "line 15: unknown key 'nodes_mx' (did you mean"),
        ("nodes_max = 2", "max_int = 2", "did you mean 'nodes_max'?"),
        ("nodes_max = 2", "", "line 13: the key 'nodes_max' is missing in machine 2"),
        ("nodes_max = 2", "nodes_max = 2\nnodes_min = 3", "line 16: machine purduesp"),
        ("nodes_max = 2", "nodes_max = 2\nnodes_max = 2", "line 16: not TOML"),
        ('"purduesp"', '"datastar655"', "line 13: machine datastar655 is named twice"),
        ('"purduesp"', '"purdue sp"', "line 14: the machine 'purdue sp' is not a usable name"),
        ("nodes_total = 12", "total_nodes = 12", "did you mean 'nodes_total'?"),
        ("nodes_total = 12", "qqq = 12", "line 3: unknown key 'qqq' (known here are"),
        ("nodes_total = 12\n", "", "the key 'nodes_total' is missing"),
        ('duration = "2h"\n', "", "the key 'duration' is missing"),
        ('duration = "2h"', "duration = 1.5", "line 4: duration must be seconds or a text"),
        ('duration = "2h"', "duration = -1", "line 4: duration must be 0 seconds to ten years"),
        ('duration = "2h"', "duration = 0", "line 4: the duration is 0 seconds"),
        ('"multiple"', '"many"', "line 2: usage_pattern must be 'single'"),
        ('"07:00_11/09/2004"', "true", "line 5: earliest_start must be a text"),
        ('"07:00_11/09/2004"', "-5", "line 5: earliest_start must be epoch seconds"),
        ('"07:00_11/09/2004"', "2004-11-09", "add a time of day"),
        ('latest_end = "', 'deadline = "+1h"\nlatest_end = "', "line 6: latest_end and deadline"),
        ('latest_end = "09:30_11/09/2004"', "", "the key 'latest_end' is missing"),
        ('latest_end = "09:30_11/09/2004"', 'deadline = "+1h"', "line 6: the latest end"),
        ("nodes_total = 12", 'nodes_total = 12\nzone = "PST"', "line 4: 'PST' is an abbreviation"),
        ("nodes_total = 12", "nodes_total = 12\nbudget_credits = 1.0001", "must not be finer"),
        ("nodes_total = 12", "nodes_total = 12\nbudget_credits = nan", "must be 0 to"),
        ("nodes_total = 12", "nodes_total = 12\nbudget_credits = '1'", "must be a number"),
        ("nodes_total = 12", "nodes_total = 12\nrace = 'no'", "line 4: race must be true or false"),
        ("nodes_total = 12", "nodes_total = 12\nrace = true", "line 4: a race has one winner"),
        ("nodes_total = 12", "nodes_total = 12\nhealing = 'shrink'", "line 4: healing must be"),
        ("nodes_total = 12", "nodes_total = 12\nhealing = ['fly']", "line 4: healing must be"),
        ("nodes_total = 12", "nodes_total = 12\nkeepers = 'sdsc'", "line 4: keepers must be"),
        ("nodes_total = 12", "nodes_total = 12\nkeepers = [7]", "line 4: keepers"),
        ("nodes_total = 12", "nodes_total = 12\nkeepers = ['']", "line 4: "),
        ("nodes_total = 12", "nodes_total = 12\nkeepers = ['a', 'a']", "line 4: a keeper is named"),
        ("nodes_total = 12", "nodes_total = 12\ntask.stage_in = [{source = 'a'}]", "missing in"),
        ("nodes_total = 12", "nodes_total = 12\ntask.stage_in = ['~nobody-x/a']", "has no command"),
        ("nodes_total = 12", "nodes_total = 12\ntask.environment.A = 1", "line 4: A must be"),
        ("nodes_total = 12", "nodes_total = 12\n[notifications]\nhok = []", "line 5: unknown"),
        ("nodes_total = 12", "nodes_total = 12\ntask = 'x'", "line 4: task must be a table"),
        ("nodes_total = 12", "nodes_total = 12\ntask.command = './x'", "line 4: command must be"),
        ("nodes_total = 12", "nodes_total = 12\ntask.cmd_line = ['./x']", "unknown key 'cmd_line'"),
        ("nodes_total = 12", "nodes_total = 12\ntask.compile = ['make']", "has no command"),
        ("nodes_total = 12", "nodes_total = 12\ntask.stage_in = [1]", "line 4: stage_in must"),
        ("nodes_total = 12", "nodes_total = 12\nnotifications.emails = ['x']", "not a mail"),
        ('name = "trip"', 'name = "a/b"', "line 1: the name 'a/b' is not a usable name"),
        ('name = "trip"', 'name = "trip', "line 1: not TOML"),
        ("[[machines]]", "[machines]", "line 13: not TOML"),
    ],
)  # fmt: skip
def test_each_mistake_in_toml_gets_one_line(old: str, new: str, told: str) -> None:
    """Unknown keys with the nearest known one, wrong types, contradictions: each with its line."""
    assert told in refusal(changed(TOML, old, new), "trip.toml")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("nodes = 10", "nodes = 200", "line 39: stage simulate wants 200 nodes"),
        ('machine = "datastar655"', 'machine = "x"', "line 39: stage simulate may run at x"),
        ('machine = "datastar655"', "", "line 39: stage simulate needs either machine or machines"),
        ('"draw"', '"simulate"', "line 47: two stages are called simulate"),
        ('"+3d"', '"+2h"', "line 14: the window of 2h is shorter than the trip, which takes 2h40m"),
        ('receive = ["field.dat"]', 'receive = ["../x"]', "line 56: the path '../x' at the site"),
        ('command = ["./draw", "field.dat", "picture.ppm"]', "", "this task has no command"),
        ('duration = "30m"', "", "the key 'duration' is missing"),
    ],
)
def test_each_mistake_in_a_pipeline_gets_one_line(old: str, new: str, told: str) -> None:
    """Stages are checked against their machines and against each other."""
    assert told in refusal(changed(PIPELINE, old, new), "trip.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "trip.json, line 1: a metajob is one JSON object"),
        ('{"name": 1,\n "name": 2}', "'name' stands twice"),
        ('{"name": "x",\n}', "line 2: not JSON"),
        ('{"guard": NaN}', "NaN is not a number"),
        (WHOLE + ', "task": {"command": ["\\ud800"]}}', "line 1: argument 0 of command"),
        (WHOLE + ', "task": {"command": [""]}}', "line 1: command has an empty program name"),
        (BARE + ',\n"machines": [{"name": "a",\n"nodes_max": 0}]}', "line 3: nodes_max must be 1"),
        (BARE + ', "machines": []}', "line 1: machines must not be empty"),
    ],
)  # fmt: skip
def test_each_mistake_in_json_gets_one_line(text: str, told: str) -> None:
    """JSON has the same keys, the same messages, and line numbers too."""
    assert told in refusal(text, "trip.json")


def test_a_window_in_the_past_is_refused_unless_asked_for() -> None:
    """A new trip needs a window that is still possible; a booked one may be read for ever."""
    later = SC2004 + 86_400
    with pytest.raises(InputError, match="line 7: the window ended at 2004-11-09T17:30:00Z"):
        parse_metajob(PAPER, now=later, zone=PACIFIC)
    with pytest.raises(InputError, match="line 6: the window ended"):
        parse_metajob(changed(TOML, "latest_end", "deadline"), now=later, zone=PACIFIC)
    assert parse_metajob(PAPER, now=later, zone=PACIFIC, may_be_past=True).metajob.nodes_total == 12


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b" \n\n ", "is empty"),
        (b"name = 'x'\n\xff\xfe", "line 2: is not text in UTF-8"),
        (b"\x7fELF\x00\x01", "line 1: holds control characters"),
        (b"#" * (FILE_BYTES_MAX + 1), "is larger than 1 MiB"),
    ],
)
def test_what_is_no_text_is_refused(content: bytes, told: str) -> None:
    """Size, encoding and control characters are checked before anything is parsed."""
    assert told in refusal(content)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A missing file, a folder and a path that cannot be each end in one line."""
    for path, told in (
        (tmp_path / "none.gur", "does not exist"),
        (tmp_path, "is not a file"),
        (Path("a\0b"), "does not exist"),
    ):
        with pytest.raises(InputError) as caught:
            read_metajob_file(path, now=NOON_BEFORE, zone=PACIFIC)
        assert told in str(caught.value)


def test_an_unreadable_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says about a file that cannot be opened reaches the user in one line."""
    path = tmp_path / "trip.toml"
    path.write_text(TOML)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        read_metajob_file(path, now=NOON_BEFORE, zone=PACIFIC)


def test_a_home_that_does_not_exist_is_told(tmp_path: Path) -> None:
    """``~`` is the user's home; a user who does not exist has none, and the line is told."""
    path = tmp_path / "trip.toml"
    path.write_text(TOML + "[task]\ncommand=['a']\nstage_in=['~no-such-user-here/x']\n")
    with pytest.raises(InputError, match="line 18: there is no folder '~no-such-user-here/x'"):
        read_metajob_file(path, now=NOON_BEFORE, zone=PACIFIC)


def test_a_device_is_not_read(tmp_path: Path) -> None:
    """A pipe would hang the reader for ever; it is refused instead."""
    pipe = tmp_path / "pipe.gur"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="is not a file"):
        read_metajob_file(pipe, now=NOON_BEFORE, zone=PACIFIC)


@pytest.mark.parametrize("pattern", list(UsagePattern))
def test_the_examples_of_init_are_read(pattern: UsagePattern) -> None:
    """Each example is a valid file of its pattern, in any zone, and also with every comment line
    taken away."""
    text = example_metajob(pattern)
    for zone in ("America/Los_Angeles", "Asia/Kolkata", "UTC"):
        found = parse_metajob(text, now=NOON_BEFORE, zone=ZoneInfo(zone)).metajob
        assert found.usage_pattern is pattern
    assert text.startswith("#")
    assert max(len(row) for row in text.splitlines()) <= 100


@pytest.mark.parametrize("pattern", list(UsagePattern))
def test_the_settings_the_examples_leave_out_can_be_put_in(pattern: UsagePattern) -> None:
    """A commented setting (``# key = value``) is valid as soon as its mark is removed."""
    rows = [
        row[2:] if row.startswith("# ") and " = " in row and row[2].islower() else row
        for row in example_metajob(pattern).splitlines()
    ]
    assert (
        parse_metajob("\n".join(rows), now=NOON_BEFORE, zone=PACIFIC).metajob.usage_pattern
        is pattern
    )


def test_an_unknown_pattern_has_no_example() -> None:
    """The refusal names the patterns there are."""
    with pytest.raises(InputError, match="single, multiple, pipeline"):
        example_metajob("circular")


def test_the_published_schema_is_fresh() -> None:
    """docs/metajob.schema.json is what ``python -m travel_agent.metajob_file.model
    docs/metajob.schema.json`` writes."""
    published = Path(__file__).parents[2] / "docs" / "metajob.schema.json"
    assert published.read_text(encoding="utf-8") == metajob_schema_text()
    assert json.loads(metajob_schema_text())["additionalProperties"] is False

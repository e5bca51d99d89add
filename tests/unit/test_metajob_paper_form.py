"""The paper's metajob file: read as printed and in every layout; one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.travel_agent.metajob_file.reader import parse_metajob, read_metajob_file
from tests.support.metajob_builders import (
    NOON_BEFORE,
    PACIFIC,
    PAPER_FILE,
    SC2004,
    machine,
    metajob,
)
from tests.support.metajob_reading import PAPER, changed, read, refusal

PAPER_METAJOB = metajob(
    name="paper_metajob",
    machines=(
        machine(account="sys200", login="kenneth", email_notify="kenneth@sdsc.edu"),
        machine(
            "purduesp",
            nodes_max=2,
            account="TG-STA040001N",
            login="kenneth",
            email_notify="kenneth@sdsc.edu",
        ),
    ),
)


def test_the_file_printed_in_the_paper_is_read_as_it_stands() -> None:
    """GUR paper, section 4: twelve nodes on two machines, two hours between 07:00 and 09:30."""
    assert "\n}\n" in PAPER
    found = read_metajob_file(PAPER_FILE, now=NOON_BEFORE, zone=PACIFIC)
    assert found.metajob == PAPER_METAJOB
    assert found.metajob.earliest_start == SC2004
    assert found.notes == ()


@pytest.mark.parametrize(
    "shape",
    [
        lambda text: text.replace("\n  ", "\n").replace("\n  ", "\n"),
        lambda text: text.replace("\n}", "\n  }"),
        lambda text: text.replace("= {\n", "=\n{\n"),
        lambda text: text.replace("= {\n", "=\n    {\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: "# a comment\n\n; another\n" + text.replace("{\n", "{  # here too\n"),
        lambda text: text.replace("=", " : ", 8),
        lambda text: text.replace("total_nodes", "Total_Nodes"),
        lambda text: text.replace("\n    '", " '").replace("\n  '", " '").replace("\n  }", " }"),
        lambda text: text.replace("datastar655,purduesp", "datastar655,\n   purduesp"),
        lambda text: text.replace("duration=7200", "duration=02:00:00"),
        lambda text: text + "zone=America/Los_Angeles\n",
        lambda text: text.replace("machine_preference=datastar655,purduesp\n", ""),
        lambda text: "".join(f"    {row}\n" for row in text.splitlines()),
    ],
)
def test_other_layouts_of_the_paper_file_mean_the_same(shape: object) -> None:
    """Indented or not, on one line or many, with comments: the closing bracket ends the
    dictionary."""
    assert callable(shape)
    text = str(shape(PAPER)).encode()
    assert read(text, "paper_metajob.gur") == PAPER_METAJOB


def test_the_preference_is_the_order_of_the_machines() -> None:
    """``machine_preference`` goes before the order of the dictionary; reorder says whether load may
    change it."""
    text = changed(PAPER, "datastar655,purduesp", "purduesp, datastar655")
    found = read(changed(text, "reorder=yes", "reorder=no"))
    assert [m.machine for m in found.machines] == ["purduesp", "datastar655"]
    assert found.preference_reorder is False


def test_the_paper_file_can_ask_for_a_pipeline() -> None:
    """One stage a machine, in order of preference, each as large as total and machine allow (paper,
    section 4)."""
    text = changed(changed(PAPER, "=multiple", "=pipeline"), "09:30", "11:00")
    found = read(text)
    assert [(s.machines, s.nodes, s.duration_s) for s in found.stages] == [
        (("datastar655",), 12, 7200),
        (("purduesp",), 2, 7200),
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("total_nodes=12\n", "", "'total_nodes' is missing"),
        ("duration=7200\n", "", "'duration' is missing"),
        ("total_nodes=12", "total_nodes=", "line 2: total_nodes has no value"),
        ("total_nodes=12", "total_nodes=twelve", "line 2: total_nodes must be a whole number"),
        ("total_nodes=12", "total_node=12", "did you mean 'total_nodes'?"),
        ("total_nodes=12", "total_nodes=12\ntotal_nodes=13", "line 3: the key 'total_nodes'"),
        ("total_nodes=12", "total_nodes=0", "line 2: total_nodes must be 1 or more"),
        ("total_nodes=12", "total_nodes=200", "line 2: 200 nodes in total"),
        ("total_nodes=12", "twelve nodes", "line 2: 'twelve nodes' is neither a key"),
        ("'min_int' : 1", "'min_int' : 159", "line 14: machine datastar655 wants at least 159"),
        ("'min_int' : 1", "'min_int' : 0", "line 14: min_int must be 1 or more"),
        ("'min_int' : 1", "'min_int' : -1", "line 14: min_int must be 1 or more"),
        ("'min_int' : 1", "'min_int' : '1'", "line 14: min_int must be a whole number"),
        ("'min_int' : 1", "'min_int' : 1.5", "line 14: machines_dict_string holds 1.5"),
        ("'min_int' : 1", "'min_int' : True", "line 14: machines_dict_string holds True"),
        ("'min_int' : 1,\n", "", "line 10: machine 'datastar655' has no 'min_int'"),
        ("'min_int' : 1", "'min_int' : 1, 'min_int' : 1", "line 14: the key 'min_int'"),
        ("'username_string'", "'user_string'", "line 11: unknown key 'user_string'"),
        ("'username_string'", "7", "line 11: a key in machines_dict_string must be a text"),
        ("'kenneth@sdsc.edu'", "'kenneth'", "line 13: 'kenneth' is not a mail address"),
        ("'purduesp' :", "'datastar655' :", "line 17: machine 'datastar655' stands twice"),
        ("'purduesp' :", "'purdue' :", "line 3: machine purduesp of machine_preference is not in"),
        ("datastar655,purduesp", "datastar655", "line 3: machine purduesp of machines_dict"),
        ("datastar655,purduesp", "datastar655,purduesp,purduesp", "purduesp stands twice"),
        ("=7200", "=0", "line 5: the duration is 0 seconds"),
        ("=7200", "=-5", "never negative"),
        ("=7200", "=2 fortnights", "line 5: duration: '2 fortnights' is not a duration"),
        ("=7200", "=3h", "line 7: the window of 2h30m is shorter than the trip"),
        ("07:00_11/09/2004", "07:00_13/09/2004", "line 6: there is no such date"),
        ("07:00_11/09/2004", "07:00_11/09/2004 PST", "line 6: 'PST' is an abbreviation"),
        ("07:00_11/09/2004", "10:00_11/09/2004", "line 7: the latest end"),
        ("/2004\nusage", "/2003\nusage", "line 7: the latest end"),
        ("=multiple", "=parallel", "line 8: usage_pattern must be 'single', 'multiple'"),
        ("=yes", "=maybe", "line 4: machine_preference_reorder must be yes or no"),
        ("[metajob]", "[metajobs]", "line 1: unexpected section [metajobs]"),
        ("[metajob]\n", "", "line 1: 'total_nodes' stands before [metajob]"),
        ("usage_pattern", "[metajob]\nusage_pattern", "line 8: unexpected section"),
        ("  }\n}\n", "  }\n", "line 9: machines_dict_string opens a bracket"),
        ("  }\n}\n", "  }\n}}\n", "line 24: machines_dict_string is not a dictionary"),
        ("= {\n", "= \n", "line 9: machines_dict_string is empty"),
        ("= {\n", "= {" + " " * 262_144, "line 9: machines_dict_string is longer than 262144"),
        ("[metajob]", "[", "line 1: '[' is neither a key"),
        ("= {\n", "= {{{{{{{{{\n", "line 9: machines_dict_string is nested too deep"),
        ("= {\n", "= {'x': 1,\n", "line 9: machine 'x' must be described by a dictionary"),
    ],
)  # fmt: skip
def test_each_mistake_in_the_paper_form_gets_one_line(old: str, new: str, told: str) -> None:
    """File, line, what is wrong; the exit code of wrong input; nothing else is raised."""
    assert told in refusal(changed(PAPER, old, new))
    assert InputError.exit_code == 2


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("'min_int' : 1", "'min_int' : {mark}", 14),
        ("'kenneth'", "{mark}", 11),
        ("'purduesp' :", "{mark} :", 17),
        ("= {\n", "= {{**{mark},\n", 9),
        ("  }\n}\n", "  }\n}.update({mark})\n", 9),
        ("= {\n", "= [{mark} for x in {\n", 9),
        ("'kenneth'", "(lambda: {mark})()", 11),
        ("'kenneth'", "f'{{mark}}'", 11),
        ("'kenneth'", "[{mark}]", 11),
    ],
)
def test_code_in_the_dictionary_is_told_and_never_run(
    old: str, new: str, line: int, tmp_path: Path
) -> None:
    """Python in machines_dict_string is one clear line with its number, and leaves no trace."""
    target = tmp_path / "ran"
    mark = f"__import__('pathlib').Path({str(target)!r}).touch()"
    text = changed(PAPER, old, new.replace("{mark}", mark).replace("{{", "{"))
    if "for x in" in new:
        text = text.rstrip() + "]\n"
    told = refusal(text)
    assert f"line {line}: machines_dict_string" in told
    assert "was not run" in told or "nothing in it is ever run" in told
    assert not target.exists()


def test_without_brackets_code_is_told_too() -> None:
    """A value that is no dictionary at all is refused on its own line."""
    head = PAPER.split("machines_dict_string", maxsplit=1)[0]
    assert "line 9: machines_dict_string is empty" in refusal(f"{head}machines_dict_string =")
    for value in ("dict(a=1)", "open('/etc/passwd')", "7", "import os", "'text'", "{1: 2}", "yes"):
        told = refusal(f"{head}machines_dict_string = {value}\n")
        assert "line 9: " in told
        assert "machines_dict_string" in told


def test_a_file_without_the_section_is_told() -> None:
    """Comments alone are not a metajob, when the file's name says that it is of the paper's
    form."""
    with pytest.raises(InputError, match="there is no section"):
        parse_metajob("# nothing\n", now=NOON_BEFORE, zone=PACIFIC, form="ini")

"""The original's commands and options, word by word, and what they become."""

from __future__ import annotations

import pytest
import typer

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.catalina.main import app
from gridtravel.local_sched.catalina.old.translate import (
    NO_COUNTERPART,
    OLD_COMMANDS,
    is_old,
    translate,
)

WINDOW = ["--earliest_start=10:30_03/10/2011", "--latest_end=15:00_03/10/2011"]
OUR_WINDOW = ["--earliest-start=10:30_03/10/2011", "--latest-end=15:00_03/10/2011"]
MAIL = "--email=user@sdsc.edu"
ANY_SHAPE = ["--nodes=1", "--duration=3600"]

TABLE: list[tuple[str, list[str], list[str]]] = [
    (
        "user_set_res",
        ["--account=TG-X", "--nodes=2", "--duration=3600", *WINDOW, MAIL],
        ["set-res", "--account=TG-X", "--nodes=2", "--duration=3600", *OUR_WINDOW, MAIL],
    ),
    (
        "user_set_res",
        ["--maxnodes", "4", "--duration", "3600.0", "--email", "NONOTIFY", "--featurelist", "a,b"],
        ["set-res", "--maxnodes=4", "--duration=3600", "--email=NONOTIFY", "--features=a,b"],
    ),
    (
        "user_set_res",
        ["--earliest_start", "1100012400.0", "--latest_end=1100098800.50"],
        ["set-res", "--earliest-start=1100012400", "--latest-end=1100098800"],
    ),
    (
        "user_set_res",
        ["--earliest=x", "--dur=1"],
        ["set-res", "--earliest-start=x", "--duration=1"],
    ),
    ("user_set_res", ["--earliest-start=x"], ["set-res", "--earliest-start=x"]),
    ("user_set_res", ["--nodes=1", "--json"], ["set-res", "--nodes=1", "--json"]),
    ("user_set_res", ["--?"], ["set-res", "--help"]),
    ("user_cancel_res", ["id1,id2"], ["cancel-res", "id1,id2"]),
    ("user_bind_res", ["r1", "j1,j2"], ["bind-res", "r1", "j1,j2"]),
    ("user_unbind_res", ["r1", "j1"], ["unbind-res", "r1", "j1"]),
    ("user_bind_job", ["j1", "r1,r2"], ["bind-job", "j1", "r1,r2"]),
    ("user_unbind_job", ["j1", "r1"], ["unbind-job", "j1", "r1"]),
    ("cancel_res", ["--res=r1,r2"], ["cancel-res", "r1,r2"]),
    ("bind_job_to_res", ["--res=r1", "--job=j1"], ["bind-job", "j1", "r1"]),
    ("unbind_job_from_res", ["--job", "j1", "--res", "r1"], ["unbind-job", "j1", "r1"]),
    ("del_job", ["--job=j1"], ["del-job", "j1"]),
    ("show_q", [], ["show-q"]),
    (
        "show_q",
        ["--user", "--state", "--resbind"],
        ["show-q", "--columns=user,state,reservations"],
    ),
    ("show_q", ["--full"], ["show-q", "--columns=all"]),
    ("show_q", ["--job", "--queue=a,b"], ["show-q", "--class=a,b", "--columns=job"]),
    ("show_q", ["--dump"], ["show-q", "--json"]),
    ("show_res", ["--res=r1"], ["show-res", "r1"]),
    ("show_res", ["--readable", "--start", "--end", "--old"], ["show-res", "--over"]),
    ("show_bf", [], ["show-bf"]),
    (
        "show_guesstimate",
        ["--nodes=4", "--duration=7200"],
        ["estimate", "--nodes=4", "--duration=7200"],
    ),
    (
        "show_guesstimate",
        ["--initiatormap=1+1+4"],
        ["estimate", "--nodes=3", "--duration=3600"],
    ),
    (
        "show_user_windows",
        ["--account=a", "--earliest_start=1100012400"],
        ["show-windows", "--account=a", "--earliest-start=1100012400", *ANY_SHAPE],
    ),
    (
        "show_user_windows",
        ["--maxnodes=3"],
        ["show-windows", "--maxnodes=3", "--duration=3600"],
    ),
    (
        "show_available",
        ["--start_date=07:00_11/09/2004", "--account=a"],
        ["show-available", "--start=07:00_11/09/2004", "--account=a"],
    ),
    ("show_resources", [], ["show-nodes"]),
    ("show_events", ["--start=1100012400"], ["history", "--since=1100012400"]),
    ("show_events", ["--userres"], ["history", "--reservations"]),
    ("query_priority", [], ["priority"]),
    (
        "set_res",
        ["--start=+1h", "--end=+2h", "--node_list=n-0,n-1", "--mode=lookahead", "--user_list=ada"],
        ["reserve-nodes", "--start=+1h", "--end=+2h", "--dry-run", "--users=ada", "n-0,n-1"],
    ),
    ("set_res", ["--mode=real", "--node_list=n-0"], ["reserve-nodes", "n-0"]),
    (
        "create_standing_res",
        ["--start_spec=0 8 * * 1-5", "--duration=3600", "--resource_amount=4", "--depth=7"],
        [
            *("create-standing-res", "--start=0 8 * * 1-5", "--duration=3600"),
            *("--nodes=4", "--depth=7"),
        ],
    ),
    ("cancel_standing_res", ["--res=class"], ["cancel-standing-res", "class"]),
    ("show_standing_res", ["--full"], ["show-standing-res"]),
]


@pytest.mark.parametrize(("name", "words", "ours"), TABLE)
def test_old_words_become_ours(name: str, words: list[str], ours: list[str]) -> None:
    """Names, options with ``=`` or a word for the value, unique prefixes, and the original's
    defaults.
    """
    assert list(translate(name, words).words) == ours


@pytest.mark.parametrize("name", sorted(OLD_COMMANDS))
def test_every_translation_is_a_command_with_these_options(name: str) -> None:
    """No old name leads to a command or an option that we do not have."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group has them
    old = OLD_COMMANDS[name]
    options = {each for param in commands[old.new].params for each in param.opts}
    wanted = {each.new for each in old.options.values() if each.new}
    assert wanted | {new for new, _ in old.defaults} <= options
    assert set(old.arguments) == {key for key, each in old.options.items() if each.is_positional}


def test_options_without_effect_are_said() -> None:
    """A comment or a class of jobs has no place here; the command goes on, and says so."""
    found = translate("user_set_res", ["--comment=mine", "--nodes=1"])
    assert found.words == ("set-res", "--nodes=1")
    assert found.notes == ("--comment has no effect: comments are not kept",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sharedmap=1#type:node_shared#cpu:1"], "nodes are given whole"),
        (["--qoslist=high"], "not to a class of jobs"),
        (["--colour=red"], "--colour is not known"),
        (["--e=1"], "--e is not unique"),
        (["--nodes"], "--nodes needs a value"),
    ],
)
def test_what_would_change_the_meaning_is_refused(words: list[str], said: str) -> None:
    """Nothing is dropped that the result depends on."""
    with pytest.raises(InputError, match=said):
        translate("user_set_res", words)


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("set_res", ["--mode=other"], "'other' is not known"),
        ("set_res", ["--amount=4"], "name the nodes"),
        ("create_standing_res", ["--job_restriction=result = 0"], "no code is executed"),
        ("create_standing_res", ["--latency=28800"], "shortpools are said"),
        ("create_standing_res", ["--group_list=users"], "there are no groups"),
    ],
)
def test_an_administrators_old_words_are_never_code(name: str, words: list[str], said: str) -> None:
    """What the original executed is refused with what to write instead."""
    with pytest.raises(InputError, match=said):
        translate(name, words)


def test_a_flag_takes_no_value() -> None:
    """``--user`` of show_q asks for a column; somebody who writes ``--user=ada`` means a filter."""
    with pytest.raises(InputError, match="--user takes no value"):
        translate("show_q", ["--user=ada"])


@pytest.mark.parametrize("name", sorted(NO_COUNTERPART))
def test_commands_without_counterpart_say_what_to_do(name: str) -> None:
    """Each has a hint, and none is silently something else."""
    assert is_old(name)
    with pytest.raises(InputError, match="is not offered") as caught:
        translate(name, ["--anything"])
    assert caught.value.hint


def test_no_new_name_is_an_old_one() -> None:
    """Our commands are spelled with dashes, so neither can hide the other."""
    ours = {each.name for each in app.registered_commands}
    assert not any(is_old(str(name)) for name in ours)

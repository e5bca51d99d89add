"""The original's commands under their old names: which of ours each is, and how its options read.

Names, options and the meaning of each follow the original's usage texts; a script written for it
runs unchanged. What it asked for and this site has no place for is said in a note, never passed
over; what would change the meaning is refused. ``translate`` is pure: words in, words out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gridcore.errors import InputError

_EPOCH_WITH_FRACTION: Final = re.compile(r"([0-9]{9,12})\.[0-9]*")
_SECONDS_WITH_FRACTION: Final = re.compile(r"([0-9]{1,9})\.0*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OldOption:
    """What becomes of one old option."""

    new: str = ""
    """Ours, with its dashes; empty: there is none."""
    takes_value: bool = True
    column: str = ""
    """A flag that asks for this column of a list."""
    is_positional: bool = False
    """Its value is an argument of ours, in the order of the command's ``arguments``."""
    is_count: bool = False
    """A task map such as ``1+1+4``: its length is the number of nodes."""
    note: str = ""
    """Why it has no effect; empty: because it asks for what is always so."""
    refusal: str = ""
    """Why the command cannot be carried out with it."""
    prefix: str = ""
    """What its value must begin with, and loses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldCommand:
    """One of the original's commands."""

    new: str
    options: Mapping[str, OldOption] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    """Options whose values are our arguments, in our order."""
    defaults: tuple[tuple[str, str], ...] = ()
    """What the original took for granted, by our option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The same command in our words."""

    words: tuple[str, ...]
    notes: tuple[str, ...] = ()


def _value(new: str) -> OldOption:
    return OldOption(new=new)


def _flag(new: str = "") -> OldOption:
    return OldOption(new=new, takes_value=False)


def _column(name: str) -> OldOption:
    return OldOption(column=name, takes_value=False)


def _no_place(why: str, *, takes_value: bool = True) -> OldOption:
    return OldOption(note=why, takes_value=takes_value)


def _refused(why: str) -> OldOption:
    return OldOption(refusal=why)


_ARGUMENT: Final = OldOption(is_positional=True)
_DEBUG: Final = {"debug": _flag()}
_NO_CLASSES: Final = "nodes are chosen by features, not by job classes"
_NO_SHAPE: Final = "nodes are given whole"
_NO_COLUMN: Final = "there is no such column"
_SHOWN: Final = _flag()

_REQUEST: Final[Mapping[str, OldOption]] = {
    "account": _value("--account"),
    "nodes": _value("--nodes"),
    "maxnodes": _value("--maxnodes"),
    "duration": _value("--duration"),
    "earliest_start": _value("--earliest-start"),
    "latest_end": _value("--latest-end"),
    "email": _value("--email"),
    "featurelist": _value("--features"),
    "comment": _no_place("comments are not kept"),
    "sharedmap": _refused("parts of nodes cannot be reserved: nodes are given whole"),
    "qoslist": _refused(
        "a reservation is open to its owner and to the jobs it is bound to, not to a class of jobs"
    ),
}

_SHOW_Q: Final[Mapping[str, OldOption]] = {
    **{name: _column(name) for name in ("job", "state", "class", "limit", "user", "account")},
    **{name: _column(name) for name in ("nodes", "remaining", "xfactor", "reason")},
    "startt": _column("start"),
    "resstartt": _column("start"),
    "systemqt": _column("submitted"),
    "submitt": _column("submitted"),
    "resbind": _column("reservations"),
    "fullname": _column("name"),
    "full": _column("all"),
    "queue": _value("--class"),
    "dump": _flag("--json"),
    **{
        name: _no_place(_NO_COLUMN, takes_value=False)
        for name in ("qos", "group", "cpu", "memory", "taskmap", "risk")
    },
}

_SHOW_RES: Final[Mapping[str, OldOption]] = {
    "res": _ARGUMENT,
    "old": _flag("--over"),
    "archive": _refused("there are no archives to read: finished reservations are in the journal"),
    **dict.fromkeys(
        (
            *("full", "readable", "start", "end", "creator", "duration", "nodes", "account"),
            *("job", "relstart", "relend", "eva", "endpriority"),
        ),
        _SHOWN,
    ),
    **{
        name: _no_place(_NO_COLUMN, takes_value=False)
        for name in (
            *("affinity_calculation", "latency", "cpu", "memory", "job_rest", "node_rest"),
            *("purpose", "start_spec", "nodegrep", "overlap", "comment", "node_list", "user_list"),
        )
    },
}

_HYPOTHETICAL: Final[Mapping[str, OldOption]] = {
    "nodes": _value("--nodes"),
    "initiatormap": OldOption(new="--nodes", is_count=True),
    "duration": _value("--duration"),
    **{
        name: _no_place("an estimate is for the end of the queue, whoever asks")
        for name in ("username", "account", "group", "qos", "local_admin", "submittime", "runID")
    },
    **{name: _no_place(_NO_CLASSES) for name in ("class", "multiclass")},
    **{name: _no_place(_NO_CLASSES) for name in ("Requirements", "Adapter")},
    **_DEBUG,
}

OLD_COMMANDS: Final[Mapping[str, OldCommand]] = {
    "user_set_res": OldCommand(new="set-res", options=_REQUEST),
    "user_cancel_res": OldCommand(new="cancel-res"),
    "user_bind_res": OldCommand(new="bind-res"),
    "user_unbind_res": OldCommand(new="unbind-res"),
    "user_bind_job": OldCommand(new="bind-job"),
    "user_unbind_job": OldCommand(new="unbind-job"),
    "cancel_res": OldCommand(new="cancel-res", options={"res": _ARGUMENT}, arguments=("res",)),
    "bind_job_to_res": OldCommand(
        new="bind-job",
        options={"job": _ARGUMENT, "res": _ARGUMENT},
        arguments=("job", "res"),
    ),
    "unbind_job_from_res": OldCommand(
        new="unbind-job",
        options={"job": _ARGUMENT, "res": _ARGUMENT},
        arguments=("job", "res"),
    ),
    "del_job": OldCommand(new="del-job", options={"job": _ARGUMENT}, arguments=("job",)),
    "show_q": OldCommand(new="show-q", options=_SHOW_Q),
    "show_res": OldCommand(new="show-res", options=_SHOW_RES, arguments=("res",)),
    "show_bf": OldCommand(new="show-bf"),
    "show_free": OldCommand(
        new="show-bf",
        options={
            **{
                name: _no_place("what is free is free to every user of the site")
                for name in ("user", "username", "account", "group", "qos", "duration")
            },
            **{name: _no_place(_NO_CLASSES) for name in ("class", "requirementsmap")},
            **_DEBUG,
        },
    ),
    "show_guesstimate": OldCommand(
        new="estimate", options=_HYPOTHETICAL, defaults=(("--duration", "3600"),)
    ),
    "show_user_windows": OldCommand(
        new="show-windows",
        options={
            "account": _value("--account"),
            "earliest_start": _value("--earliest-start"),
            "featurelist": _value("--features"),
            "username": _no_place("windows are shown for whoever asks"),
            "classlist": _no_place(_NO_CLASSES),
            **{name: _REQUEST[name] for name in ("nodes", "maxnodes", "duration", "latest_end")},
        },
        defaults=(("--nodes", "1"), ("--duration", "3600")),
    ),
    "show_available": OldCommand(
        new="show-available",
        options={"start_date": _value("--start"), "account": _value("--account"), **_DEBUG},
    ),
    "show_resources": OldCommand(new="show-nodes"),
    "show_events": OldCommand(
        new="history",
        options={
            "start": _value("--since"),
            "end": _value("--until"),
            "names": _no_place("jobs that are over are shown; see also show-res --over"),
            "userres": OldOption(
                takes_value=False,
                refusal="reservations that are over are shown by: catalina show-res --over",
            ),
            "archive": _refused("there are no archives to read"),
            "archivedir": _refused("there are no archives to read"),
        },
    ),
    "query_priority": OldCommand(new="priority"),
    "create_system_res": OldCommand(
        new="create-system-res",
        options={name: each for name, each in _REQUEST.items() if name != "account"},
    ),
    "set_config": OldCommand(
        new="set-mode",
        options={"key_value": OldOption(is_positional=True, prefix="state:")},
        arguments=("key_value",),
    ),
}
"""By the original's name."""

_CONFIGURATION: Final = "it is said in the site's configuration file: docs/site-configuration.md"
_NO_ORDER: Final = "the agent's local socket takes no orders about the site itself"
_DAEMON: Final = "the agent does this by itself: docs/site-configuration.md"
NO_COUNTERPART: Final[Mapping[str, str]] = {
    "set_res": "reserve with set-res; exact start and end make it a fixed one",
    "create_res": "reserve with set-res, change with modify-res",
    "show_bf-all": "ask for one shape with show-windows",
    "show_config": _CONFIGURATION,
    "show_standing_res": f"instances are shown by show-res; the rules: {_CONFIGURATION}",
    "create_standing_res": _CONFIGURATION,
    "cancel_standing_res": f"cancel an instance with cancel-res; the rule: {_CONFIGURATION}",
    "update_qos": "the service is chosen at submission: submit --qos",
    "update_preemption": "jobs are not preempted here",
    "update_local_admin": _NO_ORDER,
    "update_system_priority": _NO_ORDER,
    "res_status": _DAEMON,
    "resproepi": _DAEMON,
    "initialize_dbs": _DAEMON,
    "load_configured_resources": _DAEMON,
    "move_old_stuff": _DAEMON,
    "catalina_schedule_jobs": _DAEMON,
    "del_pids": "end jobs with del-job",
    "reslist": "accounts are in the site's grid-mapfile",
    "release": "see: catalina show-nodes --json",
    "dump": "every command has --json",
}
"""Commands of the original that are not offered, with what to do instead."""

_OURS: Final[Mapping[str, OldOption]] = {
    "json": _flag("--json"),
    "help": _flag("--help"),
    "?": _flag("--help"),
    "socket": _value("--socket"),
    "zone": _value("--zone"),
    "request_id": _value("--request-id"),
    "dry_run": _flag("--dry-run"),
}
"""New options that old commands take too."""


def is_old(name: str) -> bool:
    """True for a name of the original's, offered or not."""
    return name in OLD_COMMANDS or name in NO_COUNTERPART


def translate(name: str, words: Sequence[str]) -> Translation:
    """The command ``name`` of the original with its arguments, in our words."""
    if name in NO_COUNTERPART:
        raise InputError(f"{name} of the original is not offered", hint=NO_COUNTERPART[name])
    command = OLD_COMMANDS[name]
    made: list[str] = []
    notes: list[str] = []
    columns: dict[str, None] = {}
    positional: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("--") and rest[0] != "--":
        old, value = _next_option(name, command, rest)
        option = _options_of(command)[old]
        if option.refusal:
            raise InputError(f"{name} --{old}: {option.refusal}")
        if option.note:
            notes.append(f"--{old} has no effect: {option.note}")
        elif option.column:
            columns[option.column] = None
        elif option.is_positional:
            positional[old] = _shortened(name, old, option, value)
        elif option.new:
            made.append(option.new if not option.takes_value else _joined(option, value))
    if columns:
        made.append(f"--columns={'all' if 'all' in columns else ','.join(columns)}")
    for new, value in command.defaults:
        rivals = ("--nodes", "--maxnodes") if new == "--nodes" else (new,)
        if not any(each.startswith(f"{rival}=") for each in made for rival in rivals):
            made.append(f"{new}={value}")
    arguments = [positional[each] for each in command.arguments if each in positional]
    return Translation(words=(command.new, *made, *arguments, *rest), notes=tuple(notes))


def _options_of(command: OldCommand) -> Mapping[str, OldOption]:
    return {**_OURS, **command.options}


def _next_option(name: str, command: OldCommand, rest: list[str]) -> tuple[str, str]:
    """Take one option off ``rest`` as getopt did: with ``=`` or a word for the value, and a prefix
    for the name where it is unique. Dashes are as good as underscores.
    """
    written, equals, value = rest.pop(0)[2:].partition("=")
    known = _options_of(command)
    wanted = written.replace("-", "_")
    found = [each for each in known if each == wanted]
    found = found or [each for each in command.options if each.startswith(wanted)]
    if len(found) != 1:
        listed = ", ".join(f"--{each}" for each in command.options) or "none"
        told = "is not unique" if found else "is not known"
        raise InputError(f"{name}: the option --{written[:40]} {told}", hint=f"options: {listed}")
    if not known[found[0]].takes_value:
        if equals:
            raise InputError(f"{name}: the option --{found[0]} takes no value")
        return found[0], ""
    if not equals:
        if not rest:
            raise InputError(f"{name}: the option --{found[0]} needs a value")
        value = rest.pop(0)
    return found[0], value


def _shortened(name: str, old: str, option: OldOption, value: str) -> str:
    """The value without the prefix that says what it is about."""
    if not value.startswith(option.prefix):
        raise InputError(
            f"{name} --{old}: only {option.prefix}... can be set here, not {value[:40]!r}",
            hint=_CONFIGURATION,
        )
    return value.removeprefix(option.prefix)


def _joined(option: OldOption, value: str) -> str:
    """Our option with its value; numbers that the original allowed a fraction lose it."""
    if option.is_count:
        value = str(len(value.split("+")))
    elif option.new in ("--earliest-start", "--latest-end", "--start", "--since", "--until"):
        found = _EPOCH_WITH_FRACTION.fullmatch(value)
        value = found[1] if found else value
    elif option.new == "--duration":
        found = _SECONDS_WITH_FRACTION.fullmatch(value)
        value = found[1] if found else value
    return f"{option.new}={value}"

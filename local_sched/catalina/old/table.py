"""The original's commands as tables: which of ours each is, and what becomes of its options.

Names, options and the meaning of each follow the original's usage texts. Data alone;
``translate.translate`` applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


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
    choices: Mapping[str, str] = field(default_factory=dict)
    """What each value it may have becomes in our words; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldCommand:
    """One of the original's commands."""

    new: str
    options: Mapping[str, OldOption] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    """Options whose values are our arguments, in our order."""
    defaults: tuple[tuple[str, str], ...] = ()
    """What the original took for granted, by our option."""


def value_of(new: str) -> OldOption:
    """An option of ours with a value."""
    return OldOption(new=new)


def flag(new: str = "") -> OldOption:
    """A flag; without one of ours it asks for what is always so."""
    return OldOption(new=new, takes_value=False)


def _column(name: str) -> OldOption:
    return OldOption(column=name, takes_value=False)


def _no_place(why: str, *, takes_value: bool = True) -> OldOption:
    return OldOption(note=why, takes_value=takes_value)


def _refused(why: str) -> OldOption:
    return OldOption(refusal=why)


_ARGUMENT: Final = OldOption(is_positional=True)
_DEBUG: Final = {"debug": flag()}
_NO_CLASSES: Final = "nodes are chosen by features, not by job classes"
_NO_COLUMN: Final = "there is no such column"
_SHOWN: Final = flag()

_REQUEST: Final[Mapping[str, OldOption]] = {
    "account": value_of("--account"),
    "nodes": value_of("--nodes"),
    "maxnodes": value_of("--maxnodes"),
    "duration": value_of("--duration"),
    "earliest_start": value_of("--earliest-start"),
    "latest_end": value_of("--latest-end"),
    "email": value_of("--email"),
    "featurelist": value_of("--features"),
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
    "taskmap": _column("on"),
    "full": _column("all"),
    "queue": value_of("--class"),
    "dump": flag("--json"),
    **{
        name: _no_place(_NO_COLUMN, takes_value=False)
        for name in ("qos", "group", "cpu", "memory", "risk")
    },
}

_SHOW_RES: Final[Mapping[str, OldOption]] = {
    "res": _ARGUMENT,
    "old": flag("--over"),
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
    "nodes": value_of("--nodes"),
    "initiatormap": OldOption(new="--nodes", is_count=True),
    "duration": value_of("--duration"),
    **{
        name: _no_place("an estimate is for the end of the queue, whoever asks")
        for name in ("username", "account", "group", "qos", "local_admin", "submittime", "runID")
    },
    **{name: _no_place(_NO_CLASSES) for name in ("class", "multiclass")},
    **{name: _no_place(_NO_CLASSES) for name in ("Requirements", "Adapter")},
    **_DEBUG,
}

_ACCESS: Final[Mapping[str, OldOption]] = {
    **dict.fromkeys(("user_list", "userlist"), value_of("--users")),
    **dict.fromkeys(("account_list", "accountlist"), value_of("--accounts")),
    **dict.fromkeys(("qos_list", "qoslist"), value_of("--qos")),
    **dict.fromkeys(
        ("group_list", "grouplist"), _refused("there are no groups: name users or accounts")
    ),
    **dict.fromkeys(
        ("job_restriction", "job_restriction_file", "node_restriction", "node_restriction_file"),
        _refused(
            "no code is executed: say who may use it with --users, --accounts, --qos, --limit-max"
        ),
    ),
    **dict.fromkeys(
        ("affinity_calculation", "affinity_calculation_file", "conflict_policy", "maxhops"),
        _refused("nodes of a class are all alike: there is no affinity and no distance"),
    ),
    "comment": _no_place("comments are not kept"),
}
"""Who may use a reservation of the site."""

_SET_RES: Final[Mapping[str, OldOption]] = {
    "start": value_of("--start"),
    "end": value_of("--end"),
    "duration": value_of("--duration"),
    "email": value_of("--email"),
    **dict.fromkeys(("node_list", "nodelist"), _ARGUMENT),
    "mode": OldOption(choices={"real": "", "lookahead": "--dry-run"}),
    **_ACCESS,
    **dict.fromkeys(
        ("amount", "resource_amount", "nodes", "featurelist", "state_list", "statelist"),
        _refused("name the nodes with --node_list; a number of any nodes: create_system_res"),
    ),
}

_CREATE_STANDING: Final[Mapping[str, OldOption]] = {
    "name": value_of("--name"),
    "start_spec": value_of("--start"),
    "duration": value_of("--duration"),
    **dict.fromkeys(("resource_amount", "amount", "nodes"), value_of("--nodes")),
    "depth": value_of("--depth"),
    "tz": value_of("--time-zone"),
    "account": value_of("--account"),
    "featurelist": value_of("--features"),
    "overlap_running": _no_place("an instance is never made over running jobs", takes_value=False),
    "latency": _refused("shortpools are said in the site's configuration: [[shortpools]]"),
    **_ACCESS,
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
            "account": value_of("--account"),
            "earliest_start": value_of("--earliest-start"),
            "featurelist": value_of("--features"),
            "username": _no_place("windows are shown for whoever asks"),
            "classlist": _no_place(_NO_CLASSES),
            **{name: _REQUEST[name] for name in ("nodes", "maxnodes", "duration", "latest_end")},
        },
        defaults=(("--nodes", "1"), ("--duration", "3600")),
    ),
    "show_available": OldCommand(
        new="show-available",
        options={"start_date": value_of("--start"), "account": value_of("--account"), **_DEBUG},
    ),
    "show_resources": OldCommand(new="show-nodes"),
    "show_events": OldCommand(
        new="history",
        options={
            "start": value_of("--since"),
            "end": value_of("--until"),
            "names": _no_place("jobs that are over are shown; reservations: --userres"),
            "userres": flag("--reservations"),
            "archive": _refused("there are no archives to read"),
            "archivedir": _refused("there are no archives to read"),
        },
    ),
    "query_priority": OldCommand(new="priority"),
    "create_system_res": OldCommand(
        new="create-system-res",
        options={name: each for name, each in _REQUEST.items() if name != "account"},
    ),
    "set_res": OldCommand(
        new="reserve-nodes", options=_SET_RES, arguments=("node_list", "nodelist")
    ),
    "create_standing_res": OldCommand(new="create-standing-res", options=_CREATE_STANDING),
    "cancel_standing_res": OldCommand(
        new="cancel-standing-res",
        options=dict.fromkeys(("res", "name"), _ARGUMENT),
        arguments=("res", "name"),
    ),
    "show_standing_res": OldCommand(
        new="show-standing-res",
        options=dict.fromkeys(("full", "readable"), _SHOWN),
    ),
    "set_config": OldCommand(
        new="set-mode",
        options={"key_value": OldOption(is_positional=True, prefix="state:")},
        arguments=("key_value",),
    ),
}
"""By the original's name."""

CONFIGURATION: Final = "it is said in the site's configuration file: docs/site-configuration.md"
_DAEMON: Final = "the agent does this by itself: docs/site-configuration.md"
NO_COUNTERPART: Final[Mapping[str, str]] = {
    "create_res": "for the site: create-system-res, for users: set-res; change with modify-res",
    "show_bf-all": "ask for one shape with show-windows",
    "show_config": CONFIGURATION,
    "update_qos": "the service is chosen at submission: submit --qos",
    "update_preemption": "jobs are not preempted here",
    "update_local_admin": "give a job points of your own with boost-job",
    "update_system_priority": "give a job points of your own with boost-job",
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

"""What an order to a resource manager may say; every refusal names the job and the rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.resource_managers.base import SCRIPT_BYTES_MAX, Launch, NodeDescription

VALID: dict[str, Any] = {"job_id": "j1", "login": "alice", "argv": ("true",)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"job_id": "../up"}, "not a job id"),
        ({"job_id": "a b; rm -rf /"}, "not a job id"),
        ({"job_id": ".hidden"}, "not a job id"),
        ({"job_id": "x" * 129}, "not a job id"),
        ({"job_id": "j1\n"}, "not a job id"),
        ({"login": ""}, "login is empty"),
        ({"argv": ()}, "either a command or a script"),
        ({"script": "true"}, "either a command or a script"),
        ({"argv": (), "script": "#" * (SCRIPT_BYTES_MAX + 1)}, "longer than"),
        ({"argv": ("x",) * 5000}, "arguments"),
        ({"argv": ("a\0b",)}, "the command holds a character"),
        ({"argv": ("\ud800",)}, "the command holds a character"),
        ({"environment": {"A B": "1"}}, "not a name of a variable"),
        ({"environment": {"A": "\0"}}, "the environment holds a character"),
        ({"workdir": Path("relative")}, "must be absolute"),
        ({"stdout_name": "../../etc/passwd"}, "plain file name"),
        ({"stderr_name": ".."}, "plain file name"),
        ({"limit_s": 0}, "no time to run"),
        ({"limit_s": float("nan")}, "no time to run"),
        ({"kill_grace_s": -1.0}, "grace"),
        ({"kill_grace_s": 1e9}, "grace"),
        ({"start_not_before": 100.5, "end": 100}, "ends before it may start"),
    ],
)
def test_a_wrong_order_is_refused_with_its_reason(change: dict[str, Any], words: str) -> None:
    """Bad input is refused where the order is made, before any process or file exists."""
    with pytest.raises(InputError, match=words):
        Launch(**{**VALID, **change})


def test_an_order_does_not_change_with_what_it_was_made_of() -> None:
    """The environment is copied: the order stays what it was when it was checked."""
    environment = {"A": "1"}
    launch = Launch(**VALID, environment=environment)
    environment["A"] = "2"
    assert launch.environment == {"A": "1"}
    assert launch == Launch(**VALID, environment={"A": "1"})


def test_a_node_has_a_name_and_sorted_features() -> None:
    """Features have one order, so that equal nodes are equal."""
    assert NodeDescription(name="n1", features=("big", "gpu")).name == "n1"
    with pytest.raises(InputError):
        NodeDescription(name="")
    with pytest.raises(InputError):
        NodeDescription(name="n1", features=("gpu", "big"))

"""Whole command lines of catalina over a site in memory: what is printed, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.errors import UnavailableError
from tests.support.catalina_scene import NOW, CatalinaScene, a_scene

LONG_ID = "1234567.datastar"


@pytest.fixture
def scene(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CatalinaScene:
    """Four nodes, ada typing."""
    return a_scene(tmp_path, monkeypatch, capsys)


def a_row(job: str = "1.lab", state: str = "QUEUED", **others: Any) -> dict[str, Any]:
    """A job as the site's questions answer it."""
    row = {
        "job": job,
        "name": "flow",
        "owner": "ada",
        "account": "physics",
        "class": "node",
        "nodes": 2,
        "limit_s": 5400,
        "state": state,
        "submitted_at": NOW - 600,
        "started_at": None if state == "QUEUED" else NOW - 300,
        "planned_start": NOW + 900 if state == "QUEUED" else None,
        "ends_by": None if state == "QUEUED" else NOW + 5100,
        "position": 1 if state == "QUEUED" else None,
        "priority": 12.5 if state == "QUEUED" else None,
        "expansion_factor": 1.11,
        "reservations": [],
        "reservations_total": 0,
        "reason": "not enough nodes are free; it has a planned start" if state == "QUEUED" else "",
    }
    return row | others


def a_queue(*rows: dict[str, Any], total: int | None = None) -> dict[str, Any]:
    """The answer to the question ``queue``."""
    return {
        "as_of": NOW,
        "mode": "running",
        "total": len(rows) if total is None else total,
        "jobs": list(rows),
    }


def test_a_reservation_is_set_shown_changed_and_cancelled(scene: CatalinaScene) -> None:
    """The life of one, in the words of the command line; 0 each time."""
    made = scene.run("set-res", "--nodes", "2", "--duration", "1h", "--earliest-start", "+1h")
    assert (made.code, made.err) == (0, "")
    assert made.out.splitlines()[0] == "reservation lab.1  COMMITTED"
    assert "2004-11-09 12:33:20 +00:00 Europe/London" in made.out
    shown = scene.run("show-res")
    assert [line.split()[:5] for line in shown.out.splitlines()[2:]] == [
        ["lab.1", "COMMITTED", "2", "11-09", "12:33"]
    ]
    changed = scene.run("modify-res", "lab.1", "--nodes", "4", "--json")
    assert json.loads(changed.out)["nodes"] == 4
    assert json.loads(changed.out)["start"] == "2004-11-09T12:33:20Z"
    done = scene.run("cancel-res", "lab.1")
    assert (done.code, done.out) == (0, "reservation lab.1 is cancelled\n")
    assert scene.run("show-res").out == "no reservations\n"


SAME_ID = ("--request-id", "mine-1")


@pytest.mark.parametrize(
    "words",
    [
        ["--nodes", "2", "--duration", "1h"],
        ["--nodes", "2", "--duration", "1h", "--earliest-start", "+1h"],
        ["--maxnodes", "9", "--duration", "1h", "--latest-end", "+3h"],
        ["--nodes", "2", "--duration", "1h", "--earliest-start", "tomorrow 07:00"],
        ["--nodes", "2", "--duration", "1h", "--earliest-start", "now", "--latest-end", "+2h"],
    ],
)
def test_the_same_request_again_gets_the_same_answer(
    scene: CatalinaScene, words: list[str]
) -> None:
    """An answer that was lost is asked for again, a second or an hour later, in the same words: it
    names no new reservation, whatever "now" means by then. Other words under that id are refused.
    """
    first = scene.run("set-res", *words, *SAME_ID, "--json")
    assert first.code == 0
    for seconds in (1, 1800):
        scene.pass_time(seconds)
        again = scene.run("set-res", *words, *SAME_ID, "--json")
        assert again.code == 0, again.err
        told = [json.loads(each.out) for each in (first, again)]
        assert [each["reservation"] for each in told] == ["lab.1"] * 2
        assert told[0]["start"] == told[1]["start"]
        assert told[0]["end"] == told[1]["end"]
    assert len(scene.site.calendar.reservations) == 1
    other = scene.run("set-res", "--nodes", "1", "--duration", "1h", *SAME_ID)
    assert other.code == 2
    assert "used for another request" in other.err
    hours = scene.run("set-res", "--nodes", "2", "--duration", "2h", *SAME_ID)
    assert hours.code == 2


def test_the_same_change_again_gets_the_same_answer(scene: CatalinaScene) -> None:
    """Also of modify-res, when the change has been made."""
    scene.run("set-res", "--nodes", "2", "--duration", "1h", "--earliest-start", "+1h")
    words = ["modify-res", "lab.1", "--earliest-start", "+2h", "--duration", "30m", *SAME_ID]
    first = json.loads(scene.run(*words, "--json").out)
    scene.pass_time(60)
    again = scene.run(*words, "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["start"] == first["start"]


def test_the_same_in_the_originals_words(scene: CatalinaScene) -> None:
    """As a subcommand and through a link of that name."""
    words = ["--maxnodes", "9", "--duration", "3600", "--earliest_start", "12:00_11/09/2004"]
    words += ["--latest_end=18:00_11/09/2004", "--account", "physics", "--email", "NONOTIFY"]
    first = scene.run("user_set_res", *words, "--json")
    second = scene.run(*words, "--json", program="user_set_res")
    assert [json.loads(each.out)["nodes"] for each in (first, second)] == [4, 4]
    assert json.loads(second.out)["start"] == "2004-11-09T13:00:00Z"
    assert scene.run("lab.1,lab.2", program="user_cancel_res.py").code == 0


def test_a_refusal_is_exit_code_3_and_teaches(scene: CatalinaScene) -> None:
    """What would pass is said to people and to scripts."""
    scene.run("set-res", "--nodes", "3", "--duration", "1h")
    refused = scene.run("set-res", "--nodes", "2", "--duration", "1h", "--latest-end", "+90m")
    assert (refused.code, refused.err) == (3, "")
    assert refused.out.splitlines()[0].startswith("declined: ")
    assert "it would work from 2004-11-09 12:33:20" in refused.out
    assert "room for 1 node\n" in refused.out
    as_json = scene.run(
        "set-res", "--nodes", "2", "--duration", "1h", "--latest-end", "+90m", "--json"
    )
    assert as_json.code == 3
    assert json.loads(as_json.out)["decline"]["earliest"] == "2004-11-09T12:33:20Z"
    beyond = scene.run("set-res", "--nodes", "1", "--duration", "1h", "--earliest-start", "+1000d")
    assert beyond.code == 3
    assert "must end within" in beyond.out


def test_a_dry_run_changes_nothing(scene: CatalinaScene) -> None:
    """Of a new one, and of a change."""
    said = scene.run("set-res", "--nodes", "2", "--duration", "1h", "--dry-run", "--json")
    assert json.loads(said.out)["dry_run"] is True
    assert json.loads(said.out)["reservation"] is None
    assert scene.site.calendar.live() == []
    scene.run("set-res", "--nodes", "2", "--duration", "1h", "--earliest-start", "+1h")
    said = scene.run("modify-res", "lab.1", "--nodes", "4", "--dry-run")
    assert (said.code, said.out.splitlines()[0]) == (0, "would be granted; nothing was changed")
    assert scene.site.calendar.live()[0].nodes == 2


def test_the_same_request_id_books_once(scene: CatalinaScene) -> None:
    """For scripts that do not know whether their first attempt arrived."""
    words = ["set-res", "--nodes", "2", "--duration", "1h", "--request-id", "once", "--json"]
    words += ["--earliest-start", "@1100001000", "--latest-end", "@1100009000"]
    first, second = (json.loads(scene.run(*words).out) for _ in range(2))
    assert first == second


def test_cancelling_goes_on_past_single_errors(scene: CatalinaScene) -> None:
    """The exit code is that of the errors when they are of one kind, else 1; each is one line."""
    for _ in range(3):
        scene.run("set-res", "--nodes", "1", "--duration", "1h")
    said = scene.run("user_cancel_res", "lab.1,lab.9,lab.2")
    assert said.code == 2
    assert said.out.splitlines() == [f"reservation lab.{n} is cancelled" for n in (1, 2)]
    assert said.err.splitlines()[0] == "catalina: there is no reservation 'lab.9'"
    scene.as_caller("grace")
    said = scene.run("cancel-res", "lab.3", "lab.9", "--json")
    assert said.code == 1
    results = json.loads(said.out)["results"]
    assert [each["error"]["exit_code"] for each in results] == [5, 2]
    assert scene.run("cancel-res", "lab.3").code == 5


def test_others_reservations_are_not_ones_own_to_change(scene: CatalinaScene) -> None:
    """Told apart from those that do not exist."""
    scene.run("set-res", "--nodes", "1", "--duration", "1h", "--earliest-start", "+1h")
    scene.as_caller("grace")
    assert scene.run("modify-res", "lab.1", "--nodes", "2").code == 5
    assert scene.run("modify-res", "lab.2", "--nodes", "2").code == 2


def test_bindings_are_shown_after_each_change(scene: CatalinaScene) -> None:
    """What the site says is bound now, not what was asked for."""
    scene.run("set-res", "--nodes", "1", "--duration", "1h")
    said = scene.run("user_bind_res", "lab.1", "j1,j2")
    assert said.out == "reservation lab.1 is kept for j1, j2\n"
    assert "j1, j2" in scene.run("show-res", "lab.1").out
    assert scene.run("unbind-res", "lab.1", "j1").out == "reservation lab.1 is kept for j2\n"
    assert scene.run("unbind-res", "lab.1", "j2").out == "reservation lab.1 is its owner's again\n"
    assert scene.run("bind-job", "j1", "lab.1").out == "job j1 runs only in lab.1\n"
    assert scene.run("user_unbind_job", "j1", "lab.1").out == "job j1 is in the open queue\n"


def test_windows_of_a_shape(scene: CatalinaScene) -> None:
    """First and last start of each window; the price of a node."""
    scene.run("set-res", "--nodes", "3", "--duration", "1h", "--earliest-start", "+2h")
    said = scene.run("show-windows", "--nodes", "2", "--duration", "1h", "--latest-end", "+10h")
    assert said.code == 0
    assert [line.split()[1] for line in said.out.splitlines()[2:]] == ["11:33", "14:33"]
    assert scene.run("show-windows", "--nodes", "5", "--duration", "1h").code == 3


def test_a_job_is_submitted_followed_and_ended(scene: CatalinaScene, tmp_path: Path) -> None:
    """Options come first; everything from the command on is the job's."""
    said = scene.run("submit", "--limit", "1h", "--env", "A=b", "echo", "--limit", "$A")
    assert (said.code, said.out) == (0, "job job.1  QUEUED\n")
    spec = scene.site.jobs["job.1"].spec
    assert (spec.argv, spec.environment) == (("echo", "--limit", "$A"), (("A", "b"),))
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\necho $1\n")
    said = scene.run("submit", "--limit", "1h", "--script", str(script), "--json")
    assert json.loads(said.out)["name"] == "run.sh"
    assert scene.run("submit", "--nodes", "5", "--limit", "1h", "true").code == 3
    scene.site.output["job.1"] = b"\xffhello\n"
    assert scene.run("del_job", "--job=job.1").out == "job job.1 is cancelled\n"
    said = scene.run("output", "job.1", "--json")
    assert json.loads(said.out)["text"] == "\ufffdhello\n"


def test_deleting_goes_on_past_single_errors(scene: CatalinaScene) -> None:
    """As cancelling does."""
    scene.run("submit", "--limit", "1h", "true")
    said = scene.run("del-job", "job.7,job.1")
    assert said.code == 2
    assert said.out == "job job.1 is cancelled\n"
    assert said.err.startswith("catalina: no job 'job.7'\n")


def test_the_queue_fits_a_terminal(scene: CatalinaScene) -> None:
    """Two tables of at most 80 columns; ids are whole and names are taken literally."""
    scene.answers["queue"] = a_queue(
        a_row(LONG_ID, "RUNNING", owner="a_rather_long_login_name", account="TG-STA040001N"),
        a_row("9" + LONG_ID, owner="[red]ada[/red]", account="x" * 60),
    )
    said = scene.run("show-q")
    assert said.code == 0
    assert max(len(line) for line in said.out.splitlines()) <= 80
    assert LONG_ID in said.out.splitlines()[2]
    assert "".join(said.out.split()).count("[red]") == 1
    assert "lab: 1 job on 2 nodes, times in Europe/London" in said.out
    assert "lab: 1 job waiting, in order" in said.out


def test_filters_of_the_queue_are_the_sites_to_apply(scene: CatalinaScene) -> None:
    """As arguments of the question; those not given are not sent."""
    scene.answers["queue"] = a_queue()
    said = scene.run("show-q", "--user", "ada", "--account", "physics", "--state", "running")
    assert said.out == "lab: no such jobs\n"
    wanted = {"user": "ada", "account": "physics", "state": "running", "limit": "1000"}
    assert scene.asked == [("queue", wanted)]


@pytest.mark.parametrize("name", ["$(id)", "a;b", "x|y", "a b"])
def test_a_user_name_with_shell_characters_asks_nothing(scene: CatalinaScene, name: str) -> None:
    """One line, exit code 2, and the site hears nothing of it."""
    said = scene.run("show-q", "--user", name)
    assert said.code == 2
    assert said.err.startswith(f"catalina: {name!r} is no user name\n")
    assert scene.asked == []


def test_columns_of_ones_own(scene: CatalinaScene) -> None:
    """In the order asked for; the original's flags choose columns too, and all is all."""
    scene.answers["queue"] = a_queue(a_row())
    said = scene.run("show-q", "--columns", "job,priority,wait,start")
    assert said.out.splitlines()[2].split() == ["1.lab", "12.5", "10m", "11-09", "11:48"]
    old = scene.run("show_q", "--job", "--user", "--startt", "--risk")
    assert old.out.splitlines()[1].split() == ["job", "user", "start"]
    assert old.err == "note: --risk has no effect: there is no such column\n"
    everything = scene.run("show_q", "--full")
    assert "1.lab" in everything.out
    assert "it has a planned start" in " ".join(everything.out.split())
    assert scene.run("show-q", "--columns", "colour").code == 2


def test_a_long_queue_is_cut_and_says_so(scene: CatalinaScene) -> None:
    """Beside the table, so that scripts see it in the object."""
    scene.answers["queue"] = a_queue(a_row(), total=1000)
    said = scene.run("show-q", "--limit", "1")
    assert said.err == "note: 999 more; --limit shows more of them\n"
    assert scene.run("show-q", "--limit", "0").code == 2


def test_json_of_the_queue_has_instants_as_texts(scene: CatalinaScene) -> None:
    """Numbers of seconds stay numbers."""
    scene.answers["queue"] = a_queue(a_row())
    (row,) = json.loads(scene.run("show-q", "--json").out)["jobs"]
    assert row["planned_start"] == "2004-11-09T11:48:20Z"
    assert (row["limit_s"], row["started_at"]) == (5400, None)


def test_estimates_backfill_and_reasons(scene: CatalinaScene) -> None:
    """Each question in the site's zone, or in one's own."""
    scene.answers["estimate"] = {"as_of": NOW, "starts": {"thin": NOW + 5400, "fat": None}}
    said = scene.run("estimate", "--nodes", "2", "--zone", "America/Los_Angeles")
    assert said.out == "thin: 2004-11-09 05:03:20 -08:00 America/Los_Angeles  (in 1h30m)\n"
    assert json.loads(scene.run("show_guesstimate", "--nodes=2", "--json").out)["starts"] == {
        "thin": "2004-11-09T13:03:20Z",
        "fat": None,
    }
    scene.answers["estimate"] = {"as_of": NOW, "starts": {"fat": None}}
    assert scene.run("estimate", "--nodes", "99").code == 3
    windows = [{"resource_class": "thin", "nodes": 3, "duration_s": 5400}]
    windows.append({"resource_class": "thin", "nodes": 1, "duration_s": None})
    scene.answers["backfill"] = {"as_of": NOW, "windows": windows}
    assert [line.split() for line in scene.run("show_bf").out.splitlines()[2:]] == [
        ["3", "1h30m", "thin"],
        ["1", "unlimited", "thin"],
    ]
    scene.answers["why"] = {
        "job_id": "1.lab",
        "state": "QUEUED",
        "reason": "not enough nodes are free",
        "planned_start": NOW + 60,
        "is_promised": True,
        "jobs_before": 1,
        "priority_terms": {"resources": 2.5},
    }
    said = scene.run("why", "1.lab")
    assert "its start is promised for 2004-11-09 11:34:20" in said.out
    assert "1 job in line before it" in said.out
    assert json.loads(scene.run("why", "1.lab", "--json").out)["planned_start"].endswith("20Z")


def test_priorities_term_by_term(scene: CatalinaScene) -> None:
    """One job: each term; all: those terms that anybody has."""
    job = {
        "job": "1.lab",
        "class": "node",
        "position": 1,
        "priority": 12.5,
        "terms": {"resources": 12.0, "queue_time": 0.5, "wall_time": 0.0},
    }
    scene.answers["priority"] = {"as_of": NOW, "orders": {}, "total": 1, "jobs": [job]}
    lines = scene.run("priority", "1.lab").out.splitlines()
    assert [line.split()[-1] for line in lines[2:]] == ["12.000", "0.500", "0.000", "12.500"]
    said = scene.run("query_priority")
    assert said.out.splitlines()[1].split() == ["job", "priority", "resources", "queue", "time"]
    job["terms"] = {f"long_name_{n}": 123_456.7 for n in range(6)}
    said = scene.run("priority")
    assert max(len(line.rstrip()) for line in said.out.splitlines()) <= 80
    assert said.out.count("123456.7") == 6
    scene.answers["priority"] = {
        "as_of": NOW,
        "orders": {"node": "fcfs"},
        "total": 0,
        "jobs": [],
    }
    assert "node: fcfs" in scene.run("priority").out


def test_history_and_nodes_and_quota(scene: CatalinaScene) -> None:
    """What is over, what there is, and what is left."""
    over = a_row("5.lab", "FAILED", ended_at=NOW - 60, exit_code=3)
    scene.answers["history"] = {"as_of": NOW, "total": 1, "jobs": [over]}
    said = scene.run("history", "--since", "10:00")
    assert said.out.splitlines()[2].split()[-3:] == ["4m", "FAILED", "3"]
    assert scene.asked[-1][1]["since"] == str(NOW + 80_800)
    scene.answers["nodes"] = {
        "as_of": NOW,
        "mode": "suspended",
        "classes": [
            {"resource_class": "node", "nodes": 4, "busy": 1, "idle": 2, "reserved": 1, "down": 1}
            | {"features": ["fast"]}
        ],
    }
    said = scene.run("show_resources")
    assert "the scheduler is suspended" in said.out
    assert said.out.splitlines()[2].split() == ["node", "4", "1", "2", "1", "1", "fast"]
    scene.answers["quota"] = {
        "as_of": NOW,
        "account": "physics",
        "reservations": 1,
        "reservations_max": 2,
        "nodes_max": None,
        "duration_max_s": 3600,
        "start": NOW,
        "window_s": 86_400,
        "window_node_seconds_max": 115_200,
        "window_node_seconds_left": 100_800,
    }
    said = scene.run("show_available", "--account=physics")
    assert "100800 of 115200 node-seconds are left (1d4h on one node)" in said.out
    assert "1 of 2" in said.out


def test_errors_are_one_line_and_a_hint(scene: CatalinaScene) -> None:
    """Also the parser's; with --json an object as well. Standard output stays clean otherwise."""
    scene.answers["nodes"] = UnavailableError("the site is starting", hint="try again")
    said = scene.run("show-nodes", "--json")
    assert said.code == 4
    assert said.err == "catalina: the site is starting\n  try again\n"
    assert json.loads(said.out)["error"]["exit_code"] == 4
    for words in (["show-q", "--colour"], ["set-res", "--nodes", "two"], ["zz"], ["why"]):
        said = scene.run(*words)
        assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 2)
    said = scene.run("create_res", "--start=1")
    assert said.code == 2
    assert "is not offered" in said.err


def test_without_words_the_help_is_shown(scene: CatalinaScene) -> None:
    """And it is wrong usage; asked for, it is not."""
    assert scene.run().code == 2
    said = scene.run("--help")
    assert said.code == 0
    assert "set-res" in said.out


def test_an_interruption_is_told(scene: CatalinaScene) -> None:
    """130, and where to look: the site may have done what it was asked."""
    scene.answers["nodes"] = KeyboardInterrupt()
    said = scene.run("show-nodes")
    assert said.code == 130
    assert said.err.splitlines()[0] == "catalina: interrupted"

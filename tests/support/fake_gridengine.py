"""A Grid Engine's commands as small programs over one file: what they print is what the real ones
print, copied from 8.1.9; what they decide is counting slots.

In a test, ``FakeGridEngine`` puts programs of the right names into a folder for the PATH. Nothing
starts by itself: a test says when the jobs run. Each program imports this file, thousands of times
in all tests together, so it imports little.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMANDS = ("qrsub", "qrdel", "qrstat", "qsub", "qstat", "qdel")
HEAD = "<?xml version='1.0'?>\n"
PROGRAM = """\
#!/bin/sh
exec {python} -I -S -c 'import sys
sys.path.append(sys.argv[1])
from fake_gridengine import main
main(*sys.argv[2:])' {here} {name} {folder} "$@"
"""
"""An import takes a compiled file where a script is compiled at each start."""


@contextlib.contextmanager
def state_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The batch system's memory; nobody else changes it meanwhile."""
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = folder / "state.json"
        state = json.loads(path.read_text())
        yield state
        path.with_suffix(".new").write_text(json.dumps(state))
        path.with_suffix(".new").replace(path)


class FakeGridEngine:
    """One batch system, as a test sees it."""

    def __init__(self, folder: Path, slots: int = 4) -> None:
        self.folder = folder
        self.slots = slots
        self.bin = self.folder / "bin"
        self.bin.mkdir(parents=True)
        state = {"slots": self.slots, "next": 1, "ars": [], "jobs": [], "is_denied": False}
        (self.folder / "state.json").write_text(json.dumps(state))
        for name in COMMANDS:
            program = self.bin / name
            program.write_text(
                PROGRAM.format(
                    python=sys.executable, here=Path(__file__).parent, name=name, folder=self.folder
                )
            )
            program.chmod(0o755)

    @property
    def path(self) -> str:
        """A PATH with these commands."""
        return f"{self.bin}:/usr/local/bin:/usr/bin:/bin"

    def state(self) -> dict[str, Any]:
        """What it remembers now."""
        with state_of(self.folder) as state:
            return state

    def names(self) -> list[str]:
        """Of the reservations that occupy slots."""
        return [each["name"] for each in self.state()["ars"]]

    def change(self, **values: Any) -> None:
        """Set something, such as ``is_denied``."""
        with state_of(self.folder) as state:
            state.update(values)

    def start_jobs(self) -> None:
        """Take every waiting job out of the queue's state, as if its time had come."""
        with state_of(self.folder) as state:
            for job in state["jobs"]:
                job["state"] = "r"

    def set_clock(self, now: int, *, when_slept: str = "") -> None:
        """From here on the clock of the far end and of its nodes stands, and goes on with what is
        slept; ``when_slept``: what else a shell does then.
        """
        clock = self.folder / "clock"
        clock.write_text(f"{now}\n")
        programs = {
            "date": f"cat {clock}",
            "sleep": f"echo $(($(cat {clock}) + $1)) > {clock}\n{when_slept}",
        }
        for name, text in programs.items():
            (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.bin / name).chmod(0o755)

    @property
    def clock(self) -> int:
        """What a clock that was set says now."""
        return int((self.folder / "clock").read_text())

    def run_jobs(self) -> None:
        """Run every job to its end, and forget it."""
        import subprocess

        self.start_jobs()
        for job in self.state()["jobs"]:
            environment = {"PATH": self.path, "PE_HOSTFILE": str(self.folder / "hosts")}
            (self.folder / "hosts").write_text(f"c1 {job['slots']} all.q@c1 UNDEFINED\n")
            subprocess.run(["/bin/sh", *job["words"]], env=environment, check=False)
        self.change(jobs=[])


def main(command: str, folder: str, *words: str) -> None:
    """Carry out one command, and end with its exit code."""
    with state_of(Path(folder)) as state:
        handler = globals()[f"do_{command}"]
        code: int = handler(state, list(words))
        is_last = code == 0 and state.get("dies_after") == command
        if is_last:
            del state["dies_after"]
    if is_last:
        # The far end's shell goes down with the command: nothing that follows is executed.
        os.killpg(0, signal.SIGKILL)
    sys.exit(code)


def say(text: object) -> None:
    """One line of the answer."""
    sys.stdout.write(f"{text}\n")


def options_of(words: list[str], flags: str = "") -> tuple[dict[str, str], list[str]]:
    """Options with their values, and what follows them. ``flags`` are options without a value."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name = rest.pop(0)
        if name == "-pe":
            found[name] = f"{rest.pop(0)} {rest.pop(0)}"
        else:
            found[name] = "" if name in flags.split() else rest.pop(0)
    return found, rest


def seconds(stamp: str) -> int:
    """``202611211114.23``, in the TZ of the environment."""
    return int(time.mktime(time.strptime(stamp, "%Y%m%d%H%M.%S")))


def iso(moment: int) -> str:
    """As the XML has it, in the TZ of the environment."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))


def free(state: dict[str, Any], start: int, end: int) -> int:
    """Least number of slots that no reservation has, at any moment of the interval."""
    ars = [each for each in state["ars"] if each["start"] < end and start < each["end"]]
    moments = [start, *(each["start"] for each in ars if each["start"] > start)]
    taken = [
        sum(each["slots"] for each in ars if each["start"] <= moment < each["end"])
        for moment in moments
    ]
    availability: int = state["slots"] - max(taken)
    return availability


def do_qrsub(state: dict[str, Any], words: list[str]) -> int:
    """Set a reservation, or try with ``-w v``."""
    options, _ = options_of(words)
    if state["is_denied"]:
        say('denied: "ada" must be manager or in userset "arusers"')
        return 1
    start = seconds(options["-a"])
    if start < time.time():
        say("start time is in the past")
        return 1
    end = start + int(options["-d"])
    least, most = options["-pe"].split()[1].split("-")
    availability = free(state, start, end)
    is_dry = options.get("-w") == "v"
    if availability < int(least):
        if is_dry:
            say(f'Your job cannot run in PE "mpi" because it only offers {availability} slots')
        say("verification: no suitable queues" if is_dry else "no suitable queues")
        return 1
    slots = min(int(most), availability)
    if is_dry:
        say(f"verification: found possible assignment with {slots} slots")
        return 0
    number, state["next"] = state["next"], state["next"] + 1
    state["ars"].append(
        {"id": number, "name": options["-N"], "start": start, "end": end, "slots": slots}
    )
    say(f"Your advance reservation {number} has been granted")
    return 0


def do_qrdel(state: dict[str, Any], words: list[str]) -> int:
    """Delete one by its name, with its jobs."""
    found = [each for each in state["ars"] if words[0] in (each["name"], str(each["id"]))]
    if not found:
        say(f'denied: advance_reservation "{words[0]}" does not exist')
        return 1
    gone = {each["id"] for each in found}
    state["ars"] = [each for each in state["ars"] if each["id"] not in gone]
    state["jobs"] = [each for each in state["jobs"] if each["ar"] not in gone]
    say(f"ada has deleted advance_reservation {found[0]['id']}")
    return 0


def do_qrstat(state: dict[str, Any], words: list[str]) -> int:
    """List, with slots where ids are given."""
    now = time.time()
    state["ars"] = [each for each in state["ars"] if each["end"] > now]
    options, _ = options_of(words, "-xml")
    wanted = options["-ar"].split(",") if "-ar" in options else None
    lines = []
    for each in state["ars"]:
        if wanted is not None and str(each["id"]) not in wanted:
            continue
        slots = f'<granted_slots queue_instance="all.q@c1" slots="{each["slots"]}"/>'
        lines.append(
            f"<ar_summary>\n<id>{each['id']}</id>\n<name>{each['name']}</name>\n<state>w</state>\n"
            f"<start_time>{iso(each['start'])}</start_time>\n"
            f"<end_time>{iso(each['end'])}</end_time>\n"
            + (f"<granted_slots_list>{slots}</granted_slots_list>\n" if wanted else "")
            + "</ar_summary>"
        )
    say(HEAD + "<qrstat>\n" + "\n".join(lines) + "\n</qrstat>")
    return 0


def do_qsub(state: dict[str, Any], words: list[str]) -> int:
    """Queue a job; the script and its words are remembered."""
    options, rest = options_of(words, "-terse")
    number = int(options.get("-ar", 0))
    slots = int(options["-pe"].split()[1])
    found = next((each for each in state["ars"] if each["id"] == number), None)
    if number and found is None:
        say(f"Unable to run job: the advance reservation id {number} is invalid\nExiting.")
        return 1
    if slots > (found["slots"] if found else state["slots"]):
        say("Unable to run job: error: no suitable queues\nExiting.")
        return 1
    job, state["next"] = state["next"], state["next"] + 1
    state["jobs"].append(
        {"id": job, "name": options["-N"], "ar": number, "slots": slots, "words": rest}
        | {"state": "qw", "limit": options["-l"]}
    )
    say(job)
    return 0


def do_qstat(state: dict[str, Any], words: list[str]) -> int:
    """Jobs, or with ``-g c`` what there is."""
    if "-g" in words:
        say(
            f"{HEAD}<job_info><cluster_queue_summary><name>all.q</name>"
            f"<total>{state['slots']}</total></cluster_queue_summary></job_info>"
        )
        return 0
    jobs = "\n".join(
        f"<job_list>\n<JB_job_number>{each['id']}</JB_job_number>\n"
        f"<JB_name>{each['name']}</JB_name>\n<state>{each['state']}</state>\n</job_list>"
        for each in state["jobs"]
    )
    say(f"{HEAD}<job_info>\n<job_info>\n{jobs}\n</job_info>\n</job_info>")
    return 0


def do_qdel(state: dict[str, Any], words: list[str]) -> int:
    """Take a job away."""
    if words[0] not in [str(each["id"]) for each in state["jobs"]]:
        say(f'denied: job "{words[0]}" does not exist')
        return 1
    state["jobs"] = [each for each in state["jobs"] if str(each["id"]) != words[0]]
    say(f"ada has deleted job {words[0]}")
    return 0

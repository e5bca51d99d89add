"""Check the protocol for trips with the model checker SPIN, and its safeguards by taking them away.

Every configuration of docs/model is searched completely, shortest trails first, in a temporary
folder: without switches nothing may be found; with a safeguard taken away damage must be found, or
the checks check nothing; and both ends of a trip must be reachable. Exit code 1: a surprise, shown
with its trail; 2: the tools are missing.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODELS: Final = Path(__file__).resolve().parent.parent / "docs" / "model"
COMPILE: Final = ("gcc", "-O1", "-DSAFETY", "-DNOREDUCE", "-DBFS", "-DMEMLIM=3500")
"""Safety only, breadth first; all variables are shared, so that partial orders save nothing. At
most 3500 MB."""
NICENESS: Final = 10
SEARCH_LIMIT_S: Final = 600
"""Of processor time for each program, where a search needs some ten: a machine may be as busy as it
likes."""
SEARCHES_AT_ONCE: Final = min(2, os.cpu_count() or 1)
"""Each takes up to half a gigabyte."""
TRAIL_LINES_MAX: Final = 120
STATES_LOG2: Final = 22
"""Slots of the hash table: several million states without much searching."""

NOTHING: Final = "nothing"
DAMAGE: Final = "damage"
REACHED: Final = "reached"
"""A falsehood on purpose, "this never happens": the state is shown to be reachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One model with at most one switch, and what the checker must find."""

    model: str
    switch: str = ""
    expected: str = NOTHING

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.model} {self.switch}".rstrip()

    @property
    def file(self) -> str:
        """In the temporary folder: the checker writes a trail beside what it has read."""
        return f"{self.model}.pml"

    @property
    def defines(self) -> list[str]:
        """The preprocessor's arguments."""
        return [f"-D{self.switch}"] if self.switch else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a search found."""

    has_error: bool
    is_complete: bool
    """Every reachable state was seen; only without an error."""
    states: int
    seconds: str
    """Of the search alone, as the checker measured it."""


SWITCHES: Final = {
    "trip": {
        NOTHING: "OUTSIDER FORGETFUL STRANGER LYING_PARTY LYING_TRAVELLER",
        DAMAGE: "NO_PROMISES BLIND_DOUBT HASTY_RELEASE LONE_EXPIRY EAGER_COMMIT EARLY_COMMIT"
        " REUSED_BALLOT HOLD_AFTER_VOTE LATE_PROPOSAL REUSED_NAME ANYBODY_VOTES LYING_ACCEPTOR",
        REACHED: "CAN_BOOK CAN_ABORT CAN_CARRY_ON",
    },
    "cancel": {
        NOTHING: "WITHDRAWAL LYING_PARTY",
        DAMAGE: "ONLY_LEARN LONE_START HASTY_RELEASE FORGETFUL_WITHDRAWAL SILENT_WITHDRAWAL"
        " EARLY_SETTLE ANYBODY_VOTES",
        REACHED: "CAN_CANCEL CAN_RUN CAN_WITHDRAW",
    },
    "begin": {
        NOTHING: "EACH LYING_PARTY LYING_EACH",
        DAMAGE: "LONE_START ASK_NOT_AFTER_RESTART READY_BY_HEARSAY LATE_READY READY_WHEN_HELD"
        " SILENT_START SILENT_WITHDRAWAL FORGETFUL_WITHDRAWAL CUT_OFF_EACH",
        REACHED: "CAN_BEGIN CAN_STAY CAN_CATCH_UP",
    },
    "change": {
        DAMAGE: "ASK_TOO_SOON HASTY_CALL BREAK_FIRST LONE_EXPIRY",
        REACHED: "CAN_CHANGE CAN_STAY CAN_FOLLOW",
    },
}
"""By model, and by what must be found; a model without a switch comes first and finds nothing."""


def configurations() -> list[Configuration]:
    """All of them, in the order of docs/protocol.md."""
    found = []
    for model, expectations in SWITCHES.items():
        found.append(Configuration(model=model))
        for expected, switches in expectations.items():
            found += [
                Configuration(model=model, switch=each, expected=expected)
                for each in switches.split()
            ]
    return found


def check_tools() -> None:
    """Exit with 2 when a program that is needed is not installed."""
    packages = [each for each in ("spin", "gcc") if shutil.which(each) is None]
    if "gcc" in packages:
        packages.append("libc6-dev")
    if packages:
        print(
            "make check-model: it needs the model checker SPIN and a C compiler.\n"
            f"On Debian and Ubuntu: apt install {' '.join(packages)}",
            file=sys.stderr,
        )
        sys.exit(2)


def run(command: list[str], folder: Path) -> str:
    """What a program says; exit with 1 and with its words when it fails or takes too long."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode == -signal.SIGXCPU:
        sys.exit(f"{' '.join(command)}: not done after {SEARCH_LIMIT_S} s of processor time")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def number(pattern: str, text: str) -> str:
    """The number that the checker's summary gives; exit with 1 when there is none."""
    match = re.search(pattern, text)
    if match is None:
        sys.exit(f"the checker's answer cannot be read:\n{text}")
    return match[1]


def search(configuration: Configuration, folder: Path) -> Finding:
    """Generate, compile and run one search in an empty folder."""
    shutil.copytree(MODELS, folder, dirs_exist_ok=True)
    run(["spin", "-a", *configuration.defines, configuration.file], folder)
    run([*COMPILE, "-o", "pan", "pan.c"], folder)
    said = run(["./pan", f"-w{STATES_LOG2}"], folder)
    return Finding(
        has_error=number(r"errors: (\d+)", said) != "0",
        is_complete="Search not completed" not in said and "too small" not in said,
        states=int(float(number(r"([\d.e+]+) states, stored", said))),
        seconds=number(r"elapsed time ([\d.e+-]+) seconds", said),
    )


def trail_of(configuration: Configuration, folder: Path) -> str:
    """The steps that lead to an error."""
    command = ["spin", "-t", "-p", *configuration.defines, configuration.file]
    return "\n".join(run(command, folder).splitlines()[:TRAIL_LINES_MAX])


def is_expected(configuration: Configuration, finding: Finding) -> bool:
    """True when the model behaves as it should."""
    if configuration.expected == NOTHING:
        return finding.is_complete and not finding.has_error
    return finding.has_error


def word_for(configuration: Configuration, finding: Finding) -> str:
    """What was found, for the table."""
    if finding.has_error:
        return DAMAGE if configuration.expected == NOTHING else configuration.expected
    return NOTHING if finding.is_complete else "unfinished"


def examine(configuration: Configuration) -> tuple[Finding, str]:
    """What one search found, and the trail to an error that nobody expected."""
    with tempfile.TemporaryDirectory() as name:
        finding = search(configuration, Path(name))
        if finding.has_error and not is_expected(configuration, finding):
            return finding, trail_of(configuration, Path(name))
        return finding, ""


def main() -> None:
    """Search every configuration and print the table."""
    check_tools()
    os.nice(NICENESS)
    # Inherited by each program; this one waits.
    resource.setrlimit(resource.RLIMIT_CPU, (SEARCH_LIMIT_S, SEARCH_LIMIT_S + 1))
    surprises = 0
    print(f"{'configuration':<28} {'expected':<9} {'found':<10} {'states':>9} {'seconds':>8}")
    with ThreadPoolExecutor(SEARCHES_AT_ONCE) as workers:
        todo = configurations()
        for configuration, (finding, trail) in zip(todo, workers.map(examine, todo), strict=True):
            found = word_for(configuration, finding)
            print(
                f"{configuration.name:<28} {configuration.expected:<9} {found:<10}"
                f" {finding.states:>9} {finding.seconds:>8}",
                flush=True,
            )
            if not is_expected(configuration, finding):
                surprises += 1
                print(f"  *** not what was expected\n{trail}")
    if surprises:
        sys.exit(1)


if __name__ == "__main__":
    main()

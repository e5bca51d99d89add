"""What every test shares: the Hypothesis profiles and the options `make` passes on.

The default profile is modest and derandomised, so that a red run means a change and not bad luck,
on any machine. `HYPOTHESIS_PROFILE=thorough` searches longer and from a new seed each time; a
failure it finds is printed with the decorator that replays it, and belongs in the suite as a named
test.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.sshd_world import SshUser

# No deadline: two cores are shared, and one slow example says nothing about a rule.
settings.register_profile(
    "ci",
    max_examples=60,
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough",
    parent=settings.get_profile("ci"),
    derandomize=False,
    max_examples=2000,
    stateful_step_count=80,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of `make sim SEED=...` and `make oracles`."""
    group = parser.getgroup("grid")
    group.addoption(
        "--sim-seed",
        type=int,
        default=None,
        help="run the seeded worlds of tests/sim from this one seed",
    )
    group.addoption(
        "--oracle-all",
        action="store_true",
        default=False,
        help="compare all that tests/oracles keeps, not the sample that the suite looks at",
    )
    group.addoption(
        "--oracle-update",
        action="store_true",
        default=False,
        help="rewrite what tests/oracles keeps, all of it or the part that -k names",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin every process of a test with Ctrl-C and hanging up as a terminal has them, though these
    tests were started with both ignored, as ``nohup`` and a script's background do.

    What is ignored stays so in every child; what is handled is not, and a handler that does nothing
    is as good as ignoring. The process that only hands tests out to workers leaves it to them.
    """
    if getattr(config.option, "dist", "no") == "no":
        for number in (signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, lambda *_: None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, once each, what could not be tested here: a skipped test is easily missed."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = [
        each.longrepr[2].removeprefix("Skipped: ")
        for each in reports
        if isinstance(each.longrepr, tuple)
    ]
    for reason in dict.fromkeys(reasons):
        terminalreporter.write_line(f"{reasons.count(reason)} skipped: {reason}", yellow=True)


@pytest.fixture(scope="session")
def ssh_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshUser]:
    """A user of one real SSH server for all tests that only log in there."""
    from tests.support.sshd_world import Sshd, SshUser

    folder = tmp_path_factory.mktemp("ssh")
    sshd = Sshd(folder / "sshd")
    sshd.start()
    try:
        yield SshUser(folder / "laptop", sshd)
    finally:
        sshd.kill()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for `sim_seed` the seed of the command line, or a small sample."""
    if "sim_seed" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--sim-seed")
        seeds = [chosen] if chosen is not None else [1, 2, 3]
        metafunc.parametrize("sim_seed", seeds)

"""What ``gurd check-config`` calls good starts: real commands, real daemons."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.daemon_folders import DaemonFolder, a_daemon_folder
from tests.support.ports import free_ports

pytestmark = pytest.mark.integration
GURD = (sys.executable, "-m", "gridtravel.gurd.cli")


def gurd(*words: str) -> subprocess.CompletedProcess[str]:
    """One command, to its end."""
    return subprocess.run([*GURD, *words], capture_output=True, text=True, timeout=120, check=False)


@contextmanager
def serving(folder: DaemonFolder) -> Iterator[str]:
    """The daemon, from the line that says where it serves."""
    with (
        (folder.root / "log").open("w") as log,
        subprocess.Popen(
            [*GURD, folder.kind, "--exit-with-parent", "--config", str(folder.config)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()
            process.wait(60)


def in_many_words(folder: DaemonFolder) -> None:
    """A site that uses what there is."""
    (folder.root / "run").mkdir()
    folder.say("[site]", 'listen = "localhost:0"\nsocket = "run/a.sock"\nsocket_group = "root"')
    folder.say("[site]", 'state = "deep/in/state"\ntime_zone = "Europe/Berlin"')
    folder.say("[hooks]", 'prologue = ["/bin/true", "x"]\nepilogue = ["/bin/true"]')
    folder.say("[notify]", 'command = ["/bin/cat"]')
    night = 'name = "night"\nstart = "0 2 29 2 *"\nduration_s = 60\nnodes = 16'
    folder.say("[[standing]]", night)


def with_a_parent(folder: DaemonFolder) -> None:
    """A manager below another, on a port of its own."""
    port = free_ports(1)
    folder.say("[manager]", f'listen = "0.0.0.0:{port}"\nstate = "d/s"')
    folder.say("[parent]", f'name = "top"\nendpoint = "top.invalid:{port}"')


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("agent", None),
        ("agent", in_many_words),
        ("manager", None),
        ("manager", with_a_parent),
    ],
)
def test_what_is_called_good_starts(tmp_path: Path, kind: str, more: object) -> None:
    """Before, while and after it serves; a second daemon is refused for the state folder alone."""
    folder = a_daemon_folder(tmp_path, kind)
    if callable(more):
        more(folder)
    before = gurd("check-config", str(folder.config))
    assert (before.returncode, before.stderr) == (0, "")
    assert not (tmp_path / "state").exists()
    with serving(folder) as ready:
        assert ready.startswith("ready "), (tmp_path / "log").read_text()
        meanwhile = gurd("check-config", str(folder.config))
        assert meanwhile.returncode == 0, meanwhile
        assert meanwhile.stderr.startswith("note: a daemon serves with")
        second = gurd(kind, "--config", str(folder.config))
        assert second.returncode != 0
        assert "is in use by process" in second.stderr
    after = gurd("check-config", str(folder.config))
    assert (after.returncode, after.stderr) == (0, "")


def test_a_mistake_ends_the_real_commands(tmp_path: Path) -> None:
    """Two lines each, the same ones, and the exit code of wrong usage."""
    folder = a_daemon_folder(tmp_path, "agent")
    folder.say("[site]", 'socket = "gone/a.sock"')
    checked = gurd("check-config", str(folder.config))
    started = gurd("agent", "--config", str(folder.config))
    assert checked.returncode == started.returncode == 2
    assert checked.stderr == started.stderr
    assert len(checked.stderr.splitlines()) == 2

"""The wheel, installed beside other people's packages, without the checkout in reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shared_data import CHECKOUT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FOREIGN = "agents"
"""A name that a widely used package installs at the top level."""


def run(folder: Path, *words: str, paths: tuple[Path, ...] = ()) -> str:
    """What a command prints that is run in ``folder`` and finds ``paths`` before anything else."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel was unpacked into."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "tests", "docs", "build", "*.egg-info")
    shutil.copytree(CHECKOUT, source, symlinks=True, ignore=left_out)
    pip = ("-m", "pip", "--quiet", "--no-cache-dir")
    run(
        folder,
        *pip,
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(source),
    )
    (wheel,) = folder.glob("gridtravel-*.whl")
    run(folder, *pip, "install", "--no-deps", "--target", str(folder / "site"), str(wheel))
    return folder / "site"


def test_the_wheel_installs_one_name_and_the_protocol(installed: Path) -> None:
    """Nothing but gridtravel and gridwire stands beside other people's packages."""
    names = {each.name for each in installed.iterdir() if not each.name.endswith(".dist-info")}
    assert names == {"gridtravel", "gridwire", "bin"}
    assert not any(each.is_symlink() for each in (installed / "gridtravel").iterdir())
    assert (installed / "gridtravel" / "py.typed").exists()


def test_a_foreign_package_of_the_same_name_is_left_alone(installed: Path, tmp_path: Path) -> None:
    """Both `agents` are imported in one process, each as itself."""
    foreign = tmp_path / "foreign" / FOREIGN
    foreign.mkdir(parents=True)
    (foreign / "__init__.py").write_text("WHOSE = 'theirs'\n")
    told = run(
        tmp_path,
        "-c",
        "import agents, gridtravel.agents.daemon as ours\nprint(agents.WHOSE, ours.__file__)",
        paths=(tmp_path / "foreign", installed),
    )
    whose, file = told.split()
    assert whose == "theirs"
    assert Path(file).is_relative_to(installed)


def test_an_installed_gur_finds_its_data(installed: Path, tmp_path: Path) -> None:
    """Examples and shell parts of batch systems travel in the wheel."""
    entry = "from gridtravel.travel_agent.cli.entry import main; main()"
    assert "[notifications]" in run(tmp_path, "-c", entry, "init", "multiple", paths=(installed,))
    package = installed / "gridtravel"
    for name in ("gridio/batch/common.sh", "travel_agent/demo/pictures/scene.json"):
        assert (package / name).is_file(), name

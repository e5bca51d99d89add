"""What every command prints with ``--json`` is what it always printed."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from gridtravel.local_sched.catalina.main import app as catalina_app
from tests.oracles import catalina_story, gur_story, other_stories
from tests.oracles.frozen_files import FOLDER, Frozen
from tests.oracles.grid_scene import BY_PRIORITY, open_scene
from tests.oracles.other_stories import APPS
from tests.oracles.transcripts import MASKS, Transcript, commands_in, commands_with_json

GUR, CATALINA, OTHERS = "json_of_gur.txt", "json_of_catalina.txt", "json_of_others.txt"


def test_gur(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: Frozen) -> None:
    """A user's days on a small grid in virtual time."""
    transcript = Transcript(tmp_path)
    with open_scene(tmp_path, monkeypatch) as scene:
        gur_story.tell(scene, transcript)
    frozen.text(GUR, transcript.text())


def test_catalina(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: Frozen) -> None:
    """Users and an administrator of one site."""
    transcript = Transcript(tmp_path)
    with open_scene(tmp_path, monkeypatch, BY_PRIORITY) as scene:
        catalina_story.tell(scene, transcript)
    frozen.text(CATALINA, transcript.text())


@pytest.mark.usefixtures("silent")
def test_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: Frozen) -> None:
    """Certificates, the laboratory, and what real processes came to."""
    transcript = Transcript(tmp_path)
    with open_scene(tmp_path, monkeypatch):
        other_stories.tell_of_certificates(tmp_path, transcript)
    monkeypatch.undo()
    other_stories.tell_of_the_laboratory(tmp_path, transcript, monkeypatch)
    other_stories.tell_of_real_processes(transcript, monkeypatch)
    frozen.text(OTHERS, transcript.text())


def test_every_command_with_json_is_kept() -> None:
    """A new command, or one that learns ``--json``, comes with its place in a story."""
    there = [
        command
        for program, app in {**APPS, "catalina": catalina_app}.items()
        for command in commands_with_json(program, typer.main.get_command(app))
    ]
    kept = {
        command
        for name in (GUR, CATALINA, OTHERS)
        for command in commands_in((FOLDER / name).read_text("utf-8"), there)
    }
    assert len(there) > 50, "the parsers' trees are walked"
    assert sorted(set(there) - kept) == []
    assert set(MASKS) <= set(there), "nothing is masked that is not there"

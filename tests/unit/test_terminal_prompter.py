"""What a person at a terminal is asked on behalf of an SSH server."""

from __future__ import annotations

import getpass
import io

import pytest

from gridtravel.gridio.ssh.prompting import Prompt, PromptField
from gridtravel.travel_agent.cli.prompter import TerminalPrompter, at_terminal

WHO = "ada@lab:22"


def test_questions_are_marked_with_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line says who asks, so that one server cannot ask for another one's password; secrets
    are read without showing them.
    """
    asked: list[str] = []

    def hidden(text: str, stream: object) -> str:
        asked.append(text)
        return "secret"

    monkeypatch.setattr(getpass, "getpass", hidden)
    sink = io.StringIO()
    answers = TerminalPrompter(io.StringIO("ada\n"), sink)(
        Prompt(
            who=WHO,
            text="Second factor",
            fields=(PromptField(text="Name: ", is_secret=False), PromptField(text="Code: ")),
        )
    )
    assert answers == ["ada", "secret"]
    assert sink.getvalue() == f"({WHO}) Second factor\n({WHO}) Name: "
    assert asked == [f"({WHO}) Code: "]


def test_end_of_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-D is no empty answer."""
    prompter = TerminalPrompter(io.StringIO(""), io.StringIO())
    with pytest.raises(EOFError):
        prompter(Prompt(who=WHO, fields=(PromptField(text="Name: ", is_secret=False),)))


def test_nobody_is_asked_in_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal there is no prompter, and logins get keys alone."""
    monkeypatch.setattr("sys.stdin", io.StringIO("not a terminal"))
    assert at_terminal() is None

"""What SSH servers ask people: codes after keys, passwords; and what a server may not do with it.

The server is scripted, so these run where OpenSSH's is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.sites.connections import IdentityNotProvenError
from gridtravel.gridio.ssh.login import Login
from gridtravel.gridio.ssh.prompting import Prompt, Prompter
from gridtravel.gridio.ssh.ssh_site import SshSite
from gridtravel.gridio.ssh.target import SshTarget
from gridtravel.gridio.system.clock import SystemClock
from tests.support.fake_services import FakeSite
from tests.support.scripted_ssh_server import Script, ScriptedSshServer
from tests.support.ssh_scenes import identify_login

pytestmark = pytest.mark.integration


class Person:
    """Somebody at a terminal who types what a test says."""

    def __init__(self, *words: str) -> None:
        self.left = list(words)
        self.seen: list[Prompt] = []

    def __call__(self, prompt: Prompt) -> list[str]:
        self.seen.append(prompt)
        if prompt.fields and not self.left:
            raise EOFError
        return [self.left.pop(0) for _ in prompt.fields]


@pytest.fixture
def script() -> Script:
    """What the server does; a test changes it before it logs in."""
    return Script()


@pytest.fixture
def config(tmp_path: Path, script: Script) -> Iterator[Path]:
    """The configuration of a user of the scripted server, whose key it takes."""
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedSshServer(tmp_path, script))
        path, script.key = server.user_files(tmp_path)
        yield path


def logged_in(config: Path, prompter: Prompter | None = None) -> bool:
    """Log in and out."""
    login = Login(SshTarget.parse("far"), config=config, prompter=prompter)
    try:
        login.connect()
        return login.is_alive
    finally:
        login.close()


def refused(config: Path, prompter: Prompter | None = None) -> GridError:
    """What a login fails with."""
    with pytest.raises(GridError) as caught:
        logged_in(config, prompter)
    return caught.value


def test_key_alone_asks_nobody(config: Path) -> None:
    """Where a key is enough there is no question."""
    person = Person()
    assert logged_in(config, person)
    assert person.seen == []


def test_code_after_the_key(config: Path, script: Script) -> None:
    """A second proof is asked for with the server's words, marked with the login they come from."""
    script.after_key = "keyboard-interactive"
    script.title, script.instructions = "Second factor", "Look at your token"
    script.questions = (("Code: ", False), ("Name: ", True))
    script.answers = ("123456", "ada")
    person = Person("123456", "ada")
    assert logged_in(config, person)
    (prompt,) = person.seen
    assert prompt.text == "Second factor\nLook at your token"
    assert [(each.text, each.is_secret) for each in prompt.fields] == [
        ("Code: ", True),
        ("Name: ", False),
    ]
    assert prompt.who.startswith("ada@127.0.0.1:")


def test_something_to_read_and_nothing_to_type(config: Path, script: Script) -> None:
    """ "Look at your telephone" is shown, and answered with nothing."""
    script.after_key = "keyboard-interactive"
    script.instructions = "Look at your telephone"
    person = Person()
    assert logged_in(config, person)
    assert [(each.text, each.fields) for each in person.seen] == [("Look at your telephone", ())]


def test_wrong_code(config: Path, script: Script) -> None:
    """A wrong answer is a refused login, with what was tried."""
    script.after_key = "keyboard-interactive"
    script.questions, script.answers = (("Code: ", False),), ("123456",)
    fault = refused(config, Person("654321"))
    assert isinstance(fault, IdentityNotProvenError)
    assert "was taken" in fault.message
    assert "answers were refused" in fault.message


def test_nobody_at_a_terminal(config: Path, script: Script) -> None:
    """Without somebody to ask it fails at once and says what is missing."""
    script.after_key = "keyboard-interactive"
    script.questions = (("Code: ", False),)
    assert "keyboard-interactive needs somebody at a terminal" in refused(config).message


def test_user_who_gives_up(config: Path, script: Script) -> None:
    """Ctrl-D at a question ends the login, without a traceback."""
    script.allowed, script.password, script.key = "password", "right", b""
    assert isinstance(refused(config, Person()), UnavailableError)


def test_password(config: Path, script: Script) -> None:
    """A password may be mistyped; the key is tried first where keys are taken."""
    script.allowed, script.password, script.key = "publickey,password", "right", b""
    person = Person("wrong", "right")
    assert logged_in(config, person)
    assert script.asked == ["publickey", "password", "password"]
    assert all(field.is_secret for prompt in person.seen for field in prompt.fields)


def test_password_is_sent_three_times_at_most(config: Path, script: Script) -> None:
    """Then the login is refused."""
    script.allowed, script.password, script.key = "password", "right", b""
    assert "the password was refused" in refused(config, Person("a", "b", "c", "d")).message
    assert script.asked == ["password"] * 3


def test_words_that_a_terminal_would_obey(config: Path, script: Script) -> None:
    """A server cannot move the cursor or fake another program's question."""
    script.after_key = "keyboard-interactive"
    script.instructions = "\x1b[2J\x07hello\n" + "x" * 10_000
    script.questions, script.answers = (("\x1b]0;Passphrase: ", False),), ("1",)
    person = Person("1")
    assert logged_in(config, person)
    (prompt,) = person.seen
    assert "\x1b" not in prompt.text + prompt.fields[0].text
    assert len(prompt.text) <= 2_000


async def test_whole_way_without_openssh(config: Path, script: Script, tmp_path: Path) -> None:
    """The calls go through a login and the real bridge to the site's local socket."""
    site = FakeSite(SystemClock(), tmp_path)
    local = LocalSocket(path=tmp_path / "front.sock")
    script.agent_socket = str(local.path)
    async with GridServer(site, identify_login, local=local, site="lab"):
        connection = SshSite("far", config=config, site="lab")
        assert (await connection.calendar.describe()).site == "lab"
        assert (await connection.site.query("echo", {"a": "1"})) is not None
        await connection.close()

"""Where a login leads: what the user wrote, completed from the user's SSH configuration."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.ssh import bridge
from gridtravel.gridio.ssh.far_end import bridge_command
from gridtravel.gridio.ssh.login import route
from gridtravel.gridio.ssh.target import CONNECT_TIMEOUT_S, Hop, SshTarget, resolve


def resolved(folder: Path, config: str, login: str = "lab") -> Hop:
    """``login`` completed from a configuration with this text."""
    path = folder / "config"
    path.write_text(config)
    return resolve(SshTarget.parse(login), path)


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("lab", "", "lab", 0),
        ("ada@lab.example.org", "ada", "lab.example.org", 0),
        ("ada@lab:2222", "ada", "lab", 2222),
        ("[::1]:2222", "", "::1", 2222),
        ("ada@[fe80::1%eth0]", "ada", "fe80::1%eth0", 0),
        ("ada@realm@lab", "ada@realm", "lab", 0),
        ("ssh://ada@lab:22", "ada", "lab", 22),
    ],
)
def test_login_as_written(text: str, user: str, host: str, port: int) -> None:
    """Every form that ssh itself takes."""
    assert SshTarget.parse(text) == SshTarget(user=user, host=host, port=port)


@pytest.mark.parametrize(
    "text", ["", "@lab", "ada@", "lab:", "lab:x", "lab:0", "lab:65536", "-oProxyCommand=x", "a b"]
)
def test_no_login(text: str) -> None:
    """Anything else is refused, above all what ssh would read as an option."""
    with pytest.raises(InputError, match="no SSH login"):
        SshTarget.parse(text)


def test_configuration_completes(tmp_path: Path) -> None:
    """Name, port, user, keys and files come from the first block that matches."""
    hop = resolved(
        tmp_path,
        f"""
        Host lab
            HostName login.example.org
            Port 2222
            User ada
            IdentityFile {tmp_path}/%r_key
            IdentitiesOnly yes
            UserKnownHostsFile {tmp_path}/hosts /other/hosts
            GlobalKnownHostsFile none
            ConnectTimeout 3
            HostKeyAlias the-lab
        Host *
            Port 22
            ProxyJump none
        """,
    )
    assert hop.address == "ada@login.example.org:2222"
    assert hop.identity_files == (tmp_path / "ada_key",)
    assert hop.identities_only
    assert hop.known_hosts[:2] == (tmp_path / "hosts", Path("/other/hosts"))
    assert (hop.connect_timeout_s, hop.key_name, hop.jumps) == (3, "the-lab", ())


def test_what_the_user_says_counts_more(tmp_path: Path) -> None:
    """User and port of the login win over the file, in its proxy command too."""
    hop = resolved(
        tmp_path,
        "Host lab\n  User bob\n  Port 2222\n  ProxyCommand nc -l %r %h %p\n",
        "ada@lab:22",
    )
    assert hop.address == "ada@lab:22"
    assert hop.proxy_command == "nc -l ada lab 22"


def test_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word in the file it is what OpenSSH would do."""
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    hop = resolved(tmp_path, "", "ada@lab")
    assert (hop.host, hop.port, hop.connect_timeout_s) == ("lab", 22, CONNECT_TIMEOUT_S)
    assert [each.name for each in hop.identity_files] == ["id_ed25519", "id_ecdsa", "id_rsa"]
    assert hop.known_hosts[0] == Path("~/.ssh/known_hosts").expanduser()
    assert hop.agent_socket == "/run/agent"
    assert not hop.has_own_identities


@pytest.mark.parametrize(
    ("wish", "socket"),
    [("none", ""), ("SSH_AUTH_SOCK", "/run/agent"), ("/run/other", "/run/other")],
)
def test_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: str, socket: str) -> None:
    """IdentityAgent names another agent, or none."""
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    assert resolved(tmp_path, f"Host *\n IdentityAgent {wish}\n").agent_socket == socket


def test_included_files(tmp_path: Path) -> None:
    """Include reads other files, by pattern, relative to the configuration's folder."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "1").write_text("Host lab\n  User ada\n")
    assert resolved(tmp_path, "Include conf.d/*\nHost *\n  User bob\n").user == "ada"


def test_files_that_include_each_other(tmp_path: Path) -> None:
    """A circle is a mistake of the user's, and no endless loop."""
    with pytest.raises(InputError, match="include each other"):
        resolved(tmp_path, "Include config\n")


@pytest.mark.parametrize("text", ["Host lab\n  Port many\n", "nonsense\n"])
def test_broken_configuration(tmp_path: Path, text: str) -> None:
    """A file that cannot be right is named."""
    with pytest.raises(InputError, match=str(tmp_path / "config")):
        resolved(tmp_path, text)


def test_missing_configuration(tmp_path: Path) -> None:
    """A file that was named must be there."""
    with pytest.raises(InputError, match="no SSH configuration"):
        resolve(SshTarget.parse("lab"), tmp_path / "missing")


def test_route_through_jump_hosts(tmp_path: Path) -> None:
    """The first jump host's own jump host counts, that of the others does not."""
    path = tmp_path / "config"
    path.write_text(
        "Host lab\n  ProxyJump gate,bob@inner:2222\n"
        "Host gate\n  ProxyJump outer\n"
        "Host inner\n  ProxyJump ignored\n"
        "Host *\n  User ada\n"
    )
    hops = route(SshTarget.parse("lab"), path)
    assert [hop.address for hop in hops] == [
        "ada@outer:22",
        "ada@gate:22",
        "bob@inner:2222",
        "ada@lab:22",
    ]


def test_route_in_a_circle(tmp_path: Path) -> None:
    """Jump hosts that lead to each other are a mistake of the user's."""
    path = tmp_path / "config"
    path.write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    with pytest.raises(InputError, match="circle"):
        route(SshTarget.parse("a"), path)


@pytest.mark.parametrize(
    "path", ["relative", "/a b", "/a'b", "/$(id)", "/a;b", "/a!b", "/" + "x" * 107]
)
def test_sockets_that_a_shell_would_read(path: str) -> None:
    """What goes into a command line at the far end is nothing that any shell has a meaning for."""
    with pytest.raises(InputError, match="socket"):
        bridge_command(path)


def test_bridge_command_is_one_line_of_harmless_signs() -> None:
    """No login shell changes it: quoted once, without line breaks, exclamation marks or nested
    quotes.
    """
    command = bridge_command("/run/gridtravel/agent.sock")
    assert command.count("'") == 2
    assert not set("\n!`\\") & set(command)
    assert len(command) < 4096


def test_bridge_is_readable_to_old_pythons() -> None:
    """What is sent along runs on Python 3.6, which is all that some sites have."""
    ast.parse(inspect.getsource(bridge), feature_version=(3, 6))

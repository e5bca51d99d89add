"""Which host keys count as known, and what is said of the others."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shlex
from pathlib import Path

import pytest

from gridtravel.gridio.ssh.known_hosts import (
    HostKey,
    HostKeyChangedError,
    HostKeyUnknownError,
    KnownHosts,
    known_hosts_name,
)

KEY = HostKey(kind="ssh-ed25519", blob=b"\0\0\0\x0bssh-ed25519 one")
OTHER = HostKey(kind="ssh-ed25519", blob=b"\0\0\0\x0bssh-ed25519 two")
OF_ANOTHER_KIND = HostKey(kind="ssh-rsa", blob=b"\0\0\0\x07ssh-rsa three")


def on_file(folder: Path, *lines: str) -> KnownHosts:
    """A known_hosts file with these lines."""
    path = folder / "known_hosts"
    path.write_text("\n".join(lines) + "\n")
    return KnownHosts.load([path])


def hashed(name: str) -> str:
    """As OpenSSH writes a name with HashKnownHosts."""
    salt = b"a salt of twenty byte"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("patterns", "name"),
    [
        ("lab.example.org", "lab.example.org"),
        ("LAB.example.org,10.0.0.1", "10.0.0.1"),
        ("*.example.org", "lab.example.org"),
        ("[lab.example.org]:2222", "[lab.example.org]:2222"),
        ("[*.example.org]:2222", "[lab.example.org]:2222"),
        (hashed("[lab.example.org]:2222"), "[lab.example.org]:2222"),
    ],
)
def test_known_key(tmp_path: Path, patterns: str, name: str) -> None:
    """A key is known by name, pattern, or hash of the name."""
    known = on_file(tmp_path, "# a comment", f"{patterns} {KEY.line} comment")
    known.check(name, KEY)
    assert known.kinds_of(name) == ["ssh-ed25519"]


@pytest.mark.parametrize(
    ("patterns", "name"),
    [
        ("lab.example.org", "lab.example.org.evil.net"),
        ("lab.example.org", "[lab.example.org]:2222"),
        ("*.example.org,!bad.example.org", "bad.example.org"),
        ("[l]ab", "lab"),
        (hashed("lab"), "lub"),
        ("|1|x", "lab"),
    ],
)
def test_unknown_name(tmp_path: Path, patterns: str, name: str) -> None:
    """A key on file for another name, or another port, is not known for this one."""
    with pytest.raises(HostKeyUnknownError):
        on_file(tmp_path, f"{patterns} {KEY.line}").check(name, KEY)


def test_unknown_key_is_told_with_the_way_to_know_it(tmp_path: Path) -> None:
    """The fingerprint is OpenSSH's, and the hint's command adds exactly the key that was shown."""
    known = on_file(tmp_path, f"elsewhere {KEY.line}")
    with pytest.raises(HostKeyUnknownError) as caught:
        known.check("[lab]:2222", KEY)
    digest = base64.b64encode(hashlib.sha256(KEY.blob).digest()).decode().rstrip("=")
    assert f"SHA256:{digest}" in caught.value.message
    assert caught.value.exit_code == 5
    assert caught.value.hint is not None
    words = shlex.split(caught.value.hint.partition("same: ")[2])
    assert words == ["echo", f"[lab]:2222 {KEY.line}", ">>", str(tmp_path / "known_hosts")]


@pytest.mark.parametrize("shown", [OTHER, OF_ANOTHER_KIND])
def test_changed_key(tmp_path: Path, shown: HostKey) -> None:
    """Another key than the one on file is refused loudly, also when it is of another kind: who
    listens in between chooses the kind.
    """
    with pytest.raises(HostKeyChangedError, match="HAS CHANGED") as caught:
        on_file(tmp_path, f"lab {KEY.line}").check("lab", shown)
    assert shown.fingerprint in caught.value.message
    assert f"{KEY.fingerprint} ({tmp_path / 'known_hosts'}:1)" in caught.value.message


def test_revoked_key(tmp_path: Path) -> None:
    """A revoked key is refused although it is on file as well."""
    known = on_file(tmp_path, f"lab {KEY.line}", f"@revoked * {KEY.line}")
    with pytest.raises(HostKeyChangedError, match="REVOKED"):
        known.check("lab", KEY)


@pytest.mark.parametrize(
    "line", ["", "lab", "lab ssh-ed25519", "lab ssh-ed25519 not/base64!", "@cert-authority {}"]
)
def test_useless_lines(tmp_path: Path, line: str) -> None:
    """A line that cannot be read makes nothing known, and hides no other."""
    with pytest.raises(HostKeyUnknownError):
        on_file(tmp_path, line.format(f"lab {KEY.line}")).check("lab", KEY)
    on_file(tmp_path, line, f"lab {KEY.line}").check("lab", KEY)


def test_missing_files(tmp_path: Path) -> None:
    """No file is an empty file, and the first one is where a key would be added."""
    with pytest.raises(HostKeyUnknownError) as caught:
        KnownHosts.load([tmp_path / "mine", tmp_path / "global"]).check("lab", KEY)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(str(tmp_path / "mine"))


def test_names() -> None:
    """The port is part of the name unless it is the usual one."""
    assert known_hosts_name("Lab", 22) == "lab"
    assert known_hosts_name("::1", 2222) == "[::1]:2222"

"""Which host keys the user has seen and believed: OpenSSH's known_hosts files.

A key that is not there is refused, whatever StrictHostKeyChecking says in the user's file: a
program that books on its own must not accept an unknown host for its user. Host certificates
(``@cert-authority``) are not understood here; such a host's plain key must be listed as well.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gridtravel.gridio.sites.connections import IdentityNotProvenError

SSH_PORT: Final = 22
FILE_BYTES_MAX: Final = 16 << 20
_HASHED: Final = "|1|"


class HostKeyUnknownError(IdentityNotProvenError):
    """Nobody has said yet that this key is the host's."""


class HostKeyChangedError(IdentityNotProvenError):
    """The host shows another key than the one on file, or one that was revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey:
    """A public key as a server shows it."""

    kind: str
    """Such as ``ssh-ed25519``."""
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As OpenSSH writes it: ``SHA256:`` and base 64 without padding."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")
        return f"SHA256:{digest}"

    @property
    def line(self) -> str:
        """Kind and key, as in a file."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    patterns: tuple[str, ...]
    key: HostKey
    is_revoked: bool
    place: str
    """File and line, for messages."""


class KnownHosts:
    """What is on file, in the order of the files."""

    def __init__(self, entries: Iterable[_Entry], add_to: Path) -> None:
        self._entries = tuple(entries)
        self._add_to = add_to

    @staticmethod
    def load(paths: Sequence[Path]) -> KnownHosts:
        """Read the files that exist; the first one is where new keys belong. A line that cannot be
        read is skipped, as OpenSSH does: it can make nothing known.
        """
        entries: list[_Entry] = []
        for path in paths:
            try:
                with path.open("rb") as file:
                    text = file.read(FILE_BYTES_MAX).decode(errors="replace")
            except OSError:
                continue
            for number, line in enumerate(text.splitlines(), start=1):
                entry = _parse(line, f"{path}:{number}")
                if entry is not None:
                    entries.append(entry)
        return KnownHosts(entries, paths[0])

    def kinds_of(self, name: str) -> list[str]:
        """Kinds of the keys on file for ``name``, so that the server is asked for one of them."""
        return list(
            dict.fromkeys(
                each.key.kind
                for each in self._entries
                if not each.is_revoked and _matches(each.patterns, name)
            )
        )

    def check(self, name: str, key: HostKey) -> None:
        """Return when ``key`` is on file for ``name`` (``known_hosts_name``); raise otherwise."""
        matching = [each for each in self._entries if _matches(each.patterns, name)]
        for each in matching:
            if each.is_revoked and each.key == key:
                raise HostKeyChangedError(
                    f"REVOKED HOST KEY: {name} shows {key.kind} {key.fingerprint}, which"
                    f" {each.place} revokes. Nothing was sent to it",
                    hint="somebody may be listening; ask whoever runs the machine",
                )
        known = [each for each in matching if not each.is_revoked]
        if any(each.key == key for each in known):
            return
        if known:
            on_file = ", ".join(f"{e.key.kind} {e.key.fingerprint} ({e.place})" for e in known)
            raise HostKeyChangedError(
                f"THE HOST KEY OF {name} HAS CHANGED: it shows {key.kind} {key.fingerprint};"
                f" on file is {on_file}. Somebody may be listening. Nothing was sent to it",
                hint="ask whoever runs the machine; only if they changed the key, remove the old"
                f" one: ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(str(self._add_to))}",
            )
        line = shlex.quote(f"{name} {key.line}")
        raise HostKeyUnknownError(
            f"the host key of {name} is not known: {key.kind} {key.fingerprint}",
            hint="compare it with what the site publishes; if it is the same:"
            f" echo {line} >> {shlex.quote(str(self._add_to))}",
        )


def known_hosts_name(host: str, port: int) -> str:
    """How a host is called in the files."""
    name = host.lower()
    return name if port == SSH_PORT else f"[{name}]:{port}"


def _parse(line: str, place: str) -> _Entry | None:
    fields = line.split()
    if not fields or fields[0].startswith("#"):
        return None
    marker = fields.pop(0) if fields[0].startswith("@") else ""
    if marker not in ("", "@revoked") or len(fields) < 3:
        return None
    try:
        blob = base64.b64decode(fields[2], validate=True)
    except binascii.Error:
        return None
    return _Entry(
        patterns=tuple(fields[0].split(",")),
        key=HostKey(kind=fields[1], blob=blob),
        is_revoked=bool(marker),
        place=place,
    )


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    """True when a pattern matches and no negated one does."""
    found = False
    for pattern in patterns:
        if pattern.startswith(_HASHED):
            found = found or _is_hash_of(pattern, name)
        elif pattern.startswith("!"):
            if _is_like(pattern[1:], name):
                return False
        else:
            found = found or _is_like(pattern, name)
    return found


def _is_like(pattern: str, name: str) -> bool:
    """``*`` and ``?`` alone; the brackets around a host with a port are themselves."""
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))


def _is_hash_of(pattern: str, name: str) -> bool:
    try:
        salt, digest = (
            base64.b64decode(part) for part in pattern.removeprefix(_HASHED).split("|", 1)
        )
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)

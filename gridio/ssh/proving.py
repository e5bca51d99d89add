"""Proving to an SSH server who we are: agent, key files, keyboard-interactive, password.

Servers may want more than one of them in a row (a key, then a code from a telephone); each success
brings the list of what is wanted next. Nothing is asked of the user before the keys have failed or
are not enough, and nothing at all without a prompter.
"""

from __future__ import annotations

import base64
import binascii
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.agent import AgentSSH

from gridtravel.gridio.sites.connections import IdentityNotProvenError
from gridtravel.gridio.ssh.prompting import Prompt, Prompter, PromptField
from gridtravel.gridio.ssh.target import Hop

STAGES_MAX: Final = 4
"""Proofs that one server may want in a row."""
PASSPHRASE_TRIES: Final = 3
PASSWORD_TRIES: Final = 3
AGENT_TIMEOUT_S: Final = 60.0
"""An agent may ask its user to confirm, or to touch a token."""
TEXT_MAX: Final = 2_000
"""Characters of a server's own words that are shown."""


@dataclass(slots=True, kw_only=True)
class _Candidate:
    key: paramiko.PKey
    name: str


@dataclass(slots=True)
class _Attempts:
    """What was tried, for the message when nothing was enough."""

    notes: list[str] = field(default_factory=list)
    accepted: list[bytes] = field(default_factory=list)
    """Public keys that the server took already as one of several proofs."""


def prove_identity(transport: paramiko.Transport, hop: Hop, prompter: Prompter | None) -> None:
    """Log in. ``IdentityNotProvenError`` says what was tried and what the server would take;
    ``paramiko.SSHException`` and ``OSError`` when the connection broke.
    """
    tried = _Attempts()
    try:
        wanted: list[str] = transport.auth_none(hop.user)
    except paramiko.BadAuthenticationType as fault:
        wanted = fault.allowed_types
    for _ in range(STAGES_MAX):
        if transport.is_authenticated():
            return
        after = _one_proof(transport, hop, wanted, prompter, tried)
        if after is None:
            break
        wanted = after
    if transport.is_authenticated():
        return
    told = "; ".join(tried.notes) or "there is no key to try"
    raise IdentityNotProvenError(
        f"{hop.address} does not let you in: {told}; it would take {' or '.join(wanted)}",
        hint=f"try: ssh -v -p {hop.port} {hop.user}@{hop.host}",
    )


def _one_proof(
    transport: paramiko.Transport,
    hop: Hop,
    wanted: list[str],
    prompter: Prompter | None,
    tried: _Attempts,
) -> list[str] | None:
    """One proof that the server takes; what it wants next. ``None``: there is none left."""
    if "publickey" in wanted:
        with _agent(hop, tried) as agent:
            for candidate in _candidates(hop, agent, prompter, tried):
                after = _try_key(transport, hop, candidate, tried)
                if after is not None:
                    return after
    for method in ("keyboard-interactive", "password"):
        if method not in wanted:
            continue
        if prompter is None:
            tried.notes.append(f"{method} needs somebody at a terminal")
        elif method == "password":
            return _try_password(transport, hop, prompter, tried)
        else:
            after = _try_interactive(transport, hop, prompter, tried)
            if after is not None:
                return after
    return None


def _try_key(
    transport: paramiko.Transport, hop: Hop, candidate: _Candidate, tried: _Attempts
) -> list[str] | None:
    blob = candidate.key.asbytes()
    if blob in tried.accepted:
        return None
    try:
        after: list[str] = transport.auth_publickey(hop.user, candidate.key)
    except paramiko.BadAuthenticationType:
        return None
    except paramiko.AuthenticationException:
        if not transport.is_active():
            raise
        tried.notes.append(f"{candidate.name} was refused")
        return None
    tried.accepted.append(blob)
    tried.notes.append(f"{candidate.name} was taken")
    return after


def _try_interactive(
    transport: paramiko.Transport, hop: Hop, prompter: Prompter, tried: _Attempts
) -> list[str] | None:
    def answer(title: str, instructions: str, fields: list[tuple[str, bool]]) -> list[str]:
        text = "\n".join(each for each in (title, instructions) if each)
        asked = tuple(
            PromptField(text=_harmless(prompt), is_secret=not echo) for prompt, echo in fields
        )
        if not asked and not text:
            return []
        return prompter(Prompt(who=hop.address, text=_harmless(text), fields=asked))

    try:
        after: list[str] = transport.auth_interactive(hop.user, answer)
    except paramiko.AuthenticationException:
        if not transport.is_active():
            raise
        tried.notes.append("the answers were refused")
        return None
    return after


def _try_password(
    transport: paramiko.Transport, hop: Hop, prompter: Prompter, tried: _Attempts
) -> list[str] | None:
    for _ in range(PASSWORD_TRIES):
        (word,) = prompter(Prompt(who=hop.address, fields=(PromptField(text="Password: "),)))
        try:
            after: list[str] = transport.auth_password(hop.user, word, fallback=False)
        except paramiko.BadAuthenticationType:
            return None
        except paramiko.AuthenticationException:
            if not transport.is_active():
                raise
            continue
        return after
    tried.notes.append("the password was refused")
    return None


# -- keys ------------------------------------------------------------------------------------------


def _candidates(
    hop: Hop,
    agent: tuple[paramiko.AgentKey, ...],
    prompter: Prompter | None,
    tried: _Attempts,
) -> Iterator[_Candidate]:
    """Keys to try: those of the agent that the configuration names, its others, then files.

    The order matters, because servers count: after six refused keys they hang up.
    """
    in_agent = {key.asbytes(): key for key in agent}
    named = {path: _public_part(path) for path in hop.identity_files}
    chosen = [blob for blob in named.values() if blob in in_agent]
    others = [] if hop.identities_only else [blob for blob in in_agent if blob not in chosen]
    for blob in [*chosen, *others]:
        key = in_agent[blob]
        yield _Candidate(key=key, name=f"the agent's key {key.comment or key.get_name()}")
    for path in hop.identity_files:
        if named[path] in in_agent:
            continue
        key_of_file = _load(path, hop, prompter, tried)
        if key_of_file is not None:
            yield _Candidate(key=key_of_file, name=f"the key {path}")


def _public_part(path: Path) -> bytes:
    """What stands in ``<path>.pub``; empty when there is none."""
    try:
        return base64.b64decode(Path(f"{path}.pub").read_text().split()[1])
    except (OSError, UnicodeDecodeError, IndexError, binascii.Error):
        return b""


def _load(
    path: Path, hop: Hop, prompter: Prompter | None, tried: _Attempts
) -> paramiko.PKey | None:
    """The key in a file, or ``None`` and a note why not."""
    try:
        mode = path.stat().st_mode
    except OSError as fault:
        if hop.has_own_identities:
            tried.notes.append(f"no key {path} ({fault.strerror})")
        return None
    if mode & 0o077:
        tried.notes.append(f"the key {path} can be read by others (chmod 600), so it is not used")
        return None
    word: str | None = None
    for _ in range(1 + PASSPHRASE_TRIES):
        try:
            return paramiko.PKey.from_path(path, word.encode() if word is not None else None)  # type: ignore[arg-type]
        except (TypeError, paramiko.PasswordRequiredException):
            problem = "needs its passphrase"
        except (ValueError, paramiko.SSHException, UnsupportedAlgorithm, OSError) as fault:
            problem = "does not open with that passphrase" if word else f"cannot be used ({fault})"
            if not word:
                break
        if prompter is None:
            problem += ", which needs somebody at a terminal, or an agent"
            break
        asked = PromptField(text=f"Passphrase for {path}: ")
        (word,) = prompter(Prompt(who=hop.address, fields=(asked,)))
    tried.notes.append(f"the key {path} {problem}")
    return None


@contextmanager
def _agent(hop: Hop, tried: _Attempts) -> Iterator[tuple[paramiko.AgentKey, ...]]:
    """The keys of the user's agent, which signs as long as the context lasts."""
    if not hop.agent_socket:
        yield ()
        return
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.settimeout(AGENT_TIMEOUT_S)
        agent = AgentSSH()
        try:
            connection.connect(hop.agent_socket)
            # The library's own way to an agent reads the environment only.
            agent._connect(connection)  # type: ignore[attr-defined]
        except (OSError, paramiko.SSHException) as fault:
            tried.notes.append(f"the agent at {hop.agent_socket} does not answer ({fault})")
        yield agent.get_keys()


def _harmless(text: str) -> str:
    """A server's text, bounded, with ``?`` for control characters."""
    kept = (sign if sign.isprintable() or sign == "\n" else "?" for sign in text[:TEXT_MAX])
    return "".join(kept)

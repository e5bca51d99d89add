"""Where a login leads and by which way: what the user wrote, completed from ``~/.ssh/config``.

Understood: Host, Match, Include, HostName, Port, User, IdentityFile, IdentitiesOnly, IdentityAgent,
ProxyJump, ProxyCommand, UserKnownHostsFile, GlobalKnownHostsFile, HostKeyAlias, ConnectTimeout.
Anything else in the file is read over.
"""

from __future__ import annotations

import getpass
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.number_text import read_decimal, read_whole
from gridtravel.gridio.ssh.known_hosts import SSH_PORT

CONNECT_TIMEOUT_S: Final = 10.0
CONNECT_TIMEOUT_MAX_S: Final = 120.0
INCLUDE_DEPTH_MAX: Final = 8
CONFIG_BYTES_MAX: Final = 1 << 20
JUMPS_MAX: Final = 8
DEFAULT_CONFIG: Final = Path("~/.ssh/config")
DEFAULT_IDENTITIES: Final = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
DEFAULT_KNOWN_HOSTS: Final = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
DEFAULT_GLOBAL_KNOWN_HOSTS: Final = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
AGENT_VARIABLE: Final = "SSH_AUTH_SOCK"

_TARGET: Final = re.compile(
    r"(?:(?P<user>[^\s@:/]+(?:@[^\s@:/]+)?)@)?"
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[^\s@:/\[\]-][^\s@:/\[\]]*))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget:
    """What the user wrote: ``[user@]host[:port]``, where host may be an alias of the file."""

    host: str
    user: str = ""
    port: int = 0
    """0: as the file says, else 22."""

    @staticmethod
    def parse(text: str) -> SshTarget:
        """``InputError`` for anything else."""
        found = _TARGET.fullmatch(text.removeprefix("ssh://"))
        port = int(found["port"] or 0) if found else 0
        if found is None or port > 65_535 or (found["port"] and not port):
            raise InputError(
                f"{text[:80]!r} is no SSH login", hint="write user@host:port, host, or an alias"
            )
        return SshTarget(
            host=found["address"] or found["host"], user=found["user"] or "", port=port
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One login with everything it needs to know."""

    name: str
    """As the user wrote the host."""
    host: str
    port: int
    user: str
    key_name: str
    """What the host's key is filed under, when that is not its name (HostKeyAlias)."""
    identity_files: tuple[Path, ...]
    has_own_identities: bool
    """The file names them, so that a missing one is worth a word."""
    identities_only: bool
    agent_socket: str
    """Empty: no agent."""
    known_hosts: tuple[Path, ...]
    proxy_command: str
    jumps: tuple[str, ...]
    """Logins to be made before this one, the first one first."""
    connect_timeout_s: float

    @property
    def address(self) -> str:
        """``user@host:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}:{self.port}"


def resolve(target: SshTarget, config: Path | None = None) -> Hop:
    """Complete ``target`` from the user's file (default ``~/.ssh/config``; it need not exist)."""
    path = (config or DEFAULT_CONFIG).expanduser()
    text = _read(path, path.parent, depth=0, must_exist=config is not None)
    # The first value found counts, so what the user said now comes first.
    said = f"  User {target.user}\n" * bool(target.user) + f"  Port {target.port}\n" * bool(
        target.port
    )
    try:
        found = paramiko.SSHConfig.from_text(f"Host *\n{said}Host *\n{text}").lookup(target.host)
        port = read_whole(str(found.get("port", SSH_PORT)))
        timeout_s = read_decimal(str(found.get("connecttimeout", 0))) or CONNECT_TIMEOUT_S
    except (paramiko.SSHException, ValueError) as fault:
        raise InputError(f"{path}: {fault}", hint="ssh itself may say more: ssh -G HOST") from fault
    identities: list[str] = list(found.get("identityfile", []))
    jump = found.get("proxyjump", "none")
    return Hop(
        name=target.host,
        host=found["hostname"],
        port=port,
        user=found.get("user") or getpass.getuser(),
        key_name=found.get("hostkeyalias", ""),
        identity_files=tuple(Path(each).expanduser() for each in identities or DEFAULT_IDENTITIES),
        has_own_identities=bool(identities),
        identities_only=found.get("identitiesonly", "no").lower() == "yes",
        agent_socket=_agent_socket(found.get("identityagent", AGENT_VARIABLE)),
        known_hosts=tuple(
            Path(word.replace("%d", "~")).expanduser()
            for word in (
                found.get("userknownhostsfile", DEFAULT_KNOWN_HOSTS)
                + " "
                + found.get("globalknownhostsfile", DEFAULT_GLOBAL_KNOWN_HOSTS)
            ).split()
        ),
        proxy_command=found.get("proxycommand") or "",
        jumps=() if jump.lower() == "none" else tuple(each.strip() for each in jump.split(",")),
        connect_timeout_s=min(timeout_s, CONNECT_TIMEOUT_MAX_S),
    )


def _agent_socket(wish: str) -> str:
    if wish.lower() == "none":
        return ""
    if wish in (AGENT_VARIABLE, f"${AGENT_VARIABLE}"):
        return os.environ.get(AGENT_VARIABLE, "")
    return os.path.expandvars(str(Path(wish).expanduser()))


def _read(path: Path, home: Path, *, depth: int, must_exist: bool) -> str:
    """The file's text with included files in place of the lines that include them."""
    try:
        with path.open("rb") as file:
            text = file.read(CONFIG_BYTES_MAX).decode(errors="replace")
    except FileNotFoundError:
        if must_exist:
            raise InputError(f"there is no SSH configuration at {path}") from None
        return ""
    except OSError as fault:
        raise InputError(
            f"cannot read the SSH configuration {path}: {fault.strerror}",
            hint="make it readable, or name another as ssh_config in sites.toml",
        ) from fault
    lines: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].lower() != "include":
            lines.append(line)
            continue
        if depth == INCLUDE_DEPTH_MAX:
            raise InputError(f"{path}: files include each other more than {depth} times")
        for word in words[1:]:
            pattern = Path(word.strip('"')).expanduser()
            base = pattern if pattern.is_absolute() else home / pattern
            lines += [
                _read(each, home, depth=depth + 1, must_exist=False)
                for each in sorted(base.parent.glob(base.name))
            ]
    return "\n".join(lines)

"""The user's own list of machines: where each is reached, and with which credential.

One TOML file, ``sites.toml`` in the user's configuration folder (XDG), or wherever ``GUR_CONFIG``
points. It belongs to the user; nobody else keeps a central list. docs/machines.md lists every key.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Self
from zoneinfo import ZoneInfo

import platformdirs
from pydantic import Field, model_validator

from gridtravel.gridcore.booking.reservations import check_id
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.zones import find_zone
from gridtravel.gridcore.trips.trip_wishes import check_keepers
from gridtravel.gridio.batch.options import BatchOptions
from gridtravel.gridio.config_file import ConfigTable, at_key, read_config
from gridtravel.gridio.system.notify import (
    MailRelay,
    MailSecurity,
    NoNotifier,
    Notifier,
    SmtpNotifier,
)
from gridtravel.gridio.system.private_files import read_secret
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.sites.batch_keys import BatchKeys

CONFIG_VARIABLE: Final = "GUR_CONFIG"
STATE_VARIABLE: Final = "GUR_STATE"
PAGE: Final = "docs/machines.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineEntry:
    """How to reach one machine."""

    machine: str
    site: str
    endpoint: str = ""
    """``host:port``, or ``unix:/path`` for a site on this computer; empty: only ``ssh`` leads
    there.
    """
    features: tuple[str, ...] = ()
    is_manager: bool = False
    """The endpoint is a calendar manager's, not a single site's."""
    ssh: str = ""
    """``[user@]host[:port]`` or an alias of the user's SSH configuration; empty: no such way."""
    ssh_socket: str = ""
    """Path of the agent's local socket at the far end; empty: where it usually is."""
    only_sets: bool = False
    """It answers no inquiries: the probe search is used for trips there."""

    batch: BatchOptions | None = None
    """It has no agent: only the commands of this batch system, behind ``ssh`` or here."""

    @property
    def shared_endpoint(self) -> str:
        """Where anybody reaches it; empty: it is this user's, or this computer's, alone."""
        return "" if self.endpoint.startswith("unix:") else self.endpoint

    @property
    def ways(self) -> tuple[str, ...]:
        """Where it is reached, for people: the endpoint, the login."""
        if self.batch is not None:
            return (f"{f'ssh:{self.ssh}' if self.ssh else 'here'} ({self.batch.system})",)
        return tuple(each for each in (self.endpoint, self.ssh and f"ssh:{self.ssh}") if each)

    @property
    def connection_key(self) -> tuple[str, ...]:
        """Machines with the same key share a connection."""
        batch = () if self.batch is None else (self.machine, repr(self.batch))
        return (self.site, *self.ways, self.ssh_socket, *batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridConfig:
    """What the user's file says."""

    path: Path
    credential_folder: Path
    zone: ZoneInfo
    mail: MailRelay | None = None
    """Who takes the user's mail; ``None``: nobody is mailed."""
    ssh_config: Path | None = None
    """The user's SSH configuration; ``None``: where OpenSSH looks for it."""
    search: SearchChoice = SearchChoice.AUTO
    """Which search looks for trips, unless a command says otherwise."""
    keepers: tuple[str, ...] = ()
    """Sites that alone may keep this user's trips, unless a metajob says otherwise; none: any."""
    machines: Mapping[str, MachineEntry]

    def notifier(self) -> Notifier:
        """How mail about trips goes out."""
        return NoNotifier(self.path) if self.mail is None else SmtpNotifier(self.mail)

    def machine(self, name: str) -> MachineEntry:
        """The entry called ``name``; ``InputError`` names the nearest known one."""
        entry = self.machines.get(name)
        if entry is None:
            near = difflib.get_close_matches(name, self.machines, n=1)
            known = ", ".join(sorted(self.machines)) or "none"
            hint = f"did you mean {near[0]}?" if near else f"known machines: {known}"
            raise InputError(f"nobody knows a machine {name!r} ({self.path})", hint=hint)
        return entry


class _Machine(BatchKeys):
    site: str
    endpoint: str = ""
    features: list[str] = Field(default_factory=list)
    is_manager: bool = False
    ssh: str = ""
    ssh_socket: str = ""
    only_sets: bool = False

    @model_validator(mode="after")
    def _has_a_way(self) -> Self:
        if not self.endpoint and not self.ssh and not self.batch:
            raise ValueError('it needs endpoint = "host:port", or ssh = "user@host", or both')
        if self.ssh_socket and not self.ssh:
            raise ValueError("ssh_socket without ssh leads nowhere")
        return self


class _Mail(ConfigTable):
    host: str
    port: Annotated[int, Field(ge=1, le=65_535)] = 25
    sender: str
    security: Annotated[MailSecurity, Field(strict=False)] = MailSecurity.NONE
    login: str = ""
    password_file: str = ""

    def relay(self, folder: Path) -> MailRelay:
        secret = folder / Path(self.password_file).expanduser()
        return MailRelay(
            host=self.host,
            port=self.port,
            sender=self.sender,
            security=self.security,
            login=self.login,
            password=read_secret(secret) if self.login else "",
        )


class _File(ConfigTable):
    credential: str = "credential"
    time_zone: str = "UTC"
    ssh_config: str = ""
    search: Annotated[SearchChoice, Field(strict=False)] = SearchChoice.AUTO
    keepers: list[str] = Field(default_factory=list)
    mail: _Mail | None = None
    machines: Annotated[dict[str, _Machine], Field(min_length=1)]


def config_path() -> Path:
    """Where the user's list of machines is."""
    named = os.environ.get(CONFIG_VARIABLE)
    return Path(named) if named else Path(platformdirs.user_config_dir("gur")) / "sites.toml"


def state_folder() -> Path:
    """Where the user's trips are remembered."""
    named = os.environ.get(STATE_VARIABLE)
    return Path(named) if named else Path(platformdirs.user_state_dir("gur"))


def load_grid_config(path: Path | None = None) -> GridConfig:
    """Read the list of machines; every mistake is one ``InputError`` with file and key."""
    path = path or config_path()
    missing = f"write one ({PAGE}), or name it in {CONFIG_VARIABLE}"
    read = read_config(path, _File, page=PAGE, what="list of machines", missing=missing)
    with read.told():
        return _checked(path, read.content)


def _checked(path: Path, parsed: _File) -> GridConfig:
    """What the file means; the domain has its say about every value."""
    for name, entry in parsed.machines.items():
        with at_key("machines", name):
            check_id("machine", name)
        with at_key("machines", name, "site"):
            check_id("site", entry.site)
    with at_key("keepers"):
        keepers = check_keepers(parsed.keepers)
    with at_key("time_zone"):
        zone = find_zone(parsed.time_zone)
    with at_key("mail"):
        mail = None if parsed.mail is None else parsed.mail.relay(path.parent)
    return GridConfig(
        path=path,
        credential_folder=path.parent / Path(parsed.credential).expanduser(),
        zone=zone,
        search=parsed.search,
        mail=mail,
        keepers=keepers,
        ssh_config=path.parent / Path(parsed.ssh_config).expanduser()
        if parsed.ssh_config
        else None,
        machines={
            name: MachineEntry(
                machine=name,
                site=entry.site,
                endpoint=entry.endpoint,
                features=tuple(sorted(set(entry.features))),
                is_manager=entry.is_manager,
                ssh=entry.ssh,
                ssh_socket=entry.ssh_socket,
                batch=entry.batch_options(),
                only_sets=entry.only_sets,
            )
            for name, entry in parsed.machines.items()
        },
    )

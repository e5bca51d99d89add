"""``gurd ca``: founds a grid's certificate authority, and issues credentials::

    gurd ca init    DIR --grid NAME                       the authority itself, once
    gurd ca site    DIR NAME --host HOST --out FOLDER     a site's credential
    gurd ca manager DIR NAME --host HOST --out FOLDER     a calendar manager's credential
    gurd ca user    DIR LOGIN --out FOLDER --hours 12     a user's short-lived credential
    gurd ca show    DIR                                   what the authority is and has issued

The same command again renews. Only arguments and output are here; ``gridio.trust.authority`` does
the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.cli_frame import JsonOption, command_line
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.terminal.text import print_json, say_all
from gridtravel.gridio.trust.authority import ROOT_KEY_FILE, Authority
from gridtravel.gridio.trust.certificates import LOOPBACK_HOSTS, fingerprint
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.gridmap import GridMapEntry, add_to_grid_map, grid_map_entry
from gridtravel.gridio.trust.identity import GridIdentity, Role, end_of, utc_text

ca_app = command_line(
    "ca", "Found a grid: its certificate authority, and credentials for sites, managers and users."
)

_Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The authority's folder.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits, '.', '-', '_'.")]
_Out = Annotated[Path, typer.Option(help="Folder for root.pem, cert.pem and key.pem.")]
_Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", help="Host name or address where it will be reached; repeatable."),
]
_Loopback = Annotated[
    bool, typer.Option("--loopback", help="Also reached as localhost, 127.0.0.1 and ::1.")
]
_Force = Annotated[
    bool, typer.Option("--force", help="Make a new private key, replacing what is there.")
]
_GridMap = Annotated[
    Path | None, typer.Option("--grid-map", help="Also add the subject to this grid-mapfile.")
]


@ca_app.command("init")
def init(
    folder: _Folder,
    grid: Annotated[str, typer.Option(help="The grid's name, the O of every subject.")],
    force: _Force = False,
    as_json: JsonOption = False,
) -> None:
    """Make the authority of a grid, or renew its certificate. Everything issued before stays valid,
    unless --force.
    """
    authority = Authority.create(folder, grid, RandomIds(), _now(), force=force)
    facts = _authority_facts(authority, folder)
    _print(
        facts,
        [
            f"The authority of grid {grid} is in {folder}, valid until {facts['not_after']}.",
            f"Guard {folder / ROOT_KEY_FILE}: whoever reads it can be anybody on this grid.",
            f"Next: gurd ca site {folder} NAME --host HOST --out FOLDER",
        ],
        as_json=as_json,
    )


@ca_app.command("site")
def site(
    folder: _Folder,
    name: _Name,
    out: _Out,
    host: _Hosts = None,
    loopback: _Loopback = False,
    force: _Force = False,
    as_json: JsonOption = False,
) -> None:
    """Issue or renew a site's credential (server and client, one year)."""
    authority = Authority.open(folder, RandomIds())
    hosts = _all_hosts(host, loopback=loopback)
    credential = authority.issue_site(name, out, _now(), hosts=hosts, force=force)
    _print_credential(credential, out, as_json=as_json)


@ca_app.command("manager")
def manager(
    folder: _Folder,
    name: _Name,
    out: _Out,
    host: _Hosts = None,
    loopback: _Loopback = False,
    grid_map: _GridMap = None,
    force: _Force = False,
    as_json: JsonOption = False,
) -> None:
    """Issue or renew a calendar manager's credential (server and client, one year)."""
    authority = Authority.open(folder, RandomIds())
    hosts = _all_hosts(host, loopback=loopback)
    entry = _entry(authority.grid, Role.MANAGER, name, ["@manager"])
    credential = authority.issue_manager(name, out, _now(), hosts=hosts, force=force)
    if grid_map is not None:
        add_to_grid_map(grid_map, entry)
    _print_credential(credential, out, as_json=as_json)


@ca_app.command("user")
def user(
    folder: _Folder,
    login: Annotated[str, typer.Argument(metavar="LOGIN", help="The user's name on this grid.")],
    out: _Out,
    hours: Annotated[float, typer.Option(help="How long it lasts, in hours; at most 168.")] = 12,
    grid_map: _GridMap = None,
    account: Annotated[
        list[str] | None,
        typer.Option("--account", help="With --grid-map: account to charge; repeatable."),
    ] = None,
    force: _Force = False,
    as_json: JsonOption = False,
) -> None:
    """Issue or renew a user's short-lived credential (client only)."""
    if account and grid_map is None:
        raise InputError("--account needs --grid-map, the file where accounts stand")
    authority = Authority.open(folder, RandomIds())
    lifetime_s = _seconds(hours)
    names = dict.fromkeys([login, *(account or [])])
    entry = _entry(authority.grid, Role.USER, login, names)
    credential = authority.issue_user(login, out, _now(), lifetime_s=lifetime_s, force=force)
    if grid_map is not None:
        add_to_grid_map(grid_map, entry)
    _print_credential(credential, out, as_json=as_json)


@ca_app.command("show")
def show(folder: _Folder, as_json: JsonOption = False) -> None:
    """Show the authority and the certificates it signed that have not expired."""
    authority = Authority.open(folder, RandomIds())
    now = _now()
    issued = authority.issued()
    valid = [one for one in issued if now < one.not_after]
    facts = _authority_facts(authority, folder) | {
        "issued": len(issued),
        "valid": [
            {
                "subject": one.subject,
                "serial": f"{one.serial:x}",
                "not_after": utc_text(one.not_after),
            }
            for one in valid
        ],
    }
    lines = [
        f"grid         {authority.grid}",
        f"valid until  {facts['not_after']}" + _expired_mark(end_of(authority.root), now),
        f"fingerprint  {facts['fingerprint']}",
        f"issued       {len(issued)}, of which {len(valid)} valid",
    ]
    lines.extend(f"  {utc_text(one.not_after)}  {one.subject}" for one in valid)
    _print(facts, lines, as_json=as_json)


def _now() -> Instant:
    return SystemClock().now()


def _seconds(hours: float) -> int:
    if not 0 < hours < 1e6:
        raise InputError(f"a certificate cannot last {hours:g} hours", hint="give --hours 12")
    return round(hours * 3600)


def _all_hosts(hosts: list[str] | None, *, loopback: bool) -> list[str]:
    named = [*(hosts or []), *(LOOPBACK_HOSTS if loopback else ())]
    if not named:
        raise InputError(
            "the certificate would name no host", hint="give --host HOST, or --loopback for a trial"
        )
    return named


def _entry(grid: str, role: Role, name: str, names: Iterable[str]) -> GridMapEntry:
    """The line for the grid-mapfile, made before anything is issued: wrong words change nothing."""
    return grid_map_entry(GridIdentity(grid=grid, role=role, name=name).subject, names)


def _authority_facts(authority: Authority, folder: Path) -> dict[str, Any]:
    return {
        "grid": authority.grid,
        "folder": str(folder),
        "not_after": utc_text(end_of(authority.root)),
        "fingerprint": fingerprint(authority.root),
    }


def _expired_mark(end: Instant, now: Instant) -> str:
    return "  EXPIRED: renew it with `gurd ca init`" if now >= end else ""


def _print_credential(credential: Credential, out: Path, *, as_json: bool) -> None:
    end = utc_text(credential.not_after)
    facts = {"subject": credential.subject, "folder": str(out), "not_after": end}
    _print(facts, [f"{credential.subject} is in {out}, valid until {end}."], as_json=as_json)


def _print(facts: dict[str, Any], lines: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        say_all(lines)

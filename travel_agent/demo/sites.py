"""The grid of the demonstration as files: an authority, three sites, two users, one folder.

    FOLDER/authority/                          the grid's certificate authority
    FOLDER/sites/NAME/site.toml                a site: its own price, queue, zone and contact ports
    FOLDER/sites/NAME/{credential,grid-mapfile,state}
    FOLDER/users/LOGIN/sites.toml              a user's list of machines (GUR_CONFIG)
    FOLDER/users/LOGIN/{credential,state}      ... and where trips are remembered (GUR_STATE)

The two preferred machines are those of the metajob in the GUR paper, section 4; the third is the
Linux cluster of its last demonstration (SC2004). Nothing here starts anything.
"""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.system.ids import IdSource
from gridtravel.gridio.system.private_files import make_private_folder
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, write_grid_map

GRID: Final = "demo"
USER: Final = "kenneth"
NEIGHBOUR: Final = "grace"
"""Whose jobs are in the queues already."""
LOOPBACK: Final = "127.0.0.1"
CONTACT_PORTS: Final = 24
"""Ports a site gives out to legs; as many trips can be booked at once."""
CONTACT_PORT_FIRST: Final = 20_000
CONTACT_PORT_LAST: Final = 32_000
"""Below the ports that the kernel gives to outgoing connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSite:
    """One site of the demonstration, and the machine that users know it by."""

    name: str
    machine: str
    nodes: int
    feature: str
    time_zone: str
    millicredits_per_node_hour: int
    order: str
    """How its queue is sorted."""
    depth: int | str
    account: str
    """What kenneth may charge here beside his own account."""


DEMO_SITES: Final = (
    DemoSite(
        name="datastar",
        machine="datastar655",
        nodes=158,
        feature="p655",
        time_zone="America/Los_Angeles",
        millicredits_per_node_hour=36_000,
        order="priority",
        depth="all",
        account="sys200",
    ),
    DemoSite(
        name="purdue",
        machine="purduesp",
        nodes=2,
        feature="sp",
        time_zone="America/Indiana/Indianapolis",
        millicredits_per_node_hour=18_000,
        order="fcfs",
        depth="all",
        account="TG-STA040001N",
    ),
    DemoSite(
        name="teragrid",
        machine="teragrid-ia64",
        nodes=64,
        feature="ia64",
        time_zone="America/Chicago",
        millicredits_per_node_hour=54_000,
        order="sjf",
        depth=1,
        account="TG-STA040001N",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridFolder:
    """The paths within one grid's folder."""

    root: Path

    def site(self, name: str) -> Path:
        """A site's folder."""
        return self.root / "sites" / name

    def site_config(self, name: str) -> Path:
        """A site's configuration file."""
        return self.site(name) / "site.toml"

    def user(self, login: str) -> Path:
        """A user's folder."""
        return self.root / "users" / login

    def user_config(self, login: str) -> Path:
        """What GUR_CONFIG points to."""
        return self.user(login) / "sites.toml"

    def user_state(self, login: str) -> Path:
        """What GUR_STATE points to."""
        return self.user(login) / "state"


def lay_out(folder: GridFolder, ids: IdSource, now: Instant) -> None:
    """Found the grid: everything but the users' lists of machines, which need the sites' ports."""
    authority = Authority.create(folder.root / "authority", GRID, ids, now)
    subjects = {
        login: authority.issue_user(login, folder.user(login) / "credential", now).subject
        for login in (USER, NEIGHBOUR)
    }
    first = CONTACT_PORT_FIRST + ids.new_serial() % (CONTACT_PORT_LAST - CONTACT_PORT_FIRST)
    for site in DEMO_SITES:
        home = folder.site(site.name)
        make_private_folder(home)
        authority.issue_site(site.name, home / "credential", now, hosts=[LOOPBACK, "localhost"])
        entries = [
            grid_map_entry(subjects[USER], [USER, site.account]),
            grid_map_entry(subjects[NEIGHBOUR], [NEIGHBOUR]),
        ]
        write_grid_map(home / "grid-mapfile", GridMap(entries))
        first = free_ports(first)
        last = first + CONTACT_PORTS - 1
        folder.site_config(site.name).write_text(_site_toml(site, first, last), encoding="utf-8")
        first = last + 1


def write_user_config(folder: GridFolder, login: str, endpoints: Mapping[str, str]) -> None:
    """A user's list of machines; ``endpoints`` by site."""
    tables = [
        f"[machines.{site.machine}]\n"
        f'site = "{site.name}"\n'
        f'endpoint = "{endpoints[site.name]}"\n'
        f'features = ["{site.feature}"]\n'
        for site in DEMO_SITES
    ]
    text = 'credential = "credential"\ntime_zone = "America/Los_Angeles"\n\n' + "\n".join(tables)
    make_private_folder(folder.user_state(login))
    folder.user_config(login).write_text(text, encoding="utf-8")


def free_ports(first: int) -> int:
    """The beginning of ``CONTACT_PORTS`` consecutive ports, all free on loopback at this moment,
    from ``first`` on; after the last one the search goes on at the beginning.
    """
    span = CONTACT_PORT_LAST - CONTACT_PORT_FIRST
    free = 0
    for step in range(2 * span):
        port = CONTACT_PORT_FIRST + (first - CONTACT_PORT_FIRST + step) % span
        if port == CONTACT_PORT_FIRST:
            free = 0
        free = free + 1 if _is_free(port) else 0
        if free == CONTACT_PORTS:
            return port - CONTACT_PORTS + 1
    raise UnavailableError(
        f"no {CONTACT_PORTS} ports in a row are free on this machine",
        hint=f"something listens nearly everywhere from {CONTACT_PORT_FIRST} on",
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as fault:
            if fault.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def _site_toml(site: DemoSite, first_port: int, last_port: int) -> str:
    depth = json.dumps(site.depth)
    return f"""\
[site]
name = "{site.name}"
time_zone = "{site.time_zone}"
listen = "{LOOPBACK}:0"
contact_host = "{LOOPBACK}"
contact_ports = "{first_port}-{last_port}"

[[classes]]
name = "{site.feature}"
nodes = {site.nodes}
features = ["{site.feature}"]

[prices]
millicredits_per_node_hour = {site.millicredits_per_node_hour}

[queue]
order = "{site.order}"
depth = {depth}
kill_grace_s = 1

[host]
run_as = "daemon"
"""

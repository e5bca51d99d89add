"""The market as files: an authority, three sites with policies and tariffs of their own, three
users with credits at each.

    FOLDER/authority/                        the grid's certificate authority
    FOLDER/sites/NAME/site.toml              a site: its policy, its tariff, its ledger
    FOLDER/sites/NAME/{credential,grid-mapfile,state}
    FOLDER/users/LOGIN/credential            what a user shows to every site

Nothing here starts anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from gridtravel.gridio.system.private_files import make_private_folder
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, write_grid_map
from gridtravel.travel_agent.demo.sites import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gridtravel.gridcore.timing.instants import Instant
    from gridtravel.gridio.system.ids import IdSource
    from gridtravel.travel_agent.demo.sites import GridFolder

GRID: Final = "market"
MILLI: Final = 1000
"""Millicredits of a credit."""
HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSite:
    """One site: how it serves its nodes, and what a second of one costs."""

    name: str
    nodes: int
    policy: str
    credits_per_node_s: int
    """What it tells everybody; a policy with prices of its own begins with it."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """Of the policy."""
    is_shared: bool = False
    """Its nodes are processors of this machine, divided between jobs. The other sites' nodes are
    not here, so what runs on them sleeps.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketUser:
    """Somebody with jobs. The budget holds over all sites, and is less than all grants together:
    credits are good at their own site alone.
    """

    login: str
    budget: int
    """Credits that all jobs together may cost."""
    grants: Mapping[str, int]
    """Credits by site."""

    def stretched(self, factor: float) -> MarketUser:
        """The same user with so many times the money."""
        grants = {site: round(credits * factor) for site, credits in self.grants.items()}
        return replace(self, budget=round(self.budget * factor), grants=grants)


QUAY: Final = MarketSite(name="quay", nodes=1, policy="easy", credits_per_node_s=1)
HARBOUR: Final = MarketSite(
    name="harbour",
    nodes=1,
    policy="libra",
    credits_per_node_s=2,
    settings={"work_price": 2.0, "urgency_price": 10.0},
    is_shared=True,
)
MEADOW: Final = MarketSite(name="meadow", nodes=2, policy="conservative", credits_per_node_s=4)
SITES: Final = (QUAY, HARBOUR, MEADOW)
"""The cheapest first. One processor is shared, so that the machine stays usable."""

USERS: Final = (
    MarketUser(login="ada", budget=90, grants={"quay": 60, "harbour": 80, "meadow": 5}),
    MarketUser(login="ben", budget=60, grants={"quay": 60, "harbour": 60, "meadow": 60}),
    MarketUser(login="cleo", budget=60, grants={"quay": 40, "harbour": 60, "meadow": 40}),
)


def lay_out(folder: GridFolder, ids: IdSource, now: Instant) -> None:
    """Found the grid: all that the daemons read when they start."""
    authority = Authority.create(folder.root / "authority", GRID, ids, now)
    entries = [
        grid_map_entry(
            authority.issue_user(user.login, folder.user(user.login) / "credential", now).subject,
            [user.login],
        )
        for user in USERS
    ]
    for site in SITES:
        home = folder.site(site.name)
        make_private_folder(home)
        authority.issue_site(site.name, home / "credential", now, hosts=[LOOPBACK])
        write_grid_map(home / "grid-mapfile", GridMap(entries))
        folder.site_config(site.name).write_text(site_toml(site), encoding="utf-8")


def ledger_of(folder: GridFolder, site: str) -> Path:
    """The accounts of a site."""
    return folder.site(site) / "state" / "ledger"


def socket_of(folder: GridFolder, site: str) -> Path:
    """Where its administrator speaks to it."""
    return folder.site(site) / "state" / "agent.sock"


def site_toml(site: MarketSite) -> str:
    """The site's file."""
    settings = "".join(f"{key} = {value}\n" for key, value in site.settings.items())
    table = f"\n[policy.{site.policy}]\n{settings}" if settings else ""
    return f"""\
[site]
name = "{site.name}"
listen = "{LOOPBACK}:0"

[[classes]]
name = "cpu"
nodes = {site.nodes}
policy = "{site.policy}"

[prices]
millicredits_per_node_hour = {site.credits_per_node_s * MILLI * HOUR_S}

[ledger]
enabled = true

[queue]
kill_grace_s = 1

[host]
run_as = "daemon"
{table}"""

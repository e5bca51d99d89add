"""A site's name is proven on every carrier: who answers with another's name is not believed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.ports import CalendarPort, SiteDescription
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite, connect_to_site
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.sites.connections import IdentityNotProvenError, SiteConnection
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.anchor import TrustAnchor, anchor_of, load_anchor
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.identity import Role
from gridtravel.travel_agent.choices import TransportChoice
from tests.integration.test_ssh_trips import CLOCK, a_metajob, laptop, machines
from tests.support.certificate_scenes import HOUR_S, a_site, a_user, an_authority
from tests.support.fake_calendar_port import FakeCalendarPort
from tests.support.fake_services import FakeSite
from tests.support.grid_world import GridWorld
from tests.support.rpc_scenes import identify_by_map
from tests.support.sshd_world import SshUser

pytestmark = pytest.mark.integration

CARRIERS = ("network", "socket", "ssh")


class LyingPort(FakeCalendarPort):
    """Calls itself whatever its site was told to."""

    async def describe(self) -> SiteDescription:
        """With another's name."""
        site = self._site
        assert isinstance(site, LyingSite)
        return replace(await super().describe(), site=site.says)


class LyingSite(FakeSite):
    """A site that answers with a name that is not its own."""

    says = "lab"

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """The calendar of a liar."""
        self.callers.append(caller)
        return LyingPort(self, caller)


@dataclass
class Impostor:
    """What answers where the user's list has ``lab``."""

    site: LyingSite
    server: GridServer
    socket: Path
    user: SshUser
    ada: Credential
    anchor: TrustAnchor

    def connect(self, carrier: str, *, anchor: TrustAnchor | None) -> SiteConnection:
        """A connection that is meant for ``lab``."""
        if carrier == "network":
            return GrpcSite(self.server.endpoint, self.ada, site="lab")
        if carrier == "socket":
            return GrpcSite(f"unix:{self.socket}", site="lab", anchor=anchor)
        return self.user.connect(self.socket, anchor=anchor)


@asynccontextmanager
async def answering(
    folder: Path, user: SshUser, *, certified: str, says: str
) -> AsyncIterator[Impostor]:
    """A site with the certificate of ``certified`` (empty: none), which calls itself ``says``."""
    now = SystemClock().now()
    authority = an_authority(folder, now=now - HOUR_S)
    ada = a_user(authority, folder, login="ada", now=now)
    site = LyingSite(SystemClock(), folder)
    site.says = says
    path = folder / "front.sock"
    credential = a_site(authority, folder, name=certified, now=now) if certified else None
    server = GridServer(
        site,
        identify_by_map,
        address="127.0.0.1:0" if certified else "",
        credential=credential,
        local=LocalSocket(path=path),
        site="lab",
    )
    async with server:
        yield Impostor(site, server, path, user, ada, anchor_of(authority.root_pem))


async def refused(connection: SiteConnection) -> IdentityNotProvenError:
    """What a call meets that would book something."""
    with pytest.raises(IdentityNotProvenError) as caught:
        await connection.calendar.release_request("r-1")
    await connection.close()
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_the_site_that_was_meant_is_believed(
    tmp_path: Path, ssh_user: SshUser, carrier: str
) -> None:
    """By its certificate, on every carrier; and its word is enough for who knows no authority."""
    async with answering(tmp_path, ssh_user, certified="lab", says="lab") as real:
        for anchor in (real.anchor, None):
            connection = real.connect(carrier, anchor=anchor)
            assert (await connection.calendar.describe()).site == "lab"
            await connection.close()


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_another_site_that_claims_the_name(
    tmp_path: Path, ssh_user: SshUser, carrier: str
) -> None:
    """Its word counts for nothing, and no question of ours gets to it."""
    async with answering(tmp_path, ssh_user, certified="other", says="lab") as impostor:
        fault = await refused(impostor.connect(carrier, anchor=impostor.anchor))
        assert "of another site than lab" in fault.message
        assert impostor.site.callers == []


@pytest.mark.parametrize("carrier", ["socket", "ssh"])
async def test_a_site_without_a_certificate(
    tmp_path: Path, ssh_user: SshUser, carrier: str
) -> None:
    """It cannot get away with having none: whoever knows the authority wants proof."""
    async with answering(tmp_path, ssh_user, certified="", says="lab") as impostor:
        fault = await refused(impostor.connect(carrier, anchor=impostor.anchor))
        assert "does not prove that it is lab" in fault.message
        assert impostor.site.callers == []


@pytest.mark.parametrize("carrier", ["socket", "ssh"])
async def test_a_site_of_another_authority(tmp_path: Path, ssh_user: SshUser, carrier: str) -> None:
    """A grid of the same name with another key is another grid."""
    (tmp_path / "abroad").mkdir()
    foreign = an_authority(tmp_path / "abroad", now=SystemClock().now() - HOUR_S)
    async with answering(tmp_path, ssh_user, certified="lab", says="lab") as impostor:
        anchor = anchor_of(foreign.root_pem)
        fault = await refused(impostor.connect(carrier, anchor=anchor))
        assert "foreign authority" in fault.message


@pytest.mark.parametrize("carrier", ["socket", "ssh"])
async def test_a_wrong_turn_is_noticed_without_an_authority(
    tmp_path: Path, ssh_user: SshUser, carrier: str
) -> None:
    """Who has no root certificate compares the name that the site gives itself, shown as text."""
    says = "other\r\x1b[2J"
    async with answering(tmp_path, ssh_user, certified="lab", says=says) as wrong:
        fault = await refused(wrong.connect(carrier, anchor=None))
        assert "is not lab" in fault.message
        assert "'other??[2J'" in fault.message


async def test_both_machines_at_one_site(
    grid: GridWorld, ssh_user: SshUser, tmp_path: Path
) -> None:
    """Two machines of the list whose logins end at one site: refused with a line before anything is
    held, with the grid's root certificate and without.
    """
    credential = grid.folder.user("ada") / "credential"
    before = grid.sizes_at_rest()
    for folder in (credential, tmp_path / "nothing"):
        config = machines(grid, ssh_user, tmp_path / "sites.toml", {}, credential=folder)
        text = config.read_text()
        beta, alpha = (str(grid.folder.site(each) / "state") for each in ("beta", "alpha"))
        config.write_text(text.replace(beta, alpha))
        async with laptop(grid, config, TransportChoice.SSH) as agent:
            start = CLOCK.now() + 3_000
            with pytest.raises(IdentityNotProvenError) as caught:
                await agent.book(a_metajob(start, start + 600))
        assert "beta" in caught.value.message
        assert "\n" not in caught.value.message
        assert grid.sizes() == before


def test_no_daemon_asks_a_local_socket_for_a_site(tmp_path: Path) -> None:
    """A user who names one as an acceptor's address would have a daemon ask as itself."""
    now = SystemClock().now()
    credential = a_site(an_authority(tmp_path, now=now), tmp_path, name="lab", now=now)
    with pytest.raises(InputError, match="local socket"):
        connect_to_site("other", "unix:/run/secret.sock", credential, SystemClock())


def test_an_anchor_is_of_one_grid(tmp_path: Path) -> None:
    """Two roots of one grid are one anchor; of two grids they are none; no file, no anchor."""
    now = SystemClock().now()
    first = an_authority(tmp_path, now=now)
    anchor = anchor_of(first.root_pem + first.root_pem)
    assert anchor.server_name(Role.MANAGER, "north") == "north.managers.grid.internal"
    (tmp_path / "abroad").mkdir()
    with pytest.raises(InputError):
        anchor_of(b"nothing")
    assert load_anchor(tmp_path / "abroad") is None

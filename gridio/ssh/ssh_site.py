"""One site through the user's SSH login: the same ports as ``GrpcSite``, over the same messages."""

from __future__ import annotations

from pathlib import Path

import grpc.aio

from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridio.rpc.client.channel_wire import ChannelWire
from gridtravel.gridio.rpc.client.grpc_site import nameless_channel, nameless_destination
from gridtravel.gridio.rpc.client.wire_ports import WireCalendar, WireSite
from gridtravel.gridio.sites.connections import ClockSkew, TransportName
from gridtravel.gridio.ssh.prompting import Prompter
from gridtravel.gridio.ssh.target import SshTarget
from gridtravel.gridio.ssh.tunnel import Tunnel
from gridtravel.gridio.system.clock import Clock, SystemClock
from gridtravel.gridio.trust.anchor import TrustAnchor
from gridtravel.gridio.trust.identity import Role


class SshSite:
    """A ``SiteConnection`` to the agent of the machine where ``login`` leads.

    gRPC runs through the login to the agent's local socket, where the kernel says who has come: the
    account that logged in, and nobody else. The host key proves the machine; which site answers
    there, the site itself does. Nothing is connected before the first call; a login
    that broke is made again by the next one. Belongs to the event loop of its first call.
    """

    def __init__(
        self,
        login: str,
        *,
        agent_socket: str = "",
        site: str = "",
        role: Role = Role.SITE,
        anchor: TrustAnchor | None = None,
        config: Path | None = None,
        prompter: Prompter | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``login``: ``[user@]host[:port]`` or an alias of ``~/.ssh/config`` (``config`` instead).
        ``agent_socket``: the agent's socket at the far end. ``anchor``: who answers there must
        prove to be ``site``; without one it must call itself so. ``prompter``: asks the user, when
        the server wants more than keys. ``InputError`` for a login or path that cannot be.
        """
        target = SshTarget.parse(login)
        self.endpoint = f"ssh:{login}"
        self.transport: TransportName = "ssh"
        self._tunnel = Tunnel(target, agent_socket=agent_socket, config=config, prompter=prompter)
        clock = clock or SystemClock()
        self._destination = nameless_destination(self.endpoint, site, role, anchor)
        self._wire = ChannelWire(
            self._destination,
            self._open_channel,
            credential=None,
            clock=clock,
            route=self._tunnel,
        )
        self.calendar: CalendarPort = WireCalendar(self._wire, clock)
        self.site: SitePort = WireSite(self._wire, clock)

    def skew_s(self) -> ClockSkew | None:
        """The best estimate of the site's clock minus ours; ``None`` before the first answer."""
        return self._wire.skew_s()

    async def close(self) -> None:
        """End the calls, the login, and what was made for them at this end."""
        await self._wire.close()
        await self._tunnel.close()

    def _open_channel(self) -> grpc.aio.Channel:
        return nameless_channel(self._tunnel.endpoint, self._destination)

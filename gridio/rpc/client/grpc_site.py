"""One site over gRPC: a channel that is kept for life, and the two ports on it."""

from __future__ import annotations

from typing import Any, Final

import grpc
import grpc.aio

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridio.rpc.client.channel_wire import ChannelWire
from gridtravel.gridio.rpc.client.diagnosis import UNIX_SCHEME, Destination, split_endpoint
from gridtravel.gridio.rpc.client.wire_ports import WireCalendar, WireSite
from gridtravel.gridio.rpc.wire import MESSAGE_BYTES_MAX
from gridtravel.gridio.sites.connections import ClockSkew, TransportName
from gridtravel.gridio.system.clock import Clock, SystemClock
from gridtravel.gridio.trust.anchor import TrustAnchor
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.identity import GridIdentity, Role

CLIENT_OPTIONS: Final[list[tuple[str, Any]]] = [
    # A proxy of the environment is for the web; gRPC would even take it for 127.0.0.1.
    ("grpc.enable_http_proxy", 0),
    # Equal channels would share one connection, and break together.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # The default waits up to two minutes after a long outage.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
    # Despite its name, how long one attempt to connect may take: three round trips of TCP and TLS
    # over the slowest networks. It does not delay the next attempt after one that was refused.
    ("grpc.min_reconnect_backoff_ms", 4_000),
    # A site that vanished without a word is noticed after a minute, also by a silent subscription.
    ("grpc.keepalive_time_ms", 40_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
]


class GrpcSite:
    """A ``SiteConnection`` to ``endpoint``: ``host:port`` with mutual TLS, or ``unix:/path``.

    Over TLS the server proves that it is ``site`` (in ``role``) of the grid that ``credential``
    belongs to, whatever its address. On a local socket the kernel says who we are; the server
    proves its name there too to whoever has an ``anchor``, else it must call itself ``site``
    (empty: the file's place says who it is). Nothing is connected before the first call, and one
    connection serves all calls. Belongs to the event loop of its first call.
    """

    def __init__(
        self,
        endpoint: str,
        credential: Credential | None = None,
        *,
        site: str = "",
        role: Role = Role.SITE,
        anchor: TrustAnchor | None = None,
        clock: Clock | None = None,
        transport: TransportName = "grpc",
    ) -> None:
        self.endpoint = endpoint
        self.transport: TransportName = transport
        """``ssh`` when the socket at this end leads through a login."""
        self._credential = credential
        if endpoint.startswith(UNIX_SCHEME):
            destination = nameless_destination(endpoint, site, role, anchor)
        else:
            name = _server_name(endpoint, credential, site, role)
            destination = Destination(endpoint=endpoint, site=site, server_name=name)
        self._destination = destination
        clock = clock or SystemClock()
        self._wire = ChannelWire(
            destination, self._open_channel, credential=credential, clock=clock
        )
        self.calendar: CalendarPort = WireCalendar(self._wire, clock)
        self.site: SitePort = WireSite(self._wire, clock)

    def skew_s(self) -> ClockSkew | None:
        """The best estimate of the site's clock minus ours; ``None`` before the first answer."""
        return self._wire.skew_s()

    async def close(self) -> None:
        """End the channel and every call on it."""
        await self._wire.close()

    def _open_channel(self) -> grpc.aio.Channel:
        if self.endpoint.startswith(UNIX_SCHEME) or self._credential is None:
            return nameless_channel(self.endpoint, self._destination)
        secrets = grpc.ssl_channel_credentials(
            root_certificates=self._credential.root_pem,
            private_key=self._credential.key_pem,
            certificate_chain=self._credential.cert_pem,
        )
        name = ("grpc.ssl_target_name_override", self._destination.server_name)
        return grpc.aio.secure_channel(self.endpoint, secrets, options=[*CLIENT_OPTIONS, name])


def connect_to_site(site: str, endpoint: str, credential: Credential, clock: Clock) -> GrpcSite:
    """From one daemon to another site that somebody has named. A local socket is none: whoever
    names it would have us ask something of our own machine, as ourselves.
    """
    if endpoint.startswith(UNIX_SCHEME):
        raise InputError(f"{site} cannot be another site: {endpoint} is a local socket")
    return GrpcSite(endpoint, credential, site=site, clock=clock)


def nameless_destination(
    endpoint: str, site: str, role: Role, anchor: TrustAnchor | None
) -> Destination:
    """Where we show no certificate, because a login says who we are."""
    if anchor is None or not site:
        return Destination(endpoint=endpoint, site=site)
    name = anchor.server_name(role, site)
    return Destination(endpoint=endpoint, site=site, server_name=name, anchor=anchor)


def nameless_channel(local: str, destination: Destination) -> grpc.aio.Channel:
    """A channel over the socket ``local``, at which ``destination`` may have to prove its name."""
    if destination.anchor is None:
        return grpc.aio.insecure_channel(local, options=CLIENT_OPTIONS)
    secrets = grpc.ssl_channel_credentials(root_certificates=destination.anchor.root_pem)
    name = ("grpc.ssl_target_name_override", destination.server_name)
    return grpc.aio.secure_channel(local, secrets, options=[*CLIENT_OPTIONS, name])


def _server_name(endpoint: str, credential: Credential | None, site: str, role: Role) -> str:
    """The name that the server's certificate must carry."""
    try:
        split_endpoint(endpoint)
    except ValueError:
        raise InputError(
            f"{endpoint[:80]!r} is no address of a site", hint="write host:port or unix:/path"
        ) from None
    if credential is None:
        raise InputError(f"calling {endpoint} needs a certificate", hint="run `gur login`")
    holder = GridIdentity.parse(credential.subject)
    if holder is None:
        raise InputError(
            f"{credential.subject} does not say which grid it belongs to",
            hint="use a certificate that this grid's authority issued",
        )
    return GridIdentity(grid=holder.grid, role=role, name=site).server_name

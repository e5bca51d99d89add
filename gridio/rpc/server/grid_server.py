"""The gRPC server of a daemon: both services over mutual TLS, and on a local socket.

It proves who asks, and hands over to whatever ``SiteServices`` it was given; it decides nothing.
"""

from __future__ import annotations

import logging
from typing import Any, Final, Protocol, Self

import grpc
import grpc.aio
from grpc_health.v1 import _async as health_aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridio.rpc.server.calls import CallRunner, Carrier
from gridtravel.gridio.rpc.server.front_door import (
    NETWORK,
    PLAIN,
    PROVING,
    Admitting,
    FrontDoor,
)
from gridtravel.gridio.rpc.server.handlers import handlers_of
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.rpc.server.peers import Identify, Peer
from gridtravel.gridio.rpc.server.session_server import SESSION_SERVICE, Answerer, SessionService
from gridtravel.gridio.rpc.verbs import CALENDAR_SERVICE, SITE_SERVICE, Kind
from gridtravel.gridio.rpc.wire import MESSAGE_BYTES_MAX
from gridtravel.gridio.system.clock import Clock, SystemClock
from gridtravel.gridio.system.ids import IdSource, RandomIds
from gridtravel.gridio.trust.credentials import Credential, Usage, require_credential
from gridtravel.gridio.trust.identity import subject_of_peer

STREAMS_MAX: Final = 256
"""Calls at once on one connection; the client's library queues the rest."""

CALLS_MAX: Final = 4_096
"""Calls at once in all, most of them open subscriptions; more are refused, worth a retry."""

STOP_GRACE_S: Final = 5.0
"""How long a stopping server lets running calls finish."""

SERVER_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    # A laptop that was closed leaves connections behind: ask after a minute of silence.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Clients ask too, so that they notice a dead site; more often than this is abuse.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 5),
]


class CalendarServices(Protocol):
    """The least that can be served: a manager has a calendar and no jobs. Where a ``site_port`` is
    there too (``gridcore.ports.SiteServices``), the site service is offered as well.
    """

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """The calendar as ``caller`` may use it."""
        ...


class GridServer:
    """One server behind a front door with up to two listeners; ``async with`` starts and stops it.

    ``address`` is ``host:port`` (port 0: any; read ``port`` back) and needs ``credential``; every
    connection there shows a certificate that an authority in its ``root.pem`` signed.
    ``local`` is the socket for logins of this machine, where a server with a credential proves its
    name to whoever wants to see it. ``admitting``: how many connections, and whose places are kept.
    """

    def __init__(
        self,
        services: CalendarServices,
        identify: Identify,
        *,
        address: str = "",
        credential: Credential | None = None,
        local: LocalSocket | None = None,
        admitting: Admitting | None = None,
        site: str = "",
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        if not address and local is None:
            raise InputError("a server needs an address or a local socket to listen at")
        if address and credential is None:
            raise InputError(
                f"listening at {address} needs a certificate", hint="get one: gurd ca site"
            )
        self._services = services
        self._identify = identify
        self._address = address
        self._credential = credential
        self._local = local
        self._admitting = admitting or Admitting()
        self._site = site
        self._clock: Clock = clock or SystemClock()
        self._ids: IdSource = ids or RandomIds(self._clock)
        self._server: grpc.aio.Server | None = None
        self._door: FrontDoor | None = None
        self._sessions: SessionService | None = None
        self._health = health_aio.HealthServicer()
        self._port = 0
        self._log = logging.getLogger(__name__)

    @property
    def port(self) -> int:
        """The TCP port that is listened at; 0 without an address or before the start."""
        return self._port

    @property
    def endpoint(self) -> str:
        """``host:port`` with the port that was found, or ``unix:/path`` without an address."""
        if self._address:
            return f"{self._address.rpartition(':')[0]}:{self._port}"
        return f"unix:{self._local.path}" if self._local else ""

    async def start(self) -> None:
        """Listen. ``InputError`` or ``NotAuthorisedError`` when the certificate cannot serve,
        ``UnavailableError`` when the address is taken; then nothing is left behind.
        """
        if self._server is not None:
            return
        server = grpc.aio.server(options=SERVER_OPTIONS, maximum_concurrent_rpcs=CALLS_MAX)
        names = self._register(server)
        try:
            await self._listen(server)
        except BaseException:
            await self._close(server, grace_s=0.0)
            raise
        self._server = server
        for name in ("", *names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._log.info("serving", extra={"endpoint": self.endpoint, "services": names})

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Refuse new calls, give running ones ``grace_s`` seconds, end. Twice is as once."""
        server, self._server = self._server, None
        if server is None:
            return
        await self._health.enter_graceful_shutdown()
        await self._close(server, grace_s=grace_s)
        self._log.info("stopped", extra={"endpoint": self.endpoint})

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _listen(self, server: grpc.aio.Server) -> None:
        """gRPC listens behind the front door, which opens when all is ready."""
        door = self._door = FrontDoor(
            address=self._address,
            local=self._local,
            admitting=self._admitting,
            proves_locally=self._credential is not None,
        )
        folder = door.prepare()
        if self._local is not None:
            server.add_insecure_port(f"unix:{folder / PLAIN}")
        if self._credential is not None:
            credential = require_credential(
                self._credential, SystemClock().now(), usage=Usage.SERVER
            )
            pair = [(credential.key_pem, credential.cert_pem)]
            mutual = grpc.ssl_server_credentials(
                pair, root_certificates=credential.root_pem, require_client_auth=True
            )
            server.add_secure_port(f"unix:{folder / NETWORK}", mutual)
            server.add_secure_port(f"unix:{folder / PROVING}", grpc.ssl_server_credentials(pair))
        await server.start()
        door.open()
        self._port = door.port

    async def _close(self, server: grpc.aio.Server, *, grace_s: float) -> None:
        if self._sessions is not None:
            self._sessions.drain()
        if self._door is not None:
            self._door.shut()
        await server.stop(grace_s)
        door, self._door = self._door, None
        if door is not None:
            await door.close()

    def _prove(self, carrier: Carrier) -> Peer:
        """Who the channel proves the other end to be, if he may have the connection."""
        if self._door is None:
            raise UnavailableError("the site is stopping")
        guest = self._door.guest_at(carrier.address)
        if guest.uid is not None:
            return Peer(login=self._door.login_of(guest), address="local")
        subject = subject_of_peer(carrier.shown, self._clock.now())
        self._door.proven(guest, subject)
        return Peer(subject=subject, address=self._door.address_of(carrier.address))

    def _address_of(self, peer: str) -> str:
        return peer if self._door is None else self._door.address_of(peer)

    def _register(self, server: grpc.aio.Server) -> list[str]:
        runner = CallRunner(
            self._identify,
            self._prove,
            address_of=self._address_of,
            clock=self._clock,
            ids=self._ids,
            site=self._site,
        )
        ports_of = {CALENDAR_SERVICE: self._services.calendar_port}
        site_port = getattr(self._services, "site_port", None)
        if site_port is not None:
            ports_of[SITE_SERVICE] = site_port
        offers = [
            (service, handlers_of(service, self._clock), port_of)
            for service, port_of in ports_of.items()
        ]
        self._sessions = SessionService(
            runner,
            {
                verb.path: Answerer(verb=verb, handle=handle, port_of=port_of)
                for _, handlers, port_of in offers
                for verb, handle in handlers.items()
                if verb.kind is Kind.UNARY
            },
            clock=self._clock,
            questions_max=CALLS_MAX,
        )
        server.add_generic_rpc_handlers(
            (*(runner.generic_handler(*each) for each in offers), self._sessions.generic_handler())
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = [name for name, _, _ in offers]
        reflection.enable_server_reflection(
            [*names, SESSION_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME], server
        )
        return names

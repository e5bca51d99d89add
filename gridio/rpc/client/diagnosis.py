"""Why a site cannot be reached, in words that name the next step.

gRPC reports every failure to connect as UNAVAILABLE, with the reason of TLS missing or in words of
its own. When a call has failed, and only then, the steps of a connection are taken here one by one
with the standard library: our own certificate, name, port, handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridio.rpc.refusal_line import LINE_BYTES_MAX, refusal_in
from gridtravel.gridio.sites.connections import IdentityNotProvenError, UnreachableError
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.trust.anchor import TrustAnchor
from gridtravel.gridio.trust.credentials import Credential, check_credential
from gridtravel.gridio.trust.identity import renewal_hint, role_of

DIAGNOSIS_DEADLINE_S: Final = 3.0

FIRST_WORDS_S: Final = 0.3
"""How long a server may take to say that it lets nobody in."""

SILENT_CLOSES: Final = 2
"""A server that shakes hands and then closes without a word does not like our certificate; gRPC's
sends no alert. One that is just being stopped may look the same, but not twice.
"""

UNIX_SCHEME: Final = "unix:"

# X.509 verification results of OpenSSL (X509_V_ERR_*).
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_WRONG_HOST: Final = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """What a connection is meant to reach."""

    endpoint: str
    """``host:port`` or ``unix:/path``."""
    site: str
    """The name that messages use."""
    server_name: str = ""
    """What the server's certificate must say. Empty: none is asked for, and the site's word for its
    name is compared with ``site`` (which may be empty too: whoever is there).
    """
    anchor: TrustAnchor | None = None
    """Whose certificate it must be, where ours is not asked for: at a local socket."""


Probe: TypeAlias = Callable[[ssl.SSLContext | None, str], Awaitable[bytes]]
"""Connects once more to where a call failed, and ends it: with a context a handshake with the
server of this name, whose failure is an ``ssl.SSLError``, an ``OSError`` or ``EOFError``. What the
server says before it is spoken to.
"""


class _ClosedSilentlyError(Exception):
    """The connection ended after the handshake, before the server said anything."""


async def diagnose(
    destination: Destination,
    credential: Credential | None,
    *,
    attempted: str,
    clock: Clock,
    probe: Probe | None = None,
) -> GridError | None:
    """The fault that explains why ``destination`` cannot be reached; ``None`` when everything looks
    well by now. ``probe``: how to try, where an address is not enough.
    """
    if destination.endpoint.startswith(UNIX_SCHEME):
        return await _try_local(destination, attempted)
    if probe is not None:
        return await _try_nameless(destination, probe, attempted)
    if credential is None:
        return None
    for problem in check_credential(credential, clock.now()):
        return IdentityNotProvenError(f"{attempted}: {problem.message}", hint=problem.hint)
    try:
        async with asyncio.timeout(DIAGNOSIS_DEADLINE_S):
            for _ in range(SILENT_CLOSES):
                try:
                    return await _try_tls(destination, credential, attempted)
                except _ClosedSilentlyError:
                    continue
            return IdentityNotProvenError(
                f"{attempted}: the site does not believe the certificate of {credential.subject}",
                hint="another authority signed it, or it has expired by the site's clock",
            )
    except TimeoutError:
        return UnreachableError(
            f"{attempted}: {destination.endpoint} does not answer",
            hint="a firewall may be in the way, or the machine is off",
        )


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[address]:port``; ``ValueError`` for anything else."""
    host, colon, port = endpoint.rpartition(":")
    if not colon or not host or not is_count(port) or not 0 < int(port) < 65_536:
        raise ValueError(endpoint)
    return host.removeprefix("[").removesuffix("]"), int(port)


async def _try_local(destination: Destination, attempted: str) -> GridError | None:
    path = destination.endpoint.removeprefix(UNIX_SCHEME)

    async def probe(context: ssl.SSLContext | None, server_name: str) -> bytes:
        said = await _first_words(*await asyncio.open_unix_connection(path))
        if not said and context is not None:
            _, writer = await asyncio.open_unix_connection(
                path, ssl=context, server_hostname=server_name
            )
            writer.transport.abort()
        return said

    try:
        return await _try_nameless(destination, probe, attempted)
    except PermissionError:
        return IdentityNotProvenError(
            f"{attempted}: no permission to connect to {path}",
            hint="ask whoever runs the site to let your group in",
        )
    except FileNotFoundError:
        return UnavailableError(f"{attempted}: there is no socket {path}", hint="start the daemon")
    except OSError as fault:
        return UnavailableError(
            f"{attempted}: nothing answers at {path} ({fault.strerror})", hint="start the daemon"
        )


async def _try_nameless(destination: Destination, probe: Probe, attempted: str) -> GridError | None:
    """Where we show no certificate: is there room, and is it the site that was meant?"""
    anchor = destination.anchor
    context = None if anchor is None else _context(anchor.root_pem)
    try:
        said = await probe(context, destination.server_name)
    except ssl.SSLCertVerificationError as fault:
        return _server_problem(destination, fault, attempted)
    except (ssl.SSLError, ConnectionResetError, EOFError, TimeoutError):
        return IdentityNotProvenError(
            f"{attempted}: what answers at {destination.endpoint} does not prove that it is"
            f" {destination.site}",
            hint="it has no certificate, or an older release; ask whoever runs the site",
        )
    return refusal_in(said, attempted)


async def _first_words(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """What a server says before it is spoken to; ours does so only to turn somebody away."""
    try:
        async with asyncio.timeout(FIRST_WORDS_S):
            return await reader.read(LINE_BYTES_MAX)
    except TimeoutError:
        return b""
    finally:
        writer.transport.abort()


async def _try_tls(
    destination: Destination, credential: Credential, attempted: str
) -> GridError | None:
    host, port = split_endpoint(destination.endpoint)
    loop = asyncio.get_running_loop()
    try:
        await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as fault:
        return UnreachableError(
            f"{attempted}: the host name {host} is not known ({fault.strerror})",
            hint="check the site's address and the network",
        )
    context = _context(credential.root_pem, credential)
    try:
        reader, writer = await asyncio.open_connection(
            host, port, ssl=context, server_hostname=destination.server_name
        )
    except ssl.SSLCertVerificationError as fault:
        return _server_problem(destination, fault, attempted)
    except ssl.SSLError as fault:
        alert = _alert(credential, fault, attempted)
        return alert or await _no_tls(destination, attempted)
    except ConnectionRefusedError:
        return UnreachableError(
            f"{attempted}: nothing listens at {destination.endpoint} (connection refused)",
            hint="check the address, or ask whoever runs the site to start it",
        )
    except OSError as fault:
        return UnreachableError(
            f"{attempted}: no connection to {destination.endpoint} ({fault.strerror or fault})",
            hint="check the network",
        )
    try:
        # With TLS 1.3 the server's verdict on our certificate comes after the handshake; when it
        # is good, the first thing to come is the server's half of HTTP/2.
        if not await reader.read(1):
            raise _ClosedSilentlyError
    except ssl.SSLError as fault:
        return _alert(credential, fault, attempted)
    except OSError:
        raise _ClosedSilentlyError from None
    finally:
        # An orderly close would wait for the other side, which may never answer again.
        writer.transport.abort()
    return None


def _context(root_pem: bytes, credential: Credential | None = None) -> ssl.SSLContext:
    """For a handshake with a server that ``root_pem`` speaks for, with ``credential`` if any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=root_pem.decode())
    context.set_alpn_protocols(["h2"])
    if credential is None:
        return context
    # The library reads a key from files only. This one is its owner's alone (mode 0600) and gone at
    # once; a file in memory would do as well, but laptops are not all Linux.
    with tempfile.NamedTemporaryFile() as file:
        file.write(credential.key_pem + b"\n" + credential.cert_pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _server_problem(
    destination: Destination, fault: ssl.SSLCertVerificationError, attempted: str
) -> GridError:
    where = destination.endpoint
    if fault.verify_code == _WRONG_HOST:
        return IdentityNotProvenError(
            f"{attempted}: the certificate of {where} is of another site than {destination.site}",
            hint="check the site's address and name",
        )
    if fault.verify_code == _EXPIRED:
        return IdentityNotProvenError(
            f"{attempted}: the certificate of {where} has expired",
            hint="whoever runs the site renews it: gurd ca site",
        )
    if fault.verify_code == _NOT_YET_VALID:
        return IdentityNotProvenError(
            f"{attempted}: the certificate of {where} is not valid yet",
            hint="check this machine's clock",
        )
    return IdentityNotProvenError(
        f"{attempted}: the certificate of {where} was signed by a foreign authority",
        hint="the site belongs to another grid, or your root.pem is out of date: run `gur login`",
    )


def _alert(credential: Credential, fault: ssl.SSLError, attempted: str) -> GridError | None:
    """What the server thinks of our certificate, when it is that which it refused."""
    reason = (fault.reason or "").upper()
    if "ALERT" not in reason:
        return None
    role = role_of(credential.subject)
    why = {
        "UNKNOWN_CA": "was signed by an authority that the site does not know",
        "CERTIFICATE_EXPIRED": "has expired by the site's clock",
        "CERTIFICATE_REQUIRED": "did not arrive",
    }
    for word, text in why.items():
        if word in reason:
            return IdentityNotProvenError(
                f"{attempted}: the certificate of {credential.subject} {text}",
                hint=renewal_hint(role),
            )
    return IdentityNotProvenError(
        f"{attempted}: the site refuses the certificate of {credential.subject}"
        f" ({reason.lower().replace('_', ' ')})",
        hint=renewal_hint(role),
    )


async def _no_tls(destination: Destination, attempted: str) -> GridError:
    host, port = split_endpoint(destination.endpoint)
    with contextlib.suppress(OSError):
        said = await _first_words(*await asyncio.open_connection(host, port))
        refusal = refusal_in(said, attempted)
        if refusal is not None:
            return refusal
    return UnreachableError(
        f"{attempted}: what listens at {destination.endpoint} does not speak TLS",
        hint="check the port",
    )

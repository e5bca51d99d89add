"""The identity of a user, site or manager in the grid: one string, read from a certificate.

The *subject* is the certificate's distinguished name as Globus wrote it,
``/O=<grid>/OU=<role>/CN=<name>``, in the order of the certificate. Everything downstream
(grid-mapfile, authorisation, ledger, logs) compares this string and nothing else, so two different
names must never give the same string: a value that contains ``/`` or a control character is
refused, not escaped.

Reading is separate from trusting. The TLS handshake proves the chain and the key; this file only
tells what was proven.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

from cryptography import x509
from cryptography.x509.oid import NameOID

from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridcore.timing.instants import Instant

CERTIFICATE_SIZE_MAX = 64 * 1024
"""Bytes of one certificate file; ours are about 1000. More is an attack or a mistake."""

NAME_LENGTH_MAX = 63
"""Characters of a grid's, site's, manager's or user's name: one label of a host name, and below
X.509's 64 for a CN.
"""

# Lower case, because host names do not tell cases apart and the names of two sites must not meet in
# one.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")
_LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_ANOTHER = "get one from the grid's authority: gur login, gurd ca site"
_UNSAFE_IN_SUBJECT = re.compile(r"[/\x00-\x1f\x7f-\x9f\u2028\u2029]")

_ATTRIBUTE_NAMES = {
    NameOID.COUNTRY_NAME: "C",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.LOCALITY_NAME: "L",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.COMMON_NAME: "CN",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
    NameOID.EMAIL_ADDRESS: "emailAddress",
}


class Role(StrEnum):
    """What the holder of a certificate is; the value is the OU of its subject."""

    USER = "users"
    SITE = "sites"
    MANAGER = "managers"

    @property
    def word(self) -> str:
        """The role in the singular, as URIs and messages use it."""
        return self.value.removesuffix("s")


@dataclass(frozen=True, slots=True, kw_only=True)
class GridIdentity:
    """A name that this grid's own authority issues: which grid, in which role, under which name."""

    grid: str
    role: Role
    name: str

    def __post_init__(self) -> None:
        check_name(self.grid, what="grid")
        check_name(self.name, what=self.role.word)

    @property
    def subject(self) -> str:
        """``/O=<grid>/OU=<role>/CN=<name>``."""
        return f"/O={self.grid}/OU={self.role}/CN={self.name}"

    @property
    def uri(self) -> str:
        """``grid://<grid>/<role>/<name>``, the certificate's URI alternative name."""
        return f"grid://{self.grid}/{self.role.word}/{self.name}"

    @property
    def server_name(self) -> str:
        """The host name under which a server proves that it is *this* site or manager and not
        another one of the grid.

        Each certificate for a server carries it. A client that sets it as the expected name
        (``grpc.ssl_target_name_override``) reaches the site it means, whatever address the site has
        today, and notices when another site of the same grid answers there. ``internal`` is
        reserved for names that no public DNS knows.
        """
        return f"{self.name}.{self.role}.{self.grid}.internal"

    @classmethod
    def parse(cls, subject: str) -> GridIdentity | None:
        """The identity that ``subject`` spells, or None when it is a name of another form (another
        authority's).
        """
        return _parsed(subject)


def check_name(name: str, *, what: str) -> str:
    """``name`` itself if it may stand in a subject, a URI and a host name; else ``InputError``."""
    pattern, letters = (_LOGIN, "letters") if what == Role.USER.word else (_NAME, "small letters")
    if len(name) > NAME_LENGTH_MAX or not pattern.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} cannot be the name of a {what}",
            hint=f"use 1 to {NAME_LENGTH_MAX} {letters}, digits, '.', '-' or '_', no sign first",
        )
    return name


def role_of(subject: str) -> Role | None:
    """The role that the subject's OU states, or None for a name of another form."""
    identity = GridIdentity.parse(subject)
    return identity.role if identity else None


def read_certificate(pem_or_der: bytes) -> x509.Certificate:
    """The (first) certificate in ``pem_or_der``; anything else is an ``InputError``."""
    if len(pem_or_der) > CERTIFICATE_SIZE_MAX:
        raise InputError(f"a certificate has at most {CERTIFICATE_SIZE_MAX} bytes")
    try:
        if b"-----BEGIN" in pem_or_der:
            return x509.load_pem_x509_certificate(pem_or_der)
        return x509.load_der_x509_certificate(pem_or_der)
    except (ValueError, TypeError, x509.InvalidVersion) as fault:
        raise InputError("this is not a certificate in PEM or DER form") from fault


def subject_of(pem_or_der: bytes) -> str:
    """The grid identity in a certificate, such as ``/O=grid/OU=users/CN=kenneth``.

    It does not check who signed the certificate. Unreadable input is an ``InputError``; a name that
    cannot be told apart from another one in this notation is a ``NotAuthorisedError``.
    """
    return _subject_in(read_certificate(pem_or_der))


def subject_of_peer(auth_context: Mapping[str, Iterable[bytes] | bytes], now: Instant) -> str:
    """The grid identity that a gRPC peer proved: ``context.auth_context()`` of a servicer.

    TLS looks at a certificate's dates once, when the connection is made. A channel may stay open
    for days, so the end of a short-lived certificate is checked here again, on each call.
    ``NotAuthorisedError`` when the peer showed no certificate (a local socket or an insecure
    channel proves nothing in this way) or when it has expired since.
    """
    shown = auth_context.get("x509_pem_cert", ())
    # gRPC gives a list of them, whatever its published type stubs say.
    certificates = [shown] if isinstance(shown, bytes) else list(shown)
    if len(certificates) != 1:
        raise NotAuthorisedError(
            "the caller showed no certificate",
            hint="connect with TLS and a certificate of the grid",
        )
    subject, not_after = _proven(certificates[0])
    if now >= not_after:
        raise NotAuthorisedError(
            f"the certificate of {subject} expired at {utc_text(not_after)}",
            hint=renewal_hint(role_of(subject)),
        )
    return subject


def end_of(certificate: x509.Certificate) -> Instant:
    """The first second at which the certificate is no longer valid (X.509 counts its last second as
    valid, we do not).
    """
    return int(certificate.not_valid_after_utc.timestamp())


def hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The host names and addresses in a server's certificate, names first, without the one that
    the grid made up for it (``GridIdentity.server_name``); none for one that cannot be read.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        holder = GridIdentity.parse(_subject_in(certificate))
        hosts = [
            name
            for name in names.get_values_for_type(x509.DNSName)
            if holder is None or name != holder.server_name
        ]
        addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError, TypeError):
        return ()
    return (*hosts, *addresses)


def utc_text(instant: Instant) -> str:
    """``instant`` as ISO 8601 in UTC, for messages about certificates."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def renewal_hint(role: Role | None) -> str:
    """What the holder of an expired certificate does next."""
    if role in (Role.SITE, Role.MANAGER):
        return f"let the grid's authority renew it: gurd ca {role.word}"
    return "run `gur login`"


@lru_cache(maxsize=1024)
def _parsed(subject: str) -> GridIdentity | None:
    """Kept, because every call of a connection comes from the same subject."""
    match = re.fullmatch(r"/O=([^/]*)/OU=([^/]*)/CN=([^/]*)", subject)
    if match is None or match[2] not in list(Role):
        return None
    try:
        return GridIdentity(grid=match[1], role=Role(match[2]), name=match[3])
    except InputError:
        return None


@lru_cache(maxsize=1024)
def _proven(pem: bytes) -> tuple[str, Instant]:
    """Subject and end of a certificate; kept, because every call of a connection shows the same
    bytes.
    """
    try:
        certificate = read_certificate(pem)
    except InputError as fault:
        raise NotAuthorisedError(
            "the caller's certificate cannot be read",
            hint=_ANOTHER,
        ) from fault
    return _subject_in(certificate), end_of(certificate)


def _subject_in(certificate: x509.Certificate) -> str:
    parts: list[str] = []
    try:
        relative_names = certificate.subject.rdns
    except (ValueError, TypeError) as fault:
        raise NotAuthorisedError(
            "the certificate's subject cannot be read",
            hint=_ANOTHER,
        ) from fault
    for relative_name in relative_names:
        attributes = list(relative_name)
        label = _ATTRIBUTE_NAMES.get(attributes[0].oid)
        value = attributes[0].value
        if len(attributes) != 1 or label is None or not isinstance(value, str):
            raise NotAuthorisedError(
                "the certificate's subject has a form that this grid does not use",
                hint=_ANOTHER,
            )
        if not value or _UNSAFE_IN_SUBJECT.search(value):
            raise NotAuthorisedError(
                f"the certificate's subject has an unusable {label}: {value!r}",
                hint=_ANOTHER,
            )
        parts.append(f"/{label}={value}")
    if not parts:
        raise NotAuthorisedError(
            "the certificate names nobody: its subject is empty",
            hint=_ANOTHER,
        )
    return "".join(parts)

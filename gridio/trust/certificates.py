"""What a grid's certificates contain: building and signing them, as functions of their arguments.

No file is touched here and no clock is read; ``authority.py`` keeps the authority's folder,
``credentials.py`` the folders of those it issued to. One authority per grid signs everything
directly (path length 0): a chain of one step has no intermediate certificate that a site could
forget to install.

Keys are on the curve P-256: every TLS library of the last fifteen years knows it, and a signature
takes microseconds.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.trust.identity import GridIdentity, Role, check_name, end_of, utc_text

BACKDATING_S = 5 * 60
"""Certificates begin this long before they are made, because the verifier's clock may be behind the
authority's.
"""

ROOT_LIFETIME_S = 10 * 365 * 86_400
SERVICE_LIFETIME_S = 365 * 86_400
"""Sites and managers renew once a year, before it is urgent for all of them at once."""

USER_LIFETIME_S = 12 * 3600
"""A working day, as Globus proxies had it: a stolen laptop is harmless tomorrow, so nobody needs
revocation lists.
"""

USER_LIFETIME_MAX_S = 7 * 86_400
HOSTS_MAX = 64
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey

_HOST_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_HOST_LENGTH_MAX = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """An authority in memory: its certificate and the key that signs for it."""

    grid: str
    root: x509.Certificate
    key: PrivateKey


def new_key() -> PrivateKey:
    """A fresh private key, from the operating system's randomness."""
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: PrivateKey) -> bytes:
    """The key as unencrypted PKCS #8: daemons start without anybody to type a passphrase, the
    file's mode protects it.
    """
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def key_from_pem(pem: bytes) -> PrivateKey:
    """The private key in ``pem``; anything but a plain key on P-256 is an ``InputError``."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as fault:
        raise InputError("this is not an unencrypted private key in PEM form") from fault
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise InputError("this private key is not on the curve P-256, which the grid uses")
    return key


def certificate_to_pem(certificate: x509.Certificate) -> bytes:
    """The certificate in PEM form."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def build_root(grid: str, key: PrivateKey, *, serial: int, now: Instant) -> x509.Certificate:
    """The self-signed ``/O=<grid>/CN=<grid> CA``; the same name with the same key renews it."""
    check_name(grid, what="grid")
    name = _name([(NameOID.ORGANIZATION_NAME, grid), (NameOID.COMMON_NAME, f"{grid} CA")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(_moment(now - BACKDATING_S))
        .not_valid_after(_moment(now + ROOT_LIFETIME_S))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )


def build_certificate(
    signer: Signer,
    identity: GridIdentity,
    public_key: PublicKey,
    *,
    hosts: Sequence[str] = (),
    lifetime_s: int,
    serial: int,
    now: Instant,
) -> x509.Certificate:
    """A certificate for ``identity``, signed by ``signer`` and valid for ``lifetime_s`` from
    ``now``.

    Users may only act as clients. Sites and managers are both, because each also calls the manager
    above it; ``hosts`` are the host names and addresses at which they will be reached, beside
    ``identity.server_name``. The certificate never outlives the authority's own, so look at its end
    when that matters.
    """
    if identity.grid != signer.grid:
        raise InputError(
            f"the authority of {signer.grid} cannot speak for the grid {identity.grid}"
        )
    root_end = end_of(signer.root)
    if now >= root_end:
        raise InputError(
            f"the authority of {signer.grid} itself expired at {utc_text(root_end)}",
            hint="renew it with `gurd ca init` and hand out the new root.pem",
        )
    if lifetime_s <= 0:
        raise InputError(f"a certificate must be valid for some time, not for {lifetime_s} s")
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if identity.role is not Role.USER:
        usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
    return (
        x509.CertificateBuilder()
        .subject_name(_subject_name(identity))
        .issuer_name(signer.root.subject)
        .public_key(public_key)
        .serial_number(serial)
        .not_valid_before(_moment(now - BACKDATING_S))
        .not_valid_after(_moment(min(now + lifetime_s, root_end)))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_alternative_names(identity, hosts), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()),
            critical=False,
        )
        .sign(signer.key, hashes.SHA256())
    )


def fingerprint(certificate: x509.Certificate) -> str:
    """The SHA-256 of the certificate in hexadecimal, a colon after each byte, to be compared by
    people.
    """
    return certificate.fingerprint(hashes.SHA256()).hex(":")


def _alternative_names(identity: GridIdentity, hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity.uri)]
    if identity.role is Role.USER:
        if hosts:
            raise InputError("a user's certificate names no hosts: users do not serve")
        return x509.SubjectAlternativeName(names)
    if len(hosts) > HOSTS_MAX:
        raise InputError(f"a certificate names at most {HOSTS_MAX} hosts, not {len(hosts)}")
    names.append(x509.DNSName(identity.server_name))
    names.extend(_host_name(host) for host in dict.fromkeys(hosts))
    return x509.SubjectAlternativeName(names)


def _host_name(host: str) -> x509.GeneralName:
    """``host`` as an address when it is one, else as a plain host name; no wildcards: a site knows
    its hosts.
    """
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        labels = host.split(".")
    # Four numbers that are no address are a typing error, not the name of a host.
    is_host_name = all(_HOST_LABEL.fullmatch(label) for label in labels)
    if not is_host_name or len(host) > _HOST_LENGTH_MAX or labels[-1].isdigit():
        raise InputError(
            f"{host[:80]!r} is neither a host name nor an address",
            hint="give --host grid.example.org or --host 192.0.2.7, without a port",
        ) from None
    return x509.DNSName(host)


def _subject_name(identity: GridIdentity) -> x509.Name:
    return _name(
        [
            (NameOID.ORGANIZATION_NAME, identity.grid),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, identity.role.value),
            (NameOID.COMMON_NAME, identity.name),
        ]
    )


def _name(attributes: Sequence[tuple[x509.ObjectIdentifier, str]]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])


def _moment(instant: Instant) -> datetime:
    return datetime.fromtimestamp(instant, UTC)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

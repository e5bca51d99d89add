"""What a daemon or a user holds to prove who they are: a folder with ``root.pem``, ``cert.pem`` and
``key.pem``.

Loading says whether the files are there and safe; checking says whether the other side will accept
them, and why not, which a TLS library says late and in words of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID

from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.system.private_files import read_bounded
from gridtravel.gridio.trust.certificates import key_from_pem
from gridtravel.gridio.trust.identity import (
    CERTIFICATE_SIZE_MAX,
    end_of,
    read_certificate,
    renewal_hint,
    role_of,
    subject_of,
    utc_text,
)

ROOT_FILE = "root.pem"
CERTIFICATE_FILE = "cert.pem"
KEY_FILE = "key.pem"

KEY_MODE_FORBIDDEN = 0o037
"""Bits that no key file may have: others may do nothing, its group may read (a daemon's group) but
not write.
"""

UNUSABLE = (
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
    UnsupportedAlgorithm,
    ValueError,
    TypeError,
)
"""What the parser raises for a certificate that is well-formed at first sight: it reads each part
when asked for it.
"""


class Usage(Enum):
    """What a credential is about to be used for."""

    CLIENT = "client"
    SERVER = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A certificate, its private key, and the root certificates its holder believes; all PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)
    root_pem: bytes

    @property
    def subject(self) -> str:
        """The grid identity of the holder."""
        return subject_of(self.cert_pem)

    @property
    def not_after(self) -> Instant:
        """The first second at which the certificate is no longer valid."""
        return end_of(read_certificate(self.cert_pem))


def load_credential(folder: Path, usage: Usage = Usage.CLIENT) -> Credential:
    """Read a credential folder. ``NotAuthorisedError``, with what to do: a file that is missing,
    cannot be read, is too large, or is a key that others may read.
    """
    if not folder.is_dir():
        raise NotAuthorisedError(f"there is no credential at {folder}", hint=_renewal(usage))
    key_path = folder / KEY_FILE
    with _not_authorised(usage):
        credential = Credential(
            cert_pem=_read(folder / CERTIFICATE_FILE, "certificate"),
            key_pem=_read(key_path, "private key"),
            root_pem=_read(folder / ROOT_FILE, "root certificate"),
        )
    mode = key_path.stat().st_mode & 0o777
    if mode & KEY_MODE_FORBIDDEN:
        raise NotAuthorisedError(
            f"the private key {key_path} is open to others (mode {mode:04o})",
            hint=f"run `chmod 600 {key_path}`, and renew it if somebody may have read it",
        )
    return credential


def check_credential(
    credential: Credential, now: Instant, usage: Usage = Usage.CLIENT
) -> list[NotAuthorisedError]:
    """Everything that would make the other side refuse ``credential``, the most telling first;
    empty when it is good.

    Each is a ``NotAuthorisedError``, be it files that are wrong in themselves or good files that do
    not authorise: expired, not yet valid, signed by another authority, issued for another use.
    """
    try:
        with _not_authorised(usage):
            certificate = read_certificate(credential.cert_pem)
            subject = subject_of(credential.cert_pem)
            roots = read_roots(credential.root_pem)
    except NotAuthorisedError as fault:
        return [fault]
    problems: list[NotAuthorisedError] = []
    problems.extend(_key_problems(credential, certificate, subject, usage))
    problems.extend(certificate_problems(certificate, subject, roots, now, usage))
    return problems


def certificate_problems(
    certificate: x509.Certificate,
    subject: str,
    roots: Sequence[x509.Certificate],
    now: Instant,
    usage: Usage,
) -> list[NotAuthorisedError]:
    """What is wrong with anybody's certificate at ``now`` for those who believe ``roots``: its
    dates, who signed it, what it was issued for.
    """
    problems: list[NotAuthorisedError] = []
    problems.extend(_date_problems(certificate, subject, now))
    problems.extend(_root_problems(certificate, roots, subject, now))
    if not _serves(certificate, usage):
        problems.append(
            NotAuthorisedError(
                f"the certificate of {subject} was not issued for use as a {usage.value}",
                hint="a site or manager needs its own: gurd ca site, gurd ca manager"
                if usage is Usage.SERVER
                else "ask the grid's authority for another one",
            )
        )
    return problems


def require_credential(
    credential: Credential, now: Instant, usage: Usage = Usage.CLIENT
) -> Credential:
    """``credential`` itself when nothing is wrong with it; else the first problem is raised."""
    for problem in check_credential(credential, now, usage):
        raise problem
    return credential


def read_roots(root_pem: bytes) -> Sequence[x509.Certificate]:
    """The root certificates in ``root_pem``: one, or two while an authority changes its key."""
    if len(root_pem) > CERTIFICATE_SIZE_MAX:
        raise InputError(f"{ROOT_FILE} has at most {CERTIFICATE_SIZE_MAX} bytes")
    try:
        return x509.load_pem_x509_certificates(root_pem)
    except UNUSABLE as fault:
        raise InputError(
            f"{ROOT_FILE} holds no certificate in PEM form", hint="copy it from the authority again"
        ) from fault


def _read(path: Path, what: str) -> bytes:
    return read_bounded(path, size_max=CERTIFICATE_SIZE_MAX, what=what)


@contextmanager
def _not_authorised(usage: Usage) -> Iterator[None]:
    """Within it, what is wrong with a file means that its holder can prove nothing."""
    try:
        yield
    except InputError as fault:
        hint = fault.hint or _renewal(usage)
        raise NotAuthorisedError(f"the credential is broken: {fault.message}", hint=hint) from fault


def _renewal(usage: Usage) -> str:
    """How to come by a credential."""
    if usage is Usage.SERVER:
        return "let the grid's authority issue it: gurd ca site, or gurd ca manager"
    return "run `gur login`, or ask whoever runs the grid's authority"


def _key_problems(
    credential: Credential, certificate: x509.Certificate, subject: str, usage: Usage
) -> list[NotAuthorisedError]:
    try:
        with _not_authorised(usage):
            key = key_from_pem(credential.key_pem)
    except NotAuthorisedError as fault:
        return [fault]
    try:
        if key.public_key() == certificate.public_key():
            return []
    except UNUSABLE:
        return [
            NotAuthorisedError(
                "the certificate's public key is of a kind that the grid does not use",
                hint=_renewal(usage),
            )
        ]
    return [
        NotAuthorisedError(
            f"the private key does not belong to the certificate of {subject}",
            hint=f"the folder mixes two credentials; {renewal_hint(role_of(subject))}",
        )
    ]


def _date_problems(
    certificate: x509.Certificate, subject: str, now: Instant
) -> list[NotAuthorisedError]:
    begin = int(certificate.not_valid_before_utc.timestamp())
    end = end_of(certificate)
    if now >= end:
        return [
            NotAuthorisedError(
                f"the certificate of {subject} expired at {utc_text(end)}",
                hint=renewal_hint(role_of(subject)),
            )
        ]
    if now < begin:
        return [
            NotAuthorisedError(
                f"the certificate of {subject} is not valid before {utc_text(begin)}",
                hint=f"set this machine's clock: it says {utc_text(now)}",
            )
        ]
    return []


def _root_problems(
    certificate: x509.Certificate,
    roots: Sequence[x509.Certificate],
    subject: str,
    now: Instant,
) -> list[NotAuthorisedError]:
    issuers = [root for root in roots if _is_authority(root) and _has_signed(root, certificate)]
    if not issuers:
        issuer = _issuer(certificate)
        return [
            NotAuthorisedError(
                f"the certificate of {subject} was signed by a foreign authority{issuer}",
                hint=f"get one from the authority in {ROOT_FILE}, or its {ROOT_FILE}",
            )
        ]
    end = max(end_of(root) for root in issuers)
    if now >= end:
        return [
            NotAuthorisedError(
                f"the grid's authority, which signed the certificate of {subject}, "
                f"expired at {utc_text(end)}",
                hint=f"ask whoever runs the grid for the new {ROOT_FILE}",
            )
        ]
    return []


def _issuer(certificate: x509.Certificate) -> str:
    """Who claims to have signed: printable and bounded, for the name may be anything."""
    try:
        name = certificate.issuer.rfc4514_string()
    except UNUSABLE:
        return ""
    return f" ({''.join(sign for sign in name[:200] if sign.isprintable())})"


def _is_authority(root: x509.Certificate) -> bool:
    try:
        return root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except UNUSABLE:
        return False


def _has_signed(root: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(root)
    except (*UNUSABLE, InvalidSignature):
        return False
    return True


def _serves(certificate: x509.Certificate, usage: Usage) -> bool:
    wanted = {
        Usage.CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH,
        Usage.SERVER: ExtendedKeyUsageOID.SERVER_AUTH,
    }[usage]
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except UNUSABLE:
        return False
    return wanted in usages

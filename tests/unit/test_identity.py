from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridio.trust.certificates import new_key
from gridtravel.gridio.trust.identity import (
    GridIdentity,
    Role,
    read_certificate,
    role_of,
    subject_of,
    subject_of_peer,
)
from tests.support.certificate_scenes import NOW, a_site, a_user, an_authority


def _self_signed(name: x509.Name) -> bytes:
    key = new_key()
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.fromtimestamp(NOW, UTC))
        .not_valid_after(datetime.fromtimestamp(NOW + 60, UTC))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def _common_name(text: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.COMMON_NAME, text)


def test_subject_is_the_name_in_the_order_of_the_certificate(tmp_path: Path) -> None:
    """PEM and DER of one certificate give the same Globus-style string, and its OU is the role."""
    authority = an_authority(tmp_path)
    manager = authority.issue_manager("north", tmp_path / "north", NOW, hosts=["localhost"])
    pems = [
        one.cert_pem for one in (a_user(authority, tmp_path), a_site(authority, tmp_path), manager)
    ]
    assert [subject_of(pem) for pem in pems] == [
        "/O=grid/OU=users/CN=kenneth",
        "/O=grid/OU=sites/CN=sdsc",
        "/O=grid/OU=managers/CN=north",
    ]
    assert [role_of(subject_of(pem)) for pem in pems] == [Role.USER, Role.SITE, Role.MANAGER]
    der = read_certificate(pems[0]).public_bytes(serialization.Encoding.DER)
    assert subject_of(der) == subject_of(pems[0])


def test_foreign_names_keep_their_order_and_have_no_role() -> None:
    """Another authority's name is readable too; it just is not one of ours."""
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "org"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Old Grid"),
            _common_name("Kenneth Y."),
        ]
    )
    subject = subject_of(_self_signed(name))
    assert subject == "/DC=org/O=Old Grid/CN=Kenneth Y."
    assert role_of(subject) is None


@pytest.mark.parametrize(
    "name",
    [
        x509.Name([_common_name("x/OU=managers")]),
        x509.Name([_common_name("a\nb")]),
        x509.Name([x509.RelativeDistinguishedName([_common_name("a"), _common_name("b")])]),
        x509.Name([x509.NameAttribute(NameOID.SERIAL_NUMBER, "7")]),
        x509.Name([]),
    ],
    ids=["slash", "control", "multi-valued", "unknown-attribute", "empty"],
)
def test_names_that_two_holders_could_share_are_refused(name: x509.Name) -> None:
    """Two different names never give one string: what the notation cannot tell apart is refused."""
    with pytest.raises(NotAuthorisedError):
        subject_of(_self_signed(name))


def test_peer_is_read_from_the_channel_and_expires_during_it(tmp_path: Path) -> None:
    """TLS checks dates once; a channel that stays open past the certificate's end is refused."""
    user = a_user(an_authority(tmp_path), tmp_path)
    context = {"transport_security_type": [b"ssl"], "x509_pem_cert": [user.cert_pem]}
    assert subject_of_peer(context, NOW) == "/O=grid/OU=users/CN=kenneth"
    assert subject_of_peer(context, user.not_after - 1) == "/O=grid/OU=users/CN=kenneth"
    with pytest.raises(NotAuthorisedError, match=r"expired at .* \(run `gur login`\)"):
        subject_of_peer(context, user.not_after)


@pytest.mark.parametrize("certificates", [[], [b"garbage"], [b"a", b"b"]])
def test_a_peer_without_one_readable_certificate_is_nobody(certificates: list[bytes]) -> None:
    """No certificate, two of them or an unreadable one all mean: not authorised."""
    with pytest.raises(NotAuthorisedError):
        subject_of_peer({"x509_pem_cert": certificates}, NOW)


def test_unreadable_certificates_are_input_errors() -> None:
    """Text that is no certificate, and more than a certificate can be, are told as such."""
    for content in (b"", b"hello", b"x" * 100_000):
        with pytest.raises(InputError):
            read_certificate(content)


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "/O=grid/OU=users",
        "/O=grid/OU=users/CN=a/CN=b",
        "/O=grid/OU=wizards/CN=a",
        "/CN=a/OU=users/O=grid",
        "/O=grid/OU=users/CN=",
        "/O=grid/OU=users/CN=a\n",
    ],
)
def test_only_our_own_form_is_an_identity(subject: str) -> None:
    """A subject has a role only in exactly the form that this grid's authority issues."""
    assert GridIdentity.parse(subject) is None

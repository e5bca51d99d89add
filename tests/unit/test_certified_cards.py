"""Cards under certificates: whose may sign one, and what a lying holder makes of his own key."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from gridtravel.gridcore.booking.reservations import CARD_LENGTH_MAX
from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.trust.cards import DOMAIN, CertifiedCards, issue_card
from gridtravel.gridio.trust.certificates import key_from_pem
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.identity import read_certificate
from tests.support.certificate_scenes import HOUR_S, NOW, a_site, a_user, an_authority

WHERE = "grid.example.org:7101"
GOOD: dict[str, Any] = {"endpoint": WHERE, "issued_at": NOW, "site": "sdsc"}


def signed(credential: Credential, statement: bytes, *, domain: bytes = DOMAIN) -> str:
    """A card as its holder likes it: everything that the holder's own key can do."""
    der = read_certificate(credential.cert_pem).public_bytes(Encoding.DER)
    said = b"".join(len(part).to_bytes(4, "big") + part for part in (domain, statement, der))
    signature = key_from_pem(credential.key_pem).sign(said, ec.ECDSA(hashes.SHA256()))
    parts = (
        base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (statement, der, signature)
    )
    return ".".join(["card1", *parts])


def saying(credential: Credential, **changes: Any) -> str:
    """The good statement with these changes."""
    return signed(credential, json.dumps({**GOOD, **changes}).encode())


@pytest.fixture
def sdsc(tmp_path: Path) -> Credential:
    """A site."""
    return a_site(an_authority(tmp_path), tmp_path)


def test_a_holder_signs_as_the_library_does(sdsc: Credential) -> None:
    """The tests below say what they mean."""
    assert CertifiedCards(sdsc).verify(saying(sdsc), "sdsc").endpoint == WHERE


def test_a_user_has_no_card(tmp_path: Path, sdsc: Credential) -> None:
    """Neither by asking for one nor by signing one, under a login that is a site's name too."""
    user = a_user(an_authority(tmp_path), tmp_path, login="sdsc2")
    with pytest.raises(InputError, match="no site"):
        issue_card(user, WHERE, NOW)
    with pytest.raises(InputError, match="no site of the grid"):
        CertifiedCards(sdsc).verify(saying(user, site="sdsc2"), "sdsc2")


def test_a_manager_has_no_card(tmp_path: Path, sdsc: Credential) -> None:
    """Sites prove to each other that they are sites."""
    north = an_authority(tmp_path).issue_manager("north", tmp_path / "north", NOW, hosts=["h"])
    with pytest.raises(InputError, match="no site of the grid"):
        CertifiedCards(sdsc).verify(saying(north, site="north"), "north")


def test_a_site_cannot_speak_for_another(tmp_path: Path, sdsc: Credential) -> None:
    """Its own certificate says who it is, whatever it signs."""
    ncsa = a_site(an_authority(tmp_path), tmp_path, name="ncsa")
    for name in ("sdsc", "ncsa"):
        with pytest.raises(InputError):
            CertifiedCards(sdsc).verify(saying(ncsa), name)


def test_what_a_key_signed_for_another_purpose_is_no_card(sdsc: Credential) -> None:
    """The domain is part of what is signed."""
    card = signed(sdsc, json.dumps(GOOD).encode(), domain=b"another protocol")
    with pytest.raises(InputError, match="not signed"):
        CertifiedCards(sdsc).verify(card, "sdsc")


@pytest.mark.parametrize(
    "changes",
    [
        {"endpoint": "unix:/run/other.sock"},
        {"endpoint": 7},
        {"issued_at": "1"},
        {"issued_at": True},
        {"issued_at": -1},
        {"issued_at": 10**30},
        {"issued_at": NOW - HOUR_S},
        {"issued_at": NOW + 400 * 86_400},
        {"site": None},
        {"site": "a\nb"},
    ],
)
def test_a_lying_site_says_nothing_that_is_taken(sdsc: Credential, changes: dict[str, Any]) -> None:
    """Only an address, and a time at which its certificate was valid."""
    with pytest.raises(InputError):
        CertifiedCards(sdsc).verify(saying(sdsc, **changes), "sdsc")


@pytest.mark.parametrize("statement", [b"[]", b"{", b"\xff", b"[" * 3_000, b"null"])
def test_a_statement_that_is_none(sdsc: Credential, statement: bytes) -> None:
    """Signed, and nothing that could be read."""
    with pytest.raises(InputError):
        CertifiedCards(sdsc).verify(signed(sdsc, statement), "sdsc")


def test_a_card_that_was_taken_outlives_its_certificate(tmp_path: Path) -> None:
    """A trip is booked months ahead, and the site has another certificate by then, of the same key:
    what it said under the old one was said by it.
    """
    authority = an_authority(tmp_path)
    old = issue_card(a_site(authority, tmp_path), WHERE, NOW)
    later = NOW + 300 * 86_400
    renewed = a_site(authority, tmp_path, now=later)
    cards = CertifiedCards(renewed)
    assert cards.verify(old, "sdsc").endpoint == WHERE
    newer = issue_card(renewed, WHERE, later)
    assert cards.verify(newer, "sdsc").not_after > cards.verify(old, "sdsc").not_after


def test_a_card_that_nobody_would_read_is_not_made(tmp_path: Path) -> None:
    """A certificate with very many long names."""
    hosts = [f"{'h' * 60}.{'d' * 60}.{number}.example.org" for number in range(64)]
    site = an_authority(tmp_path).issue_site("wide", tmp_path / "wide", NOW, hosts=hosts)
    with pytest.raises(InputError, match=f"{CARD_LENGTH_MAX} is the most"):
        issue_card(site, WHERE, NOW)

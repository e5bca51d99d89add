"""A site's card: its name and where other sites reach it, in its own words and under its signature.

Sites ask each other about trips that users bring them. What a user writes is no reason to connect
anywhere: a site goes only where another site of the grid has said, by its certificate, that it is.
A card is such a word, carried by the traveller. It holds no secret and grants nothing; who answers
at its address still proves itself by TLS.

On the wire and in journals a card is one line of ASCII, four parts with a dot between them::

    card1.<statement>.<certificate>.<signature>        each part in base64url without padding

The statement is JSON (``site``, ``endpoint``, ``issued_at``), the certificate DER. The signature is
ECDSA over SHA-256 of a domain (so that it can never be taken for anything else that the key has
signed), the statement and the certificate, each with its length before it.

``SharedKeyCards`` is the twin of ``CertifiedCards`` for grids that live in one process, where
nobody has certificates.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gridtravel.gridcore.booking.reservations import CARD_LENGTH_MAX, check_id
from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.trust.certificates import key_from_pem
from gridtravel.gridio.trust.credentials import (
    UNUSABLE,
    Credential,
    Usage,
    certificate_problems,
    read_roots,
)
from gridtravel.gridio.trust.identity import (
    GridIdentity,
    Role,
    end_of,
    read_certificate,
    subject_of,
    utc_text,
)
from gridtravel.gridio.trust.signed_parts import part_bytes, part_text, signed_bytes

FORM: Final = "card1"
DOMAIN: Final = b"gridtravel site card 1"
CARDS_KEPT: Final = 1_024
"""Verified cards that are remembered, so that a card that comes with each hold costs no arithmetic;
more than a grid has sites.
"""
ENDPOINT_LENGTH_MAX: Final = 300
_ENDPOINT: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>[0-9]{1,5})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCard:
    """What a card says, once it is known to be true that the site says so."""

    site: str
    """As in its certificate."""
    endpoint: str
    """``host:port``; a plain name or address, so that it never leads to a local socket."""
    issued_at: Instant
    """On the site's clock. Of two cards of one site the later holds."""
    not_after: Instant
    """The first second at which the certificate behind it is no longer valid. A card is not taken
    from then on; one that was taken before stays good, for a trip may be booked months ahead and
    sites renew their certificates meanwhile.
    """

    def __post_init__(self) -> None:
        check_id("site", self.site)
        check_endpoint(self.endpoint)
        if not 0 <= self.issued_at < self.not_after:
            raise InputError(f"a card of {self.site} was issued when its certificate was over")

    def require_valid(self, now: Instant) -> None:
        """``InputError`` when the certificate behind the card is over."""
        if now >= self.not_after:
            raise InputError(
                f"the card of {self.site} is void: its certificate expired at"
                f" {utc_text(self.not_after)}",
                hint="ask the site for its card again, once it has a new certificate",
            )


class CardVerifier(Protocol):
    """Tells what a card says, or that it is none."""

    def verify(self, card: str, site: str) -> SiteCard:
        """What ``site`` says of itself in ``card``. ``InputError`` when it is no card, is not
        signed by a *site* of this grid, or speaks of another site. Whether its certificate is still
        valid is for ``SiteCard.require_valid``.
        """
        ...


def check_endpoint(endpoint: str) -> str:
    """``endpoint`` when it is ``host:port`` and nothing else; ``InputError``."""
    match = _ENDPOINT.fullmatch(endpoint) if len(endpoint) <= ENDPOINT_LENGTH_MAX else None
    if match is None or not 1 <= int(match["port"]) <= 65_535:
        raise InputError(
            f"{endpoint[:80]!r} is no address where other sites could reach a site",
            hint="write host:port, for example grid.example.org:7101",
        )
    return endpoint


# -- cards under certificates ----------------------------------------------------------------------


def issue_card(credential: Credential, endpoint: str, now: Instant) -> str:
    """The card of the site that holds ``credential``: it is reached at ``endpoint``. ``InputError``
    for a holder that is no site, an address that is none, and a certificate with so many names that
    the card would be longer than anybody reads.
    """
    holder = GridIdentity.parse(credential.subject)
    if holder is None or holder.role is not Role.SITE:
        raise InputError(f"{credential.subject} is no site of a grid and has no card")
    certificate = read_certificate(credential.cert_pem)
    SiteCard(
        site=holder.name, endpoint=endpoint, issued_at=now, not_after=end_of(certificate)
    )  # refuses what nobody would take
    statement = json.dumps({"endpoint": endpoint, "issued_at": now, "site": holder.name}).encode()
    der = certificate.public_bytes(serialization.Encoding.DER)
    key = key_from_pem(credential.key_pem)
    signature = key.sign(signed_bytes(DOMAIN, statement, der), ec.ECDSA(hashes.SHA256()))
    card = ".".join([FORM, *(part_text(part) for part in (statement, der, signature))])
    if len(card) > CARD_LENGTH_MAX:
        raise InputError(
            f"the card of {holder.name} would have {len(card)} characters, {CARD_LENGTH_MAX} is"
            " the most that other sites read",
            hint="let the grid's authority issue a certificate with fewer host names",
        )
    return card


class CertifiedCards:
    """The cards of one grid, by what its authority has signed."""

    def __init__(self, credential: Credential) -> None:
        """``credential``: of the verifier, whose grid and authority are those of the cards."""
        holder = GridIdentity.parse(credential.subject)
        if holder is None:
            raise InputError(f"{credential.subject} does not say which grid it belongs to")
        self._grid = holder.grid
        self._roots: Sequence[x509.Certificate] = read_roots(credential.root_pem)
        self._known = lru_cache(maxsize=CARDS_KEPT)(self._read)

    def verify(self, card: str, site: str) -> SiteCard:
        """See ``CardVerifier``."""
        return _of(self._known(_bounded(card, site)), site)

    def _read(self, card: str) -> SiteCard:
        parts = card.split(".")
        if len(parts) != 4 or parts[0] != FORM:
            _refuse("it has not the form of a card")
        statement, der, signature = (_part(part) for part in parts[1:])
        try:
            certificate = read_certificate(der)
            subject = subject_of(der)
            key = certificate.public_key()
        except (GridError, *UNUSABLE) as fault:
            raise InputError("a card does not hold: its certificate cannot be read") from fault
        holder = GridIdentity.parse(subject)
        if holder is None or holder.role is not Role.SITE or holder.grid != self._grid:
            _refuse(f"{subject} is no site of the grid {self._grid}")
        if not isinstance(key, ec.EllipticCurvePublicKey):
            _refuse("its certificate has a key of a kind that this grid does not use")
        try:
            key.verify(signature, signed_bytes(DOMAIN, statement, der), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            _refuse(f"it is not signed by {subject}")
        said = _statement(statement, end_of(certificate))
        if said.site != holder.name:
            _refuse(f"{subject} speaks in it for {said.site}")
        for problem in certificate_problems(
            certificate, subject, self._roots, said.issued_at, Usage.SERVER
        ):
            raise InputError(f"a card does not hold: {problem.message}") from problem
        return said


# -- cards of a grid within one process ------------------------------------------------------------


class SharedKeyCards:
    """The same for a grid within one process, whose sites have no certificates: one secret stands
    for the authority, and whoever has this object may issue for any site.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def issue(
        self, site: str, endpoint: str, now: Instant, *, lifetime_s: int = 365 * 86_400
    ) -> str:
        """The card of ``site``; ``lifetime_s`` is what is left of the certificate it stands for."""
        card = SiteCard(site=site, endpoint=endpoint, issued_at=now, not_after=now + lifetime_s)
        words = {"endpoint": endpoint, "issued_at": now, "site": site}
        statement = json.dumps(words).encode()
        until = str(card.not_after).encode()
        signature = self._signature(statement, until)
        return ".".join([FORM, *(part_text(part) for part in (statement, until, signature))])

    def verify(self, card: str, site: str) -> SiteCard:
        """See ``CardVerifier``."""
        parts = _bounded(card, site).split(".")
        if len(parts) != 4 or parts[0] != FORM:
            _refuse("it has not the form of a card")
        statement, until, signature = (_part(part) for part in parts[1:])
        if not hmac.compare_digest(signature, self._signature(statement, until)):
            _refuse("it is not signed in this grid")
        return _of(_statement(statement, int(until)), site)

    def _signature(self, statement: bytes, until: bytes) -> bytes:
        return hmac.digest(self._secret, signed_bytes(DOMAIN, statement, until), hashlib.sha256)


# -- inside ----------------------------------------------------------------------------------------


def _bounded(card: str, site: str) -> str:
    """``card`` itself, unless it is none, or too long to be looked at."""
    if not card:
        _refuse(f"there is none of {site}")
    if len(card) > CARD_LENGTH_MAX:
        _refuse(f"it has {len(card)} characters, {CARD_LENGTH_MAX} is the most")
    return card


def _of(card: SiteCard, site: str) -> SiteCard:
    if card.site != site:
        _refuse(f"{card.site} speaks in it, not {site[:80]}")
    return card


def _statement(statement: bytes, not_after: Instant) -> SiteCard:
    try:
        match json.loads(statement):
            case {"site": str(site), "endpoint": str(endpoint), "issued_at": issued_at} if (
                type(issued_at) is int
            ):
                return SiteCard(
                    site=site, endpoint=endpoint, issued_at=issued_at, not_after=not_after
                )
    except (ValueError, RecursionError) as fault:
        raise InputError("a card does not hold: its statement is not JSON") from fault
    _refuse("its statement says something else")


def _part(text: str) -> bytes:
    found = part_bytes(text)
    if found is None:
        _refuse("it has not the form of a card")
    return found


def _refuse(why: str) -> NoReturn:
    raise InputError(
        f"a card does not hold: {why}", hint="ask the site for its card again, and pass it on whole"
    )

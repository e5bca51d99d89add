"""Quotes under a site's signature, and back.

On the wire a quote is one line of ASCII, opaque to all but its site::

    quote1.<statement>.<signature>        each part in base64url without padding

The statement is JSON with the fields of ``Quote``. The signature is ECDSA over SHA-256 of a domain
of its own and the statement, by the key of the site's credential. The site reads it with the same
key: no certificate travels with it, and a quote ends with the key that signed it.
``SharedKeyQuotes`` is the twin for sites within one process, which have no certificates.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from gridtravel.gridcore.booking.quotes import Quote
from gridtravel.gridcore.booking.reservations import QUOTE_LENGTH_MAX
from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.trust.certificates import key_from_pem
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.signed_parts import part_bytes, part_text, signed_bytes

FORM: Final = "quote1"
DOMAIN: Final = b"gridtravel quote 1"
_NUMBERS: Final = frozenset(
    each.name for each in dataclasses.fields(Quote) if str(each.type) in ("int", "Instant")
)
_FIELDS: Final = frozenset(each.name for each in dataclasses.fields(Quote))


class QuoteSigner(Protocol):
    """Makes quotes of one site, and knows its own again."""

    def sign(self, quote: Quote) -> str:
        """The line for ``quote``; empty where it would be longer than anybody reads."""
        ...

    def read(self, text: str) -> Quote:
        """What was signed here; ``InputError`` for anything else."""
        ...


class CertifiedQuotes:
    """The quotes of the site that holds a credential."""

    def __init__(self, credential: Credential) -> None:
        self._key = key_from_pem(credential.key_pem)

    def sign(self, quote: Quote) -> str:
        """See ``QuoteSigner``."""
        statement = _statement(quote)
        signature = self._key.sign(signed_bytes(DOMAIN, statement), ec.ECDSA(hashes.SHA256()))
        return _line(statement, signature)

    def read(self, text: str) -> Quote:
        """See ``QuoteSigner``."""
        statement, signature = _parts(text)
        try:
            self._key.public_key().verify(
                signature, signed_bytes(DOMAIN, statement), ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature:
            raise InputError("it is not signed by this site") from None
        return _quote(statement)


class SharedKeyQuotes:
    """The same with a secret instead of a credential."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, quote: Quote) -> str:
        """See ``QuoteSigner``."""
        statement = _statement(quote)
        return _line(statement, self._signature(statement))

    def read(self, text: str) -> Quote:
        """See ``QuoteSigner``."""
        statement, signature = _parts(text)
        if not hmac.compare_digest(signature, self._signature(statement)):
            raise InputError("it is not signed by this site")
        return _quote(statement)

    def _signature(self, statement: bytes) -> bytes:
        return hmac.digest(self._secret, signed_bytes(DOMAIN, statement), hashlib.sha256)


def _statement(quote: Quote) -> bytes:
    fields = {each: getattr(quote, each) for each in sorted(_FIELDS)}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _line(statement: bytes, signature: bytes) -> str:
    line = ".".join((FORM, part_text(statement), part_text(signature)))
    return line if len(line) <= QUOTE_LENGTH_MAX else ""


def _parts(text: str) -> tuple[bytes, bytes]:
    if len(text) > QUOTE_LENGTH_MAX:
        raise InputError(f"it has {len(text)} characters, {QUOTE_LENGTH_MAX} is the most")
    words = text.split(".")
    parts = [part_bytes(word) for word in words[1:]]
    match parts:
        case [bytes(statement), bytes(signature)] if words[0] == FORM:
            return statement, signature
    raise InputError("it has not the form of a quote")


def _quote(statement: bytes) -> Quote:
    """The fields of a statement whose signature holds; a release of another time may have written
    others.
    """
    try:
        said = json.loads(statement)
    except (ValueError, RecursionError):
        said = None
    if type(said) is not dict or said.keys() != _FIELDS:
        raise InputError("its statement says something else")
    for name, value in said.items():
        if type(value) is not (int if name in _NUMBERS else str):
            raise InputError("its statement says something else")
    return Quote(**said)

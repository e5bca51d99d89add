"""What an identifier may look like, whatever it names: a request, a reservation, a trip, a site."""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Final

from gridtravel.gridcore.errors import InputError

ID_LENGTH_MAX: Final = 128
_ID_CHARACTERS: Final = frozenset(ascii_letters + digits + "._:/+-")


def check_id(what: str, value: str) -> None:
    """Refuse an identifier that is empty, too long, or not of ``[A-Za-z0-9._:/+-]``."""
    if not value or len(value) > ID_LENGTH_MAX:
        raise InputError(
            f"the {what} is missing or too long", hint=f"1 to {ID_LENGTH_MAX} characters"
        )
    if not _ID_CHARACTERS.issuperset(value):
        raise InputError(
            f"the {what} {value[:40]!r} has characters that are not allowed",
            hint="use A-Z a-z 0-9 . _ : / + -",
        )

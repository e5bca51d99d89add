"""Words under a signature as lines of text: what is signed, and how its parts are written.

Cards (``cards``) and quotes (``quotes``) are such lines: parts in base64url without padding, with a
dot between them. A domain is signed with them, so that one kind is never taken for the other.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

_PART: Final = re.compile(r"[A-Za-z0-9_-]+")


def signed_bytes(*parts: bytes) -> bytes:
    """What is signed; the lengths keep one row of parts from being read as another."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def part_text(part: bytes) -> str:
    """A part as it is written."""
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def part_bytes(text: str) -> bytes | None:
    """The reverse; ``None``: nobody has written that."""
    if not _PART.fullmatch(text):
        return None
    try:
        found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
    return found

"""Names of our things in a batch system, from which any later run finds them again.

A name is made of the id of the request it goes back to, so that the request can be undone by
whoever knows its id, also when the answer was lost and nothing was written down. Batch systems
allow few characters in a name: it carries a digest.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

from gridcore.errors import NotFoundError

RESERVATION_PREFIX: Final = "gur."
JOB_PREFIX: Final = "gurj."
TEST_PREFIX: Final = "gurt."
"""Of a reservation that was only meant to find out whether it can be made; never lives longer than
its shell, and is swept by the next one when that was killed.
"""
DIGEST_LENGTH: Final = 20

_NAME: Final = re.compile(r"gurj?\.[a-z2-7]{20}")


def reservation_name(request_id: str) -> str:
    """The name of what ``request_id`` booked or may yet book."""
    return RESERVATION_PREFIX + _digest(request_id)


def job_name(request_id: str) -> str:
    """The name of the job that ``request_id`` submitted or may yet submit."""
    return JOB_PREFIX + _digest(request_id)


def public_id(site: str, name: str) -> str:
    """The id of a thing outside of its batch system."""
    return f"{site}.{name}"


def name_of(site: str, public: str, *, prefix: str = "") -> str:
    """The name behind an id that ``public_id`` made; ``NotFoundError`` for any other id."""
    name = public.removeprefix(f"{site}.")
    if name == public or not _NAME.fullmatch(name) or not name.startswith(prefix):
        raise NotFoundError(f"{site} knows no {public[:80]!r}")
    return name


def _digest(text: str) -> str:
    """A hundred bits as letters and digits that every batch system takes."""
    whole = base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()
    return whole[:DIGEST_LENGTH]

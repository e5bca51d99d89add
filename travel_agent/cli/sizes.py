"""Sizes of files as a user writes them."""

from __future__ import annotations

import re
from typing import Final

from gridtravel.gridcore.errors import InputError

_SIZE: Final = re.compile(r"(\d{1,18}) ?(?:([kmgtp])(i?))?b?", re.ASCII | re.IGNORECASE)
_PREFIXES: Final = "kmgtp"


def parse_size(text: str) -> int:
    """Bytes: ``1500``, ``500MB`` (a thousand thousands each) or ``2GiB`` (1024 three times)."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InputError(f"no size: {text[:40]!r}", hint="say bytes, or such as 500MB, 20GB, 2TiB")
    number, prefix, binary = found.groups()
    power = _PREFIXES.index(prefix.lower()) + 1 if prefix else 0
    return int(number) * int((1024 if binary else 1000) ** power)

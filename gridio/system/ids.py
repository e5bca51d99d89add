"""The one place that makes identifiers and draws random numbers.

An id is ``<prefix>-<26 characters of base 32>``: 8 characters of time (seconds) and 18 of chance
(90 bits), so ids of one kind sort by the second in which they were made, in a listing and in a
B-tree, and cannot be guessed. Ids name things; they never grant anything: who asks is proven by the
channel.
"""

from __future__ import annotations

import random
import re
import secrets
from typing import Protocol

from gridtravel.gridio.system.clock import Clock, SystemClock

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARACTERS = 8
_CHANCE_CHARACTERS = 18
_PREFIX = re.compile(r"[a-z][a-z0-9]{0,15}")
_SERIAL_BITS = 127
"""RFC 5280 allows 20 octets for a certificate's serial and asks that it be positive; 127 bits of
chance never collide.
"""


class IdSource(Protocol):
    """Makes identifiers; production draws them from the operating system, a simulation from its
    seed.
    """

    def new_id(self, prefix: str) -> str:
        """A new identifier, such as ``trip-0v1k…``; ``prefix`` is at most 16 lower-case letters and
        digits.
        """
        ...

    def new_serial(self) -> int:
        """A new certificate serial number, positive and below 2^127."""
        ...


class RandomIds:
    """Identifiers that nobody can guess."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock if clock is not None else SystemClock()

    def new_id(self, prefix: str) -> str:
        """A new identifier that sorts by the second of its making."""
        return _format(prefix, self._clock.now(), secrets.randbits(5 * _CHANCE_CHARACTERS))

    def new_serial(self) -> int:
        """A new certificate serial number."""
        return secrets.randbits(_SERIAL_BITS) or 1


class SeededIds:
    """The same identifiers for the same seed: for simulations and tests, never for production.

    The time part counts the ids made, so that they still sort by age.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def new_id(self, prefix: str) -> str:
        """The next identifier of this seed."""
        self._count += 1
        return _format(prefix, self._count, self._random.getrandbits(5 * _CHANCE_CHARACTERS))

    def new_serial(self) -> int:
        """The next certificate serial number of this seed."""
        return self._random.getrandbits(_SERIAL_BITS) or 1


def new_id(prefix: str) -> str:
    """A new unguessable identifier, for command lines and composition roots; services take an
    ``IdSource``.
    """
    return RandomIds().new_id(prefix)


def _format(prefix: str, second: int, chance: int) -> str:
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"an id's prefix is 1 to 16 lower-case letters and digits, not {prefix!r}")
    return f"{prefix}-{_base32(second, _TIME_CHARACTERS)}{_base32(chance, _CHANCE_CHARACTERS)}"


def _base32(number: int, width: int) -> str:
    """``number`` in exactly ``width`` digits whose order as text is their order as numbers (modulo
    32^width).
    """
    digits: list[str] = []
    for _ in range(width):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))

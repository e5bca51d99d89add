"""Who gets a connection, and for how long without asking anything: the rules, without a socket.

Two doors with places of their own, so that neither can be shut through the other. At the local
socket the kernel names the login with the connection; each login has so many places, and a few more
are kept for administrators. From the network nobody is known before the TLS handshake and the first
call: until then the address counts, afterwards the certificate. ``now`` is on a clock that never
steps.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Final, TypeVar

from gridtravel.gridcore.errors import InputError

T = TypeVar("T")

DESCRIPTORS_EACH: Final = 2
"""Of a connection, at most, in the daemon and in the process that carries its bytes: both its ends.
"""
DESCRIPTORS_KEPT: Final = 512
"""For everything else in the daemon: journal, files on their way, tasks, other sites."""
HANDSHAKE_S: Final = 2.0
"""A newcomer may take the place of one who has asked nothing for so long: a handshake takes less.
"""
IPV6_SUBNET_BITS: Final = 64
"""One machine may have all addresses of such a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Connections at once; each number at least 1, ``administrators`` at least 0."""

    per_login: int = 32
    """Of one login at the local socket, SSH logins included."""
    local: int = 256
    """At the local socket."""
    administrators: int = 8
    """At the local socket beyond all others, for administrators of the site alone."""
    per_address: int = 32
    """From one address (of IPv6: one /64) that have not proven a certificate yet."""
    unproven: int = 128
    """From the network that have not proven a certificate yet."""
    per_certificate: int = 128
    """From the network with one certificate."""
    network: int = 512
    """From the network that have proven a certificate."""
    silence_s: float = 20.0
    """Seconds within which a connection has asked something, or is ended."""

    def __post_init__(self) -> None:
        for each in fields(self):
            least = 0 if each.name == "administrators" else 1
            if getattr(self, each.name) < least:
                raise InputError(f"connections: {each.name} must be at least {least}")

    @property
    def descriptors(self) -> int:
        """File descriptors that all places together take."""
        places = self.local + self.administrators + self.unproven + self.network
        return DESCRIPTORS_EACH * places

    def within(self, descriptors: int) -> ConnectionLimits:
        """The same, with fewer places where a process may have only so many descriptors."""
        left = max(descriptors - DESCRIPTORS_KEPT, descriptors // 2)
        if self.descriptors <= left:
            return self
        share = left / self.descriptors
        return replace(
            self,
            local=max(1, int(self.local * share)),
            unproven=max(1, int(self.unproven * share)),
            network=max(1, int(self.network * share)),
        )


@dataclass(slots=True, kw_only=True, eq=False)
class Guest:
    """One connection that was let in."""

    since: float
    uid: int | None = None
    """At the local socket, as the kernel says."""
    address: str = ""
    """From the network: ``network_of`` the caller's."""
    is_reserved: bool = False
    """It has a place of the administrators."""
    subject: str = ""
    """From the network: what its certificate proved; empty: nothing yet."""
    has_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why somebody is not let in, in the words that he is told."""

    reason: str
    next_step: str


@dataclass(slots=True)
class Admission:
    """Everybody who is in. Changed by ``admit_...``, ``proven`` and ``gone`` only."""

    limits: ConnectionLimits
    guests: dict[Guest, None] = field(default_factory=dict)
    """In order of their coming."""
    _local: Counter[int] = field(default_factory=Counter)
    """uid -> ordinary places."""
    _reserved: int = 0
    _addresses: Counter[str] = field(default_factory=Counter)
    """Address -> places of those who have proven nothing."""
    _certificates: Counter[str] = field(default_factory=Counter)

    def admit_local(
        self, uid: int, *, login: str, is_admin: bool, now: float
    ) -> tuple[Guest | Refused, Guest | None]:
        """Somebody at the local socket, and who has to go for him, if somebody has. An
        administrator who finds no ordinary place gets one of those that are kept.
        """
        limits = self.limits
        everybody = [each for each in self.guests if each.uid is not None and not each.has_asked]
        silent = [each for each in everybody if not each.is_reserved]
        leaves, refused = None, None
        if self._local[uid] >= limits.per_login:
            leaves = _stalest((each for each in silent if each.uid == uid), now)
            refused = Refused(
                reason=f"{login} has {self._local[uid]} connections open here, and may have no"
                " more",
                next_step="end programs of yours that keep some open, or try again later",
            )
        elif self._local.total() >= limits.local:
            leaves = _stalest(silent, now)
            refused = Refused(
                reason=f"all {limits.local} places at the local socket are taken",
                next_step="try again later, or tell whoever runs the site",
            )
        is_kept = False
        if refused is not None and leaves is None:
            if is_admin and self._reserved < limits.administrators:
                is_kept = True
            elif is_admin:
                leaves = _stalest((each for each in everybody if each.is_reserved), now)
                is_kept = leaves is not None
            if not is_kept:
                return refused, None
        guest = Guest(since=now, uid=uid, is_reserved=is_kept)
        self._come(guest, leaves)
        return guest, leaves

    def admit_from(self, address: str, now: float) -> tuple[Guest | Refused, Guest | None]:
        """Somebody from the network, and who has to go for him, if somebody has."""
        limits = self.limits
        network = network_of(address)
        unproven = [each for each in self.guests if each.uid is None and not each.subject]
        leaves, refused = None, None
        if self._addresses[network] >= limits.per_address:
            leaves = _stalest((each for each in unproven if each.address == network), now)
            refused = Refused(
                reason=f"{network} has {self._addresses[network]} connections open here that have"
                " proven nothing, and may have no more",
                next_step="try again in some seconds",
            )
        elif len(unproven) >= limits.unproven:
            leaves = _stalest(unproven, now)
            refused = Refused(
                reason="too many connections are being opened here",
                next_step="try again in some seconds",
            )
        if refused is not None and leaves is None:
            return refused, None
        guest = Guest(since=now, address=network)
        self._come(guest, leaves)
        return guest, leaves

    def _come(self, guest: Guest, leaves: Guest | None) -> None:
        if leaves is not None:
            self.gone(leaves)
        if guest.is_reserved:
            self._reserved += 1
        elif guest.uid is not None:
            self._local[guest.uid] += 1
        else:
            self._addresses[guest.address] += 1
        self.guests[guest] = None

    def proven(self, guest: Guest, subject: str) -> Refused | None:
        """A call came over the connection, with this certificate; why it may not stay, if so."""
        if guest.subject:
            return None
        limits = self.limits
        if self._certificates[subject] >= limits.per_certificate:
            return Refused(
                reason=f"{subject} has {self._certificates[subject]} connections open here, and may"
                " have no more",
                next_step="end programs of yours that keep some open, or try again later",
            )
        if self._certificates.total() >= limits.network:
            return Refused(
                reason=f"all {limits.network} places for connections from the network are taken",
                next_step="try again later, or log in by SSH",
            )
        if guest in self.guests:
            _fewer(self._addresses, guest.address)
            self._certificates[subject] += 1
            guest.subject, guest.has_asked = subject, True
        return None

    def gone(self, guest: Guest) -> None:
        """The connection is over. Twice is the same as once."""
        if guest not in self.guests:
            return
        del self.guests[guest]
        if guest.is_reserved:
            self._reserved -= 1
        elif guest.uid is not None:
            _fewer(self._local, guest.uid)
        elif guest.subject:
            _fewer(self._certificates, guest.subject)
        else:
            _fewer(self._addresses, guest.address)

    def validate(self) -> None:
        """Assert that the sums are those of the guests; for tests."""
        local = Counter(g.uid for g in self.guests if g.uid is not None and not g.is_reserved)
        network = [g for g in self.guests if g.uid is None]
        assert self._local == local, "places by login"
        assert self._reserved == sum(g.is_reserved for g in self.guests), "places kept"
        assert self._addresses == Counter(g.address for g in network if not g.subject), "addresses"
        assert self._certificates == Counter(g.subject for g in network if g.subject), "subjects"


def network_of(address: str) -> str:
    """The address that counts: the IPv4 address itself, the /64 of an IPv6 one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, IPV6_SUBNET_BITS), strict=False))
    return str(parsed)


def _stalest(guests: Iterable[Guest], now: float) -> Guest | None:
    """Who has been there longest, if that is longer than a handshake takes."""
    oldest = min(guests, key=lambda each: each.since, default=None)
    return oldest if oldest is not None and now - oldest.since >= HANDSHAKE_S else None


def _fewer(counts: Counter[T], key: T) -> None:
    """One fewer; nobody is remembered for having been there."""
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]

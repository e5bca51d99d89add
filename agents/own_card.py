"""This site's own card: where it tells other sites to come, and who may believe it.

``advertise`` in ``site.toml`` says where that is. Without it, it is where the daemon listens; one
that listens everywhere is reached by the host that its certificate names.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.trust.cards import check_endpoint, issue_card
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.identity import hosts_of, read_certificate

log = logging.getLogger(__name__)

ANY_PORT: Final = 65_535
"""Stands for the port that the system will choose, where only the host is in question."""


class OwnCard:
    """The card of one running site; empty until it is known where it is reached, and where that is
    nowhere.
    """

    def __init__(self, credential: Credential, *, advertise: str, listen: str) -> None:
        self._credential = credential
        self._advertise = advertise
        self._listen = listen
        self._text = ""

    def __call__(self) -> str:
        """The card, as the site tells it."""
        return self._text

    def problem(self, now: Instant) -> str:
        """Why there will be no card, as far as the configuration tells; empty: there will be."""
        try:
            self._made(ANY_PORT, now)
        except InputError as fault:
            return str(fault)
        return ""

    def issue(self, port: int, now: Instant) -> None:
        """Make it, now that the site listens at ``port``. Where that cannot be, the site serves
        without a card, and its log says what is missing.
        """
        try:
            self._text = self._made(port, now)
        except InputError as fault:
            log.warning("no other site can reach this one: %s", fault)

    def _made(self, port: int, now: Instant) -> str:
        hosts = hosts_of(read_certificate(self._credential.cert_pem))
        endpoint = advertised_endpoint(self._advertise, self._listen, port, hosts)
        return issue_card(self._credential, endpoint, now)


def advertised_endpoint(advertise: str, listen: str, port: int, hosts: Sequence[str]) -> str:
    """Where other sites reach a daemon that listens at ``listen`` and was given ``port``;
    ``InputError`` when that cannot be known. ``hosts``: the hosts that its certificate names.
    """
    if advertise:
        return check_advertised(advertise)
    host = listen.rpartition(":")[0]
    if _is_everywhere(host):
        named = [each for each in hosts if not _is_loopback(each)]
        if not named:
            raise InputError(
                f"it listens at {listen}, which is no address, and its certificate names no host"
                " that others could reach",
                hint='write advertise = "host:port" below [site], or renew the certificate with'
                " --host",
            )
        host = f"[{named[0]}]" if ":" in named[0] else named[0]
    return check_endpoint(f"{host}:{port}")


def check_advertised(advertise: str) -> str:
    """``advertise`` when others can go there; ``InputError``."""
    check_endpoint(advertise)
    if _is_everywhere(advertise.rpartition(":")[0]):
        raise InputError(
            f"nobody can be reached at {advertise}", hint="write the host that others know"
        )
    return advertise


def _is_everywhere(host: str) -> bool:
    if host in ("", "*"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

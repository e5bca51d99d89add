"""Where a site tells the others to come."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.agents.own_card import OwnCard, advertised_endpoint
from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.trust.cards import CertifiedCards
from tests.support.certificate_scenes import NOW, a_site, an_authority

HOSTS = ("localhost", "grid.example.org", "127.0.0.1", "192.0.2.7")


@pytest.mark.parametrize(
    ("advertise", "listen", "hosts", "expected"),
    [
        ("door.example.org:80", "0.0.0.0:7101", (), "door.example.org:80"),
        ("", "127.0.0.1:0", (), "127.0.0.1:4711"),
        ("", "grid.example.org:7101", (), "grid.example.org:4711"),
        ("", "[::1]:7101", (), "[::1]:4711"),
        ("", "0.0.0.0:7101", HOSTS, "grid.example.org:4711"),
        ("", "[::]:7101", HOSTS, "grid.example.org:4711"),
        ("", ":7101", HOSTS, "grid.example.org:4711"),
        ("", "0.0.0.0:7101", ("127.0.0.1", "192.0.2.7"), "192.0.2.7:4711"),
        ("", "[::]:7101", ("::1", "2001:db8::7"), "[2001:db8::7]:4711"),
    ],
)
def test_where_others_come(
    advertise: str, listen: str, hosts: tuple[str, ...], expected: str
) -> None:
    """What the file says; else where the daemon listens, with the port it was given; else the
    first host of the certificate that is not this very machine's name for itself.
    """
    assert advertised_endpoint(advertise, listen, 4711, hosts) == expected


@pytest.mark.parametrize("hosts", [(), ("localhost", "127.0.0.1", "::1", "127.0.0.53")])
def test_where_nobody_can_know(hosts: tuple[str, ...]) -> None:
    """Everywhere is no address; the refusal says what to write."""
    with pytest.raises(InputError, match="advertise"):
        advertised_endpoint("", "0.0.0.0:7101", 7101, hosts)


@pytest.mark.parametrize("advertise", ["0.0.0.0:7101", "[::]:1", "unix:/x", "host", "host:0"])
def test_where_nobody_can_go(advertise: str) -> None:
    """Said in the file, and wrong all the same."""
    with pytest.raises(InputError):
        advertised_endpoint(advertise, "127.0.0.1:0", 7101, ())


def test_a_site_without_an_address_has_no_card(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It serves; its log and the check of its configuration say what is missing."""
    sdsc = a_site(an_authority(tmp_path), tmp_path)
    mute = OwnCard(sdsc, advertise="", listen="0.0.0.0:7101")
    assert "advertise" in mute.problem(NOW)
    mute.issue(7101, NOW)
    assert mute() == ""
    assert "no other site can reach this one" in caplog.text


def test_the_card_says_where_the_daemon_listens(tmp_path: Path) -> None:
    """Nothing before it listens."""
    sdsc = a_site(an_authority(tmp_path), tmp_path)
    card = OwnCard(sdsc, advertise="", listen="127.0.0.1:0")
    assert (card(), card.problem(NOW)) == ("", "")
    card.issue(4711, NOW)
    assert CertifiedCards(sdsc).verify(card(), "sdsc").endpoint == "127.0.0.1:4711"

"""What is promised of cards, under certificates and within one process alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import CARD_LENGTH_MAX
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.trust.cards import (
    CardVerifier,
    CertifiedCards,
    SharedKeyCards,
    issue_card,
)
from tests.support.certificate_scenes import NOW, a_site, an_authority

WHERE = "grid.sdsc.example.org:7101"
YEAR_S = 365 * 86_400


class Issue(Protocol):
    """Makes the card of a site."""

    def __call__(self, site: str, endpoint: str = WHERE, now: Instant = NOW) -> str: ...


@dataclass
class Grid:
    """Two grids, and who verifies the cards of the first."""

    cards: CardVerifier
    issue: Issue
    issue_elsewhere: Issue
    """By another authority, for sites of the same names."""


def certified(folder: Path) -> Grid:
    """Under certificates."""

    def issuer(place: Path) -> Issue:
        authority = an_authority(place)

        def issue(site: str, endpoint: str = WHERE, now: Instant = NOW) -> str:
            return issue_card(a_site(authority, place, name=site), endpoint, now)

        return issue

    ours, theirs = folder / "ours", folder / "theirs"
    for each in (ours, theirs):
        each.mkdir()
    verifier = CertifiedCards(a_site(an_authority(ours), ours, name="verifier"))
    return Grid(cards=verifier, issue=issuer(ours), issue_elsewhere=issuer(theirs))


def shared(_: Path) -> Grid:
    """Within one process."""
    ours, theirs = SharedKeyCards(b"ours"), SharedKeyCards(b"theirs")

    def issuer(cards: SharedKeyCards) -> Issue:
        def issue(site: str, endpoint: str = WHERE, now: Instant = NOW) -> str:
            return cards.issue(site, endpoint, now, lifetime_s=YEAR_S)

        return issue

    return Grid(cards=ours, issue=issuer(ours), issue_elsewhere=issuer(theirs))


@pytest.fixture(params=[certified, shared], scope="module")
def grid(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """A grid of either kind."""
    make: Callable[[Path], Grid] = request.param
    return make(tmp_path_factory.mktemp("grid"))


def test_a_card_tells_what_its_site_said(grid: Grid) -> None:
    """Name, address, when; it is short, one line, and plain enough for any journal."""
    card = grid.issue("sdsc")
    said = grid.cards.verify(card, "sdsc")
    assert (said.site, said.endpoint, said.issued_at) == ("sdsc", WHERE, NOW)
    assert card.isascii()
    assert card.isprintable()
    assert len(card) < 2_000


def test_a_site_speaks_for_itself_alone(grid: Grid) -> None:
    """Another site's card is none, however good it is."""
    with pytest.raises(InputError, match="ncsa speaks in it, not sdsc"):
        grid.cards.verify(grid.issue("ncsa"), "sdsc")


def test_another_authority_is_nobody_here(grid: Grid) -> None:
    """It may have a site of the same name."""
    with pytest.raises(InputError, match="does not hold"):
        grid.cards.verify(grid.issue_elsewhere("sdsc"), "sdsc")


def test_a_card_is_good_until_its_certificate_is_over(grid: Grid) -> None:
    """From that second on it is not taken any more; what it says stays true for whoever took it
    before.
    """
    said = grid.cards.verify(grid.issue("sdsc"), "sdsc")
    said.require_valid(said.not_after - 1)
    with pytest.raises(InputError, match="expired"):
        said.require_valid(said.not_after)
    assert grid.cards.verify(grid.issue("sdsc"), "sdsc") == said


@pytest.mark.parametrize(
    "endpoint",
    [
        *("", "host", "host:0", "host:65536", "host:70000000", "unix:/run/agent.sock", "a b:1"),
        *("dns:///host:1", "host:1/path", "host:1\n", "xn--\u0131:1", f"{'h' * 300}:1", "-rf:1"),
        ":7101",
    ],
)
def test_no_card_leads_anywhere_else_than_to_a_host(grid: Grid, endpoint: str) -> None:
    """Not to a local socket of whoever reads it, and to no scheme that a library would resolve."""
    with pytest.raises(InputError):
        grid.issue("sdsc", endpoint)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:1", "[::1]:7101", "h:65535", "a-b.c_d.org:80"])
def test_hosts_and_addresses(grid: Grid, endpoint: str) -> None:
    """Of both families."""
    assert grid.cards.verify(grid.issue("sdsc", endpoint), "sdsc").endpoint == endpoint


def test_nothing_in_a_card_can_be_changed(grid: Grid) -> None:
    """Any other character, anywhere, and it is none, or the very same."""
    card = grid.issue("sdsc")
    said = grid.cards.verify(card, "sdsc")
    for place in range(0, len(card), 7):
        for other in ("A", ".", "_", "\n"):
            changed = card[:place] + other + card[place + 1 :]
            try:
                found = grid.cards.verify(changed, "sdsc")
            except InputError:
                continue
            assert found == said


def test_the_parts_of_two_cards_make_no_third(grid: Grid) -> None:
    """Statement, certificate and signature belong together."""
    one, two = grid.issue("sdsc"), grid.issue("sdsc", "elsewhere.example.org:1")
    parts, others = one.split("."), two.split(".")
    for place in (1, 3):
        mixed = [*parts]
        mixed[place] = others[place]
        with pytest.raises(InputError):
            grid.cards.verify(".".join(mixed), "sdsc")
    third = grid.issue("ncsa").split(".")
    for place in (1, 2, 3):
        mixed = [*parts]
        if third[place] == parts[place]:
            continue  # how long two certificates last is no secret between them
        mixed[place] = third[place]
        for name in ("sdsc", "ncsa"):
            with pytest.raises(InputError):
                grid.cards.verify(".".join(mixed), name)


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "...", "card1", "card1...", "card1.A.A.A", "card2.e30.e30.e30"),
        *("card1.e30.e30.e30", "card1.=.=.=", "card1.\u00e9.a.a", "a" * CARD_LENGTH_MAX),
        "x" * 10_000_000,
    ],
)
def test_garbage_is_no_card(grid: Grid, text: str) -> None:
    """It is refused, in bounded words, and breaks nothing."""
    with pytest.raises(InputError) as caught:
        grid.cards.verify(text, "sdsc")
    assert len(str(caught.value)) < 500


@given(text=st.text(max_size=200), parts=st.lists(st.binary(max_size=60), max_size=5))
def test_any_text_is_refused(grid: Grid, text: str, parts: list[bytes]) -> None:
    """Nothing but ``InputError`` ever comes of it."""
    from base64 import urlsafe_b64encode

    shaped = ".".join(["card1", *(urlsafe_b64encode(part).decode().rstrip("=") for part in parts)])
    for each in (text, shaped):
        with pytest.raises(InputError):
            grid.cards.verify(each, "sdsc")

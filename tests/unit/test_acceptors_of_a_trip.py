"""Who keeps the outcome of a trip, when some of its sites are reached by this traveller alone."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from gridtravel.gridcore.booking.reservations import DeclineRule
from gridtravel.gridcore.trips.metajobs import MachineRequest
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.travel_agent.sites.config import MachineEntry
from gridtravel.travel_agent.sites.destinations import (
    Destination,
    acceptors_of,
    without_keeper,
)


def to(*endpoints: str, is_manager: bool = False) -> dict[str, Destination]:
    """Destinations ``s0``, ``s1``, ... with these endpoints."""
    return {
        f"s{number}": Destination(
            request=MachineRequest(machine=f"s{number}", nodes_min=1, nodes_max=1),
            connection=cast(SiteConnection, None),
            site=f"s{number}",
            endpoint=endpoint,
            card="a card" if endpoint else None,
            is_manager=is_manager,
        )
        for number, endpoint in enumerate(endpoints)
    }


@pytest.mark.parametrize(
    ("endpoints", "chosen"),
    [
        (("a:1",), []),
        (("a:1", "b:1"), ["s0"]),
        (("", "b:1"), ["s1"]),
        (("a:1", "", "c:1"), ["s0"]),
        (("", "b:1", "c:1", "d:1"), ["s1", "s2", "s3"]),
        (("", ""), []),
    ],
)
def test_acceptors_can_be_asked_by_everybody(endpoints: tuple[str, ...], chosen: list[str]) -> None:
    """An odd number of sites with an endpoint that the others reach; with none, or with one site,
    the traveller's log decides.
    """
    assert [each.site for each in acceptors_of(to(*endpoints))] == chosen
    assert all(each.endpoint and each.card for each in acceptors_of(to(*endpoints)))


@pytest.mark.parametrize("card", [None, ""])
def test_a_site_without_a_card_keeps_no_outcome(card: str | None) -> None:
    """Nobody would ask it: it did not answer, or it cannot say where it is reached."""
    places = to("a:1", "b:1", "c:1")
    places["s0"] = replace(places["s0"], card=card)
    assert [each.site for each in acceptors_of(places)] == ["s1"]


@pytest.mark.parametrize(
    ("keepers", "chosen"),
    [
        ((), ["s0", "s1", "s2"]),
        (("s1",), ["s1"]),
        (("s3", "s1"), ["s1"]),
        (("s3", "s1", "s2"), ["s1", "s2", "s3"]),
        (("elsewhere", "s2"), ["s2"]),
        (("elsewhere",), []),
    ],
)
def test_keepers_are_chosen_among(keepers: tuple[str, ...], chosen: list[str]) -> None:
    """Whoever the user lets keep the trip, in the order of its legs, an odd number of them."""
    places = to("a:1", "b:1", "c:1", "d:1")
    assert [each.site for each in acceptors_of(places, keepers)] == chosen
    refusal = without_keeper(places, keepers)
    assert (refusal is None) == bool(chosen)


def test_a_refusal_for_want_of_a_keeper_says_what_would_pass() -> None:
    """The sites that could keep it; or that there are none."""
    refusal = without_keeper(to("a:1", "", "c:1"), ("s1", "elsewhere"))
    assert refusal is not None
    assert refusal.rule is DeclineRule.POLICY
    assert "s1, elsewhere" in refusal.message
    assert "keepers = ['s0'] would do" in refusal.message
    refusal = without_keeper(to("", ""), ("s0",))
    assert refusal is not None
    assert "none of these sites can keep a trip" in refusal.message


def test_a_trip_to_one_site_needs_no_keeper() -> None:
    """Its own book is the outcome, and there is nobody else to trust."""
    assert without_keeper(to("a:1"), ("elsewhere",)) is None
    twice = {"one": to("a:1")["s0"], "two": to("a:1")["s0"]}
    assert without_keeper(twice, ("elsewhere",)) is None


def test_managers_keep_no_outcomes() -> None:
    """Sites prove to each other that they are sites. A manager takes part like any other place, and
    the plain sites beside it keep the outcome.
    """
    managers, sites = to("a:1", "b:1", is_manager=True), to("c:1", "d:1", "e:1", "f:1")
    assert acceptors_of(managers) == ()
    mixed = {"region": managers["s0"], **{name: sites[name] for name in ("s1", "s2", "s3")}}
    assert [each.site for each in acceptors_of(mixed)] == ["s1", "s2", "s3"]


@pytest.mark.parametrize(
    ("endpoint", "ssh", "shared", "ways"),
    [
        ("a:1", "", "a:1", ("a:1",)),
        ("a:1", "ada@a", "a:1", ("a:1", "ssh:ada@a")),
        ("", "ada@a", "", ("ssh:ada@a",)),
        ("unix:/run/a", "", "", ("unix:/run/a",)),
    ],
)
def test_what_others_can_use(endpoint: str, ssh: str, shared: str, ways: tuple[str, ...]) -> None:
    """A login and a socket of this computer lead nobody else anywhere."""
    entry = MachineEntry(machine="m", site="s", endpoint=endpoint, ssh=ssh)
    assert (entry.shared_endpoint, entry.ways) == (shared, ways)

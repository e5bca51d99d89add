"""Users name who may keep their trips: a lying keeper can tear the trips that it keeps, and no
others.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import DeclineRule
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.travel_agent.booking.amend import TripChange
from gridtravel.travel_agent.itinerary_json import itinerary_json
from gridtravel.travel_agent.output.rendering import keeper_lines
from gridtravel.travel_agent.sites.config import load_grid_config
from tests.support.fault_world import FaultWorld

SITES = ("alpha", "beta", "gamma")


@pytest.fixture
def world(tmp_path: Path) -> FaultWorld:
    """Three sites, of which each can keep a trip."""
    return FaultWorld(tmp_path, *SITES)


def keeping(world: FaultWorld) -> list[str]:
    """The sites that know the trip's outcome."""
    return [name for name, site in world.sites.items() if site.registers.states]


@pytest.mark.parametrize(
    ("extra", "settings", "kept_by"),
    [
        ("", (), SITES),
        ('keepers = ["beta"]', (), ("beta",)),
        ('keepers = ["beta", "elsewhere"]', (), ("beta",)),
        ("", ("gamma",), ("gamma",)),
        ('keepers = ["beta"]', ("gamma",), ("beta",)),
        ("keepers = []", ("gamma",), ("gamma",)),
    ],
)
async def test_only_keepers_are_asked(
    world: FaultWorld, extra: str, settings: tuple[str, ...], kept_by: tuple[str, ...]
) -> None:
    """By the metajob, else by the user's settings, else any site; the outcome is known to them and
    to nobody else, and everybody is told who they are.
    """
    laptop = world.laptop(keepers=settings)
    wish = world.metajob(extra=extra)
    assert (await laptop.quote(wish)).kept_by == kept_by
    trip = await laptop.book(wish)
    assert trip.state is TripState.BOOKED
    assert trip.kept_by == kept_by
    assert tuple(keeping(world)) == kept_by
    known = (await laptop.status(trip.trip_id)).itinerary
    assert known.kept_by == kept_by
    assert itinerary_json(known)["kept_by"] == list(kept_by)
    assert keeper_lines(known) == [f"  kept by {', '.join(kept_by)}"]


@pytest.mark.parametrize(
    ("extra", "settings", "where"),
    [('keepers = ["sdsc"]', (), "the metajob"), ("", ("sdsc", "ncsa"), "sites.toml")],
)
async def test_a_trip_to_none_of_its_keepers_is_refused(
    world: FaultWorld, extra: str, settings: tuple[str, ...], where: str
) -> None:
    """Before anybody is asked; the line says where they are named, and what would pass."""
    laptop = world.laptop(keepers=settings)
    for command in (laptop.book, laptop.quote):
        with pytest.raises(InputError) as caught:
            await command(world.metajob(extra=extra))
        assert where in caught.value.message
        assert "alpha" in str(caught.value.hint)
    assert not world.said
    assert not world.disks


async def test_a_plan_without_a_keeper_is_declined(world: FaultWorld) -> None:
    """Where the keeper is among the machines and cannot keep a trip; nothing is held."""
    beta = world.sites["beta"]
    beta.card = ""
    laptop = world.laptop()
    wish = world.metajob(extra='keepers = ["beta"]')
    refused = await laptop.quote(wish)
    assert refused.decline is not None
    trip = await laptop.book(wish)
    assert trip.decline is not None
    assert trip.decline.rule is DeclineRule.POLICY
    assert "would do" in trip.decline.message
    assert not any(verb == "reserve" for _, verb in world.said)


async def test_a_changed_trip_has_the_keepers_of_its_metajob(world: FaultWorld) -> None:
    """The next attempt is kept by those that may now; where none may, the trip stays as it is."""
    laptop = world.laptop()
    trip = await laptop.book(world.metajob())
    wish = world.metajob(extra='keepers = ["beta"]')
    later = replace(wish, earliest_start=wish.earliest_start + 60)
    changed = await laptop.amend(trip.trip_id, TripChange(metajob=later))
    assert changed.decline is None
    assert changed.itinerary.kept_by == ("beta",)
    world.sites["gamma"].card = ""
    lost = replace(later, keepers=("gamma",), earliest_start=later.earliest_start + 60)
    changed = await world.laptop().amend(trip.trip_id, TripChange(metajob=lost))
    assert changed.decline is not None
    assert changed.itinerary.kept_by == ("beta",)


async def test_a_trip_that_no_site_keeps_hangs_on_the_laptop(world: FaultWorld) -> None:
    """Its user is told so. A trip to one site needs nobody beside that, and nothing is said."""
    for site in world.sites.values():
        site.card = ""
    trip = await world.laptop().book(world.metajob())
    assert (trip.state, trip.kept_by) == (TripState.BOOKED, ())
    (line,) = keeper_lines(trip)
    assert "laptop" in line
    assert keeper_lines(replace(trip, legs=trip.legs[:1])) == []


def test_the_settings_name_keepers(tmp_path: Path) -> None:
    """A list of sites; a mistake is told with its key."""
    path = tmp_path / "sites.toml"
    machines = '[machines.a]\nsite = "a"\nendpoint = "a:1"\n'
    path.write_text('keepers = ["sdsc", "ncsa"]\n' + machines)
    assert load_grid_config(path).keepers == ("sdsc", "ncsa")
    for wrong in ('["a", "a"]', '"sdsc"', '[""]', "[7]", "[" + '"a",' * 300 + "]"):
        path.write_text(f"keepers = {wrong}\n" + machines)
        with pytest.raises(InputError, match="keepers"):
            load_grid_config(path)

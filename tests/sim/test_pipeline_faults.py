"""Booking a pipeline while one message, whichever it is, goes wrong; also with stages at one site.

As ``test_booking_faults``, where every leg has a site of its own. Two commits at one site are as
many as two at two sites, so a chain at a single site is decided as well, by that site.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.travel_agent.booking.amend import TripChange
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from tests.support.fault_world import NOW, START, Fault, FaultWorld, LaptopDied, Mishap

CHAINS = {
    "there and back": ("alpha", "beta", "alpha"),
    "one site": ("alpha", "alpha"),
    "three sites": ("alpha", "beta", "gamma"),
}


def a_chain(places: tuple[str, ...]) -> Metajob:
    """One node for a minute at each place in turn, with a job."""
    machines = "".join(
        f'[[machines]]\nname = "{site}-machine"\nnodes_max = 4\n' for site in dict.fromkeys(places)
    )
    stages = "".join(
        f'[[stages]]\nname = "s{number}"\nmachine = "{site}-machine"\nnodes = 1\n'
        for number, site in enumerate(places)
    )
    text = (
        f'name = "chain"\nusage_pattern = "pipeline"\nduration = "60s"\ntransfer = "5s"\n'
        f'earliest_start = "{format_utc(START)}"\nlatest_end = "{format_utc(START + 900)}"\n'
        f'[task]\ncommand = ["/bin/true"]\n{machines}{stages}'
    )
    return parse_metajob(text, now=NOW, zone=ZoneInfo("UTC"), form="toml").metajob


def a_world(folder: Path, places: tuple[str, ...]) -> FaultWorld:
    """The sites of a chain."""
    return FaultWorld(folder, *dict.fromkeys(places))


async def messages(folder: Path, places: tuple[str, ...], *, cancel: bool) -> list[Mishap]:
    """Every fault at every message of a booking, or of the cancelling behind it."""
    world = a_world(folder, places)
    agent = world.laptop()
    trip = await agent.book(a_chain(places))
    assert trip.state is TripState.BOOKED, trip.decline
    assert world.said["alpha", "vote"] > 0, "also one site keeps the outcome of two legs"
    before = world.said.copy() if cancel else Counter[tuple[str, str]]()
    if cancel:
        await agent.cancel(trip.trip_id)
    said = world.said - before
    return [
        Mishap(site, verb, before[site, verb] + nth, fault)
        for (site, verb), count in sorted(said.items())
        for nth in range(1, count + 1)
        for fault in Fault
    ]


def torn(world: FaultWorld, places: tuple[str, ...]) -> str:
    """Why books and log do not fit together, or nothing."""
    legs = world.live_legs()
    wanted = Counter(places)
    is_absent = not any(legs.values())
    is_whole = all(legs[site] == [ReservationState.COMMITTED] * wanted[site] for site in wanted)
    story = world.story()
    if not (is_absent or is_whole):
        return f"neither whole nor absent: {legs}"
    if story is None:
        return "" if is_absent else "booked, and the laptop knows nothing of it"
    if story.state is TripState.BOOKED and not is_whole:
        return "the log says BOOKED, and no site has it"
    if story.state.is_over and not is_absent:
        return f"the log says {story.state}, and the sites have it"
    return ""


async def bring_to_rest(world: FaultWorld, *, resume: bool) -> None:
    """The network is healed, and the holds' time is over."""
    world.heal()
    agent = world.laptop()
    for trip in agent.trips() if resume else ():
        await agent.resume(trip)
    await world.deliver_late()
    world.clock.advance_to(max(world.clock.now_precise(), START - 20))
    await world.settle()


@pytest.mark.parametrize("resume", [True, False], ids=["resumed", "never resumed"])
@pytest.mark.parametrize("cancel", [False, True], ids=["booking", "cancelling"])
@pytest.mark.parametrize("places", CHAINS.values(), ids=CHAINS)
async def test_one_wrong_message_leaves_a_chain_whole_or_absent(
    tmp_path: Path, places: tuple[str, ...], cancel: bool, resume: bool
) -> None:
    """Lost, doubled, late, refused, or the last of its site or laptop, with and without
    ``gur resume``: every stage is booked or none, and the log says which.
    """
    wrong = []
    for mishap in await messages(tmp_path, places, cancel=cancel):
        if not resume and mishap.fault not in (Fault.LAPTOP_DIES_BEFORE, Fault.LAPTOP_DIES_AFTER):
            continue
        world = a_world(tmp_path, places)
        world.mishaps = (mishap,)
        agent = world.laptop()
        result = await world.live(agent.book(a_chain(places)))
        if cancel and isinstance(result, Itinerary):
            result = await world.live(agent.cancel(result.trip_id))
        assert isinstance(result, Itinerary | GridError | LaptopDied), (mishap, result)
        await bring_to_rest(world, resume=resume)
        why = torn(world, places)
        if why and (resume or "log says" not in why):
            wrong.append(f"{mishap}: {why}; it had said {result!r}")
    assert wrong == []


async def test_a_chain_is_changed_as_a_whole(tmp_path: Path) -> None:
    """``gur amend``: later stages move with the first; when a stage moves to another site, the
    waiting job behind it is exchanged for one that fetches from there.
    """
    world = FaultWorld(tmp_path, "alpha", "beta", "gamma", "delta")
    agent = world.laptop()
    trip = await agent.book(a_chain(("alpha", "beta", "gamma")))
    later = await agent.amend(trip.trip_id, TripChange(earliest_start=START + 100))
    before, after = trip.legs, later.itinerary.legs
    assert {new.start - old.start for old, new in zip(before, after, strict=True)} == {100}
    assert [leg.job_id for leg in after] == [leg.job_id for leg in before]
    wish = a_chain(("delta", "beta", "gamma"))
    moved = await agent.amend(trip.trip_id, TripChange(metajob=wish))
    assert [leg.site for leg in moved.itinerary.legs] == ["delta", "beta", "gamma"]
    waiting = [job for job in world.sites["beta"].jobs.values() if not job.state.is_over]
    assert [job.spec.handover and job.spec.handover.site for job in waiting] == ["delta"]
    assert world.live_legs()["alpha"] == []


async def test_a_change_stays_with_those_who_keep_the_outcome(tmp_path: Path) -> None:
    """Of two sites the first keeps the outcome: a change that would leave it is refused with what
    to do, and the trip stays as it was.
    """
    world = FaultWorld(tmp_path, "alpha", "beta", "gamma")
    agent = world.laptop()
    trip = await agent.book(a_chain(("alpha", "beta")))
    wish = a_chain(("gamma", "beta"))
    refused = await agent.amend(trip.trip_id, TripChange(metajob=wish))
    assert refused.decline is not None
    assert "keep the trip's outcome" in refused.decline.message
    assert [leg.site for leg in refused.itinerary.legs] == ["alpha", "beta"]
    assert world.live_legs()["gamma"] == []
    stays = await agent.amend(trip.trip_id, TripChange(metajob=a_chain(("alpha", "gamma"))))
    assert [leg.site for leg in stays.itinerary.legs] == ["alpha", "gamma"]

"""Booking at several sites while one message, whichever it is, goes wrong in each way there is.

The table is made by the booking itself: it is carried out once without faults and every message
counted; then once for each message and each fault. Whatever happens, when the network is healed and
the holds' lifetimes are over, the trip is whole or absent, and the laptop's log says which.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridio.journal.memory import WriteStage
from gridtravel.travel_agent.booking.resume import Resumed
from tests.support.fault_world import START, Fault, FaultWorld, LaptopDied, Mishap, told_truth

SITES = ("alpha", "beta", "gamma")
LAPTOP_DIES = (Fault.LAPTOP_DIES_BEFORE, Fault.LAPTOP_DIES_AFTER)


async def messages(folder: Path, sites: tuple[str, ...], *, cancel: bool = False) -> list[Mishap]:
    """Every fault at every message of a booking (or of the cancelling of a booked trip)."""
    world = FaultWorld(folder, *sites)
    agent = world.laptop()
    trip = await agent.book(world.metajob())
    assert trip.state is TripState.BOOKED
    before = world.said.copy()
    assert not sites[1:] or before["alpha", "vote"], "several sites decide together"
    if cancel:
        await agent.cancel(trip.trip_id)
    said = world.said - before if cancel else before
    first = before if cancel else world.said - world.said
    return [
        Mishap(site, verb, first[site, verb] + nth, fault)
        for (site, verb), count in sorted(said.items())
        for nth in range(1, count + 1)
        for fault in Fault
    ]


async def bring_to_rest(world: FaultWorld, *, resume: bool) -> list[Resumed]:
    """The network is healed, the laptop comes back (or never does), the holds' time is over."""
    world.heal()
    agent = world.laptop()
    resumed = [await agent.resume(trip) for trip in agent.trips() if resume]
    await world.deliver_late()
    world.clock.advance_to(max(world.clock.now_precise(), START - 20))
    await world.settle()
    return resumed


@pytest.mark.parametrize("sites", [SITES[:1], SITES[:2], SITES], ids=["one", "two", "three"])
async def test_one_wrong_message_leaves_a_trip_whole_or_absent(
    tmp_path: Path, sites: tuple[str, ...]
) -> None:
    """Every message of a booking lost, doubled, late, refused, or the last of its site or laptop:
    after one resume the trip is whole or absent, no hold is left, and the log says which it is.
    """
    wrong = []
    for mishap in await messages(tmp_path, sites):
        world = FaultWorld(tmp_path, *sites)
        world.mishaps = (mishap,)
        result = await world.live(world.laptop().book(world.metajob()))
        assert isinstance(result, Itinerary | GridError | LaptopDied), (mishap, result)
        await bring_to_rest(world, resume=True)
        if why := told_truth(world):
            wrong.append(f"{mishap}: {why}; it had said {result!r}")
    assert wrong == []


@pytest.mark.parametrize("sites", [SITES[:2], SITES], ids=["two", "three"])
async def test_whole_or_absent_also_when_the_laptop_never_comes_back(
    tmp_path: Path, sites: tuple[str, ...]
) -> None:
    """The same without any resume: the sites find out among themselves. An answer that says BOOKED
    was true; an answer that says DECLINED too.
    """
    wrong = []
    for mishap in await messages(tmp_path, sites):
        world = FaultWorld(tmp_path, *sites)
        world.mishaps = (mishap,)
        result = await world.live(world.laptop().book(world.metajob()))
        await bring_to_rest(world, resume=False)
        legs = world.live_legs()
        is_whole = all(each == [ReservationState.COMMITTED] for each in legs.values())
        is_absent = not any(legs.values())
        if not (is_whole or is_absent):
            wrong.append(f"{mishap}: {legs}; it had said {result!r}")
        if isinstance(result, Itinerary) and is_whole != (result.state is TripState.BOOKED):
            wrong.append(f"{mishap}: it had said {result.state}, and the books say {legs}")
    assert wrong == []


async def test_two_wrong_messages_leave_a_trip_whole_or_absent(tmp_path: Path) -> None:
    """A refused or lost hold or commit, and one more wrong message anywhere on the way out."""
    wrong = []
    firsts = [
        Mishap("beta", "reserve", 1, Fault.DECLINED),
        Mishap("beta", "reserve", 1, Fault.LOST_ANSWER),
        Mishap("beta", "commit", 1, Fault.LOST_ANSWER),
        Mishap("alpha", "vote", 1, Fault.LOST_ANSWER),
    ]
    for first in firsts:
        scout = FaultWorld(tmp_path, *SITES[:2])
        scout.mishaps = (first,)
        await scout.live(scout.laptop().book(scout.metajob()))
        seconds = [
            Mishap(site, verb, nth, fault)
            for (site, verb), count in sorted(scout.said.items())
            for nth in range(1, count + 1)
            for fault in Fault
            if (site, verb, nth) != (first.site, first.verb, first.nth)
        ]
        for second in seconds:
            world = FaultWorld(tmp_path, *SITES[:2])
            world.mishaps = (first, second)
            result = await world.live(world.laptop().book(world.metajob()))
            await bring_to_rest(world, resume=True)
            if why := told_truth(world):
                wrong.append(f"{first} and {second}: {why}; it had said {result!r}")
    assert wrong == []


@pytest.mark.parametrize("stage", WriteStage)
async def test_a_laptop_that_dies_at_any_word_of_its_log(tmp_path: Path, stage: WriteStage) -> None:
    """Before or after each record is on the disk: resume finishes or undoes, says what it found,
    and a second resume has nothing to do and changes nothing.
    """
    scout = FaultWorld(tmp_path, *SITES)
    await scout.laptop().book(scout.metajob())
    ends = []
    for write in range(1, scout.writes + 1):
        world = FaultWorld(tmp_path, *SITES)
        world.die_at_write = (write, stage)
        result = await world.live(world.laptop().book(world.metajob()))
        assert isinstance(result, LaptopDied), (write, result)
        for resumed in await bring_to_rest(world, resume=True):
            assert resumed.found
            assert resumed.done
        assert told_truth(world) == "", write
        changes, story = world.changes(), world.story()
        assert story is not None
        ends.append(story.state)
        again = await bring_to_rest(world, resume=True)
        assert [each.done for each in again] == ["nothing to do"]
        assert world.changes() == changes
    first_booked = ends.index(TripState.BOOKED)
    assert set(ends[:first_booked]) == {TripState.ABSENT}
    assert set(ends[first_booked:]) == {TripState.BOOKED}


async def test_one_wrong_message_while_a_trip_is_cancelled(tmp_path: Path) -> None:
    """Once the cancel was written down, the trip is absent after one resume, whatever went wrong,
    and a late copy of any message does not revive it.
    """
    wrong = []
    for mishap in await messages(tmp_path, SITES, cancel=True):
        world = FaultWorld(tmp_path, *SITES)
        agent = world.laptop()
        trip = await agent.book(world.metajob())
        world.mishaps = (mishap,)
        result = await world.live(agent.cancel(trip.trip_id))
        if isinstance(result, Itinerary) and result.state is not TripState.CANCELLED:
            wrong.append(f"{mishap}: {result.state}")
        await bring_to_rest(world, resume=True)
        if any(world.live_legs().values()) or (why := told_truth(world)):
            wrong.append(f"{mishap}: {world.live_legs()} {why}; it had said {result!r}")
    assert wrong == []


async def test_every_question_may_be_asked_twice(tmp_path: Path) -> None:
    """All messages of a booking doubled at once: the books are as if each had been said once."""
    once = FaultWorld(tmp_path, *SITES)
    first = await once.laptop().book(once.metajob())
    doubled = FaultWorld(tmp_path, *SITES)
    doubled.mishaps = tuple(
        Mishap(site, verb, nth, Fault.DOUBLED)
        for (site, verb), count in once.said.items()
        for nth in range(1, count + 1)
    )
    second = await doubled.laptop().book(doubled.metajob())
    assert first == second
    assert [each.calendar.reservations for each in once.sites.values()] == [
        each.calendar.reservations for each in doubled.sites.values()
    ]
    assert [len(each.jobs) for each in doubled.sites.values()] == [1, 1, 1]


@pytest.mark.parametrize("steps", [5, 40, 90])
async def test_ctrl_c_at_any_turn_leaves_nothing(tmp_path: Path, steps: int) -> None:
    """Cancelled at any turn of the event loop, a booking has undone itself when it ends, unless it
    was booked already.
    """
    for turn in range(steps, steps + 40):
        world = FaultWorld(tmp_path, *SITES)
        task = asyncio.ensure_future(world.laptop().book(world.metajob()))
        for _ in range(turn):
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        assert told_truth(world) == "", turn
        story = world.story()
        if isinstance(result, asyncio.CancelledError):
            assert not any(world.live_legs().values()), turn
            assert story is None or story.state.is_over, turn
        else:
            assert isinstance(result, Itinerary), (turn, result)
            assert result.state is TripState.BOOKED


async def test_ctrl_c_with_a_site_that_cannot_be_told_leaves_no_half(tmp_path: Path) -> None:
    """Cancelled at any turn, and one site hears no release: whole or absent also when nobody ever
    says resume. What was decided already is cancelled as a whole, what was not is decided against.
    """
    wrong = []
    for turn in range(5, 110):
        for site in SITES:
            world = FaultWorld(tmp_path, *SITES)
            world.mishaps = (
                Mishap(site, "release", 1, Fault.SITE_GONE),
                Mishap(site, "release_request", 1, Fault.SITE_GONE),
            )
            task = asyncio.ensure_future(world.laptop().book(world.metajob()))
            for _ in range(turn):
                await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await bring_to_rest(world, resume=False)
            legs = world.live_legs()
            is_whole = all(each == [ReservationState.COMMITTED] for each in legs.values())
            if any(legs.values()) and not is_whole:
                wrong.append(f"turn {turn}, {site} not told: {legs}")
    assert wrong == []

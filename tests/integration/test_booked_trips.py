"""What scripts and people are told: the promised keys, refusals that teach, offers that are taken,
changes of mind.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, Reservation
from gridtravel.gridcore.errors import NotFoundError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.itinerary_json import itinerary_json
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.running.jobs import LegChange
from tests.support.grid_world import GridWorld, metajob_text, until
from tests.support.gur_runner import PATIENCE_S
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration
CLOCK = SystemClock()

TRIP_KEYS = {"kept_by", "trip", "name", "state", "start", "end", "price", "legs"}
LEG_KEYS = {
    "zone",
    "start_there",
    "leg",
    "machine",
    "site",
    "nodes",
    "start",
    "end",
    "state",
    "reservation",
    "transport",
    "price",
    "job",
}
DECLINE_KEYS = {"rule", "message", "earliest", "nodes_now"}


def a_metajob(text: str) -> Metajob:
    """The metajob in ``text``."""
    return parse_metajob(text, now=CLOCK.now(), zone=ZoneInfo("UTC"), form="toml").metajob


async def test_a_booked_trip_has_exactly_the_promised_keys(grid: GridWorld) -> None:
    """The object of ``gur book --json`` after a success; the Python API gives the same values."""
    start, end = grid.window()
    wish = metajob_text(
        {"alpha": (1, 4), "beta": (1, 2)},
        5,
        earliest=start,
        latest=end,
        duration_s=3600,
        command=["/bin/true"],
    )
    async with grid.laptop() as agent:
        trip = await agent.book(a_metajob(wish))
        answer = itinerary_json(trip)
        assert set(answer) == TRIP_KEYS
        assert [set(leg) for leg in answer["legs"]] == [LEG_KEYS] * 2
        assert answer["state"] == "BOOKED"
        assert (answer["start"], answer["end"]) == (format_utc(start), format_utc(start + 3600))
        assert sum(leg["nodes"] for leg in answer["legs"]) == 5
        assert {leg["site"] for leg in answer["legs"]} == {"alpha", "beta"}
        assert {leg["transport"] for leg in answer["legs"]} == {"grpc"}
        prices = {leg["site"]: leg["price"] // leg["nodes"] for leg in answer["legs"]}
        assert prices == {"alpha": 36_000, "beta": 18_000}
        assert answer["price"] == sum(leg["price"] for leg in answer["legs"])
        assert itinerary_json((await agent.status(trip.trip_id)).itinerary) == answer


def test_a_refusal_teaches_and_its_offer_is_taken(grid: GridWorld, tmp_path: Path) -> None:
    """Exit code 3; why, and when or with how many nodes it would work, in words and for scripts;
    ``--accept-alternative`` takes that offer. Neither quote nor refusal leaves a trace at a site.
    """
    start, _ = grid.window()
    shares = {"alpha": (1, 16), "beta": (1, 8)}
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text(
        metajob_text(
            {"alpha": (14, 14), "beta": (4, 4)},
            18,
            duration_s=600,
            earliest=start,
            latest=start + 600,
        )
    )
    second.write_text(metajob_text(shares, 10, duration_s=600, earliest=start, latest=start + 600))
    state = grid.new_state()
    assert grid.gur("book", str(first), "--json", state=state).code == 0
    before = grid.sizes_at_rest()
    refused = grid.gur("book", str(second), "--json", state=state)
    assert refused.code == 3
    assert refused.err == ""
    answer: dict[str, Any] = json.loads(refused.out)
    assert set(answer) == TRIP_KEYS | {"decline"}
    assert (answer["state"], answer["legs"], answer["start"]) == ("DECLINED", [], None)
    assert set(answer["decline"]) == DECLINE_KEYS
    assert answer["decline"]["rule"] == "no-room"
    assert answer["decline"]["earliest"] == format_utc(start + 600)
    assert answer["decline"]["nodes_now"] == 6
    told = grid.gur("quote", str(second), state=state)
    assert told.code == 3
    assert "10 nodes" in told.out
    assert format_utc(start + 600)[:10] in told.out
    assert "--accept-alternative" in told.out
    assert grid.sizes() == before
    taken = grid.gur("book", str(second), "--accept-alternative", "--json", state=state)
    assert taken.code == 0
    assert json.loads(taken.out)["start"] == format_utc(start + 600)


async def test_fewer_nodes_are_an_offer_when_no_later_start_is_known(grid: GridWorld) -> None:
    """More nodes than the sites have: the refusal says how many there are, and the alternative
    takes those.
    """
    start, end = grid.window()
    wish = a_metajob(
        metajob_text({"beta": (1, 100), "gamma": (1, 100)}, 50, earliest=start, latest=end)
    )
    async with grid.laptop() as agent:
        refused = await agent.book(wish)
        assert refused.state is TripState.DECLINED
        assert refused.decline is not None
        assert refused.decline.earliest is None
        assert refused.decline.nodes_now == 12
        trip = await agent.book(wish, accept_alternative=True)
        assert trip.state is TripState.BOOKED
        assert trip.nodes == 12
        await agent.cancel(trip.trip_id)


async def test_an_amended_reservation_moves_in_one_step(grid: GridWorld) -> None:
    """Make before break: what is refused leaves the old one as it was; what is granted takes its
    place under the same id; saying it twice changes nothing more.
    """
    start, end = grid.window()
    wish = a_metajob(metajob_text({"gamma": (3, 3)}, 3, earliest=start, latest=end))
    async with grid.laptop() as agent:
        trip = await agent.book(wish)
        (leg,) = trip.legs
        calendar = agent.connection("gamma-machine").calendar
        (kept,) = grid.live("gamma", trip.trip_id)
        base = kept.request.at(start + 100, 4, request_id=f"{trip.trip_id}.amended")
        refused = await calendar.amend(
            kept.reservation_id, kept.request.at(start, 5, request_id=f"{trip.trip_id}.more")
        )
        assert isinstance(refused, Decline)
        assert refused.rule is DeclineRule.TOO_LARGE
        assert grid.live("gamma", trip.trip_id) == [kept]
        moved = await calendar.amend(kept.reservation_id, base)
        size = grid.sizes_at_rest()
        again = await calendar.amend(kept.reservation_id, base)
        assert isinstance(moved, Reservation)
        assert again == moved
        assert grid.sizes() == size
        assert (moved.reservation_id, moved.start, moved.nodes) == (
            leg.reservation_id,
            start + 100,
            4,
        )
        assert grid.live("gamma", trip.trip_id) == [moved]
        await agent.cancel(trip.trip_id)


async def test_a_job_follows_its_amended_reservation(grid: GridWorld) -> None:
    """A leg that was moved earlier starts at the new time, once; cancelled while it runs, its
    processes are stopped, also those that do not listen to TERM, and its nodes are free.
    """
    now = CLOCK.now()
    line = "trap '' TERM; echo up > up; sleep 300 & sleep 300"
    wish = a_metajob(
        metajob_text(
            {"beta": (8, 8)},
            8,
            earliest=now + 3000,
            latest=now + 4000,
            duration_s=600,
            command=["/bin/sh", "-c", line],
        )
    )
    async with grid.laptop() as agent:
        trip = await agent.book(wish)
        (leg,) = trip.legs
        (kept,) = grid.live("beta", trip.trip_id)
        calendar = agent.connection("beta-machine").calendar
        sooner = CLOCK.now() + at_this_speed(2)
        moved = await calendar.amend(
            kept.reservation_id, kept.request.at(sooner, 8, request_id=f"{trip.trip_id}.sooner")
        )
        if isinstance(moved, Decline) and moved.earliest is not None:
            # What an earlier test left in the calendar is over soon.
            moved = await calendar.amend(
                kept.reservation_id,
                kept.request.at(moved.earliest, 8, request_id=f"{trip.trip_id}.soon"),
            )
        assert isinstance(moved, Reservation), moved
        assert moved.start < kept.start - 1000
        until(lambda: len(grid.tasks("beta")) >= 2, "the task runs")
        (view,) = await agent.connection("beta-machine").site.jobs(job_ids=[leg.job_id or ""])
        assert view.started_precise is not None
        assert 0 <= view.started_precise - moved.start < at_this_speed(5)
        assert (await agent.status(trip.trip_id)).itinerary.state is TripState.RUNNING
        changes = agent.follow(trip.trip_id)
        async with asyncio.timeout(PATIENCE_S):
            seen = [await anext(changes)]
            cancelled = await agent.cancel(trip.trip_id)
            assert cancelled.state is TripState.CANCELLED
            seen += [item async for item in changes]
        states = [item.view.state for item in seen if isinstance(item, LegChange)]
        assert states[-1] is JobState.CANCELLED
        assert grid.tasks("beta") == []
        assert grid.live("beta", trip.trip_id) == []
        assert grid.starts("beta", kept.reservation_id) == 1
        assert (await agent.cancel(trip.trip_id)).state is TripState.CANCELLED
        again = await agent.resume(trip.trip_id)
        assert again.done == "nothing to do"


async def test_a_trip_that_lost_a_leg_can_still_be_cancelled(grid: GridWorld) -> None:
    """When a site's administrator releases one leg, the trip has failed but is not over: the other
    leg waits, the status says so, and cancel frees it.
    """
    start, end = grid.window()
    wish = a_metajob(
        metajob_text(
            {"alpha": (1, 1), "beta": (1, 1)}, 2, earliest=start, latest=end, command=["/bin/true"]
        )
    )
    async with grid.laptop() as agent, grid.laptop("edsger") as admin:
        trip = await agent.book(wish)
        lost = trip.legs[1]
        await admin.connection(lost.name).calendar.release(lost.reservation_id or "")
        report = await agent.status(trip.trip_id)
        assert report.itinerary.state is TripState.FAILED
        assert not report.is_over
        assert any("gur cancel" in note for note in report.notes)
        await agent.cancel(trip.trip_id)
    assert not grid.live("alpha", trip.trip_id)
    assert not grid.live("beta", trip.trip_id)


async def test_a_trip_that_never_began_disturbs_nobody(grid: GridWorld) -> None:
    """A laptop that died while it made the log of a trip: the trip is absent, and the list of trips
    is shown.
    """
    state = grid.new_state()
    folder = state / "trips" / "trip-unborn"
    folder.mkdir(parents=True)
    (folder / "trip.journal").touch()
    async with grid.laptop(state=state) as agent:
        report = await agent.status("trip-unborn")
        assert report.itinerary.state is TripState.ABSENT
        assert (await agent.resume("trip-unborn")).done == "nothing to do"
        assert (await agent.cancel("trip-unborn")).state is TripState.ABSENT
        with pytest.raises(NotFoundError, match="is ABSENT and has no legs"):
            await agent.fetch("trip-unborn", grid.new_state())

"""Whom a trip's events are told, how often, and with what; what a laptop remembers of its trips."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from icalendar import Calendar

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridcore.trips.metajobs import Metajob, Notifications
from gridtravel.gridcore.trips.trip_wishes import TripEvent
from gridtravel.gridio.system.notify import Notice
from gridtravel.travel_agent.news import News, Step
from tests.support.fake_services import FakeSite
from tests.support.fault_world import START, FaultWorld

ADA = "ada@lab.example"


def wish(world: FaultWorld, **changes: object) -> Metajob:
    """A trip whose events are mailed to one address."""
    told = replace(Notifications(emails=(ADA,), before_start_s=60), **changes)  # type: ignore[arg-type]
    return replace(world.metajob(), notifications=told)


async def end_jobs(site: FakeSite, state: JobState) -> None:
    """All jobs of a site are over."""
    for job_id in list(site.jobs):
        await site.move_job(job_id, state)


def subjects(world: FaultWorld) -> list[str]:
    """Of all mail so far, without the trip's name."""
    return [each.subject.split(" ", 1)[1] for each in world.notifier.notices]


def events_of(notice: Notice) -> list[dict[str, str]]:
    """The events of the calendar that went with a mail."""
    (attachment,) = notice.attachments
    found = Calendar.from_ical(attachment.text).walk("VEVENT")
    return [{key: as_text(each[key].to_ical()) for key in each} for each in found]


def as_text(value: bytes | str) -> str:
    """What an iCalendar property says."""
    return value.decode() if isinstance(value, bytes) else value


async def test_a_booking_is_mailed_with_its_calendar(tmp_path: Path) -> None:
    """One mail an address, with all legs in it and one event for the common time."""
    world = FaultWorld(tmp_path, "alpha", "beta")
    trip = await world.laptop().book(wish(world))
    (notice,) = world.notifier.notices
    assert notice.to == ADA
    assert all(leg.machine in notice.text for leg in trip.legs)
    (event,) = events_of(notice)
    assert event["UID"] == trip.trip_id
    assert event["STATUS"] == "CONFIRMED"
    assert event["DTSTART"].endswith("Z")


async def test_each_occasion_is_told_once(tmp_path: Path) -> None:
    """Whichever command finds it, and however often it looks: soon to start, then done."""
    world = FaultWorld(tmp_path, "alpha", "beta")
    agent = world.laptop()
    trip = await agent.book(wish(world))
    await agent.status(trip.trip_id)
    assert subjects(world) == ["is booked"]
    world.clock.advance_to(START - 30)
    for _ in range(2):
        await world.laptop().status(trip.trip_id)
    assert subjects(world) == ["is booked", "starts soon"]
    for site in world.sites.values():
        await end_jobs(site, JobState.COMPLETED)
    for _ in range(2):
        await world.laptop().status(trip.trip_id)
    assert subjects(world) == ["is booked", "starts soon", "is done"]


async def test_a_failed_leg_is_told(tmp_path: Path) -> None:
    """FAILED goes out when every leg is over and one of them badly."""
    world = FaultWorld(tmp_path, "alpha", "beta")
    trip = await world.laptop().book(wish(world))
    world.clock.advance_to(START + 1)
    for name, site in world.sites.items():
        await end_jobs(site, JobState.FAILED if name == "beta" else JobState.COMPLETED)
    found = await world.laptop().status(trip.trip_id)
    assert found.itinerary.state is TripState.FAILED
    assert subjects(world) == ["is booked", "has failed"]


async def test_why_a_trip_failed_is_told_by_whichever_command_finds_it(tmp_path: Path) -> None:
    """The first look after the end, which no watch came before, has the reason in its notes and in
    the mail; so has every later one.
    """
    world = FaultWorld(tmp_path, "alpha")
    trip = await world.laptop().book(wish(world))
    world.clock.advance_to(START + 1)
    why = "cannot run no-such-program: No such file or directory"
    (site,) = world.sites.values()
    for job_id in list(site.jobs):
        await site.move_job(job_id, JobState.FAILED, reason=why)
    looks = [await world.laptop().status(trip.trip_id) for _ in range(2)]
    assert [each.notes for each in looks] == [(f"{trip.legs[0].name}: {why}",)] * 2
    assert why in world.notifier.notices[-1].text


async def test_only_what_was_asked_for_is_told(tmp_path: Path) -> None:
    """Who wants to hear of failures alone is not mailed about a booking."""
    world = FaultWorld(tmp_path, "alpha")
    await world.laptop().book(wish(world, events=(TripEvent.FAILED,)))
    assert world.notifier.notices == []


async def test_a_mail_server_that_is_down_spoils_no_trip(tmp_path: Path) -> None:
    """The trip is booked; that nobody could be told is a note."""
    world = FaultWorld(tmp_path, "alpha")
    world.notifier.fault = UnavailableError("the mail server is on holiday")
    heard: list[News] = []
    trip = await world.laptop().book(wish(world), listener=heard.append)
    assert trip.state is TripState.BOOKED
    assert any(each.step is Step.NOTE and "on holiday" in each.text for each in heard)


async def test_the_hook_gets_the_itinerary(tmp_path: Path) -> None:
    """The user's own command reads the trip as JSON and the event's name in its environment."""
    world = FaultWorld(tmp_path / "sites", "alpha")
    target = tmp_path / "told"
    hook = ("/bin/sh", "-c", 'printf "%s\\n" "$GRID_EVENT" > "$0"; cat >> "$0"', str(target))
    trip = await world.laptop().book(wish(world, emails=(), hook_command=hook))
    event, rest = target.read_text().split("\n", 1)
    assert event == "booked"
    assert json.loads(rest)["trip"] == trip.trip_id


async def test_a_hook_that_fails_is_a_note(tmp_path: Path) -> None:
    """As is one that does not exist; the trip stays booked."""
    world = FaultWorld(tmp_path, "alpha")
    heard: list[News] = []
    hook = (str(tmp_path / "no such hook"),)
    trip = await world.laptop().book(wish(world, hook_command=hook), listener=heard.append)
    assert trip.state is TripState.BOOKED
    assert any("the hook failed" in each.text for each in heard)


async def test_history_tells_a_trip_step_by_step(tmp_path: Path) -> None:
    """From the wish to the end, in order; filters leave out what does not match."""
    world = FaultWorld(tmp_path, "alpha", "beta")
    agent = world.laptop()
    trip = await agent.book(wish(world))
    await agent.cancel(trip.trip_id)
    texts = [each.text for each in agent.history(trip.trip_id).steps]
    assert texts[0].startswith("asked for")
    assert texts[-1].startswith("CANCELLED")
    held = next(number for number, text in enumerate(texts) if "holds of" in text)
    assert any("booked as" in text for text in texts[held:])
    assert [each.itinerary.trip_id for each in agent.histories()] == [trip.trip_id]
    assert agent.histories(state=TripState.BOOKED) == []
    assert agent.histories(since=world.clock.now() + 1) == []


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_trip_as_icalendar(tmp_path: Path, is_cancelled: bool) -> None:
    """The same identity before and after, so that a calendar takes the cancellation."""
    world = FaultWorld(tmp_path, "alpha", "beta")
    agent = world.laptop()
    trip = await agent.book(world.metajob())
    if is_cancelled:
        await agent.cancel(trip.trip_id)
    (event,) = Calendar.from_ical(agent.itinerary_ics(trip.trip_id)).walk("VEVENT")
    assert event["UID"] == trip.trip_id
    assert event["STATUS"] == ("CANCELLED" if is_cancelled else "CONFIRMED")

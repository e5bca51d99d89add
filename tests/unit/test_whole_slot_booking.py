"""A live site whose reservations take whole slots, as its configuration says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.gridcore.booking import fitting
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Availability, Decline, Reservation
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.capacity.ladders import EXACT, SlotLadder
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridcore.errors import InputError
from tests.support.builders import a_calendar, a_request, room_shown, some_rules
from tests.support.maintenance_world import KENNETH, MaintenanceWorld, a_wish

HALF_HOURS = SlotLadder.parse("4x450, *x1800")
PAPER = SlotLadder.parse("32 x 10s, 8 x 320s, * x 2560s")


def site_file(folder: Path, text: str) -> Path:
    """A site's configuration with these lines in its ``[calendar]`` table."""
    path = folder / "site.toml"
    path.write_text(f'[site]\nname = "lab"\n[calendar]\n{text}\n')
    return path


def slotted(ladder: SlotLadder = HALF_HOURS, threshold_permille: int = 1000) -> Calendar:
    """Four nodes, taken in whole slots."""
    rule = SlotRule(ladder=ladder, threshold_permille=threshold_permille)
    calendar = a_calendar(4, rules=some_rules(horizon_s=40_000), slot_rule=rule)
    calendar.take_slots(0)
    return calendar


def booked(calendar: Calendar, name: str, nodes: int, start: int, duration_s: int) -> bool:
    """Reserve exactly this at once; False when it is refused."""
    request = a_request(name.replace(" ", "-"), nodes=nodes, start=start, duration_s=duration_s)
    answer, events = calendar.decide_reserve(request, "ada", None, 0)
    for event in events:
        calendar.apply(event)
    return isinstance(answer, Reservation)


def test_a_site_chooses_its_ladder_in_its_configuration(tmp_path: Path) -> None:
    """Exact by default; the paper's ladder as the paper writes it, with a resource threshold."""
    assert load_site_config(site_file(tmp_path, "")).slot_rule == SlotRule(ladder=EXACT)
    assert load_site_config(site_file(tmp_path, 'slots = "exact"')).slot_rule.is_exact
    chosen = site_file(
        tmp_path, 'slots = "32 x 10s, 8 x 320s, * x 2560s"\nthreshold_permille = 800'
    )
    assert load_site_config(chosen).slot_rule == SlotRule(ladder=PAPER, threshold_permille=800)


@pytest.mark.parametrize("key", ["slots", "published_slots"])
def test_a_ladder_whose_levels_do_not_divide_is_refused_by_its_key(
    tmp_path: Path, key: str
) -> None:
    """One line that names the file, the key, the two lengths and what would be right."""
    with pytest.raises(InputError) as refused:
        load_site_config(site_file(tmp_path, f'{key} = "4x450, *x1000"'))
    assert f"calendar.{key}: slot length 1000 s is not a greater multiple of 450 s" in str(
        refused.value
    )
    assert "integer multiple" in str(refused.value)


def test_counter_example_of_section_2_3_at_a_live_calendar() -> None:
    """One node for 30 minutes and four nodes for 7.5 fit one slot by area and not by slots; the
    refusal names the next slot. On the exact ladder the same four nodes find the rest of the time.
    """
    calendar, exact = slotted(), slotted(EXACT)
    far = 3 * 1800
    for each in (calendar, exact):
        assert booked(each, "long and thin", 1, far, 1350)
    request = a_request("short-and-wide", nodes=4, start=far + 1350, duration_s=450)
    refusal = calendar.inquire(request, 0)
    assert isinstance(refusal, Decline)
    assert refusal.earliest == far + 1800
    assert isinstance(exact.inquire(request, 0), Availability)


def test_a_split_keeps_the_start_and_gives_back_the_rest() -> None:
    """What is booked for a given time stays where it is in the finest slot not too late for it."""
    calendar = slotted()
    assert booked(calendar, "fixed", 3, 2000, 500)
    assert calendar.free["node"].steps() == [(0, 4), (1800, 1), (3600, 4)]
    calendar.advance(1800)
    assert calendar.reservations["lab.1"].start == 2000
    assert calendar.free["node"].steps() == [(1800, 1), (2700, 4)]
    calendar.validate()


def test_the_resource_threshold_withholds_far_slots() -> None:
    """Half of a far slot is promised in advance, all of a near one; more than half gets a far slot
    that nobody else has.
    """
    calendar = slotted(threshold_permille=500)
    assert booked(calendar, "half", 2, 3600, 100)
    assert not booked(calendar, "the rest", 1, 3600, 100)
    assert booked(calendar, "all of another", 4, 7200, 100)
    assert booked(calendar, "soon", 2, 450, 100)
    assert booked(calendar, "soon as well", 2, 450, 100)


def test_a_failed_node_is_nobody_elses() -> None:
    """Far slots in which nothing is promised can be had as they are, at any second, and a promise
    there withholds the rest as ever.
    """
    calendar = slotted(threshold_permille=500)
    calendar.free["node"].withdraw(1, 0, None)
    availability = calendar.slots.rule.availability(calendar.free, 0)["node"]
    assert availability.min_free(0, 40_000) == 3
    assert booked(calendar, "two of three", 2, 3600, 100)
    assert not booked(calendar, "the rest", 1, 3600, 100)
    assert booked(calendar, "all of another", 3, 7200, 100)


def test_a_summary_shows_no_more_than_the_owner_would_promise() -> None:
    """Whoever plans on the shadow of a slotted calendar is not sent for the rest of a slot."""
    calendar = slotted(threshold_permille=500)
    assert booked(calendar, "fixed", 1, 3700, 100)
    summary = summarise(calendar, EXACT, 0, horizon_s=20_000)
    for nodes in (1, 2, 4):
        request = a_request("guess", nodes=nodes, start=5000, duration_s=300)
        guess = fitting.find(calendar, request, 0, room_shown(summary), lead_s=3)
        told = calendar.inquire(request, 0)
        assert isinstance(guess, Availability) == isinstance(told, Availability)


async def test_the_queue_of_a_live_site_moves_up_when_slots_are_split(tmp_path: Path) -> None:
    """A job waits behind a whole slot; after the split it has the room that the reservation does
    not touch, and the reservation its start. A restart takes the same slots again.
    """
    rule = SlotRule(ladder=HALF_HOURS)
    world = MaintenanceWorld(tmp_path, now=1_000_800, slot_rule=rule)  # a multiple of 1800
    await world.start()
    now = world.clock.now()
    port = world.agent.calendar_port(KENNETH)
    held = await port.reserve(a_wish("whole", 4, now + 3600, 400), ttl_s=30)
    assert isinstance(held, Reservation)
    await port.commit(held.reservation_id)
    job = await world.submit(4, 5400)
    assert world.view(job).planned_start == now + 5400, "behind the slot of half an hour"
    await world.restart()
    assert world.agent.calendar.free["n"].max_free(now + 3600, now + 5400) == 0
    assert world.view(job).planned_start == now + 5400
    await world.pass_time(3000)
    assert world.view(job).planned_start == now + 4050, "behind its quarter of the slot"
    kept = world.agent.calendar.get(held.reservation_id)
    assert kept.start == now + 3600
    await world.stop()

"""Reservations of the site itself: maintenance with draining, and standing ones in local time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationRequest
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.reservations.standing import (
    StandingReservation,
    StartRule,
    keep_standing,
)
from gridtravel.local_sched.reservations.system import decide_system_reservation
from gridtravel.local_sched.scheduling.reservation_jobs import AccessRule
from gridtravel.local_sched.scheduling.shortpools import Shortpool
from tests.support.scheduler_worlds import EASY, REPLAN, SmallSite

DAY_S = 86_400


def maintenance(
    start: int, duration_s: int, *, latest_end: int | None = None
) -> ReservationRequest:
    """All four nodes at a fixed time, or later up to ``latest_end``."""
    return ReservationRequest(
        request_id="maintenance",
        account="system",
        nodes_min=4,
        nodes_max=4,
        duration_s=duration_s,
        earliest_start=start,
        latest_end=latest_end or start + duration_s,
    )


def test_maintenance_drains_running_jobs_and_displaces_waiting_ones() -> None:
    """Running jobs keep their limit; places in the way are given up, those in front of it stay."""
    site = SmallSite()
    site.submit(4, 100)
    before, after = site.submit(4, 50), site.submit(4, 60)
    site.cycle()
    decision = decide_system_reservation(site.calendar, site.scheduler, maintenance(150, 100), 0)
    assert isinstance(decision.answer, Reservation)
    assert decision.displaced == (after,)
    for event in decision.events:
        site.calendar.apply(event)
    site.cycle()
    assert (before.planned_start, after.planned_start) == (100, 250)
    short = site.submit(2, 151)
    site.cycle()
    assert short.planned_start == 310, "nothing may run into it"


def test_maintenance_waits_for_running_jobs() -> None:
    """At a fixed time in their way it is declined with the earliest time; with a window it
    slides.
    """
    site = SmallSite(EASY)
    site.submit(4, 100)
    site.cycle()
    fixed = decide_system_reservation(site.calendar, site.scheduler, maintenance(50, 20), 0)
    assert isinstance(fixed.answer, Decline)
    assert fixed.answer.earliest == 100
    slides = maintenance(50, 20, latest_end=500)
    found = decide_system_reservation(site.calendar, site.scheduler, slides, 0)
    assert isinstance(found.answer, Reservation)
    assert found.answer.start == 100


def local(zone: str, *when: int) -> int:
    """A local time as an instant."""
    return int(datetime(*when, tzinfo=ZoneInfo(zone)).timestamp())  # type: ignore[arg-type,misc]


def test_local_start_stays_local_across_a_change_of_clock() -> None:
    """08:00 in Los Angeles, on the days around both changes of 2026, weekends left out."""
    rule = StartRule(text="0 8 * * 1-5", zone="America/Los_Angeles")
    spring = rule.starts(local("America/Los_Angeles", 2026, 3, 6, 0))
    expected = [local("America/Los_Angeles", 2026, 3, day, 8) for day in (6, 9, 10)]
    assert [next(spring) for _ in range(3)] == expected
    assert expected[1] - expected[0] == 3 * DAY_S - 3600
    autumn = rule.starts(local("America/Los_Angeles", 2026, 10, 30, 9))
    assert next(autumn) == local("America/Los_Angeles", 2026, 11, 2, 8)


def test_skipped_and_doubled_local_times() -> None:
    """02:30 does not exist on the night in spring, and comes twice in autumn: once each all the
    same.
    """
    rule = StartRule(text="30 2 * * *", zone="Europe/Berlin")
    spring = rule.starts(local("Europe/Berlin", 2026, 3, 28, 12))
    assert next(spring) == local("Europe/Berlin", 2026, 3, 29, 3, 30)
    autumn = rule.starts(local("Europe/Berlin", 2026, 10, 24, 12))
    first, second = next(autumn), next(autumn)
    assert first == int(datetime(2026, 10, 25, 0, 30, tzinfo=ZoneInfo("UTC")).timestamp())
    assert second - first == DAY_S + 3600


def test_start_rules_read_lists_ranges_and_steps() -> None:
    """As cron writes them; Sunday is 0 or 7; impossible days have no instance."""
    rule = StartRule(text="*/20,5 0-6/3 1,15 * 0,7", zone="UTC")
    assert (rule.minutes, rule.hours) == ((0, 5, 20, 40), (0, 3, 6))
    assert (rule.days, rule.weekdays) == ((1, 15), (0,))
    assert StartRule(text="10/20 * * * *", zone="UTC").minutes == (10, 30, 50)
    assert list(StartRule(text="0 0 30 2 *", zone="UTC").starts(0)) == []


@pytest.mark.parametrize(
    "text", ["0 8 * *", "60 8 * * *", "0 8-6 * * *", "x 8 * * *", "*/0 * * * *", "0 8 * * 1-"]
)
def test_senseless_start_rules_are_refused(text: str) -> None:
    """Each field within its bounds, rising, and five of them."""
    with pytest.raises(InputError):
        StartRule(text=text, zone="UTC")
    with pytest.raises(InputError):
        StartRule(text="0 8 * * *", zone="PST")


def standing(**more: object) -> StandingReservation:
    """Two nodes for 100 s at every full hour."""
    fields: dict[str, object] = {
        "name": "course",
        "start_rule": StartRule(text="0 * * * *", zone="UTC"),
        "duration_s": 100,
        "nodes": 2,
        "depth": 3,
    }
    return StandingReservation(**(fields | more))  # type: ignore[arg-type]


def keep(
    site: SmallSite, rule: StandingReservation, now: Instant = 0
) -> tuple[list[Reservation], dict[tuple[str, Instant], Decline]]:
    """The site keeps the rule; the instances that are new, and those that cannot be made."""
    known = set(site.calendar.reservations)

    def record(events: Sequence[CalendarEvent]) -> None:
        for event in events:
            site.calendar.apply(event)

    missing = keep_standing(site.calendar, site.scheduler, [rule], now, record=record)
    reservations = site.calendar.reservations
    return [each for key, each in reservations.items() if key not in known], missing


def test_standing_instances_are_made_ahead_and_once() -> None:
    """Three ahead; an hour later one more; a cancelled one does not come back."""
    site = SmallSite()
    made, _ = keep(site, standing())
    assert [each.start for each in made] == [3600, 7200, 10_800]
    changes = site.calendar.changes
    assert keep(site, standing()) == ([], {})
    assert site.calendar.changes == changes, "nothing to journal"
    site.release(made[1])
    site.cycle(3600)
    later, missing = keep(site, standing(), 3600)
    assert [each.start for each in later] == [14_400]
    assert missing == {}


def test_standing_instance_is_smaller_when_nodes_are_short() -> None:
    """It takes what is left, and what cannot be made at all is told with its reason."""
    site = SmallSite()
    site.reserved(3, 200, 3600, 4000)
    site.reserved(4, 200, 7200, 7400)
    made, missing = keep(site, standing())
    assert [(each.start, each.nodes) for each in made] == [(3600, 1), (10_800, 2)]
    assert list(missing) == [("course", 7200)]


def test_access_rule_lets_jobs_of_the_queue_in() -> None:
    """Who is on a list and within the limit starts inside without being bound; others stay out."""
    site = SmallSite()
    rule = AccessRule(accounts=("ann-account",), limit_max_s=100)
    keep(site, standing(access=rule))
    site.cycle(3500)
    running = site.submit(4, 100, owner="bob")
    site.cycle()
    insider, too_long = site.submit(1, 50), site.submit(1, 101)
    stranger = site.submit(1, 50, owner="bob")
    site.cycle(3599)
    assert insider.started_at is None
    site.now = 3600
    site.end(running)
    result = site.cycle()
    assert insider in result.starts
    assert insider.reservation_id
    assert not too_long.reservation_id
    assert not stranger.reservation_id


def test_empty_access_rule_admits_nobody_and_a_bare_limit_everybody() -> None:
    """A rule without lists is no open door; a limit alone makes a reservation for short jobs."""
    site = SmallSite()
    job = site.submit(1, 50)
    assert not AccessRule().admits(job)
    assert AccessRule(limit_max_s=50).admits(job)
    assert not AccessRule(limit_max_s=49).admits(job)
    assert AccessRule(owners=("ann",)).admits(job)


POOL = Shortpool(nodes=1, latency_s=100, duration_s=50, accounts=("ann-account",))


def test_shortpool_keeps_nodes_within_reach() -> None:
    """Long jobs leave one node, short ones may use it; what comes free is never more than 100 s
    away.
    """
    for config in (EASY, REPLAN):
        site = SmallSite(config, shortpool=POOL)
        long = [site.submit(1, 1000) for _ in range(4)]
        short = site.submit(1, 100)
        site.cycle()
        assert [job.started_at for job in long] == [0, 0, 0, None]
        assert short.started_at == 0
        site.now = 60
        site.end(short)
        site.cycle()
        assert long[3].started_at is None
        site.now = 70
        site.end(long[0])
        site.cycle()
        assert long[3].started_at == 70


def test_shortpool_is_there_for_entitled_accounts_alone() -> None:
    """Their reservation finds the block's nodes at once; somebody else's has to go behind it."""
    site = SmallSite(EASY, shortpool=POOL)
    for _ in range(3):
        site.submit(1, 1000)
    site.submit(1, 100)
    site.cycle()
    entitled = site.scheduler.free_after_queue("node", 0, "ann-account")
    others = site.scheduler.free_after_queue("node", 0, "bob-account")
    assert entitled.earliest_fit(1, 50, 0) == 100
    assert others.earliest_fit(1, 50, 0) == 150
    for owner, start in (("ann", 100), ("bob", 150)):
        found = site.scheduler.free_after_queue("node", 0, f"{owner}-account").earliest_fit(
            1, 50, 0
        )
        assert found is not None
        site.calendar.free["node"].book(1, found, found + 50)
        site.cycle()
        assert found == start


def test_shortpool_and_kept_places_contradict_each_other() -> None:
    """A block that moves with time cannot stand beside promises; senseless pools are refused."""
    with pytest.raises(InputError, match="shortpool"):
        SmallSite(shortpool=POOL)
    with pytest.raises(InputError):
        Shortpool(nodes=0, latency_s=1, duration_s=1)

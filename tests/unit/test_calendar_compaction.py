"""A calendar rebuilt from a journal that no longer has what is forgotten."""

from __future__ import annotations

from collections.abc import Iterable

from gridtravel.agents.journal.compaction import compacted
from gridtravel.agents.journal.events import NumbersGiven
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import ReservationState
from tests.support.builders import a_calendar, a_request, free_per_second, some_rules


class Site:
    """A calendar of four nodes that keeps its events."""

    def __init__(self) -> None:
        self.calendar = a_calendar(4, rules=some_rules(tombstone_s=100))
        self.events: list[CalendarEvent] = []

    def carry_out(self, events: Iterable[CalendarEvent]) -> None:
        """Apply and remember."""
        for event in events:
            self.calendar.apply(event)
            self.events.append(event)

    def rebuilt(self) -> Calendar:
        """What a restart after a compaction gives."""
        twin = a_calendar(4, rules=self.calendar.rules)
        for event in compacted(self.events, self.calendar, JobTable("lab"), lambda event: False):
            assert isinstance(event, CalendarEvent | NumbersGiven)
            if isinstance(event, NumbersGiven):
                assert event.reservations == self.calendar.ids_given
            else:
                twin.apply(event)
        twin.validate()
        assert twin.reservations == self.calendar.reservations
        assert (twin.finished_at, twin.tombstoned) == (
            self.calendar.finished_at,
            self.calendar.tombstoned,
        )
        return twin


def test_what_was_replaced_is_forgotten_before_what_replaced_it() -> None:
    """The new one stands alone in the rebuilt book, and takes what it takes now."""
    site = Site()
    first = a_request("request-1", start=20)
    site.carry_out(site.calendar.decide_reserve(first, "ada", None, 0)[1])
    second = a_request("request-2", nodes=4, start=200, replaces="lab.1")
    site.carry_out(site.calendar.decide_reserve(second, "ada", 10, 1)[1])
    site.carry_out(site.calendar.decide_commit("lab.2", "ada", 2)[1])
    site.carry_out(site.calendar.decide_sweep(103))
    assert list(site.calendar.reservations) == ["lab.2"]
    twin = site.rebuilt()
    assert twin.get("lab.2").state is ReservationState.COMMITTED
    assert free_per_second(twin, range(198, 212)) == [4, 4, *[0] * 10, 4, 4]


def test_a_request_buried_again_after_it_was_forgotten() -> None:
    """Only the burial that is remembered counts."""
    site = Site()
    site.carry_out(site.calendar.decide_release_request("request-1", "ada", 0))
    site.carry_out(site.calendar.decide_sweep(101))
    assert site.calendar.tombstoned == {}
    site.carry_out(site.calendar.decide_release_request("request-1", "ada", 102))
    assert site.rebuilt().oldest_tombstone() == 102

"""Whatever callers reserve and release: the room for what is over is kept, and is shared fairly."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.agents.journal.compaction import compacted
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.gridcore.booking import tombstones
from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.reservations import Reservation
from tests.support.builders import a_calendar, a_request, some_rules

ENDED, TOMBSTONES = 4, 6
owners = st.sampled_from(["eve", "eve", "eve", "ada", "bob"])
acts = st.lists(st.tuples(owners, st.sampled_from(["hold", "hold", "bury", "wait", "compact"])))


@given(acts)
def test_who_takes_no_more_than_a_share_loses_nothing(asked: list[tuple[str, str]]) -> None:
    """The bounds hold; whoever left no more behind than fits into a share of the room loses nothing
    before its time; journals give back the same, compacted or not.
    """
    with (
        patch.object(tombstones, "ENDED_MAX", ENDED),
        patch.object(tombstones, "TOMBSTONES_MAX", TOMBSTONES),
    ):
        rules, now = some_rules(tombstone_s=100), 10
        calendar = a_calendar(4, rules=rules)
        journal: list[CalendarEvent] = []
        over: dict[str, list[tuple[int, str]]] = {}
        for number, (owner, what) in enumerate(asked):
            name = f"r{number}"
            events: list[CalendarEvent] = []
            if what == "wait":
                now += 30
                events += calendar.decide_sweep(now)
            elif what == "hold":
                held, granted = calendar.decide_reserve(
                    a_request(name, earliest=now, until=now + 500), owner, 10, now
                )
                assert isinstance(held, Reservation)
                events += granted
            for event in events:
                calendar.apply(event)
                journal.append(event)
            if what in ("hold", "bury"):
                for event in calendar.decide_release_request(name, owner, now):
                    calendar.apply(event)
                    journal.append(event)
                over.setdefault(owner, []).append((now, name))
            if what == "compact":
                journal = [
                    each
                    for each in compacted(journal, calendar, JobTable("lab"), lambda event: False)
                    if isinstance(each, CalendarEvent)
                ]
            calendar.validate()
            assert len(calendar.finished_at) <= ENDED
            assert len(calendar.tombstoned) <= TOMBSTONES
            for of, said in over.items():
                recent = [name for at, name in said if at > now - 100]
                if len(recent) > TOMBSTONES // len(over):
                    continue
                for each in recent:
                    is_kept = calendar.find_request(of, each) is not None
                    assert is_kept or (of, each) in calendar.tombstoned, each
        twin = a_calendar(4, rules=rules)
        for event in journal:
            twin.apply(event)
        assert twin.reservations == calendar.reservations
        assert list(twin.tombstoned.items()) == list(calendar.tombstoned.items())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9))), st.integers(1, 8))
def test_the_room_itself(said: list[tuple[str, int]], places: int) -> None:
    """As a list that is searched for the owner with most, each time."""
    room: tombstones.SharedRoom[tuple[str, int, int]] = tombstones.SharedRoom()
    plain: list[tuple[str, int, int]] = []
    for number, (owner, value) in enumerate(said):
        room.add(owner, (owner, value, number))
        plain.append((owner, value, number))
        while (gone := room.makes_way(places)) is not None:
            room.drop(gone[0], gone)
            most = Counter(each[0] for each in plain)
            first = min(most, key=lambda each: (-most[each], each))
            assert gone == next(each for each in plain if each[0] == first)
            plain.remove(gone)
        assert room.counts() == Counter(each[0] for each in plain)
        assert len(plain) <= places

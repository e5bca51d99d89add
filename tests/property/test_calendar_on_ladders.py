"""An owner's calendar on any ladder: asked anything in any order, beside a queue and restarts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.capacity.ladders import EXACT, SlotLadder
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.capacity.slot_grid import SlotGrid
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from tests.support.builders import a_calendar, a_request, some_rules

NODES = 4
RULES = some_rules(horizon_s=400, tombstone_s=5_000)
LADDERS = ["4x5, 3x20, *x80", "2x4, *x16", "*x7", "3x2, 2x6, 2x30, *x60"]
ladders = st.sampled_from(LADDERS).map(SlotLadder.parse)
wishes = st.tuples(
    st.integers(1, NODES), st.integers(1, 90), st.integers(4, 220), st.sampled_from([0, 3, 150])
)
picks = st.integers(0, 20)


class LadderMachine(RuleBasedStateMachine):
    """A calendar on a ladder, a queue whose jobs are booked to the second, and a clock."""

    @initialize(ladder=ladders, threshold=st.sampled_from([1000, 1000, 500]))
    def begin(self, ladder: SlotLadder, threshold: int) -> None:
        self.rule = SlotRule(ladder=ladder, threshold_permille=threshold)
        self.now = 100
        self.events: list[CalendarEvent] = []
        self.jobs: list[tuple[int, int, int]] = []
        self.promised: dict[str, int] = {}
        self.asked = 0
        self.calendar = self.fresh()

    def fresh(self) -> Calendar:
        """What the journal gives back."""
        calendar = a_calendar(NODES, rules=RULES, slot_rule=self.rule)
        for event in self.events:
            calendar.apply(event)
        calendar.advance(self.now)
        for nodes, start, end in self.jobs:
            if end > self.now:
                calendar.free["node"].book(nodes, start, end)
        calendar.take_slots(self.now)
        return calendar

    def said(self, wish: tuple[int, int, int, int], replaces: str | None) -> ReservationRequest:
        nodes, duration_s, ahead_s, slack_s = wish
        self.asked += 1
        earliest = self.now + ahead_s
        return a_request(
            f"request-{self.asked}",
            nodes=(nodes, NODES) if slack_s == 3 else nodes,
            duration_s=duration_s,
            earliest=earliest,
            until=earliest + duration_s + slack_s,
            replaces=replaces,
        )

    def carry_out(self, events: tuple[CalendarEvent, ...]) -> None:
        for event in events:
            self.calendar.apply(event)
            self.events.append(event)

    def pick(self, number: int, state: ReservationState) -> Reservation | None:
        among = [each for each in self.calendar.live() if each.state is state]
        return among[number % len(among)] if among else None

    @rule(wish=wishes, ttl_s=st.sampled_from([None, 20]), number=picks, replacing=st.booleans())
    def reserve(
        self, wish: tuple[int, int, int, int], ttl_s: int | None, number: int, replacing: bool
    ) -> None:
        old = self.pick(number, ReservationState.COMMITTED) if replacing else None
        request = self.said(wish, None if old is None else old.reservation_id)
        told = self.calendar.inquire(request, self.now)
        answer, events = self.calendar.decide_reserve(request, "ada", ttl_s, self.now)
        if isinstance(told, Availability) and ttl_s is not None:
            assert isinstance(answer, Reservation), "what was offered is granted at once"
        self.carry_out(events)
        if isinstance(answer, Reservation):
            self.promised[answer.reservation_id] = answer.start

    @rule(number=picks, verb=st.sampled_from(["commit", "release"]))
    def go_on(self, number: int, verb: str) -> None:
        found = self.pick(number, ReservationState.HELD)
        if found is not None and verb == "commit":
            self.carry_out(self.calendar.decide_commit(found.reservation_id, "ada", self.now)[1])
        elif found is not None:
            self.carry_out(self.calendar.decide_release(found.reservation_id, "ada", self.now))

    @rule(number=picks)
    def cancel(self, number: int) -> None:
        found = self.pick(number, ReservationState.COMMITTED)
        if found is not None:
            self.carry_out(self.calendar.decide_release(found.reservation_id, "ada", self.now))

    @rule(number=picks, wish=wishes)
    def amend(self, number: int, wish: tuple[int, int, int, int]) -> None:
        found = self.pick(number, ReservationState.COMMITTED)
        if found is None:
            return
        answer, events = self.calendar.decide_amend(
            found.reservation_id, self.said(wish, None), "ada", self.now
        )
        self.carry_out(events)
        if not isinstance(answer, Decline):
            self.promised[answer.reservation_id] = answer.start

    @rule(number=picks, shorter_s=st.integers(0, 90), fewer=st.integers(0, NODES - 1))
    def give_back(self, number: int, shorter_s: int, fewer: int) -> None:
        """Less of what it has is always granted: behind a threshold, beside a queue, after a
        restart.
        """
        found = self.pick(number, ReservationState.COMMITTED)
        live = self.calendar.live()
        if found is None or any(each.request.replaces == found.reservation_id for each in live):
            return
        end = max(found.end - shorter_s, max(found.start, self.now) + 1)
        if end > found.end or self.now < self.calendar.free["node"].origin:
            return
        self.asked += 1
        request = a_request(
            f"request-{self.asked}",
            nodes=max(1, found.nodes - fewer),
            duration_s=end - found.start,
            start=found.start,
        )
        answer, events = self.calendar.decide_amend(found.reservation_id, request, "ada", self.now)
        assert isinstance(answer, Reservation), answer
        assert answer.start == found.start
        self.carry_out(events)

    @rule(nodes=st.integers(1, NODES), length_s=st.integers(1, 60))
    def queue_a_job(self, nodes: int, length_s: int) -> None:
        """The queue takes what is left, to the second."""
        start = self.calendar.free["node"].earliest_fit(nodes, length_s, self.now)
        assert start is not None
        self.calendar.free["node"].book(nodes, start, start + length_s)
        self.jobs.append((nodes, start, start + length_s))

    @rule(seconds=st.integers(1, 70), is_noticed=st.booleans())
    def pass_time(self, seconds: int, is_noticed: bool) -> None:
        self.now += seconds
        if is_noticed:
            self.calendar.advance(self.now)
            self.carry_out(self.calendar.decide_sweep(self.now))

    @rule()
    def restart(self) -> None:
        self.calendar = self.fresh()

    @invariant()
    def promises_stand(self) -> None:
        """No over-commit in any slot at its resolution, and no start that was ever changed."""
        if not hasattr(self, "calendar"):
            return
        calendar = self.calendar
        calendar.validate()
        profile = calendar.free["node"]
        assert min(profile.free) >= 0
        for each in calendar.live():
            assert each.start == self.promised[each.reservation_id]
        seen = max(self.now, calendar.slots.as_of)
        grid = SlotGrid.at(self.rule.ladder, seen)
        held = ReservationState.HELD
        live = calendar.live()
        whole = [each for each in live if each.state is not held or not each.request.replaces]
        for start, end, _ in grid.slots(seen + 700):
            start = max(start, seen + 1, profile.origin)
            if start < end:
                touching = [e.nodes for e in whole if e.start < end and start < e.end]
                assert profile.max_free(start, end) + sum(touching) <= NODES

    def teardown(self) -> None:
        """Splits and ends neither lose nor invent a node: when all is given back, all is free."""
        if not hasattr(self, "calendar"):
            return
        for each in self.calendar.live():
            self.carry_out(self.calendar.decide_release(each.reservation_id, None, self.now))
        for nodes, start, end in self.jobs:
            if end > max(self.now, self.calendar.free["node"].origin):
                self.calendar.free["node"].unbook(nodes, start, end)
        self.calendar.advance(self.now)
        assert self.calendar.free["node"] == AvailabilityProfile(
            NODES, self.calendar.free["node"].origin
        )


TestCalendarOnLadders = LadderMachine.TestCase
TestCalendarOnLadders.settings = settings(max_examples=3 * settings().max_examples)


@given(
    asked=st.lists(wishes, min_size=1, max_size=12),
    before=st.sampled_from([EXACT, *map(SlotLadder.parse, LADDERS)]),
    after=st.sampled_from([EXACT, *map(SlotLadder.parse, LADDERS)]),
    pause_s=st.integers(0, 60),
)
def test_a_changed_ladder_breaks_no_promise(
    asked: list[tuple[int, int, int, int]],
    before: SlotLadder,
    after: SlotLadder,
    pause_s: int,
) -> None:
    """A site may change its ladder: what is promised stays, and what comes then is widened."""
    machine = LadderMachine()
    machine.begin(before, 1000)
    for wish in asked:
        machine.reserve(wish, None, 0, False)
    machine.now += pause_s
    starts = {each.reservation_id: each.interval for each in machine.calendar.live()}
    machine.rule = SlotRule(ladder=after)
    machine.restart()
    assert {each.reservation_id: each.interval for each in machine.calendar.live()} == starts
    machine.calendar.validate()
    profile = machine.calendar.free["node"]
    assert min(profile.free) >= 0
    for second in (*profile.times, *(max(each.start, profile.origin) for each in starts.values())):
        promised = [e.nodes for e in machine.calendar.live() if e.interval.contains(second)]
        assert profile.free_at(second) + sum(promised) <= NODES
    machine.pass_time(30, True)
    machine.teardown()


@given(asked=st.lists(st.tuples(wishes, st.booleans(), st.integers(0, 30)), max_size=15))
def test_the_exact_ladder_is_the_exact_profile(
    asked: list[tuple[tuple[int, int, int, int], bool, int]],
) -> None:
    """A calendar that was told to take slots of one second answers as one that was told nothing."""
    machine, plain = LadderMachine(), LadderMachine()
    machine.begin(EXACT, 1000)
    plain.begin(SlotLadder.parse("*x1"), 1000)
    plain.calendar = a_calendar(NODES, rules=RULES)
    for wish, replacing, pause_s in asked:
        for each in (machine, plain):
            each.reserve(wish, None, 0, replacing)
            each.pass_time(1 + pause_s, True)
        assert machine.calendar.live() == plain.calendar.live()
        for each in (machine, plain):
            each.calendar.advance(machine.now)
        assert machine.calendar.free == plain.calendar.free

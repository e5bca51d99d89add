"""A calendar that is asked anything in any order, beside the naive model of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from gridtravel.gridcore.booking.calendar_events import RequestTombstoned
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    ReservationEvent,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.errors import ConflictError, InputError, NotAuthorisedError, NotFoundError
from tests.support.calendar_world import (
    CLASSES,
    NOW_MAX,
    RULES,
    TARIFF,
    CalendarWorld,
    Wish,
    public_state,
)

owners = st.sampled_from(["ada", "bob"])
picks = st.integers(0, 30)
lifetimes = st.sampled_from([None, 9, None, 5, 100, 0])
likely = st.builds(
    Wish,
    size=st.sampled_from([(1, 3), (1, 1), (2, 2), (1, 2), (2, 3)]),
    duration_s=st.sampled_from([6, 10, 15, 3, 20]),
    offset_s=st.sampled_from([4, 0, 1, 8, 12, -3]),
    slack_s=st.sampled_from([20, 8, 40, 1, 0]),
    features=st.just(()),
    budget_millicredits=st.none(),
)
unlikely = st.builds(
    Wish,
    size=st.sampled_from([(1, 2), (2, 2), (1, 3), (3, 3), (2, 5), (4, 4)]),
    duration_s=st.sampled_from([1, 6, 10, 15, 60]),
    offset_s=st.integers(-15, 30),
    slack_s=st.sampled_from([0, 1, 8, 20, 60]),
    features=st.sampled_from([(), ("disk",), ("gpu",), ("gpu", "tape")]),
    budget_millicredits=st.sampled_from([None, 0, 20, 60, 120]),
)
wishes = likely | unlikely


class CalendarMachine(CalendarWorld):
    """Every rule asks the calendar, predicts the answer from the model, and carries both on."""

    @initialize(asked=st.lists(st.tuples(likely, owners, lifetimes), min_size=2, max_size=6))
    def begin(self, asked: list[tuple[Wish, str, int | None]]) -> None:
        """Nobody learns much from an empty calendar."""
        for wish, owner, ttl_s in asked:
            self.reserve(self.said(wish), owner, ttl_s)

    # -- verbs -------------------------------------------------------------------------------------

    @rule(wish=wishes, owner=owners, ttl_s=lifetimes)
    def ask_for_room(self, wish: Wish, owner: str, ttl_s: int | None) -> None:
        """Reserve, with and without a lifetime."""
        self.reserve(self.said(wish), owner, ttl_s)

    @rule(wish=wishes, number=picks, ttl_s=lifetimes, is_near=st.booleans())
    def ask_to_replace(self, wish: Wish, number: int, ttl_s: int | None, is_near: bool) -> None:
        """Reserve what is to replace another reservation, whatever state that is in."""
        old_id = self.pick(number, "COMMITTED") or self.pick(number, "HELD", "RELEASED")
        if old_id is None:
            return
        entry = self.model.entries[old_id]
        stranger = "bob" if entry.owner == "ada" else "ada"
        anchor = entry.start if is_near else None
        request = self.said(wish, replaces=old_id, anchor=anchor)
        with pytest.raises(NotAuthorisedError):
            self.calendar.decide_reserve(request, stranger, ttl_s, self.now)
        with pytest.raises(NotFoundError):
            self.calendar.decide_reserve(
                replace(request, replaces="lab.0"), entry.owner, ttl_s, self.now
            )
        self.reserve(request, entry.owner, ttl_s)

    @rule(number=picks, which=picks, ttl_s=lifetimes)
    def ask_again(self, number: int, which: int, ttl_s: int | None) -> None:
        """The same words give what they booked, as that is now; other words under that id are a
        mistake.
        """
        entry_id = self.pick(number, *ReservationState)
        if entry_id is None:
            return
        entry = self.model.entries[entry_id]
        request = entry.requests[which % len(entry.requests)]
        answer, events = self.calendar.decide_reserve(request, entry.owner, ttl_s, self.now)
        assert events == ()
        if entry.is_live:
            assert answer == self.calendar.get(entry_id)
        else:
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.FINISHED
        other = replace(request, duration_s=1, latest_end=request.latest_end + 1)
        with pytest.raises(InputError):
            self.calendar.decide_reserve(other, entry.owner, ttl_s, self.now)
        if request.replaces is None:
            assert self.calendar.decide_amend(entry_id, request, None, self.now) == (answer, ())

    @rule(number=picks, is_late=st.booleans())
    def commit(self, number: int, is_late: bool) -> None:
        """Phase two, by its owner within the lifetime, or late because the trip was committed."""
        entry_id = self.pick(number, "HELD") or self.pick(number, *ReservationState)
        if entry_id is None:
            with pytest.raises(NotFoundError):
                self.calendar.decide_commit("lab.1", None, self.now)
            return
        entry = self.model.entries[entry_id]
        if is_late:
            answer, events = self.calendar.decide_late_commit(entry_id, self.now)
        else:
            with pytest.raises(NotAuthorisedError):
                self.calendar.decide_commit(entry_id, f"not-{entry.owner}", self.now)
            answer, events = self.calendar.decide_commit(entry_id, entry.owner, self.now)
        self.carry_out(events)
        is_known = entry.state == "COMMITTED" or (is_late and entry.state == "COMPLETED")
        is_over = entry.expires_at is not None and entry.expires_at <= self.now and not is_late
        if entry.state == "HELD" and is_over:
            self.model.end_entry(entry_id, "EXPIRED", self.now)
        elif entry.state == "HELD":
            self.commit_in_model(entry_id)
            is_known = True
        if is_known:
            assert answer == self.calendar.get(entry_id)
        else:
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.STATE

    @rule(number=picks, is_successor_left=st.booleans())
    def release(self, number: int, is_successor_left: bool) -> None:
        """Undo by id, whatever the state; strangers may not."""
        assert self.calendar.decide_release("lab.0", "ada", self.now) == ()
        entry_id = self.pick(number, *ReservationState)
        replaced = [one.replaces for one in self.model.entries.values() if one.replaces]
        if is_successor_left and replaced:
            entry_id = replaced[0]
        if entry_id is None:
            return
        entry = self.model.entries[entry_id]
        with pytest.raises(NotAuthorisedError):
            self.calendar.decide_release(entry_id, f"not-{entry.owner}", self.now)
        events = self.calendar.decide_release(entry_id, entry.owner, self.now)
        self.carry_out(events)
        assert bool(events) == entry.is_live
        if entry.is_live:
            self.model.end_entry(entry_id, "RELEASED", self.now)

    @rule(number=picks, which=picks, by=owners, wish=wishes)
    def release_request(self, number: int, which: int, by: str, wish: Wish) -> None:
        """Undo by the request's id, also by that of a change, by somebody else's, and before the
        request was heard.
        """
        if which % 3 == 0:
            self.release_before_it_is_asked(self.said(wish), by, number)
        entry_id = self.pick(number, *ReservationState)
        if entry_id is None:
            return
        requests = self.model.entries[entry_id].requests
        request_id = requests[which % len(requests)].request_id
        events = self.calendar.decide_release_request(request_id, by, self.now)
        self.carry_out(events)
        found = self.model.heard(by, request_id)
        if found is None:
            self.model.tombstoned.setdefault((by, request_id), self.now)
        elif self.model.entries[found[0]].is_live:
            self.model.end_entry(found[0], "RELEASED", self.now)

    def release_before_it_is_asked(
        self, request: ReservationRequest, owner: str, number: int
    ) -> None:
        """A release that overtakes its request: the request never books or changes anything."""
        events = self.calendar.decide_release_request(request.request_id, owner, self.now)
        self.carry_out(events)
        assert isinstance(events[0], RequestTombstoned)
        assert self.calendar.decide_release_request(request.request_id, owner, self.now) == ()
        self.model.tombstoned[owner, request.request_id] = self.now
        answer, events = self.calendar.decide_reserve(request, owner, 5, self.now)
        assert isinstance(answer, Decline)
        assert (answer.rule, events) == (DeclineRule.FINISHED, ())
        entry_id = self.pick(number, "COMMITTED")
        if entry_id is not None and self.model.entries[entry_id].owner == owner:
            answer, events = self.calendar.decide_amend(entry_id, request, owner, self.now)
            assert isinstance(answer, Decline)
            assert (answer.rule, events) == (DeclineRule.FINISHED, ())

    @rule(wish=wishes, number=picks, is_rooted=st.booleans(), is_running=st.booleans())
    def amend(self, wish: Wish, number: int, is_rooted: bool, is_running: bool) -> None:
        """Another window or size; what is granted and what is refused is what the model says."""
        entry_id = self.pick(number, "COMMITTED") or self.pick(number, *ReservationState)
        if entry_id is None:
            return
        running = [key for key, one in self.model.entries.items() if one.is_running(self.now)]
        if is_running and running:
            entry_id = running[number % len(running)]
        entry, request = self.model.entries[entry_id], self.said(wish)
        if is_rooted or is_running:
            request = replace(
                request,
                earliest_start=entry.start,
                latest_end=entry.start + request.duration_s,
            )
        before = self.calendar.get(entry_id)
        answer, events = self.calendar.decide_amend(entry_id, request, entry.owner, self.now)
        self.carry_out(events)
        if not self.may_change(entry_id) or entry.end <= self.now:
            assert isinstance(answer, Decline)
            assert (answer.rule, events) == (DeclineRule.STATE, ())
        elif entry.start <= self.now:
            nodes = self.model.running_nodes(entry_id, request, self.now)
            if nodes < request.nodes_min:
                assert isinstance(answer, Decline)
                assert (answer.nodes_now, answer.earliest, events) == (nodes, None, ())
            else:
                unit = TARIFF.unit_price_millicredits(entry.resource_class, 0, request.duration_s)
                granted = (entry.start, entry.resource_class, min(nodes, request.nodes_max), unit)
                self.amended(entry_id, request, before, answer, *granted)
        else:
            possible = self.model.possible(request, self.now, 0, entry_id)
            if not possible:
                assert events == ()
                self.check_refusal(answer, request, 0, entry_id)
            else:
                best = possible[0]
                nodes = min(best.nodes, request.nodes_max)
                granted = (best.start, best.resource_class, nodes, best.unit_price)
                self.amended(entry_id, request, before, answer, *granted)

    @rule(wish=wishes, number=picks, is_replacing=st.booleans())
    def inquire(self, wish: Wish, number: int, is_replacing: bool) -> None:
        """Spread out second by second, the offers are exactly the starts that the model allows."""
        old_id = self.pick(number, "COMMITTED") if is_replacing else None
        if old_id is not None and not self.may_change(old_id):
            old_id = None
        request = self.said(wish, replaces=old_id)
        answer = self.calendar.inquire(request, self.now)
        possible = self.model.possible(request, self.now, RULES.lead_s, old_id)
        if not possible:
            self.check_refusal(answer, request, RULES.lead_s, old_id)
            return
        assert isinstance(answer, Availability)
        spread = {
            (start, offer.resource_class): (offer.nodes, offer.unit_price_millicredits)
            for offer in answer.offers
            for start in range(offer.start, offer.start_until)
        }
        assert len(spread) == sum(each.start_until - each.start for each in answer.offers)
        assert spread == {
            (one.start, one.resource_class): (one.nodes, one.unit_price) for one in possible
        }
        assert all(one.start <= other.start for one, other in pairwise(answer.offers))
        latest_end = min(request.latest_end, self.now + RULES.horizon_s)
        assert answer.known_until == latest_end - request.duration_s + 1
        assert answer.version == self.calendar.version

    # -- the owner's own upkeep --------------------------------------------------------------------

    @rule()
    def sweep(self) -> None:
        """What is over is completed, and old tombstones go."""
        over = [key for key, one in self.model.entries.items() if one.end <= self.now]
        self.carry_out(self.calendar.decide_sweep(self.now))
        for entry_id in over:
            if self.model.entries[entry_id].state == "COMMITTED":
                self.model.end_entry(entry_id, "COMPLETED", self.now)
        self.model.forget(self.now - RULES.tombstone_s)

    @rule()
    def expire(self) -> None:
        """Holds whose lifetime is over are let go, oldest first, and those granted by a clock that
        was ahead; nothing else can expire.
        """
        latest = self.now + RULES.hold_ttl_max_s
        due = self.calendar.due_holds(self.now)
        lives = {key: one.expires_at for key, one in self.model.entries.items()}
        expected = [
            (at, key)
            for key, at in lives.items()
            if at is not None and self.model.entries[key].state == "HELD"
            if not self.now < at <= latest
        ]
        assert [(each.hold_expires_at, each.reservation_id) for each in due] == sorted(expected)
        for _, entry_id in sorted(expected):
            events = self.calendar.decide_release(
                entry_id, None, self.now, event=ReservationEvent.EXPIRE
            )
            self.carry_out(events)
            self.model.end_entry(entry_id, "EXPIRED", self.now)
        firm_id = self.pick(0, "COMMITTED")
        if firm_id is not None:
            with pytest.raises(ConflictError):
                self.calendar.decide_release(firm_id, None, self.now, event=ReservationEvent.EXPIRE)

    @rule(step_s=st.sampled_from([1, 2, 3, 5, 9, 20]), number=picks, forgets=st.booleans())
    def advance(self, step_s: int, number: int, forgets: bool) -> None:
        """Time passes, often to a moment that matters; sometimes the profile forgets the past."""
        moments: list[int] = []
        for entry in self.model.entries.values():
            moments += [entry.start, entry.end, entry.expires_at or 0]
        moments = [one for one in moments if one > self.now]
        if number % 2 and moments:
            step_s = moments[number % len(moments)] - self.now
        self.now = min(self.now + step_s, NOW_MAX)
        self.latest = max(self.latest, self.now)
        if forgets:
            self.calendar.advance(self.now)
            self.model.origin = max(self.model.origin, self.now)

    @rule(step_s=st.integers(1, 15))
    def step_back(self, step_s: int) -> None:
        """Somebody corrects the clock."""
        self.now = max(self.floor, self.now - step_s)

    @rule(is_compacted=st.booleans())
    def restart(self, is_compacted: bool) -> None:
        """Go on with what a replay of the journal gives, also after it was compacted."""
        if is_compacted and self.now == self.latest:
            self.compact()
        self.calendar, self.model.origin = self.replayed(), 0

    # -- what always holds -------------------------------------------------------------------------

    @invariant()
    def books_agree(self) -> None:
        """The calendar is consistent in itself, and entries are as the model has them."""
        self.calendar.validate()
        seen = {
            key: (one.state.value, one.start, one.end, one.nodes, one.resource_class)
            for key, one in self.calendar.reservations.items()
        }
        assert seen == {
            key: (one.state, one.start, one.end, one.nodes, one.resource_class)
            for key, one in self.model.entries.items()
        }
        finished = {k: one.finished_at for k, one in self.model.entries.items() if not one.is_live}
        assert self.calendar.finished_at == finished
        assert self.calendar.tombstoned == self.model.tombstoned
        stones = [*finished.values(), *self.model.tombstoned.values()]
        assert self.calendar.oldest_tombstone() == min(stones, default=None)
        firm = [one.end for one in self.model.entries.values() if one.state == "COMMITTED"]
        assert self.calendar.next_end() == min(firm, default=None)
        begins = sorted(
            (one.start, key) for key, one in self.model.entries.items() if one.state == "COMMITTED"
        )
        begun = [(each.start, each.reservation_id) for each in self.calendar.begun(self.now)]
        assert begun == [each for each in begins if each[0] <= self.now]
        later = [start for start, _ in begins if start > self.now]
        assert self.calendar.next_start(self.now) == min(later, default=None)

    @invariant()
    def room_agrees(self) -> None:
        """Each second from now on shows the same number of free nodes."""
        for name, profile in self.calendar.free.items():
            seconds = range(max(self.now, profile.origin), NOW_MAX + RULES.horizon_s + 60)
            free = [profile.free_at(second) for second in seconds]
            assert free == [self.model.availability[name][second] for second in seconds]

    @invariant()
    def nothing_is_promised_twice(self) -> None:
        """Live reservations fit into the nodes; a hold and what it replaces count once."""
        live = self.calendar.live()
        by_id = {each.reservation_id: each for each in live}
        for resource in CLASSES:
            for second in range(self.now, self.now + RULES.horizon_s + 40):
                used = {
                    each.reservation_id: each.nodes
                    for each in live
                    if each.resource_class == resource.name and each.interval.contains(second)
                }
                for each in live:
                    old_id = each.request.replaces
                    is_pair = each.state is ReservationState.HELD and old_id in by_id
                    if is_pair and old_id in used and each.reservation_id in used:
                        spared = min(used[old_id], used[each.reservation_id])
                        used[each.reservation_id] -= spared
                assert sum(used.values()) <= resource.nodes, second

    @invariant()
    def replay_gives_the_same(self) -> None:
        """The events alone make an equal calendar."""
        twin = self.replayed()
        twin.validate()
        for name, profile in self.calendar.free.items():
            twin.free[name].advance(profile.origin)
        assert public_state(twin, self.now) == public_state(self.calendar, self.now)


TestCalendarMachine = CalendarMachine.TestCase
TestCalendarMachine.settings = settings(max_examples=4 * settings().max_examples)

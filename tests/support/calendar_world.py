"""A calendar and the naive model of it, which are asked the same and must answer the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis.stateful import RuleBasedStateMachine

from gridtravel.agents.journal.compaction import compacted
from gridtravel.agents.journal.events import NumbersGiven
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendar_rules import CalendarRules, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.timing.instants import Interval
from tests.support.builders import a_calendar, a_request
from tests.support.calendar_model import CalendarModel, Entry, PerClassTariff

CLASSES = [
    ResourceClass(name="slim", nodes=3, features=("disk",)),
    ResourceClass(name="wide", nodes=2, features=("disk", "gpu")),
]
RULES = CalendarRules(
    horizon_s=50,
    hold_ttl_min_s=2,
    hold_ttl_max_s=9,
    hold_margin_s=1,
    tombstone_s=18,
    offers_max=1000,
)
TARIFF = PerClassTariff((("slim", 3), ("wide", 2)))
NOW_MAX = 400


@dataclass(frozen=True)
class Wish:
    """A request before it is said, relative to a moment."""

    size: tuple[int, int]
    duration_s: int
    offset_s: int
    slack_s: int
    features: tuple[str, ...]
    budget_millicredits: int | None


def public_state(calendar: Calendar, now: int) -> object:
    """All that anybody can see of a calendar from `now` on."""
    availability = {name: profile.copy() for name, profile in calendar.free.items()}
    for profile in availability.values():
        profile.advance(max(now, max(each.origin for each in calendar.free.values())))
    return (
        calendar.version,
        calendar.reservations,
        calendar.finished_at,
        calendar.tombstoned,
        calendar.live(),
        calendar.ended(now),
        calendar.due_holds(now),
        calendar.next_end(),
        calendar.next_expiry(),
        calendar.oldest_tombstone(),
        availability,
    )


class CalendarWorld(RuleBasedStateMachine):
    """Both calendars, the events so far, and predictions of what the real one answers."""

    def __init__(self) -> None:
        super().__init__()
        self.calendar = self.fresh()
        self.model = CalendarModel(CLASSES, RULES, TARIFF)
        self.now = 20
        self.events: list[CalendarEvent | NumbersGiven] = []
        self.asked = 0
        self.latest = self.now
        """The latest time there ever was."""
        self.floor = 0
        """How far back the clock may step: what a compaction left out must stay past."""

    def fresh(self) -> Calendar:
        """An empty calendar."""
        return a_calendar(classes=CLASSES, rules=RULES, tariff=TARIFF)

    def said(
        self, wish: Wish, *, replaces: str | None = None, anchor: int | None = None
    ) -> ReservationRequest:
        """A new request, as of now or of another moment."""
        self.asked += 1
        earliest = max(0, (self.now if anchor is None else anchor) + wish.offset_s)
        return a_request(
            f"request-{self.asked}",
            nodes=wish.size,
            duration_s=wish.duration_s,
            earliest=earliest,
            until=earliest + wish.duration_s + wish.slack_s,
            features=wish.features,
            budget_millicredits=wish.budget_millicredits,
            replaces=replaces,
        )

    def pick(self, number: int, *states: str) -> str | None:
        """Some entry in one of the states."""
        among = [key for key, one in self.model.entries.items() if one.state in states]
        return among[number % len(among)] if among else None

    def carry_out(self, events: tuple[CalendarEvent, ...]) -> None:
        """Apply and remember."""
        for event in events:
            self.calendar.apply(event)
            self.events.append(event)

    def check_refusal(
        self, answer: object, request: ReservationRequest, lead_s: int, old_id: str | None
    ) -> None:
        """A refusal names the rule, the earliest start and the size that brute force finds."""
        assert isinstance(answer, Decline), answer
        expected = self.model.refusal(request, self.now, lead_s, old_id)
        assert (answer.rule, answer.earliest, answer.nodes_now) == expected

    def may_change(self, entry_id: str) -> bool:
        """True for what is committed and not about to be replaced."""
        entry = self.model.entries[entry_id]
        return entry.state == "COMMITTED" and self.model.successor(entry_id) is None

    def reserve(self, request: ReservationRequest, owner: str, ttl_s: int | None) -> None:
        """Ask for a new reservation; the earliest, cheapest, largest, first by name is granted."""
        old_id = request.replaces
        answer, events = self.calendar.decide_reserve(request, owner, ttl_s, self.now)
        self.carry_out(events)
        if old_id is not None and not self.may_change(old_id):
            assert isinstance(answer, Decline)
            assert (answer.rule, events) == (DeclineRule.STATE, ())
            return
        lead_s = 0 if ttl_s is None else RULES.lead_s
        possible = self.model.possible(request, self.now, lead_s, old_id)
        if not possible and old_id is not None and not isinstance(answer, Decline):
            possible = [self.model.given_back(request, self.now, old_id)]
        if not possible:
            assert events == ()
            self.check_refusal(answer, request, lead_s, old_id)
            return
        best = possible[0]
        nodes = min(best.nodes, request.nodes_max)
        expires_at = None
        if ttl_s is not None:
            life_s = sorted([RULES.hold_ttl_min_s, ttl_s, RULES.hold_ttl_max_s])[1]
            expires_at = min(self.now + life_s, best.start - RULES.hold_margin_s)
            assert self.now + RULES.hold_ttl_min_s <= expires_at < best.start
        state = "COMMITTED" if ttl_s is None else "HELD"
        reservation_id = f"lab.{self.model.granted + 1}"
        assert answer == Reservation(
            reservation_id=reservation_id,
            site="lab",
            owner=owner,
            request=request,
            resource_class=best.resource_class,
            nodes=nodes,
            interval=Interval(best.start, best.start + request.duration_s),
            state=ReservationState(state),
            created_at=self.now,
            price_millicredits=nodes * best.unit_price,
            hold_expires_at=expires_at,
        )
        if ttl_s is None and old_id is not None:
            self.model.end_entry(old_id, "SUPERSEDED", self.now)
            old_id = None
        entry = Entry(
            owner, request, best.resource_class, nodes, best.start, state, expires_at, old_id
        )
        self.model.grant(reservation_id, entry)

    def commit_in_model(self, entry_id: str) -> None:
        """The hold becomes firm, and what it replaces ends."""
        entry = self.model.entries[entry_id]
        if entry.replaces is not None:
            self.model.end_entry(entry.replaces, "SUPERSEDED", self.now)
        entry.state, entry.expires_at = "COMMITTED", None

    def amended(
        self,
        entry_id: str,
        request: ReservationRequest,
        before: Reservation,
        answer: object,
        start: int,
        resource_class: str,
        nodes: int,
        unit_price: int,
    ) -> None:
        """A granted change shows in the answer and in the book, and keeps the rest."""
        assert answer == self.calendar.get(entry_id)
        assert answer == replace(
            before,
            request=request,
            resource_class=resource_class,
            nodes=nodes,
            interval=Interval(start, start + request.duration_s),
            price_millicredits=nodes * unit_price,
        )
        self.model.move(entry_id, request, resource_class, nodes, start, self.now)

    def replayed(self) -> Calendar:
        """All events so far, on an empty calendar."""
        twin = self.fresh()
        for event in self.events:
            if isinstance(event, NumbersGiven):
                twin.ids_given, twin.changes = event.reservations, event.jobs
            else:
                twin.apply(event)
        return twin

    def compact(self) -> None:
        """Leave out of the events what is forgotten. The number of changes, which a site does not
        keep (it takes a new epoch), travels in the place of the number of jobs.
        """
        table = JobTable("lab")
        table.ids_given = self.calendar.changes
        kept = compacted(self.events, self.calendar, table, lambda event: False)
        self.events = [event for event in kept if isinstance(event, CalendarEvent | NumbersGiven)]
        self.floor = self.now

"""Recurring reservations of the site: every weekday from 8 to 18, eight nodes for a class, local
time.

A standing reservation is a rule; its *instances* are ordinary reservations of the site, made
``depth`` at a time ahead (Catalina's create_standing_res). The request id of an instance is made of
the rule's name, its start, and a sum of what else the rule says, so the rule can be applied in
every cycle and makes each instance once; one that an administrator cancelled stays cancelled, and a
rule that was changed makes its instances anew.

Start times are local: 08:00 stays 08:00 across a change to daylight saving time. A local time that
a change skips is taken as the same distance after midnight (02:30 becomes 03:30), one that comes
twice is taken the first time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendar_rules import ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    ReservationRequest,
    check_id,
)
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.zones import find_zone
from gridtravel.local_sched.reservations.system import decide_system_reservation
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER
from gridtravel.local_sched.scheduling.reservation_jobs import AccessRule
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler

DAYS_AHEAD_MAX: Final = 3 * 366
"""A rule that names no day within this (30 February) has no instances."""
DEPTH_MAX: Final = 400
NAME_LENGTH_MAX: Final = 64
REQUEST_PREFIX: Final = "standing/"
"""Of the request ids of all instances."""
_FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRule:
    """When instances start: ``minute hour day month weekday``, as cron writes it, in a time zone.

    Each field is ``*``, a number, a range ``a-b``, a step ``*/n`` or ``a-b/n``, or a list of these
    with commas. Weekday 0 and 7 are Sunday. Day and weekday must both match."""

    text: str
    zone: str
    """IANA name."""
    minutes: tuple[int, ...] = field(init=False)
    hours: tuple[int, ...] = field(init=False)
    days: tuple[int, ...] = field(init=False)
    months: tuple[int, ...] = field(init=False)
    weekdays: tuple[int, ...] = field(init=False)
    """0 is Sunday."""

    def __post_init__(self) -> None:
        words = self.text.split()
        if len(words) != len(_FIELDS):
            raise InputError(
                f"a start rule has five fields, {len(words)} were given: {self.text[:60]!r}",
                hint="minute hour day month weekday, for example '0 8 * * 1-5'",
            )
        find_zone(self.zone)
        parsed = [_numbers(word, *each) for word, each in zip(words, _FIELDS, strict=True)]
        parsed[4] = tuple(sorted({day % 7 for day in parsed[4]}))
        for name, numbers in zip(
            ("minutes", "hours", "days", "months", "weekdays"), parsed, strict=True
        ):
            object.__setattr__(self, name, numbers)

    def starts(self, after: Instant) -> Iterator[Instant]:
        """Every start later than ``after``, in order."""
        zone = find_zone(self.zone)
        day = datetime.fromtimestamp(after, UTC).astimezone(zone).date() - timedelta(days=1)
        latest = after
        for _ in range(DAYS_AHEAD_MAX):
            if self._is_on(day):
                instants = sorted(
                    int(
                        datetime(
                            day.year, day.month, day.day, hour, minute, tzinfo=zone
                        ).timestamp()
                    )
                    for hour in self.hours
                    for minute in self.minutes
                )
                for instant in instants:
                    if instant > latest:
                        latest = instant
                        yield instant
            day += timedelta(days=1)

    def _is_on(self, day: date) -> bool:
        return (
            day.day in self.days
            and day.month in self.months
            and day.isoweekday() % 7 in self.weekdays
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingReservation:
    """The rule: when, how long, how many nodes, for whom, and how far ahead it is made."""

    name: str
    start_rule: StartRule
    duration_s: int
    nodes: int
    depth: int = 7
    """Instances that exist ahead of time."""
    account: str = "system"
    features: tuple[str, ...] = ()
    access: AccessRule = field(default_factory=AccessRule)
    """Jobs that may use it; the default: those that are bound to it by name."""
    serial: int = 0
    """Tells a rule from an earlier one of the same name, so that it makes instances of its own."""

    def __post_init__(self) -> None:
        check_id("name of a standing reservation", self.name)
        if "/" in self.name or len(self.name) > NAME_LENGTH_MAX:
            raise InputError(
                f"the name of a standing reservation has at most {NAME_LENGTH_MAX} characters and"
                f" no slash: {self.name[:80]!r}"
            )
        if not 1 <= self.depth <= DEPTH_MAX:
            raise InputError(f"a depth is 1 to {DEPTH_MAX}: {self.depth}")
        if self.nodes < 1 or self.duration_s < 1:
            raise InputError("a standing reservation needs at least 1 node for at least 1 second")

    def check_here(self, classes: Iterable[ResourceClass], horizon_s: int, now: Instant) -> None:
        """What a rule alone cannot know: a site's nodes, its horizon, the days that there are."""
        fitting = [each for each in classes if set(self.features) <= set(each.features)]
        most = max((each.nodes for each in fitting), default=0)
        if self.nodes > most:
            kind = f" with the features {', '.join(self.features)}" if self.features else ""
            raise InputError(
                f"{self.nodes} nodes were asked for, the largest class{kind} has {most}",
                hint="ask for fewer, or write a rule for each class",
            )
        if next(self.start_rule.starts(now), None) is None:
            raise InputError(
                f"no day fits the start rule {self.start_rule.text[:60]!r}",
                hint="minute hour day month weekday; day and weekday must both match",
            )
        if self.duration_s > horizon_s:
            raise InputError(
                f"{self.duration_s} s are longer than anything may be booked here: {horizon_s} s",
                hint="shorten it, or raise calendar.horizon_s",
            )

    @property
    def prefix(self) -> str:
        """What the request ids of its instances begin with."""
        return f"{REQUEST_PREFIX}{self.name}/"

    def instances(self, now: Instant, horizon_s: int) -> Iterator[tuple[Instant, str]]:
        """(start, request id) of the instances that shall exist ahead of ``now``."""
        for count, start in enumerate(self.start_rule.starts(now), start=1):
            if start + self.duration_s > now + horizon_s:
                return
            yield start, self.request(start).request_id
            if count == self.depth:
                return

    def request(self, start: Instant) -> ReservationRequest:
        """The request of one instance: all nodes, or as many as there are."""
        shape = f"{self.nodes} {self.duration_s} {self.account} {' '.join(self.features)}"
        if self.serial:
            shape += f" {self.serial}"
        return ReservationRequest(
            request_id=f"{self.prefix}{start}/{zlib.crc32(shape.encode()):08x}",
            account=self.account,
            nodes_min=1,
            nodes_max=self.nodes,
            duration_s=self.duration_s,
            earliest_start=start,
            latest_end=start + self.duration_s,
            features=self.features,
        )


def keep_standing(
    calendar: Calendar,
    scheduler: LocalScheduler,
    rules: Iterable[StandingReservation],
    now: Instant,
    *,
    record: Callable[[Sequence[CalendarEvent]], object],
    skipped: Container[str] = (),
) -> dict[tuple[str, Instant], Decline]:
    """Make the instances that are missing, in order of start, and open each for those it is made
    for. Returns those that cannot be made, by name and start, and why.

    Waiting jobs keep their planned starts, so an instance that comes into view behind them may be
    smaller than the rule, as it is where nodes are short. Calling it again makes nothing twice. The
    events of each instance are given to ``record``, which must journal and apply them at once,
    because the next instance must see them. ``skipped``: request ids that shall not be made."""
    missing = {}
    wanted = [
        (start, rule.name, rule)
        for rule in rules
        for start, request_id in rule.instances(now, calendar.rules.horizon_s)
        if request_id not in skipped
    ]
    for start, name, rule in sorted(wanted, key=lambda each: each[:2]):
        known = calendar.find_request(SYSTEM_OWNER, rule.request(start).request_id)
        if known is not None:
            if known.state.is_live:
                scheduler.reservation_jobs.open_to(known.reservation_id, rule.access)
            continue
        decision = decide_system_reservation(
            calendar, scheduler, rule.request(start), now, displaces=False
        )
        if isinstance(decision.answer, Decline):
            if decision.answer.rule is not DeclineRule.FINISHED:
                missing[name, start] = decision.answer
            continue
        record(decision.events)
        scheduler.reservation_jobs.open_to(decision.answer.reservation_id, rule.access)
    return missing


def _numbers(word: str, name: str, low: int, high: int) -> tuple[int, ...]:
    """One field of a start rule as the numbers it names."""
    found: set[int] = set()
    for part in word.split(","):
        span, slash, step_text = part.partition("/")
        first_text, dash, last_text = span.partition("-")
        if span == "*":
            first, last = low, high
        elif is_count(first_text) and (not dash or is_count(last_text)):
            first = int(first_text)
            last = int(last_text) if dash else high if slash else first
        else:
            raise InputError(f"not a {name} in a start rule: {part[:20]!r}")
        step = int(step_text) if slash and is_count(step_text) else 0 if slash else 1
        if step < 1 or not low <= first <= last <= high:
            raise InputError(
                f"a {name} is {low} to {high}, rising, with a step above 0: {part[:20]!r}"
            )
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))

"""Prices that change with the time of day and the day of the week, in the site's time zone.

All times are in *quarters*, the quarters of an hour from the epoch on: every time zone in use is a
whole number of them from UTC, so the local time of day moves in the same steps. The price at a
quarter is that of the last period that covers its first second, and without one the base tariff's.
The price of a reservation is the sum over its time, as if it began with the quarter in which it
starts: so there is one price for all starts of a quarter, and not another one every second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.calendar_rules import FlatTariff
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

QUARTER_S: Final = 900
QUARTERS_A_DAY: Final = 96
DAY_MINUTES: Final = 1_440
EVERY_DAY: Final = frozenset(range(7))
PERIODS_MAX: Final = 200
"""More than any price list has, and few enough to look at each for every quarter of a week."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePeriod:
    """Times of the week at which time has a price of its own."""

    millicredits_per_node_hour: int
    resource_class: str = ""
    """Empty: every class."""
    days: frozenset[int] = EVERY_DAY
    """On which it begins; 0 is Monday."""
    from_minute: int = 0
    """Of the local day."""
    to_minute: int = DAY_MINUTES
    """Of the same day; where that is not after ``from_minute``, of the next one."""

    def __post_init__(self) -> None:
        if self.millicredits_per_node_hour < 0:
            raise InputError("a price must not be negative")
        if not self.days or not self.days <= EVERY_DAY:
            raise InputError("a period of prices begins on at least one day of the week")
        if not (0 <= self.from_minute < DAY_MINUTES and 0 <= self.to_minute <= DAY_MINUTES):
            raise InputError("a period of prices lies between 00:00 and 24:00")
        if self.from_minute % 15 or self.to_minute % 15:
            raise InputError(
                "a period of prices begins and ends with a quarter of an hour",
                hint="write minutes 00, 15, 30 or 45",
            )
        if self.from_minute == self.to_minute:
            raise InputError(
                "a period of prices ends when it begins", hint="the whole day is 00:00 to 24:00"
            )

    def covers(self, weekday: int, minute: int) -> bool:
        """True at ``minute`` of a local day."""
        if self.from_minute < self.to_minute:
            return weekday in self.days and self.from_minute <= minute < self.to_minute
        if minute >= self.from_minute:
            return weekday in self.days
        return minute < self.to_minute and (weekday - 1) % 7 in self.days


class PeriodTariff:
    """A ``Tariff`` of periods over a flat one. What it keeps beside them is computed from them."""

    def __init__(self, base: FlatTariff, periods: Sequence[PricePeriod], zone: ZoneInfo) -> None:
        if len(periods) > PERIODS_MAX:
            raise InputError(f"{len(periods)} periods of prices, {PERIODS_MAX} is the most")
        self.base = base
        self.periods = tuple(periods)
        self.zone = zone
        self._sums: dict[str, _RateSums] = {}

    @property
    def price_step_s(self) -> int:
        """See ``Tariff``."""
        return QUARTER_S

    def unit_price_millicredits(self, resource_class: str, start: Instant, duration_s: int) -> int:
        """See ``Tariff``."""
        sums = self._sums_of(resource_class)
        first = start // QUARTER_S
        whole, rest_s = divmod(duration_s, QUARTER_S)
        begin = sums.before(first)
        end = sums.before(first + whole)
        rate_at_end = sums.before(first + whole + 1) - end if rest_s else 0
        return -(-((end - begin) * QUARTER_S + rate_at_end * rest_s) // 3600)

    def highest_millicredits_per_node_hour(self, resource_class: str) -> int:
        """See ``Tariff``."""
        return self._sums_of(resource_class).highest

    def _sums_of(self, resource_class: str) -> _RateSums:
        known = self._sums.get(resource_class)
        if known is None:
            known = _RateSums(self._week(resource_class), self.zone)
            self._sums[resource_class] = known
        return known

    def _week(self, resource_class: str) -> list[int]:
        """Price of a node and hour in each quarter of a local week, from Monday on."""
        base = self.base.highest_millicredits_per_node_hour(resource_class)
        mine = [each for each in self.periods if each.resource_class in ("", resource_class)]
        rates = []
        for quarter in range(7 * QUARTERS_A_DAY):
            weekday, in_day = divmod(quarter, QUARTERS_A_DAY)
            found = (each for each in reversed(mine) if each.covers(weekday, in_day * 15))
            last = next(found, None)
            rates.append(base if last is None else last.millicredits_per_node_hour)
        return rates


class _RateSums:
    """Sums of a class's prices over quarters, so that the price of any length costs the same. The
    days that have been asked for are kept.
    """

    def __init__(self, week: Sequence[int], zone: ZoneInfo) -> None:
        self._week = week
        self.highest = max(week)
        self._zone = zone
        self._first = 0
        """The quarter with which ``_until`` begins."""
        self._until: list[int] = []
        """Sum of the prices of all quarters from ``_first`` up to each, that one left out."""

    def before(self, quarter: int) -> int:
        """Sum of the prices of all quarters before this one, from a beginning that is the same for
        all that are asked in rising order.
        """
        if not self._until or quarter < self._first:
            self._first = quarter - quarter % QUARTERS_A_DAY
            self._until = [0]
        while quarter - self._first >= len(self._until):
            last = self._first + len(self._until) - 1
            self._until.append(self._until[-1] + self._rate(last))
        return self._until[quarter - self._first]

    def _rate(self, quarter: int) -> int:
        local = datetime.fromtimestamp(quarter * QUARTER_S, self._zone)
        in_day = local.hour * 4 + local.minute // 15
        return self._week[local.weekday() * QUARTERS_A_DAY + in_day]

"""Prices by the time of day and the day of the week."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.calendar_rules import FlatTariff
from gridtravel.gridcore.booking.period_tariff import PeriodTariff, PricePeriod
from gridtravel.gridcore.errors import InputError

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = PricePeriod(millicredits_per_node_hour=1_000, from_minute=22 * 60, to_minute=6 * 60)
SUNDAY = PricePeriod(millicredits_per_node_hour=0, days=frozenset({6}))
DAY_PRICE = 3_000


def local(text: str) -> int:
    """Seconds of a local time in Berlin."""
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp())


def berlin(*periods: PricePeriod, base: FlatTariff | None = None) -> PeriodTariff:
    """A price list there."""
    return PeriodTariff(base or FlatTariff(DAY_PRICE), periods, BERLIN)


@pytest.mark.parametrize(
    ("start", "hours", "price"),
    [
        ("2026-06-02T12:00", 1, 3_000),
        ("2026-06-02T22:00", 8, 8_000),
        ("2026-06-02T21:00", 2, 4_000),
        ("2026-06-03T05:30", 1, 2_000),
        ("2026-06-02T00:00", 24, 8 * 1_000 + 16 * 3_000),
    ],
)
def test_time_costs_what_its_periods_say(start: str, hours: int, price: int) -> None:
    """Each hour at its own price, also through midnight."""
    assert berlin(NIGHT).unit_price_millicredits("node", local(start), hours * 3_600) == price


def test_a_night_of_saturday_runs_into_sunday() -> None:
    """The days of a period are those on which it begins."""
    night = PricePeriod(
        millicredits_per_node_hour=1, days=frozenset({5}), from_minute=22 * 60, to_minute=6 * 60
    )
    tariff = berlin(night)
    assert tariff.unit_price_millicredits("node", local("2026-06-07T05:00"), 3_600) == 1
    assert tariff.unit_price_millicredits("node", local("2026-06-06T05:00"), 3_600) == DAY_PRICE
    assert tariff.unit_price_millicredits("node", local("2026-06-07T22:00"), 3_600) == DAY_PRICE


def test_the_last_period_that_matches_counts() -> None:
    """Also against the price of the class itself."""
    sunday_night = local("2026-06-07T23:00")
    assert berlin(NIGHT, SUNDAY).unit_price_millicredits("node", sunday_night, 3_600) == 0
    assert berlin(SUNDAY, NIGHT).unit_price_millicredits("node", sunday_night, 3_600) == 1_000
    dear = FlatTariff(DAY_PRICE, {"big": 9_000})
    only_node = PricePeriod(millicredits_per_node_hour=5, resource_class="node")
    tariff = berlin(only_node, base=dear)
    assert tariff.unit_price_millicredits("node", sunday_night, 3_600) == 5
    assert tariff.unit_price_millicredits("big", sunday_night, 3_600) == 9_000
    assert tariff.highest_millicredits_per_node_hour("big") == 9_000
    assert berlin(NIGHT).highest_millicredits_per_node_hour("node") == DAY_PRICE


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 7), ("2026-10-25", 9), ("2026-06-03", 8)]
)
def test_a_night_in_which_the_clocks_change_is_as_long_as_it_is(day: str, hours: int) -> None:
    """Seven hours in spring, nine in autumn."""
    begin, end = local(f"{day}T00:00") - 2 * 3_600, local(f"{day}T06:00")
    assert end - begin == hours * 3_600
    assert berlin(NIGHT).unit_price_millicredits("node", begin, end - begin) == hours * 1_000


quarters = st.integers(0, 95).map(lambda quarter: quarter * 15)
periods = st.builds(
    PricePeriod,
    millicredits_per_node_hour=st.integers(0, 5_000),
    resource_class=st.sampled_from(["", "node", "other"]),
    days=st.frozensets(st.integers(0, 6), min_size=1),
    from_minute=quarters,
    to_minute=st.just(1_440),
) | st.builds(
    lambda ends: PricePeriod(millicredits_per_node_hour=77, from_minute=ends[0], to_minute=ends[1]),
    st.tuples(quarters, quarters).filter(lambda ends: ends[0] != ends[1]),
)


@given(
    rules=st.lists(periods, max_size=4),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"]),
    asked=st.lists(
        st.tuples(st.integers(1_774_000_000, 1_776_000_000), st.integers(1, 200_000)),
        min_size=1,
        max_size=3,
    ),
)
def test_sums_are_those_of_every_quarter(
    rules: list[PricePeriod], zone: str, asked: list[tuple[int, int]]
) -> None:
    """Against a walk that asks every quarter of an hour by itself, whatever was asked before."""
    tariff = PeriodTariff(FlatTariff(123), rules, ZoneInfo(zone))
    for start, duration_s in asked:
        begin = start - start % 900
        total = 0
        for at in range(begin, begin + duration_s, 900):
            there = datetime.fromtimestamp(at, ZoneInfo(zone))
            minute = there.hour * 60 + there.minute
            rate = 123
            for rule in rules:
                began = there.weekday() if rule.from_minute <= minute else there.weekday() - 1
                inside = rule.from_minute <= minute < rule.to_minute
                if rule.to_minute < rule.from_minute:
                    inside = minute >= rule.from_minute or minute < rule.to_minute
                fits = rule.resource_class in ("", "node")
                if fits and inside and began % 7 in rule.days:
                    rate = rule.millicredits_per_node_hour
            total += rate * min(900, begin + duration_s - at)
        assert tariff.unit_price_millicredits("node", start, duration_s) == -(-total // 3_600)


@pytest.mark.parametrize(
    "wrong",
    [
        {"millicredits_per_node_hour": -1},
        {"days": frozenset()},
        {"days": frozenset({7})},
        {"from_minute": 7},
        {"from_minute": 1_440},
        {"to_minute": 1_455},
        {"from_minute": 60, "to_minute": 60},
    ],
)
def test_a_period_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    """No price below zero, no time that is none."""
    said = {"millicredits_per_node_hour": 1, **wrong}
    with pytest.raises(InputError):
        PricePeriod(**said)  # type: ignore[arg-type]  # wrong on purpose


def test_too_many_periods_are_refused() -> None:
    """A price list that nobody could read."""
    with pytest.raises(InputError, match="200 is the most"):
        berlin(*[NIGHT] * 201)

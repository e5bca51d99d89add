"""Intervals and prices: the smallest values there are."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.calendar_rules import FlatTariff
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Interval


def test_an_interval_has_its_start_and_not_its_end() -> None:
    """Its length is the number of seconds it contains."""
    one = Interval(10, 20)
    assert sum(one.contains(second) for second in range(30)) == one.duration_s == 10
    assert one.contains(10)
    assert not one.contains(20)


@pytest.mark.parametrize("end", [10, 9])
def test_an_interval_is_never_empty(end: int) -> None:
    """An end that is not behind the start is a mistake."""
    with pytest.raises(InputError, match="must end after it starts"):
        Interval(10, end)


@pytest.mark.parametrize(("duration_s", "price"), [(3600, 7), (1, 1), (515, 2), (7200, 14)])
def test_flat_price_is_rounded_up(duration_s: int, price: int) -> None:
    """Each node pays whole millicredits, never too little."""
    assert FlatTariff(7).unit_price_millicredits("node", 0, duration_s) == price


def test_prices_are_not_negative() -> None:
    """Nobody is paid for computing."""
    assert FlatTariff().unit_price_millicredits("node", 0, 3600) == 0
    with pytest.raises(InputError, match="must not be negative"):
        FlatTariff(-1)

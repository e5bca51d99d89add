"""``[prices]`` of a site's file: what it comes to, and what is refused with its key."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.agents.config.site_file import SiteConfig, load_site_config
from gridtravel.gridcore.booking.calendar_rules import FlatTariff
from gridtravel.gridcore.errors import InputError

HEAD = """
[site]
name = "lab"
time_zone = "America/Los_Angeles"
[[classes]]
name = "big"
nodes = 2
[[classes]]
name = "small"
nodes = 2
"""


def read(folder: Path, prices: str) -> SiteConfig:
    """A site's file with these lines."""
    path = folder / "site.toml"
    path.write_text(HEAD + prices)
    return load_site_config(path)


def test_periods_count_in_the_zone_of_the_site(tmp_path: Path) -> None:
    """The last table that matches, at the site's own time of day."""
    tariff = read(
        tmp_path,
        """
[prices]
millicredits_per_node_hour = 1000
[prices.classes]
big = 5000
[[prices.periods]]
millicredits_per_node_hour = 400
from = "22:00"
to = "06:00"
[[prices.periods]]
millicredits_per_node_hour = 100
class = "small"
days = ["sat", "sun"]
""",
    ).tariff

    def price(name: str, text: str) -> int:
        zone = ZoneInfo("America/Los_Angeles")
        start = int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())
        return tariff.unit_price_millicredits(name, start, 3_600)

    assert price("big", "2026-06-03T12:00") == 5_000
    assert price("small", "2026-06-03T12:00") == 1_000
    assert price("big", "2026-06-03T23:00") == 400
    assert price("small", "2026-06-06T23:00") == 100
    assert price("big", "2026-06-06T23:00") == 400


def test_without_periods_prices_are_flat(tmp_path: Path) -> None:
    """As they always were."""
    found = read(tmp_path, "[prices]\nmillicredits_per_node_hour = 7")
    assert found.tariff == FlatTariff(7)
    assert found.file.prices.quotes_hold_s == 900


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("millicredits_per_node_hour = -1", "millicredits_per_node_hour"),
        ("millicredits_per_node_hour = 1000000000001", "millicredits_per_node_hour"),
        ("millicredits_per_node_hour = nan", "millicredits_per_node_hour"),
        ("millicredits_per_node_hour = 1.5", "millicredits_per_node_hour"),
        ('from = "22:00"', "millicredits_per_node_hour"),
        ('millicredits_per_node_hour = 1\nclass = "huge"', "no class 'huge'"),
        ('millicredits_per_node_hour = 1\ndays = ["someday"]', "days"),
        ("millicredits_per_node_hour = 1\ndays = []", "at least one day"),
        ('millicredits_per_node_hour = 1\nfrom = "24:00"', "between 00:00 and 24:00"),
        ('millicredits_per_node_hour = 1\nfrom = "25:00"', "no time of day"),
        ('millicredits_per_node_hour = 1\nto = "6:00"', "no time of day"),
        ('millicredits_per_node_hour = 1\nto = "06:10"', "quarter of an hour"),
        (
            'millicredits_per_node_hour = 1\nfrom = "06:00"\nto = "06:00"',
            "ends when it begins",
        ),
    ],
)
def test_a_price_that_is_none_is_refused(tmp_path: Path, lines: str, told: str) -> None:
    """With the key and what is wrong with it."""
    with pytest.raises(InputError) as refused:
        read(tmp_path, f"[[prices.periods]]\n{lines}\n")
    assert told in str(refused.value)
    assert "prices" in str(refused.value)


@pytest.mark.parametrize("seconds", [-1, 86_401])
def test_a_quote_holds_for_a_day_at_most(tmp_path: Path, seconds: int) -> None:
    """A price that holds for ever would be a tariff."""
    with pytest.raises(InputError, match="quotes_hold_s"):
        read(tmp_path, f"[prices]\nquotes_hold_s = {seconds}\n")

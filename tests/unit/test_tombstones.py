"""One caller's tombstones have a bound, and keep their promise up to it."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking import tombstones
from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.errors import UnavailableError
from tests.support.builders import a_calendar, a_request, carry_out, some_rules

MANY = 20


def test_a_caller_has_so_many_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is not promised; what was promised holds; others have their own; room comes back."""
    monkeypatch.setattr(tombstones, "TOMBSTONES_MAX", MANY)
    calendar = a_calendar(4, rules=some_rules(tombstone_s=100))
    for number in range(MANY):
        carry_out(calendar, calendar.decide_release_request(f"unseen-{number}", "eve", 10))
    with pytest.raises(UnavailableError):
        calendar.decide_release_request("one-more", "eve", 10)
    assert calendar.decide_release_request("unseen-0", "eve", 10) == ()
    late, events = calendar.decide_reserve(a_request("unseen-7", start=200), "eve", 30, 10)
    assert isinstance(late, Decline)
    assert (late.rule, events) == (DeclineRule.FINISHED, ())
    carry_out(calendar, calendar.decide_release_request("unseen", "ada", 10))
    carry_out(calendar, calendar.decide_sweep(200))
    assert not calendar.tombstoned
    carry_out(calendar, calendar.decide_release_request("one-more", "eve", 200))
    calendar.validate()

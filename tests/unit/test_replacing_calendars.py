"""Which reservation a request of a changed trip is to take the place of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from gridtravel.gridcore.booking.reservations import ReservationRequest
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.travel_agent.booking.replacing import ReplacingCalendar
from tests.support.builders import a_request


class Ear:
    """A calendar that remembers what it was asked."""

    def __init__(self) -> None:
        self.heard: list[ReservationRequest] = []

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[object]:
        """Nothing comes of it."""
        self.heard += requests
        return []


def test_legs_whose_names_begin_alike_are_told_apart() -> None:
    """A stage ``a`` and a stage ``a.b`` of one trip: each request replaces its own leg's."""
    ear = Ear()
    replaced = {"t.a.": "site.1", "t.a.b.": "site.2"}
    calendar = ReplacingCalendar(cast(CalendarPort, ear), replaced)
    names = ("t.a.2", "t.a.b.2", "t.other.2")
    asyncio.run(calendar.inquire([a_request(name) for name in names]))
    assert [each.replaces for each in ear.heard] == ["site.1", "site.2", None]

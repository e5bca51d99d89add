"""Test reservations: short holds that are set to learn what a site would grant, and cancelled.

Each is announced in the trip's log before it is asked for, so that whoever finds the log after a
sudden death can release it by its request; and each expires by itself soon, in case nobody does.
They belong to no trip in the sites' books: nobody is in doubt about them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.travel_agent.log.events import AskedLeg, ProbesAsked
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.trip_context import TripContext

TRIAL_TTL_S: Final = 20
"""Lifetime asked for each test reservation: what is forgotten harms nobody for long."""
TRIALS_MAX: Final = 400
"""Most test reservations of one trip, over all its proposals; a search that needs more gives up."""


class Trials:
    """The test reservations of one trip, at most one a machine at any time."""

    def __init__(self, trip: TripContext) -> None:
        self._trip = trip
        self._asked: dict[str, AskedLeg] = {}
        """By machine: what may exist there; all of it stands in the log."""
        self.held: dict[str, Reservation] = {}
        """By machine: what was granted and not cancelled."""
        self.count = 0
        """How many were announced so far."""

    @property
    def is_spent(self) -> bool:
        """True when no more may be set."""
        return self.count >= TRIALS_MAX

    async def announce(self, machines: Iterable[str], start: Instant) -> None:
        """Write down that each of these is about to be asked for a test reservation."""
        for machine in machines:
            assert machine not in self.held, "one test reservation a machine at a time"
            self.count += 1
            self._asked[machine] = AskedLeg(
                name=machine,
                machine=machine,
                request_id=f"{self._trip.trip_id}.{machine}.test-{self.count}",
                start=start,
                nodes=self._trip.destinations[machine].request.nodes_max,
            )
        await self._write()

    async def set(
        self, machine: str, least: int, most: int, start: Instant
    ) -> Reservation | Decline:
        """Set one that was announced: ``least`` to ``most`` nodes from ``start`` on, at the
        earliest that the site grants within the trip's window.
        """
        destination, job = self._trip.destinations[machine], self._trip.metajob
        length_s = job.duration_s + job.guard_s
        if start + length_s > job.latest_end:
            return Decline(
                rule=DeclineRule.NO_ROOM, message=f"{machine}: the window is over", site=machine
            )
        request = ReservationRequest(
            request_id=self._asked[machine].request_id,
            account=destination.account,
            nodes_min=least,
            nodes_max=most,
            duration_s=length_s,
            earliest_start=start,
            latest_end=job.latest_end,
            features=destination.required_features,
        )
        self._trip.tell(News(step=Step.ASKED, place=machine))
        answer = await destination.connection.calendar.reserve(request, ttl_s=TRIAL_TTL_S)
        if isinstance(answer, Decline):
            self._trip.tell(News(step=Step.DECLINED, place=machine, text=answer.message))
        else:
            self.held[machine] = answer
            text = f"{answer.nodes} nodes from {format_utc(answer.start)} (test reservation)"
            self._trip.tell(News(step=Step.OFFERED, place=machine, text=text))
        return answer

    async def forget(self, machine: str) -> None:
        """Of a machine whose answer was lost: nothing shall come of the request. What cannot be
        told expires, and stays in the log until the search is over.
        """
        try:
            calendar = self._trip.destinations[machine].connection.calendar
            await calendar.release_request(self._asked[machine].request_id)
        except GridError as fault:
            text = f"a test reservation will expire: {fault}"
            self._trip.tell(News(step=Step.NOTE, place=machine, text=text))

    async def cancel(self, machines: Iterable[str]) -> None:
        """Cancel the test reservations at these machines. A fault leaves those that may still be
        there in the log.
        """
        names = [each for each in machines if each in self.held]
        answers = await asyncio.gather(
            *(self._release(name) for name in names), return_exceptions=True
        )
        faults = [each for each in answers if isinstance(each, BaseException)]
        if faults:
            raise faults[0]

    async def cancel_all(self) -> None:
        """None is left, and the log says so."""
        await self.cancel(list(self.held))
        self._asked.clear()
        await self._write()

    async def _release(self, machine: str) -> None:
        calendar = self._trip.destinations[machine].connection.calendar
        try:
            await calendar.release(self.held[machine].reservation_id)
        except UnavailableError as fault:
            raise UnavailableError(
                f"{machine} could not be told to let a test reservation go, it will expire: {fault}"
            ) from fault
        del self.held[machine], self._asked[machine]

    async def _write(self) -> None:
        await self._trip.log.write(ProbesAsked(legs=tuple(self._asked.values())))

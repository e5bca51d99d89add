"""What the traveller asks the acceptors of a trip: whether an attempt is committed, and whether it
was cancelled. Each question has a proposer of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gridtravel.gridcore.booking.reservations import Acceptor
from gridtravel.gridcore.trips.itineraries import Leg
from gridtravel.gridcore.trips.trip_consensus import Outcome
from gridtravel.travel_agent.booking.outcome import decide
from gridtravel.travel_agent.trip_context import TripContext


class AcceptorClient:
    """The questions of one run of a command about one trip."""

    def __init__(self, trip: TripContext, run_id: str) -> None:
        self._trip = trip
        self._run_id = run_id
        self._count = itertools.count(1)

    async def outcome(
        self,
        legs: Sequence[Leg],
        attempt: int,
        acceptors: tuple[Acceptor, ...],
        *,
        wish: Outcome = Outcome.COMMIT,
    ) -> Outcome:
        """Have ``wish`` chosen for an attempt, or learn what was; see ``outcome.decide``."""
        trip = self._trip.trip_ref(legs[0].name, attempt, legs, acceptors)
        return await decide(
            trip, self._trip.destinations, self._trip.clock, run_id=self._proposer(), wish=wish
        )

    async def call_off(
        self, legs: Sequence[Leg], attempt: int, acceptors: tuple[Acceptor, ...]
    ) -> bool:
        """Have the acceptors remember that a decided attempt is cancelled, for sites that cannot be
        told now: they ask before their leg starts. False: they have settled that it was not,
        because the start is near.
        """
        trip = self._trip.trip_ref(legs[0].name, attempt, legs, acceptors)
        outcome = await decide(
            trip,
            self._trip.destinations,
            self._trip.clock,
            run_id=self._proposer(),
            question=trip.cancellation,
        )
        return outcome is Outcome.COMMIT

    def _proposer(self) -> str:
        """A name for one question's proposer: no two share a ballot, in this run or another."""
        return f"{self._run_id}.{next(self._count)}"

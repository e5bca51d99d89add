"""A site's copy in a race: it is launched only when the race is won (``gridcore.races``).

The scheduler gives a copy its nodes like any job's. Between that and the launch stands one question
to the acceptors of the race, repeated until a majority answers; the nodes are kept meanwhile, so a
site that is cut off wastes them until the copy's time is over, and never runs a second copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from gridcore.races import Race

if TYPE_CHECKING:
    from agents.trip_keeper import TripKeeper
    from gridio.clock import Clock

Claim = Callable[[Race, Callable[[], bool]], Awaitable[bool]]
"""True: the copy has won. The second argument says whether anybody still wants to know."""

RETRY_FIRST_S: Final = 0.2
RETRY_MAX_S: Final = 5.0


class Racing:
    """Claims races for this site's copies."""

    def __init__(self, trips: TripKeeper, clock: Clock) -> None:
        self._trips = trips
        self._clock = clock

    async def claim(self, race: Race, is_wanted: Callable[[], bool]) -> bool:
        """Ask until it is known who runs. Said again after a restart it leads to the same answer:
        what was won stays won.
        """
        voting = self._trips.race_voting(race)
        wait_s = RETRY_FIRST_S
        while is_wanted():
            won = await voting.claim()
            if won is not None:
                return won
            await self._clock.sleep_until(self._clock.now_precise() + wait_s * _fraction(race))
            wait_s = min(2 * wait_s, RETRY_MAX_S)
        return False


def _fraction(race: Race) -> float:
    """From a half to one, fixed by the copy, so that two do not outbid each other for ever."""
    digest = hashlib.sha256(race.question(race.copy).encode()).digest()
    return 0.5 + digest[0] / 510

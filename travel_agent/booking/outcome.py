"""The decision of a trip: from "every leg is held" to "COMMIT is a fact that nobody can take back".

With one site the site's own commit is the decision. With several the acceptors keep it, a majority
of the sites of the trip, so that any of them can find it out when this laptop is gone
(docs/protocol.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gridtravel.gridcore.booking.reservations import TripRef
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridcore.trips.trip_consensus import Outcome
from gridtravel.gridio.sites.trip_voting import TripVoting
from gridtravel.gridio.system.clock import Clock
from gridtravel.travel_agent.sites.destinations import Destination

DECIDE_WITHIN_S: Final = 30.0
"""How long a booking tries to reach a majority before it leaves the trip to `gur resume`."""
RETRY_S: Final = 0.3


class OutcomeOpenError(UnavailableError):
    """A trip that its sites may still make whole by themselves: nothing of it may be undone before
    its outcome is known everywhere.
    """


async def decide(
    trip: TripRef,
    destinations: Mapping[str, Destination],
    clock: Clock,
    *,
    run_id: str,
    question: str = "",
    wish: Outcome = Outcome.COMMIT,
) -> Outcome:
    """Have ``wish`` chosen, or learn what was. Saying it again leads to the same outcome.

    ``run_id`` names this proposer and no other, in this run of the program or another: no two may
    share a ballot. ``question``: what is
    decided, default whether the attempt is committed (else ``trip.cancellation``).

    ``OutcomeOpenError``: a majority could not be heard, so nobody knows yet; the sites settle it
    among themselves when the holds' lifetimes end.
    """
    if not trip.acceptors:
        return wish
    by_site: dict[str, CalendarPort] = {
        each.site: each.connection.calendar for each in destinations.values()
    }
    voting = TripVoting(
        question or trip.instance,
        {each.site: by_site[each.site] for each in trip.acceptors},
        f"traveller:{run_id}",
        keep_until=trip.ends_at,
    )
    give_up_at = clock.now_precise() + DECIDE_WITHIN_S
    outcome = await voting.propose_first() if wish is Outcome.COMMIT else None
    outcome = outcome or await voting.learn()
    while outcome is None:
        if clock.now_precise() >= give_up_at:
            raise OutcomeOpenError(
                f"the outcome of trip {trip.trip_id} is not known yet: too few of its sites answer",
                hint=f"run `gur resume {trip.trip_id}` when they are back",
            )
        outcome = await voting.settle(wish)
        if outcome is None:
            await clock.sleep_until(clock.now_precise() + RETRY_S)
    return outcome

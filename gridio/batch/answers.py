"""What a site with only a batch system answers: offers of single starts, and refusals with the
batch system's own reason.
"""

from __future__ import annotations

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, Offer, ReservationRequest
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridio.batch.far_book import RESOURCE_CLASS
from gridtravel.gridio.batch.systems import Refusal


class Refusals:
    """Makes refusals in one site's name."""

    def __init__(self, site: str, system: str) -> None:
        self._site = site
        self._system = system

    def no_room(self, request: ReservationRequest, refusals: list[Refusal]) -> Decline:
        """Why none of the starts would do."""
        worst = next((each for each in refusals if each.rule is DeclineRule.POLICY), None)
        if worst is not None:
            hint = f"; {worst.hint}" if worst.hint else ""
            return self.decline(
                DeclineRule.POLICY, f"its {self._system} sets no reservation: {worst.words}{hint}"
            )
        nodes_now = max((each.nodes_now for each in refusals), default=0)
        return self.decline(
            DeclineRule.NO_ROOM,
            f"no start that was tried has {request.nodes_min} nodes free"
            f" ({len(refusals)} from {format_utc(request.earliest_start)}"
            f" to {format_utc(request.latest_end)})"
            + (f"; at most {nodes_now}" if nodes_now else ""),
            nodes_now=nodes_now,
        )

    def finished(self, request: ReservationRequest) -> Decline:
        """The request was used up, by a release that may have come before it."""
        return self.decline(
            DeclineRule.FINISHED, f"{request.request_id} was used, and what it booked has ended"
        )

    def decline(
        self,
        rule: DeclineRule,
        message: str,
        *,
        earliest: Instant | None = None,
        nodes_now: int = 0,
    ) -> Decline:
        """Why not, in one line that begins with the site's name."""
        return Decline(
            rule=rule,
            message=f"{self._site}: {message}",
            earliest=earliest,
            nodes_now=nodes_now,
            site=self._site,
        )


def one_start(start: Instant, nodes: int) -> Offer:
    """Room that is known for this start and no other."""
    return Offer(
        start=start,
        start_until=start + 1,
        nodes=nodes,
        resource_class=RESOURCE_CLASS,
        unit_price_millicredits=0,
    )

"""What a manager tries, and what it then holds: values between the search and the holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationPart,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.timing.instants import Instant, Interval
from gridtravel.manager.book.events import Part
from gridtravel.manager.search.combining import Share, Span, class_of
from gridtravel.manager.search.inquiry import ChildRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPlan:
    """A common start and a distribution; nobody has promised it yet."""

    start: Instant
    shares: tuple[Share, ...]
    is_guess: bool = False
    """Made from shadows alone: a refusal may only mean that a shadow was old."""
    above: ReservationRequest | None = None
    """Said to the parent as it is, instead of a start: the parent searches and holds in one step.
    """
    below: Span | Decline | None = None
    """What is known of the own subtree, for when the parent refuses ``above``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldParts:
    """Phase one is done: the holds, in the order of the plan."""

    parts: tuple[Part, ...]
    holds: tuple[Reservation, ...]

    def reservation(
        self,
        want: ChildRequest,
        *,
        group_id: str,
        site: str,
        owner: str,
        now: Instant,
        expires_at: Instant,
        endpoints: Sequence[str],
        granted_by: str = "",
    ) -> Reservation:
        """The group as its owner sees it. Its parts are the sites at which jobs can run: those of a
        child that is a manager stand for it.
        """
        sites: list[ReservationPart] = []
        for hold, endpoint in zip(self.holds, endpoints, strict=True):
            sites.extend(hold.parts or (_as_part(hold, endpoint),))
        first = self.holds[0]
        return Reservation(
            reservation_id=group_id,
            site=site,
            owner=owner,
            request=want.request,
            resource_class=class_of(hold.resource_class for hold in self.holds),
            nodes=sum(hold.nodes for hold in self.holds),
            interval=Interval(first.start, first.end),
            state=ReservationState.HELD,
            created_at=now,
            price_millicredits=sum(hold.price_millicredits for hold in self.holds),
            hold_expires_at=expires_at,
            contact=next((part.contact for part in sites if part.contact), ""),
            parts=tuple(sites),
            granted_by=granted_by,
        )

    def expiry(self) -> Instant:
        """When the first of the holds expires, on this manager's clock."""
        return min(hold.hold_expires_at or hold.created_at for hold in self.holds)


def broken(part: Part, how: str) -> Decline:
    """A child that cannot take part now, whatever its calendar says."""
    return Decline(rule=DeclineRule.CHANGED, message=f"{part.child}: {how}", site=part.child)


def _as_part(hold: Reservation, endpoint: str) -> ReservationPart:
    return ReservationPart(
        site=hold.site,
        reservation_id=hold.reservation_id,
        nodes=hold.nodes,
        endpoint=endpoint,
        contact=hold.contact,
    )


def is_as_planned(hold: Reservation, request: ReservationRequest) -> bool:
    """True for a hold of what was asked for, and nothing else."""
    return (
        hold.state is ReservationState.HELD
        and request.nodes_min <= hold.nodes <= request.nodes_max
        and request.earliest_start <= hold.start
        and hold.end <= request.latest_end
        and hold.interval == Interval(hold.start, hold.start + request.duration_s)
    )

"""One trip as every step of its booking has it: what is wanted, where it may go, who is told.

What follows from that alone stands here too: the holds that an attempt asks for, what each
participant learns of the trip with its hold, and the trip's legs as values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Decline,
    Reservation,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import Leg, LegState, Transport
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest, is_contact
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridcore.trips.planning import Plan, PlannedLeg
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.travel_agent.local_files import LocalInputs
from gridtravel.travel_agent.log.events import AskedLeg
from gridtravel.travel_agent.log.trip_log import Attempt, TripLog
from gridtravel.travel_agent.news import Listener, deaf
from gridtravel.travel_agent.sites.destinations import (
    Destination,
    acceptors_of,
    without_keeper,
)

NONCE_LENGTH: Final = 12
"""Characters of five random bits in an attempt's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripContext:
    """One trip, for as long as a command works on it."""

    trip_id: str
    metajob: Metajob
    destinations: Mapping[str, Destination]
    """By machine."""
    log: TripLog
    """Where each step is written down before it is taken."""
    clock: Clock
    ids: IdSource
    inputs: LocalInputs
    """What it takes along from this computer."""
    tell: Listener = deaf
    """Hears of each step."""
    keepers: tuple[str, ...] = ()
    """Sites that alone may keep its outcome, as its user says; none: any of its sites."""

    def new_attempt(self, plan: Plan, number: int) -> Attempt:
        """An attempt to book a plan, with a name that no other has."""
        nonce = self.ids.new_id("attempt")[-NONCE_LENGTH:]
        return Attempt(
            number=number,
            nonce=nonce,
            acceptors=self.keepers_of(plan),
            asked_at=self.clock.now(),
        )

    def keepers_of(self, plan: Plan) -> tuple[Acceptor, ...]:
        """Who keeps the outcome of a plan that is booked."""
        return acceptors_of(self._places(plan), self.keepers)

    def asked(self, plan: Plan, attempt: Attempt) -> tuple[AskedLeg, ...]:
        """The holds that an attempt asks for. A request's id is that of its trip, leg and attempt,
        so that it can be released by a later run that never saw an answer.
        """
        return tuple(
            AskedLeg(
                name=leg.name,
                machine=leg.machine,
                request_id=f"{self.trip_id}.{leg.name}.{attempt.number}.{attempt.nonce}",
                start=leg.start,
                nodes=leg.nodes,
            )
            for leg in plan.legs
        )

    def without_keeper(self, plan: Plan) -> Decline | None:
        """Why a plan is not booked, when nobody who may can keep its outcome."""
        return without_keeper(self._places(plan), self.keepers)

    def _places(self, plan: Plan) -> dict[str, Destination]:
        return {leg.name: self.destinations[leg.machine] for leg in plan.legs}

    def trip_ref(self, leg: str, attempt: Attempt, legs: Sequence[AskedLeg]) -> TripRef:
        """What the site of ``leg`` learns of the trip with its hold."""
        known = tuple(
            TripLeg(
                leg=each.name,
                site=self.destinations[each.machine].site,
                start=each.start,
                has_agent=self.destinations[each.machine].has_agent,
            )
            for each in legs
        )
        return TripRef(
            trip_id=self.trip_id,
            leg=leg,
            attempt=attempt.number,
            nonce=attempt.nonce,
            participants=tuple(dict.fromkeys(each.site for each in known)),
            acceptors=attempt.acceptors,
            legs=known,
            ends_at=max(each.start + self.metajob.length_s(each.name) for each in legs),
            begin=self.metajob.begin,
        )

    def wanted_leg(self, asked: AskedLeg) -> Leg:
        """A leg as it is asked for."""
        return self.planned_leg(
            PlannedLeg(
                name=asked.name,
                machine=asked.machine,
                nodes=asked.nodes,
                start=asked.start,
                price_millicredits=0,
            )
        )

    def manifest(self, legs: Sequence[Leg]) -> Manifest:
        """What the legs are told of each other with the commit. Nobody else is told anything: where
        nothing runs, or one leg is all there is, it is empty. A site that names no address of the
        usual form has none.
        """
        runs = any(self.metajob.task_for(each.machine, each.name) for each in legs)
        if not runs or len(legs) < 2:
            return NO_CONTACTS
        return Manifest(
            contacts=tuple((each.name, each.contact) for each in legs if is_contact(each.contact))
        )

    def planned_leg(self, planned: PlannedLeg) -> Leg:
        """A leg that nobody has promised."""
        destination = self.destinations[planned.machine]
        end = planned.start + self.metajob.length_s(planned.name)
        return Leg(
            name=planned.name,
            machine=planned.machine,
            site=destination.site,
            nodes=planned.nodes,
            interval=Interval(planned.start, end),
            transport=Transport(destination.connection.transport),
            price_millicredits=planned.price_millicredits,
            price_holds_until=planned.quote_expires_at,
        )

    def leg(self, name: str, machine: str, reservation: Reservation, state: LegState) -> Leg:
        """A leg as its site has it in its book."""
        return Leg(
            name=name,
            machine=machine,
            site=reservation.site,
            nodes=reservation.nodes,
            interval=reservation.interval,
            transport=Transport(self.destinations[machine].connection.transport),
            price_millicredits=reservation.price_millicredits,
            state=state,
            reservation_id=reservation.reservation_id,
            contact=reservation.contact,
            job_id=reservation.job_id or None,
        )

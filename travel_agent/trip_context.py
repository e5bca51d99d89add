"""One trip as every step of its booking has it: what is wanted, where it may go, who is told.

What follows from that alone stands here too: the holds that an attempt asks for, what each
participant learns of the trip with its hold, and the trip's legs as values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import Acceptor, Reservation, TripRef
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import Leg, LegState, Transport
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest, is_contact
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridcore.trips.planning import Plan, PlannedLeg
from gridtravel.gridio.system.clock import Clock
from gridtravel.travel_agent.local_files import LocalInputs
from gridtravel.travel_agent.log.events import AskedLeg
from gridtravel.travel_agent.log.trip_log import TripLog
from gridtravel.travel_agent.news import Listener, deaf
from gridtravel.travel_agent.sites.destinations import Destination, acceptors_of


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
    inputs: LocalInputs
    """What it takes along from this computer."""
    tell: Listener = deaf
    """Hears of each step."""

    def asked(self, plan: Plan, attempt: int) -> tuple[AskedLeg, ...]:
        """The holds that an attempt asks for. A request's id is that of its trip, leg and attempt,
        so that it can be released by a later run that never saw an answer.
        """
        return tuple(
            AskedLeg(
                name=leg.name,
                machine=leg.machine,
                request_id=f"{self.trip_id}.{leg.name}.{attempt}",
                start=leg.start,
                nodes=leg.nodes,
            )
            for leg in plan.legs
        )

    def acceptors(self, legs: Sequence[AskedLeg]) -> tuple[Acceptor, ...]:
        """Who keeps the outcome of an attempt with these legs."""
        return acceptors_of({leg.name: self.destinations[leg.machine] for leg in legs})

    def trip_ref(
        self,
        leg: str,
        attempt: int,
        legs: Sequence[AskedLeg] | Sequence[Leg],
        acceptors: tuple[Acceptor, ...],
    ) -> TripRef:
        """What the site of ``leg`` learns of the trip with its hold."""
        sites = dict.fromkeys(self.destinations[each.machine].site for each in legs)
        return TripRef(
            trip_id=self.trip_id,
            leg=leg,
            attempt=attempt,
            participants=tuple(sites),
            acceptors=acceptors,
            ends_at=max(each.start + self.metajob.length_s(each.name) for each in legs),
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

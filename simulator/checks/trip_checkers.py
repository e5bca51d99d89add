"""Trips as wholes: all of it or nothing, in the sites' books, in the laptop's log, and in what the
user is told.

A trip may be torn only where no protocol can help (docs/protocol.md): its leg's start came while
the site could not hear a majority, by the world's own record of who was gone and cut off, or its
user cancelled it when its legs' time had come. Such trips are counted apart (``excused``), never
silently. A cancellation explains the legs that ended after it, and no others.

Where somebody lies only the honest are looked at: trips of honest owners, and of these the legs at
honest sites. A trip whose outcome a lying site keeps is counted apart, whatever became of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.reservations import ReservationState, TripRef
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, TripState
from gridtravel.gridcore.trips.registers import CHECK_BEFORE_S
from gridtravel.simulator.checks.begin_checkers import (
    check_begun,
    ended_by,
    unheard_at_start,
    was_not_ready,
)
from gridtravel.simulator.checks.pipeline_checkers import (
    check_order,
    is_a_chain,
    lost_by_failure,
    stages_of,
)
from gridtravel.simulator.checks.site_ledger import DONE, Promise
from gridtravel.simulator.kernel.processes import first_fault
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN

if TYPE_CHECKING:
    from gridtravel.simulator.checks.checked_world import (
        CheckedLaptop,
        CheckedSite,
        CheckedTold,
        CheckedWorld,
        LivingWorld,
    )
    from gridtravel.travel_agent.log.trip_log import TripStory

ATOMIC: Final = "a trip is whole or absent"
LOGGED: Final = "the laptop's log tells the truth"
SHOWN: Final = "gur status tells the truth"
CANCEL_LEAD_S: Final = 6.0
"""A cancellation this long before a leg's start reaches it whatever dies (docs/protocol.md)."""
UNDONE: Final = (TripState.CANCELLED, TripState.DECLINED)
ABORTED: Final = "ABSENT"
WHOLE: Final = "BOOKED"
TORN: Final = "TORN"


@dataclass(slots=True)
class TripBooks:
    """All that the sites' disks say of one trip."""

    trip_id: str
    legs: list[tuple[CheckedSite, Promise]] = field(default_factory=list)
    stages: tuple[str, ...] = ()
    """Of a pipeline, in order."""
    liars: frozenset[str] = frozenset()
    """Sites that lie. Their legs are not among ``legs``."""

    @property
    def is_kept_by_a_liar(self) -> bool:
        """True when the outcome of any attempt is kept by a site that lies."""
        return any(
            acceptor.site in self.liars
            for _, each in self.legs
            for acceptor in trip_of(each).acceptors
        )

    @property
    def has_lying_party(self) -> bool:
        """True when a site that lies is to hold a leg."""
        return any(self.liars & set(trip_of(each).participants) for _, each in self.legs)

    def lying_stages(self) -> frozenset[str]:
        """Names of the legs at sites that lie."""
        return frozenset(
            leg.leg for _, each in self.legs for leg in trip_of(each).legs if leg.site in self.liars
        )

    def expected(self, trip: TripRef) -> list[str]:
        """Honest sites that are to hold a leg of that attempt."""
        return sorted(set(trip.participants) - self.liars)

    def honest_stages(self) -> tuple[str, ...]:
        """The stages of a pipeline at honest sites, in order."""
        return tuple(each for each in self.stages if each not in self.lying_stages())

    def kept(self) -> list[tuple[CheckedSite, Promise]]:
        """Legs that are committed, or were and ran to their end."""
        return [(site, each) for site, each in self.legs if each.state in DONE]

    def is_over(self) -> bool:
        """True when every leg that was kept has come to its end: nothing is left to cancel."""
        return all(each.state is ReservationState.COMPLETED for _, each in self.kept())

    def without_left_out(self) -> TripBooks:
        """The same without the sites that the newest attempt has no part for."""
        newest = max((trip_of(each) for _, each in self.kept()), key=lambda trip: trip.attempt)
        legs = [each for each in self.legs if each[0].name in newest.participants]
        return TripBooks(self.trip_id, legs, self.stages, self.liars)

    def outcome(self) -> str:
        """What became of it: whole, with all legs of one attempt; never half old and half new."""
        kept = self.kept()
        if not kept:
            return ABORTED
        attempts = {trip_of(each).attempt for _, each in kept}
        if self.stages:
            is_whole = len(attempts) == 1 and is_a_chain(self.honest_stages(), kept)
            return WHOLE if is_whole else TORN
        starts = {each.reservation.start for _, each in kept}
        there = sorted(site.name for site, _ in kept)
        is_whole = there == self.expected(trip_of(kept[0][1]))
        return WHOLE if is_whole and len(attempts) == 1 and len(starts) == 1 else TORN


def trip_of(promise: Promise) -> TripRef:
    """The trip that a leg belongs to."""
    trip = promise.reservation.request.trip
    assert trip is not None, "only legs of trips are here"
    return trip


def trips_of(world: CheckedWorld) -> dict[str, TripBooks]:
    """All trips that any site ever held a leg of."""
    trips: dict[str, TripBooks] = {}
    stages = stages_of(world)
    for site in world.sites.values():
        if site.name in world.liars:
            continue
        for trip_id, promise in site.ledger.of_trips():
            trip = trip_of(promise)
            if promise.is_of(world.liars):
                continue
            if trip.legs and not trip.is_leg_of(site.name):
                continue  # A part of a manager's leg (``group_checkers``).
            books = trips.setdefault(
                trip_id, TripBooks(trip_id, stages=stages.get(trip_id, ()), liars=world.liars)
            )
            books.legs.append((site, promise))
    return trips


def check_trips(world: CheckedWorld, *, is_final: bool) -> dict[str, str]:
    """All or nothing; the outcome of each trip. Before the end, a trip that is being cancelled may
    be on its way.
    """
    outcomes: dict[str, str] = {}
    undone: dict[str, float] = {}
    for laptop in world.laptops.values():
        undone.update(laptop.undone_s())
    for trip_id, books in trips_of(world).items():
        outcome = books.outcome()
        if books.is_kept_by_a_liar:
            world.event_log.counts[f"kept by a liar: {outcome}"] += is_final
            continue
        check_order(world, trip_id, books.stages, books.legs, books.lying_stages())
        outcomes[trip_id] = outcome
        if is_final:
            check_begun(
                world,
                trip_id,
                undone_s=undone.get(trip_id),
                may_be_called_off=books.has_lying_party,
            )
        elif books.has_lying_party or any(each.withdrawn_s for _, each in books.legs):
            continue  # called off, the other legs end when they ask whether they run
        if outcome != TORN or (trip_id in undone and not is_final):
            continue
        if not is_final and books.without_left_out().outcome() != TORN:
            continue  # a leg that a change left out ends before its start
        excuse = _excuse(world, books, undone.get(trip_id))
        if excuse:
            if is_final:
                world.event_log.counts[f"torn, excused: {excuse}"] += 1
            continue
        legs = ", ".join(
            f"{site.name} {each.reservation.reservation_id} {each.state.value}"
            for site, each in books.legs
        )
        world.event_log.broken(ATOMIC, f"{trip_id} is torn: {legs}", trip_id)
    return outcomes


def start_s(site: CheckedSite, promise: Promise, at_s: float | None = None) -> float:
    """Virtual second of a leg's start, by its site's clock as that is set at ``at_s`` (now)."""
    return promise.reservation.start - WORLD_BEGIN - site.clock.offset_s(at_s)


def _excuse(world: CheckedWorld, books: TripBooks, undone_s: float | None) -> str:
    """Why a torn trip could not be helped; empty: it could. ``undone_s``: when its user, or its
    laptop, began to undo it.

    The newest attempt that any leg was kept with is what was decided. Its other legs are lost, or
    are still as an earlier attempt had them (``stale``), or that left them out. Each needs a reason
    of its own; that of a stage whose job failed without starting is the one before it
    (docs/protocol.md, section 6).
    """
    if books.stages and undone_s is not None and _had_begun(books):
        return "cancelled when a stage had begun"
    kept = books.kept()
    newest = max((trip_of(each) for _, each in kept), key=lambda trip: trip.attempt)
    stale = {
        (site.name, trip_of(each).leg): each
        for site, each in kept
        if trip_of(each).attempt < newest.attempt
    }
    lost = [
        (site, each)
        for site, each in books.legs
        if each.state not in DONE
        and trip_of(each).attempt == newest.attempt
        and each.state is not ReservationState.SUPERSEDED
    ]
    wanted = len(books.honest_stages()) if books.stages else len(books.expected(newest))
    if len(lost) + len(kept) - len(stale) != wanted:
        return ""
    let_go = [each for each in lost if books.stages and lost_by_failure([each])]
    if let_go and len(let_go) == len(lost):
        return "a stage failed, and those behind it were let go"
    cancelled = [each for each in lost if ended_by(each[1], undone_s)]
    if cancelled:
        lost = [each for each in lost if each not in cancelled]
        released = [each.since(ReservationState.RELEASED) or 0.0 for _, each in cancelled]
        starts = [start_s(site, each) for site, each in kept]
        excuse = "cancelled when it was starting"
        if max(released) < min(starts) - CANCEL_LEAD_S:
            excuse = "cancelled out of reach until its start"
            if not all(_unheard(world, site, each) for site, each in kept):
                return ""
        olds = [stale.get((site.name, trip_of(each).leg)) for site, each in lost]
        is_helpless = all(
            leg in let_go or _why_lost(world, *leg, old)
            for leg, old in zip(lost, olds, strict=True)
        )
        return excuse if is_helpless else ""
    for site, each in lost:
        old = stale.get((site.name, trip_of(each).leg))
        if (site, each) not in let_go and not _why_lost(world, site, each, old):
            return ""
    left_out = [
        (site, each)
        for site, each in kept
        if trip_of(each).attempt < newest.attempt and site.name not in newest.participants
    ]
    if left_out:
        is_unheard = all(_unheard(world, site, each) for site, each in left_out)
        return "left out and out of reach" if is_unheard else ""
    if let_go:
        return "no majority until a stage's start, and those behind it were let go"
    return "no majority until its start"


def _unheard(world: CheckedWorld, site: CheckedSite, leg: Promise) -> str:
    """Why a leg's site may not have learned whether it runs; empty: it should have."""
    return unheard_at_start(world, site, trip_of(leg), leg.reservation.start)


def _why_lost(world: CheckedWorld, site: CheckedSite, leg: Promise, changed: Promise | None) -> str:
    """Why a leg of a decided attempt could be lost; empty: it could not. A committed one only at
    its start. A hold only if its site could not learn the outcome between the end of its lifetime
    and its own start, or that of the leg that it was to change.
    """
    if leg.was(ReservationState.COMMITTED):
        return _unheard(world, site, leg) if leg.state is ReservationState.RELEASED else ""
    if leg.state not in (ReservationState.EXPIRED, ReservationState.RELEASED):
        return ""
    ended_s = leg.ended_at or 0.0
    begins_s = start_s(site, leg, ended_s)
    if changed is not None:
        begins_s = min(begins_s, start_s(site, changed, ended_s))
    if ended_s < begins_s - 1.0:
        return ""  # it let go by itself, or somebody released it
    expires_at = leg.reservation.hold_expires_at
    doubt_s = (expires_at or 0) - WORLD_BEGIN - site.clock.offset_s(ended_s)
    acceptors = [each.site for each in trip_of(leg).acceptors]
    return world.why_unheard(site.name, acceptors, doubt_s, begins_s)


def _had_begun(books: TripBooks) -> bool:
    """A pipeline whose kept stages had their time before the others were released, whichever
    attempts they are of; every stage is one or the other.
    """
    begun = {trip_of(each).leg: each.reservation.start for _, each in books.kept()}
    gone = {
        trip_of(each).leg: each.since(ReservationState.RELEASED)
        for _, each in books.legs
        if each.state is ReservationState.RELEASED
    }
    released = [at for at in gone.values() if at is not None]
    if {*begun, *gone} != set(books.stages) or set(begun) & set(gone) or not released:
        return False
    return max(released) + WORLD_BEGIN >= max(begun.values()) - CANCEL_LEAD_S


def check_logs(world: CheckedWorld) -> None:
    """Every log has come to rest, and says what the books say."""
    trips = trips_of(world)
    for laptop in world.laptops.values():
        if laptop.is_lost:
            continue
        told = {each.trip_id: each for each in laptop.told}
        for trip_id, story in laptop.stories().items():
            books = trips.get(trip_id)
            is_lied_about = books is not None and books.is_kept_by_a_liar
            if story.copies and (story.state is TripState.BOOKED or story.state.is_over):
                continue  # it has no legs that are held: see ``race_checkers``
            if story.trip_id and not is_lied_about and not _is_with_liars(world, story.legs):
                _check_log(world, laptop, story, trips.get(trip_id), told.get(trip_id))


def _is_with_liars(world: CheckedWorld, legs: Sequence[Leg]) -> bool:
    """True when no honest site has a leg."""
    return bool(legs) and all(leg.site in world.liars for leg in legs)


def _check_log(
    world: CheckedWorld,
    laptop: CheckedLaptop,
    story: TripStory,
    books: TripBooks | None,
    told: CheckedTold | None,
) -> None:
    trip_id, state = story.trip_id, story.state
    outcome = books.outcome() if books is not None else ABORTED
    is_booked = state is TripState.BOOKED
    says = WHOLE if is_booked else ABORTED
    if not is_booked and not state.is_over:
        world.event_log.broken(LOGGED, f"{laptop.name}: {trip_id} is left {state}", trip_id)
    elif not is_booked and story.attempt.number and books is not None and books.is_over():
        world.event_log.counts["undone when it was over"] += outcome == WHOLE
    elif is_booked and outcome == ABORTED and books is not None and books.has_lying_party:
        world.event_log.counts["called off, or not begun, with a lying party"] += 1
    elif is_booked and books is not None and any(e.withdrawn_s for _, e in books.legs):
        world.event_log.counts["booked, and cancelled since a leg was withdrawn"] += 1
    elif is_booked and books is not None and _did_not_begin(world, books):
        world.event_log.counts["did not begin"] += 1
    elif outcome not in (says, TORN):
        world.event_log.broken(
            LOGGED, f"{laptop.name}: {trip_id} is {state} there, {outcome} in the books", trip_id
        )
    elif is_booked and books is not None and outcome == WHOLE:
        kept = sorted(each.reservation.reservation_id for _, each in books.kept())
        logged = [leg for leg in story.legs if leg.site not in world.liars]
        if kept != sorted(leg.reservation_id or "" for leg in logged):
            world.event_log.broken(
                LOGGED, f"{laptop.name}: {trip_id} has other legs: {kept}", trip_id
            )
    if told is not None and told.state is not None and told.state is not state:
        world.event_log.broken(
            LOGGED, f"{laptop.name} was told {trip_id} is {told.state}, its log {state}", trip_id
        )


def _did_not_begin(world: CheckedWorld, books: TripBooks) -> bool:
    """A trip that was booked, and of which no leg began because some site could not be heard, or a
    leg was not ready: every leg was let go when it should have begun, and one of them had a reason.
    """
    starts = {each.reservation.start for _, each in books.legs if _was_booked(each)}
    if books.kept() or not starts:
        return False
    for site, each in books.legs:
        if not _was_booked(each):
            continue
        if books.stages and lost_by_failure([(site, each)]):
            continue  # let go as soon as its job could never start
        released_s = each.since(ReservationState.RELEASED)
        if released_s is None:
            return False
        if released_s < start_s(site, each, released_s) - CHECK_BEFORE_S - 1.0:
            return False
    booked = [(site, each) for site, each in books.legs if _was_booked(each)]
    if not books.stages and any(was_not_ready(site, each) for site, each in booked):
        return True
    return any(_unheard(world, site, each) for site, each in booked)


def _was_booked(promise: Promise) -> bool:
    return promise.was(ReservationState.COMMITTED)


def check_told(world: CheckedWorld, itinerary: Itinerary) -> None:
    """Whoever is told that a trip is booked may pack: every leg is committed on its site's disk at
    that moment, whatever happens next.
    """
    if itinerary.state is not TripState.BOOKED:
        return
    for leg in itinerary.legs:
        if leg.site in world.liars or leg.reservation_id is None:
            continue  # nobody answers for it, or it is a copy in a race, which holds nothing
        promise = world.sites[leg.site].ledger.promises.get(leg.reservation_id or "")
        if (
            promise is None
            or not promise.was(ReservationState.COMMITTED)
            or promise.reservation.interval != leg.interval
        ):
            world.event_log.broken(
                SHOWN,
                f"{itinerary.trip_id} is called booked, {leg.site} has not committed it",
                itinerary.trip_id,
                leg.site,
            )


async def check_status(world: LivingWorld) -> None:
    """Type ``gur status`` for every trip: booked there is booked, and the reverse."""
    for laptop in world.laptops.values():
        life = laptop.life
        if life is None:
            continue
        agent = laptop.agent(life)
        races = {trip_id for trip_id, story in laptop.stories().items() if story.copies}
        for told in laptop.told:
            if not told.trip_id:
                continue
            try:
                report = await life.start(agent.status(told.trip_id), "status")
            except GridError as fault:
                world.event_log.broken(
                    SHOWN, f"gur status {told.trip_id}: {first_fault(fault)}", told.trip_id
                )
                continue
            is_race = told.trip_id in races  # of which no leg is held
            if not is_race and not _is_with_liars(world, report.itinerary.legs):
                check_shown(world, told.trip_id, report.itinerary.state)


def check_shown(world: CheckedWorld, trip_id: str, shown: TripState) -> None:
    """A trip that ``gur status`` shows as booked is booked, and the reverse."""
    books = trips_of(world).get(trip_id)
    outcome = books.outcome() if books is not None else ABORTED
    if shown in UNDONE and books is not None and books.is_over():
        return
    if books is not None and (books.is_kept_by_a_liar or books.has_lying_party):
        return  # what one of its sites says of it may be anything
    is_shown = shown in (TripState.BOOKED, TripState.RUNNING, TripState.COMPLETED)
    if outcome != TORN and is_shown != (outcome == WHOLE) and shown is not TripState.FAILED:
        world.event_log.broken(SHOWN, f"{trip_id} is shown {shown}, it is {outcome}", trip_id)

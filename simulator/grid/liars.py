"""Laptops and a site that lie: they say anything of anybody's trip, at any time, to some.

A liar knows the id of every trip in its world (an id is no secret) and who takes part in it. It
has its own certificate and nobody else's: who speaks is proven by the channel, so it may name
others and never be them. docs/protocol.md, section 1 ("Trust"), says what must hold beside it.

A lying *laptop* votes, holds under others' trip ids, and leads trips of its own as no traveller
may. A lying *site* is a site like others, whose legs can be booked, and beside that it speaks and
answers as it likes.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gridtravel.agents.node_agent import NodeAgent
from gridtravel.agents.ports.calendar_port import CalendarEndpoint
from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Begin,
    Reservation,
    ReservationEvent,
    ReservationRequest,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.trips.trip_consensus import (
    ROUNDS_MAX,
    TRAVELLERS_FIRST,
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
)
from gridtravel.gridio.journal.contract import JournalFailed
from gridtravel.simulator.checks.site_ledger import SiteLedger
from gridtravel.simulator.grid.simulated_laptop import LaptopPlan, SimulatedLaptop
from gridtravel.simulator.grid.simulated_site import (
    SimulatedSite,
    SitePlan,
    endpoint_of,
    subject_of_laptop,
)
from gridtravel.simulator.kernel.event_log import EventLog
from gridtravel.simulator.kernel.network_wire import SimulatedConnection
from gridtravel.simulator.kernel.processes import SimulatedProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gridtravel.agents.agent_parts import AgentParts
    from gridtravel.gridio.journal.memory import MemoryJournal
    from gridtravel.simulator.grid.world_frame import LiarsFrame
    from gridtravel.simulator.kernel.chance import Chance

PAUSE_MOST_S: Final = 6.0
"""Between two lies, while trips are booked."""
CALM_PAUSE_MOST_S: Final = 15.0
"""And later, until the last trip has begun."""
LIES_FOR_S: Final = 2_400.0
"""No trip of a random world starts later than this."""
RECENT: Final = 6
"""Half of the lies are about one of so many trips that were heard of last."""
TOMBSTONES: Final = 100
"""Releases of what never was, at a go."""
FALSE_ANSWERS: Final = 0.3
"""Share of its answers that a lying site makes up."""
LIE_TTL_S: Final = 30


class Liar:
    """What a laptop and a site that lie have in common: a mouth."""

    def __init__(
        self,
        frame: LiarsFrame,
        name: str,
        chance: Chance,
        ways: Callable[[str], SimulatedConnection],
    ) -> None:
        """``ways``: a connection to a site, under the liar's own certificate."""
        self._frame = frame
        self._name = name
        self._chance = chance
        self._ways = functools.cache(ways)

    async def say(
        self, site: str, what: Callable[[SimulatedConnection], Awaitable[object]]
    ) -> None:
        """Say something at a site, whatever comes back."""
        counts = self._frame.event_log.counts
        try:
            await what(self._ways(site))
        except GridError as fault:
            counts[f"lies refused: {type(fault).__name__}"] += 1
        else:
            counts["lies answered"] += 1

    def trip(self) -> TripRef | None:
        """A trip of anybody, rather one that was just begun."""
        known = self._frame.known_trips()
        if not known:
            return None
        return self._chance.one_of(known[-RECENT:] if self._chance.happens(0.5) else known)

    def site_of(self, trip: TripRef) -> str:
        """Where to say it: mostly at one of its participants."""
        others = self._frame.site_names()
        places = trip.participants if self._chance.happens(0.9) else others
        return self._chance.one_of(
            [each for each in places or others if each != self._name] or others
        )

    async def vote(self, trip: TripRef) -> None:
        """Any question about the trip, in any phase, under any ballot."""
        question = self._any_vote(trip)
        for site in trip.participants:
            if site != self._name and self._chance.happens(0.7):
                await self.say(site, lambda way: way.calendar.vote(question))

    async def hold_ready(self, trip: TripRef, leg: str) -> None:
        """Say that a leg is ready, whether it is or not."""
        question = VoteQuestion(
            instance=trip.readiness(leg), phase=Phase.ACCEPT, outcome=Outcome.COMMIT
        )
        for acceptor in trip.acceptors:
            if acceptor.site != self._name:
                await self.say(acceptor.site, lambda way: way.calendar.vote(question))

    def _any_vote(self, trip: TripRef) -> VoteQuestion:
        chance = self._chance
        legs = [each.leg for each in trip.legs] or [trip.leg]
        asked = chance.one_of(
            [
                trip.instance,
                trip.instance,
                trip.cancellation,
                trip.cancellation,
                trip.readiness(chance.one_of(legs)),
                f"{trip.trip_id}/runs/{chance.one_of(legs)}",
                f"{trip.trip_id}/{trip.attempt + 1}",
            ]
        )
        phase = chance.one_of(
            [Phase.PREPARE, Phase.ACCEPT, Phase.ACCEPT, Phase.SETTLE, Phase.LEARN]
        )
        outcome = chance.one_of(list(Outcome))
        names = [self._name, *trip.participants]
        proposer = (
            f"{chance.one_of(names)}:{chance.one_of(['', 'r1', 'liar'])}:{chance.whole(1, 9)}"
        )
        ballot = Ballot(chance.one_of([1, 2, 3, 1_000, ROUNDS_MAX]), proposer)
        if phase is Phase.LEARN:
            return VoteQuestion(instance=asked, phase=phase)
        if phase is Phase.PREPARE:
            return VoteQuestion(instance=asked, phase=phase, ballot=ballot)
        if phase is Phase.ACCEPT and chance.happens(0.5):
            ballot, outcome = TRAVELLERS_FIRST, Outcome.COMMIT
        return VoteQuestion(instance=asked, phase=phase, ballot=ballot, outcome=outcome)


class LyingLaptop(SimulatedLaptop):
    """A mapped user who lies from the first second to the last. Its wishes are not looked at."""

    def __init__(self, plan: LaptopPlan, sites: Sequence[str], frame: LiarsFrame) -> None:
        super().__init__(replace(plan, wishes=()), sites, frame)
        self._gossip = frame
        self._chance = frame.chance.child(f"lies of {plan.name}")
        self._caller = Caller(subject=subject_of_laptop(plan.name), login=plan.name)
        self._own: list[TripRef] = []
        """Its own attempts, one for each leg: some are named again with other parts."""
        self._held: list[tuple[str, str]] = []
        """(site, reservation): what it was granted."""
        self._asked = 0

    async def _use(self, life: SimulatedProcess) -> None:
        def way(site: str) -> SimulatedConnection:
            return SimulatedConnection(self.frame.network, life, self.clock, site, self._caller)

        liar = Liar(self._gossip, self.name, self._chance, way)
        while (second := self.frame.loop.time()) < LIES_FOR_S:
            trip = liar.trip()
            if self._chance.happens(0.35):
                await self._lead_a_trip(liar)
            elif self._chance.happens(0.02):
                await self._bury(liar)
            elif trip is not None:
                match self._chance.whole(1, 4):
                    case 1:
                        await self._hold_foreign(liar, trip)
                    case 2:
                        await self._touch_foreign(liar, trip)
                    case _:
                        await liar.vote(trip)
            most_s = PAUSE_MOST_S if second < self._gossip.storm_s else CALM_PAUSE_MOST_S
            pause_s = self._chance.seconds(0.05, most_s)
            await self.clock.sleep_until(self.clock.now_precise() + pause_s)

    # -- of others' trips --------------------------------------------------------------------------

    async def _hold_foreign(self, liar: Liar, trip: TripRef) -> None:
        """A hold under somebody else's trip, of the same attempt or another, with own lists."""
        chance, site = self._chance, liar.site_of(trip)
        parts = self._parts(site)
        named = replace(
            trip,
            attempt=trip.attempt + chance.whole(0, 1),
            participants=chance.one_of([trip.participants, parts]),
            acceptors=chance.one_of([trip.acceptors, self._acceptors(parts)]),
        )
        await self._hold(liar, site, named)

    async def _touch_foreign(self, liar: Liar, trip: TripRef) -> None:
        """Commit, release or bury what others have at a site."""
        site = liar.site_of(trip)
        found = self._gossip.known_reservations(site)
        if not found:
            return
        target = self._chance.one_of(found)
        match self._chance.whole(1, 3):
            case 1:
                await liar.say(site, lambda way: way.calendar.commit(target.reservation_id))
            case 2:
                await liar.say(site, lambda way: way.calendar.release(target.reservation_id))
            case _:
                request_id = target.request.request_id
                await liar.say(site, lambda way: way.calendar.release_request(request_id))

    async def _bury(self, liar: Liar) -> None:
        """Tombstones without number."""
        site = self._chance.one_of(self._gossip.site_names())
        for _ in range(TOMBSTONES):
            self._asked += 1
            name = f"{self.name}-never-{self._asked}"
            await liar.say(site, lambda way, name=name: way.calendar.release_request(name))  # type: ignore[misc]

    # -- of its own --------------------------------------------------------------------------------

    async def _lead_a_trip(self, liar: Liar) -> None:
        """Hold some legs, have them decided before all are held, tell some, let single ones go; or
        do all that under a name that was used before, as from a log that was put back.
        """
        chance = self._chance
        if not self._own or chance.happens(0.5):
            self._own.append(self._new_trip())
        trip = chance.one_of(self._own)
        if chance.happens(0.3):
            trip = replace(trip, participants=self._parts(trip.participants[0]))
        for leg in trip.legs:
            named = replace(trip, leg=leg.leg)
            for _ in range(chance.whole(1, 2)):
                match chance.whole(1, 6):
                    case 1 | 2:
                        await self._hold(liar, leg.site, named)
                    case 3:
                        first = VoteQuestion(
                            instance=chance.one_of([trip.instance, trip.cancellation]),
                            phase=Phase.ACCEPT,
                            outcome=Outcome.COMMIT,
                        )
                        await liar.say(leg.site, lambda way, v=first: way.calendar.vote(v))  # type: ignore[misc]
                    case 4:
                        await liar.vote(trip)
                    case _:
                        await self._end_or_commit(liar)

    async def _end_or_commit(self, liar: Liar) -> None:
        if not self._held:
            return
        site, key = self._chance.one_of(self._held)
        if self._chance.happens(0.5):
            await liar.say(site, lambda way: way.calendar.commit(key))
        else:
            await liar.say(site, lambda way: way.calendar.release(key))

    def _new_trip(self) -> TripRef:
        chance = self._chance
        parts = self._parts("")
        start = self.clock.now() + chance.whole(30, 600)
        return TripRef(
            trip_id=f"trip-{self.name}-{len(self._own)}",
            leg=parts[0],
            nonce=f"{chance.number():012x}",
            participants=parts,
            acceptors=self._acceptors(parts),
            legs=tuple(TripLeg(leg=each, site=each, start=start) for each in parts),
            ends_at=start + chance.whole(30, 300),
            begin=chance.one_of(list(Begin)),
        )

    async def _hold(self, liar: Liar, site: str, trip: TripRef) -> None:
        self._asked += 1
        start = max([each.start for each in trip.legs if each.leg == trip.leg], default=0)
        start = max(start, self.clock.now() + 20)
        duration_s = self._chance.whole(20, 120)
        request = ReservationRequest(
            request_id=f"{self.name}-{self._asked}",
            account="default",
            nodes_min=1,
            nodes_max=1,
            duration_s=duration_s,
            earliest_start=start,
            latest_end=start + duration_s,
            trip=trip,
        )

        async def reserve(way: SimulatedConnection) -> None:
            answer = await way.calendar.reserve(request, ttl_s=LIE_TTL_S)
            if isinstance(answer, Reservation):
                self._held.append((site, answer.reservation_id))

        await liar.say(site, reserve)

    def _parts(self, first: str) -> tuple[str, ...]:
        names = [each for each in self._gossip.site_names() if each != first]
        some = self._chance.some_of(names, self._chance.whole(1, min(3, len(names))))
        return (first, *some) if first else tuple(some)

    def _acceptors(self, parts: tuple[str, ...]) -> tuple[Acceptor, ...]:
        """Some of the parts, with their own cards: whoever asks a site for its card gets it."""
        kept = parts[: len(parts) if len(parts) % 2 else len(parts) - 1]
        return tuple(
            Acceptor(
                site=each,
                endpoint=endpoint_of(each),
                card=self.frame.cards.issue(each, endpoint_of(each), max(0, self.clock.now() - 5)),
            )
            for each in kept
        )


class LyingAgent(NodeAgent):
    """The agent of a site that lies: what it answers to votes need not be what it knows."""

    chance: Chance
    others: Sequence[str]
    """Sites in whose name it may answer."""

    def calendar_port(self, caller: Caller) -> CalendarEndpoint:
        """See ``NodeAgent``."""
        is_itself = caller.site == self.calendar.site
        return super().calendar_port(caller) if is_itself else _LyingEndpoint(self, caller)


class _LyingEndpoint(CalendarEndpoint):
    """Answers votes truly, or as somebody else, or the other way round."""

    def __init__(self, agent: LyingAgent, caller: Caller) -> None:
        super().__init__(agent, caller)
        self._agent = agent

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        chance = self._agent.chance
        if not chance.happens(FALSE_ANSWERS):
            return await super().vote(question)
        voted = Vote(
            ballot=chance.one_of([TRAVELLERS_FIRST, question.ballot, Ballot(7, "anybody:1:1")]),
            outcome=chance.one_of(list(Outcome)),
        )
        return AcceptorAnswer(
            acceptor=chance.one_of([self._agent.calendar.site, *self._agent.others]),
            is_granted=chance.happens(0.7),
            promised=Ballot(chance.one_of([0, 1, ROUNDS_MAX - 1]), "anybody:1:1"),
            vote=chance.one_of([None, voted]),
        )


class LyingSite(SimulatedSite):
    """A site that can be booked, and lies. Its own ledger binds it to nothing."""

    agent_type = LyingAgent

    def __init__(self, plan: SitePlan, frame: LiarsFrame) -> None:
        super().__init__(plan, frame)
        self._gossip = frame
        unheard = EventLog(frame.loop)
        unheard.lines = frame.event_log.lines
        self.ledger = SiteLedger(plan.name, plan.nodes, unheard, frame.loop)
        self._lies = frame.chance.child(f"lies of {plan.name}")

    def _parts(self, life: SimulatedProcess, journal: MemoryJournal) -> AgentParts:
        life.start(self._lie(life), "lies")
        return super()._parts(life, journal)

    def _made(self, agent: NodeAgent) -> None:
        assert isinstance(agent, LyingAgent)
        agent.chance = self._lies
        agent.others = [name for name in self._gossip.site_names() if name != self.name]

    async def _lie(self, life: SimulatedProcess) -> None:
        itself = Caller(subject=f"site:{self.name}", role=Role.SITE, site=self.name)

        def way(site: str) -> SimulatedConnection:
            return SimulatedConnection(self.frame.network, life, self.clock, site, itself)

        liar = Liar(self._gossip, self.name, self._lies, way)
        while (second := self.frame.loop.time()) < LIES_FOR_S:
            trip = liar.trip()
            if trip is not None:
                await self._lie_about(liar, trip)
            most_s = PAUSE_MOST_S if second < self._gossip.storm_s else CALM_PAUSE_MOST_S
            pause_s = self._lies.seconds(0.05, most_s)
            await self.clock.sleep_until(self.clock.now_precise() + pause_s)

    async def _lie_about(self, liar: Liar, trip: TripRef) -> None:
        """Votes about any trip; of its own legs, that they are ready, or gone."""
        own = [each.leg for each in trip.legs if each.site == self.name]
        if own and self._lies.happens(0.4):
            await liar.hold_ready(trip, own[0])
        elif self._lies.happens(0.1):
            await self._drop_something()
        else:
            await liar.vote(trip)

    async def _drop_something(self) -> None:
        """Withdraw a hold or drop a leg of its own, and tell nobody."""
        agent = self.agent
        if agent is None:
            return
        kept = [each for each in agent.calendar.unordered_live() if each.request.trip is not None]
        if not kept:
            return
        victim = self._lies.one_of(sorted(kept, key=lambda each: each.reservation_id))
        events = agent.calendar.decide_release(
            victim.reservation_id, None, self.clock.now(), event=ReservationEvent.RELEASE
        )
        with contextlib.suppress(JournalFailed):  # its disk is full; its daemon ends by that
            await agent.record(events).durable()

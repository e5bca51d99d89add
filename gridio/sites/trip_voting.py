"""Asking the acceptors of a trip, as a laptop or as a site in doubt.

The rules are in ``gridcore.trips.trip_consensus``; this sends the questions. One ``TripVoting``
serves one proposer and one attempt of one trip. Faults of single acceptors are what the protocol is
for, so they are counted as silence. A ``RaceVoting`` serves one party of a race, whose rules are in
``gridcore.jobs.races``: one ``TripVoting`` for each copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.trip_consensus import (
    TRAVELLERS_FIRST,
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    VoteQuestion,
    chosen,
    majority,
    next_ballot,
    value_to_propose,
)


class TripVoting:
    """One proposer's view of one attempt."""

    def __init__(
        self,
        instance: str,
        acceptors: Mapping[str, CalendarPort],
        proposer: str,
        *,
        keep_until: Instant,
    ) -> None:
        self._instance = instance
        self._acceptors = dict(acceptors)
        self._names = tuple(acceptors)
        self._proposer = proposer
        self._keep_until = keep_until
        self._last = TRAVELLERS_FIRST
        """The highest ballot used or heard of."""

    async def propose_first(self) -> Outcome | None:
        """The traveller's first proposal, COMMIT with ballot 0; ``None``: a majority did not grant
        it, which decides nothing.
        """
        return await self._accept(TRAVELLERS_FIRST, Outcome.COMMIT)

    async def learn(self) -> Outcome | None:
        """The outcome, when what the acceptors say proves one. Changes nothing anywhere."""
        question = VoteQuestion(instance=self._instance, phase=Phase.LEARN)
        return chosen(await self._ask(question), self._names)

    async def settle(self, wish: Outcome) -> Outcome | None:
        """One whole round with a new ballot: the outcome that may have been chosen already, else
        ``wish``. ``None``: no majority could be heard, or another proposer's ballot was higher; say
        it again later.
        """
        ballot = next_ballot([], self._proposer, self._last)
        self._last = ballot
        prepare = VoteQuestion(
            instance=self._instance,
            phase=Phase.PREPARE,
            ballot=ballot,
            keep_until=self._keep_until,
        )
        promises = [each for each in await self._ask(prepare) if each.is_granted]
        if len(promises) < majority(self._names):
            return None
        value = value_to_propose(promises, wish)
        return await self._accept(ballot, value)

    async def _accept(self, ballot: Ballot, value: Outcome) -> Outcome | None:
        question = VoteQuestion(
            instance=self._instance,
            phase=Phase.ACCEPT,
            ballot=ballot,
            outcome=value,
            keep_until=self._keep_until,
        )
        granted = [each for each in await self._ask(question) if each.is_granted]
        return value if len(granted) >= majority(self._names) else None

    async def _ask(self, question: VoteQuestion) -> list[AcceptorAnswer]:
        """The answers of all acceptors that answer."""

        async def ask(port: CalendarPort) -> AcceptorAnswer | None:
            try:
                return await port.vote(question)
            except GridError:
                return None

        answers = await asyncio.gather(*(ask(port) for port in self._acceptors.values()))
        heard = [each for each in answers if each is not None]
        for answer in heard:
            self._last = max(self._last, answer.promised)
        return heard


Ask = Callable[[str], TripVoting]
"""Makes the proposer for one question; each with a name of its own, never used again."""


class RaceVoting:
    """One party's view of one race. It is kept from one try to the next: what it has heard of it
    outbids, and what it knows it need not ask again.
    """

    def __init__(self, race: Race, ask: Ask) -> None:
        self._race = race
        self._ask = ask
        self._votings: dict[str, TripVoting] = {}
        self._known: dict[str, Outcome] = {}
        """By copy; an outcome that was chosen once stays."""

    async def claim(self) -> bool | None:
        """True: this copy runs, and no other ever will. False: it has lost. ``None``: no majority
        of the acceptors could be heard, so it may not start now; say it again, later or after a
        restart.
        """
        for copy in self._race.before:
            outcome = await self._settle(copy, Outcome.ABORT)
            if outcome is None:
                return None
            if outcome is Outcome.COMMIT:
                return False
        outcome = await self._settle(self._race.copy, Outcome.COMMIT)
        return None if outcome is None else outcome is Outcome.COMMIT

    async def call_off(self) -> str | None:
        """Settle for every copy that it does not run. The copy that runs nevertheless, since it had
        won before; empty: none ever will. ``None``: not known yet, say it again.
        """
        winner = ""
        for copy in self._race.copies:
            outcome = await self._settle(copy, Outcome.ABORT)
            if outcome is None:
                return None
            if outcome is Outcome.COMMIT:
                winner = copy
        return winner

    async def _settle(self, copy: str, wish: Outcome) -> Outcome | None:
        if copy in self._known:
            return self._known[copy]
        if copy not in self._votings:
            self._votings[copy] = self._ask(self._race.question(copy))
        voting = self._votings[copy]
        outcome = await voting.learn() or await voting.settle(wish)
        if outcome is not None:
            self._known[copy] = outcome
        return outcome

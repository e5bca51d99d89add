"""Asking the acceptors of a trip, from whichever side: the traveller's, or that of a site in doubt.

The rules are in ``gridcore.trip_consensus``; here they meet the network. One object serves one
proposer and one attempt of one trip. Faults of single acceptors are what the protocol is for, so
they are counted as silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gridcore.errors import GridError
from gridcore.instants import Instant
from gridcore.ports import CalendarPort
from gridcore.trip_consensus import (
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
        ``wish``. ``None``: no majority could be heard, or somebody else's ballot was higher; say it
        again later.
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

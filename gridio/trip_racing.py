"""Claiming a race for one copy, and calling a whole race off: ``gridcore.races`` on the network."""

from __future__ import annotations

from collections.abc import Callable

from gridcore.races import Race
from gridcore.trip_consensus import Outcome
from gridio.trip_voting import TripVoting

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

"""Asking the acceptors of a trip (``gridcore.trips.trip_consensus``; docs/protocol.md).

``TripQuestions`` is what anybody who has a say may do: ask for what was chosen, and have an
acceptor settle what is open. ``TripVoting`` is for an acceptor, which proposes by itself, and
``TravellersVoting`` for a trip's owner, who has the first ballot. Each serves one party and one
question. Faults of single acceptors are what the protocol is for, so they are counted as silence.

A ``RaceVoting`` serves one party of a race, whose rules are in ``gridcore.jobs.races``: a question
for each copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.trip_consensus import (
    ROUNDS_MAX,
    TRAVELLERS_FIRST,
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    VoteQuestion,
    carried_on,
    chosen,
    chosen_vote,
    majority,
    next_ballot,
)

STRAGGLERS_S: Final = 0.2
"""So long the others are waited for when enough acceptors have answered: each that has voted as
well is one more that may die.
"""


class Votes(Protocol):
    """A way to one acceptor; a ``CalendarPort`` is one."""

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """See ``CalendarPort.vote``."""
        ...


class TripQuestions:
    """One party's view of one question."""

    def __init__(self, question: str, acceptors: Mapping[str, Votes]) -> None:
        self._question = question
        self._acceptors = dict(acceptors)
        self._names = tuple(acceptors)
        self._turn = 0
        """Whom to ask next to settle: another one each time, so that a dead one costs one try."""
        self._last = TRAVELLERS_FIRST
        """The highest ballot used or heard of."""
        self.manifest = NO_CONTACTS
        """What came with the COMMIT that was learned or has been chosen."""

    async def learn(self) -> Outcome | None:
        """The outcome, when what the acceptors say proves one. Changes nothing anywhere."""
        question = VoteQuestion(instance=self._question, phase=Phase.LEARN)
        answers = await self._ask(question, lambda heard: chosen(heard, self._names) is not None)
        vote = chosen_vote(answers, self._names)
        if vote is None:
            return None
        self.manifest = vote.manifest
        return vote.outcome

    async def learn_with(self, others: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of this question and of others of the same attempt, as far as what the
        acceptors say proves them; each acceptor is asked one message. Those of an earlier release
        say nothing of the others.
        """
        question = VoteQuestion(instance=self._question, phase=Phase.LEARN, beside=tuple(others))

        def proven(heard: list[AcceptorAnswer]) -> dict[str, Outcome]:
            full = [each.beside for each in heard if len(each.beside) == len(others)]
            answers = {self._question: heard}
            for place, name in enumerate(others):
                answers[name] = [each[place] for each in full]
            outcomes = {name: chosen(each, self._names) for name, each in answers.items()}
            return {name: each for name, each in outcomes.items() if each is not None}

        return proven(await self._ask(question, lambda heard: len(proven(heard)) > len(others)))

    async def settle(self, wish: Outcome) -> Outcome | None:
        """Have the question settled, in favour of ``wish`` where nothing may have been chosen yet.
        ``None``: not known yet; say it again later. One acceptor's word is never enough: what it
        has settled is learned from a majority.
        """
        question = VoteQuestion(instance=self._question, phase=Phase.SETTLE, outcome=wish)
        for _ in self._names:
            name = self._names[self._turn % len(self._names)]
            self._turn += 1
            try:
                answer = await self._acceptors[name].vote(question)
            except GridError:
                continue
            if answer.is_granted:
                return await self.learn()
        return None

    async def _ask(
        self, question: VoteQuestion, is_enough: Callable[[list[AcceptorAnswer]], bool]
    ) -> list[AcceptorAnswer]:
        """The answers of the acceptors that answer, until they are enough; a dead one is not waited
        for then. What one says in another's name is no answer.
        """
        heard: list[AcceptorAnswer] = []
        answers: asyncio.Queue[AcceptorAnswer | None] = asyncio.Queue()

        async def ask(name: str) -> None:
            answers.put_nowait(await self._ask_one(name, question))

        tasks = [asyncio.ensure_future(ask(name)) for name in self._names]
        try:
            for _ in tasks:
                async with asyncio.timeout(STRAGGLERS_S if is_enough(heard) else None):
                    answer = await answers.get()
                if answer is not None:
                    heard.append(answer)
        except TimeoutError:
            pass  # enough have answered
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for answer in heard:
            self._last = max(self._last, answer.promised)
        return heard

    async def _ask_one(self, name: str, question: VoteQuestion) -> AcceptorAnswer | None:
        try:
            answer = await self._acceptors[name].vote(question)
        except GridError:
            return None
        return answer if answer.acceptor == name else None

    def _is_majority(self, heard: list[AcceptorAnswer]) -> bool:
        return sum(each.is_granted for each in heard) >= majority(self._names)

    async def _accept(self, ballot: Ballot, value: Outcome, manifest: Manifest) -> Outcome | None:
        question = VoteQuestion(
            instance=self._question,
            phase=Phase.ACCEPT,
            ballot=ballot,
            outcome=value,
            manifest=manifest,
        )
        if not self._is_majority(await self._ask(question, self._is_majority)):
            return None
        self.manifest = manifest
        return value


class TravellersVoting(TripQuestions):
    """A question as whoever has its first ballot asks it: the trip's owner, and of a leg's
    readiness its site.
    """

    def __init__(
        self, question: str, acceptors: Mapping[str, Votes], manifest: Manifest = NO_CONTACTS
    ) -> None:
        """``manifest``: what is proposed with COMMIT; the same each time it is said again."""
        super().__init__(question, acceptors)
        self._proposed = manifest

    @property
    def is_outbid(self) -> bool:
        """True when some acceptor has promised a higher ballot: the first one may never be chosen
        any more.
        """
        return self._last > TRAVELLERS_FIRST

    async def propose_first(self) -> Outcome | None:
        """Propose COMMIT with ballot 0; ``None``: a majority did not grant it, which decides
        nothing. Saying it again is the same proposal.
        """
        return await self._accept(TRAVELLERS_FIRST, Outcome.COMMIT, self._proposed)


class TripVoting(TripQuestions):
    """A question as an acceptor asks it, which may propose. ``proposer`` names it and this use of
    it: no two share a ballot, and none uses one twice. It begins with the acceptor's name and a
    colon.
    """

    def __init__(self, question: str, acceptors: Mapping[str, Votes], proposer: str) -> None:
        super().__init__(question, acceptors)
        self._proposer = proposer

    async def settle(self, wish: Outcome) -> Outcome | None:
        """One whole round with a new ballot: the outcome that may have been chosen already, else
        ``wish``. ``None``: no majority could be heard, or another proposer's ballot was higher; say
        it again later. Above the last round there is nothing to say: who has used that up, or
        pretends that somebody has, keeps the question open, and its askers have other ends.
        """
        ballot = next_ballot([], self._proposer, self._last)
        if ballot.round > ROUNDS_MAX:
            return None
        self._last = ballot
        prepare = VoteQuestion(instance=self._question, phase=Phase.PREPARE, ballot=ballot)
        heard = await self._ask(prepare, self._is_majority)
        if not self._is_majority(heard):
            return None
        vote = carried_on([each for each in heard if each.is_granted])
        if vote is None:
            return await self._accept(ballot, wish, NO_CONTACTS)
        return await self._accept(ballot, vote.outcome, vote.manifest)


class OutsidersVoting(TripVoting):
    """A question as a participant asks it that is no acceptor. Where the acceptors have never heard
    of the attempt, because its holds were sent to some sites only, nobody there would propose; so
    it does, and they take what ``gridcore.trips.registers`` says.
    """

    async def settle(self, wish: Outcome) -> Outcome | None:
        """See ``TripQuestions.settle``."""
        return await TripQuestions.settle(self, wish) or await super().settle(wish)


Ask = Callable[[str], TripQuestions]
"""Makes what asks one question."""


class RaceVoting:
    """One party's view of one race. It is kept from one try to the next: what it has heard of it
    outbids, and what it knows it need not ask again.
    """

    def __init__(self, race: Race, ask: Ask) -> None:
        self._race = race
        self._ask = ask
        self._questions: dict[str, TripQuestions] = {}
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
        if copy not in self._questions:
            self._questions[copy] = self._ask(self._race.question(copy))
        question = self._questions[copy]
        outcome = await question.learn() or await question.settle(wish)
        if outcome is not None:
            self._known[copy] = outcome
        return outcome

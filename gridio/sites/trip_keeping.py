"""An acceptor: a site's part in keeping the outcome of trips, for agents and managers alike.

It asks whose word counts (``gridcore.trips.registers``), answers by the rules
(``gridcore.trips.trip_consensus``), and has promise and vote on the disk before the answer leaves.
Asked to settle a question, it proposes; nobody else does above the first ballot.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from gridtravel.gridcore.booking.reservations import Acceptor
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import InputError, NotAuthorisedError, UnavailableError
from gridtravel.gridcore.trips.registers import (
    TripRegister,
    TripRegisters,
    Voter,
    check_beside,
    check_voter,
)
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    AcceptorState,
    Outcome,
    Phase,
    VoteQuestion,
    answer_vote,
)
from gridtravel.gridio.journal.contract import Ticket
from gridtravel.gridio.sites.trip_voting import TripVoting, Votes
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.trust.identity import GridIdentity, Role

log = logging.getLogger(__name__)

PARTIES: Final = frozenset({Role.SITE, Role.MANAGER})


def voter_of(caller: Caller) -> Voter:
    """A caller as a voter: what holds of theirs are called here, and which site or manager their
    certificate names.
    """
    identity = GridIdentity.parse(caller.subject)
    is_party = identity is not None and identity.role in PARTIES
    return Voter(
        name=caller.subject,
        owner=caller.owner if caller.login else "",
        party=caller.site or (identity.name if identity is not None and is_party else ""),
    )


class Proposers:
    """Names for the ballots of one site. The run's name is new with each start of the daemon, and
    the number with each proposer, so no ballot is ever used twice.
    """

    def __init__(self, site: str, run: str) -> None:
        self._prefix = f"{site}:{run}"
        self._numbers = itertools.count(1)

    def next(self) -> str:
        """A name that nobody has had."""
        return f"{self._prefix}:{next(self._numbers)}"


class TripAcceptor:
    """One site's memory of trips' outcomes, and its answers."""

    def __init__(
        self,
        registers: TripRegisters,
        clock: Clock,
        *,
        record: Callable[[AcceptorState | None], Ticket],
        ports: Callable[[Sequence[Acceptor]], Mapping[str, Votes]],
        proposers: Proposers,
    ) -> None:
        """``record``: journals and applies what has changed; ``None``: nothing has, and the answer
        waits for what was written before. ``ports``: the ways to acceptors, by their names.
        """
        self.registers = registers
        self._clock = clock
        self._record = record
        self._ports = ports
        self._proposers = proposers
        self._settling: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def vote(self, question: VoteQuestion, caller: Caller) -> AcceptorAnswer:
        """Answer one question; whatever the answer rests on is on the disk before it leaves."""
        voter, site = voter_of(caller), self.registers.site
        try:
            register = self.registers.register_for(question.instance)
            check_voter(register, question, voter, site, self._clock.now())
            self._check_room(register, question, voter)
            for each in question.beside:
                check_beside(register, question, each)
        except (InputError, NotAuthorisedError, UnavailableError) as fault:
            log.warning(
                "%s on %s by %s refused: %s", question.phase, question.instance, voter.name, fault
            )
            raise
        is_settled = True
        if question.phase is Phase.SETTLE:
            assert register is not None, "it was checked"
            assert question.outcome is not None, "a wish belongs to it"
            is_settled = await self._settle(register, question.instance, question.outcome)
        old = self.registers.states.get(question.instance)
        state = old or self._new_state(register, question, voter)
        new, answer = answer_vote(state, question, site)
        if question.beside:
            answer = replace(answer, beside=tuple(map(self._known_of, question.beside)))
        await self._record(new if new is not state else None).durable()
        if question.phase is not Phase.LEARN:
            log.info(
                "%s%s on %s by %s: %s",
                question.phase,
                f" {question.outcome}" if question.outcome else "",
                question.instance,
                voter.name,
                "granted" if answer.is_granted and is_settled else "not granted",
            )
        if is_settled:
            return answer
        return AcceptorAnswer(
            acceptor=site, is_granted=False, promised=answer.promised, vote=answer.vote
        )

    def _known_of(self, question: str) -> AcceptorAnswer:
        """What there is to learn."""
        state = self.registers.states.get(question) or AcceptorState(instance=question)
        learn = VoteQuestion(instance=question, phase=Phase.LEARN)
        return answer_vote(state, learn, self.registers.site)[1]

    def _new_state(
        self, register: TripRegister | None, question: VoteQuestion, voter: Voter
    ) -> AcceptorState:
        if register is not None:
            return AcceptorState(instance=question.instance, keep_until=register.ends_at)
        return AcceptorState(
            instance=question.instance, keep_until=self._clock.now(), asked_by=voter.party
        )

    def _check_room(
        self, register: TripRegister | None, question: VoteQuestion, voter: Voter
    ) -> None:
        """Refuse what would be one thing too many to remember for a party that nobody here knows
        of.
        """
        is_new = register is None and question.instance not in self.registers.states
        if is_new and question.phase is not Phase.LEARN and not self.registers.may_ask_more(voter):
            raise UnavailableError(
                f"{voter.party} has asked {self.registers.site} about too many unknown trips",
                hint="ask again later",
            )

    async def _settle(self, register: TripRegister, question: str, wish: Outcome) -> bool:
        """Have a question settled, one proposer of this site at a time."""
        lock = self._settling.get(question)
        if lock is None:
            lock = self._settling[question] = asyncio.Lock()
        async with lock:
            ports = self._ports(register.acceptors)
            voting = TripVoting(question, ports, self._proposers.next())
            return (await voting.learn() or await voting.settle(wish)) is not None

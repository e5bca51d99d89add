"""Whatever is said to a ledger, no credits are made or lost, and nobody has less than none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError, UnavailableError
from gridtravel.gridio.ledger.ledger import (
    AMOUNT_MAX,
    EARNED,
    GRANTED,
    HELD,
    EntryKind,
    Hold,
    Ledger,
    Shortfall,
)

ACCOUNTS = ("ann", "bob")
REFERENCES = ("job/1", "job/2", "reservation/here.1")
accounts = st.sampled_from(ACCOUNTS)
references = st.sampled_from(REFERENCES)
amounts = st.integers(0, 100)


class LedgerWorld(RuleBasedStateMachine):
    """A ledger beside the plainest books: what each has, and each hold."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(None)
        self.granted = 0
        self.has = dict.fromkeys(ACCOUNTS, 0)
        self.holds: dict[str, Hold] = {}
        self.first: dict[str, int] = {}
        self.at = 0

    @rule(account=accounts, amount=st.integers(-50, 100))
    def grant(self, account: str, amount: int) -> None:
        """Given, or taken back of what is available; once for each id."""
        self.at += 1
        if not amount:
            with pytest.raises(InputError):
                self.ledger.grant(account, 0, request_id=str(self.at), note="", at=self.at)
            return
        for time in range(2):
            short = self.ledger.grant(account, amount, request_id=str(self.at), note="", at=self.at)
            if time == 0:
                assert (short is not None) == (self.has[account] + amount < 0)
            if short is not None:
                return
            if time == 0:
                self.granted += amount
                self.has[account] += amount
        with pytest.raises(ConflictError):
            self.ledger.grant(account, amount + 1, request_id=str(self.at), note="", at=self.at)

    @rule(reference=references, account=accounts, amount=amounts)
    def hold(self, reference: str, account: str, amount: int) -> None:
        """Of what is available, or a shortfall that names it; a reference pays once."""
        known = self.holds.get(reference)
        if known is not None and known.charged == 0:
            known = None
        if known is not None and (known.charged is not None or known.account != account):
            with pytest.raises(ConflictError):
                self.ledger.hold(reference, account, amount, self.at)
            return
        more = amount - (known.millicredits if known else 0)
        short = self.ledger.hold(reference, account, amount, self.at)
        if more > self.has[account]:
            assert short == Shortfall(account=account, wanted=more, available=self.has[account])
            if known is None:
                self.holds.pop(reference, None)
            return
        assert short is None
        self.has[account] -= more
        self.holds[reference] = Hold(reference=reference, account=account, millicredits=amount)

    @rule(reference=references, amount=amounts)
    def charge(self, reference: str, amount: int) -> None:
        """At most what is held; the rest goes back; once."""
        known = self.holds.get(reference)
        if known is None:
            with pytest.raises(NotFoundError):
                self.ledger.charge(reference, amount, self.at)
            return
        if known.charged is not None:
            if self.first[reference] == amount:
                self.ledger.charge(reference, amount, self.at)
            else:
                with pytest.raises(ConflictError):
                    self.ledger.charge(reference, amount, self.at)
            return
        if amount > known.millicredits:
            with pytest.raises(ConflictError):
                self.ledger.charge(reference, amount, self.at)
            return
        self.ledger.charge(reference, amount, self.at)
        self.ledger.release(reference, self.at)
        self._close(known, amount)

    @rule(reference=references)
    def release(self, reference: str) -> None:
        """All goes back; nothing happens where nothing waits."""
        self.ledger.release(reference, self.at)
        known = self.holds.get(reference)
        if known is not None and known.charged is None:
            self._close(known, 0)

    @rule(reference=references, amount=amounts)
    def refund(self, reference: str, amount: int) -> None:
        """At most what was paid and not refunded; once for each id."""
        known = self.holds.get(reference)
        self.at += 1
        said: Any = {"request_id": str(self.at), "note": "a gift", "at": self.at}
        if not amount:
            return
        if known is None or known.charged is None or known.charged < amount:
            with pytest.raises(ConflictError):
                self.ledger.refund(reference, amount, **said)
            return
        for _ in range(2):
            self.ledger.refund(reference, amount, **said)
        with pytest.raises(ConflictError):
            self.ledger.refund(reference, amount + 1, **said)
        self.has[known.account] += amount
        left = known.charged - amount
        self.holds[reference] = Hold(
            reference=reference,
            account=known.account,
            millicredits=known.millicredits,
            charged=left,
        )

    def _close(self, known: Hold, charged: int) -> None:
        self.first[known.reference] = charged
        self.has[known.account] += known.millicredits - charged
        self.holds[known.reference] = Hold(
            reference=known.reference,
            account=known.account,
            millicredits=known.millicredits,
            charged=charged,
        )

    @invariant()
    def the_books_agree(self) -> None:
        """With the plain ones, and with themselves."""
        self.ledger.check()
        told = self.ledger.accounts()
        assert sum(told.values()) == 0
        assert {name: told.get(name, 0) for name in ACCOUNTS} == self.has
        still_held = [each for each in self.holds.values() if each.charged is None]
        assert told[HELD] == sum(each.millicredits for each in still_held)
        assert told[EARNED] == sum(each.charged or 0 for each in self.holds.values())
        assert told[GRANTED] == -self.granted
        assert set(self.ledger.open_holds()) == {each.reference for each in still_held}
        for name in ACCOUNTS:
            lines = self.ledger.statement(name)
            assert not lines or lines[-1].available == self.has[name]
            mine = [each.millicredits for each in still_held if each.account == name]
            assert self.ledger.held(name) == sum(mine)


LedgerWorld.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLedgerLaws = LedgerWorld.TestCase


def test_a_statement_tells_where_the_credits_went() -> None:
    """Oldest first, with what was available after each."""
    ledger = Ledger(None)
    ledger.grant("ann", 100, request_id="a", note="for the project", at=1)
    ledger.hold("job/1", "ann", 60, 2)
    ledger.charge("job/1", 45, 3, "45 s of 60")
    told = [(each.kind, each.millicredits, each.available) for each in ledger.statement("ann")]
    assert told == [
        (EntryKind.GRANT, 100, 100),
        (EntryKind.HOLD, -60, 40),
        (EntryKind.CHARGE, 15, 55),
    ]
    assert [each.kind for each in ledger.statement("ann", lines_max=1)] == [EntryKind.CHARGE]
    assert [each.at for each in ledger.statement("ann", since=2)] == [2, 3]


@pytest.mark.parametrize("amount", [-1, AMOUNT_MAX + 1, 10**30])
def test_absurd_amounts_are_refused(amount: int) -> None:
    """A price that pays the user, or one that no sum could hold."""
    ledger = Ledger(None)
    with pytest.raises(InputError):
        ledger.hold("job/1", "ann", amount, 0)
    ledger.hold("job/1", "ann", 0, 0)
    with pytest.raises(InputError):
        ledger.charge("job/1", amount, 0)
    ledger.check()


@pytest.mark.parametrize("account", ["", HELD, EARNED, GRANTED])
def test_the_sites_own_accounts_are_nobodys(account: str) -> None:
    """No user is called like one of them."""
    ledger = Ledger(None)
    with pytest.raises(InputError):
        ledger.hold("job/1", account, 0, 0)
    with pytest.raises(InputError):
        ledger.grant(account, 5, request_id="a", note="", at=0)


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    """A file is opened again as it was left, by its owner alone; what is no ledger is refused."""
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.grant("ann", 100, request_id="a", note="", at=1)
    ledger.hold("job/1", "ann", 60, 2)
    ledger.close()
    assert path.stat().st_mode & 0o777 == 0o600
    again = Ledger(path)
    assert again.available("ann") == 40
    assert again.open_holds() == {"job/1": Hold(reference="job/1", account="ann", millicredits=60)}
    again.check()
    again.close()
    other = tmp_path / "other"
    other.write_text("not a database, and long enough to be looked at" * 100)
    with pytest.raises((InputError, UnavailableError)):
        Ledger(other)
    with pytest.raises(UnavailableError):
        Ledger(tmp_path / "missing" / "ledger")


def test_books_that_were_changed_by_hand_are_noticed(tmp_path: Path) -> None:
    """Counting again finds a balance that was raised, and an entry that makes credits."""
    for statement in (
        "UPDATE balances SET millicredits = 1000 WHERE account = 'ann'",
        "UPDATE postings SET millicredits = 1000 WHERE account = 'ann'",
        "UPDATE holds SET millicredits = 1000",
    ):
        ledger = Ledger(None)
        ledger.grant("ann", 100, request_id="a", note="", at=1)
        ledger.hold("job/1", "ann", 60, 2)
        ledger.check()
        ledger._connection.execute(statement)
        with pytest.raises(ConflictError, match="does not balance"):
            ledger.check()

"""The double-entry ledger of one site, in one SQLite file.

Every movement is an entry of postings whose sum is nothing: credits come from ``GRANTED``, wait in
``HELD`` for what they are to pay for, and end in ``EARNED`` or with their account again. Amounts
are whole millicredits. No entry is changed or deleted, a mistake is put right by another entry.

A *hold* is known by its reference (``job/17``, ``reservation/here.4``), which pays once: it is
opened, perhaps resized, and closed by one charge of at most what is held; the rest goes back in the
same entry. Each verb may be said again and then changes nothing, so whoever keeps the promises may
settle anew after a crash. An account never has less than nothing available: that is checked in the
transaction that would take it.

Not a bank: the credits of a site are good at that site. A budget over several sites is the
traveller's (``travel_agent``).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError, UnavailableError
from gridtravel.gridcore.timing.instants import Instant

APPLICATION_ID: Final = 0x4752_4C31
"""Marks the file as a grid ledger ("GRL1")."""
FORMAT_VERSION: Final = 1
AMOUNT_MAX: Final = 10**15
"""Most millicredits of one entry; sums of many stay within SQLite's 64 bits."""
NOTE_LENGTH_MAX: Final = 200

GRANTED: Final = ":granted"
HELD: Final = ":held"
EARNED: Final = ":earned"
"""The site's own accounts; nobody else's begins with a colon."""

_SCHEMA: Final = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
    "CREATE TABLE entries (entry INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL,"
    " reference TEXT NOT NULL, note TEXT NOT NULL, request TEXT UNIQUE)",
    "CREATE INDEX entries_by_reference ON entries (reference)",
    "CREATE TABLE postings (account TEXT NOT NULL, entry INTEGER NOT NULL REFERENCES entries,"
    " millicredits INTEGER NOT NULL, PRIMARY KEY (account, entry)) WITHOUT ROWID",
    "CREATE TABLE balances (account TEXT PRIMARY KEY, millicredits INTEGER NOT NULL,"
    " CHECK (millicredits >= 0 OR account = ':granted')) WITHOUT ROWID",
    "CREATE TABLE holds (reference TEXT PRIMARY KEY, account TEXT NOT NULL,"
    " millicredits INTEGER NOT NULL CHECK (millicredits >= 0), charged INTEGER"
    " CHECK (charged BETWEEN 0 AND millicredits)) WITHOUT ROWID",
)


class EntryKind(StrEnum):
    """What moved credits."""

    GRANT = "grant"
    """The site gave some, or took some back."""
    HOLD = "hold"
    """They wait for what they are to pay for; also when a hold is resized."""
    CHARGE = "charge"
    """It was paid, and the rest of the hold went back."""
    RELEASE = "release"
    """All of the hold went back."""
    REFUND = "refund"
    """What had been paid went back, or a part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Credits of an account that wait for what they are to pay for, or have paid for it."""

    reference: str
    account: str
    millicredits: int
    charged: int | None = None
    """What was paid in the end, less what was refunded; ``None``: it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """An account has not enough for a hold; nothing was changed."""

    account: str
    wanted: int
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLine:
    """One entry as an account sees it."""

    entry: int
    at: Instant
    kind: EntryKind
    reference: str
    note: str
    millicredits: int
    """What it added to the account; negative: what it took."""
    available: int
    """What the account had afterwards, without what is held."""


class Ledger:
    """One open ledger; its file belongs to one process."""

    def __init__(self, path: Path | None) -> None:
        """``path``: made when it is missing; ``None``: in memory, as long as this object lives.
        ``InputError`` for a file that is no ledger, ``UnavailableError`` when it cannot be opened.
        """
        self._path = path
        try:
            if path is not None:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(
                ":memory:" if path is None else path, isolation_level=None, cached_statements=64
            )
            self._open()
        except (OSError, sqlite3.Error) as fault:
            raise self._fault(fault) from fault

    def close(self) -> None:
        """What was written stays."""
        self._connection.close()

    # -- credits of accounts -----------------------------------------------------------------------

    def grant(
        self, account: str, millicredits: int, *, request_id: str, note: str, at: Instant
    ) -> Shortfall | None:
        """Give an account credits; a negative number takes some back, of what is available.
        ``request_id`` makes it once: another grant under it is a ``ConflictError``.
        """
        _check_account(account)
        _check_amount(abs(millicredits))
        if not millicredits:
            raise InputError("a grant of nothing")
        reference = f"grant/{request_id}"
        with self._transaction():
            if self._was_said(reference, account, millicredits):
                return None
            short = self._shortfall(account, -millicredits)
            if short is None:
                moved = {GRANTED: -millicredits, account: millicredits}
                self._enter(EntryKind.GRANT, reference, note, at, moved, request=reference)
            return short

    def available(self, account: str) -> int:
        """What an account has, without what is held of it."""
        return self._balance(account)

    def held(self, account: str) -> int:
        """What is held of an account for open holds."""
        found = self._connection.execute(
            "SELECT COALESCE(SUM(millicredits), 0) FROM holds"
            " WHERE account = ? AND charged IS NULL",
            (account,),
        ).fetchone()
        return int(found[0])

    # -- holds -------------------------------------------------------------------------------------

    def hold(
        self, reference: str, account: str, millicredits: int, at: Instant
    ) -> Shortfall | None:
        """Hold so much for ``reference``, in all: said again with another amount it is resized.

        A reference that paid nothing may be held for again, by anybody: what it named was never
        written down by whoever promises, who then gives the name anew. ``ConflictError`` when it
        has paid, or an open hold is another account's.
        """
        _check_account(account)
        _check_amount(millicredits)
        with self._transaction():
            known = self._hold_of(reference)
            if known is not None and known.charged == 0:
                self._connection.execute("DELETE FROM holds WHERE reference = ?", (reference,))
                known = None
            if known is not None and (known.account != account or known.charged is not None):
                raise ConflictError(
                    f"{reference} has a hold of {known.account} already"
                    + (", which has paid" if known.charged is not None else ""),
                    hint="every promise has a reference of its own",
                )
            more = millicredits - (known.millicredits if known else 0)
            if known is not None and not more:
                return None
            short = self._shortfall(account, more)
            if short is not None:
                return short
            self._connection.execute(
                "INSERT INTO holds (reference, account, millicredits) VALUES (?, ?, ?)"
                " ON CONFLICT (reference) DO UPDATE SET millicredits = excluded.millicredits",
                (reference, account, millicredits),
            )
            if more:
                self._enter(EntryKind.HOLD, reference, "", at, {account: -more, HELD: more})
            return None

    def charge(self, reference: str, millicredits: int, at: Instant, note: str = "") -> None:
        """Close the hold: so much is paid, at most what is held, and the rest goes back.

        Said again with the same amount it changes nothing. ``NotFoundError`` without a hold;
        ``ConflictError`` for another amount than was charged, or more than is held.
        """
        _check_amount(millicredits)
        with self._transaction():
            known = self._hold_of(reference)
            if known is None:
                raise NotFoundError(f"nothing is held for {reference}", hint="hold before charging")
            if known.charged is not None:
                if self._first_charge(reference) != millicredits:
                    raise ConflictError(
                        f"{reference} has paid {known.charged} millicredits already",
                        hint="a hold pays once; refund what was too much",
                    )
                return
            if millicredits > known.millicredits:
                raise ConflictError(
                    f"{millicredits} millicredits are more than the {known.millicredits} held"
                    f" for {reference}",
                    hint="a price is agreed before, and held in full",
                )
            self._connection.execute(
                "UPDATE holds SET charged = ? WHERE reference = ?", (millicredits, reference)
            )
            back = known.millicredits - millicredits
            moved = {HELD: -known.millicredits, EARNED: millicredits, known.account: back}
            kind = EntryKind.CHARGE if millicredits else EntryKind.RELEASE
            self._enter(kind, reference, note, at, moved)

    def release(self, reference: str, at: Instant, note: str = "") -> None:
        """Close the hold without a charge. Nothing happens where nothing is held."""
        known = self._hold_of(reference)
        if known is not None and known.charged is None:
            self.charge(reference, 0, at, note)

    def refund(
        self, reference: str, millicredits: int, *, request_id: str, note: str, at: Instant
    ) -> None:
        """Give back so much of what ``reference`` paid, once for each ``request_id``.
        ``ConflictError`` for more than that.
        """
        _check_amount(millicredits)
        request = f"refund/{request_id}"
        with self._transaction():
            known = self._hold_of(reference)
            if known is not None and self._was_said(request, known.account, millicredits):
                return
            if known is None or known.charged is None or known.charged < millicredits:
                raise ConflictError(
                    f"{reference} has not paid {millicredits} millicredits",
                    hint="see the account's statement",
                )
            self._connection.execute(
                "UPDATE holds SET charged = charged - ? WHERE reference = ?",
                (millicredits, reference),
            )
            moved = {EARNED: -millicredits, known.account: millicredits}
            self._enter(EntryKind.REFUND, reference, note, at, moved, request=request)

    def hold_of(self, reference: str) -> Hold | None:
        """The hold behind a reference, open or closed."""
        return self._hold_of(reference)

    def open_holds(self) -> dict[str, Hold]:
        """All that waits to be settled, by reference."""
        rows = self._connection.execute(
            "SELECT reference, account, millicredits, charged FROM holds WHERE charged IS NULL"
        )
        return {row[0]: _hold(row) for row in rows}

    # -- reading -----------------------------------------------------------------------------------

    def accounts(self) -> dict[str, int]:
        """What each account has available, the site's own among them."""
        rows = self._connection.execute("SELECT account, millicredits FROM balances")
        return {account: int(millicredits) for account, millicredits in rows}

    def statement(
        self, account: str, *, since: Instant = 0, lines_max: int = 100
    ) -> list[StatementLine]:
        """The last entries of an account, oldest first."""
        rows = self._connection.execute(
            "SELECT entry, at, kind, reference, note, millicredits FROM postings JOIN entries"
            " USING (entry) WHERE account = ? AND at >= ? ORDER BY entry DESC LIMIT ?",
            (account, since, lines_max),
        ).fetchall()
        left = self._balance(account)
        lines: list[StatementLine] = []
        for entry, at, kind, reference, note, millicredits in rows:
            line = StatementLine(
                entry=entry,
                at=at,
                kind=EntryKind(kind),
                reference=reference,
                note=note,
                millicredits=millicredits,
                available=left,
            )
            lines.append(line)
            left -= millicredits
        return lines[::-1]

    def check(self) -> None:
        """Count everything again. ``ConflictError`` names the first thing that does not agree."""
        for question, told in (
            (
                "SELECT entry FROM postings GROUP BY entry HAVING SUM(millicredits) <> 0",
                "an entry makes or loses credits",
            ),
            (
                "SELECT entry FROM entries WHERE entry NOT IN (SELECT entry FROM postings)",
                "an entry moves nothing",
            ),
            (
                "SELECT account FROM (SELECT account, SUM(millicredits) AS posted FROM postings"
                " GROUP BY account) LEFT JOIN balances USING (account)"
                " WHERE posted IS NOT millicredits",
                "a balance is not the sum of its postings",
            ),
            (
                f"SELECT millicredits FROM balances WHERE account = '{HELD}' AND millicredits <>"
                " (SELECT COALESCE(SUM(millicredits), 0) FROM holds WHERE charged IS NULL)",
                "what is held is not the sum of the open holds",
            ),
            (
                f"SELECT millicredits FROM balances WHERE account = '{EARNED}' AND millicredits <>"
                " (SELECT COALESCE(SUM(charged), 0) FROM holds)",
                "what was earned is not the sum of the charges",
            ),
        ):
            found = self._connection.execute(question).fetchone()
            if found is not None:
                raise ConflictError(
                    f"the ledger does not balance: {told} ({found[0]})",
                    hint="put the ledger back from a copy, with the journal of the same moment",
                )

    # -- inside ------------------------------------------------------------------------------------

    def _open(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        execute("PRAGMA foreign_keys = ON")
        found = execute("PRAGMA application_id").fetchone()[0]
        version = execute("PRAGMA user_version").fetchone()[0]
        if (found, version) == (0, 0) and not execute("SELECT * FROM sqlite_master").fetchone():
            with self._transaction():
                for statement in _SCHEMA:
                    execute(statement)
                rows = [(GRANTED,), (HELD,), (EARNED,)]
                insert = "INSERT INTO balances VALUES (?, 0)"
                self._connection.executemany(insert, rows)
        elif (found, version) != (APPLICATION_ID, FORMAT_VERSION):
            raise InputError(
                f"{self._path} is no ledger that this release reads",
                hint="move it away to begin with empty accounts",
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """One entry, whole or not at all, on disk when it is left."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as fault:
            raise self._fault(fault) from fault

    def _enter(
        self,
        kind: EntryKind,
        reference: str,
        note: str,
        at: Instant,
        moved: Mapping[str, int],
        *,
        request: str | None = None,
    ) -> None:
        """One entry; nothing where nothing moves. An account that pays what was held of it all the
        same has a posting of 0, so that its statement tells it.
        """
        if not any(moved.values()):
            return
        entry = self._connection.execute(
            "INSERT INTO entries (at, kind, reference, note, request) VALUES (?, ?, ?, ?, ?)",
            (at, kind, reference, note[:NOTE_LENGTH_MAX], request),
        ).lastrowid
        for account, millicredits in moved.items():
            self._connection.execute(
                "INSERT INTO postings (account, entry, millicredits) VALUES (?, ?, ?)",
                (account, entry, millicredits),
            )
            self._connection.execute(
                "INSERT INTO balances VALUES (?, 0) ON CONFLICT DO NOTHING", (account,)
            )
            self._connection.execute(
                "UPDATE balances SET millicredits = millicredits + ? WHERE account = ?",
                (millicredits, account),
            )

    def _shortfall(self, account: str, wanted: int) -> Shortfall | None:
        available = self._balance(account)
        if wanted <= available:
            return None
        return Shortfall(account=account, wanted=wanted, available=available)

    def _balance(self, account: str) -> int:
        found = self._connection.execute(
            "SELECT millicredits FROM balances WHERE account = ?", (account,)
        ).fetchone()
        return 0 if found is None else int(found[0])

    def _hold_of(self, reference: str) -> Hold | None:
        row = self._connection.execute(
            "SELECT reference, account, millicredits, charged FROM holds WHERE reference = ?",
            (reference,),
        ).fetchone()
        return None if row is None else _hold(row)

    def _was_said(self, request: str, account: str, millicredits: int) -> bool:
        """True when an entry was made for this request; ``ConflictError`` when it was another."""
        row = self._connection.execute(
            "SELECT millicredits FROM entries LEFT JOIN postings ON entries.entry = postings.entry"
            " AND account = ? WHERE request = ?",
            (account, request),
        ).fetchone()
        if row is not None and row[0] != millicredits:
            raise ConflictError(
                f"{request!r} was used for another entry", hint="use a new id for each"
            )
        return row is not None

    def _first_charge(self, reference: str) -> int:
        """What a closed hold was charged when it was closed, whatever was refunded since."""
        row = self._connection.execute(
            "SELECT millicredits FROM postings JOIN entries USING (entry)"
            " WHERE reference = ? AND kind = ? AND account = ?",
            (reference, EntryKind.CHARGE, EARNED),
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _fault(self, fault: OSError | sqlite3.Error) -> UnavailableError:
        return UnavailableError(
            f"the ledger {self._path or 'in memory'} cannot be used: {fault}",
            hint="look at the disk and the file's owner",
        )


def _hold(row: tuple[str, str, int, int | None]) -> Hold:
    reference, account, millicredits, charged = row
    return Hold(reference=reference, account=account, millicredits=millicredits, charged=charged)


def _check_amount(millicredits: int) -> None:
    if not 0 <= millicredits <= AMOUNT_MAX:
        raise InputError(f"an amount is 0 to {AMOUNT_MAX} millicredits: {millicredits}")


def _check_account(account: str) -> None:
    if not account or account.startswith(":"):
        raise InputError(f"{account[:40]!r} is no account of a user")

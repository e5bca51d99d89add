"""``gurd check-ledger``: counts a site's accounts again, and makes nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from typer.testing import CliRunner

from gridtravel.gridio.ledger.ledger import Ledger
from gridtravel.gurd.cli import app


def checked(path: Path) -> tuple[int, str]:
    """Exit code and words of one check."""
    result = CliRunner().invoke(app, ["check-ledger", str(path)])
    return result.exit_code, result.output


def test_a_ledger_that_balances_and_one_that_a_hand_has_changed(tmp_path: Path) -> None:
    """Good is said with what there is, beside whoever has it open; a raised balance is found."""
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.grant("ann", 100, request_id="a", note="", at=1)
    ledger.hold("job/1", "ann", 60, 2)
    code, said = checked(path)
    assert (code, "1 accounts, 1 open holds" in said) == (0, True), said
    ledger.close()
    with contextlib.closing(sqlite3.connect(path)) as hand, hand:
        hand.execute("UPDATE balances SET millicredits = 1000 WHERE account = 'ann'")
    assert checked(path)[0] == 1


def test_what_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    """Missing, empty, or something else: refused, and as it was."""
    empty, other = tmp_path / "empty", tmp_path / "other"
    empty.write_bytes(b"")
    other.write_bytes(b"not a database " * 100)
    assert checked(tmp_path / "missing")[0] == 2
    assert checked(empty)[0] == 2
    assert checked(other)[0] in (2, 4)
    assert (empty.read_bytes(), other.read_bytes()) == (b"", b"not a database " * 100)

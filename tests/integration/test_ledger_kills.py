"""A ledger whose process is killed at any moment balances, and has all that was answered."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from gridtravel.gridio.ledger.ledger import Ledger

ROUNDS = 12
PROGRAM = """
import random, sys
from pathlib import Path
from gridtravel.gridio.ledger.ledger import Ledger
ledger, draw = Ledger(Path(sys.argv[1])), random.Random(int(sys.argv[2]))
for step in range(10**6):
    name, account = f"job/{sys.argv[2]}.{step}", draw.choice(("ann", "bob"))
    ledger.grant(account, 50, request_id=name, note="", at=step)
    if ledger.hold(name, account, draw.randrange(60), step) is None and draw.random() < 0.8:
        ledger.charge(name, ledger.hold_of(name).millicredits // 2, step)
    print(name, flush=True)
"""


def test_credits_are_neither_made_nor_lost_over_kills(tmp_path: Path) -> None:
    """Random verbs, ``kill -9`` after a random number of answers, and again on the same file."""
    path, draw = tmp_path / "ledger", random.Random(7)
    for number in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        answered = [child.stdout.readline().strip() for _ in range(draw.randrange(1, 40))]
        time.sleep(draw.random() * 0.01)
        os.kill(child.pid, signal.SIGKILL)
        answered += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.wait()
        child.stdout.close()
        ledger = Ledger(path)
        ledger.check()
        assert sum(ledger.accounts().values()) == 0
        told = {
            line.reference
            for account in ("ann", "bob")
            for line in ledger.statement(account, lines_max=10**6)
        }
        assert all(f"grant/{name}" in told for name in answered), "an answer was lost"
        ledger.close()

"""A real daemon that is started again with other prices keeps to those that it has quoted."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridio.ledger.ledger import Ledger
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.credentials import Credential
from tests.support.daemon_folders import DaemonFolder, a_daemon_folder

pytestmark = pytest.mark.integration
CLOCK = SystemClock()
PATIENCE_S = 120
OLD_PRICE, NEW_PRICE = 3_600_000, 36_000_000
"""Of a node and hour: a credit a second, and ten."""
GRANTED = 1_000_000
LENGTH_S = 3


@contextmanager
def serving(folder: DaemonFolder) -> Iterator[str]:
    """The daemon, and where it serves."""
    words = (sys.executable, "-m", "gridtravel.gurd.cli", "agent", "--exit-with-parent")
    with (
        (folder.root / "log").open("a") as log,
        subprocess.Popen(
            [*words, "--config", str(folder.config)], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready "), (folder.root / "log").read_text()
            yield line.split()[1]
        finally:
            process.terminate()
            process.wait(60)


@asynccontextmanager
async def asked_by(user: Credential, folder: DaemonFolder) -> AsyncIterator[GrpcSite]:
    """The daemon, and a user's way to it."""
    with serving(folder) as endpoint:
        site = GrpcSite(endpoint, user, site="lab", clock=CLOCK)
        try:
            yield site
        finally:
            await site.close()


def wish(name: str, start: int, *, window_s: int = LENGTH_S, quote: str = "") -> ReservationRequest:
    """One node, from exactly then on unless the window is longer."""
    return ReservationRequest(
        request_id=name,
        account="physics",
        nodes_min=1,
        nodes_max=1,
        duration_s=LENGTH_S,
        earliest_start=start,
        latest_end=start + window_s,
        quote=quote,
    )


def test_a_restart_with_higher_prices(tmp_path: Path) -> None:
    """Held and charged at the quoted price; at the new one without the quote; refused with an
    altered one.
    """
    folder = a_daemon_folder(tmp_path, "agent")
    ada = folder.authority.issue_user("ada", tmp_path / "ada", CLOCK.now())
    folder.say("[prices]", f"millicredits_per_node_hour = {OLD_PRICE}")
    folder.say("[ledger]", "enabled = true")

    async def scene() -> None:
        async with asked_by(ada, folder) as site:
            asked = wish("look", CLOCK.now() + 5, window_s=3_600)
            (found,) = await site.calendar.inquire([asked])
            assert isinstance(found, Availability)
            offer = found.offers[0]
            assert offer.unit_price_millicredits == LENGTH_S * 1_000
            assert offer.quote_expires_at is not None
        folder.say("[prices]", f"millicredits_per_node_hour = {NEW_PRICE}")
        ledger = Ledger(tmp_path / "state" / "ledger")
        ledger.grant("physics", GRANTED, request_id="first", note="", at=CLOCK.now())
        ledger.close()
        async with asked_by(ada, folder) as site:
            start = CLOCK.now() + 5
            forged = offer.quote.replace(".", ".e", 1)
            refused = await site.calendar.reserve(wish("forged", start, quote=forged), ttl_s=60)
            assert isinstance(refused, Decline)
            assert refused.rule is DeclineRule.QUOTE
            quoted = await site.calendar.reserve(wish("old", start, quote=offer.quote), ttl_s=60)
            assert isinstance(quoted, Reservation), quoted
            assert quoted.price_millicredits == LENGTH_S * 1_000
            plain = await site.calendar.reserve(wish("new", start), ttl_s=60)
            assert isinstance(plain, Reservation), plain
            assert plain.price_millicredits == 10 * LENGTH_S * 1_000
            assert isinstance(await site.calendar.commit(quoted.reservation_id), Reservation)
            await site.calendar.release(plain.reservation_id)
            await paid(quoted.reservation_id)
        ledger = Ledger(tmp_path / "state" / "ledger")
        ledger.check()
        assert ledger.accounts()["physics"] == GRANTED - LENGTH_S * 1_000
        ledger.close()

    async def paid(reservation_id: str) -> None:
        """Wait until it is over and settled."""
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            ledger = Ledger(tmp_path / "state" / "ledger")
            hold = ledger.hold_of(f"reservation/{reservation_id}")
            ledger.close()
            assert hold is not None
            if hold.charged is not None:
                return
            assert time.monotonic() < give_up_at, "it never paid"
            await asyncio.sleep(0.2)

    asyncio.run(scene())

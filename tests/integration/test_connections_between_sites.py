"""Real daemons connect to each other where their own cards say, and nowhere else, however a user
words it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from gridtravel.gridcore.booking.reservations import Acceptor, Reservation, TripRef
from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.cards import CertifiedCards
from gridtravel.gridio.trust.credentials import load_credential
from tests.support.builders import a_request
from tests.support.grid_world import GridWorld, until

pytestmark = pytest.mark.integration

CLOCK = SystemClock()
TTL_S = 2
"""The shortest life of a hold: doubt begins soon."""
DOUBT_S = 20
"""From a hold to its start, when the doubt ends."""
HOLDS = 4
CONNECTIONS_MAX = 30
"""In all that time, however many holds are in doubt: seven attempts at growing pauses, each with
the call's own connection and some to find out why it failed. A slow machine makes fewer.
"""


class Listener:
    """Somebody else's port: counts who comes, and says nothing that a site would."""

    def __init__(self) -> None:
        self.came: list[str] = []

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Note who comes, and hang up."""
        self.came.append(str(writer.get_extra_info("peername")))
        writer.close()


@asynccontextmanager
async def listening(port: int = 0) -> AsyncIterator[tuple[Listener, int]]:
    """At a port of loopback."""
    listener = Listener()
    server = await asyncio.start_server(listener.meet, "127.0.0.1", port)
    async with server:
        yield listener, server.sockets[0].getsockname()[1]


async def card_of(grid: GridWorld, site: str) -> str:
    """What a daemon tells of itself."""
    async with grid.laptop() as ada:
        return (await ada.connection(f"{site}-machine").calendar.describe()).card


async def hold(grid: GridWorld, site: str, name: str, start: int, *acceptors: Acceptor) -> object:
    """A hold at ``site`` for a leg of a trip that these sites keep."""
    trip = TripRef(
        trip_id=name,
        leg=site,
        participants=(site, *(each.site for each in acceptors)),
        acceptors=acceptors,
        ends_at=start + 60,
    )
    wish = replace(
        a_request(name, nodes=1, duration_s=60, start=start), account="default", trip=trip
    )
    async with grid.laptop() as ada:
        return await ada.connection(f"{site}-machine").calendar.reserve(wish, ttl_s=TTL_S)


async def test_a_daemon_tells_where_it_listens(grid: GridWorld) -> None:
    """Under its own certificate, verified as another site would."""
    cards = CertifiedCards(load_credential(grid.folder.site("beta") / "credential"))
    for site in ("alpha", "beta", "gamma"):
        assert cards.verify(await card_of(grid, site), site).endpoint == grid.endpoint(site)


async def test_nobody_is_sent_to_a_port_of_the_users_choice(grid: GridWorld) -> None:
    """The hold with 65 acceptors' addresses of the user's own: refused, and nobody comes."""
    start, _ = grid.window()
    other, good = await card_of(grid, "gamma"), await card_of(grid, "beta")
    async with listening() as (listener, port):
        where = f"127.0.0.1:{port}"
        for number, card in enumerate(("", other, good[:-6] + "AAAAAA")):
            named = Acceptor(site="beta", endpoint=where, card=card)
            with pytest.raises(InputError, match="alpha does not ask beta"):
                await hold(grid, "alpha", f"unproven-{number}", start, named)
        named = Acceptor(site="beta", endpoint=where, card=good)
        held = await hold(grid, "alpha", "proven", start, named)
        assert isinstance(held, Reservation), held
        # Its doubt ends as beta settles it, which is asked where it says that it is.
        await asyncio.to_thread(until, lambda: is_over(grid, held), "the end of the doubt")
        assert listener.came == []


async def test_a_site_that_is_gone_is_tried_after_growing_pauses(grid: GridWorld) -> None:
    """Beta is down, and something else listens at its port. Many holds are in doubt until their
    start: alpha tries beta for all of them together, and waits longer each time.
    """
    card = await card_of(grid, "beta")
    port = int(grid.endpoint("beta").rpartition(":")[2])
    grid.kill("beta")
    try:
        async with listening(port) as (listener, _):
            start = CLOCK.now() + DOUBT_S
            named = Acceptor(site="beta", endpoint=grid.endpoint("beta"), card=card)
            held = [await hold(grid, "alpha", f"gone-{n}", start, named) for n in range(HOLDS)]
            for each in held:
                assert isinstance(each, Reservation), each
                await asyncio.to_thread(until, partial(is_over, grid, each), "the start")
            assert 0 < len(listener.came) <= CONNECTIONS_MAX
    finally:
        grid.mend()


def is_over(grid: GridWorld, held: Reservation) -> bool:
    """What alpha's journal says of a hold."""
    return not grid.calendar("alpha").get(held.reservation_id).state.is_live

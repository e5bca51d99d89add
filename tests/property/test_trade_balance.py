"""The balance of trade over a whole tree, whatever is booked, given up, lost and restarted."""

from __future__ import annotations

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.simulator.kernel.virtual_loop import VirtualLoop, run_virtual
from gridtravel.simulator.tree.study import TRAVELLER, negotiate
from gridtravel.simulator.tree.wire import TreeConditions
from gridtravel.simulator.tree.world import TreeShape, TreeWorld
from tests.support.builders import a_request

SHAPE = TreeShape(agents_by_region=(1, 2, 1), nodes=4, patience_s=60)

wishes = st.lists(
    st.tuples(
        st.integers(0, 3),  # where it is asked: the top, or a region
        st.integers(1, 12),  # nodes
        st.integers(10, 200),  # seconds
        st.integers(0, 400),  # starts so much later than it could
        st.booleans(),  # given up before its start
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=8, phases=[Phase.explicit, Phase.generate])
@given(wishes=wishes, seed=st.integers(0, 1000), restarts=st.booleans())
def test_trade_is_conserved(
    wishes: list[tuple[int, int, int, int, bool]], seed: int, restarts: bool
) -> None:
    """At each manager, and so over the tree, the accounts sum to zero to the last second; what a
    parent says of a child is what the child says of its parent, the other way round; and all that
    was used is in the accounts once.
    """

    async def play(loop: VirtualLoop) -> None:
        world = TreeWorld(loop, SHAPE, seed=seed, conditions=TreeConditions(loss=0.1, doubles=0.1))
        await world.start()
        kept: list[Reservation] = []
        for number, (where, nodes, seconds, later_s, is_given_up) in enumerate(wishes):
            host = world.managers[where]
            start = world.clock.now() + 300 + later_s
            wish = a_request(f"w{number}", nodes=nodes, duration_s=seconds, start=start)
            answer = await negotiate(world, host, wish)
            if not isinstance(answer, Reservation):
                continue
            if is_given_up:
                await host.living_port(TRAVELLER).release(answer.reservation_id)
            else:
                kept.append(answer)
        await world.quiet()
        assert world.breaches() == []
        if restarts:
            await world.top.die()
            world.top.begin()
        last = max((each.end for each in kept), default=world.clock.now())
        await world.passes(last - world.clock.now() + 10)
        _assert_conserved(world, kept)
        await world.close()

    run_virtual(play)


def _assert_conserved(world: TreeWorld, kept: list[Reservation]) -> None:
    books = {each.name: each.live.book.trade.book for each in world.managers}
    for book in books.values():
        book.validate()
        assert sum(each.balance for each in book.accounts.values()) == 0
    for region in world.regions:
        above, below = books["top"].accounts, books[region.name].accounts
        of_region = above[region.name].balance if region.name in above else 0
        of_top = below["top"].balance if "top" in below else 0
        assert of_region == -of_top, region.name
    used = dict.fromkeys(world.sites, 0)
    for reservation in kept:
        for part in reservation.parts:
            used[part.site] += part.nodes * (reservation.end - reservation.start)
    for region in world.regions:
        for site in region.below:
            account = books[region.name].accounts.get(site.name)
            assert (0 if account is None else account.used) == used[site.name], site.name

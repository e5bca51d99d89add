"""How the nodes of a trip are divided among its machines, and how a division changes when the first
one does not work out.

The paper fills the least loaded machine first, and gives "more nodes to the more heavily loaded
clusters" when that is not possible in the window (GUR paper, section 4). Pure functions over
shares in the order in which they are filled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gridcore.planning import SiteShare


def fill(shares: Sequence[SiteShare], nodes_total: int) -> dict[str, int] | None:
    """Minimums everywhere, then as much as possible to each in order; ``None``: minimums and
    maximums do not allow the total.
    """
    sizes = {share.name: share.nodes_min for share in shares}
    left = nodes_total - sum(sizes.values())
    for share in shares:
        more = min(max(left, 0), share.nodes_max - share.nodes_min)
        sizes[share.name] += more
        left -= more
    return sizes if left == 0 else None


def shifted(
    shares: Sequence[SiteShare], sizes: Mapping[str, int], step: int
) -> dict[str, int] | None:
    """The same total with up to ``step`` nodes moved from the first share that can give some to
    those behind it; ``None``: minimums and maximums bind.

    Nodes only move towards the end, so a chain of these comes to an end: everything as far behind
    as it goes.
    """
    for position, giver in enumerate(shares):
        spare = sizes[giver.name] - giver.nodes_min
        takers = shares[position + 1 :]
        room = sum(share.nodes_max - sizes[share.name] for share in takers)
        moving = left = min(step, spare, room)
        if not moving:
            continue
        changed = dict(sizes)
        changed[giver.name] -= moving
        for share in takers:
            more = min(left, share.nodes_max - sizes[share.name])
            changed[share.name] += more
            left -= more
        return changed
    return None


def shifting_step(shares: Sequence[SiteShare], nodes_total: int, distributions_max: int) -> int:
    """How many nodes to move at once, so that a chain of ``shifted`` has about
    ``distributions_max`` links at most.
    """
    free = nodes_total - sum(share.nodes_min for share in shares)
    moves = free * max(0, len(shares) - 1)
    return max(1, -(-moves // max(1, distributions_max)))

"""A folder at a site to put files into."""

from __future__ import annotations

from dataclasses import replace

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridio.sites.connections import SiteConnection
from tests.support.builders import a_request
from tests.support.grid_world import GridWorld


async def an_area(connection: SiteConnection, grid: GridWorld) -> str:
    """Reserve a node far ahead, for the sake of its folder."""
    start, _ = grid.window()
    request = a_request(f"area-{start}", start=start, nodes=1)
    kept = await connection.site.set_reservation(
        replace(request, account="default"), is_dry_run=False
    )
    assert isinstance(kept, Reservation), kept
    return kept.reservation_id

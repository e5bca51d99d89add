"""Prologue and epilogue of reservations: commands of the site's configuration, run as the daemon.

They are told of the reservation in their environment, have 30 seconds (the original's resproepi),
and never hold anything up: the reservation begins and ends whatever becomes of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gridtravel.agents.maintenance_rules import MaintenanceRules
from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.errors import GridError
from gridtravel.gridio.system.commands import run_site_command
from gridtravel.local_sched.reservations.standing import REQUEST_PREFIX
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER

if TYPE_CHECKING:
    from gridtravel.gridio.journal.contract import Ticket


class ReservationHooks:
    """The hooks that are running. Belongs to an agent's event loop."""

    def __init__(
        self,
        site: str,
        rules: MaintenanceRules,
        failed: Callable[[Reservation, str, GridError], None],
    ) -> None:
        self._site = site
        self._rules = rules
        self._failed = failed
        self._running: dict[str, asyncio.Task[None]] = {}
        """Reservation -> the last hook that was begun for it."""

    def run_soon(
        self,
        kept: Reservation,
        ticket: Ticket,
        *,
        is_epilogue: bool,
        node_names: Sequence[str] = (),
    ) -> None:
        """Run a hook when its beginning is durable; an epilogue waits for its prologue.
        ``node_names``: where the reservation is of named nodes.
        """
        argv = self._rules.epilogue if is_epilogue else self._rules.prologue
        if not argv:
            return
        key = kept.reservation_id
        before = self._running.get(key)
        what = "epilogue" if is_epilogue else "prologue"
        facts = {
            "GRID_HOOK": what,
            "GRID_NODE_NAMES": " ".join(node_names),
            **facts_of(kept),
        }
        task = asyncio.get_running_loop().create_task(
            self._run(kept, argv, what, facts, ticket, before),
            name=f"hook of {key}",
        )
        self._running[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))

    async def drained(self) -> None:
        """Return when no hook runs."""
        while self._running:
            await asyncio.gather(*self._running.values())

    async def close(self) -> None:
        """End the hooks that run."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(
        self,
        kept: Reservation,
        argv: tuple[str, ...],
        what: str,
        facts: Mapping[str, str],
        ticket: Ticket,
        before: asyncio.Task[None] | None,
    ) -> None:
        try:
            await ticket.durable()
            if before is not None:
                await asyncio.gather(before, return_exceptions=True)
            await run_site_command(argv, facts, limit_s=self._rules.hook_limit_s)
        except GridError as fault:
            self._failed(kept, what, fault)

    def _forget(self, key: str, done: asyncio.Task[None]) -> None:
        if self._running.get(key) is done:
            del self._running[key]


def facts_of(kept: Reservation) -> dict[str, str]:
    """A reservation as its hooks are told of it: creator, purpose, amount and duration."""
    return {
        "GRID_SITE": kept.site,
        "GRID_RESERVATION_ID": kept.reservation_id,
        "GRID_OWNER": kept.owner,
        "GRID_ACCOUNT": kept.request.account,
        "GRID_PURPOSE": purpose_of(kept),
        "GRID_NODES": str(kept.nodes),
        "GRID_CLASS": kept.resource_class,
        "GRID_START": str(kept.start),
        "GRID_END": str(kept.end),
        "GRID_DURATION_S": str(kept.interval.duration_s),
        "GRID_STATE": kept.state.value,
        "GRID_TRIP": "" if kept.request.trip is None else kept.request.trip.trip_id,
    }


def purpose_of(kept: Reservation) -> str:
    """``standing``, ``system``, ``trip`` or ``user``."""
    if kept.owner == SYSTEM_OWNER:
        is_standing = kept.request.request_id.startswith(REQUEST_PREFIX)
        return "standing" if is_standing else "system"
    return "user" if kept.request.trip is None else "trip"

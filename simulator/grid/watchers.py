"""Somebody who subscribes to a site's calendar and keeps a shadow of it, as a manager does."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.summaries import CalendarSummary, ShadowCalendar
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.simulator.kernel.network_wire import SimulatedConnection
from gridtravel.simulator.kernel.processes import SimulatedProcess
from gridtravel.simulator.kernel.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from gridtravel.simulator.grid.simulated_site import SimulatedSite
    from gridtravel.simulator.grid.world_frame import WorldFrame

SUBSCRIBE_AGAIN_S: Final = 2.0
STILL_S: Final = 5.0
"""News are not older than this when they come."""


class Watcher:
    """Watches one site through everything that happens to it."""

    def __init__(self, site: SimulatedSite, frame: WorldFrame) -> None:
        self.name = f"w-{site.name}"
        self.site = site
        self.shadow = ShadowCalendar(site.name)
        self.agreed_at: float | None = None
        """When the shadow was last found equal to its owner's calendar."""
        self._frame = frame
        self._clock = VirtualClock(frame.loop)
        self._life: SimulatedProcess | None = None

    def start(self) -> None:
        """Begin to watch; it never dies."""
        self._life = SimulatedProcess(self.name, on_death=lambda: None)
        self._life.start(self._watch(self._life), "watch")

    async def _watch(self, life: SimulatedProcess) -> None:
        caller = Caller(subject=f"/CN={self.name}", login=self.name)
        connection = SimulatedConnection(
            self._frame.network, life, self._clock, self.site.name, caller
        )
        while True:
            try:
                async with aclosing(connection.calendar.subscribe()) as news:  # type: ignore[type-var]
                    async for each in news:
                        if isinstance(each, CalendarSummary):
                            self.shadow.replace(each)
                        elif not self.shadow.update(each):
                            break
                        self._compare()
            except UnavailableError as fault:
                self._frame.event_log.tell(self.name, "lost its subscription: {}", fault)
            except GridError as fault:
                told = f"{self.name} was told {type(fault).__name__}: {fault}"
                self._frame.event_log.broken("no defects", told, self.name)
            await self._clock.sleep_until(self._clock.now_precise() + SUBSCRIBE_AGAIN_S)

    def _compare(self) -> None:
        """A shadow of the same version as its owner must be its owner's summary. What the queue
        books moves the room without a new version, so only a site that had no waiting or running
        jobs when the summary was made can be compared.
        """
        agent, summary = self.site.agent, self.shadow.summary
        if agent is None or summary is None or summary.version != agent.calendar.version:
            return
        still_s = self._frame.loop.time() - self.site.ledger.jobs_moved_at_s
        is_moving = (
            agent.scheduler.waiting
            or agent.scheduler.running
            or still_s < STILL_S
            or not self.site.is_written
        )
        origin = max(profile.origin for profile in agent.calendar.free.values())
        if is_moving or origin > summary.as_of:
            return
        own = summarise(
            agent.calendar,
            agent.parts.ladder,
            summary.as_of,
            horizon_s=agent.parts.published_horizon_s,
        )
        if own != summary:
            self._frame.event_log.broken(
                "shadows converge", f"{self.name} sees {summary}, its owner {own}", self.name
            )
        self.agreed_at = self._frame.loop.time()

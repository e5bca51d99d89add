"""A small but real site in memory: the services under test of everything that carries them.

Bookings go through ``gridcore.booking.calendars.Calendar`` by decide and apply; jobs are a table
that the test moves on by hand; files lie in a temporary folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Acceptor, Reservation
from gridtravel.gridcore.booking.summaries import CalendarSummary, ClassSummary, SummarySlot
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridcore.ports import (
    CalendarPort,
    SitePort,
)
from gridtravel.gridcore.trips.registers import TripRegisters
from gridtravel.gridcore.trips.trip_consensus import AcceptorState
from gridtravel.gridio.journal.contract import Ticket
from gridtravel.gridio.sites.trip_keeping import Proposers, TripAcceptor
from gridtravel.gridio.sites.trip_voting import Votes
from gridtravel.gridio.system.clock import Clock
from tests.support.builders import a_calendar
from tests.support.cards import card_of
from tests.support.fake_calendar_port import FakeCalendarPort
from tests.support.fake_site_port import FakeSitePort


class WrittenTicket:
    """Of what is as safe as it will ever be."""

    sequence = 0

    async def durable(self) -> None:
        """At once."""


class FakeSite:
    """One site's services; ``SiteServices``."""

    def __init__(self, clock: Clock, folder: Path, *, name: str = "lab", nodes: int = 4) -> None:
        self.clock = clock
        self.folder = folder
        self.calendar: Calendar = a_calendar(nodes, site=name, origin=clock.now())
        self.jobs: dict[str, JobView] = {}
        self.output: dict[str, bytes] = {}
        self.bound: dict[str, tuple[str, ...]] = {}
        self.held_jobs: dict[str, HeldJob] = {}
        """By hold."""
        self.leg_jobs: dict[str, str] = {}
        """Reservation -> the job that its commit has queued."""
        self.subscribers = 0
        self.card = card_of(name)
        """Where others reach it; empty: nowhere."""
        """Streams that are open now."""
        self.registers = TripRegisters(name)
        self.beside: dict[str, FakeSite] = {}
        """Other sites that keep the outcomes of trips with this one."""
        self.acceptor = TripAcceptor(
            self.registers,
            clock,
            record=self._keep_vote,
            ports=self._acceptors,
            proposers=Proposers(name, "run"),
        )
        self.chunks_made = 0
        """Pieces of endless output that were asked for."""
        self.callers: list[Caller] = []
        self._changed = asyncio.Condition()

    def _keep_vote(self, state: AcceptorState | None) -> Ticket:
        if state is not None:
            self.registers.change(state)
        return WrittenTicket()

    def _acceptors(self, acceptors: Sequence[Acceptor]) -> dict[str, Votes]:
        name = self.calendar.site
        itself = Caller(subject=f"site:{name}", role=Role.SITE, site=name)
        sites = {name: self, **self.beside}
        return {each.site: sites[each.site].calendar_port(itself) for each in acceptors}

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """The calendar as ``caller`` may use it."""
        self.callers.append(caller)
        return FakeCalendarPort(self, caller)

    def site_port(self, caller: Caller) -> SitePort:
        """The site as ``caller`` may use it."""
        self.callers.append(caller)
        return FakeSitePort(self, caller)

    async def carry_out(self, events: Iterable[CalendarEvent]) -> None:
        """Apply what was decided and tell the subscribers."""
        for event in events:
            self.calendar.apply(event)
        await self.tell()

    def queue(self, spec: JobSpec, owner: str) -> JobView:
        """A job waits; the same request again is the same job."""
        for known in self.jobs.values():
            if known.spec.request_id == spec.request_id:
                return known
        view = JobView(
            job_id=f"job.{len(self.jobs) + 1}",
            site=self.calendar.site,
            owner=owner,
            spec=spec,
            state=JobState.QUEUED,
            submitted_at=self.clock.now(),
            reason="waits for nodes",
        )
        self.jobs[view.job_id] = view
        return view

    def bind_held_job(self, hold_id: str, leg: Reservation, contacts: dict[str, str]) -> None:
        """What came with a hold waits for its leg from now on, once; in place of what waited for
        the leg before it was changed.
        """
        held = self.held_jobs.pop(hold_id, None)
        if held is None:
            return
        spec = held.bound(leg.reservation_id, contacts)
        known = self.leg_jobs.get(leg.reservation_id)
        if known is not None and self.jobs[known].state is JobState.QUEUED:
            self.jobs[known] = replace(self.jobs[known], spec=spec)
        else:
            self.leg_jobs[leg.reservation_id] = self.queue(spec, leg.owner).job_id

    def with_job(self, entry: Reservation) -> Reservation:
        """As its owner is shown it."""
        return replace(entry, job_id=self.leg_jobs.get(entry.reservation_id, ""))

    async def tell(self) -> None:
        """Wake whoever waits for a change."""
        async with self._changed:
            self._changed.notify_all()

    async def changed(self, is_new: Callable[[], bool]) -> None:
        """Wait until ``is_new``."""
        async with self._changed:
            await self._changed.wait_for(is_new)

    async def move_job(
        self, job_id: str, state: JobState, output: bytes = b"", *, reason: str = ""
    ) -> None:
        """What a resource manager would do."""
        now = self.clock.now()
        view = replace(self.jobs[job_id], state=state)
        if state is JobState.RUNNING:
            precise = self.clock.now_precise()
            view = replace(view, started_at=now, started_precise=precise, node_names=("n1",))
        if state.is_over:
            view = replace(view, ended_at=now, exit_code=0, reason=reason)
        self.jobs[job_id] = view
        self.output[job_id] = self.output.get(job_id, b"") + output
        await self.tell()

    def summary(self) -> CalendarSummary:
        """All of the calendar, to the second."""
        now = self.clock.now()
        classes = []
        for name, profile in self.calendar.free.items():
            steps = [(max(at, now), free) for at, free in profile.steps()]
            ends = [at for at, _ in steps[1:]]
            slots = tuple(
                SummarySlot(at, end, free, free * (end - at))
                for (at, free), end in zip(steps, ends, strict=False)
                if end > at
            )
            nodes = self.calendar.classes[name].nodes
            classes.append(ClassSummary(name=name, capacity=nodes, slots=slots))
        return CalendarSummary(
            site=self.calendar.site,
            version=self.calendar.version,
            as_of=now,
            classes=tuple(classes),
        )

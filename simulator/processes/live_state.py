"""What a living daemon says of itself, and what its journal gives back: both must be the same."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.agents.journal.events import CODEC
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.gridcore.booking.calendar_events import (
    FinishedForgotten,
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.trust.credentials import load_credential
from gridtravel.simulator.processes.live_grid import USER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridtravel.gridcore.booking.reservations import Reservation
    from gridtravel.gridcore.jobs.job import JobView
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.simulator.kernel.event_log import EventLog
    from gridtravel.simulator.processes.live_grid import LiveGrid, LiveSite

REPLAYED: Final = "the journal replays to the live state"
CALENDAR_EVENTS: Final = (
    ReservationGranted
    | ReservationMoved
    | ReservationChanged
    | RequestTombstoned
    | FinishedForgotten
)


@dataclass(slots=True)
class SiteState:
    """Reservations and jobs as plain facts, by id."""

    reservations: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    jobs: dict[str, tuple[Any, ...]] = field(default_factory=dict)


async def ask_live(grid: LiveGrid, clock: Clock) -> dict[str, SiteState]:
    """What every daemon says, over the wire, to the user whose all of it is."""
    credential = load_credential(grid.folder.user(USER) / "credential")

    async def ask(site: LiveSite) -> SiteState:
        connection = GrpcSite(site.endpoint, credential, site=site.name, clock=clock)
        try:
            reservations = await connection.site.reservations(everybody=False)
            jobs = await connection.site.jobs()
        finally:
            await connection.close()
        return SiteState(
            {each.reservation_id: reservation_facts(each) for each in reservations},
            {each.job_id: job_facts(each) for each in jobs},
        )

    states = await asyncio.gather(*(ask(site) for site in grid.sites.values()))
    return dict(zip(grid.sites, states, strict=True))


def replayed(site: LiveSite) -> SiteState:
    """What the journal alone gives back."""
    config = load_site_config(site.config)
    calendar = Calendar(config.name, config.classes, rules=config.rules, tariff=config.tariff)
    table = JobTable(config.name)
    for record in site.records():
        event = CODEC.decode(record)
        if isinstance(event, CALENDAR_EVENTS):
            calendar.apply(event)
        else:
            table.apply(event)
    calendar.validate()
    table.validate()
    return SiteState(
        {key: reservation_facts(each) for key, each in calendar.reservations.items()},
        {key: job_facts(each) for key, each in table.views.items()},
    )


def compare(event_log: EventLog, site: LiveSite, live: SiteState) -> None:
    """The dead daemon's journal says what it said while it lived."""
    again = replayed(site)
    _compare(event_log, site.name, live.reservations, again.reservations)
    _compare(event_log, site.name, live.jobs, again.jobs)


def _compare(
    event_log: EventLog,
    site: str,
    live: Mapping[str, tuple[Any, ...]],
    again: Mapping[str, tuple[Any, ...]],
) -> None:
    for key in sorted({*live, *again}):
        if live.get(key) != again.get(key):
            text = f"{site}: {key} is {live.get(key)}, in the journal {again.get(key)}"
            event_log.broken(REPLAYED, text, site, key)


def reservation_facts(each: Reservation) -> tuple[Any, ...]:
    """What a reservation promises."""
    return (each.state, each.start, each.end, each.nodes, each.resource_class, each.contact)


def job_facts(each: JobView) -> tuple[Any, ...]:
    """What became of a job."""
    return (each.state, each.exit_code, each.started_precise, each.node_names)

"""The two services of the grid as Python sees them, the same over gRPC, through SSH and within one
process.

A port belongs to one caller, whose identity the carrier has proved; no method takes one. Refusals
come back as ``Decline``; faults are exceptions of ``gridcore.errors``. Every method may raise
``UnavailableError`` and ``NotAuthorisedError``. ``gridwire/v1`` is the same in Protocol Buffers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary, SummaryDelta
from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion

PART_SUFFIX: Final = ".part"
"""A file that is not complete yet has this ending; a transfer that was interrupted goes on with it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDescription:
    """One resource class of a site."""

    name: str
    nodes: int
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDescription:
    """What a site tells of itself to any caller."""

    site: str
    is_manager: bool
    classes: tuple[ClassDescription, ...]
    time_zone: str
    """IANA name."""
    time_precise: float
    """The site's clock when it answered, seconds since the epoch."""
    lead_s: int
    """A two-phase booking must start at least this long after it is asked for."""
    hold_ttl_max_s: int
    horizon_s: int
    millicredits_per_node_hour: int
    software: str
    login: str
    """What the caller is mapped to here; empty: nobody, only looking is allowed."""
    children: tuple[str, ...] = ()
    trade: tuple[TradeAccount, ...] = ()
    """A manager's balance of trade with each neighbour, for callers whom it knows."""
    card: str = field(default="", repr=False)
    """Where other sites reach it, under its signature (``gridio.trust.cards``); empty: nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A piece of a job's output; ``offset`` is the position of its first byte."""

    offset: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file in an area: its path within it, size, and SHA-256 as lower-case hex (empty when not
    asked for).
    """

    path: str
    size_bytes: int
    is_folder: bool = False
    mode: int = 0o644
    sha256: str = ""


class CalendarPort(Protocol):
    """What can be booked: a site, through its agent, or a manager over sites and other managers
    (design: one protocol).
    """

    async def describe(self) -> SiteDescription:
        """What the site is."""
        ...

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Look, without any effect; one answer a request, in order."""
        ...

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: HeldJob | None = None
    ) -> Reservation | Decline:
        """Phase one: a hold at the earliest start that fits, for ``ttl_s`` seconds or what the
        owner makes of it. ``job``: what runs in it; it is checked and kept with the hold, and goes
        when that goes.
        """
        ...

    async def commit(
        self, reservation_id: str, *, manifest: Manifest = NO_CONTACTS
    ) -> Reservation | Decline:
        """Phase two: after the answer it survives crash and power loss, and the job that came with
        the hold is bound to it (``Reservation.job_id``). ``manifest``: where that job's companions
        can be reached; the first commit's counts.
        """
        ...

    async def release(self, reservation_id: str) -> None:
        """Undo a hold or cancel a reservation; succeeds also for an unknown or finished id."""
        ...

    async def release_request(self, request_id: str) -> None:
        """Undo whatever the caller's request booked or may yet book, when its answer was lost."""
        ...

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """New window or size in one step; the old stays unless the new is granted."""
        ...

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """One question to an acceptor of a trip's outcome; durable before it is answered."""
        ...

    def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """A full summary, then changes; after a gap or a new epoch a full summary again."""
        ...


class SitePort(Protocol):
    """For a site's own users, and for the legs of a trip."""

    async def set_reservation(
        self, request: ReservationRequest, *, is_dry_run: bool
    ) -> Reservation | Decline:
        """The site's user-settable reservation in one step (GUR and Catalina paper, section 3)."""
        ...

    async def reservations(self, *, everybody: bool) -> list[Reservation]:
        """The caller's reservations; ``everybody``: all that the caller may see."""
        ...

    async def bind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """Only these jobs (and those bound before) may use the reservation."""
        ...

    async def unbind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """Undo ``bind``; the last one gives the reservation back to its owner."""
        ...

    async def bind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """The job may run only inside the union of these reservations."""
        ...

    async def unbind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """Undo ``bind_job``."""
        ...

    async def submit(self, spec: JobSpec) -> JobView | Decline:
        """Queue a job. The same request id again gives the same job."""
        ...

    async def name_inputs(self, reservation_id: str, inputs: Sequence[InputFile]) -> JobView:
        """Say which files have come from the stage before, for the job that waits for the traveller
        to bring them (``JobSpec.relayed_from``); it starts only when they are there. Said twice it
        changes nothing. ``NotFoundError``: no job there waits for that.
        """
        ...

    async def cancel_job(self, job_id: str) -> JobView:
        """End a job, whatever it is doing; the view shows how it stands then."""
        ...

    async def jobs(self, *, job_ids: Sequence[str] = (), everybody: bool = False) -> list[JobView]:
        """The caller's jobs, or those named."""
        ...

    def watch_job(self, job_id: str) -> AsyncIterator[JobView]:
        """The job now, then at each change, until it is over."""
        ...

    def follow_output(self, job_id: str, stream: str, offset: int) -> AsyncIterator[OutputChunk]:
        """``stdout`` or ``stderr`` from ``offset`` on, until the job is over and all is read."""
        ...

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """One of the site's read-only questions (docs/queries.md); the answer is JSON-like."""
        ...

    async def order(self, name: str, arguments: Mapping[str, str]) -> object:
        """An administrator's order about the site itself, such as a node being down
        (docs/catalina.md); said twice it is carried out once. The answer is JSON-like.
        """
        ...

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """Files of an area (a reservation's or a job's folder) below ``path``, or the one at it."""
        ...

    def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """Content of a file from ``offset`` on."""
        ...

    async def put_file(
        self, area: str, path: str, chunks: AsyncIterator[OutputChunk], *, mode: int, sha256: str
    ) -> FileStatus:
        """Write a file; the first chunk's offset says where to go on. What has arrived of an
        interrupted upload is listed under the path and ``PART_SUFFIX``. A wrong checksum is refused
        and the file dropped.
        """
        ...


class SiteServices(Protocol):
    """A running service, before anybody has connected: it makes a port for each caller."""

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """The calendar as ``caller`` may use it."""
        ...

    def site_port(self, caller: Caller) -> SitePort:
        """The site as ``caller`` may use it."""
        ...

"""A small but real site in memory: the services under test of everything that carries them.

Bookings go through ``gridcore.calendars.Calendar`` by decide and apply; jobs are a table that the
test moves on by hand; files lie in a temporary folder.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gridcore.calendar_events import CalendarEvent
from gridcore.calendars import Calendar
from gridcore.callers import Caller
from gridcore.errors import (
    ConflictError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridcore.jobs import JobSpec, JobState, JobView
from gridcore.ports import (
    CalendarPort,
    ClassDescription,
    FileStatus,
    OutputChunk,
    SiteDescription,
    SitePort,
)
from gridcore.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridcore.summaries import (
    CalendarSummary,
    CalendarVersion,
    ClassSummary,
    SummaryDelta,
    SummarySlot,
    delta_between,
)
from gridcore.trip_consensus import AcceptorAnswer, AcceptorState, VoteQuestion, answer_vote
from gridio.clock import Clock
from tests.builders import a_calendar

ENDLESS_CHUNK_BYTES = 1 << 20
READ_BYTES = 4_096


class FakeSite:
    """One site's services; ``SiteServices``."""

    def __init__(self, clock: Clock, folder: Path, *, name: str = "lab", nodes: int = 4) -> None:
        self.clock = clock
        self.folder = folder
        self.calendar: Calendar = a_calendar(nodes, site=name, origin=clock.now())
        self.jobs: dict[str, JobView] = {}
        self.output: dict[str, bytes] = {}
        self.bound: dict[str, tuple[str, ...]] = {}
        self.subscribers = 0
        self.votes: dict[str, AcceptorState] = {}
        """Streams that are open now."""
        self.chunks_made = 0
        """Pieces of endless output that were asked for."""
        self.callers: list[Caller] = []
        self._changed = asyncio.Condition()

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

    async def tell(self) -> None:
        """Wake whoever waits for a change."""
        async with self._changed:
            self._changed.notify_all()

    async def changed(self, is_new: Callable[[], bool]) -> None:
        """Wait until ``is_new``."""
        async with self._changed:
            await self._changed.wait_for(is_new)

    async def move_job(self, job_id: str, state: JobState, output: bytes = b"") -> None:
        """What a resource manager would do."""
        now = self.clock.now()
        view = replace(self.jobs[job_id], state=state)
        if state is JobState.RUNNING:
            precise = self.clock.now_precise()
            view = replace(view, started_at=now, started_precise=precise, node_names=("n1",))
        if state.is_over:
            view = replace(view, ended_at=now, exit_code=0)
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


class FakeCalendarPort:
    """``CalendarPort`` of one caller."""

    def __init__(self, site: FakeSite, caller: Caller) -> None:
        self._site = site
        self._caller = caller

    async def describe(self) -> SiteDescription:
        """What the site is."""
        calendar = self._site.calendar
        return SiteDescription(
            site=calendar.site,
            is_manager=False,
            classes=tuple(
                ClassDescription(name=each.name, nodes=each.nodes, features=each.features)
                for each in calendar.classes.values()
            ),
            time_zone="Europe/London",
            time_precise=self._site.clock.now_precise(),
            lead_s=calendar.rules.lead_s,
            hold_ttl_max_s=calendar.rules.hold_ttl_max_s,
            horizon_s=calendar.rules.horizon_s,
            millicredits_per_node_hour=0,
            software="fake",
            login=self._caller.login,
        )

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Look."""
        now = self._site.clock.now()
        return [self._site.calendar.inquire(request, now) for request in requests]

    async def reserve(self, request: ReservationRequest, *, ttl_s: int) -> Reservation | Decline:
        """Hold. A refusal brings a fresh summary."""
        owner = self._owner(request)
        now = self._site.clock.now()
        answer, events = self._site.calendar.decide_reserve(request, owner, ttl_s, now)
        await self._site.carry_out(events)
        if isinstance(answer, Decline):
            return replace(answer, summary=self._site.summary())
        return answer

    async def commit(self, reservation_id: str) -> Reservation | Decline:
        """Promise."""
        now = self._site.clock.now()
        owner = self._caller.owner
        answer, events = self._site.calendar.decide_commit(reservation_id, owner, now)
        await self._site.carry_out(events)
        return answer

    async def release(self, reservation_id: str) -> None:
        """Undo."""
        now = self._site.clock.now()
        owner = self._caller.owner
        await self._site.carry_out(self._site.calendar.decide_release(reservation_id, owner, now))

    async def release_request(self, request_id: str) -> None:
        """Undo what may yet come."""
        now = self._site.clock.now()
        owner = self._caller.owner
        await self._site.carry_out(
            self._site.calendar.decide_release_request(request_id, owner, now)
        )

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """Change."""
        now = self._site.clock.now()
        owner = self._owner(request)
        answer, events = self._site.calendar.decide_amend(reservation_id, request, owner, now)
        await self._site.carry_out(events)
        return answer

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """An acceptor with nothing but a memory."""
        votes = self._site.votes
        votes[question.instance], answer = answer_vote(
            votes.get(question.instance), question, self._site.calendar.site
        )
        return answer

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """The newest state each time the reader is ready."""
        site = self._site
        site.subscribers += 1
        try:
            told = site.summary()
            yield told
            while True:
                version = told.version
                await site.changed(partial(self._has_moved_on, version))
                fresh = site.summary()
                delta = delta_between(told, fresh)
                told = fresh
                yield delta
        finally:
            site.subscribers -= 1

    def _has_moved_on(self, version: CalendarVersion) -> bool:
        return self._site.calendar.version != version

    def _owner(self, request: ReservationRequest) -> str:
        if not self._caller.login:
            raise NotAuthorisedError("you have no login here", hint="ask for one")
        if not self._caller.may_charge(request.account):
            raise NotAuthorisedError(f"you may not charge {request.account}")
        return self._caller.owner


class FakeSitePort:
    """``SitePort`` of one caller."""

    def __init__(self, site: FakeSite, caller: Caller) -> None:
        self._site = site
        self._caller = caller

    async def set_reservation(
        self, request: ReservationRequest, *, is_dry_run: bool
    ) -> Reservation | Decline:
        """In one step."""
        now = self._site.clock.now()
        owner = self._caller.owner
        answer, events = self._site.calendar.decide_reserve(request, owner, None, now)
        if not is_dry_run:
            await self._site.carry_out(events)
        return answer

    async def reservations(self, *, everybody: bool) -> list[Reservation]:
        """Live ones."""
        live = self._site.calendar.live()
        return [each for each in live if everybody or each.owner == self._caller.owner]

    async def bind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """Note it."""
        self._site.calendar.get(reservation_id, self._caller.owner)
        known = self._site.bound.get(reservation_id, ())
        self._site.bound[reservation_id] = (*known, *job_ids)

    async def unbind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """Forget it."""
        known = self._site.bound.get(reservation_id, ())
        self._site.bound[reservation_id] = tuple(each for each in known if each not in job_ids)

    async def bind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """Note it."""
        self._site.bound[job_id] = tuple(reservation_ids)

    async def unbind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """Forget it."""
        known = self._site.bound.get(job_id, ())
        self._site.bound[job_id] = tuple(each for each in known if each not in reservation_ids)

    async def submit(self, spec: JobSpec) -> JobView | Decline:
        """Queue; more nodes than there are is refused."""
        nodes = sum(each.nodes for each in self._site.calendar.classes.values())
        if spec.nodes > nodes:
            message = f"the site has {nodes} nodes"
            return Decline(rule=DeclineRule.TOO_LARGE, message=message, nodes_now=nodes)
        for known in self._site.jobs.values():
            if known.spec.request_id == spec.request_id:
                return known
        view = JobView(
            job_id=f"job.{len(self._site.jobs) + 1}",
            site=self._site.calendar.site,
            owner=self._caller.owner,
            spec=spec,
            state=JobState.QUEUED,
            submitted_at=self._site.clock.now(),
            reason="waits for nodes",
        )
        self._site.jobs[view.job_id] = view
        return view

    async def cancel_job(self, job_id: str) -> JobView:
        """End it."""
        await self._site.move_job(self._job(job_id).job_id, JobState.CANCELLED)
        return self._job(job_id)

    async def jobs(self, *, job_ids: Sequence[str] = (), everybody: bool = False) -> list[JobView]:
        """By id, or the caller's."""
        if job_ids:
            return [self._job(each) for each in job_ids]
        found = self._site.jobs.values()
        return [each for each in found if everybody or each.owner == self._caller.owner]

    async def watch_job(self, job_id: str) -> AsyncIterator[JobView]:
        """Each change."""
        view = self._job(job_id)
        yield view
        while not view.state.is_over:
            await self._site.changed(partial(self._has_changed, view))
            view = self._job(job_id)
            yield view

    async def follow_output(
        self, job_id: str, stream: str, offset: int
    ) -> AsyncIterator[OutputChunk]:
        """What the test put there; the output of the job ``endless`` never ends."""
        site = self._site
        while job_id == "endless":
            site.chunks_made += 1
            yield OutputChunk(offset=offset, content=bytes(ENDLESS_CHUNK_BYTES))
            offset += ENDLESS_CHUNK_BYTES
        self._job(job_id)
        while True:
            content = site.output.get(job_id, b"")[offset:] if stream == "stdout" else b""
            if content:
                yield OutputChunk(offset=offset, content=content)
                offset += len(content)
            elif site.jobs[job_id].state.is_over:
                return
            else:
                await site.changed(partial(self._has_more, job_id, offset))

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """Echo the arguments, wait for ever, or fail in each way there is."""
        faults: dict[str, Exception] = {
            "conflict": ConflictError("the book says otherwise", hint="look again"),
            "unavailable": UnavailableError("the children are out", hint="wait"),
            "input": InputError("no such question é\nsecond line", hint="ask another"),
            "missing": NotFoundError("nothing of that name"),
            "defect": ValueError("secret text"),
        }
        if name in faults:
            raise faults[name]
        if name == "for-ever":
            await asyncio.Event().wait()
        return {"name": name, "arguments": dict(arguments), "list": [1, None, 0.5, "é"]}

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """Below the area's folder."""
        root = self._site.folder / area
        return [
            self._status(root, each, with_checksum=with_checksums)
            for each in sorted((root / path).rglob("*"))
        ]

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """Whole, in two pieces at least when it is large."""
        file = self._site.folder / area / path
        if not file.is_file():
            raise NotFoundError(f"no file {path!r} in {area}")
        content = file.read_bytes()[offset:]
        for first in range(0, len(content), READ_BYTES * 1024):
            piece = content[first : first + READ_BYTES * 1024]
            yield OutputChunk(offset=offset + first, content=piece)

    async def put_file(
        self, area: str, path: str, chunks: AsyncIterator[OutputChunk], *, mode: int, sha256: str
    ) -> FileStatus:
        """Checked at the end."""
        root = self._site.folder / area
        root.mkdir(exist_ok=True)
        file = root / path
        content = bytearray(file.read_bytes() if file.exists() else b"")
        async for chunk in chunks:
            if chunk.offset > len(content):
                raise ConflictError(f"there are only {len(content)} bytes yet")
            content[chunk.offset :] = chunk.content
        if sha256 and hashlib.sha256(content).hexdigest() != sha256:
            raise InputError(f"the checksum of {path!r} is another", hint="send it again")
        file.write_bytes(content)
        file.chmod(mode)
        return self._status(root, file, with_checksum=True)

    def _has_changed(self, view: JobView) -> bool:
        return self._job(view.job_id) != view

    def _has_more(self, job_id: str, offset: int) -> bool:
        has_output = len(self._site.output.get(job_id, b"")) > offset
        return has_output or self._site.jobs[job_id].state.is_over

    def _status(self, root: Path, file: Path, *, with_checksum: bool) -> FileStatus:
        is_folder = file.is_dir()
        digest = "" if is_folder else hashlib.sha256(file.read_bytes()).hexdigest()
        return FileStatus(
            path=str(file.relative_to(root)),
            size_bytes=0 if is_folder else file.stat().st_size,
            is_folder=is_folder,
            mode=file.stat().st_mode & 0o777,
            sha256=digest if with_checksum else "",
        )

    def _job(self, job_id: str) -> JobView:
        view = self._site.jobs.get(job_id)
        if view is None:
            raise NotFoundError(f"no job {job_id!r}", hint="see the list")
        if view.owner != self._caller.owner:
            raise NotAuthorisedError(f"job {job_id} belongs to somebody else")
        return view

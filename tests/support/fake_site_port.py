"""The site port of the fake site, for one caller."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import (
    ConflictError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridcore.ports import (
    FileStatus,
    OutputChunk,
)

if TYPE_CHECKING:
    from tests.support.fake_services import FakeSite

ENDLESS_CHUNK_BYTES = 1 << 20
READ_BYTES = 4_096


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
        live = [self._site.with_job(each) for each in self._site.calendar.live()]
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
        return self._site.queue(spec, self._caller.owner)

    async def name_inputs(self, reservation_id: str, inputs: Sequence[InputFile]) -> JobView:
        """Note them."""
        view = self._job(self._site.leg_jobs.get(reservation_id, ""))
        spec = replace(view.spec, inputs=(*view.spec.inputs, *inputs), relayed_from="")
        self._site.jobs[view.job_id] = replace(view, spec=spec)
        return self._site.jobs[view.job_id]

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

    async def order(self, name: str, arguments: Mapping[str, str]) -> object:
        """Echo the order."""
        return {"order": name, "arguments": dict(arguments)}

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """Echo the arguments, wait for ever, or fail in each way there is."""
        faults: dict[str, Exception] = {
            "conflict": ConflictError("the book says otherwise", hint="look again"),
            "unavailable": UnavailableError("the children are out", hint="wait"),
            "input": InputError("no such question é\nsecond line", hint="ask another"),
            "missing": NotFoundError("nothing of that name", hint=""),
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
            raise NotFoundError(f"no file {path!r} in {area}", hint="")
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
                raise ConflictError(f"there are only {len(content)} bytes yet", hint="")
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
            raise NotAuthorisedError(f"job {job_id} belongs to somebody else", hint="")
        return view

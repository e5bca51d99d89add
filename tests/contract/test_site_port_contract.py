"""What the site port promises, over everything that carries it.

Nothing at all, the codec, mutual TLS on loopback, the local socket with its front door, and a real
SSH login that leads there. Callers cannot tell the difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationState
from gridtravel.gridcore.errors import (
    InputError,
    NotFoundError,
)
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.gridio.trust.credentials import Credential
from tests.support.builders import a_request
from tests.support.port_worlds import CARRIERS, NOW, World, a_world, held, some_credentials

WINDOW_CHUNKS_MAX = 64
"""Pieces of a megabyte that may lie in buffers and windows of both ends; 2 to 20 were seen."""


def a_spec(request_id: str = "submit-1", **others: Any) -> JobSpec:
    """One node for a minute."""
    chosen: dict[str, Any] = {
        "request_id": request_id,
        "name": "sum",
        "account": "physics",
        "nodes": 1,
        "limit_s": 60,
        "argv": ("/bin/sum", "a b", ""),
    }
    return JobSpec(**(chosen | others))


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> tuple[Credential, Credential]:
    """Of the site ``lab`` and of the user ``ada``."""
    return some_credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(params=CARRIERS)
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, credentials: tuple[Credential, Credential]
) -> AsyncIterator[World]:
    """The same site behind each carrier."""
    async with a_world(request, tmp_path, credentials) as made:
        yield made


async def test_user_settable_reservation(world: World) -> None:
    """A dry run says what would be granted and changes nothing; then it is granted in one step."""
    request = a_request("s1", earliest=NOW)
    would_be = await world.connection.site.set_reservation(request, is_dry_run=True)
    assert isinstance(would_be, Reservation)
    assert await world.connection.site.reservations(everybody=True) == []
    set_now = await world.connection.site.set_reservation(request, is_dry_run=False)
    assert set_now == would_be
    assert set_now.state is ReservationState.COMMITTED
    assert await world.connection.site.reservations(everybody=False) == [set_now]


async def test_bindings(world: World) -> None:
    """Jobs to a reservation and reservations to a job, and back."""
    site = world.connection.site
    hold = await held(world)
    await site.bind(hold.reservation_id, ["job.1", "job.2"])
    await site.unbind(hold.reservation_id, ["job.1"])
    assert world.site.bound[hold.reservation_id] == ("job.2",)
    await site.bind_job("job.1", [hold.reservation_id, "lab.7"])
    await site.unbind_job("job.1", [hold.reservation_id])
    assert world.site.bound["job.1"] == ("lab.7",)
    with pytest.raises(NotFoundError):
        await site.bind("lab.999", ["job.1"])


async def test_jobs(world: World) -> None:
    """A job is queued once, listed, and cancelled; one that can never run is refused by a value."""
    site = world.connection.site
    spec = a_spec(environment=(("A", "é\n"), ("B", "")), features=("gpu",))
    queued = await site.submit(spec)
    assert isinstance(queued, JobView)
    assert queued.spec == spec
    assert await site.submit(spec) == queued
    assert await site.jobs() == [queued]
    assert await site.jobs(job_ids=[queued.job_id]) == [queued]
    cancelled = await site.cancel_job(queued.job_id)
    assert (cancelled.state, cancelled.ended_at) == (JobState.CANCELLED, NOW)
    refused = await site.submit(a_spec("submit-2", nodes=5))
    assert isinstance(refused, Decline)
    assert refused.nodes_now == 4
    with pytest.raises(NotFoundError):
        await site.jobs(job_ids=["job.99"])


async def test_watch_and_follow(world: World) -> None:
    """A watcher sees each state until the job is over, a follower every byte from its offset on."""
    site = world.connection.site
    job = await site.submit(a_spec())
    assert isinstance(job, JobView)
    seen: list[JobView] = []

    async def watch() -> None:
        async for view in site.watch_job(job.job_id):
            seen.append(view)
            if view.state is JobState.QUEUED:
                await world.site.move_job(job.job_id, JobState.RUNNING, b"hello ")
            elif view.state is JobState.RUNNING:
                await world.site.move_job(job.job_id, JobState.COMPLETED, b"world")

    await watch()
    assert [view.state for view in seen] == [
        JobState.QUEUED,
        JobState.RUNNING,
        JobState.COMPLETED,
    ]
    assert seen[-1] == world.site.jobs[job.job_id]
    chunks = [chunk async for chunk in site.follow_output(job.job_id, "stdout", 2)]
    assert b"".join(chunk.content for chunk in chunks) == b"llo world"
    assert chunks[0].offset == 2
    assert [chunk async for chunk in site.follow_output(job.job_id, "stderr", 0)] == []


async def test_stalled_reader_stops_the_service(world: World) -> None:
    """Nothing piles up without end for a reader that does not read: once the transport's own
    window is full, the service is not asked for more, whatever else is going on.
    """
    async with aclosing(world.connection.site.follow_output("endless", "stdout", 0)) as chunks:  # type: ignore[type-var]
        await anext(chunks)
        made, rounds_without_more = 0, 0
        while rounds_without_more < 3:
            assert made < WINDOW_CHUNKS_MAX, "the service is asked for ever more"
            for _ in range(20):
                await world.connection.calendar.describe()
            rounds_without_more = rounds_without_more + 1 if made == world.site.chunks_made else 0
            made = world.site.chunks_made


async def test_query(world: World) -> None:
    """An answer that is JSON-like arrives as it was."""
    answer = await world.connection.site.query("echo", {"a": "1", "é": ""})
    assert answer == {
        "name": "echo",
        "arguments": {"a": "1", "é": ""},
        "list": [1, None, 0.5, "é"],
    }


async def _chunks(content: bytes, offset: int = 0) -> AsyncIterator[OutputChunk]:
    yield OutputChunk(offset=offset, content=content)


async def test_files(world: World) -> None:
    """A file larger than a message goes up and comes back, whole or from an offset on."""
    site = world.connection.site
    content = bytes(range(256)) * 20_000
    digest = hashlib.sha256(content).hexdigest()
    put = await site.put_file("trip-1", "in.dat", _chunks(content), mode=0o640, sha256=digest)
    assert (put.size_bytes, put.mode, put.sha256) == (len(content), 0o640, digest)
    assert await site.list_files("trip-1", "", with_checksums=True) == [put]
    plain = await site.list_files("trip-1", "", with_checksums=False)
    assert plain == [replace(put, sha256="")]
    pieces = [each async for each in site.get_file("trip-1", "in.dat", 100)]
    assert pieces[0].offset == 100
    assert b"".join(each.content for each in pieces) == content[100:]


async def test_upload_goes_on(world: World) -> None:
    """The first piece's offset says where to go on; a wrong checksum is refused."""
    site = world.connection.site
    await site.put_file("a", "f", _chunks(b"hello "), mode=0o600, sha256="")
    whole = hashlib.sha256(b"hello world").hexdigest()
    put = await site.put_file("a", "f", _chunks(b"world", 6), mode=0o600, sha256=whole)
    assert put.size_bytes == 11
    with pytest.raises(InputError, match="checksum"):
        await site.put_file("a", "g", _chunks(b"x"), mode=0o600, sha256="0" * 64)
    with pytest.raises(NotFoundError):
        [each async for each in site.get_file("a", "missing", 0)]


async def test_upload_whose_source_fails(world: World) -> None:
    """A source that breaks off breaks the call off, with its own exception, and half a file is
    never taken for the file.
    """

    async def broken() -> AsyncIterator[OutputChunk]:
        yield OutputChunk(offset=0, content=b"half")
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk is gone"):
        await world.connection.site.put_file("a", "f", broken(), mode=0o600, sha256="")
    await world.connection.calendar.describe()
    assert not (world.site.folder / "a" / "f").exists()

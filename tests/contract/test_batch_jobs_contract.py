"""What a site with only a batch system promises about jobs and files: see
``test_batch_site_contract``.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError, UnavailableError
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.ports import PART_SUFFIX, OutputChunk
from gridtravel.gridio.batch.far_areas import SMALL_BYTES
from gridtravel.gridio.batch.systems import reservation_name
from tests.support.batch_worlds import SITE, BatchWorld, a_spec, chunks, fake_world
from tests.support.fake_gridengine import FakeGridEngine


@pytest.fixture(params=["here", "ssh"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BatchWorld]:
    """The same batch system behind each way."""
    user = request.getfixturevalue("ssh_user") if request.param == "ssh" else None
    async with fake_world(tmp_path, user) as made:
        yield made


@pytest.fixture
def engine(world: BatchWorld) -> FakeGridEngine:
    """The batch system itself."""
    assert world.fake is not None
    return world.fake


async def test_job_from_queue_to_end(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A job is submitted once into its reservation; its words reach it as they are and no shell
    gives them a meaning; a watcher sees its states, a follower every byte from the offset on.
    """
    site = world.connection.site
    hold = await world.booked("r1")
    spec = a_spec(hold.reservation_id, environment=(("A", "é $(id)"), ("B", "")))
    queued = await site.submit(spec)
    assert isinstance(queued, JobView)
    assert (queued.state, queued.spec) == (JobState.QUEUED, spec)
    assert (await site.submit(spec)) == queued
    assert len(engine.state()["jobs"]) == 1
    states = []
    async with aclosing(site.watch_job(queued.job_id)) as views:  # type: ignore[type-var]
        async for view in views:
            states.append(view.state)
            engine.run_jobs()
    assert states == [JobState.QUEUED, JobState.COMPLETED]
    (view,) = await site.jobs(job_ids=[queued.job_id])
    assert (view.exit_code, view.node_names) == (0, ("c1", "c1"))
    pieces = [each async for each in site.follow_output(queued.job_id, "stdout", 2)]
    assert b"".join(each.content for each in pieces) == b"b $HOME `id` 'x'\n;\n"
    assert [each async for each in site.follow_output(queued.job_id, "stderr", 0)] == []
    assert await site.jobs() == [view]
    with pytest.raises(NotFoundError):
        await site.jobs(job_ids=[f"{SITE}.gurj.{'a' * 20}"])


async def test_job_knows_its_reservation(world: BatchWorld, engine: FakeGridEngine) -> None:
    """The variables of docs/leg-environment.md are there; what is staged lies in the working
    folder, and what is left there comes home. A user's own GRID_ names are refused.
    """
    site = world.connection.site
    hold = await world.booked("r1")
    await site.put_file(hold.reservation_id, "in/a b", chunks(b"far"), mode=0o644, sha256="")
    script = (
        "#!/bin/sh\n"
        'cat "in/a b" > out; printf "%s %s %s" "$GRID_NODES" "$GRID_NODELIST" "$GRID_SITE" >> out\n'
        'printf " %s %s" "$GRID_START" "$GRID_RESERVATION" >> out; exit 3\n'
    )
    liar = a_spec(hold.reservation_id, argv=("true",), environment=(("GRID_SITE", "liar"),))
    with pytest.raises(InputError, match="set by the site"):
        await site.submit(liar)
    job = await site.submit(a_spec(hold.reservation_id, argv=(), script=script))
    assert isinstance(job, JobView)
    engine.run_jobs()
    (view,) = await site.jobs(job_ids=[job.job_id])
    assert (view.state, view.exit_code) == (JobState.FAILED, 3)
    content = b"".join(
        [each.content async for each in site.get_file(hold.reservation_id, "out", 0)]
    )
    told = f"far2 c1,c1 {SITE} {hold.start} {hold.reservation_id}"
    assert content.decode() == told


async def test_job_is_never_run_twice(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A batch system that starts a job again, as some do when a node is lost, runs an empty
    wrapper.
    """
    hold = await world.booked("r1")
    job = await world.connection.site.submit(
        a_spec(hold.reservation_id, argv=("/bin/sh", "-c", "echo x >> runs"))
    )
    assert isinstance(job, JobView)
    again = engine.state()["jobs"]
    engine.run_jobs()
    engine.change(jobs=again)
    engine.run_jobs()
    read = world.connection.site.get_file(hold.reservation_id, "runs", 0)
    assert b"".join([each.content async for each in read]) == b"x\n"


async def test_cancelled_and_lost_jobs(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A job that is cancelled is gone from the batch system; one that was released with its
    reservation is over too; one that is too large is refused by a value.
    """
    site = world.connection.site
    hold = await world.held("r1")
    job = await site.submit(a_spec(hold.reservation_id))
    assert isinstance(job, JobView)
    assert (await site.cancel_job(job.job_id)).state is JobState.CANCELLED
    assert (await site.cancel_job(job.job_id)).state is JobState.CANCELLED
    assert engine.state()["jobs"] == []
    large = await site.submit(a_spec(hold.reservation_id, "job-2", nodes=3))
    assert isinstance(large, Decline)
    await world.connection.calendar.release(hold.reservation_id)
    late = await site.submit(a_spec(hold.reservation_id, "job-3"))
    assert isinstance(late, Decline)
    with pytest.raises(NotFoundError):
        await site.submit(a_spec(f"{SITE}.{reservation_name('none')}", "job-4"))


async def test_job_outside_of_reservations(world: BatchWorld, engine: FakeGridEngine) -> None:
    """Without a reservation a job waits in the batch system's own queue, in a folder of its own."""
    job = await world.connection.site.submit(a_spec(""))
    assert isinstance(job, JobView)
    engine.run_jobs()
    files = await world.connection.site.list_files(job.job_id, "", with_checksums=False)
    assert {each.path for each in files} == {f"{job.job_id}.stdout", f"{job.job_id}.stderr"}


async def test_files(world: BatchWorld) -> None:
    """A file of several messages goes up and comes back, whole or from an offset on."""
    site = world.connection.site
    area = (await world.held("r1")).reservation_id
    content = bytes(range(256)) * 12_000
    digest = hashlib.sha256(content).hexdigest()
    put = await site.put_file(area, "a/in.dat", chunks(content), mode=0o640, sha256=digest)
    assert (put.size_bytes, put.mode, put.sha256) == (len(content), 0o640, digest)
    listed = await site.list_files(area, "", with_checksums=True)
    assert [each.path for each in listed] == ["a", "a/in.dat"]
    assert (listed[1].sha256, listed[1].size_bytes) == (digest, len(content))
    pieces = [each async for each in site.get_file(area, "a/in.dat", 100)]
    assert pieces[0].offset == 100
    assert b"".join(each.content for each in pieces) == content[100:]
    with pytest.raises(NotFoundError):
        [each async for each in site.get_file(area, "missing", 0)]
    for path in ("../up", "/etc/passwd", ""):
        with pytest.raises(InputError):
            await site.put_file(area, path, chunks(b"x"), mode=0o600, sha256="")
    with pytest.raises(NotFoundError):
        await site.list_files("../../etc", "", with_checksums=False)


async def test_upload_goes_on(world: BatchWorld) -> None:
    """What arrived of an interrupted upload is listed as a part, and the rest follows on it; a
    damaged file is dropped.
    """
    site = world.connection.site
    area = (await world.held("r1")).reservation_id
    head = b"hello " * SMALL_BYTES

    async def broken() -> AsyncIterator[OutputChunk]:
        yield OutputChunk(offset=0, content=head)
        raise ValueError("the laptop's disk is gone")

    with pytest.raises(ValueError, match="disk"):
        await site.put_file(area, "f", broken(), mode=0o600, sha256="")
    (part,) = await site.list_files(area, "", with_checksums=False)
    assert (part.path, part.size_bytes) == ("f" + PART_SUFFIX, len(head))
    whole = hashlib.sha256(head + b"world").hexdigest()
    put = await site.put_file(area, "f", chunks(b"world", len(head)), mode=0o600, sha256=whole)
    assert put.size_bytes == len(head) + 5
    with pytest.raises(ConflictError, match="checksum"):
        await site.put_file(area, "g", chunks(b"x"), mode=0o600, sha256="0" * 64)
    assert [each.path for each in await site.list_files(area, "", with_checksums=False)] == ["f"]


async def test_small_files(world: BatchWorld) -> None:
    """What fits into one question arrives whole too, empty files and odd names among them; a folder
    is not replaced by a file.
    """
    site = world.connection.site
    area = (await world.held("r1")).reservation_id
    contents = {
        "empty": b"",
        "-n": b"\0\xff",
        "a/b/ c'd\"": b"x" * SMALL_BYTES,
        "a/new\nline": b"y",
    }
    for path, content in contents.items():
        put = await site.put_file(area, path, chunks(content), mode=0o604, sha256="")
        assert put.sha256 == hashlib.sha256(content).hexdigest()
    listed = await site.list_files(area, "", with_checksums=True)
    found = {each.path: (each.sha256, each.mode) for each in listed if not each.is_folder}
    assert found == {
        path: (hashlib.sha256(content).hexdigest(), 0o604) for path, content in contents.items()
    }
    with pytest.raises(UnavailableError, match="is a folder"):
        await site.put_file(area, "a", chunks(b"x"), mode=0o600, sha256="")

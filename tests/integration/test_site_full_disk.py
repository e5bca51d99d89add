"""A job that fills the disk of its site is ended and told why; the daemon goes on, with real
accounts and a small file system in memory.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from tests.support.gur_runner import PATIENCE_S
from tests.support.login_world import LoginSite, login_site

pytestmark = pytest.mark.integration

DISK_MIB = 64
MNT_DETACH = 2
FILLS = "trap '' TERM\nwhile :; do head -c 1000000 /dev/zero >> big 2>/dev/null; done\n"
"""As fast as it can, and it goes on when there is no room."""
LIMITS = """\
[limits]
area_mib = 200
[limits.logins.{grace}]
area_mib = 2
processes = 40
"""


@pytest.fixture
def site() -> Iterator[LoginSite]:
    """A site whose state lies on a disk of its own, serving."""
    library = ctypes.CDLL(None, use_errno=True)
    with login_site() as world:
        world.state.mkdir(mode=0o711)
        options = f"size={DISK_MIB}m,mode=0711".encode()
        if library.mount(b"none", os.fsencode(world.state), b"tmpfs", 0, options) != 0:
            pytest.skip("NOT TESTED: a disk that a job fills. It takes root and mounts")
        try:
            with world.config.open("a") as stream:
                stream.write(LIMITS.format(grace=world.accounts["grace"].pw_name))
            world.start()
            yield world
        finally:
            world.end()
            library.umount2(os.fsencode(world.state), MNT_DETACH)


def _spec(name: str, script: str) -> JobSpec:
    return JobSpec(
        request_id=name,
        name=name,
        account="default",
        nodes=1,
        limit_s=600,
        script=f"#!/bin/sh\n{script}",
    )


async def _submit(connection: GrpcSite, name: str, script: str) -> JobView:
    view = await connection.site.submit(_spec(name, script))
    assert isinstance(view, JobView), view
    return view


async def _end(connection: GrpcSite, job_id: str) -> JobView:
    async with asyncio.timeout(PATIENCE_S):
        return [each async for each in connection.site.watch_job(job_id)][-1]


async def _put(connection: GrpcSite, area: str, path: str, size: int) -> None:
    async def content() -> AsyncIterator[OutputChunk]:
        for offset in range(0, size, 1 << 18):
            yield OutputChunk(offset=offset, content=bytes(min(1 << 18, size - offset)))

    await connection.site.put_file(area, path, content(), mode=0o600, sha256="")


async def test_a_job_that_fills_the_disk_ends_alone(site: LoginSite) -> None:
    """Its owner is told why; the daemon goes on in the journal's own room and takes orders, refuses
    what would need the disk, and comes back on the full disk when it is killed. With room again
    jobs run.
    """
    assert site.daemon is not None
    ada, grace = site.connect("ada"), site.connect("grace")
    other = await _submit(grace, "other", "while ! test -e go; do sleep 0.1; done; echo went on\n")
    filler = await _submit(ada, "filler", FILLS)
    ended = await _end(ada, filler.job_id)
    assert ended.state is JobState.FAILED
    assert "stay free on the disk" in ended.reason, ended
    big = site.state / "areas" / filler.job_id / "big"
    # What the job left is less than the disk: the rest of it goes to nobody's benefit but ours.
    with pytest.raises(OSError, match="No space left"):
        _fill(big)
    assert _free(site.state) == 0

    assert site.daemon.poll() is None, site.log
    for number in range(40):
        refused = await _submit(grace, f"refused-{number}", "echo no\n")
        last = await _end(grace, refused.job_id)
        assert last.state is JobState.FAILED
        assert "is full" in last.reason, last
    with pytest.raises(UnavailableError, match="is full"):
        await _put(ada, filler.job_id, "more", 100)
    shown = await ada.site.list_files(filler.job_id, "", with_checksums=False)
    assert "big" in [each.path for each in shown]
    async with aclosing(ada.site.get_file(filler.job_id, "big", 0)) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            assert not any(chunk.content)
            break
    assert site.daemon.poll() is None, site.log
    await ada.close()
    await grace.close()

    site.end(signal.SIGKILL)
    site.start()
    ada, grace = site.connect("ada"), site.connect("grace")
    (view,) = await ada.site.jobs(job_ids=[filler.job_id])
    assert view.reason == ended.reason
    big.unlink()
    await _put(grace, other.job_id, "go", 1)
    assert (await _end(grace, other.job_id)).state is JobState.COMPLETED
    again = await _submit(grace, "again", "echo yes\n")
    assert (await _end(grace, again.job_id)).state is JobState.COMPLETED
    await ada.close()
    await grace.close()


async def test_limits_are_by_login(site: LoginSite) -> None:
    """Of files that are staged as of what jobs do; each says which it was."""
    ada, grace = site.connect("ada"), site.connect("grace")
    ready = "while ! test -e go; do sleep 0.1; done\n"
    areas = {}
    for user, connection in (("ada", ada), ("grace", grace)):
        areas[user] = (await _submit(connection, "ready", ready)).job_id
    await _put(ada, areas["ada"], "large", 4 << 20)
    with pytest.raises(InputError, match="of the 2 MiB"):
        await _put(grace, areas["grace"], "large", 4 << 20)
    forks = "for i in $(seq 100); do sleep 5 & done; wait\n"
    assert (
        await _end(ada, (await _submit(ada, "forks", forks)).job_id)
    ).state is JobState.COMPLETED
    ended = await _end(grace, (await _submit(grace, "forks", forks)).job_id)
    assert ended.state is JobState.FAILED
    assert "40 processes" in ended.reason
    for user, connection in (("ada", ada), ("grace", grace)):
        await connection.site.cancel_job(areas[user])
        await connection.close()


def _fill(path: Path) -> None:
    with path.open("ab", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))


def _free(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize

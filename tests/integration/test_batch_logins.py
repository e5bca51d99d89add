"""The login to a site that has only a batch system breaks; the next question makes it again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.gridio.batch.running import FAR_SHELL
from gridtravel.gridio.sites.connections import UnreachableError
from tests.support.batch_worlds import BatchWorld, chunks, fake_world
from tests.support.fake_gridengine import FakeGridEngine
from tests.support.sshd_world import Sshd, SshUser

pytestmark = pytest.mark.integration

PIECE_BYTES = 1_000_000
UPLOAD_BYTES = 12 * PIECE_BYTES
"""More than all buffers on the way hold."""
DEATH_AT = 6 * PIECE_BYTES


@pytest.fixture
async def world(ssh_user: SshUser, tmp_path: Path) -> AsyncIterator[BatchWorld]:
    """A fake Grid Engine behind a login that can be broken."""
    async with fake_world(tmp_path, ssh_user) as made:
        yield made


async def test_login_is_made_again(world: BatchWorld, ssh_user: SshUser) -> None:
    """Commands and files both find their way after the connection was killed; what was promised is
    still there.
    """
    hold = await world.held("r1")
    area, site = hold.reservation_id, world.connection.site
    await site.put_file(area, "f", chunks(b"x" * 100_000), mode=0o600, sha256="")
    ssh_user.sshd.kill_connections()
    assert [each.reservation_id for each in await site.reservations(everybody=False)] == [area]
    read = [each.content async for each in site.get_file(area, "f", 99_999)]
    assert b"".join(read) == b"x"


async def test_broken_in_the_middle_of_a_file(world: BatchWorld, ssh_user: SshUser) -> None:
    """An upload whose connection dies is a fault that is worth another try, and goes on where it
    was.
    """
    area, site = (await world.held("r1")).reservation_id, world.connection.site

    async def dying() -> AsyncIterator[OutputChunk]:
        for offset in range(0, UPLOAD_BYTES, PIECE_BYTES):
            if offset == DEATH_AT:
                ssh_user.sshd.kill_connections()
            yield OutputChunk(offset=offset, content=b"x" * PIECE_BYTES)

    with pytest.raises(UnavailableError):
        await site.put_file(area, "f", dying(), mode=0o600, sha256="")
    (part,) = await site.list_files(area, "", with_checksums=False)
    assert part.size_bytes <= DEATH_AT
    rest = b"x" * (UPLOAD_BYTES - part.size_bytes)
    put = await site.put_file(area, "f", chunks(rest, part.size_bytes), mode=0o600, sha256="")
    assert put.size_bytes == UPLOAD_BYTES


async def test_nobody_listens(tmp_path: Path) -> None:
    """A server that is not there is told as a shut door, in the words of the login."""
    sshd = Sshd(tmp_path / "sshd")
    async with fake_world(tmp_path, SshUser(tmp_path / "laptop", sshd)) as world:
        with pytest.raises(UnreachableError, match="refused"):
            await world.connection.calendar.describe()


async def test_only_a_shell_is_executed(tmp_path: Path) -> None:
    """The server sees one line, whatever is asked; a forced command that refuses everything else
    can therefore allow it.
    """
    sshd = Sshd(tmp_path / "sshd")
    sshd.start()
    try:
        user = SshUser(tmp_path / "laptop", sshd)
        log = tmp_path / "asked"
        user.authorize(
            f'restrict,command="echo \\"$SSH_ORIGINAL_COMMAND\\" >> {log}; exec /bin/sh -s"'
        )
        async with fake_world(tmp_path, user) as world:
            engine: FakeGridEngine | None = world.fake
            await world.held("r1")
            await world.connection.calendar.release_request("r1")
            assert engine is not None
            assert engine.names() == []
        assert set(log.read_text().splitlines()) == {FAR_SHELL}
    finally:
        sshd.kill()

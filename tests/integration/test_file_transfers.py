"""Large files to a site and from it: interrupted and resumed, damaged and noticed."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

import pytest

from gridtravel.gridcore.errors import ConflictError, UnavailableError
from gridtravel.gridcore.ports import PART_SUFFIX, FileStatus, OutputChunk, SitePort
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.travel_agent.local_files import checksum_of
from gridtravel.travel_agent.running.staging import receive_file, send_file
from tests.support.file_areas import an_area
from tests.support.grid_world import GridWorld
from tests.support.sshd_world import SshUser

pytestmark = pytest.mark.integration

FILE_BYTES: Final = 24 << 20
SEND_BREAKS_AT: Final = 9 << 20
"""Bytes after which the way breaks: more than the buffers on it hold, so that some have arrived."""
RECEIVE_BREAKS_AT: Final = 2 << 20
"""The same in the other direction: early, because what is in the buffers still arrives."""
BLOCK_BYTES: Final = 1 << 20
ODD: Final = 12_345
"""So that nothing ends where a piece ends."""


@dataclass
class Trouble:
    """What a way does to the files that it carries: it breaks, or it damages them."""

    port: SitePort
    break_the_way: Callable[[], None] = lambda: None
    damages: int = 0
    """How many transfers are damaged."""
    breaks: int = 0
    """How many transfers break after ``break_at`` bytes."""
    break_at: int = SEND_BREAKS_AT
    offsets: list[int] = field(default_factory=list)
    """Where each transfer began."""

    @property
    def files(self) -> SitePort:
        """The site by this way; only files are carried."""
        return cast(SitePort, self)

    async def put_file(
        self, area: str, path: str, chunks: AsyncIterator[OutputChunk], *, mode: int, sha256: str
    ) -> FileStatus:
        """As the site does."""
        troubled = self._troubled(chunks)
        return await self.port.put_file(area, path, troubled, mode=mode, sha256=sha256)

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """As the site does."""
        async for chunk in self._troubled(self.port.get_file(area, path, offset)):
            yield chunk

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """As the site does."""
        return await self.port.list_files(area, path, with_checksums=with_checksums)

    async def _troubled(self, chunks: AsyncIterator[OutputChunk]) -> AsyncIterator[OutputChunk]:
        passed = 0
        async for chunk in chunks:
            if not passed:
                self.offsets.append(chunk.offset)
                if self.damages:
                    self.damages -= 1
                    flipped = bytes([chunk.content[0] ^ 1]) + chunk.content[1:]
                    chunk = replace(chunk, content=flipped)
            before, passed = passed, passed + len(chunk.content)
            if self.breaks and before <= self.break_at < passed:
                self.breaks -= 1
                self.break_the_way()
            yield chunk


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is the same everywhere only if every byte is."""
    path = tmp_path_factory.mktemp("transfers") / "source.dat"
    numbers = range(BLOCK_BYTES // hashlib.sha256().digest_size)
    block = b"".join(hashlib.sha256(str(number).encode()).digest() for number in numbers)
    content = block * (FILE_BYTES // BLOCK_BYTES) + block[:ODD]
    path.write_bytes(content)
    path.chmod(0o640)
    return path


@pytest.fixture
async def area(connection: SiteConnection, grid: GridWorld) -> str:
    """The folder of a reservation of the caller's."""
    return await an_area(connection, grid)


def in_folder(folder: Path) -> list[str]:
    """Names of what is there."""
    return sorted(each.name for each in folder.iterdir())


async def only_file(port: SitePort, area: str) -> FileStatus:
    """What is in the area."""
    (status,) = await port.list_files(area, "", with_checksums=True)
    return status


async def test_whole_file_there_and_back(
    connection: SiteConnection, area: str, source: Path, tmp_path: Path
) -> None:
    """Content and mode arrive; a second sending finds it there and sends nothing."""
    port = Trouble(connection.site)
    assert await send_file(port.files, area, source, "deep/er/in.dat")
    files = await connection.site.list_files(area, "", with_checksums=True)
    status = next(each for each in files if not each.is_folder)
    assert (status.path, status.mode) == ("deep/er/in.dat", 0o640)
    assert (status.size_bytes, status.sha256) == (FILE_BYTES + ODD, checksum_of(source))
    assert not await send_file(port.files, area, source, "deep/er/in.dat", status)
    assert port.offsets == [0]
    await receive_file(connection.site, area, status, tmp_path / "back" / "out.dat")
    assert checksum_of(tmp_path / "back" / "out.dat") == status.sha256
    assert in_folder(tmp_path / "back") == ["out.dat"]


async def test_interrupted_ssh_connection(
    grid: GridWorld, ssh_user: SshUser, source: Path, tmp_path: Path
) -> None:
    """Every connection of the server is killed in the middle, in each direction: it goes on behind
    what has arrived, and the whole is unharmed.
    """
    connection = ssh_user.connect(grid.folder.site("beta") / "state" / "agent.sock", site="beta")
    area = await an_area(connection, grid)
    port = Trouble(connection.site, break_the_way=ssh_user.sshd.kill_connections, breaks=2)
    assert await send_file(port.files, area, source, "in.dat")
    assert len(port.offsets) == 3
    assert 0 == port.offsets[0] < port.offsets[1] < port.offsets[2]
    status = await only_file(connection.site, area)
    assert status.sha256 == checksum_of(source)
    port.breaks, port.break_at, port.offsets = 1, RECEIVE_BREAKS_AT, []
    await receive_file(port.files, area, status, tmp_path / "out.dat")
    assert len(port.offsets) == 2
    assert port.offsets[1] > RECEIVE_BREAKS_AT
    assert checksum_of(tmp_path / "out.dat") == status.sha256
    await connection.close()


async def test_later_run_goes_on(
    connection: SiteConnection, area: str, source: Path, tmp_path: Path
) -> None:
    """A run that ends in the middle leaves a part at the receiver, and the next one goes on."""

    def end() -> None:
        raise KeyboardInterrupt

    port = Trouble(connection.site, break_the_way=end, breaks=1)
    with pytest.raises(KeyboardInterrupt):
        await send_file(port.files, area, source, "in.dat")
    part = await only_file(connection.site, area)
    assert part.path == "in.dat" + PART_SUFFIX
    assert await send_file(port.files, area, source, "in.dat", part)
    assert port.offsets[0] == 0
    status = await only_file(connection.site, area)
    assert status.sha256 == checksum_of(source)
    port.breaks, port.offsets = 1, []
    with pytest.raises(KeyboardInterrupt):
        await receive_file(port.files, area, status, tmp_path / "out.dat")
    await receive_file(port.files, area, status, tmp_path / "out.dat")
    assert port.offsets[1] > 0
    assert checksum_of(tmp_path / "out.dat") == status.sha256


async def test_damage_is_noticed(
    connection: SiteConnection, area: str, source: Path, tmp_path: Path
) -> None:
    """One damaged transfer costs another one; two in a row are a fault, and no file is left that
    could be taken for the right one.
    """
    port = Trouble(connection.site, damages=2)
    with pytest.raises(ConflictError, match="damaged"):
        await send_file(port.files, area, source, "in.dat")
    assert await connection.site.list_files(area, "", with_checksums=False) == []
    port.damages = 1
    assert await send_file(port.files, area, source, "in.dat")
    status = await only_file(connection.site, area)
    assert status.sha256 == checksum_of(source)
    port.damages = 2
    with pytest.raises(UnavailableError, match="damaged"):
        await receive_file(port.files, area, status, tmp_path / "out.dat")
    assert in_folder(tmp_path) == []
    port.damages = 1
    await receive_file(port.files, area, status, tmp_path / "out.dat")
    assert checksum_of(tmp_path / "out.dat") == status.sha256


async def test_old_part_of_another_file(
    connection: SiteConnection, area: str, source: Path
) -> None:
    """A part that belongs to something else is found out at the end and costs one more transfer."""
    part = FileStatus(path="in.dat" + PART_SUFFIX, size_bytes=ODD)
    await connection.site.put_file(area, part.path, _one_piece(b"x" * ODD), mode=0o600, sha256="")
    assert await send_file(connection.site, area, source, "in.dat", part)
    assert (await only_file(connection.site, area)).sha256 == checksum_of(source)


async def _one_piece(content: bytes) -> AsyncIterator[OutputChunk]:
    yield OutputChunk(offset=0, content=content)

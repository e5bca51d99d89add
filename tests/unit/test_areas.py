"""Folders of legs and jobs: what comes from outside never leads out of them, whatever a task puts
there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.areas import FILES_MAX, PATH_DEPTH_MAX, Areas
from gridcore.errors import ConflictError, GridError, InputError, NotFoundError
from gridcore.ports import OutputChunk

AREA = "lab.1"


@pytest.fixture
def areas(tmp_path: Path) -> Areas:
    """Areas of tasks that run as the daemon, with one area made."""
    made = Areas(tmp_path / "areas", owned_by_login=False)
    made.folder(AREA, "ada")
    return made


async def _chunks(*contents: bytes, offset: int = 0) -> AsyncIterator[OutputChunk]:
    for content in contents:
        yield OutputChunk(offset=offset, content=content)
        offset += len(content)


async def _put(areas: Areas, path: str, *contents: bytes, offset: int = 0, sha256: str = "") -> int:
    chunks = _chunks(*contents, offset=offset)
    status = await areas.put_file(AREA, "ada", path, chunks, mode=0o640, sha256=sha256)
    return status.size_bytes


async def _get(areas: Areas, path: str, offset: int = 0) -> bytes:
    return b"".join([chunk.content async for chunk in areas.get_file(AREA, path, offset)])


async def test_a_file_goes_in_is_listed_and_comes_out(areas: Areas) -> None:
    """Folders are made on the way; the list has folders before what is in them."""
    assert await _put(areas, "in/deep/file", b"one", b"two") == 6
    assert await _get(areas, "in/deep/file") == b"onetwo"
    assert await _get(areas, "in/deep/file", 3) == b"two"
    listed = await areas.list_files(AREA, "", with_checksums=True)
    assert [(each.path, each.is_folder, each.size_bytes) for each in listed] == [
        ("in", True, 0),
        ("in/deep", True, 0),
        ("in/deep/file", False, 6),
    ]
    below = await areas.list_files(AREA, "in/deep", with_checksums=False)
    assert [(each.path, each.mode) for each in below] == [("in/deep/file", 0o640)]


async def test_an_interrupted_upload_goes_on(areas: Areas) -> None:
    """A part stays a part until the rest is there; nobody takes it for the file."""
    with pytest.raises(ConflictError, match="damaged"):
        await _put(areas, "file", b"half", sha256="0" * 64)
    with pytest.raises(NotFoundError):
        await _get(areas, "file")
    with pytest.raises(InputError, match="does not follow"):
        await _put(areas, "file", b"rest", offset=4)
    assert await _put(areas, "file", b"half", b"rest") == 8


@pytest.mark.parametrize(
    "path",
    ["../other", "/etc/passwd", "a/../../b", "", ".", "a\0b", "x" * 300, "/".join("d" * 40)],
)
async def test_paths_that_lead_out_are_refused(areas: Areas, path: str) -> None:
    """Absolute, upwards, empty, or such as no file can have."""
    assert PATH_DEPTH_MAX < 40
    with pytest.raises(GridError):
        await _put(areas, path, b"content")
    with pytest.raises(GridError):
        await _get(areas, path)


@pytest.mark.parametrize("area", ["", ".", "..", "../lab.2", "lab.1/in"])
def test_names_that_are_no_area_are_refused(areas: Areas, area: str) -> None:
    """An area is named after a reservation or a job."""
    with pytest.raises(InputError):
        areas.path_of(area)


@pytest.mark.parametrize("to_what", ["folder", "file", "nothing"])
async def test_links_that_a_task_left_are_not_followed(
    areas: Areas, tmp_path: Path, to_what: str
) -> None:
    """Not when listing (neither as the folder asked for nor below it), reading or writing."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    target = {"folder": secret, "file": secret / "key", "nothing": tmp_path / "new"}[to_what]
    root = areas.path_of(AREA)
    (root / "link").symlink_to(target)
    assert await areas.list_files(AREA, "", with_checksums=True) == []
    for attempt in (
        areas.list_files(AREA, "link", with_checksums=False),
        _get(areas, "link"),
        _get(areas, "link/key"),
        _put(areas, "link/new", b"content"),
    ):
        with pytest.raises(GridError):
            await attempt
    assert sorted(each.name for each in secret.iterdir()) == ["key"]
    assert not (tmp_path / "new").exists()
    await _put(areas, "link", b"mine now")
    assert (root / "link").read_bytes() == b"mine now"
    assert not (root / "link").is_symlink()
    assert (secret / "key").read_text() == "secret"


async def test_a_link_in_the_place_of_the_part_is_not_written_through(
    areas: Areas, tmp_path: Path
) -> None:
    """The name under which a file arrives is as little trusted as its own."""
    outside = tmp_path / "outside"
    (areas.path_of(AREA) / "file.part").symlink_to(outside)
    with pytest.raises(InputError):
        await _put(areas, "file", b"content")
    assert not outside.exists()


async def test_what_is_no_file_is_not_read(areas: Areas) -> None:
    """A pipe that nobody writes to does not hang the daemon."""
    os.mkfifo(areas.path_of(AREA) / "pipe")
    (areas.path_of(AREA) / "folder").mkdir()
    for name in ("pipe", "folder"):
        async with asyncio.timeout(5):
            with pytest.raises(InputError, match="not a file"):
                await _get(areas, name)


async def test_an_account_that_the_machine_does_not_have_is_a_fault_of_the_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grid-mapfile may name anybody; the daemon must not end over it."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    areas = Areas(tmp_path / "areas", owned_by_login=True)
    with pytest.raises(ConflictError, match="no such account"):
        areas.folder(AREA, "no-such-login")


async def test_a_folder_that_cannot_be_made_is_a_fault_of_the_grid(tmp_path: Path) -> None:
    """A full or broken disk refuses the job that needs the folder, and ends nothing else."""
    (tmp_path / "areas").write_text("in the way")
    with pytest.raises(GridError, match="cannot make a folder"):
        Areas(tmp_path / "areas", owned_by_login=False).folder(AREA, "ada")
    assert FILES_MAX > 1000


async def test_what_nobody_remembers_is_removed_after_its_time(areas: Areas) -> None:
    """Results stay as long as their job is shown, and a while longer."""
    for area in ("kept", "recent"):
        areas.folder(area, "ada")
    old, now = 1000, 2000
    for area in (AREA, "kept"):
        os.utime(areas.path_of(area), (old, old))
    os.utime(areas.path_of("recent"), (now, now))
    assert await areas.clean({"kept"}, before=1500) == [AREA]
    assert areas.path_of("kept").is_dir()
    assert areas.path_of("recent").is_dir()
    assert not areas.path_of(AREA).exists()

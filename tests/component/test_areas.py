"""Folders of legs and jobs: what comes from outside never leads out of them, whatever a task puts
there.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gridtravel.agents.jobs.work_dirs import FILES_MAX, PATH_DEPTH_MAX, WorkDirs
from gridtravel.gridcore.errors import ConflictError, GridError, InputError, NotFoundError
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.local_sched.accounts.account_files import AccountFiles

AREA = "lab.1"
UID = 54_321
"""Nobody's account: root can give files to any number."""


@pytest.fixture
async def files() -> AsyncIterator[AccountFiles]:
    """The way into folders of accounts."""
    made = AccountFiles()
    yield made
    made.close()


@pytest.fixture
def work_dirs(tmp_path: Path, files: AccountFiles) -> WorkDirs:
    """Areas of tasks that run as the daemon, with one area made."""
    made = WorkDirs(tmp_path / "areas", owned_by_login=False, files=files)
    made.folder(AREA, "ada")
    return made


@pytest.fixture
def adas(files: AccountFiles, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkDirs]:
    """Areas of tasks that run as their owners' logins, with one of ada's made."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: areas that belong to logins. It takes root to hand folders over")
    entry = pwd.struct_passwd(("ada", "x", UID, UID, "", "/nonexistent", "/bin/sh"))
    monkeypatch.setattr("pwd.getpwnam", lambda name: {"ada": entry}[name])
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # which everybody may pass
        Path(name).chmod(0o711)
        made = WorkDirs(Path(name) / "areas", owned_by_login=True, files=files)
        made.folder(AREA, "ada")
        yield made


async def _chunks(*contents: bytes, offset: int = 0) -> AsyncIterator[OutputChunk]:
    for content in contents:
        yield OutputChunk(offset=offset, content=content)
        offset += len(content)


async def _put(
    work_dirs: WorkDirs, path: str, *contents: bytes, offset: int = 0, sha256: str = ""
) -> int:
    chunks = _chunks(*contents, offset=offset)
    status = await work_dirs.put_file(AREA, "ada", path, chunks, mode=0o640, sha256=sha256)
    return status.size_bytes


async def _get(work_dirs: WorkDirs, path: str, offset: int = 0) -> bytes:
    return b"".join([chunk.content async for chunk in work_dirs.get_file(AREA, path, offset)])


async def test_a_file_goes_in_is_listed_and_comes_out(work_dirs: WorkDirs) -> None:
    """Folders are made on the way; the list has folders before what is in them."""
    assert await _put(work_dirs, "in/deep/file", b"one", b"two") == 6
    assert await _get(work_dirs, "in/deep/file") == b"onetwo"
    assert await _get(work_dirs, "in/deep/file", 3) == b"two"
    listed = await work_dirs.list_files(AREA, "", with_checksums=True)
    assert [(each.path, each.is_folder, each.size_bytes) for each in listed] == [
        ("in", True, 0),
        ("in/deep", True, 0),
        ("in/deep/file", False, 6),
    ]
    below = await work_dirs.list_files(AREA, "in/deep", with_checksums=False)
    assert [(each.path, each.mode) for each in below] == [("in/deep/file", 0o640)]


async def test_an_interrupted_upload_goes_on(work_dirs: WorkDirs) -> None:
    """A part stays a part until the rest is there; nobody takes it for the file."""
    with pytest.raises(ConflictError, match="damaged"):
        await _put(work_dirs, "file", b"half", sha256="0" * 64)
    with pytest.raises(NotFoundError):
        await _get(work_dirs, "file")
    with pytest.raises(InputError, match="does not follow"):
        await _put(work_dirs, "file", b"rest", offset=4)
    assert await _put(work_dirs, "file", b"half", b"rest") == 8


@pytest.mark.parametrize(
    "path",
    ["../other", "/etc/passwd", "a/../../b", "", ".", "a\0b", "x" * 300, "/".join("d" * 40)],
)
async def test_paths_that_lead_out_are_refused(work_dirs: WorkDirs, path: str) -> None:
    """Absolute, upwards, empty, or such as no file can have."""
    assert PATH_DEPTH_MAX < 40
    with pytest.raises(GridError):
        await _put(work_dirs, path, b"content")
    with pytest.raises(GridError):
        await _get(work_dirs, path)


@pytest.mark.parametrize("area", ["", ".", "..", "../lab.2", "lab.1/in"])
def test_names_that_are_no_area_are_refused(work_dirs: WorkDirs, area: str) -> None:
    """An area is named after a reservation or a job."""
    with pytest.raises(InputError):
        work_dirs.path_of(area)


@pytest.mark.parametrize("to_what", ["folder", "file", "nothing"])
async def test_links_that_a_task_left_are_not_followed(
    work_dirs: WorkDirs, tmp_path: Path, to_what: str
) -> None:
    """Not when listing (neither as the folder asked for nor below it), reading or writing."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    target = {"folder": secret, "file": secret / "key", "nothing": tmp_path / "new"}[to_what]
    root = work_dirs.path_of(AREA)
    (root / "link").symlink_to(target)
    assert await work_dirs.list_files(AREA, "", with_checksums=True) == []
    for attempt in (
        work_dirs.list_files(AREA, "link", with_checksums=False),
        _get(work_dirs, "link"),
        _get(work_dirs, "link/key"),
        _put(work_dirs, "link/new", b"content"),
    ):
        with pytest.raises(GridError):
            await attempt
    assert sorted(each.name for each in secret.iterdir()) == ["key"]
    assert not (tmp_path / "new").exists()
    await _put(work_dirs, "link", b"mine now")
    assert (root / "link").read_bytes() == b"mine now"
    assert not (root / "link").is_symlink()
    assert (secret / "key").read_text() == "secret"


async def test_a_link_in_the_place_of_the_part_is_not_written_through(
    work_dirs: WorkDirs, tmp_path: Path
) -> None:
    """The name under which a file arrives is as little trusted as its own."""
    outside = tmp_path / "outside"
    (work_dirs.path_of(AREA) / "file.part").symlink_to(outside)
    with pytest.raises(InputError):
        await _put(work_dirs, "file", b"content")
    assert not outside.exists()


async def test_what_is_no_file_is_not_read(work_dirs: WorkDirs) -> None:
    """A pipe that nobody writes to does not hang the daemon."""
    os.mkfifo(work_dirs.path_of(AREA) / "pipe")
    (work_dirs.path_of(AREA) / "folder").mkdir()
    for name in ("pipe", "folder"):
        async with asyncio.timeout(5):
            with pytest.raises(InputError, match="not a file"):
                await _get(work_dirs, name)


async def test_an_account_that_the_machine_does_not_have_is_a_fault_of_the_grid(
    tmp_path: Path, files: AccountFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grid-mapfile may name anybody; the daemon must not end over it."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    work_dirs = WorkDirs(tmp_path / "areas", owned_by_login=True, files=files)
    with pytest.raises(ConflictError, match="no such account"):
        work_dirs.folder(AREA, "no-such-login")


async def test_a_folder_that_cannot_be_made_is_a_fault_of_the_grid(
    tmp_path: Path, files: AccountFiles
) -> None:
    """A full or broken disk refuses the job that needs the folder, and ends nothing else."""
    (tmp_path / "areas").write_text("in the way")
    with pytest.raises(GridError, match="cannot make a folder"):
        WorkDirs(tmp_path / "areas", owned_by_login=False, files=files).folder(AREA, "ada")
    assert FILES_MAX > 1000


async def test_what_nobody_remembers_is_removed_after_its_time(work_dirs: WorkDirs) -> None:
    """Results stay as long as their job is shown, and a while longer."""
    for area in ("kept", "recent"):
        work_dirs.folder(area, "ada")
    old, now = 1000, 2000
    for area in (AREA, "kept"):
        os.utime(work_dirs.path_of(area), (old, old))
    os.utime(work_dirs.path_of("recent"), (now, now))
    assert await work_dirs.clean({"kept"}, before=1500) == [AREA]
    assert work_dirs.path_of("kept").is_dir()
    assert work_dirs.path_of("recent").is_dir()
    assert not work_dirs.path_of(AREA).exists()


async def test_an_area_and_all_that_is_put_there_belongs_to_its_login(adas: WorkDirs) -> None:
    """Folders are passed, not listed; a part that goes on later is the login's already."""
    root = adas.path_of(AREA)
    assert stat.S_IMODE(root.parent.stat().st_mode) == 0o711
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    root.chmod(0o2700)  # a login may have its folders inherit the group
    with pytest.raises(InputError, match="does not follow"):
        await _put(adas, "in/deep/file", b"rest", offset=4)
    assert await _put(adas, "in/deep/file", b"content") == 7
    owners = {each.name: each.stat().st_uid for each in (root, *root.rglob("*"))}
    assert owners == dict.fromkeys([AREA, "in", "deep", "file"], UID)


async def test_what_a_daemon_left_half_made_is_handed_over(adas: WorkDirs) -> None:
    """It died between making and giving: the next job of the area finds it its own."""
    root = adas.path_of(AREA)
    os.chown(root, 0, 0)
    adas.folder(AREA, "ada")
    assert root.stat().st_uid == UID
    (root / "file.part").write_bytes(b"of an older daemon, and root's")
    assert await _put(adas, "file", b"content") == 7
    assert (root / "file").stat().st_uid == UID


async def test_a_hard_link_is_not_lent_the_rights_of_the_daemon(
    adas: WorkDirs, tmp_path: Path
) -> None:
    """Not for reading, not for its checksum, and what is put in its place leaves the other file."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for name in ("key", "new.part"):
        os.link(secret, adas.path_of(AREA) / name)
    assert await adas.list_files(AREA, "", with_checksums=True) == []
    with pytest.raises(InputError, match="another login"):
        await _get(adas, "key")
    for name in ("key", "new"):
        await _put(adas, name, b"mine now")
        assert await _get(adas, name) == b"mine now"
    assert (secret.read_text(), secret.stat().st_uid) == ("secret", 0)


async def test_anothers_folder_in_an_area_is_not_entered(adas: WorkDirs) -> None:
    """Whoever may move a folder may still not read it, nor write to it, by way of the daemon."""
    foreign = adas.path_of(AREA) / "foreign"
    foreign.mkdir()
    (foreign / "file").write_text("secret")
    os.chown(foreign / "file", UID, UID)
    for attempt in (
        _get(adas, "foreign/file"),
        _put(adas, "foreign/file", b"content"),
        _put(adas, "foreign/deep/file", b"content"),
        adas.list_files(AREA, "foreign", with_checksums=False),
    ):
        with pytest.raises(GridError):
            await attempt
    assert await adas.list_files(AREA, "", with_checksums=False) == []
    assert (foreign / "file").read_text() == "secret"
    assert [each.name for each in foreign.iterdir()] == ["file"]


async def test_a_login_that_gets_an_account_later_gets_its_area(
    adas: WorkDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first job failed for want of the account; the second must not for want of a folder."""
    with pytest.raises(ConflictError):
        adas.folder("lab.2", "grace")
    entry = pwd.struct_passwd(("grace", "x", UID + 1, UID + 1, "", "/nonexistent", "/bin/sh"))
    monkeypatch.setattr("pwd.getpwnam", lambda _name: entry)
    assert adas.folder("lab.2", "grace").stat().st_uid == UID + 1

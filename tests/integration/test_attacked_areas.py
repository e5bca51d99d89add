"""What a login can do to the daemon by what it puts into its own area: nothing. With real accounts;
the daemon's side is root's, as at a site with ``run_as = "login"``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import os
import pwd
import signal
import stat
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gridtravel.agents.jobs.work_dirs import FILES_MAX, WorkDirs
from gridtravel.gridcore.errors import (
    GridError,
    InputError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.local_sched.accounts import account_files
from gridtravel.local_sched.accounts.account_files import AccountFiles
from tests.support.login_world import two_accounts

pytestmark = pytest.mark.integration

AREA = "lab.1"
SECRET = "not hers"


@dataclass
class Scene:
    """Ada's area at a site, and a folder with files that are not hers."""

    work_dirs: WorkDirs
    files: AccountFiles
    ada: pwd.struct_passwd
    grace: pwd.struct_passwd
    outside: Path

    @property
    def area(self) -> Path:
        """Where ada's jobs put what they like."""
        return self.work_dirs.path_of(AREA)

    def give(self, *paths: Path) -> None:
        """Make it ada's, as if her job had made it."""
        for each in paths:
            os.chown(each, self.ada.pw_uid, self.ada.pw_gid, follow_symlinks=False)

    def outsiders(self) -> dict[str, tuple[int, int, bytes]]:
        """Owner, mode and content of everything outside of her area."""
        found = {}
        for each in sorted(self.outside.rglob("*")):
            status = each.stat()
            content = each.read_bytes() if each.is_file() else b""
            found[str(each)] = (status.st_uid, status.st_mode, content)
        return found

    async def put(self, path: str, content: bytes = b"mine") -> None:
        """As the laptop does."""
        await self.work_dirs.put_file(
            AREA, self.ada.pw_name, path, _one(content), mode=0o755, sha256=""
        )

    async def get(self, path: str, offset: int = 0) -> bytes:
        """The same, the other way."""
        chunks = self.work_dirs.get_file(AREA, path, offset)
        return b"".join([each.content async for each in chunks])

    async def names(self) -> list[str]:
        """All that is listed."""
        listed = await self.work_dirs.list_files(AREA, "", with_checksums=True)
        return [each.path for each in listed]


async def _one(content: bytes) -> AsyncIterator[OutputChunk]:
    yield OutputChunk(offset=0, content=content)


@pytest.fixture(scope="module")
def accounts() -> Iterator[dict[str, pwd.struct_passwd]]:
    """Ada and grace."""
    with two_accounts() as made:
        yield made


@pytest.fixture
def root(accounts: dict[str, pwd.struct_passwd]) -> Iterator[Path]:
    """A folder that everybody may pass, with files of grace and of root."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        root = Path(name)
        root.chmod(0o711)
        outside = root / "outside"
        outside.mkdir(mode=0o755)
        for owner, mode in (("root", 0o600), ("grace", 0o600), ("shared", 0o666)):
            file = outside / owner
            file.write_text(SECRET)
            file.chmod(mode)
            if owner == "grace":
                os.chown(file, accounts["grace"].pw_uid, accounts["grace"].pw_gid)
        yield root


@pytest.fixture
async def scene(accounts: dict[str, pwd.struct_passwd], root: Path) -> AsyncIterator[Scene]:
    """An area that was used once."""
    files = AccountFiles()
    work_dirs = WorkDirs(root / "areas", owned_by_login=True, files=files)
    made = Scene(work_dirs, files, accounts["ada"], accounts["grace"], root / "outside")
    await made.put("own")
    yield made
    files.close()


async def test_whoever_touches_an_area_is_its_owner(scene: Scene) -> None:
    """Its owner's number and groups, and nothing of root's left: what the owner may not do in it,
    the daemon does not do either.
    """
    closed = scene.area / "closed"
    closed.mkdir(mode=0o500)
    (closed / "file").write_text("kept")
    scene.give(closed, closed / "file")
    with pytest.raises(GridError):
        await scene.put("closed/new")
    assert [each.name for each in closed.iterdir()] == ["file"]
    (worker,) = [each for each in _children() if _facts(each)["Uid"][0] == str(scene.ada.pw_uid)]
    facts = _facts(worker)
    assert set(facts["Uid"]) == {str(scene.ada.pw_uid)}
    assert set(facts["Gid"]) == {str(scene.ada.pw_gid)}
    assert int(facts["CapEff"][0], 16) == int(facts["CapPrm"][0], 16) == 0
    # Nor may another process of hers look into it: it is handed descriptors.
    assert os.stat(f"/proc/{worker}/environ").st_uid == 0


@pytest.mark.parametrize("whose", ["root", "grace", "shared"])
async def test_hard_links_to_what_is_not_hers(scene: Scene, whose: str) -> None:
    """As a file, and as the part in which a file arrives: neither its owner, its mode nor its
    content changes, although ada may write to one of them.
    """
    before = scene.outsiders()
    for name in ("key", "new.part"):
        os.link(scene.outside / whose, scene.area / name)
    assert await scene.names() == ["own"]
    with pytest.raises(InputError, match="another login"):
        await scene.get("key")
    for name in ("key", "new"):
        await scene.put(name)
        assert await scene.get(name) == b"mine"
    assert scene.outsiders() == before


async def test_links_lead_nowhere(scene: Scene) -> None:
    """To a file, to a folder, to itself; in the place of a file, of a part and of a folder."""
    before = scene.outsiders()
    for name, target in (
        ("file", scene.outside / "root"),
        ("new.part", scene.outside / "root"),
        ("made.part", scene.outside / "made"),
        ("folder", scene.outside),
        ("loop", Path("loop")),
    ):
        (scene.area / name).symlink_to(target)
    assert await scene.names() == ["own"]
    for attempt in (
        scene.get("file"),
        scene.get("folder/shared"),
        scene.get("loop/x"),
        scene.put("new"),
        scene.put("made"),
        scene.put("folder/made"),
        scene.put("folder/deep/made"),
        scene.put("loop/x"),
    ):
        with pytest.raises(GridError):
            await attempt
    assert scene.outsiders() == before


async def test_a_folder_that_is_swapped_all_the_time(scene: Scene) -> None:
    """Now a folder, now a link to one with the same names, while files go in, out and are listed:
    each lands in her area, or nowhere.
    """
    before = scene.outsiders()
    real, link, name = scene.area / "real", scene.area / "link", scene.area / "in"
    real.mkdir()
    link.symlink_to(scene.outside)
    scene.give(real, link)
    is_over = threading.Event()
    numbers = itertools.count()

    def swap() -> None:
        for turn in itertools.cycle((real, link)):
            if is_over.is_set():
                return
            try:
                turn.rename(name)
                name.rename(turn)
            except OSError:  # a folder was put in between: out of the way with it
                with contextlib.suppress(OSError):
                    name.rename(scene.area / f"spare-{next(numbers)}")

    attacker = threading.Thread(target=swap)
    attacker.start()
    try:
        for _ in range(150):
            with contextlib.suppress(GridError):
                await scene.put("in/shared", b"mine")
            with contextlib.suppress(GridError):
                assert await scene.get("in/shared") == b"mine"
            with contextlib.suppress(GridError):
                await scene.work_dirs.list_files(AREA, "in", with_checksums=True)
    finally:
        is_over.set()
        attacker.join()
    assert scene.outsiders() == before


async def test_a_part_that_is_replaced_while_it_arrives(scene: Scene) -> None:
    """What is renamed is what was written, or nothing is."""

    async def content() -> AsyncIterator[OutputChunk]:
        yield OutputChunk(offset=0, content=b"mine")
        (scene.area / "file.part").unlink()
        os.link(scene.outside / "shared", scene.area / "file.part")

    before = scene.outsiders()
    with pytest.raises(InputError, match="replaced"):
        await scene.work_dirs.put_file(
            AREA, scene.ada.pw_name, "file", content(), mode=0o777, sha256=""
        )
    assert not (scene.area / "file").exists()
    assert scene.outsiders() == before


async def test_pipes_and_devices_are_not_opened(scene: Scene) -> None:
    """A pipe without a writer would hang the reader, and a device does what devices do."""
    os.mkfifo(scene.area / "pipe")
    os.mkfifo(scene.area / "new.part")
    os.mknod(scene.area / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    scene.give(*(scene.area / each for each in ("pipe", "new.part", "device")))
    async with asyncio.timeout(60):
        for name in ("pipe", "device"):
            with pytest.raises(InputError, match="not a file"):
                await scene.get(name)
        with pytest.raises(InputError, match="not a file"):
            await scene.put("new")
        listed = await scene.work_dirs.list_files(AREA, "", with_checksums=True)
    assert {each.path: each.sha256 for each in listed if each.path != "own"} == {
        "device": "",
        "new.part": "",
        "pipe": "",
    }


async def test_a_file_of_holes_costs_what_its_reader_waits_for(scene: Scene) -> None:
    """A terabyte that takes no room: its end is read at once, and its checksum ends with whoever
    asked for it.
    """
    size = 1 << 40
    holes = scene.area / "holes"
    holes.touch()
    scene.give(holes)
    os.truncate(holes, size)
    assert await scene.get("holes", size - 5) == bytes(5)
    listing = asyncio.create_task(scene.names())
    for _ in range(20):
        await asyncio.sleep(0)
    listing.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await listing
        assert await scene.get("own") == b"mine"


async def test_names_of_any_form(scene: Scene) -> None:
    """A line feed, a leading dash, dots, a quote: listed and fetched as they are."""
    for name in ("a\nb", "-rf", "...", 'a"b', "ä", "x" * 200):
        await scene.put(name, name.encode())
        assert await scene.get(name) == name.encode()
        assert name in await scene.names()


async def test_what_is_too_deep_or_too_much_is_bounded_and_goes(scene: Scene) -> None:
    """A tree deeper than any path, with folders that she has shut herself, is listed to a bound,
    and removed whole when nobody remembers the area.
    """
    assert FILES_MAX < 100_000
    descriptor = os.open(scene.area, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 100, dir_fd=descriptor)
        os.chown("d" * 100, scene.ada.pw_uid, scene.ada.pw_gid, dir_fd=descriptor)
        deeper = os.open("d" * 100, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.fchmod(descriptor, 0)
    os.close(descriptor)
    shut = scene.area / "shut"
    shut.mkdir(mode=0)
    scene.give(shut)
    assert 30 < len(await scene.names()) < 40
    os.utime(scene.area, (1000, 1000))
    assert await scene.work_dirs.clean((), before=2000) == [AREA]
    assert not scene.area.exists()


async def test_what_is_anothers_is_not_removed_for_her(scene: Scene) -> None:
    """Grace's folder that somebody moved in here stays, with what is in it."""
    hers = scene.area / "graces"
    hers.mkdir()
    (hers / "file").write_text(SECRET)
    for each in (hers, hers / "file"):
        os.chown(each, scene.grace.pw_uid, scene.grace.pw_gid)
    (scene.area / "link").symlink_to(scene.outside)
    before = scene.outsiders()
    os.utime(scene.area, (1000, 1000))
    assert await scene.work_dirs.clean((), before=2000) == []
    assert (hers / "file").read_text() == SECRET
    assert [each.name for each in scene.area.iterdir()] == ["graces"]
    assert scene.outsiders() == before


async def test_another_file_system_in_an_area_is_not_entered(scene: Scene) -> None:
    """One that she answers for herself need never answer."""
    mounted = scene.area / "mounted"
    mounted.mkdir()
    library = ctypes.CDLL(None, use_errno=True)
    options = f"size=1m,uid={scene.ada.pw_uid},mode=0700".encode()
    if library.mount(b"none", os.fsencode(mounted), b"tmpfs", 0, options) != 0:
        pytest.skip("NOT TESTED: a file system mounted in an area. It takes root and mounts")
    try:
        (mounted / "file").write_text("x")
        scene.give(mounted / "file")
        assert await scene.names() == ["own"]
        for attempt in (scene.get("mounted/file"), scene.put("mounted/new")):
            with pytest.raises(NotFoundError):
                await attempt
    finally:
        library.umount2(os.fsencode(mounted), 2)


async def test_she_may_kill_and_stop_what_works_for_her(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is her account's process, so the kernel lets her. Killed, the next one goes on; stopped,
    it is given up after a while. Others are served all the time.
    """
    scene.work_dirs.folder("lab.2", scene.grace.pw_name)
    for number in (signal.SIGKILL, signal.SIGSTOP):
        (worker,) = [
            each for each in _children() if _facts(each)["Uid"][0] == str(scene.ada.pw_uid)
        ]
        os.kill(worker, number)
        if number == signal.SIGSTOP:
            monkeypatch.setattr(account_files, "REPLY_LIMIT_S", 0.2)
            with contextlib.suppress(UnavailableError):  # or the next one has gone on at once
                await scene.get("own")
            assert worker not in _children()
            monkeypatch.setattr(account_files, "REPLY_LIMIT_S", 60.0)
        assert await scene.work_dirs.list_files("lab.2", "", with_checksums=True) == []
        assert await scene.get("own") == b"mine"


def _children() -> list[int]:
    """The processes that this one has started, and that live."""
    found = []
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if each.name.isdigit():
                fields = (each / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == os.getpid() and fields[0] != "Z":
                    found.append(int(each.name))
    return found


def _facts(pid: int) -> dict[str, list[str]]:
    """What the kernel says of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return {name: rest.split() for name, _, rest in map(_halves, text.splitlines())}


def _halves(line: str) -> tuple[str, str, str]:
    return line.partition(":")

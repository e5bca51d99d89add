"""What a leg left comes home into its trip's folder, over nothing that lies there, and to nowhere
else.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from gridtravel.gridcore.errors import ConflictError, GridError, InputError, UnavailableError
from gridtravel.gridcore.jobs.tasks import StagedFile, TaskSpec
from gridtravel.gridcore.ports import PART_SUFFIX, FileStatus, OutputChunk, SitePort
from gridtravel.travel_agent.news import News
from gridtravel.travel_agent.running.staging import check_apart, fetch_all, part_of, plan_fetch

FOLDER = "trip/leg"


class Left:
    """A site as far as it has files; it calls them whatever it likes."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.offsets: list[int] = []
        """Where each transfer began."""
        self.meanwhile: Callable[[], None] = lambda: None
        """Happens while a file is on its way."""

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """As the site does."""
        assert (area, path, with_checksums) == ("lab.1", "", True)
        return [
            FileStatus(
                path=name,
                size_bytes=len(content),
                mode=0o640,
                sha256=hashlib.sha256(content).hexdigest(),
            )
            for name, content in self.files.items()
        ]

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """As the site does."""
        assert area == "lab.1"
        self.offsets.append(offset)
        self.meanwhile()
        yield OutputChunk(offset=offset, content=self.files[path][offset:])


async def fetch(
    site: Left, home: Path, *staged: StagedFile, overwrite: bool = False, folder: str = FOLDER
) -> list[str]:
    """Fetch as ``gur`` does; the paths, as seen from ``home``."""
    port = cast(SitePort, site)
    task = TaskSpec(command=("true",), stage_out=staged)
    plan = await plan_fetch(port, "lab.1", task, home, folder, site="lab", overwrite=overwrite)
    told: list[News] = []
    paths = await fetch_all(
        port, "lab.1", plan, place="leg", overwrite=overwrite, listener=told.append
    )
    assert told[-1].text.startswith(f"{sum(not each.is_there for each in plan)} files fetched")
    return _seen_from(home, paths)


def _seen_from(home: Path, paths: list[Path]) -> list[str]:
    return [os.path.relpath(each, home) for each in paths]


def contents(home: Path) -> dict[str, str]:
    """Every file below a folder; links are told as what they are."""
    return {
        str(each.relative_to(home)): f"-> {each.readlink()}"
        if each.is_symlink()
        else each.read_text()
        for each in home.rglob("*")
        if each.is_symlink() or each.is_file()
    }


async def test_what_is_there_is_counted_and_not_sent_again(tmp_path: Path) -> None:
    """Results lie in the trip's folder, in the leg's; a second run finds them."""
    site = Left({"log": b"one", "out/deep/data": b"two"})
    paths = await fetch(site, tmp_path)
    assert paths == ["trip/leg/log", "trip/leg/out/deep/data"]
    assert contents(tmp_path) == {"trip/leg/log": "one", "trip/leg/out/deep/data": "two"}
    assert (tmp_path / "trip/leg/log").stat().st_mode & 0o777 == 0o640
    assert await fetch(site, tmp_path) == paths
    assert len(site.offsets) == 2


async def test_another_file_stays_and_nothing_is_fetched_beside_it(tmp_path: Path) -> None:
    """The fault names the file and what to do; with that word the file is replaced."""
    mine = tmp_path / FOLDER / "out" / "data"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    site = Left({"first": b"one", "out/data": b"two", "third": b"three"})
    with pytest.raises(InputError, match="data is there already with other content") as fault:
        await fetch(site, tmp_path)
    assert str(mine) in fault.value.message
    assert "--overwrite" in (fault.value.hint or "")
    assert contents(tmp_path) == {"trip/leg/out/data": "mine"}
    assert site.offsets == []
    await fetch(site, tmp_path, overwrite=True)
    assert contents(tmp_path) == {
        "trip/leg/first": "one",
        "trip/leg/out/data": "two",
        "trip/leg/third": "three",
    }


async def test_a_file_that_appears_on_the_way_stays(tmp_path: Path) -> None:
    """There is no gap between the look and the writing; what is the same counts as fetched."""
    target = tmp_path / FOLDER / "data"
    site = Left({"data": b"result"})
    site.meanwhile = lambda: cast(None, target.write_text("mine"))
    with pytest.raises(InputError, match="other content"):
        await fetch(site, tmp_path)
    assert contents(tmp_path) == {"trip/leg/data": "mine"}
    target.unlink()
    site.meanwhile = lambda: cast(None, target.write_text("result"))
    await fetch(site, tmp_path)
    assert contents(tmp_path) == {"trip/leg/data": "result"}


async def test_a_disk_without_hard_links_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory stick, or some network file systems. Other files stay there too."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    site = Left({"data": b"result"})
    await fetch(site, tmp_path)
    assert contents(tmp_path) == {"trip/leg/data": "result"}
    target = tmp_path / FOLDER / "late"
    site.files = {"late": b"result"}
    site.meanwhile = lambda: cast(None, target.write_text("mine"))
    with pytest.raises(InputError, match="other content"):
        await fetch(site, tmp_path)
    assert target.read_text() == "mine"


async def test_an_interrupted_file_goes_on_and_takes_nobody_elses_for_its_part(
    tmp_path: Path,
) -> None:
    """Its part has a name of its own: neither a file of the user's that is called like one nor a
    part of another version of the file is touched.
    """
    site = Left({"data": b"0123456789"})
    (status,) = await site.list_files("lab.1", "", with_checksums=True)
    target = tmp_path / FOLDER / "data"
    target.parent.mkdir(parents=True)
    (target.parent / f"data{PART_SUFFIX}").write_text("mine")
    part_of(target, status).write_bytes(b"01234")
    await fetch(site, tmp_path)
    assert site.offsets == [5]
    assert contents(tmp_path) == {"trip/leg/data": "0123456789", "trip/leg/data.part": "mine"}
    target.unlink()
    site.files = {"data": b"another version"}
    part_of(target, status).write_bytes(b"01234")
    await fetch(site, tmp_path)
    assert site.offsets == [5, 0]
    assert target.read_text() == "another version"
    long = "n" * 255
    site.files = {long: b"long"}
    await fetch(site, tmp_path)
    assert (tmp_path / FOLDER / long).read_text() == "long"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("where", ["trip", "trip/leg", "trip/leg/out", "trip/leg/out/deep"])
async def test_no_link_leads_a_file_out_of_the_folder(
    tmp_path: Path, where: str, overwrite: bool
) -> None:
    """Neither the site's paths nor the trip's own lead through a link that lies there; the folder
    that was named with --to may be one.
    """
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    home = tmp_path / "home"
    home.symlink_to(tmp_path / "disk")
    link = tmp_path / "disk" / where
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    site = Left({"out/deep/data": b"result", "first": b"one"})
    for staged in ((), (StagedFile(source="out", destination="out"),)):
        with pytest.raises(InputError, match="is a link") as fault:
            await fetch(site, home, *staged, overwrite=overwrite)
        assert "--to" in (fault.value.hint or "")
    assert list(elsewhere.iterdir()) == []
    assert contents(tmp_path / "disk") == {where: f"-> {elsewhere}"}
    link.unlink()
    await fetch(site, home)
    assert (tmp_path / "disk" / FOLDER / "out/deep/data").read_text() == "result"


async def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """It is another file, even where it leads to the same content; its end is never written to."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("result")
    target = tmp_path / "home" / FOLDER / "data"
    target.parent.mkdir(parents=True)
    target.symlink_to(elsewhere)
    site = Left({"data": b"result"})
    with pytest.raises(InputError, match="other content"):
        await fetch(site, tmp_path / "home")
    (status,) = await site.list_files("lab.1", "", with_checksums=True)
    part_of(target, status).symlink_to(elsewhere)
    with pytest.raises(InputError, match="cannot write"):
        await fetch(site, tmp_path / "home", overwrite=True)
    part_of(target, status).unlink()
    await fetch(site, tmp_path / "home", overwrite=True)
    assert contents(tmp_path / "home") == {"trip/leg/data": "result"}
    assert elsewhere.read_text() == "result"


@pytest.mark.parametrize(
    "path", ["/etc/x", "../x", "out/../../x", "out//../../x", "", ".", "a\0b", "out//etc/x"]
)
async def test_a_site_cannot_name_a_file_out_of_the_folder(tmp_path: Path, path: str) -> None:
    """Whether everything is fetched, or what a folder of that name holds."""
    home = tmp_path / "home"
    site = Left({path: b"evil", "out/good": b"good"})
    for staged in ((), (StagedFile(source="out", destination="out"),)):
        if path == "out//etc/x":
            await fetch(site, home, *staged)
            continue
        with pytest.raises(UnavailableError, match="leads out of its folder"):
            await fetch(site, home, *staged)
    assert set(contents(tmp_path)) <= {"home/trip/leg/out/etc/x", "home/trip/leg/out/good"}


async def test_files_that_cannot_lie_side_by_side_are_refused(tmp_path: Path) -> None:
    """Before anything is written: two of one name, one inside of another, one called as a folder is
    that lies there, one below a file that lies there.
    """
    both = [StagedFile(source=each, destination="x") for each in ("a", "b")]
    with pytest.raises(InputError, match="would both be"):
        await fetch(Left({"a": b"1", "b": b"2"}), tmp_path, *both)
    with pytest.raises(UnavailableError, match="inside of a file"):
        await fetch(Left({"a": b"1", "a/b": b"2"}), tmp_path)
    twice = [
        StagedFile(source="out", destination="out"),
        StagedFile(source="out/a", destination="out/a"),
    ]
    assert contents(tmp_path) == {}
    await fetch(Left({"out/a": b"1"}), tmp_path, *twice)
    with pytest.raises(InputError, match="is a folder"):
        await fetch(Left({"out": b"1"}), tmp_path, overwrite=True)
    with pytest.raises(InputError, match="is no folder"):
        await fetch(Left({"out/a/b": b"1"}), tmp_path, overwrite=True)
    assert contents(tmp_path) == {"trip/leg/out/a": "1"}


async def test_a_destination_of_the_users_own_may_lie_elsewhere(tmp_path: Path) -> None:
    """The user's word is taken, the site's is not: behind it no link is followed; and two legs do
    not meet there.
    """
    site = Left({"out/deep/data": b"result", "log": b"log"})
    staged = [
        StagedFile(source="out", destination=str(tmp_path / "mine")),
        StagedFile(source="log", destination="../../logs/log"),
    ]
    home = tmp_path / "home"
    await fetch(site, home, *staged)
    assert (tmp_path / "mine" / "deep" / "data").read_text() == "result"
    assert (home / "logs" / "log").read_text() == "log"
    (tmp_path / "mine" / "deep" / "data").unlink()
    (tmp_path / "mine" / "deep").rmdir()
    (tmp_path / "mine" / "deep").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link"):
        await fetch(site, home, *staged)
    (tmp_path / "mine" / "deep").unlink()
    port, task = cast(SitePort, site), TaskSpec(command=("true",), stage_out=tuple(staged))
    plans = [
        await plan_fetch(port, "lab.1", task, home, f"trip/{leg}", site="lab", overwrite=True)
        for leg in ("one", "two")
    ]
    with pytest.raises(GridError, match="two legs would write"):
        check_apart(plans)


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": ""},
        {"sha256": "0" * 63},
        {"sha256": "sha256sum: not found"},
        {"size_bytes": -1},
    ],
)
async def test_what_cannot_be_checked_is_not_asked_for(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """Over every carrier: a site binds itself to size and content before a byte is taken."""
    site = Left({"log": b"one"})
    truth = site.list_files

    async def lie(area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        found = await truth(area, path, with_checksums=with_checksums)
        return [replace(each, **change) for each in found]

    site.list_files = lie  # type: ignore[method-assign]
    with pytest.raises(UnavailableError, match="says no size or no checksum of 'log'"):
        await fetch(site, tmp_path)
    assert (site.offsets, contents(tmp_path)) == ([], {})


@pytest.mark.parametrize("more", [b"!", b"!" * 100_000])
async def test_a_byte_more_than_announced_is_one_too_many(tmp_path: Path, more: bytes) -> None:
    """It is noticed before anything is written, and nothing of the file is kept."""
    site = Left({"log": b"one"})
    site.meanwhile = lambda: site.files.update(log=b"one" + more)
    with pytest.raises(ConflictError, match="longer than the 3 bytes"):
        await fetch(site, tmp_path)
    assert contents(tmp_path) == {}
    assert len(site.offsets) == 1

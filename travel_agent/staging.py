"""Files and folders to a leg and home from it: many at a time, interrupted ones gone on with.

Eight files are on their way at once: a small one is mostly waiting, and a large one fills the line
by itself. How far it has come is told as it changes, for a bar on the screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gridcore.errors import InputError, UnavailableError
from gridcore.ports import FileStatus, SitePort
from gridcore.tasks import StagedFile, TaskSpec
from gridio.transfers import some_at_once, what_is_there
from travel_agent.news import Listener, News, Progress, Step
from travel_agent.transfers import checksum_of, receive_file, send_file


async def send_all(
    port: SitePort,
    area: str,
    files: Sequence[tuple[Path, str]],
    *,
    place: str,
    listener: Listener,
) -> int:
    """Bring local files to their paths in an area; how many were not there already."""
    if not files:
        return 0
    # What an interrupted run has sent, whole or in part.
    there = await what_is_there(port, area)
    counter = _Counter(place, sum(source.stat().st_size for source, _ in files), listener)

    async def send(file: tuple[Path, str]) -> bool:
        source, destination = file
        known = there.get(str(PurePosixPath(destination)))
        return await send_file(port, area, source, destination, known, counter.add)

    sent = sum(await some_at_once(send, files))
    if sent:
        listener(News(step=Step.STAGED, place=place, text=f"{sent} files sent"))
    return sent


async def fetch_all(
    port: SitePort,
    area: str,
    task: TaskSpec | None,
    folder: Path,
    *,
    place: str,
    site: str,
    listener: Listener,
) -> list[Path]:
    """Bring what a task left in an area into ``folder``: what it names, or all. What is there
    already, unharmed, is not sent again.
    """
    there = await port.list_files(area, "", with_checksums=True)
    for each in there:
        _check_inside(each.path, site)
    wanted = _wanted(task, [each for each in there if not each.is_folder])
    counter = _Counter(place, sum(status.size_bytes for status, _ in wanted), listener)

    async def fetch(file: tuple[FileStatus, str]) -> Path:
        status, destination = file
        target = folder / destination
        if not await asyncio.to_thread(_is_there, target, status.sha256):
            await receive_file(port, area, status, target, counter.add)
        return target

    try:
        fetched = await some_at_once(fetch, wanted)
    except OSError as fault:
        raise InputError(f"cannot write results to {folder}: {fault.strerror}") from fault
    listener(News(step=Step.STAGED, place=place, text=f"{len(fetched)} files fetched"))
    return fetched


def files_of(staged: StagedFile, base: Path) -> list[tuple[Path, str]]:
    """The files behind one entry to stage in, each with its path at the site."""
    source = base / Path(staged.source).expanduser()
    if source.is_file():
        return [(source, staged.destination)]
    if source.is_dir():
        files = sorted(each for each in source.rglob("*") if each.is_file())
        root = PurePosixPath(staged.destination)
        return [(each, str(root / each.relative_to(source).as_posix())) for each in files]
    raise InputError(f"there is no file {source} to stage in")


# -- inside ----------------------------------------------------------------------------------------


class _Counter:
    """Tells how far a transfer of several files is."""

    def __init__(self, place: str, total: int, listener: Listener) -> None:
        self._place, self._total, self._tell = place, total, listener
        self._done = 0

    def add(self, count: int) -> None:
        """So many bytes more have passed. What has to be sent again is not counted twice."""
        self._done = min(self._done + count, self._total)
        progress = Progress(bytes_done=self._done, bytes_total=self._total)
        self._tell(News(step=Step.STAGING, place=self._place, progress=progress))


def _is_there(target: Path, checksum: str) -> bool:
    return target.is_file() and checksum_of(target) == checksum


def _check_inside(path: str, site: str) -> None:
    """Refuse a name from a site that would be written somewhere else than below our folder."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts or "\0" in path:
        raise UnavailableError(
            f"{site} offers a file {path[:60]!r} that leads out of its folder",
            hint="nothing was written; tell whoever runs the site",
        )


def _wanted(task: TaskSpec | None, files: list[FileStatus]) -> list[tuple[FileStatus, str]]:
    """Which files to fetch, and to where: those the task names, or all when it names none."""
    if task is None or not task.stage_out:
        return [(each, each.path) for each in files]
    found = []
    for staged in task.stage_out:
        prefix = staged.source.rstrip("/")
        matching = [each for each in files if each.path == prefix]
        inside = [each for each in files if each.path.startswith(prefix + "/")]
        if not matching and not inside:
            raise InputError(f"the leg left no file {staged.source!r}")
        found += [(each, staged.destination) for each in matching]
        found += [
            (each, str(PurePosixPath(staged.destination) / each.path[len(prefix) + 1 :]))
            for each in inside
        ]
    return found

"""Files and folders to a leg and home from it: many at a time, interrupted ones gone on with.

Eight files are on their way at once: a small one is mostly waiting, and a large one fills the line
by itself. How far it has come is told as it changes, for a bar on the screen. What has arrived of
an interrupted one is kept in a part file at the receiving end, here as there (``gridio.transfers``
has what holds for every transfer).

What comes home never takes the place of another file, unless that was asked for, and never leaves
the folder it belongs to, whatever the site calls it and whatever links lie there.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from rich.filesize import decimal

from gridtravel.gridcore.errors import ConflictError, InputError, UnavailableError
from gridtravel.gridcore.jobs.commands import INTERPRETER_MARK, check_script
from gridtravel.gridcore.jobs.tasks import TaskSpec
from gridtravel.gridcore.ports import PART_SUFFIX, FileStatus, OutputChunk, SitePort
from gridtravel.gridio.sites.transfers import (
    DAMAGED_MAX,
    FRUITLESS_MAX,
    as_announced,
    deliver,
    some_at_once,
    what_is_there,
)
from gridtravel.gridio.system.streams import closing
from gridtravel.travel_agent.local_files import checksum_of
from gridtravel.travel_agent.news import Listener, News, Progress, Step

CHUNK_BYTES: Final = 256 * 1024
FIRST_LINE_BYTES_MAX: Final = 4096
"""Of a script: Linux reads 256."""
_SHA256: Final = re.compile("[0-9a-f]{64}")
PART_NAME_CHARACTERS: Final = 50
"""How much of a file's name its part shows: no name of a file is longer than 255 bytes."""


async def send_all(
    port: SitePort,
    area: str,
    files: Sequence[tuple[Path, str]],
    *,
    place: str,
    listener: Listener,
    known: Mapping[str, FileStatus] | None = None,
    is_new: bool = False,
) -> int:
    """Bring local files to their paths in an area; how many were not there already. ``known``: by
    path at the site, of files that need not be looked at again. ``is_new``: nobody has sent
    anything there yet.
    """
    if not files:
        return 0
    # What an interrupted run has sent, whole or in part.
    there = {} if is_new else await what_is_there(port, area)
    looked_at = known or {}
    counter = _Counter(place, sum(source.stat().st_size for source, _ in files), listener)

    async def send(file: tuple[Path, str]) -> bool:
        source, destination = file
        before = there.get(str(PurePosixPath(destination)))
        status = looked_at.get(destination)
        return await send_file(port, area, source, destination, before, counter.add, status=status)

    sent = sum(await some_at_once(send, files))
    if sent:
        listener(News(step=Step.STAGED, place=place, text=f"{sent} files sent"))
    return sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A file that a leg left, and where it comes to lie on this computer."""

    status: FileStatus
    target: Path
    is_there: bool
    """It lies there already, unharmed: fetched before."""


async def plan_fetch(
    port: SitePort,
    area: str,
    task: TaskSpec | None,
    home: Path,
    folder: str,
    *,
    site: str,
    overwrite: bool,
) -> list[Arrival]:
    """Where the files that a task left in an area would go: what it names, or all, into ``folder``
    below ``home``. Writes nothing.

    ``InputError``: something else lies in the place of a file (unless it is to be overwritten), or
    a link or a file in that of a folder. ``UnavailableError``: the site names a file so that it
    would lie somewhere else.
    """
    there = await port.list_files(area, "", with_checksums=True)
    for each in there:
        _check_inside(each.path, site)
        _check_announced(each, site)
    wanted = _wanted(task, [each for each in there if not each.is_folder])
    try:
        return await asyncio.to_thread(_arrivals, wanted, home, folder, site, overwrite)
    except OSError as fault:
        raise InputError(
            f"cannot look at {home / folder}: {fault.strerror}",
            hint="make room there, or name a place where you may write",
        ) from fault


def check_apart(plans: Sequence[Sequence[Arrival]]) -> None:
    """Refuse plans in which two legs would write the same file: destinations may lead out of the
    folders that keep legs apart.
    """
    seen: dict[Path, None] = {}
    for plan in plans:
        for target in (each.target for each in plan):
            if target in seen:
                raise InputError(
                    f"two legs would write {target}",
                    hint="nothing was fetched; give them different destinations in stage_out",
                )
        seen.update(dict.fromkeys(each.target for each in plan))


def check_size(plans: Sequence[Sequence[Arrival]], folder: Path, bytes_max: int) -> None:
    """Refuse results that are more than the user takes, or than there is room for; blocking. What
    the sites have announced is what they are held to.
    """
    missing = sum(each.status.size_bytes for plan in plans for each in plan if not each.is_there)
    if missing > bytes_max:
        raise InputError(
            f"the results are {decimal(missing)}, and {decimal(bytes_max)} are taken at most",
            hint=f"nothing was fetched; --max-size {missing} takes them",
        )
    above = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    try:
        free = shutil.disk_usage(above).free
    except OSError as fault:
        raise InputError(
            f"cannot look at {above}: {fault.strerror}",
            hint="make room there, or name a place where you may write",
        ) from fault
    if missing > free:
        raise InputError(
            f"the results are {decimal(missing)}, and {above} has room for {decimal(free)}",
            hint="nothing was fetched; make room, or name another folder with --to",
        )


async def fetch_all(
    port: SitePort,
    area: str,
    arrivals: Sequence[Arrival],
    *,
    place: str,
    overwrite: bool,
    listener: Listener,
) -> list[Path]:
    """Bring files home as planned, those that are there already excepted; the paths of all."""
    missing = [each for each in arrivals if not each.is_there]
    counter = _Counter(place, sum(each.status.size_bytes for each in missing), listener)

    async def fetch(one: Arrival) -> None:
        try:
            await receive_file(port, area, one.status, one.target, counter.add, overwrite=overwrite)
        except OSError as fault:
            raise InputError(
                f"cannot write {one.target}: {fault.strerror}",
                hint="make room there, or name a place where you may write",
            ) from fault

    await some_at_once(fetch, missing)
    known = len(arrivals) - len(missing)
    text = f"{len(missing)} files fetched" + (f", {known} were there already" if known else "")
    listener(News(step=Step.STAGED, place=place, text=text))
    return [each.target for each in arrivals]


def check_programs(task: TaskSpec, files: Sequence[tuple[Path, str]]) -> None:
    """Refuse a script that travels with the task, is its command or compiles it, and has a first
    line by which no site could run it.
    """
    started = [PurePosixPath(each[0]) for each in (task.command, task.compile_command) if each]
    for source, destination in files:
        if PurePosixPath(destination) not in started:
            continue
        try:
            with source.open("rb") as file:
                first = file.readline(FIRST_LINE_BYTES_MAX).decode("utf-8", "replace")
        except OSError as fault:
            raise InputError(
                f"cannot read {source}: {fault.strerror}",
                hint="make it readable, or take it out of stage_in",
            ) from fault
        if first.startswith(INTERPRETER_MARK):
            check_script(first, str(source))


# -- one file --------------------------------------------------------------------------------------


async def send_file(
    port: SitePort,
    area: str,
    source: Path,
    destination: str,
    there: FileStatus | None = None,
    passed: Callable[[int], None] = lambda _: None,
    *,
    status: FileStatus | None = None,
) -> bool:
    """Bring ``source`` to ``destination`` in an area of the site; False when it is there already.
    ``status``: as it is to be there, when ``source`` has been looked at before.

    ``there``: what the site has at the destination, with its checksum, or the part of it that
    arrived before. ``passed``: is told of bytes as they leave.
    """
    if status is None:
        try:
            mode, size, checksum = await asyncio.to_thread(_look_at, source)
        except OSError as fault:
            raise InputError(
                f"cannot read {source}: {fault.strerror}",
                hint="make it readable, or take it out of stage_in",
            ) from fault
        status = FileStatus(path=destination, size_bytes=size, mode=mode, sha256=checksum)
    return await deliver(port, area, status, lambda offset: _read(source, offset, passed), there)


async def receive_file(
    port: SitePort,
    area: str,
    status: FileStatus,
    target: Path,
    passed: Callable[[int], None] = lambda _: None,
    *,
    overwrite: bool = False,
) -> None:
    """Bring the file that ``status`` describes to ``target``; ``passed`` is told of bytes as they
    arrive. ``InputError``: something else is there, and it is not to be overwritten.
    ``ConflictError``: what comes is longer than announced; it is cut off, and not kept.
    """
    part = part_of(target, status)
    fruitless = damaged = 0
    while True:
        done = await asyncio.to_thread(_open_part, part, status.size_bytes)
        try:
            await _receive_rest(port, area, status, part, done, passed)
        except UnavailableError:
            fruitless = 0 if part.stat().st_size > done else fruitless + 1
            if fruitless == FRUITLESS_MAX:
                raise
            continue
        except ConflictError:
            part.unlink()
            raise
        if await asyncio.to_thread(checksum_of, part) == status.sha256:
            part.chmod(status.mode & 0o777 | 0o600)
            _put_in_place(part, target, overwrite=overwrite)
            return
        part.unlink()
        damaged += 1
        if damaged == DAMAGED_MAX:
            raise UnavailableError(
                f"{status.path} arrived damaged or changed meanwhile", hint="fetch it again"
            )


def part_of(target: Path, status: FileStatus) -> Path:
    """Where the bytes of a file gather. No other file is called so, not even another version of the
    same one: what is found there can only be the beginning of this.
    """
    version = hashlib.sha256(f"{target.name}\0{status.path}\0{status.sha256}".encode())
    name = f"{target.name[:PART_NAME_CHARACTERS]}.{version.hexdigest()[:16]}{PART_SUFFIX}"
    return target.with_name(name)


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


def _check_inside(path: str, site: str) -> None:
    """Refuse a name from a site that would be written somewhere else than below our folder."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts or "\0" in path:
        raise UnavailableError(
            f"{site} offers a file {path[:60]!r} that leads out of its folder",
            hint="nothing was written; tell whoever runs the site",
        )


def _check_announced(file: FileStatus, site: str) -> None:
    """Refuse a file whose size and content the site does not bind itself to."""
    if file.is_folder:
        return
    if file.size_bytes < 0 or not _SHA256.fullmatch(file.sha256):
        raise UnavailableError(
            f"{site} says no size or no checksum of {file.path[:60]!r}",
            hint="nothing was fetched: what arrives could not be checked; tell whoever runs it",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A file to fetch. Its path here has a part that the user chose and a part from the site."""

    status: FileStatus
    chosen: PurePosixPath
    given: PurePosixPath


def _wanted(task: TaskSpec | None, files: list[FileStatus]) -> list[_Wanted]:
    """Which files to fetch, and to where: those the task names, or all when it names none."""
    if task is None or not task.stage_out:
        home = PurePosixPath()
        return [_Wanted(status=each, chosen=home, given=PurePosixPath(each.path)) for each in files]
    found = []
    for staged in task.stage_out:
        source, destination = PurePosixPath(staged.source), PurePosixPath(staged.destination)
        matching = [each for each in files if PurePosixPath(each.path).is_relative_to(source)]
        if not matching:
            raise InputError(
                f"the leg left no file {staged.source!r}",
                hint="stage_out must name what the job writes; without it all comes home",
            )
        for each in matching:
            below = PurePosixPath(each.path).relative_to(source)
            found.append(_Wanted(status=each, chosen=destination, given=below))
    return found


def _arrivals(
    wanted: Sequence[_Wanted], home: Path, folder: str, site: str, overwrite: bool
) -> list[Arrival]:
    """Where each file goes, once it is sure that it may; blocking."""
    arrivals: dict[Path, Arrival] = {}
    checked: dict[Path, None] = {}
    differing = []
    for each in wanted:
        root, inside = home, PurePosixPath(folder) / each.chosen / each.given
        if each.chosen.is_absolute() or ".." in each.chosen.parts:
            # The user's own way out of the folder; only behind it the site has a say.
            root, inside = home / folder / each.chosen, each.given
        _check_way(root, inside, checked)
        target = root / inside
        known = arrivals.get(target)
        if known is not None and known.status.sha256 != each.status.sha256:
            raise InputError(
                f"{known.status.path!r} and {each.status.path!r} of {site} would both be {target}",
                hint="nothing was fetched; give them different destinations in stage_out",
            )
        is_there = _is_there(target, each.status.sha256)
        if not is_there and os.path.lexists(target):
            if target.is_dir() and not target.is_symlink():
                raise InputError(f"{target} is a folder, and a file of {site} is called so")
            differing.append(target)
        arrivals[target] = Arrival(status=each.status, target=target, is_there=is_there)
    if differing and not overwrite:
        raise _taken(differing)
    for target in arrivals:
        if any(above in arrivals for above in target.parents):
            raise UnavailableError(f"{site} offers a file {target.name!r} inside of a file")
    return list(arrivals.values())


def _is_there(target: Path, checksum: str) -> bool:
    return target.is_file() and not target.is_symlink() and checksum_of(target) == checksum


def _taken(targets: Sequence[Path]) -> InputError:
    """The fault of files in whose place others lie."""
    more = f", and so are {len(targets) - 1} more" if len(targets) > 1 else ""
    return InputError(
        f"{targets[0]} is there already with other content{more}",
        hint="it was left alone; --overwrite replaces it, --to names another folder",
    )


def _check_way(root: Path, inside: PurePosixPath, checked: dict[Path, None]) -> None:
    """Refuse to write where a link lies in the place of a folder: it may lead anywhere. The folder
    ``root`` itself may be a link, since the user has named it.
    """
    for depth in range(1, len(inside.parts)):
        folder = root.joinpath(*inside.parts[:depth])
        if folder in checked:
            continue
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            what = "a link" if folder.is_symlink() else "no folder"
            raise InputError(
                f"{folder} is {what}, and results would be written below it",
                hint="nothing was fetched; move it away, or name another folder with --to",
            )
        checked[folder] = None


async def _receive_rest(
    port: SitePort,
    area: str,
    status: FileStatus,
    part: Path,
    done: int,
    passed: Callable[[int], None],
) -> None:
    announced = as_announced(port.get_file(area, status.path, done), status, done)
    # Opened here and not in a thread: whoever is interrupted meanwhile would leave it open.
    with part.open("r+b") as file:
        file.seek(done)
        async with closing(announced) as chunks:
            async for chunk in chunks:
                file.write(chunk.content)
                passed(len(chunk.content))
        file.flush()
        os.fsync(file.fileno())


def _open_part(part: Path, size_max: int) -> int:
    """Make or keep a part file; returns how many of its bytes count."""
    part.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    done = part.stat().st_size
    if done > size_max:
        os.truncate(part, 0)
        return 0
    return done


def _put_in_place(part: Path, target: Path, *, overwrite: bool) -> None:
    """Give the whole file its name. A hard link is refused where the name exists; a look before a
    rename would leave a gap.
    """
    if overwrite:
        part.replace(target)
        return
    try:
        os.link(part, target)
    except FileExistsError:
        is_same = target.is_file() and checksum_of(target) == checksum_of(part)
        part.unlink()
        if not is_same:
            raise _taken([target]) from None
        return
    except OSError:  # no hard links on this disk
        if os.path.lexists(target):
            raise _taken([target]) from None
        part.rename(target)
        return
    part.unlink()


async def _read(
    path: Path, offset: int, passed: Callable[[int], None]
) -> AsyncIterator[OutputChunk]:
    """The file from ``offset`` on."""
    with path.open("rb") as file:
        file.seek(offset)
        while content := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield OutputChunk(offset=offset, content=content)
            offset += len(content)
            passed(len(content))


def _look_at(path: Path) -> tuple[int, int, str]:
    """Mode, size and checksum."""
    status = path.stat()
    return status.st_mode & 0o777, status.st_size, checksum_of(path)

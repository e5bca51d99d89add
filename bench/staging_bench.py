"""Staging beside scp: one large file and many small ones, by gRPC and through SSH, also
interrupted: targets, row 15.

One real agent, a real sshd, and scp to a folder of its own through the same sshd, taking turns in
one run. Both of ours checksum the file at both ends, which scp does not.
`python -m bench.staging_bench [--bytes N] [--files N] [--turns N]`; `make bench` takes small sizes.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, show
from gridtravel.gridcore.jobs.tasks import StagedFile
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.trust.credentials import load_credential
from gridtravel.travel_agent.local_files import files_of
from gridtravel.travel_agent.news import News
from gridtravel.travel_agent.running.staging import send_all
from tests.support.file_areas import an_area
from tests.support.grid_world import GridWorld, grid_world
from tests.support.sshd_world import Sshd, SshUser

LARGE_BYTES = 100_000_000
SMALL_FILES = 1_000
SMALL_BYTES = 1_024
TURNS = 3
BLOCK = bytes(range(256)) * 4096


@dataclass
class Scene:
    """A site, the two ways to it, and what is sent."""

    grid: GridWorld
    user: SshUser
    ways: dict[str, SiteConnection]
    large: Path
    small: Path
    far: Path
    turns: int

    def scp(self, source: Path) -> None:
        """The same by scp, with the same cipher and server."""
        target = f"{self.user.alias}:{self.far}"
        command = ["scp", "-q", "-r", "-F", str(self.user.config), str(source), target]
        subprocess.run(command, check=True)
        shutil.rmtree(self.far)
        self.far.mkdir()

    def clear(self) -> None:
        """Delete what has arrived, so that disks need not hold it all."""
        for area in (self.grid.folder.site("beta") / "state" / "areas").glob("*"):
            shutil.rmtree(area)


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Seconds that ``work`` takes."""
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


async def stage(scene: Scene, way: str, source: Path) -> None:
    """Send a file or folder into an area of its own."""
    area = await an_area(scene.ways[way], scene.grid)
    files = files_of(StagedFile(source=str(source), destination="in"), source.parent)
    await send_all(scene.ways[way].site, area, files, place=way, listener=lambda _: None)


async def stage_in_two(scene: Scene, way: str, source: Path) -> None:
    """The same, interrupted in the middle and gone on with."""
    port = scene.ways[way].site
    area = await an_area(scene.ways[way], scene.grid)
    files = files_of(StagedFile(source=str(source), destination="in"), source.parent)

    def stop(news: News) -> None:
        if news.progress and news.progress.bytes_done * 2 >= news.progress.bytes_total:
            task.cancel()

    task = asyncio.create_task(send_all(port, area, files, place=way, listener=stop))
    await asyncio.gather(task, return_exceptions=True)
    await send_all(port, area, files, place=way, listener=lambda _: None)


async def compare(scene: Scene, label: str, source: Path) -> list[Figure]:
    """Every way in turn, as often as there are turns; medians beside that of scp."""
    times: dict[str, list[float]] = {}

    async def by_scp() -> None:
        await asyncio.to_thread(scene.scp, source)

    works: dict[str, Callable[[], Awaitable[object]]] = {"scp": by_scp}
    for way in scene.ways:
        works[way] = lambda way=way: stage(scene, way, source)  # type: ignore[misc]
        works[f"{way}, interrupted and resumed"] = lambda way=way: stage_in_two(  # type: ignore[misc]
            scene, way, source
        )
    for _ in range(scene.turns):
        for name, work in works.items():
            times.setdefault(name, []).append(await timed(work))
            scene.clear()
    base = statistics.median(times["scp"])
    targets = {"grpc": (1.0, 0.7), "ssh": (1.2, 1.0)} if source == scene.large else {}
    figures = [Figure(name=f"{label}: scp", value=base, unit="s")]
    for name in list(works)[1:]:
        must, aim = targets.get(name, (None, None))
        ratio = statistics.median(times[name]) / base
        figures.append(
            Figure(name=f"{label}: {name}", value=ratio, unit="of scp", must=must, aim=aim)
        )
    return figures


async def measure_in(scene: Scene, label_large: str, label_small: str) -> list[Figure]:
    """All figures of one scene."""
    credential = load_credential(scene.grid.folder.user("ada") / "credential")
    scene.ways = {
        "grpc": GrpcSite(scene.grid.endpoint("beta"), credential, site="beta"),
        "ssh": scene.user.connect(
            scene.grid.folder.site("beta") / "state" / "agent.sock", site="beta"
        ),
    }
    try:
        large = await compare(scene, label_large, scene.large)
        return [*large, *await compare(scene, label_small, scene.small)]
    finally:
        for each in scene.ways.values():
            await each.close()


def measure(
    large_bytes: int = LARGE_BYTES, small_files: int = SMALL_FILES, turns: int = TURNS
) -> list[Figure]:
    """Row 15 of the targets, and the same for many small files."""
    with tempfile.TemporaryDirectory() as name, grid_world() as grid:
        folder = Path(name)
        large, small, far = folder / "large.dat", folder / "small", folder / "far"
        with large.open("wb") as stream:
            for _ in range(max(1, large_bytes // len(BLOCK))):
                stream.write(BLOCK)
        small.mkdir()
        far.mkdir()
        for number in range(small_files):
            (small / f"{number:06}.dat").write_bytes(str(number).encode().ljust(SMALL_BYTES))
        sshd = Sshd(folder / "sshd")
        sshd.start()
        try:
            user = SshUser(folder / "user", sshd)
            scene = Scene(
                grid=grid, user=user, ways={}, large=large, small=small, far=far, turns=turns
            )
            labels = (f"{large.stat().st_size >> 20} MiB", f"{small_files} files of 1 KiB")
            return asyncio.run(measure_in(scene, *labels))
        finally:
            sshd.kill()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Staging beside scp.")
    parser.add_argument("--bytes", type=int, default=LARGE_BYTES, help="of the large file")
    parser.add_argument("--files", type=int, default=SMALL_FILES, help="how many small files")
    parser.add_argument("--turns", type=int, default=TURNS, help="of every way")
    chosen = parser.parse_args(arguments)
    show(measure(chosen.bytes, chosen.files, chosen.turns))


if __name__ == "__main__":
    main()

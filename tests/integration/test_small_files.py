"""A folder of many small files to a site and home again, over both transports, also interrupted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gridtravel.gridcore.jobs.tasks import StagedFile
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.travel_agent.local_files import files_of
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.running.staging import fetch_all, plan_fetch, send_all
from tests.support.file_areas import an_area
from tests.support.grid_world import GridWorld

pytestmark = pytest.mark.integration

COUNT = 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many small files, some of them deeper."""
    root = tmp_path_factory.mktemp("small") / "in"
    for number in range(COUNT):
        path = root / f"{number % 7}" / f"{number:05}.dat"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(str(number).encode() * (number % 50 + 1))
    return root


def contents(root: Path) -> dict[str, bytes]:
    """Everything below a folder."""
    files = (each for each in root.rglob("*") if each.is_file())
    return {str(each.relative_to(root)): each.read_bytes() for each in files}


async def test_many_small_files_there_and_back(
    connection: SiteConnection,
    grid: GridWorld,
    folder: Path,
    tmp_path: Path,
) -> None:
    """Interrupted in the middle, the next run sends only what is missing; likewise on the way home;
    what comes home is what went out.
    """
    area = await an_area(connection, grid)
    files = files_of(StagedFile(source=str(folder), destination="data"), tmp_path)
    heard: list[News] = []

    def enough(news: News) -> None:
        heard.append(news)
        if len(heard) == COUNT // 3:
            task.cancel()

    task = asyncio.create_task(
        send_all(connection.site, area, files, place="beta", listener=enough)
    )
    with pytest.raises(asyncio.CancelledError):
        await task
    heard.clear()
    sent = await send_all(connection.site, area, files, place="beta", listener=heard.append)
    assert COUNT // 2 < sent < COUNT
    assert heard[-1].step is Step.STAGED
    again = await send_all(connection.site, area, files, place="beta", listener=heard.append)
    assert again == 0

    async def home() -> list[Path]:
        plan = await plan_fetch(
            connection.site, area, None, tmp_path, "home", site="beta", overwrite=False
        )
        return await fetch_all(
            connection.site, area, plan, place="beta", overwrite=False, listener=enough
        )

    heard.clear()
    task = asyncio.create_task(home())  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 0 < len(contents(tmp_path / "home")) < COUNT
    heard.clear()
    assert len(await home()) == COUNT
    assert contents(tmp_path / "home" / "data") == contents(folder)

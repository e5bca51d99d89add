"""``gur`` before a site that lies: its words stay words, and its files are what it announced, or
are not there.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.strange_site import FORGED, PIECE, StrangeScene, a_strange_scene

pytestmark = pytest.mark.integration

OFFERED_BYTES_MAX = 200 * len(PIECE)
"""What a cut-off stream may have given to the network before it noticed."""


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[StrangeScene]:
    """The site and the laptop."""
    async with a_strange_scene(tmp_path) as made:
        yield made


async def test_a_refusal_is_shown_as_text(scene: StrangeScene) -> None:
    """Nothing of it is acted upon, nothing of it is left out, and no line is forged."""
    scene.site.declines = True
    screen = await scene.at_terminal("quote", str(scene.metajob()))
    assert (screen.code, screen.acting) == (3, [])
    assert f"\\r\\x1b[9;9H{FORGED}" in screen.text
    assert "\\u202egnp.exe" in screen.text


async def test_a_fault_is_shown_as_text(scene: StrangeScene) -> None:
    """The message, and the hint below it."""
    scene.site.conflicts = True
    screen = await scene.at_terminal("quote", str(scene.metajob()))
    assert screen.code != 0
    assert screen.acting == []
    assert FORGED in screen.text


async def test_a_jobs_output_and_its_end_are_shown_as_text(scene: StrangeScene) -> None:
    """On the board of a screen too, and in the status afterwards."""
    booked = await scene.at_terminal("book", str(scene.metajob()))
    assert (booked.code, booked.acting) == (0, [])
    await scene.job_ends(f"fine\r{FORGED}\x1b]0;owned\x07\u202e\n".encode())
    watched = await scene.at_terminal("watch", "trip")
    assert (watched.code, watched.acting) == (1, [])
    assert f"fine\\r{FORGED}\\x1b]0;owned\\x07\\u202e" in watched.text
    told = await scene.at_terminal("status", "trip")
    assert told.acting == []
    assert FORGED in told.text


@pytest.mark.parametrize("words", [["\x1b]0;owned\x07\u202e"], ["book", "no\r\u202esuch"]])
async def test_wrong_words_are_shown_as_text(scene: StrangeScene, words: list[str]) -> None:
    """What a script passed on from somewhere."""
    screen = await scene.at_terminal(*words)
    assert (screen.code, screen.acting) == (2, [])


async def booked(scene: StrangeScene) -> Path:
    """A trip is there to fetch; the folder its files would come to."""
    assert (await scene.at_terminal("book", str(scene.metajob()))).code == 0
    return scene.folder / "home"


def brought(home: Path) -> list[str]:
    """Every file that lies there."""
    return [each.name for each in home.rglob("*") if each.is_file()]


async def test_a_file_is_cut_off_at_its_announced_size(scene: StrangeScene) -> None:
    """Five bytes were announced and a thousand million come: not five are kept."""
    home = await booked(scene)
    scene.announce("five", 5, b"12345")
    screen = await scene.at_terminal("fetch", "trip", "--to", str(home))
    assert screen.code == 1
    assert "longer than the 5 bytes" in screen.text
    assert "fetched" not in screen.text
    assert brought(home) == []
    assert scene.site.sent_bytes <= OFFERED_BYTES_MAX


async def test_what_has_no_checksum_is_not_fetched(scene: StrangeScene) -> None:
    """It could not be told from anything else; nothing is asked for."""
    home = await booked(scene)
    scene.announce("sumless", len(PIECE), None)
    screen = await scene.at_terminal("fetch", "trip", "--to", str(home))
    assert screen.code == 4
    assert "sumless" in screen.text
    assert (brought(home), scene.site.sent_bytes) == ([], 0)


async def test_more_than_the_user_takes_is_not_fetched(scene: StrangeScene) -> None:
    """The sum of what was announced counts, before a byte is asked for; a size is spelled right."""
    home = await booked(scene)
    for name in ("a", "b"):
        scene.announce(name, 600_000, bytes(600_000))
    words = ("fetch", "trip", "--to", str(home), "--max-size")
    screen = await scene.at_terminal(*words, "1MB")
    assert screen.code == 2
    assert "--max-size 1200000" in screen.text
    for wrong in ("-1", "lots", ""):
        assert (await scene.at_terminal(*words, wrong)).code == 2
    assert (brought(home), scene.site.sent_bytes) == ([], 0)


async def test_more_than_the_disk_holds_is_not_fetched(scene: StrangeScene) -> None:
    """A site that announces more than there is room for is asked for nothing."""
    home = await booked(scene)
    scene.announce("huge", shutil.disk_usage(scene.folder).total + 1, b"")
    screen = await scene.at_terminal("fetch", "trip", "--to", str(home), "--max-size", "9000PB")
    assert screen.code == 2
    assert "has room for" in screen.text
    assert (home.exists(), scene.site.sent_bytes) == (False, 0)

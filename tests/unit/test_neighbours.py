"""The ways from one site to the others: under cards alone, one to each, with pauses that grow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any, cast

import pytest

from gridtravel.gridcore.booking.reservations import Acceptor
from gridtravel.gridcore.errors import DeadlineError, GridError, InputError, UnavailableError
from gridtravel.gridcore.jobs.handovers import Handover
from gridtravel.gridcore.trips.trip_consensus import Phase, VoteQuestion
from gridtravel.gridio.sites.connections import (
    IdentityNotProvenError,
    SiteConnection,
    UnreachableError,
)
from gridtravel.gridio.sites.neighbours import PAUSE_FIRST_S, PAUSE_MAX_S, Neighbours
from gridtravel.gridio.system.clock import ManualClock
from tests.support.cards import CARDS, an_acceptor

NOW = 10_000
QUESTION = VoteQuestion(instance="trip-1/1", phase=Phase.LEARN)


class Line:
    """A connection that answers, or says its fault."""

    def __init__(self, scene: Scene, site: str, endpoint: str) -> None:
        self.scene = scene
        self.made_for = (site, endpoint)
        self.is_closed = False
        self.calls = 0

    @property
    def calendar(self) -> Line:
        """Itself."""
        return self

    @property
    def site(self) -> Line:
        """Itself."""
        return self

    async def vote(self, question: VoteQuestion) -> str:
        """Answers who and where it is."""
        self.calls += 1
        assert not self.is_closed
        await self.scene.gate.wait()
        if self.scene.fault is not None:
            raise self.scene.fault
        return self.made_for[1]

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[str]:
        """Two pieces."""
        yield "one"
        assert not self.is_closed
        yield "two"

    async def close(self) -> None:
        """It is over."""
        assert not self.is_closed
        self.is_closed = True


class SetClock(ManualClock):
    """A clock that somebody sets."""

    def set_back(self, seconds: float) -> None:
        """It was wrong."""
        self._now -= seconds


class Scene:
    """One site's ways, and what becomes of them."""

    def __init__(self) -> None:
        self.clock = SetClock(NOW + 86_400)
        self.lines: list[Line] = []
        self.fault: GridError | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.ways = Neighbours("lab", CARDS, self._connect, self.clock)

    def _connect(self, site: str, endpoint: str) -> SiteConnection:
        self.lines.append(Line(self, site, endpoint))
        return cast(SiteConnection, self.lines[-1])

    async def turns(self) -> None:
        """Whoever waits gets his turns."""
        for _ in range(20):
            await self.clock.sleep_until(0)

    async def asked(self, named: Acceptor) -> Any:
        """What comes of a question to ``named``; a fault of the grid instead of an answer."""
        try:
            return await self.ways.way_to(named).calendar.vote(QUESTION)
        except GridError as fault:
            return fault


@pytest.fixture
def scene() -> Scene:
    """A scene in which everybody answers."""
    return Scene()


def card(site: str, endpoint: str, *, now: int = NOW, lifetime_s: int = 200_000) -> str:
    """A card of the grid."""
    return CARDS.issue(site, endpoint, now, lifetime_s=lifetime_s)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (Acceptor(site="a", endpoint="a:1"), "there is none of a"),
        (Acceptor(site="a", endpoint="a:1", card=card("b", "b:1")), "b speaks in it"),
        (Acceptor(site="a", endpoint="a:1", card="card1.x.y.z"), "does not hold"),
        (
            Acceptor(site="a", endpoint="a:1", card=card("a", "a:1", now=NOW - 50, lifetime_s=50)),
            "expired",
        ),
        (Handover(leg="first", site="a", endpoint="a:1"), "there is none of a"),
    ],
)
def test_what_no_card_proves_is_refused(scene: Scene, named: Any, words: str) -> None:
    """When it comes in, with the reason, and before anybody connects anywhere."""
    with pytest.raises(InputError, match=words) as caught:
        scene.ways.check([an_acceptor("b"), named], NOW)
    assert caught.value.hint
    assert scene.lines == []


def test_what_cards_prove_is_taken(scene: Scene) -> None:
    """Whatever the user wrote beside them; this site itself needs no way to itself."""
    scene.ways.check([an_acceptor("a"), Acceptor(site="lab", endpoint="")], NOW)
    scene.ways.check([], NOW)


async def test_nothing_connects_to_what_a_user_wrote(scene: Scene) -> None:
    """The card says where, not what stands beside it."""
    named = Acceptor(site="a", endpoint="victim.example.org:22", card=card("a", "a:7101"))
    assert await scene.asked(named) == "a:7101"
    assert [line.made_for for line in scene.lines] == [("a", "a:7101")]


async def test_one_connection_however_many_trips_name_a_site(scene: Scene) -> None:
    """With as many addresses as a user can think of."""
    for number in range(65):
        named = Acceptor(site="a", endpoint=f"127.0.0.1:{1000 + number}", card=card("a", "a:1"))
        assert await scene.asked(named) == "a:1"
    assert len(scene.lines) == 1
    await scene.ways.close()
    assert scene.lines[0].is_closed


async def test_a_site_of_which_nobody_has_a_card_is_silent(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a journal of an older release: nobody is asked, and the log says so. Once another trip
    has brought its card, it is asked for both.
    """
    old = Acceptor(site="a", endpoint="a:1")
    with caplog.at_level(logging.WARNING):
        found = await scene.asked(old)
    assert isinstance(found, UnreachableError)
    assert "a is not asked" in caplog.text
    assert scene.lines == []
    assert await scene.asked(an_acceptor("a")) == "a:1"
    assert await scene.asked(old) == "a:1"


async def test_a_card_that_does_not_hold_is_silence(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """As when the grid's authority was exchanged after the hold was taken."""
    with caplog.at_level(logging.WARNING):
        found = await scene.asked(Acceptor(site="a", endpoint="a:1", card="card1.x.y.z"))
    assert isinstance(found, UnavailableError)
    assert "not asked under this card" in caplog.text
    assert scene.lines == []


async def test_a_card_that_was_taken_in_time_stays_good(scene: Scene) -> None:
    """A trip is booked months ahead, and certificates are renewed meanwhile."""
    assert await scene.asked(an_acceptor("a")) == "a:1"
    named = Acceptor(site="b", endpoint="", card=card("b", "b:1", lifetime_s=10))
    with pytest.raises(InputError, match="expired"):
        scene.ways.check([named], scene.clock.now())
    assert await scene.asked(named) == "b:1"


async def test_a_site_that_has_moved_is_asked_where_it_is_now(scene: Scene) -> None:
    """The later card holds, in whatever order they come, and the old connection ends."""
    here = Acceptor(site="a", endpoint="", card=card("a", "here:1", now=NOW))
    there = Acceptor(site="a", endpoint="", card=card("a", "there:1", now=NOW + 1))
    assert await scene.asked(here) == "here:1"
    assert await scene.asked(there) == "there:1"
    assert await scene.asked(here) == "there:1"
    assert [line.made_for[1] for line in scene.lines] == ["here:1", "there:1"]


async def test_a_connection_in_use_ends_with_its_last_call(scene: Scene) -> None:
    """What was asked before the site moved is still answered."""
    scene.gate.clear()
    here = Acceptor(site="a", endpoint="", card=card("a", "here:1", now=NOW))
    asked = asyncio.ensure_future(scene.asked(here))
    await scene.turns()
    there = Acceptor(site="a", endpoint="", card=card("a", "there:1", now=NOW + 1))
    moved = asyncio.ensure_future(scene.asked(there))
    await scene.turns()
    assert not scene.lines[0].is_closed
    scene.gate.set()
    assert [await asked, await moved] == ["here:1", "there:1"]
    assert [line.is_closed for line in scene.lines] == [True, False]


@pytest.mark.parametrize(
    "fault", [UnreachableError("no route"), IdentityNotProvenError("eve", hint="")]
)
async def test_pauses_grow_while_a_site_cannot_be_reached(scene: Scene, fault: GridError) -> None:
    """However often it is asked for: doubling pauses up to the longest, one attempt after each,
    and no connection is left to try on its own meanwhile.
    """
    scene.fault = fault
    begun: list[float] = []
    while scene.clock.now_precise() < NOW + 86_460:
        before = len(scene.lines)
        for _ in range(65):
            found = await scene.asked(an_acceptor("a"))
            assert isinstance(found, GridError)
            assert found.message == fault.message
        if len(scene.lines) > before:
            begun.append(scene.clock.now_precise())
        assert all(line.is_closed for line in scene.lines)
        assert all(line.calls == 1 for line in scene.lines)
        scene.clock.advance(0.5)
    pauses = [later - each for each, later in pairwise(begun)]
    assert pauses[0] == PAUSE_FIRST_S
    assert sorted(pauses) == pauses
    assert pauses[-1] == PAUSE_MAX_S
    assert len(scene.lines) == len(begun) < 20


async def test_a_site_that_is_back_is_asked_as_before(scene: Scene) -> None:
    """After the pause that was begun; the next trouble begins with the shortest one again."""
    scene.fault = UnreachableError("down")
    for _ in range(4):
        await scene.asked(an_acceptor("a"))
        scene.clock.advance(PAUSE_MAX_S)
    scene.fault = None
    assert await scene.asked(an_acceptor("a")) == "a:1"
    scene.fault = UnreachableError("down again")
    await scene.asked(an_acceptor("a"))
    scene.fault = None
    scene.clock.advance(PAUSE_FIRST_S)
    assert await scene.asked(an_acceptor("a")) == "a:1"


async def test_many_who_fail_at_once_begin_one_pause(scene: Scene) -> None:
    """They used one connection."""
    scene.fault = UnreachableError("down")
    await asyncio.gather(*(scene.asked(an_acceptor("a")) for _ in range(20)))
    assert len(scene.lines) == 1
    scene.clock.advance(PAUSE_FIRST_S)
    await scene.asked(an_acceptor("a"))
    assert len(scene.lines) == 2


async def test_other_faults_end_no_connection(scene: Scene) -> None:
    """A slow site, and one that says that it is busy, are reached."""
    for fault in (DeadlineError("slow"), UnavailableError("full"), InputError("no")):
        scene.fault = fault
        assert await scene.asked(an_acceptor("a")) is fault
    assert len(scene.lines) == 1
    assert not scene.lines[0].is_closed


async def test_a_clock_that_was_set_back_makes_no_pause_longer(scene: Scene) -> None:
    """Else a site would be out of reach for as long as the clock was wrong."""
    scene.fault = UnreachableError("down")
    await scene.asked(an_acceptor("a"))
    scene.clock.set_back(86_400)
    scene.fault = None
    assert await scene.asked(an_acceptor("a")) == "a:1"


async def test_files_come_by_the_same_way(scene: Scene) -> None:
    """Also to the end when the site moves meanwhile; one who stops reading leaves nothing open."""
    giver = Handover(leg="first", site="a", card=card("a", "here:1"))
    pieces = []
    async for piece in scene.ways.way_to(giver).site.get_file("area", "path", 0):
        pieces.append(piece)
        there = Handover(leg="first", site="a", card=card("a", "there:1", now=NOW + 1))
        if len(pieces) == 1:
            await scene.ways.way_to(there).calendar.vote(QUESTION)
    assert cast("list[Any]", pieces) == ["one", "two"]
    assert scene.lines[0].is_closed
    await scene.ways.close()
    assert all(line.is_closed for line in scene.lines)

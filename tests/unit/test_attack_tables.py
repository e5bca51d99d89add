"""What strangers try (``tests.support.attacks``) leaves out no verb of a site."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import SimpleNamespace

from gridtravel.gridcore.booking.reservations import TripRef
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridcore.trips.trip_consensus import Phase
from tests.support.attacks import TRIES, attacks
from tests.support.cards import an_acceptor

OTHERWISE = {
    "calendar.describe": "tells what everybody may know",
    "calendar.inquire": "changes nothing and names nobody",
    "calendar.subscribe": "tells free capacity",
    "calendar.vote": "``attacks``",
    "calendar.release_request": "ids of requests are known by their owner (test_strangers)",
    "site.reservations": "shows others' without who and what (test_strangers)",
    "site.jobs": "shows others' without who and what (test_strangers)",
}
"""Verbs that are no try of the table, with the reason."""


class Nothing:
    """The answer to any verb: nothing to wait for, and a stream that is over."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield

    def __aiter__(self) -> Nothing:
        return self

    async def __anext__(self) -> object:
        raise StopAsyncIteration


class Recorder:
    """A port that notes which verb was called."""

    def __init__(self, name: str, called: set[str]) -> None:
        self._name = name
        self._called = called

    def __getattr__(self, verb: str) -> Callable[..., Nothing]:
        """A verb."""
        self._called.add(f"{self._name}.{verb}")
        return lambda *arguments, **named: Nothing()


def verbs(name: str, port: type) -> set[str]:
    """All of a port's."""
    return {f"{name}.{verb}" for verb in vars(port) if not verb.startswith("_")}


async def test_every_verb_is_tried() -> None:
    """A verb that is new in a port needs its try, or the reason why a stranger may say it."""
    called: set[str] = set()
    at = SimpleNamespace(calendar=Recorder("calendar", called), site=Recorder("site", called))
    trip = SimpleNamespace(trip_id="trip-1", start=2_000, end=3_000)
    for attempt in TRIES.values():
        await attempt(at, trip, "lab.1", "1.lab")  # type: ignore[arg-type]
    there = verbs("calendar", CalendarPort) | verbs("site", SitePort)
    assert called | set(OTHERWISE) == there
    assert not called & set(OTHERWISE)


def test_every_kind_of_vote_is_tried() -> None:
    """Each phase, on an attempt, its cancellation and a leg's readiness."""
    trip = TripRef(
        trip_id="trip-1", leg="one", participants=("lab",), acceptors=(an_acceptor("lab"),)
    )
    tried = list(attacks(trip).values())
    assert {each.phase for each in tried} == set(Phase)
    asked = {each.instance for each in tried}
    assert asked == {trip.instance, trip.cancellation, trip.readiness("one")}

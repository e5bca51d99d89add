"""Whether a committed leg of a trip runs: when its site asks, how long, and what it does then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.reservations import ReservationEvent, TripLeg, TripRef
from gridtravel.gridcore.trips.registers import CHECK_BEFORE_S, CLOCKS_APART_S
from gridtravel.gridcore.trips.trip_consensus import Phase
from tests.support.party_scenes import (
    ABORT,
    BEGIN,
    COMMIT,
    KEEPERS,
    TOGETHER,
    TRIP,
    Scene,
    pauses_of,
    play,
)
from tests.support.virtual_time import START

LATE_S = 25
"""So long after its start a leg may still begin (docs/protocol.md, section 3)."""


# -- whether a leg runs ----------------------------------------------------------------------------


def test_only_legs_of_trips_that_others_keep_are_asked_about() -> None:
    """What is no leg, and what one book decides, begins by itself."""
    scene = Scene()
    for trip in (None, replace(TRIP, acceptors=())):
        leg = scene.leg("alone", trip)
        assert not scene.party.must_ask(leg)
        scene.party.note_committed(leg)
        assert scene.party.next_due() is None
    assert scene.party.must_ask(scene.leg())


@pytest.mark.parametrize(
    ("site", "before_s"), [("a", 10), ("b", 9), ("d", 7), ("f", 5), ("h", 5), ("elsewhere", 10)]
)
def test_a_leg_is_asked_about_from_ten_seconds_before_its_start(site: str, before_s: int) -> None:
    """A second later at each participant, so that the first one settles it for all; never later
    than five seconds before. A child of a manager is no participant by name. Who keeps nothing has
    it settled when the keepers' clocks, which may be behind, say that it is time.
    """
    settled_by = BEGIN - before_s
    if site not in KEEPERS:
        settled_by = max(settled_by, BEGIN - CHECK_BEFORE_S + CLOCKS_APART_S)

    async def story(scene: Scene) -> None:
        scene.party.note_committed(scene.leg("later", start=BEGIN + 50))
        scene.party.note_committed(scene.leg())
        assert scene.party.next_due() == BEGIN - before_s
        await scene.live(BEGIN - before_s - 1)
        assert not any(each.asked for each in scene.keepers.values())
        await scene.live(settled_by + 1)
        assert list(scene.book.begun) == ["leg"]
        assert min(scene.asked(TRIP.cancellation, Phase.SETTLE, Phase.PREPARE)) >= settled_by
        assert await scene.chosen(TRIP.cancellation) is ABORT
        assert scene.party.next_due() == BEGIN + 50 - before_s
        assert scene.book.ended == {}

    play(story, site)


def test_what_is_no_leg_any_more_is_not_asked_about() -> None:
    """Released meanwhile, forgotten, known to run already, or moved to a later time."""

    async def story(scene: Scene) -> None:
        legs = [scene.leg(name) for name in ("released", "gone", "running", "moved")]
        for each in legs:
            scene.party.note_committed(each)
        scene.book.change("released", ReservationEvent.RELEASE)
        del scene.book.legs["gone"]
        scene.book.begun["running"] = START
        scene.leg("moved", start=BEGIN + 1000)
        await scene.live(BEGIN + LATE_S)
        assert not any(each.asked for each in scene.keepers.values())

    play(story)


def test_two_legs_of_a_trip_at_one_site_are_asked_about_side_by_side() -> None:
    """Neither waits for the other, however long its answer takes."""

    async def story(scene: Scene) -> None:
        other = replace(TRIP, attempt=7)
        for name, trip in (("one", TRIP), ("two", TRIP), ("three", other)):
            scene.party.note_committed(scene.leg(name, trip))
        scene.cut_off(lambda question: question.instance == other.cancellation)
        await scene.live(BEGIN - 2)
        assert set(scene.book.begun) == {"three"}
        scene.cut_off(lambda _: True)
        await scene.live(BEGIN)
        assert set(scene.book.begun) == {"one", "two", "three"}

    play(story)


def test_a_leg_of_a_cancelled_trip_is_released() -> None:
    """With the reason, and its site does not ask about anything else."""

    async def story(scene: Scene) -> None:
        await scene.choose(TRIP.cancellation, COMMIT)
        scene.party.note_committed(scene.leg())
        await scene.live(BEGIN)
        event, reason, at = scene.book.ended["leg"]
        assert event is ReservationEvent.RELEASE
        assert "cancelled" in reason
        assert at < BEGIN - 5
        assert scene.book.begun == {}

    play(story)


@pytest.mark.parametrize(("duration_s", "late_s"), [(300, LATE_S), (20, 20)])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_site_that_was_away_too_long_does_not_begin(
    duration_s: int, late_s: int, is_late: bool
) -> None:
    """It asks until 25 s after the start or the leg's end, and from then on it lets go of the leg
    without a question.
    """

    async def story(scene: Scene) -> None:
        start = START - late_s + (0 if is_late else 1)
        trip = replace(TRIP, legs=(TripLeg(leg="la", site="a", start=start),))
        leg = scene.leg(trip=trip, start=start, duration_s=duration_s)
        scene.party.note_committed(leg)
        await scene.live(START + 1)
        if is_late:
            event, reason, _ = scene.book.ended["leg"]
            assert event is ReservationEvent.RELEASE
            assert "nobody was here" in reason
            assert scene.asked(TRIP.cancellation) == []
        else:
            assert scene.book.ended == {}
        assert bool(scene.book.begun) is not is_late

    play(story)


@pytest.mark.parametrize("trip", [TRIP, TOGETHER])
def test_who_hears_nobody_asks_until_the_last_second(trip: TripRef) -> None:
    """Then a leg that begins for itself begins, and one that begins with the others does not. The
    pauses between the questions are at most a second.
    """

    async def story(scene: Scene) -> None:
        scene.cut_off()
        scene.party.note_committed(scene.leg(trip=trip))
        await scene.live(BEGIN + LATE_S - 1)
        assert (scene.book.begun, scene.book.ended) == ({}, {})
        await scene.live(BEGIN + LATE_S + 1)
        if trip is TRIP:
            assert scene.book.begun == {"leg": BEGIN + LATE_S}
        else:
            event, reason, at = scene.book.ended["leg"]
            assert (event, at) == (ReservationEvent.RELEASE, BEGIN + LATE_S)
            assert "nobody could be asked" in reason
        asked = scene.asked(trip.cancellation, Phase.LEARN)
        pauses = pauses_of(asked)
        assert 0.25 <= min(pauses) <= max(pauses) <= 1
        assert 20 < len(asked) < 100

    play(story)


def test_legs_begin_together_when_all_of_that_start_are_ready() -> None:
    """As soon as it is known, and without asking about those that start later."""

    async def story(scene: Scene) -> None:
        scene.party.note_committed(scene.leg(trip=TOGETHER))
        await scene.choose(TOGETHER.readiness("la"), COMMIT)
        await scene.live(BEGIN - 3)
        assert (scene.book.begun, scene.book.ended) == ({}, {})
        assert await scene.chosen(TOGETHER.readiness("lb")) is None
        await scene.choose(TOGETHER.readiness("lb"), COMMIT)
        await scene.live(BEGIN - 1)
        assert list(scene.book.begun) == ["leg"]
        assert scene.asked(TOGETHER.readiness("lc")) == []

    play(story)


@pytest.mark.parametrize("ready", ["la", "lb"])
def test_no_leg_begins_when_one_of_them_is_not_ready(ready: str) -> None:
    """That is settled at the start by the keepers' clocks, which may be behind that of a site that
    keeps nothing, and not sooner; the user is told which leg it was.
    """

    async def story(scene: Scene) -> None:
        missing = "lb" if ready == "la" else "la"
        scene.party.note_committed(scene.leg(trip=TOGETHER))
        await scene.choose(TOGETHER.readiness(ready), COMMIT)
        await scene.live(BEGIN + LATE_S + 5)
        event, reason, at = scene.book.ended["leg"]
        assert event is ReservationEvent.RELEASE
        assert f"leg {missing} " in reason
        assert BEGIN <= at < BEGIN + CLOCKS_APART_S + 1
        assert scene.book.begun == {}
        assert await scene.chosen(TOGETHER.readiness(missing)) is ABORT
        assert min(scene.asked(TOGETHER.readiness(missing), Phase.SETTLE)) >= BEGIN

    play(story)


def test_who_cannot_learn_whether_the_others_are_ready_does_not_begin() -> None:
    """The line broke after it was known that the trip was not cancelled."""

    async def story(scene: Scene) -> None:
        scene.cut_off(lambda question: "/ready/" not in question.instance)
        scene.party.note_committed(scene.leg(trip=TOGETHER))
        await scene.live(BEGIN + LATE_S + 5)
        event, reason, at = scene.book.ended["leg"]
        assert (event, at) == (ReservationEvent.RELEASE, BEGIN + LATE_S)
        assert "nobody could be asked" in reason

    play(story)


@pytest.mark.parametrize("trip", [TRIP, TOGETHER])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_leg_that_was_released_meanwhile_is_left_alone(trip: TripRef, is_cancelled: bool) -> None:
    """While the keepers could not be heard its owner has let it go: nothing is done about it, and
    nobody is asked any more.
    """

    async def story(scene: Scene) -> None:
        scene.cut_off()
        scene.party.note_committed(scene.leg(trip=trip))
        await scene.live(BEGIN - 5)
        if is_cancelled:
            await scene.choose_unheard(trip.cancellation)
        scene.book.change("leg", ReservationEvent.RELEASE)
        scene.cut_off(lambda _: True)
        for each in scene.keepers.values():
            each.asked.clear()
        await scene.live(BEGIN + LATE_S + 5)
        assert (scene.book.begun, scene.book.ended) == ({}, {})
        assert len(scene.asked(trip.cancellation)) <= 1

    play(story)


# -- legs that are ready ---------------------------------------------------------------------------


def test_a_leg_says_that_it_is_ready_when_it_is() -> None:
    """Once, when its commit is on the disk, and again until a majority has heard it."""

    async def story(scene: Scene) -> None:
        question = TOGETHER.readiness("la")
        scene.cut_off()
        scene.party.note_committed(scene.leg(trip=TOGETHER))
        await scene.live(START + 20)
        assert scene.asked(question) == []
        scene.book.ready.add("leg")
        await scene.live(START + 40)
        assert scene.book.flushed_at == [START + 20]
        asked = scene.asked(question, Phase.ACCEPT)
        assert asked[0] == START + 20
        pauses = pauses_of(asked)
        assert pauses == [0.5, 1, 2, 4, 8]
        scene.cut_off(lambda _: True)
        await scene.live(START + 60)
        assert await scene.chosen(question) is COMMIT
        last = len(scene.asked(question))
        await scene.live(BEGIN - 20)
        assert len(scene.asked(question)) == last

    play(story, "a")


def test_legs_of_two_attempts_say_it_side_by_side() -> None:
    """Two of one trip at a site, and one that still says it for an attempt that was changed."""

    async def story(scene: Scene) -> None:
        later = replace(TOGETHER, attempt=2)
        second = replace(TOGETHER, leg="lb", legs=(*_all_at("a"),))
        first = replace(second, leg="la")
        scene.book.ready.update(("one", "two"))
        scene.cut_off(lambda question: question.instance.endswith("/lb"))
        old = scene.leg("one", first)
        scene.party.note_committed(old)
        scene.party.note_committed(scene.leg("two", second))
        await scene.live(START + 5)
        assert await scene.chosen(second.readiness("lb")) is COMMIT
        new = scene.leg("one", replace(later, legs=(*_all_at("a"),)))
        scene.party.note_moved(old, new)
        scene.cut_off(lambda question: question.instance == later.readiness("la"))
        await scene.live(START + 10)
        assert await scene.chosen(later.readiness("la")) is COMMIT

    play(story, "a")


def _all_at(site: str) -> tuple[TripLeg, ...]:
    return tuple(replace(each, site=site) for each in TRIP.legs)


def test_who_was_outbid_says_no_more() -> None:
    """It was settled that the leg was not ready."""

    async def story(scene: Scene) -> None:
        question = TOGETHER.readiness("la")
        await scene.choose(question, ABORT)
        scene.book.ready.add("leg")
        scene.party.note_committed(scene.leg(trip=TOGETHER))
        await scene.live(START + 20)
        assert len(scene.asked(question, Phase.ACCEPT)) == 1

    play(story, "a")


@pytest.mark.parametrize(
    "why", ["each for itself", "released", "gone", "too late", "a part", "another's leg"]
)
def test_who_says_nothing(why: str) -> None:
    """A leg that begins for itself; one that is over; one whose time to begin is; and what a
    manager holds in parts, for which the manager speaks.
    """

    async def story(scene: Scene) -> None:
        trip = {
            "each for itself": TRIP,
            "a part": replace(TOGETHER, leg="part"),
            "another's leg": replace(TOGETHER, leg="lb"),
        }.get(why, TOGETHER)
        start = START + 5 - LATE_S if why == "too late" else BEGIN
        scene.party.note_committed(scene.leg(trip=trip, start=start))
        scene.cut_off()
        await scene.live(START + 5)
        if why == "released":
            scene.book.change("leg", ReservationEvent.RELEASE)
        if why == "gone":
            del scene.book.legs["leg"]
        scene.book.ready.add("leg")
        await scene.live(START + 10)
        assert not any("/ready/" in each.instance for _, each in scene.keepers["a"].asked)
        assert scene.book.flushed_at == []

    play(story, "a")


@pytest.mark.parametrize("why", ["released", "too late"])
def test_a_leg_stops_saying_it_when_it_is_over(why: str) -> None:
    """It was released, or its time to begin has gone by: the next pause ends in that second."""

    async def story(scene: Scene) -> None:
        scene.cut_off()
        scene.book.ready.add("leg")
        scene.party.note_committed(scene.leg(trip=TOGETHER, start=START + 15 - LATE_S))
        await scene.live(START + 5)
        if why == "released":
            scene.book.change("leg", ReservationEvent.RELEASE)
        await scene.live(START + 80)
        asked = [at - START for at in scene.asked(TOGETHER.readiness("la"), Phase.ACCEPT)]
        times = 6 if why == "released" else 16
        assert asked == [0, 0.5, *(1.5 + number for number in range(times - 2))]

    play(story, "a")

"""What a site does about changes, holds and copies whose outcome it has to find out from others."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.reservations import ReservationEvent, TripRef
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, Outcome, Phase, VoteQuestion
from gridtravel.gridio.sites.trip_voting import TripVoting
from tests.support.party_scenes import (
    ABORT,
    BEGIN,
    COMMIT,
    DOUBT_MAX_S,
    MANIFEST,
    NEXT,
    SITES,
    TRIP,
    Scene,
    now,
    pauses_of,
    play,
)
from tests.support.virtual_time import START

# -- changes of a leg ------------------------------------------------------------------------------


def test_an_open_change_of_a_leg_is_settled_first() -> None:
    """While it is open the leg is not asked about; in its new form it is, before its new start."""

    async def story(scene: Scene) -> None:
        change = scene.hold(trip=NEXT, expires_at=BEGIN - 15, start=BEGIN + 60, replaces="leg")
        scene.book.replacing["leg"] = change
        scene.party.note_committed(scene.leg())
        scene.cut_off(lambda question: question.instance != NEXT.instance)
        await scene.live(BEGIN - 4)
        assert scene.asked(TRIP.cancellation) == []
        assert scene.party.in_doubt == {"hold"}
        await scene.choose_unheard(NEXT.instance, ABORT)
        scene.cut_off(lambda _: True)
        await scene.live(BEGIN)
        assert scene.book.ended["hold"][0] is ReservationEvent.EXPIRE
        assert scene.asked(TRIP.cancellation)
        assert list(scene.book.begun) == ["leg"]

    play(story)


@pytest.mark.parametrize("why", ["nobody else keeps it", "the leg has begun"])
def test_a_change_that_cannot_be_settled_any_more_is_not_waited_for(why: str) -> None:
    """One that its own site decides; one that is open when the old start has come."""

    async def story(scene: Scene) -> None:
        is_own = why == "nobody else keeps it"
        trip = replace(NEXT, acceptors=()) if is_own else NEXT
        change = scene.hold(trip=trip, expires_at=BEGIN, start=BEGIN + 60, replaces="leg")
        scene.book.replacing["leg"] = change
        scene.party.note_committed(scene.leg())
        scene.cut_off(lambda question: question.instance != NEXT.instance)
        await scene.live(BEGIN - 4)
        assert (list(scene.book.begun) == ["leg"]) is is_own
        await scene.live(BEGIN + 2)
        if not is_own:
            assert scene.book.begun == {"leg": BEGIN}

    play(story)


@pytest.mark.parametrize("new_start", [BEGIN + 5, BEGIN + 60])
@pytest.mark.parametrize("is_heard", [True, False])
def test_a_leg_in_its_new_form_is_not_touched_by_what_becomes_of_the_old(
    new_start: int, is_heard: bool
) -> None:
    """The question about the old attempt was under way: its answer is nobody's business any more,
    and about the new one it is asked in time, also while nobody answers about the old.
    """

    async def story(scene: Scene) -> None:
        for each in scene.keepers.values():
            each.hangs = lambda question: question.instance == TRIP.cancellation and not is_heard
        scene.cut_off()
        old = scene.leg()
        scene.party.note_committed(old)
        await scene.live(BEGIN - 5)
        new = scene.leg(trip=NEXT, start=new_start)
        scene.party.note_moved(old, new)
        if is_heard:
            await scene.choose_unheard(TRIP.cancellation)
        scene.cut_off(lambda question: question.instance == NEXT.cancellation)
        await scene.live(BEGIN - 2)
        scene.cut_off(lambda _: True)
        await scene.live(new_start)
        assert scene.book.ended == {}
        assert new_start - 10 <= scene.book.begun["leg"] < new_start

    play(story)


@pytest.mark.parametrize(
    ("before", "after", "is_called_off"),
    [
        (TRIP, replace(NEXT, participants=SITES[:-1]), True),
        (TRIP, NEXT, False),
        (TRIP, replace(NEXT, participants=(*SITES, "i")), False),
        (TRIP, replace(TRIP, participants=SITES[:-1]), False),
        (replace(TRIP, acceptors=()), replace(NEXT, participants=SITES[:-1]), False),
        (TRIP, None, False),
        (None, NEXT, False),
    ],
)
@pytest.mark.parametrize("late_s", [0, 1])
def test_an_attempt_that_left_a_site_behind_is_called_off(
    before: TripRef | None, after: TripRef | None, is_called_off: bool, late_s: int
) -> None:
    """The site that was left out asks about the old attempt before its start; from then on nobody
    does. Where none was left out there is nothing to call off.
    """

    async def story(scene: Scene) -> None:
        old = scene.leg("leg", before, start=START + 1 - late_s)
        new = scene.leg("leg", after, start=BEGIN + 100)
        scene.party.note_moved(old, new)
        await scene.live(START + 1)
        expected = COMMIT if is_called_off and not late_s else None
        assert await scene.chosen(TRIP.cancellation) is expected
        for each in scene.keepers.values():
            each.asked.clear()
        await scene.live(START + 20)
        assert not any(each.asked for each in scene.keepers.values()), "once is enough"

    play(story)


def test_two_attempts_that_were_left_are_called_off_side_by_side() -> None:
    """Until it is known, and not again."""

    async def story(scene: Scene) -> None:
        trips = [TRIP, replace(TRIP, attempt=5)]
        for number, trip in enumerate(trips):
            after = replace(NEXT, attempt=9, participants=SITES[:1])
            old = scene.leg(f"leg-{number}", trip)
            scene.party.note_moved(old, scene.leg(f"leg-{number}", after, start=BEGIN + 900))
        scene.cut_off()
        await scene.live(BEGIN - 60)
        scene.cut_off(lambda _: True)
        await scene.live(BEGIN - 40)
        assert [await scene.chosen(trip.cancellation) for trip in trips] == [COMMIT, COMMIT]
        asked = len(scene.keepers["a"].asked)
        await scene.live(BEGIN - 10)
        assert len(scene.keepers["a"].asked) == asked

    play(story)


def test_calling_off_ends_with_the_old_start() -> None:
    """Nobody asks about that attempt later."""

    async def story(scene: Scene) -> None:
        old = scene.leg()
        new = scene.leg(trip=replace(NEXT, participants=SITES[:1]), start=BEGIN + 900)
        scene.party.note_moved(old, new)
        scene.cut_off()
        await scene.live(BEGIN + 60)
        assert BEGIN - 8 <= max(scene.asked(TRIP.cancellation)) <= BEGIN
        assert scene.background.names == []

    play(story)


# -- holds in doubt --------------------------------------------------------------------------------


def test_a_hold_in_doubt_is_committed_with_its_trip() -> None:
    """With what came with the commit; asked once, however often it is said to be in doubt."""

    async def story(scene: Scene) -> None:
        await scene.choose(TRIP.instance, COMMIT, MANIFEST)
        hold = scene.hold(expires_at=START)
        for _ in range(2):
            scene.party.settle_soon(hold)
            assert scene.party.in_doubt == {"hold"}
        await scene.live(START + 5)
        assert scene.book.committed == {"hold": MANIFEST}
        assert scene.book.ended == {}
        assert scene.party.in_doubt == set()
        assert len(scene.asked(TRIP.instance)) == 1

    play(story)


def test_a_hold_in_doubt_whose_trip_nobody_decided_lets_go() -> None:
    """That is chosen first, so that no other leg hears anything else."""

    async def story(scene: Scene) -> None:
        scene.party.settle_soon(scene.hold(expires_at=START))
        scene.party.settle_soon(scene.hold("beside", trip=NEXT, expires_at=START))
        await scene.live(START + 5)
        for name in ("hold", "beside"):
            assert scene.book.ended[name][0] is ReservationEvent.EXPIRE
        assert await scene.chosen(TRIP.instance) is ABORT
        assert scene.book.committed == {}
        assert scene.party.in_doubt == set()

    play(story)


@pytest.mark.parametrize(
    ("expires_at", "start", "ends_at"),
    [
        (START - 20, BEGIN, START - 20 + DOUBT_MAX_S),
        (START, START + 30, START + 30),
        (None, START + 40, START + 40),
    ],
)
def test_a_doubt_has_an_end(expires_at: int | None, start: int, ends_at: int) -> None:
    """The owner's bound beyond the hold's lifetime, or the start if that is sooner. Then the hold
    is withdrawn. The pauses grow to eight seconds, and none goes beyond the end.
    """

    async def story(scene: Scene) -> None:
        scene.cut_off()
        scene.party.settle_soon(scene.hold(expires_at=expires_at, start=start))
        await scene.live(BEGIN)
        event, _, at = scene.book.ended["hold"]
        assert (event, at) == (ReservationEvent.WITHDRAW, ends_at)
        assert scene.party.in_doubt == set()
        asked = scene.asked(TRIP.instance, Phase.LEARN)
        pauses = pauses_of(asked)
        longest = [0.5, 1, 2, 4, 8, 8, 8, 8, 8, 8, 8, 8]
        fraction = pauses[0] / longest[0]
        assert 0.5 <= fraction <= 1
        assert len(pauses) >= 5
        for pause, most in zip(pauses, longest, strict=False):
            assert pause == pytest.approx(most * fraction)

    play(story)


def test_a_doubt_that_began_again_outbids_what_it_said_before() -> None:
    """Each round has a higher ballot of its own, also where this site keeps the outcome itself."""

    async def story(scene: Scene) -> None:
        scene.cut_off(lambda question: question.phase is not Phase.ACCEPT)
        scene.party.settle_soon(scene.hold(expires_at=START))
        await scene.live(START + 20)
        ballots = [
            each.ballot for _, each in scene.keepers["b"].asked if each.phase is Phase.PREPARE
        ]
        assert {each.proposer for each in ballots} == {"a:run:1"}
        assert [each.round for each in ballots] == list(range(1, len(ballots) + 1))
        assert not any(each.phase is Phase.SETTLE for _, each in scene.keepers["b"].asked)

    play(story, "a")


def test_two_that_are_in_doubt_do_not_wait_the_same_time() -> None:
    """Nor does one site about two trips: they would outbid each other for ever."""
    pauses = set()
    for site, trip in (("a", TRIP), ("b", TRIP), ("a", NEXT), ("b", NEXT)):

        async def story(scene: Scene, trip: TripRef = trip) -> None:
            scene.cut_off()
            scene.party.settle_soon(scene.hold(expires_at=START, trip=trip))
            await scene.live(START + 3)
            first, second, *_ = scene.asked(trip.instance, Phase.LEARN)
            pauses.add(round(second - first, 3))

        play(story, site)
    assert len(pauses) == 4


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
@pytest.mark.parametrize("event", [ReservationEvent.COMMIT, ReservationEvent.RELEASE])
def test_a_hold_that_is_decided_meanwhile_is_left_alone(
    outcome: Outcome, event: ReservationEvent
) -> None:
    """By its traveller, while the keepers were asked."""

    async def story(scene: Scene) -> None:
        scene.cut_off()
        scene.party.settle_soon(scene.hold(expires_at=START))
        await scene.live(START + 5)
        await scene.choose_unheard(TRIP.instance)
        scene.book.change("hold", event)
        if outcome is COMMIT:
            scene.cut_off(lambda _: True)
        await scene.live(BEGIN)
        assert (scene.book.committed, scene.book.ended) == ({}, {})
        assert scene.party.in_doubt == set()
        assert len(scene.asked(TRIP.instance)) < 10, "nobody asks on"

    play(story)


def test_a_hold_that_is_decided_while_the_answer_comes_is_left_alone() -> None:
    """The last answer arrives when it is over."""

    async def story(scene: Scene) -> None:
        await scene.choose(TRIP.instance, COMMIT)
        scene.party.settle_soon(scene.hold(expires_at=START))
        answer = scene.keepers["b"].vote

        async def overtaken(question: VoteQuestion) -> AcceptorAnswer:
            if scene.book.is_open("hold"):
                scene.book.change("hold", ReservationEvent.RELEASE)
            return await answer(question)

        scene.keepers["b"].vote = overtaken  # type: ignore[method-assign]
        await scene.live(START + 5)
        assert (scene.book.committed, scene.book.ended) == ({}, {})

    play(story)


# -- after a withdrawal ----------------------------------------------------------------------------


@pytest.mark.parametrize("replaces", [None, "leg"])
@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_a_trip_that_was_decided_after_all_is_cancelled_whole(
    replaces: str | None, outcome: Outcome
) -> None:
    """Without the withdrawn leg it is not whole. The leg that the hold was to change is no part of
    it in its old form either.
    """

    async def story(scene: Scene) -> None:
        scene.leg()
        hold = scene.hold(trip=NEXT, expires_at=START, replaces=replaces)
        scene.book.change("hold", ReservationEvent.WITHDRAW)
        scene.cut_off()
        scene.party.note_withdrawn(hold)
        await scene.live(BEGIN + 60)
        scene.cut_off(lambda _: True)
        await scene.choose(NEXT.instance, outcome)
        await scene.live(BEGIN + 80)
        is_whole = outcome is ABORT
        assert await scene.chosen(NEXT.cancellation) is (None if is_whole else COMMIT)
        assert set(scene.book.ended) == ({"leg"} if replaces and not is_whole else set())
        if scene.book.ended:
            event, reason, _ = scene.book.ended["leg"]
            assert event is ReservationEvent.RELEASE
            assert "changed" in reason

    play(story)


def test_two_withdrawals_are_followed_side_by_side() -> None:
    """Each once, and until its trip's end."""

    async def story(scene: Scene) -> None:
        for name, trip in (("one", TRIP), ("two", NEXT)):
            scene.party.note_withdrawn(scene.hold(name, trip=trip, expires_at=START))
        scene.cut_off()
        await scene.live(BEGIN)
        await scene.choose_unheard(TRIP.instance)
        await scene.choose_unheard(NEXT.instance)
        scene.cut_off(lambda _: True)
        await scene.live(BEGIN + 20)
        assert await scene.chosen(TRIP.cancellation) is COMMIT
        assert await scene.chosen(NEXT.cancellation) is COMMIT
        asked = len(scene.asked(TRIP.instance))
        await scene.live(BEGIN + 60)
        assert len(scene.asked(TRIP.instance)) == asked

    play(story)


@pytest.mark.parametrize(("ends_in_s", "is_asked"), [(0, False), (1, True)])
def test_nobody_asks_about_a_trip_that_is_over(ends_in_s: int, is_asked: bool) -> None:
    """Whoever kept its outcome may have forgotten it."""

    async def story(scene: Scene) -> None:
        trip = replace(TRIP, ends_at=START + ends_in_s)
        scene.cut_off()
        scene.party.note_withdrawn(scene.hold(trip=trip, expires_at=START - 60))
        await scene.live(START + 30)
        asked = scene.asked(TRIP.instance)
        assert bool(asked) is is_asked
        assert not asked or max(asked) <= START + 1
        assert scene.background.names == []

    play(story)


# -- copies in a race ------------------------------------------------------------------------------

RACE = Race(
    trip_id="race-1",
    copy="two",
    copies=("one", "two"),
    sites=("a", "d"),
    acceptors=TRIP.acceptors,
    ends_at=BEGIN,
)


@pytest.mark.parametrize("has_won", [True, False])
def test_a_copy_asks_until_it_knows_whether_it_runs(has_won: bool) -> None:
    """With pauses that grow to five seconds."""

    async def story(scene: Scene) -> None:
        scene.cut_off()
        claim = asyncio.ensure_future(scene.party.claim(RACE, lambda: True))
        await scene.live(START + 60)
        assert not claim.done()
        asked = scene.asked(RACE.question("one"), Phase.LEARN)
        pauses = pauses_of(asked)
        longest = [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5]
        fraction = pauses[0] / longest[0]
        assert 0.5 <= fraction <= 1
        for pause, most in zip(pauses, longest, strict=False):
            assert pause == pytest.approx(most * fraction)
        assert len(pauses) >= len(longest)
        scene.cut_off(lambda _: True)
        if not has_won:
            voting = TripVoting(RACE.question("one"), scene.keepers, "z:run:1")
            assert await voting.settle(COMMIT) is COMMIT
        assert await claim is has_won

    play(story)


def test_a_copy_that_nobody_wants_any_more_does_not_run() -> None:
    """Its job was cancelled while the keepers could not be heard, or before they were asked."""

    async def story(scene: Scene) -> None:
        assert not await scene.party.claim(RACE, lambda: False)
        assert not any(each.asked for each in scene.keepers.values())
        scene.cut_off()
        assert not await scene.party.claim(RACE, lambda: now() < START + 30)
        assert START + 25 < max(scene.asked(RACE.question("one"))) < START + 35

    play(story)

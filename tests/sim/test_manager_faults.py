"""What single children do wrong, and what a manager makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
)
from gridtravel.gridcore.errors import InputError, NotAuthorisedError, UnavailableError
from gridtravel.gridio.journal.memory import WriteStage
from gridtravel.gridio.sites.background import BackgroundTasks
from gridtravel.manager.shadows.children import Standing
from tests.support.child_site import ChildSite
from tests.support.manager_world import SOON, World, a_wish, a_world, booked, held
from tests.support.virtual_time import run_virtually

Carry = Callable[[str, str, Callable[[], Awaitable[Any]]], Awaitable[Any]]


def stuck(*at: tuple[str, str]) -> Carry:
    """These verbs of these children are never answered."""

    async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
        if (child, verb) in at:
            await asyncio.Event().wait()
        return await work()

    return carry


def test_a_child_that_hangs_is_waited_for_within_a_bound() -> None:
    """Its silence costs its share of the answer and a bounded time, for inquiry and hold alike."""

    async def scene() -> None:
        sites = [ChildSite(name, 4) for name in "abc"]
        async with a_world(*sites) as world:
            world.network.carry = stuck(("a", "inquire"), ("b", "reserve"))
            began = world.clock.now_precise()
            (answer,) = await world.ada.inquire([a_wish(nodes=(1, 20))])
            assert isinstance(answer, Availability)
            assert answer.offers[0].nodes == 8
            assert world.clock.now_precise() - began < 4
            world.network.carry = stuck(("b", "reserve"))
            group = await held(world.ada, a_wish(nodes=8))
            assert "b" not in [part.site for part in group.parts]
            assert world.clock.now_precise() - began < 12
            await world.ada.commit(group.reservation_id)
            await world.passes(90)
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_child_that_does_not_describe_itself_is_lost() -> None:
    """A manager cannot wait for ever to learn who its child is; callers wait for the first look
    only, and then are told who is missing.
    """

    async def scene() -> None:
        world = World([ChildSite("a"), ChildSite("b")])
        world.network.carry = stuck(("b", "describe"))
        world.start()
        (answer,) = await world.ada.inquire([a_wish(nodes=8)])
        assert isinstance(answer, Decline)
        assert answer.rule is DeclineRule.TOO_LARGE
        assert "not in reach: b" in answer.message
        await world.passes(5)
        assert world.manager.keeper.children["b"].standing is Standing.LOST
        await world.close()

    run_virtually(scene)


def test_a_long_answer_is_cut_and_asked_on_behind() -> None:
    """Children bound their answers, and so does the manager; what they are silent about is asked
    for until there is an offer, and an answer says up to where it is complete.
    """

    async def scene() -> None:
        a, b = ChildSite("a", 4), ChildSite("b", 4)
        for site in (a, b):
            site.calendar.rules = replace(site.calendar.rules, offers_max=3)
        async with a_world(a, b) as world:
            for number in range(12):
                a.book(1 + number % 3, SOON + 10 * number, SOON + 10 * number + 10)
            await world.passes(1)
            wish = a_wish(nodes=8, duration_s=10, earliest=SOON, until=SOON + 1000)
            (answer,) = await world.ada.inquire([wish])
            assert isinstance(answer, Availability)
            assert answer.offers[0].start == SOON + 120
            world.manager.inquirer._rules = replace(
                world.manager.inquirer._rules,
                calendar=replace(world.manager.inquirer._rules.calendar, offers_max=2),
            )
            (cut,) = await world.ada.inquire([replace(wish, nodes_min=1)])
            assert isinstance(cut, Availability)
            assert len(cut.offers) == 2
            assert cut.known_until == cut.offers[-1].start_until
            group = await booked(world.ada, wish)
            assert group.start == SOON + 120

    run_virtually(scene)


def test_children_that_know_nobody_are_not_said_to_be_away() -> None:
    """When every child refuses for good what asking again would not cure, that is what is told."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:

            async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
                if verb == "inquire":
                    raise NotAuthorisedError(f"ada is mapped to no account at {child}", hint="")
                return await work()

            world.network.carry = carry
            with pytest.raises(NotAuthorisedError, match="no account"):
                await world.ada.inquire([a_wish()])

            async def away(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
                raise UnavailableError(f"{child} is out")

            world.network.carry = away
            with pytest.raises(UnavailableError, match="a is out"):
                await world.ada.inquire([a_wish()])

    run_virtually(scene)


@pytest.mark.parametrize("how", ["fewer", "refuses", "limits"])
def test_a_child_whose_holds_do_not_match_its_word_is_left_out(how: str) -> None:
    """It holds something else than was asked, is not allowed to hold, or refuses each time what it
    offers: its part is undone, and the plans that follow go without it.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b"), ChildSite("c")) as world:

            async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
                if (child, verb) != ("a", "reserve"):
                    return await work()
                if how == "fewer":
                    answer = await work()
                    assert isinstance(answer, Reservation)
                    return replace(answer, nodes=answer.nodes - 1)
                if how == "refuses":
                    raise NotAuthorisedError("not you", hint="")
                rule = DeclineRule.LIMIT_RESERVATIONS
                return Decline(rule=rule, message="you have enough", site="a")

            world.network.carry = carry
            group = await booked(world.ada, a_wish())
            assert [part.site for part in group.parts] == ["b", "c"]
            assert world.network.calls["a", "reserve"] <= 2
            await world.passes(1)
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_when_all_refuse_for_the_same_reason_that_is_the_reason() -> None:
    """A limit that each child names is not turned into a lack of room."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:

            async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
                if verb != "inquire":
                    return await work()
                rule = DeclineRule.LIMIT_DURATION
                return [Decline(rule=rule, message=f"{child}: at most 10 s", site=child)]

            world.network.carry = carry
            (answer,) = await world.ada.inquire([a_wish()])
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.LIMIT_DURATION
            assert "a: at most 10 s" in answer.message

    run_virtually(scene)


def test_a_manager_that_does_not_run_books_nothing() -> None:
    """Before its start and after its end it is unavailable, and says so."""

    async def scene() -> None:
        world = World([ChildSite("a")])
        with pytest.raises(UnavailableError, match="not running"):
            await world.ada.reserve(a_wish(nodes=1), ttl_s=20)
        world.start()
        await world.passes(1)
        world.network.carry = stuck(("a", "reserve"))
        asking = asyncio.create_task(world.ada.reserve(a_wish(nodes=1), ttl_s=20))
        await world.passes(0.1)
        await world.close()
        with pytest.raises(UnavailableError, match="stopping"):
            await asking

    run_virtually(scene)


def test_a_journal_that_fails_ends_the_manager() -> None:
    """What is applied may be ahead of the disk, so nothing more is answered; the daemon has to
    start again.
    """

    async def scene() -> None:
        def full(stage: WriteStage, _: object) -> None:
            if stage is WriteStage.BEFORE:
                raise OSError("no space left on device")

        world = World([ChildSite("a")], on_write=full)
        world.start()
        await world.passes(1)
        with pytest.raises(UnavailableError):
            await world.ada.reserve(a_wish(nodes=1), ttl_s=20)
        assert world._task is not None
        results = await asyncio.gather(world._task, return_exceptions=True)
        assert isinstance(results[0], ExceptionGroup)
        world.sites["a"].sweep()
        await world.close()

    run_virtually(scene)


def test_a_defect_in_one_errand_is_told_to_who_waits_for_it_and_to_nobody_else() -> None:
    """The other errands go on."""

    async def scene() -> None:
        background = BackgroundTasks()

        async def broken() -> None:
            raise ZeroDivisionError

        async def sound() -> str:
            return "done"

        async with background.open():
            with pytest.raises(ZeroDivisionError):
                await background.single_flight("broken", broken)
            assert await background.single_flight("sound", sound) == "done"

    run_virtually(scene)


def test_a_child_that_was_taken_out_of_the_configuration_is_still_owed() -> None:
    """What it was promised to be told is kept, in case it comes back."""

    async def scene() -> None:
        world = World([ChildSite("a"), ChildSite("b")])
        world.start()
        await world.passes(0.5)
        group = await booked(world.ada, a_wish(start=SOON + 900))
        world.sites["b"].is_up = False
        await world.ada.release(group.reservation_id)
        await world.crash()
        b = world.sites.pop("b")
        world.revive()
        await world.passes(30)
        assert [part.child for part in world.manager.book.owed.values()] == ["b"]
        await world.crash()
        b.restart()
        world.sites["b"] = b
        world.revive()
        await world.passes(12)
        world.assert_whole_or_absent()
        await world.close()

    run_virtually(scene)


def test_a_price_that_rose_since_the_quote_is_not_paid() -> None:
    """With a budget each child is held to what it offered; it declines, and the next plan knows the
    new price.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a", 4, hourly=60), ChildSite("b", 4, hourly=60)) as world:
            prices = world.sites["a"].calendar

            async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
                answer = await work()
                if (child, verb) == ("a", "inquire"):
                    prices.tariff = ChildSite("x", hourly=6000).calendar.tariff
                return answer

            world.network.carry = carry
            answer = await world.ada.reserve(a_wish(budget_millicredits=10), ttl_s=20)
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.BUDGET
            await world.passes(1)
            world.assert_whole_or_absent()
            assert not world.sites["b"].of_manager(ReservationState.HELD)

    run_virtually(scene)


def test_several_windows_are_one_message_a_child() -> None:
    """Several windows in one call stay one call downwards."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            world.network.calls.clear()
            wishes = [a_wish(f"w{n}", start=SOON + 100 * n) for n in range(5)]
            answers = await world.ada.inquire(wishes)
            assert all(isinstance(each, Availability) for each in answers)
            assert world.network.count() == 2

    run_virtually(scene)


def test_a_reservation_cannot_be_amended_by_an_id_in_use() -> None:
    """A request id says one thing."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            group = await booked(world.ada, a_wish())
            with pytest.raises(InputError, match="used for another"):
                await world.ada.amend(group.reservation_id, a_wish(nodes=3))

    run_virtually(scene)

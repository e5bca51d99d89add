"""Shadows follow their owners; a child that cannot be right is isolated, and the rest goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.booking.summaries import CalendarSummary, CalendarVersion, SummaryDelta
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.ports import SiteDescription
from gridtravel.manager.shadows.children import Child, Standing
from gridtravel.manager.shadows.keeper import KeeperRules, ShadowKeeper
from tests.support.child_site import ChildSite
from tests.support.manager_world import SOON, World, a_wish, a_world, booked
from tests.support.virtual_time import LoopClock, run_virtually


def standing(world: World, name: str) -> tuple[Standing, str]:
    """How the manager stands with a child, and why."""
    child = world.manager.keeper.children[name]
    return child.standing, child.reason


def free_at_soon(world: World, name: str) -> int:
    """What the shadow shows at ``SOON``."""
    summary = world.manager.keeper.children[name].shadow.summary
    assert summary is not None
    slots = [each for each in summary.classes[0].slots if each.start <= SOON < each.end]
    return slots[0].free_min if slots else summary.classes[0].capacity


def test_a_shadow_follows_every_change() -> None:
    """News of a child reach its shadow by themselves, and its age is known."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4)) as world:
            assert free_at_soon(world, "a") == 4
            world.sites["a"].book(3, SOON, SOON + 10)
            await world.passes(0.2)
            assert free_at_soon(world, "a") == 1
            child = world.manager.keeper.children["a"]
            assert child.age_s(world.clock.now() + 7) == 7

    run_virtually(scene)


def test_a_restarted_child_is_subscribed_to_again() -> None:
    """While it is away its shadow stays and ages; when it is back, in a new epoch, a full summary
    replaces the shadow.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            a = world.sites["a"]
            a.is_up = False
            a.publisher.changed()
            await world.passes(40)
            assert standing(world, "a")[0] is Standing.LOST
            assert standing(world, "b")[0] is Standing.IN_STEP
            age_s = world.manager.keeper.children["a"].age_s(world.clock.now())
            assert age_s is not None
            assert age_s >= 40
            a.restart()
            a.book(2, SOON, SOON + 10)
            await world.passes(KeeperRules().retry_max_s + 1)
            assert standing(world, "a") == (Standing.IN_STEP, "")
            assert free_at_soon(world, "a") == 2

    run_virtually(scene)


def test_pauses_between_attempts_grow_and_are_bounded() -> None:
    """A child that stays away is tried ever more rarely, up to a bound."""

    async def scene() -> None:
        async with a_world(ChildSite("a")) as world:
            world.sites["a"].is_up = False
            world.sites["a"].publisher.changed()
            world.network.calls.clear()
            await world.passes(600)
            tries = world.network.calls["a", "describe"]
            assert 600 / KeeperRules().retry_max_s <= tries <= 600 / KeeperRules().retry_max_s + 8

    run_virtually(scene)


def test_a_gap_is_healed_by_a_full_summary() -> None:
    """A change that does not follow on what is known is not applied; the child is asked for all."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4)) as world:
            child = world.manager.keeper.children["a"]
            known = child.shadow.summary
            assert known is not None
            child.shadow.summary = replace(known, version=CalendarVersion("epoch-0", -5))
            world.sites["a"].book(4, SOON, SOON + 10)
            await world.passes(1)
            assert child.gaps == 1
            assert free_at_soon(world, "a") == 0
            assert standing(world, "a") == (Standing.IN_STEP, "")

    run_virtually(scene)


def test_a_silent_child_is_lost() -> None:
    """A subscription that says nothing for three heartbeats is dead, whatever the network says."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            rules = world.manager.keeper.rules
            quiet = world.sites["a"].publisher

            ordinary = quiet.subscribe
            asked: list[float] = []

            async def never() -> AsyncIterator[CalendarSummary | SummaryDelta]:
                asked.append(world.clock.now_precise())
                async for news in ordinary():
                    yield news
                    await world.passes(10_000)

            world.sites["a"].publisher.subscribe = never  # type: ignore[method-assign]
            quiet._heartbeat_s = 10_000.0
            await world.passes(3 * rules.silence_max_s + 40)
            assert len(asked) >= 2
            assert standing(world, "b")[0] is Standing.IN_STEP
            await booked(world.ada, a_wish(nodes=2, start=world.clock.now() + 100))

    run_virtually(scene)


def _wrong_site(site: ChildSite) -> None:
    site.announces = "elsewhere"


def _wrong_clock(site: ChildSite) -> None:
    site.clock.offset_s = 3600.0


def _late_clock(site: ChildSite) -> None:
    site.clock.offset_s = -60.0


def _foreign_summary(site: ChildSite) -> None:
    site.spoil_summary = lambda made: replace(made, site="elsewhere")


def _contradiction(site: ChildSite) -> None:
    def spoil(made: CalendarSummary) -> CalendarSummary:
        (only,) = made.classes
        return replace(made, classes=(only, only))

    site.spoil_summary = spoil


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_wrong_site, "it announces itself as 'elsewhere'"),
        (_wrong_clock, "its clock is 3600.0 s ahead, more than 5 s"),
        (_late_clock, "its clock is 60.0 s behind, more than 5 s"),
        (_foreign_summary, "a summary of 'elsewhere' was sent for 'a'"),
        (_contradiction, "names a resource class twice"),
    ],
)
def test_a_child_that_cannot_be_right_is_isolated(
    spoil: Callable[[ChildSite], None], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another site's name, a clock that is far off, a summary that contradicts itself: nothing of
    that child is used, the log and the description say why, and the others go on. When it is right
    again it is taken back.
    """

    async def scene() -> None:
        a, b = ChildSite("a"), ChildSite("b")
        spoil(a)
        async with a_world(a, b) as world:
            assert standing(world, "a")[0] is Standing.ISOLATED
            assert reason in standing(world, "a")[1]
            children = (await world.ada.describe()).children
            assert children[0].startswith("a (isolated: ")
            assert children[1] == "b"
            assert [each.nodes for each in (await world.ada.describe()).classes] == [4]
            await booked(world.ada, a_wish(nodes=4))
            assert not a.events
            a.announces, a.spoil_summary, a.clock.offset_s = "a", None, 0.0
            await world.passes(KeeperRules().isolation_s + 1)
            assert standing(world, "a") == (Standing.IN_STEP, "")

    run_virtually(scene)
    assert any("isolated" in record.getMessage() for record in caplog.records)


def _describing(monkeypatch: pytest.MonkeyPatch, site: ChildSite, **others: Any) -> None:
    real = type(site).calendar_port

    def calendar_port(self: ChildSite, caller: Any) -> Any:
        port = real(self, caller)
        if self is site:
            truth = port.describe

            async def describe() -> SiteDescription:
                return replace(await truth(), **others)

            port.describe = describe  # type: ignore[method-assign]
        return port

    monkeypatch.setattr(type(site), "calendar_port", calendar_port)


def test_a_cycle_is_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child below which this manager itself stands would be asked for ever."""

    async def scene() -> None:
        a = ChildSite("a")
        _describing(monkeypatch, a, children=("x", "x/north (lost: away)"))
        async with a_world(a, ChildSite("b")) as world:
            assert standing(world, "a") == (
                Standing.ISOLATED,
                "north is below it: the managers form a cycle",
            )
            await booked(world.ada, a_wish(nodes=3))

    run_virtually(scene)


def test_a_site_that_is_there_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same site by way of two children would be promised twice; the child that stands later in
    the configuration is isolated, whichever was heard first.
    """

    async def scene() -> None:
        a, b = ChildSite("a"), ChildSite("b")
        _describing(monkeypatch, b, children=("a",))
        async with a_world(a, b, ChildSite("c")) as world:
            states = [standing(world, name)[0] for name in "abc"]
            assert states == [Standing.IN_STEP, Standing.ISOLATED, Standing.IN_STEP]
            assert standing(world, "b")[1] == "a is there twice: also by way of a"

    run_virtually(scene)


def test_a_child_of_another_kind_is_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration says agent, the child says manager: somebody is mistaken."""

    async def scene() -> None:
        a = ChildSite("a")
        _describing(monkeypatch, a, is_manager=True)
        async with a_world(a, ChildSite("b")) as world:
            assert (
                standing(world, "a")[1] == "it is a manager, which the configuration does not say"
            )

    run_virtually(scene)


def test_children_must_be_different_from_each_other_and_from_their_manager() -> None:
    """A child announced twice, a manager as its own child, and no child at all are refused."""

    def child(name: str) -> Child:
        return Child(name, None, is_manager=False, answer_within_s=1.0)  # type: ignore[arg-type]

    async def scene() -> None:
        clock = LoopClock()
        for names in (["a", "a"], ["a", "north"], []):
            with pytest.raises(InputError):
                ShadowKeeper("north", [child(name) for name in names], clock)

    run_virtually(scene)


def test_what_a_summary_of_too_old_a_shadow_would_say_is_not_told() -> None:
    """The parent is told of children that can still be asked, or could a moment ago."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 6)) as world:
            world.sites["b"].is_up = False
            world.sites["b"].publisher.changed()
            await world.passes(100)
            own = world.manager.own_summary
            assert [each.capacity for each in own.current().classes] == [10]
            await world.passes(300)
            assert [each.capacity for each in own.current().classes] == [4]

    run_virtually(scene)


def test_a_change_of_classes_begins_a_new_epoch() -> None:
    """There are no deltas between summaries of different classes, so subscribers get all of it."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 6, hourly=60)) as world:
            own = world.manager.own_summary
            before = own.current()
            world.sites["b"].is_up = False
            world.sites["b"].publisher.changed()
            await world.passes(400)
            after = own.current()
            assert after.version.epoch != before.version.epoch
            assert after.millicredits_per_node_hour == 0

    run_virtually(scene)

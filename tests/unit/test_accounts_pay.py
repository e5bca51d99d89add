"""What a site's promises cost: held before they are made, paid when they are over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.calendar_rules import FlatTariff
from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    PassingTerms,
    Reservation,
)
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.memory import WriteStage
from gridtravel.gridio.ledger.ledger import EARNED, HELD, Ledger
from tests.support.maintenance_world import KENNETH, ROOT, MaintenanceWorld, a_wish

HOUR_PRICE = 3_600
"""Millicredits a node and hour: one a node and second."""
GRANTED = 10_000


@asynccontextmanager
async def priced_site(folder: Path, *, granted: int = GRANTED) -> AsyncIterator[MaintenanceWorld]:
    """A site of four nodes on which kenneth has credits."""
    ledger = Ledger(None)
    ledger.grant("kenneth", granted, request_id="first", note="", at=0)
    world = MaintenanceWorld(folder, ledger=ledger, tariff=FlatTariff(HOUR_PRICE))
    await world.start()
    try:
        yield world
    finally:
        await world.stop()
        ledger.check()
        assert sum(ledger.accounts().values()) == 0


def state(world: MaintenanceWorld) -> tuple[int, int, int]:
    """What kenneth has, what is held, what the site has earned."""
    assert world.ledger is not None
    kept = world.ledger.accounts()
    return kept["kenneth"], kept[HELD], kept[EARNED]


def test_a_reservation_is_held_and_pays_when_it_is_over(tmp_path: Path) -> None:
    """Held with the hold, not paid before its end, paid in full then."""

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            desk = world.agent.calendar_port(KENNETH)
            hold = await desk.reserve(a_wish("a", 2, 2_000, 100), ttl_s=60)
            assert isinstance(hold, Reservation)
            assert hold.price_millicredits == 200
            assert state(world) == (GRANTED - 200, 200, 0)
            await desk.commit(hold.reservation_id)
            await world.tick(1_050)
            assert state(world) == (GRANTED - 200, 200, 0)
            await world.tick(100)
            assert state(world) == (GRANTED - 200, 0, 200)

    asyncio.run(scene())


@pytest.mark.parametrize(("cancelled_at", "paid"), [(1_500, 0), (2_025, 50), (2_099, 198)])
def test_cancelling_pays_for_the_time_that_was_used(
    tmp_path: Path, cancelled_at: int, paid: int
) -> None:
    """Nothing before the start; afterwards the part of the price."""

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            made = await world.desk().set_reservation(a_wish("a", 2, 2_000, 100), is_dry_run=False)
            assert isinstance(made, Reservation)
            await world.tick(cancelled_at - 1_000)
            await world.agent.calendar_port(KENNETH).release(made.reservation_id)
            await world.tick()
            assert state(world) == (GRANTED - paid, 0, paid)

    asyncio.run(scene())


def test_a_hold_that_expires_costs_nothing(tmp_path: Path) -> None:
    """And what was refused, or asked in a dry run, holds nothing."""

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            desk = world.agent.calendar_port(KENNETH)
            await desk.reserve(a_wish("a", 2, 2_000, 100), ttl_s=5)
            wish = a_wish("b", 2, 2_000, 100)
            await world.desk().set_reservation(wish, is_dry_run=True)
            assert isinstance(await desk.reserve(a_wish("c", 4, 2_000, 100), ttl_s=5), Decline)
            assert state(world) == (GRANTED - 200, 200, 0)
            await world.tick(10)
            assert state(world) == (GRANTED, 0, 0)

    asyncio.run(scene())


def test_what_an_account_cannot_pay_is_refused(tmp_path: Path) -> None:
    """The rule is the budget, the words say what is available; nothing is booked. Two holds
    together never take more than there is.
    """

    async def scene() -> None:
        async with priced_site(tmp_path, granted=300) as world:
            desk = world.agent.calendar_port(KENNETH)
            assert isinstance(await desk.reserve(a_wish("a", 2, 2_000, 100), ttl_s=60), Reservation)
            poor = await desk.reserve(a_wish("b", 2, 3_000, 100), ttl_s=60)
            assert isinstance(poor, Decline)
            assert poor.rule is DeclineRule.BUDGET
            assert "100 millicredits available" in poor.message
            assert len(world.agent.calendar.live()) == 1
            assert isinstance(await desk.reserve(a_wish("c", 1, 3_000, 100), ttl_s=60), Reservation)
            assert state(world) == (0, 300, 0)

    asyncio.run(scene())


def test_a_repeated_request_is_held_once(tmp_path: Path) -> None:
    """The same request again is the same reservation, and the same hold."""

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            desk = world.agent.calendar_port(KENNETH)
            for _ in range(3):
                await desk.reserve(a_wish("a", 2, 2_000, 100), ttl_s=60)
            assert state(world) == (GRANTED - 200, 200, 0)

    asyncio.run(scene())


def test_a_changed_reservation_is_held_anew(tmp_path: Path) -> None:
    """Longer costs more, if the account has it; shorter gives back."""

    async def scene() -> None:
        async with priced_site(tmp_path, granted=500) as world:
            made = await world.desk().set_reservation(a_wish("a", 2, 2_000, 100), is_dry_run=False)
            assert isinstance(made, Reservation)
            desk, name = world.agent.calendar_port(KENNETH), made.reservation_id
            assert isinstance(await desk.amend(name, a_wish("b", 2, 2_000, 200)), Reservation)
            assert state(world) == (100, 400, 0)
            poor = await desk.amend(name, a_wish("c", 2, 2_000, 300))
            assert isinstance(poor, Decline)
            assert poor.rule is DeclineRule.BUDGET
            assert world.agent.calendar.get(name).interval.duration_s == 200
            await desk.amend(name, a_wish("d", 1, 2_000, 50))
            await world.tick()
            assert state(world) == (450, 50, 0)

    asyncio.run(scene())


@pytest.mark.parametrize(("run_s", "paid"), [(30, 60), (500, 200)])
def test_a_job_pays_for_the_time_it_ran(tmp_path: Path, run_s: int, paid: int) -> None:
    """Its limit is held, and the most that it pays."""

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            world.runs[world.agent.jobs.next_id] = run_s
            job_id = await world.submit(2, 100)
            assert state(world)[1] == 200
            await world.pass_time(400)
            assert world.view(job_id).state.is_over
            assert state(world) == (GRANTED - paid, 0, paid)

    asyncio.run(scene())


def test_a_job_that_never_ran_or_lost_its_node_costs_nothing(tmp_path: Path) -> None:
    """Cancelled in the queue; on a node that failed under it."""

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            running = await world.submit(4, 100)
            waiting = await world.submit(4, 100)
            assert state(world)[1] == 800
            await world.desk().cancel_job(waiting)
            await world.tick()
            assert state(world) == (GRANTED - 400, 400, 0)
            await world.tick(10)
            await world.desk(ROOT).order("node-down", {"node": "n-0", "jobs": "cancel"})
            await world.pass_time(10)
            assert world.view(running).state is JobState.CANCELLED
            assert state(world) == (GRANTED, 0, 0)

    asyncio.run(scene())


def test_a_job_inside_a_reservation_is_paid_for(tmp_path: Path) -> None:
    """The reservation pays, the job does not."""

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            made = await world.desk().set_reservation(a_wish("a", 2, 2_000, 100), is_dry_run=False)
            assert isinstance(made, Reservation)
            await world.submit(2, 50, reservation_id=made.reservation_id)
            assert state(world) == (GRANTED - 200, 200, 0)
            await world.pass_time(1_200)
            assert state(world) == (GRANTED - 200, 0, 200)

    asyncio.run(scene())


@pytest.mark.parametrize("stage", list(WriteStage))
def test_a_crash_between_the_books_is_put_right(tmp_path: Path, stage: WriteStage) -> None:
    """The daemon dies when the price is held and the promise is about to be written, or just was:
    what the journal does not know is let go, what it knows stays held; and what ended when the
    daemon was down is paid at its start.
    """

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            kept = await world.desk().set_reservation(a_wish("a", 1, 1_010, 20), is_dry_run=False)
            assert isinstance(kept, Reservation)
            assert world.ledger is not None
            # What a death between the two writes leaves.
            world.ledger.hold("reservation/lab.99", "kenneth", 77, 1_000)
            if stage is WriteStage.AFTER:
                await world.tick(40)
            await world.outage(60)
            assert world.ledger.hold_of("reservation/lab.99") is not None
            assert state(world) == (GRANTED - 20, 0, 20)
            assert world.ledger.open_holds() == {}

    asyncio.run(scene())


def test_nothing_is_paid_before_the_disk_has_it(tmp_path: Path) -> None:
    """A release that is about to be written has not been settled; a crash here would leave a live
    promise that was paid for.
    """
    seen: list[tuple[str, int]] = []

    async def scene() -> None:
        ledger = Ledger(None)
        ledger.grant("kenneth", GRANTED, request_id="first", note="", at=0)

        def look(stage: WriteStage, records: Sequence[Record]) -> None:
            if stage is WriteStage.BEFORE:
                seen.extend((each.kind, ledger.accounts()[HELD]) for each in records)

        world = MaintenanceWorld(
            tmp_path, ledger=ledger, tariff=FlatTariff(HOUR_PRICE), on_write=look
        )
        await world.start()
        made = await world.desk().set_reservation(a_wish("a", 2, 2_000, 100), is_dry_run=False)
        assert isinstance(made, Reservation)
        releasing = asyncio.create_task(
            world.agent.calendar_port(KENNETH).release(made.reservation_id)
        )
        await world.clock.sleep_until(0)  # the release is decided, and its write has not begun
        await world.agent.tick()
        await releasing
        await world.tick()
        assert ledger.accounts()[HELD] == 0
        await world.stop()

    asyncio.run(scene())
    assert ("granted", 200) in seen
    assert ("changed", 200) in seen


def test_nobody_charges_anothers_account(tmp_path: Path) -> None:
    """Where accounts have credits, a user without a list has his own and no other; looking at
    another's is refused too.
    """
    nobody = Caller(subject="login:mallory", login="mallory")

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            desk = world.agent.calendar_port(nobody)
            with pytest.raises(NotAuthorisedError):
                await desk.reserve(a_wish("a", 1, 2_000, 100, account="kenneth"), ttl_s=60)
            spec = JobSpec(
                request_id="j", name="x", account="kenneth", nodes=1, limit_s=5, argv=("true",)
            )
            with pytest.raises(NotAuthorisedError):
                await world.desk(nobody).submit(spec)
            with pytest.raises(NotAuthorisedError):
                await world.desk(nobody).query("account", {"account": "kenneth"})
            own = await world.desk(nobody).submit(replace(spec, account="mallory"))
            assert isinstance(own, Decline)
            assert own.rule is DeclineRule.BUDGET
            assert await world.desk(nobody).query("accounts", {}) == {"accounts": {}}
            assert state(world) == (GRANTED, 0, 0)

    asyncio.run(scene())


def test_a_refused_budget_is_told_what_would_pass(tmp_path: Path) -> None:
    """A job with a deadline is told the price at which it is taken; then it is. Without a deadline
    the words alone say it.
    """

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            asked = JobSpec(
                request_id="a",
                name="x",
                account="kenneth",
                nodes=2,
                limit_s=50,
                argv=("true",),
                deadline=2_000,
                budget_millicredits=99,
            )
            poor = await world.desk().submit(asked)
            assert isinstance(poor, Decline)
            assert poor.rule is DeclineRule.BUDGET
            (terms,) = poor.passing
            assert terms == PassingTerms(deadline=2_000, budget_millicredits=100)
            again = replace(asked, budget_millicredits=terms.budget_millicredits)
            assert isinstance(await world.desk().submit(again), JobView)
            assert state(world) == (GRANTED - 100, 100, 0)
            any_time = await world.desk().submit(replace(asked, request_id="b", deadline=None))
            assert isinstance(any_time, Decline)
            assert any_time.passing == ()

    asyncio.run(scene())


def test_only_administrators_give_credits(tmp_path: Path) -> None:
    """Granted once for each request; refunded at most what was paid."""

    async def scene() -> None:
        async with priced_site(tmp_path) as world:
            grant = {"account": "kenneth", "millicredits": "500", "request": "r1"}
            with pytest.raises(NotAuthorisedError):
                await world.desk().order("grant", grant)
            for _ in range(2):
                told = await world.desk(ROOT).order("grant", grant)
            assert told == {"account": "kenneth", "available": GRANTED + 500}
            job_id = await world.submit(1, 50)
            await world.pass_time(100)
            assert state(world) == (GRANTED + 450, 0, 50)
            back = {"reference": f"job/{job_id}", "millicredits": "20", "request": "r2"}
            for _ in range(2):
                await world.desk(ROOT).order("refund", back)
            assert state(world) == (GRANTED + 470, 0, 30)
            lines = await world.desk().query("account", {"lines": "2"})
            assert isinstance(lines, dict)
            assert [each["kind"] for each in lines["lines"]] == ["charge", "refund"]
            for absurd in ("nan", "1e9", "", "-", "0", "9" * 30):
                with pytest.raises(InputError):
                    await world.desk(ROOT).order("grant", {**grant, "millicredits": absurd})

    asyncio.run(scene())


def test_without_a_ledger_nobody_pays(tmp_path: Path) -> None:
    """Prices are told; the question is answered with what would help."""

    async def scene() -> None:
        world = MaintenanceWorld(tmp_path, tariff=FlatTariff(HOUR_PRICE))
        await world.start()
        hold = await world.agent.calendar_port(KENNETH).reserve(
            a_wish("a", 2, 2_000, 100), ttl_s=60
        )
        assert isinstance(hold, Reservation)
        assert hold.price_millicredits == 200
        assert isinstance(world.view(await world.submit(1, 5)), JobView)
        with pytest.raises(InputError, match="keeps no accounts"):
            await world.desk().query("account", {})
        await world.stop()

    asyncio.run(scene())

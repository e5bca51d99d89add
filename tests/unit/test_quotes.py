"""Quotes: the price that was offered is the price that is held and charged; attacks on it."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from gridtravel.gridcore.booking.calendar_rules import FlatTariff
from gridtravel.gridcore.booking.quotes import UNIT_PRICE_MAX, Quote
from gridtravel.gridcore.booking.reservations import (
    QUOTE_LENGTH_MAX,
    Availability,
    Decline,
    DeclineRule,
    Offer,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.ledger.ledger import Ledger
from gridtravel.gridio.trust.quotes import CertifiedQuotes, QuoteSigner, SharedKeyQuotes
from tests.support.certificate_scenes import a_site, an_authority
from tests.support.maintenance_world import KENNETH, MaintenanceWorld, a_wish

OLD_PRICE = 3_600
"""Of a node and hour: a millicredit a second."""
NEW_PRICE = 36_000
START = 2_000
LENGTH_S = 100
HOLDS_S = 900
ADA = "/O=grid/OU=users/CN=ada"
EVE = Caller(subject="login:eve", login="eve", accounts=("kenneth", "eve"))
RICH = Caller(subject="login:kenneth", login="kenneth", accounts=("kenneth", "other"))


@pytest.fixture(params=["certified", "shared-key"])
def signer(request: pytest.FixtureRequest, tmp_path: Path) -> QuoteSigner:
    """Each way to sign."""
    if request.param == "shared-key":
        return SharedKeyQuotes(b"secret of the lab")
    return CertifiedQuotes(a_site(an_authority(tmp_path), tmp_path, name="lab"))


@asynccontextmanager
async def raised_prices(
    folder: Path, signer: QuoteSigner | None, *, caller: Caller = KENNETH
) -> AsyncIterator[tuple[MaintenanceWorld, Offer]]:
    """A site that has made an offer to kenneth and starts again with ten times the prices."""
    ledger = Ledger(None)
    for account in ("kenneth", "eve", "other"):
        ledger.grant(account, 100_000, request_id=account, note="", at=0)
    world = MaintenanceWorld(
        folder / "site", ledger=ledger, tariff=FlatTariff(OLD_PRICE), quote_signer=signer
    )
    await world.start()
    try:
        asked = replace(a_wish("look", 2, START, LENGTH_S), nodes_min=1, latest_end=START + 150)
        (found,) = await world.agent.calendar_port(caller).inquire([asked])
        assert isinstance(found, Availability)
        world.tariff = FlatTariff(NEW_PRICE)
        await world.restart()
        yield world, found.offers[0]
    finally:
        await world.stop()
        ledger.check()
        assert sum(ledger.accounts().values()) == 0


async def reserve(
    world: MaintenanceWorld, wish: ReservationRequest, caller: Caller = KENNETH
) -> Reservation | Decline:
    """A hold."""
    return await world.agent.calendar_port(caller).reserve(wish, ttl_s=60)


def test_the_price_offered_is_held_and_charged(tmp_path: Path, signer: QuoteSigner) -> None:
    """Over a restart with other prices; without the quote, and for another time, at the new one."""

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, offer):
            assert offer.unit_price_millicredits == LENGTH_S
            assert offer.quote_expires_at == 1_000 + HOLDS_S
            wish = a_wish("a", 2, START + 50, LENGTH_S, quote=offer.quote)
            hold = await reserve(world, wish)
            assert isinstance(hold, Reservation)
            assert hold.price_millicredits == 2 * LENGTH_S
            assert hold.request.quote == "", "a book keeps none"
            plain = await reserve(world, a_wish("b", 2, START, LENGTH_S))
            assert isinstance(plain, Reservation)
            assert plain.price_millicredits == 10 * 2 * LENGTH_S
            again = await reserve(world, wish)
            assert again == hold, "what is said again is answered as before"
            port = world.agent.calendar_port(KENNETH)
            await port.release(plain.reservation_id)
            await port.commit(hold.reservation_id)
            await world.restart()
            await world.tick(START + 50 + LENGTH_S - world.clock.now() + 1)
            assert world.ledger is not None
            assert world.ledger.accounts()["kenneth"] == 100_000 - 2 * LENGTH_S

    asyncio.run(scene())


def test_a_change_brings_its_own_quote(tmp_path: Path, signer: QuoteSigner) -> None:
    """Amending costs what was quoted, and the tariff's price without."""

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, offer):
            port = world.agent.calendar_port(KENNETH)
            booked = await world.desk().set_reservation(
                a_wish("a", 1, 5_000, LENGTH_S), is_dry_run=False
            )
            assert isinstance(booked, Reservation)
            moved = await port.amend(
                booked.reservation_id, a_wish("a2", 2, START, LENGTH_S, quote=offer.quote)
            )
            assert isinstance(moved, Reservation)
            assert (moved.start, moved.price_millicredits) == (START, 2 * LENGTH_S)
            refused = await port.amend(
                booked.reservation_id, a_wish("a3", 2, 9_000, LENGTH_S, quote=offer.quote)
            )
            assert isinstance(refused, Decline)
            assert refused.rule is DeclineRule.QUOTE
            dear = await port.amend(booked.reservation_id, a_wish("a4", 2, 9_000, LENGTH_S))
            assert isinstance(dear, Reservation)
            assert dear.price_millicredits == 10 * 2 * LENGTH_S

    asyncio.run(scene())


Wish = Callable[[str], ReservationRequest]


@pytest.mark.parametrize(
    ("why", "wish", "caller"),
    [
        ("for 100 s", lambda quote: a_wish("a", 1, START, 50, quote=quote), KENNETH),
        ("for 100 s", lambda quote: a_wish("a", 1, START, 150, quote=quote), KENNETH),
        ("other starts", lambda quote: a_wish("a", 1, START + 51, 100, quote=quote), KENNETH),
        ("other starts", lambda quote: a_wish("a", 1, START - 1, 100, quote=quote), KENNETH),
        ("at most 2 nodes", lambda quote: a_wish("a", 3, START, 100, quote=quote), KENNETH),
        ("somebody else", lambda quote: a_wish("a", 1, START, 100, quote=quote), EVE),
        (
            "for the account kenneth",
            lambda quote: a_wish("a", 1, START, 100, account="other", quote=quote),
            RICH,
        ),
    ],
)
def test_a_quote_is_for_what_it_says(
    tmp_path: Path, signer: QuoteSigner, why: str, wish: Wish, caller: Caller
) -> None:
    """Another length, start, size, user or account: refused by the rule, and nothing held."""

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, offer):
            answer = await reserve(world, wish(offer.quote), caller)
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.QUOTE
            assert why in answer.message
            assert not list(world.agent.calendar.unordered_live())

    asyncio.run(scene())


@pytest.mark.parametrize(("late_s", "holds"), [(-1, True), (0, False), (1, False)])
def test_a_quote_holds_to_the_second(
    tmp_path: Path, signer: QuoteSigner, late_s: int, holds: bool
) -> None:
    """Until the second before its expiry, and no longer."""

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, offer):
            assert offer.quote_expires_at is not None
            world.clock.advance(offer.quote_expires_at + late_s - world.clock.now_precise())
            answer = await reserve(world, a_wish("a", 1, START, LENGTH_S, quote=offer.quote))
            if holds:
                assert isinstance(answer, Reservation)
                return
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.QUOTE
            assert f"expired {late_s} s ago" in answer.message

    asyncio.run(scene())


def statement_of(quote: str) -> dict[str, Any]:
    """What a quote says."""
    part = quote.split(".")[1]
    said = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert isinstance(said, dict)
    return said


def saying(quote: str, **other: object) -> str:
    """The same signature under another statement."""
    form, _, signature = quote.split(".")
    changed = json.dumps({**statement_of(quote), **other}).encode()
    return ".".join((form, base64.urlsafe_b64encode(changed).rstrip(b"=").decode(), signature))


FORGERIES: list[Callable[[str], str]] = [
    lambda quote: saying(quote, unit_price_millicredits=1),
    lambda quote: saying(quote, unit_price_millicredits=-1),
    lambda quote: saying(quote, expires_at=10**11),
    lambda quote: saying(quote, owner="eve"),
    lambda quote: saying(quote, site="other"),
    lambda quote: quote[:-2] + ("AA" if not quote.endswith("AA") else "BB"),
    lambda quote: quote.rsplit(".", 1)[0] + ".AAAA",
    lambda quote: quote.rsplit(".", 1)[0],
    lambda quote: quote + ".AAAA",
    lambda quote: quote.replace("quote1", "card1"),
    lambda quote: "quote1..",
    lambda quote: "quote1.e30.e30",
    lambda quote: "x" * QUOTE_LENGTH_MAX,
    lambda quote: "é.\x00.☃",
]


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_forged_quote_is_refused(
    tmp_path: Path, signer: QuoteSigner, forge: Callable[[str], str]
) -> None:
    """One sign changed, another kind of word, or none at all."""

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, offer):
            forged = forge(offer.quote)
            answer = await reserve(world, a_wish("a", 1, START, LENGTH_S, quote=forged))
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.QUOTE

    asyncio.run(scene())


def a_quote(**others: Any) -> Quote:
    """One that kenneth could use at the lab."""
    fields = {
        "site": "lab",
        "owner": "kenneth",
        "account": "kenneth",
        "resource_class": "n",
        "nodes": 2,
        "start": START,
        "start_until": START + 1,
        "duration_s": LENGTH_S,
        "unit_price_millicredits": 7,
        "issued_at": 900,
        "expires_at": 1_900,
    }
    return Quote(**{**fields, **others})


@pytest.mark.parametrize("changed", [{"site": "other"}, {"resource_class": "gone"}])
def test_a_quote_of_another_site_or_class_books_nothing(
    tmp_path: Path, signer: QuoteSigner, changed: dict[str, Any]
) -> None:
    """Not even one with the same key, or for a class that the site no longer has."""

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, _):
            text = signer.sign(a_quote(**changed))
            answer = await reserve(world, a_wish("a", 1, START, LENGTH_S, quote=text))
            assert isinstance(answer, Decline)

    asyncio.run(scene())


def test_a_quote_under_another_key_is_refused(tmp_path: Path) -> None:
    """Of another site of the same grid, or of this one before it had its present key."""
    authority = an_authority(tmp_path)
    ours = CertifiedQuotes(a_site(authority, tmp_path, name="lab"))
    others = CertifiedQuotes(a_site(authority, tmp_path, name="other"))

    async def scene() -> None:
        async with raised_prices(tmp_path, ours) as (world, _):
            for text, is_ours in ((others.sign(a_quote()), False), (ours.sign(a_quote()), True)):
                answer = await reserve(world, a_wish(f"a{is_ours}", 1, START, LENGTH_S, quote=text))
                assert isinstance(answer, Reservation) == is_ours
                if isinstance(answer, Decline):
                    assert "not signed by this site" in answer.message

    asyncio.run(scene())


def test_a_quoted_price_is_asked_of_the_budget_and_the_account(
    tmp_path: Path, signer: QuoteSigner
) -> None:
    """A quote is no credit: the budget of the request and what the account has still count."""

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, offer):
            poor = a_wish("a", 2, START, LENGTH_S, quote=offer.quote, budget_millicredits=199)
            answer = await reserve(world, poor)
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.BUDGET
            dear = signer.sign(a_quote(unit_price_millicredits=10**9))
            answer = await reserve(world, a_wish("b", 2, START, LENGTH_S, quote=dear))
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.BUDGET
            assert "available" in answer.message

    asyncio.run(scene())


def test_room_is_not_quoted(tmp_path: Path, signer: QuoteSigner) -> None:
    """Whoever comes late finds the price, and perhaps no nodes; the refusal names the first start
    that there is, also before those that were quoted.
    """

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, offer):
            taken = await reserve(world, a_wish("all", 4, START, 300))
            assert isinstance(taken, Reservation)
            wide = replace(
                a_wish("a", 2, START, LENGTH_S, quote=offer.quote),
                earliest_start=1_200,
                latest_end=START + 150,
            )
            answer = await reserve(world, wide)
            assert isinstance(answer, Decline)
            assert (answer.rule, answer.earliest) == (DeclineRule.NO_ROOM, 1_200)

    asyncio.run(scene())


def test_more_offers_than_anybody_signs(tmp_path: Path, signer: QuoteSigner) -> None:
    """Those behind the most that are signed have no quote, over all requests of a call."""

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, _):
            asked = [a_wish(f"w{n}", 1, START, LENGTH_S) for n in range(200)]
            port = world.agent.calendar_port(KENNETH)
            with patch("gridtravel.agents.ports.calendar_port.QUOTES_MAX", 150):
                answers = await port.inquire(asked)
            offers = [o for each in answers if isinstance(each, Availability) for o in each.offers]
            assert [bool(each.quote) for each in offers] == [True] * 150 + [False] * 50

    asyncio.run(scene())


def test_a_site_without_a_key_gives_none_and_takes_none(tmp_path: Path) -> None:
    """Nor does one in silence what it was not asked."""

    async def scene() -> None:
        async with raised_prices(tmp_path, None) as (world, offer):
            assert (offer.quote, offer.quote_expires_at) == ("", None)
            text = SharedKeyQuotes(b"anybody's").sign(a_quote())
            answer = await reserve(world, a_wish("a", 1, START, LENGTH_S, quote=text))
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.QUOTE

    asyncio.run(scene())


def test_a_manager_gets_no_quotes(tmp_path: Path, signer: QuoteSigner) -> None:
    """What it offers is made of many offers; the one for whom it asks gets one when he asks
    himself.
    """

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, offer):
            assert offer.quote
            world.agent.parts = replace(
                world.agent.parts,
                login_of={ADA: "kenneth"}.get,
                accounts_of=lambda subject: ("kenneth",),
            )
            asked = a_wish("m", 1, START, LENGTH_S, beneficiary=ADA, via=("top",))
            top = Caller(subject="/O=grid/OU=managers/CN=top", role=Role.MANAGER)
            (answer,) = await world.agent.calendar_port(top).inquire([asked])
            assert isinstance(answer, Availability)
            assert [each.quote for each in answer.offers] == [""]

    asyncio.run(scene())


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit_price_millicredits": -1},
        {"unit_price_millicredits": UNIT_PRICE_MAX + 1},
        {"nodes": 0},
        {"nodes": 10**9},
        {"duration_s": 0},
        {"duration_s": 10**12},
        {"start_until": START},
        {"start": -1},
        {"expires_at": 900},
        {"issued_at": -1},
        {"owner": ""},
        {"account": ""},
        {"resource_class": ""},
        {"site": "no site"},
    ],
)
def test_a_quote_that_is_none_cannot_be_made(wrong: dict[str, Any], signer: QuoteSigner) -> None:
    """No price below zero, and none of nothing; nor is one read that some release has signed."""
    with pytest.raises(InputError):
        a_quote(**wrong)
    quote = a_quote()
    for name, value in wrong.items():
        object.__setattr__(quote, name, value)
    with pytest.raises(InputError):
        signer.read(signer.sign(quote))


def test_what_is_signed_is_read(signer: QuoteSigner) -> None:
    """Every field; and a statement with others, or of another type, is none."""
    quote = a_quote(account="Ünï", owner="/O=grid/CN=☃")
    assert signer.read(signer.sign(quote)) == quote
    assert statement_of(signer.sign(quote)).keys() == {
        each.name for each in dataclasses.fields(Quote)
    }
    for value in (True, 7.0, "7", None):
        object.__setattr__(quote, "nodes", value)
        with pytest.raises(InputError, match="something else"):
            signer.read(signer.sign(quote))


def test_a_quote_longer_than_anybody_reads_is_not_given(signer: QuoteSigner) -> None:
    """Nor is one heard of that length."""
    assert signer.sign(a_quote(owner="x" * QUOTE_LENGTH_MAX)) == ""
    with pytest.raises(InputError, match="is the most"):
        a_wish("a", 1, START, 1, quote="x" * (QUOTE_LENGTH_MAX + 1))


def test_a_reservation_in_one_step_may_bring_a_quote(tmp_path: Path, signer: QuoteSigner) -> None:
    """As a hold may."""

    async def scene() -> None:
        async with raised_prices(tmp_path, signer) as (world, offer):
            wish = a_wish("a", 1, START, LENGTH_S, quote=offer.quote)
            made = await world.desk().set_reservation(wish, is_dry_run=False)
            assert isinstance(made, Reservation)
            assert made.state is ReservationState.COMMITTED
            assert made.price_millicredits == LENGTH_S

    asyncio.run(scene())

"""Nobody acts for another, whichever way they come: the same tries over the network, at the local
socket and through an SSH login, with real accounts at a real daemon.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import pytest

from gridtravel.agents.config.checks import JOURNAL_FILE
from gridtravel.agents.journal.events import CODEC
from gridtravel.gridcore.booking.calendar_events import ReservationGranted
from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, ReservationState, TripRef
from gridtravel.gridcore.errors import NotAuthorisedError, NotFoundError
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.trip_consensus import Outcome, Phase, VoteQuestion
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, write_grid_map
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.composition import open_travel_agent
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.sites.config import load_grid_config
from tests.support.attacks import TRIES, attacks, seized
from tests.support.carriers import CARRIERS, a_way
from tests.support.host_tasks import until
from tests.support.login_world import SITE, LoginSite, login_site

pytestmark = pytest.mark.integration
HOUR_S = 3600


@pytest.fixture(scope="module")
def site() -> Iterator[LoginSite]:
    """The site, serving."""
    with login_site() as world:
        world.start()
        yield world


@dataclass
class Booked:
    """A trip of ada's with an outcome that the site keeps: two stages there, hours away."""

    ada: TravelAgent
    itinerary: Itinerary
    trip: TripRef
    """Of its first leg, which tells all that can be known of it."""

    @property
    def leg(self) -> str:
        """The reservation of its first leg."""
        return self.itinerary.legs[0].reservation_id or ""

    @property
    def job(self) -> str:
        """The job of its first leg."""
        return self.itinerary.legs[0].job_id or ""


def books(site: LoginSite) -> list[object]:
    """All that the site's journal holds."""
    return [CODEC.decode(record) for record in read_records(site.state / JOURNAL_FILE)]


@pytest.fixture
async def booked(site: LoginSite) -> AsyncIterator[Booked]:
    """A trip that is cancelled by its owner in the end, whatever was tried."""
    now = SystemClock().now()
    stages = "".join(
        f'[[stages]]\nname = "{name}"\nmachine = "{SITE}"\nnodes = 1\n'
        '[stages.task]\ncommand = ["/bin/true"]\n'
        for name in ("first", "second")
    )
    text = (
        'name = "chain"\nusage_pattern = "pipeline"\nduration = "60s"\n'
        f'earliest_start = "{format_utc(now + HOUR_S)}"\n'
        f'latest_end = "{format_utc(now + 20 * HOUR_S)}"\n'
        f'[[machines]]\nname = "{SITE}"\nnodes_max = 1\n{stages}'
    )
    wish = parse_metajob(text, now=now, zone=ZoneInfo("UTC"), form="toml").metajob
    ada = open_travel_agent(load_grid_config(site.machines("ada")), site.root / "ada" / "state")
    try:
        itinerary = await ada.book(wish)
        (trip,) = [
            each.reservation.request.trip
            for each in books(site)
            if isinstance(each, ReservationGranted)
            and each.reservation.reservation_id == itinerary.legs[0].reservation_id
        ]
        assert trip is not None
        assert trip.acceptors, "its outcome is kept"
        yield Booked(ada, itinerary, trip)
        cancelled = await ada.cancel(itinerary.trip_id)
        assert cancelled.state is TripState.CANCELLED
    finally:
        await ada.close()


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_carrier_proves_the_account(site: LoginSite, carrier: str) -> None:
    """Each way says who has come, and it is the same account at the end of each."""
    for user, account in site.accounts.items():
        async with a_way(carrier, site, user) as at:
            assert (await at.calendar.describe()).login == account.pw_name


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_what_belongs_to_another_is_refused(
    site: LoginSite, booked: Booked, carrier: str
) -> None:
    """Every verb on somebody else's leg, job and files: reading, writing, changing, ending. The
    site's journal has no record more.
    """
    before = books(site)
    refused: list[str] = []
    async with a_way(carrier, site, "grace") as at:
        for name, attempt in TRIES.items():
            with pytest.raises(NotAuthorisedError):
                await attempt(at, booked.itinerary, booked.leg, booked.job)
            refused.append(name)
        # Who may not know of a leg is told what is said of one that is not there.
        words = {"trip": booked.trip.trip_id, "leg": booked.trip.leg}
        with pytest.raises(NotFoundError):
            await at.site.query("leg", words)
    assert refused == list(TRIES)
    assert books(site) == before
    status = await booked.ada.status(booked.itinerary.trip_id)
    assert status.itinerary.state is TripState.BOOKED


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_who_knows_a_trip_has_no_say_in_it(
    site: LoginSite, booked: Booked, carrier: str
) -> None:
    """Every vote of somebody else is refused and leaves no record, and the log says who tried; the
    trip is as it was.
    """
    before = books(site)
    tried = attacks(booked.trip)
    async with a_way(carrier, site, "grace") as at:
        for attack in tried.values():
            with pytest.raises(NotAuthorisedError):
                await at.calendar.vote(attack)
    assert books(site) == before
    who = site.credentials["grace"].subject
    if carrier != "network":
        who = f"login:{site.accounts['grace'].pw_name}"
    for attack in tried.values():
        assert any(
            f"{attack.phase} on {attack.instance} by {who} refused" in line
            for line in site.log.splitlines()
        ), attack


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_trip_stays_with_who_held_it_first(
    site: LoginSite, booked: Booked, carrier: str
) -> None:
    """A hold of somebody else's under the same trip, as the same attempt or a later one."""
    before = books(site)
    async with a_way(carrier, site, "grace") as at:
        for request in seized(booked.itinerary, booked.trip):
            answer = await at.calendar.reserve(request, ttl_s=30)
            assert isinstance(answer, Decline), answer
            assert answer.rule is DeclineRule.TRIP
    assert books(site) == before


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_an_owner_has_a_say_on_each_carrier(
    site: LoginSite, booked: Booked, carrier: str
) -> None:
    """The trip was booked over the network; its owner's account may ask and cancel by any way."""
    async with a_way(carrier, site, "ada") as at:
        asked = VoteQuestion(instance=booked.trip.instance, phase=Phase.LEARN)
        answer = await at.calendar.vote(asked)
        assert answer.vote is not None
        assert answer.vote.outcome is Outcome.COMMIT
        first = attacks(booked.trip)["cancel it"]
        assert (await at.calendar.vote(first)).is_granted


async def test_a_stolen_certificate_is_nobodys_once_its_site_says_so(
    site: LoginSite, booked: Booked
) -> None:
    """The line is taken out of the grid-mapfile: the next question on a connection that is open has
    no login any more. What the owner booked stays, and the account has it by its other ways.
    """
    mapfile = site.root / "site" / "grid-mapfile"
    before = mapfile.read_bytes()
    async with a_way("network", site, "ada") as at, a_way("socket", site, "ada") as beside:
        assert (await at.calendar.describe()).login
        grace = grid_map_entry(site.credentials["grace"].subject, [site.accounts["grace"].pw_name])
        try:
            write_grid_map(mapfile, GridMap([grace]))
            await read_again(site)
            assert (await at.calendar.describe()).login == ""
            with pytest.raises(NotAuthorisedError):
                await at.calendar.release(booked.leg)
            with pytest.raises(NotAuthorisedError):
                await at.calendar.vote(attacks(booked.trip)["cancel it"])
            (kept,) = [
                each
                for each in await beside.site.reservations(everybody=False)
                if each.reservation_id == booked.leg
            ]
            assert kept.state is ReservationState.COMMITTED
        finally:
            mapfile.write_bytes(before)
            await read_again(site)


async def read_again(site: LoginSite) -> None:
    """Have the daemon read its grid-mapfile."""
    said = len(site.log)
    assert site.daemon is not None
    site.daemon.send_signal(signal.SIGHUP)
    await until(lambda: "was read again" in site.log[said:])

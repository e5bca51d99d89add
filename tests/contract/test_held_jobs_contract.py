"""A job that comes with a hold, over everything that carries the ports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import Reservation, TripRef
from gridtravel.gridcore.errors import NotFoundError
from gridtravel.gridcore.jobs.handovers import HandedFile, Handover, HandoverGrant
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import Companion, JobSpec
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridio.trust.credentials import Credential
from tests.support.builders import a_request
from tests.support.port_worlds import CARRIERS, NOW, World, a_world, some_credentials

INPUT = InputFile(path="data/in.dat", size_bytes=3, sha256="ab" * 32)
BROUGHT = InputFile(path="mesh.dat", size_bytes=7, sha256="cd" * 32)
JOB = HeldJob(
    spec=JobSpec(
        request_id="trip-1.left.1.job",
        name="sum",
        account="physics",
        nodes=1,
        limit_s=60,
        argv=("/bin/sum", "a b", ""),
        companions=(Companion(leg="right", site="west", nodes=2),),
        leg_before="first",
        handover=Handover(
            leg="first", site="west", files=(HandedFile(source="a", destination="b"),)
        ),
        inputs=(INPUT,),
        relayed_from="first",
        gives=HandoverGrant(leg="right", site="west", paths=("out", "sums.txt")),
    )
)
MANIFEST = Manifest(contacts=(("left", "lab:21000"), ("right", "west:21001")))


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> tuple[Credential, Credential]:
    """Of the site ``lab`` and of the user ``ada``."""
    return some_credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(params=CARRIERS)
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, credentials: tuple[Credential, Credential]
) -> AsyncIterator[World]:
    """The same site behind each carrier."""
    async with a_world(request, tmp_path, credentials) as made:
        yield made


async def test_a_commit_binds_what_came_with_the_hold(world: World) -> None:
    """Everything that is known of a job arrives with the hold, and what is known when all legs are
    held with the commit; said again, both are answered the same.
    """
    calendar, site = world.connection.calendar, world.connection.site
    trip = TripRef(trip_id="trip-1", leg="left", participants=("lab", "west"))
    wish = a_request("r1", nodes=1, earliest=NOW, trip=trip)
    hold = await calendar.reserve(wish, ttl_s=10, job=JOB)
    assert isinstance(hold, Reservation)
    assert await calendar.reserve(wish, ttl_s=10, job=JOB) == hold
    assert hold.job_id == ""
    assert await site.jobs() == []
    kept = await calendar.commit(hold.reservation_id, manifest=MANIFEST)
    assert isinstance(kept, Reservation)
    assert await calendar.commit(hold.reservation_id, manifest=MANIFEST) == kept
    (job,) = await site.jobs()
    assert job.job_id == kept.job_id
    assert job.spec == replace(
        JOB.spec,
        reservation_id=hold.reservation_id,
        companions=(Companion(leg="right", site="west", nodes=2, contact="west:21001"),),
    )
    (listed,) = await site.reservations(everybody=False)
    assert listed.job_id == kept.job_id


async def test_inputs_are_named_when_they_are_known(world: World) -> None:
    """What the traveller brings from another stage has its checksums when that stage has ended."""
    calendar, site = world.connection.calendar, world.connection.site
    hold = await calendar.reserve(a_request("r1", nodes=1, earliest=NOW), ttl_s=10, job=JOB)
    assert isinstance(hold, Reservation)
    with pytest.raises(NotFoundError):
        await site.name_inputs(hold.reservation_id, [BROUGHT])
    await calendar.commit(hold.reservation_id)
    view = await site.name_inputs(hold.reservation_id, [BROUGHT])
    assert (view.spec.inputs, view.spec.relayed_from) == ((INPUT, BROUGHT), "")


async def test_most_holds_have_no_job(world: World) -> None:
    """Without a job nothing is queued, and the commit names none."""
    calendar = world.connection.calendar
    hold = await calendar.reserve(a_request("r1", nodes=1, earliest=NOW), ttl_s=10)
    assert isinstance(hold, Reservation)
    kept = await calendar.commit(hold.reservation_id)
    assert isinstance(kept, Reservation)
    assert kept.job_id == ""
    assert await world.connection.site.jobs() == []

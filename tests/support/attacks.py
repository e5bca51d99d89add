"""What a stranger tries on somebody else's trip, as tables for every way to a site.

``TRIES``: every verb on a reservation, its job and its files. ``attacks``: every vote about a trip
of which one knows all that can be known. ``seized``: holds that would make somebody else's trip
one's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from gridtravel.gridcore.booking.reservations import ReservationRequest, TripRef
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.gridcore.trips.itineraries import Itinerary
from gridtravel.gridcore.trips.trip_consensus import Ballot, Outcome, Phase, VoteQuestion
from gridtravel.gridio.sites.connections import SiteConnection


async def one_chunk() -> AsyncIterator[OutputChunk]:
    """A file of five bytes."""
    yield OutputChunk(offset=0, content=b"mine!")


async def read_all(items: AsyncIterator[object]) -> None:
    """The end of a stream."""
    async for _ in items:
        continue


def a_request(trip: Itinerary, **changes: object) -> ReservationRequest:
    """What somebody else would ask for."""
    assert trip.start is not None
    assert trip.end is not None
    wanted: dict[str, object] = {
        "request_id": f"stranger.{trip.trip_id}",
        "account": "default",
        "nodes_min": 1,
        "nodes_max": 1,
        "duration_s": 60,
        "earliest_start": trip.start + 3600,
        "latest_end": trip.end + 7200,
    }
    return ReservationRequest(**(wanted | changes))  # type: ignore[arg-type]


def a_job(trip: Itinerary, reservation_id: str) -> JobSpec:
    """A job that wants to run in somebody else's reservation."""
    return JobSpec(
        request_id=f"stranger.{trip.trip_id}.job",
        name="stranger",
        account="default",
        nodes=1,
        limit_s=60,
        argv=("/bin/true",),
        reservation_id=reservation_id,
    )


Try = Callable[[SiteConnection, Itinerary, str, str], Awaitable[object]]

TRIES: dict[str, Try] = {
    "commit": lambda at, trip, kept, job: at.calendar.commit(kept),
    "release": lambda at, trip, kept, job: at.calendar.release(kept),
    "amend": lambda at, trip, kept, job: at.calendar.amend(kept, a_request(trip)),
    "replace": lambda at, trip, kept, job: at.calendar.reserve(
        a_request(trip, replaces=kept), ttl_s=30
    ),
    "replace at once": lambda at, trip, kept, job: at.site.set_reservation(
        a_request(trip, replaces=kept), is_dry_run=False
    ),
    "bind": lambda at, trip, kept, job: at.site.bind(kept, [job]),
    "unbind": lambda at, trip, kept, job: at.site.unbind(kept, [job]),
    "bind the job": lambda at, trip, kept, job: at.site.bind_job(job, [kept]),
    "unbind the job": lambda at, trip, kept, job: at.site.unbind_job(job, [kept]),
    "submit into it": lambda at, trip, kept, job: at.site.submit(a_job(trip, kept)),
    "cancel the job": lambda at, trip, kept, job: at.site.cancel_job(job),
    "watch the job": lambda at, trip, kept, job: read_all(at.site.watch_job(job)),
    "follow the job": lambda at, trip, kept, job: read_all(at.site.follow_output(job, "stdout", 0)),
    "ask why": lambda at, trip, kept, job: at.site.query("why", {"job": job}),
    "list files": lambda at, trip, kept, job: at.site.list_files(kept, "", with_checksums=False),
    "get a file": lambda at, trip, kept, job: read_all(at.site.get_file(kept, "file", 0)),
    "put a file": lambda at, trip, kept, job: at.site.put_file(
        kept, "file", one_chunk(), mode=0o600, sha256=""
    ),
    "name inputs": lambda at, trip, kept, job: at.site.name_inputs(
        kept, [InputFile(path="file", size_bytes=5, sha256="0" * 64)]
    ),
    "hold the job": lambda at, trip, kept, job: at.site.order("hold-job", {"job": job}),
    "let the job go": lambda at, trip, kept, job: at.site.order("release-job", {"job": job}),
    "order the site": lambda at, trip, kept, job: at.site.order("set-mode", {"mode": "stopped"}),
    "charge another": lambda at, trip, kept, job: at.calendar.reserve(
        a_request(trip, account="ada"), ttl_s=30
    ),
}


def attacks(trip: TripRef) -> dict[str, VoteQuestion]:
    """What once cancelled, tore or froze a trip, from anybody who knew its id."""
    as_acceptor = f"{trip.acceptors[0].site}:mine:1"
    lowest, highest = Ballot(1, as_acceptor), Ballot(1_000_000, as_acceptor)

    def say(
        question: str, phase: Phase, outcome: Outcome | None = None, ballot: Ballot | None = None
    ) -> VoteQuestion:
        return VoteQuestion(
            instance=question, phase=phase, outcome=outcome, ballot=ballot or Ballot(0)
        )

    commit, abort = Outcome.COMMIT, Outcome.ABORT
    return {
        "cancel it": say(trip.cancellation, Phase.ACCEPT, commit),
        "tear it": say(trip.cancellation, Phase.ACCEPT, abort, Ballot(2, as_acceptor)),
        "freeze it": say(trip.instance, Phase.PREPARE, ballot=highest),
        "freeze its cancellation": say(trip.cancellation, Phase.PREPARE, ballot=highest),
        "abort it": say(trip.instance, Phase.ACCEPT, abort, lowest),
        "commit it": say(trip.instance, Phase.ACCEPT, commit),
        "have it aborted": say(trip.instance, Phase.SETTLE, abort),
        "have it cancelled": say(trip.cancellation, Phase.SETTLE, commit),
        "call a leg ready": say(trip.readiness(trip.leg), Phase.ACCEPT, commit),
        "call a leg late": say(trip.readiness(trip.leg), Phase.SETTLE, abort),
        "look": say(trip.instance, Phase.LEARN),
    }


def seized(trip: Itinerary, known: TripRef) -> list[ReservationRequest]:
    """Holds under somebody else's trip: as a leg of the same attempt, and as a later one."""
    later = replace(known, attempt=known.attempt + 8, nonce="mine")
    return [
        replace(a_request(trip, request_id=f"mine.{each.attempt}"), trip=each)
        for each in (known, later)
    ]

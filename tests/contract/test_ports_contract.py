"""What both ports promise, over everything that carries them: nothing at all, the codec, mutual
TLS on loopback, and the local socket with its front door. Callers cannot tell the difference.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gridcore.callers import Caller
from gridcore.errors import (
    ConflictError,
    GridError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridcore.jobs import JobSpec, JobState, JobView
from gridcore.ports import OutputChunk
from gridcore.reservations import (
    Acceptor,
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
    TripRef,
)
from gridcore.summaries import CalendarSummary, ShadowCalendar, SummaryDelta
from gridio.clock import ManualClock, SystemClock
from gridio.connections import SiteConnection
from gridio.credentials import Credential
from gridio.inproc import InprocSite
from gridio.rpc.client import GrpcSite
from gridio.rpc.front_door import LocalSocket
from gridio.rpc.peers import Peer
from gridio.rpc.server import GridServer
from tests.builders import a_request, book
from tests.certificate_scenes import a_site, a_user, an_authority
from tests.fake_services import FakeSite

NOW = 1_000_000
WINDOW_CHUNKS_MAX = 64
"""Pieces of a megabyte that may lie in buffers and windows of both ends; 2 to 20 were seen."""

CARRIERS = ("inproc", "codec", "tls", "local")


@dataclass
class World:
    """A site, its clock, and a caller's connection to it."""

    carrier: str
    site: FakeSite
    clock: ManualClock
    connection: SiteConnection

    @property
    def is_on_a_wire(self) -> bool:
        """True when values become messages on their way."""
        return self.carrier != "inproc"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> tuple[Credential, Credential]:
    """Of the site ``lab`` and of the user ``ada``."""
    folder = tmp_path_factory.mktemp("credentials")
    now = SystemClock().now()
    authority = an_authority(folder, now=now)
    lab = a_site(authority, folder, name="lab", now=now)
    return lab, a_user(authority, folder, login="ada", now=now)


def _identify(peer: Peer) -> Caller:
    return Caller(subject=peer.name, login="ada")


@pytest.fixture(params=CARRIERS)
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, credentials: tuple[Credential, Credential]
) -> AsyncIterator[World]:
    """The same site behind each carrier."""
    clock = ManualClock(NOW)
    site = FakeSite(clock, tmp_path)
    caller = Caller(subject="/O=grid/OU=users/CN=ada", login="ada")
    connection: SiteConnection
    async with AsyncExitStack() as stack:
        if request.param in ("inproc", "codec"):
            through_codec = request.param == "codec"
            connection = InprocSite(
                site, caller, through_codec=through_codec, clock=clock, name="lab"
            )
        elif request.param == "tls":
            lab, ada = credentials
            server = GridServer(
                site, _identify, address="127.0.0.1:0", credential=lab, clock=clock, site="lab"
            )
            await stack.enter_async_context(server)
            connection = GrpcSite(server.endpoint, ada, site="lab", clock=clock)
        else:
            local = LocalSocket(path=tmp_path / "front.sock")
            server = GridServer(site, _identify, local=local, clock=clock, site="lab")
            await stack.enter_async_context(server)
            connection = GrpcSite(server.endpoint, site="lab", clock=clock)
        stack.push_async_callback(connection.close)
        yield World(request.param, site, clock, connection)


def a_spec(request_id: str = "submit-1", **others: Any) -> JobSpec:
    """One node for a minute."""
    chosen: dict[str, Any] = {
        "request_id": request_id,
        "name": "sum",
        "account": "physics",
        "nodes": 1,
        "limit_s": 60,
        "argv": ("/bin/sum", "a b", ""),
    }
    return JobSpec(**(chosen | others))


async def _held(world: World, request_id: str = "r1", **others: Any) -> Reservation:
    request = a_request(request_id, earliest=NOW, start=None, **others)
    answer = await world.connection.calendar.reserve(request, ttl_s=10)
    assert isinstance(answer, Reservation), answer
    return answer


async def test_describe(world: World) -> None:
    """A site says what it is, what time it has, and who it takes the caller for."""
    told = await world.connection.calendar.describe()
    assert (told.site, told.login, told.time_precise) == ("lab", "ada", float(NOW))
    assert [(each.name, each.nodes) for each in told.classes] == [("node", 4)]
    assert told.lead_s == world.site.calendar.rules.lead_s


async def test_inquire_answers_each_window_in_order(world: World) -> None:
    """One answer a request, in order: offers where there is room, a refusal that teaches where
    there is none; and nothing changes.
    """
    book(
        world.site.calendar, a_request("x", nodes=4, start=NOW + 10, duration_s=20), NOW, owner="b"
    )
    before = world.site.calendar.version
    requests = [
        a_request("q1", earliest=NOW),
        a_request("q2", start=NOW + 10),
        a_request("q3", nodes=9, earliest=NOW),
    ]
    offered, full, too_large = await world.connection.calendar.inquire(requests)
    assert isinstance(offered, Availability)
    assert offered.version == before == world.site.calendar.version
    assert offered.offers[0].nodes >= 2
    assert isinstance(full, Decline)
    assert (full.rule, full.earliest) == (DeclineRule.NO_ROOM, NOW + 30)
    assert isinstance(too_large, Decline)
    assert too_large.rule is DeclineRule.TOO_LARGE
    assert await world.connection.calendar.inquire([]) == []


async def test_hold_commit_release(world: World) -> None:
    """Two phases, each of them idempotent; the answer is the entry of the owner's own book."""
    calendar = world.connection.calendar
    trip = TripRef(
        trip_id="trip-1",
        leg="left",
        participants=("lab", "west"),
        acceptors=(Acceptor(site="lab", endpoint="lab:1"),),
    )
    held = await _held(world, trip=trip, features=(), budget_millicredits=0, nodes=(1, 3))
    assert held == world.site.calendar.get(held.reservation_id)
    assert (held.state, held.nodes, held.owner) == (ReservationState.HELD, 3, "ada")
    assert held.hold_expires_at is not None
    assert NOW < held.hold_expires_at < held.start
    assert await calendar.reserve(held.request, ttl_s=10) == held
    committed = await calendar.commit(held.reservation_id)
    assert committed == replace(held, state=ReservationState.COMMITTED, hold_expires_at=None)
    assert await calendar.commit(held.reservation_id) == committed
    await calendar.release(held.reservation_id)
    await calendar.release(held.reservation_id)
    assert world.site.calendar.get(held.reservation_id).state is ReservationState.RELEASED
    late = await calendar.reserve(held.request, ttl_s=10)
    assert isinstance(late, Decline)
    assert late.rule is DeclineRule.FINISHED


async def test_hold_expires_by_its_owner(world: World) -> None:
    """A commit after the hold's lifetime is refused by a value."""
    held = await _held(world)
    world.clock.advance(60)
    refused = await world.connection.calendar.commit(held.reservation_id)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.STATE


async def test_refusal_brings_a_summary(world: World) -> None:
    """Everything a refusal teaches arrives, down to the last slot of the summary."""
    book(
        world.site.calendar, a_request("x", nodes=3, start=NOW + 10, duration_s=20), NOW, owner="b"
    )
    refused = await world.connection.calendar.reserve(
        a_request("r", nodes=2, start=NOW + 12), ttl_s=10
    )
    assert isinstance(refused, Decline)
    assert refused.nodes_now == 1
    assert refused.summary == world.site.summary()


async def test_release_of_the_unknown(world: World) -> None:
    """Release succeeds for what never was, and a released request never books anything later."""
    await world.connection.calendar.release("lab.999")
    await world.connection.calendar.release_request("never-seen")
    late = await world.connection.calendar.reserve(a_request("never-seen", earliest=NOW), ttl_s=10)
    assert isinstance(late, Decline)
    assert late.rule is DeclineRule.FINISHED


async def test_amend_keeps_the_old_unless_granted(world: World) -> None:
    """A refused change leaves the reservation as it was; a granted one moves it in one step."""
    calendar = world.connection.calendar
    held = await _held(world)
    old = await calendar.commit(held.reservation_id)
    refused = await calendar.amend(held.reservation_id, a_request("a1", nodes=9, earliest=NOW))
    assert isinstance(refused, Decline)
    assert world.site.calendar.get(held.reservation_id) == old
    moved = await calendar.amend(held.reservation_id, a_request("a2", nodes=4, start=NOW + 100))
    assert isinstance(moved, Reservation)
    assert (moved.start, moved.nodes) == (NOW + 100, 4)


async def test_subscription(world: World) -> None:
    """A full summary first, then changes from which a shadow stays equal to the owner; the
    service's stream ends with its reader.
    """
    shadow = ShadowCalendar("lab")
    async with aclosing(world.connection.calendar.subscribe()) as news:  # type: ignore[type-var]
        first = await anext(news)
        assert isinstance(first, CalendarSummary)
        assert shadow.replace(first)
        for number in (1, 2):
            await _held(world, f"r{number}", nodes=1)
            change = await anext(news)
            assert isinstance(change, SummaryDelta)
            assert shadow.update(change)
            assert shadow.summary == world.site.summary()
        assert world.site.subscribers == 1
    while world.site.subscribers:
        await world.connection.calendar.describe()


@pytest.mark.parametrize(
    ("question", "kind", "words", "hint"),
    [
        ("conflict", ConflictError, "the book says otherwise", "look again"),
        ("unavailable", UnavailableError, "the children are out", "wait"),
        ("input", InputError, "no such question é", "ask another"),
        ("missing", NotFoundError, "nothing of that name", None),
    ],
)
async def test_faults_keep_class_words_and_hint(
    world: World, question: str, kind: type[GridError], words: str, hint: str | None
) -> None:
    """A fault arrives as what it was raised as."""
    with pytest.raises(kind) as caught:
        await world.connection.site.query(question, {})
    assert type(caught.value) is kind
    assert words in caught.value.message
    assert caught.value.hint == hint


async def test_defect_tells_nothing(world: World) -> None:
    """An exception that nobody meant to raise crosses no wire with its text."""
    if not world.is_on_a_wire:
        with pytest.raises(ValueError, match="secret"):
            await world.connection.site.query("defect", {})
        return
    with pytest.raises(GridError) as caught:
        await world.connection.site.query("defect", {})
    assert type(caught.value) is GridError
    assert "secret" not in str(caught.value)
    assert "internal error" in str(caught.value)


async def test_what_belongs_to_others(world: World) -> None:
    """Nobody acts for another: somebody else's reservation can be seen and not touched."""
    theirs = book(world.site.calendar, a_request("x", start=NOW + 10), NOW, owner="bob")
    for verb in (world.connection.calendar.commit, world.connection.calendar.release):
        with pytest.raises(NotAuthorisedError):
            await verb(theirs.reservation_id)
    assert await world.connection.site.reservations(everybody=False) == []
    assert await world.connection.site.reservations(everybody=True) == [theirs]


async def test_same_id_for_another_request(world: World) -> None:
    """Using an id twice for different things is the caller's mistake."""
    await _held(world, "r1")
    with pytest.raises(InputError, match="another request"):
        await world.connection.calendar.reserve(a_request("r1", nodes=1, earliest=NOW), ttl_s=10)


async def test_user_settable_reservation(world: World) -> None:
    """A dry run says what would be granted and changes nothing; then it is granted in one step."""
    request = a_request("s1", earliest=NOW)
    would_be = await world.connection.site.set_reservation(request, is_dry_run=True)
    assert isinstance(would_be, Reservation)
    assert await world.connection.site.reservations(everybody=True) == []
    set_now = await world.connection.site.set_reservation(request, is_dry_run=False)
    assert set_now == would_be
    assert set_now.state is ReservationState.COMMITTED
    assert await world.connection.site.reservations(everybody=False) == [set_now]


async def test_bindings(world: World) -> None:
    """Jobs to a reservation and reservations to a job, and back."""
    site = world.connection.site
    held = await _held(world)
    await site.bind(held.reservation_id, ["job.1", "job.2"])
    await site.unbind(held.reservation_id, ["job.1"])
    assert world.site.bound[held.reservation_id] == ("job.2",)
    await site.bind_job("job.1", [held.reservation_id, "lab.7"])
    await site.unbind_job("job.1", [held.reservation_id])
    assert world.site.bound["job.1"] == ("lab.7",)
    with pytest.raises(NotFoundError):
        await site.bind("lab.999", ["job.1"])


async def test_jobs(world: World) -> None:
    """A job is queued once, listed, and cancelled; one that can never run is refused by a value."""
    site = world.connection.site
    spec = a_spec(environment=(("A", "é\n"), ("B", "")), features=("gpu",))
    queued = await site.submit(spec)
    assert isinstance(queued, JobView)
    assert queued.spec == spec
    assert await site.submit(spec) == queued
    assert await site.jobs() == [queued]
    assert await site.jobs(job_ids=[queued.job_id]) == [queued]
    cancelled = await site.cancel_job(queued.job_id)
    assert (cancelled.state, cancelled.ended_at) == (JobState.CANCELLED, NOW)
    refused = await site.submit(a_spec("submit-2", nodes=5))
    assert isinstance(refused, Decline)
    assert refused.nodes_now == 4
    with pytest.raises(NotFoundError):
        await site.jobs(job_ids=["job.99"])


async def test_watch_and_follow(world: World) -> None:
    """A watcher sees each state until the job is over, a follower every byte from its offset on."""
    site = world.connection.site
    job = await site.submit(a_spec())
    assert isinstance(job, JobView)
    seen: list[JobView] = []

    async def watch() -> None:
        async for view in site.watch_job(job.job_id):
            seen.append(view)
            if view.state is JobState.QUEUED:
                await world.site.move_job(job.job_id, JobState.RUNNING, b"hello ")
            elif view.state is JobState.RUNNING:
                await world.site.move_job(job.job_id, JobState.COMPLETED, b"world")

    await watch()
    assert [view.state for view in seen] == [
        JobState.QUEUED,
        JobState.RUNNING,
        JobState.COMPLETED,
    ]
    assert seen[-1] == world.site.jobs[job.job_id]
    chunks = [chunk async for chunk in site.follow_output(job.job_id, "stdout", 2)]
    assert b"".join(chunk.content for chunk in chunks) == b"llo world"
    assert chunks[0].offset == 2
    assert [chunk async for chunk in site.follow_output(job.job_id, "stderr", 0)] == []


async def test_stalled_reader_stops_the_service(world: World) -> None:
    """Nothing piles up without end for a reader that does not read: once the transport's own
    window is full, the service is not asked for more, whatever else is going on.
    """
    async with aclosing(world.connection.site.follow_output("endless", "stdout", 0)) as chunks:  # type: ignore[type-var]
        await anext(chunks)
        made, rounds_without_more = 0, 0
        while rounds_without_more < 3:
            assert made < WINDOW_CHUNKS_MAX, "the service is asked for ever more"
            for _ in range(20):
                await world.connection.calendar.describe()
            rounds_without_more = rounds_without_more + 1 if made == world.site.chunks_made else 0
            made = world.site.chunks_made


async def test_query(world: World) -> None:
    """An answer that is JSON-like arrives as it was."""
    answer = await world.connection.site.query("echo", {"a": "1", "é": ""})
    assert answer == {
        "name": "echo",
        "arguments": {"a": "1", "é": ""},
        "list": [1, None, 0.5, "é"],
    }


async def _chunks(content: bytes, offset: int = 0) -> AsyncIterator[OutputChunk]:
    yield OutputChunk(offset=offset, content=content)


async def test_files(world: World) -> None:
    """A file larger than a message goes up and comes back, whole or from an offset on."""
    site = world.connection.site
    content = bytes(range(256)) * 20_000
    digest = hashlib.sha256(content).hexdigest()
    put = await site.put_file("trip-1", "in.dat", _chunks(content), mode=0o640, sha256=digest)
    assert (put.size_bytes, put.mode, put.sha256) == (len(content), 0o640, digest)
    assert await site.list_files("trip-1", "", with_checksums=True) == [put]
    plain = await site.list_files("trip-1", "", with_checksums=False)
    assert plain == [replace(put, sha256="")]
    pieces = [each async for each in site.get_file("trip-1", "in.dat", 100)]
    assert pieces[0].offset == 100
    assert b"".join(each.content for each in pieces) == content[100:]


async def test_upload_goes_on(world: World) -> None:
    """The first piece's offset says where to go on; a wrong checksum is refused."""
    site = world.connection.site
    await site.put_file("a", "f", _chunks(b"hello "), mode=0o600, sha256="")
    whole = hashlib.sha256(b"hello world").hexdigest()
    put = await site.put_file("a", "f", _chunks(b"world", 6), mode=0o600, sha256=whole)
    assert put.size_bytes == 11
    with pytest.raises(InputError, match="checksum"):
        await site.put_file("a", "g", _chunks(b"x"), mode=0o600, sha256="0" * 64)
    with pytest.raises(NotFoundError):
        [each async for each in site.get_file("a", "missing", 0)]


async def test_upload_whose_source_fails(world: World) -> None:
    """A source that breaks off breaks the call off, with its own exception, and half a file is
    never taken for the file.
    """

    async def broken() -> AsyncIterator[OutputChunk]:
        yield OutputChunk(offset=0, content=b"half")
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk is gone"):
        await world.connection.site.put_file("a", "f", broken(), mode=0o600, sha256="")
    await world.connection.calendar.describe()
    assert not (world.site.folder / "a" / "f").exists()


async def test_cancelled_question_reaches_the_service(world: World) -> None:
    """A caller who gives up leaves no call behind and can go on asking."""
    asking = asyncio.ensure_future(world.connection.site.query("for-ever", {}))
    await world.connection.calendar.describe()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await world.connection.calendar.describe()).site == "lab"


async def test_skew_is_known_after_an_answer(world: World) -> None:
    """Equal clocks have no skew."""
    await world.connection.calendar.describe()
    skew = world.connection.skew_s()
    assert skew is not None
    assert abs(skew.skew_s) <= skew.uncertainty_s + 1e-6


async def test_close_twice(world: World) -> None:
    """Closing is idempotent, also before anything was asked."""
    await world.connection.close()
    await world.connection.close()

"""Sessions: many calls on one stream behave as calls of their own would, in good and bad times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import DeadlineError, InputError, NotFoundError, UnavailableError
from gridtravel.gridcore.ports import SitePort
from gridtravel.gridio.rpc import verbs
from gridtravel.gridio.rpc.client import channel_wire, session_client
from gridtravel.gridio.rpc.server import session_server
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.system.clock import SystemClock
from gridwire.v1 import calendar_pb2, session_pb2, site_pb2
from tests.support.certificate_scenes import a_site
from tests.support.fake_services import FakeSite
from tests.support.fake_site_port import FakeSitePort
from tests.support.rpc_scenes import RAW_DEADLINE_S, SERVER_NAME, Scene, a_scene, identify_by_map

pytestmark = pytest.mark.integration

HUGE = "x" * (session_server.ANSWER_BYTES_MAX + 1)
PATIENCE_S = 120.0


class WaitingSite(FakeSite):
    """A site whose query ``wait`` is answered when its test says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SystemClock(), folder)
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()

    def site_port(self, caller: Caller) -> SitePort:
        """See ``SiteServices``."""
        return WaitingPort(self, caller)


class WaitingPort(FakeSitePort):
    """One caller at a ``WaitingSite``."""

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """See ``WaitingSite``."""
        if name == "huge":
            return HUGE
        if name != "wait":
            return await super().query(name, arguments)
        site = self._site
        assert isinstance(site, WaitingSite)
        site.begun.set()
        try:
            await site.go_on.wait()
        except asyncio.CancelledError:
            site.cancelled.set()
            raise
        return "waited"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """The site ``lab``; afterwards it must still serve."""
    async with a_scene(tmp_path) as made:
        yield made


@pytest.fixture
async def waiting(scene: Scene, tmp_path: Path) -> AsyncIterator[tuple[Scene, WaitingSite]]:
    """A second server of ``lab`` with queries that wait."""
    lab = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    site = WaitingSite(tmp_path)
    async with GridServer(site, identify_by_map, address="127.0.0.1:0", credential=lab) as server:
        yield Scene(scene.authority, site, server, scene.ada, tmp_path), site


def raw_session(
    scene: Scene, frames: list[bytes]
) -> tuple[grpc.aio.Channel, grpc.aio.StreamStreamCall[bytes, session_pb2.Answers]]:
    """A session that says exactly ``frames``."""
    secrets = grpc.ssl_channel_credentials(
        scene.ada.root_pem, scene.ada.key_pem, scene.ada.cert_pem
    )
    options = [("grpc.ssl_target_name_override", SERVER_NAME), ("grpc.enable_http_proxy", 0)]
    channel = grpc.aio.secure_channel(scene.server.endpoint, secrets, options=options)

    async def said() -> AsyncIterator[bytes]:
        for frame in frames:
            yield frame

    call = channel.stream_stream(
        session_client.METHOD,
        request_serializer=bytes,
        response_deserializer=session_pb2.Answers.FromString,
    )(said(), timeout=RAW_DEADLINE_S)
    return channel, call


async def answers_to(
    scene: Scene, questions: list[session_pb2.Question]
) -> list[session_pb2.Answer]:
    """All answers of a session with these questions in one message."""
    content = session_pb2.Questions(questions=questions).SerializeToString()
    channel, call = raw_session(scene, [content])
    answers = [answer async for message in call for answer in message.answers]
    await channel.close(None)
    return answers


async def test_a_slow_answer_holds_nobody_up(waiting: tuple[Scene, WaitingSite]) -> None:
    """Answers come in the order in which they are ready."""
    scene, site = waiting
    connection = scene.connect(scene.ada)
    slow = asyncio.create_task(connection.site.query("wait", {}))
    await site.begun.wait()
    assert (await connection.calendar.describe()).site == "lab"
    assert not slow.done()
    site.go_on.set()
    assert await slow == "waited"
    await connection.close()


async def test_a_caller_who_gives_up_is_known_at_the_site(
    waiting: tuple[Scene, WaitingSite],
) -> None:
    """Cancelling a call ends its work at the site, and nothing else on the same session."""
    scene, site = waiting
    connection = scene.connect(scene.ada)
    slow = asyncio.create_task(connection.site.query("wait", {}))
    await site.begun.wait()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    await asyncio.wait_for(site.cancelled.wait(), PATIENCE_S)
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()


async def test_a_deadline_ends_the_wait_at_both_ends(
    waiting: tuple[Scene, WaitingSite],
) -> None:
    """Whoever waited long enough is told so, and the site stops working for nobody."""
    scene, site = waiting
    connection = scene.connect(scene.ada)
    await connection.calendar.describe()
    with pytest.raises(DeadlineError):
        await connection._wire.ask(
            replace(verbs.QUERY, deadline_s=0.05), site_pb2.QueryRequest(name="wait")
        )
    await asyncio.wait_for(site.cancelled.wait(), PATIENCE_S)
    await connection.close()


async def test_a_stopping_site_answers_what_it_has_read(
    waiting: tuple[Scene, WaitingSite],
) -> None:
    """An open session does not hold a stopping server up, and no answer is lost to it."""
    scene, site = waiting
    connection = scene.connect(scene.ada)
    slow = asyncio.create_task(connection.site.query("wait", {}))
    await site.begun.wait()
    stopping = asyncio.create_task(scene.server.stop(grace_s=PATIENCE_S))
    await asyncio.sleep(0)
    site.go_on.set()
    assert await slow == "waited"
    await asyncio.wait_for(stopping, PATIENCE_S / 2)
    with pytest.raises(UnavailableError):
        await connection.calendar.describe()
    await connection.close()


async def test_a_server_that_knows_no_sessions(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked by calls of their own, also by the very first question."""
    monkeypatch.setattr(session_client, "METHOD", "/gridwire.v1.SessionService/Unknown")
    connection = scene.connect(scene.ada)
    assert (await connection.calendar.describe()).login == "ada"
    assert await connection.site.query("echo", {}) is not None
    with pytest.raises(NotFoundError, match="nothing of that name"):
        await connection.site.query("missing", {})
    assert connection.skew_s() is not None
    await connection.close()


async def test_a_large_question_goes_by_itself(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would hold the others up is no part of the session."""

    def refuse(_: object) -> object:
        raise AssertionError("no session was to be opened")

    monkeypatch.setattr(channel_wire, "open_session", refuse)
    connection = scene.connect(scene.ada)
    arguments = {str(n): "x" * 16_000 for n in range(20)}
    assert await connection.site.query("echo", arguments)
    await connection.close()


async def test_an_answer_too_large_spares_the_others(
    waiting: tuple[Scene, WaitingSite],
) -> None:
    """It fails alone; the session and what else is asked on it go on."""
    scene, site = waiting
    connection = scene.connect(scene.ada)
    slow = asyncio.create_task(connection.site.query("wait", {}))
    await site.begun.wait()
    with pytest.raises(InputError, match="too large"):
        await connection.site.query("huge", {})
    site.go_on.set()
    assert await slow == "waited"
    await connection.close()


async def test_more_questions_than_a_session_holds(
    waiting: tuple[Scene, WaitingSite], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait to be read, and each is answered."""
    monkeypatch.setattr(session_server, "QUESTIONS_MAX", 2)
    scene, site = waiting
    connection = scene.connect(scene.ada)
    asked = [asyncio.create_task(connection.site.query("wait", {})) for _ in range(20)]
    await site.begun.wait()
    site.go_on.set()
    assert await asyncio.gather(*asked) == ["waited"] * 20
    await connection.close()


async def test_more_questions_than_a_site_takes(scene: Scene) -> None:
    """Beyond the bound of all sessions together a question is refused, worth a retry."""
    sessions = scene.server._sessions
    assert sessions is not None
    sessions.questions = sessions.questions_max
    connection = scene.connect(scene.ada)
    with pytest.raises(UnavailableError, match="too many calls"):
        await connection.calendar.describe()
    sessions.questions = 0
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()
    assert sessions.questions == 0


async def test_frames_that_make_no_sense(scene: Scene) -> None:
    """An unknown method, a streaming one, words that do not parse and a name used twice each get
    their own answer; taking back what was never asked gets none.
    """
    describe = calendar_pb2.DescribeRequest().SerializeToString()
    answers = await answers_to(
        scene,
        [
            session_pb2.Question(number=7),
            session_pb2.Question(number=1, method="/no.Such/Method"),
            session_pb2.Question(number=2, method=verbs.SUBSCRIBE.path),
            session_pb2.Question(number=3, method=verbs.DESCRIBE.path, content=b"\xff" * 20),
            session_pb2.Question(number=4, method=verbs.DESCRIBE.path, content=describe),
            session_pb2.Question(number=4, method=verbs.DESCRIBE.path, content=describe),
            session_pb2.Question(
                number=5, method=verbs.DESCRIBE.path, limit_s=float("nan"), request_id="\n"
            ),
        ],
    )
    codes = sorted((each.number, each.code) for each in answers if each.number != 5)
    unknown, wrong = grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT
    assert codes == [
        (1, unknown.value[0]),
        (2, unknown.value[0]),
        (3, wrong.value[0]),
        (4, 0),
        (4, 0),
    ]
    assert all(each.time_precise > 0 for each in answers)


async def test_noise_on_a_session(scene: Scene) -> None:
    """Bytes that are no questions end the session, without a word about the inside."""
    channel, call = raw_session(scene, [b"\xff" * 20])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in call:
            pass
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "the questions cannot be read"
    await channel.close(None)


async def test_outsiders_need_no_session(scene: Scene) -> None:
    """Every verb is there as a call of its own."""
    secrets = grpc.ssl_channel_credentials(
        scene.ada.root_pem, scene.ada.key_pem, scene.ada.cert_pem
    )
    options = [("grpc.ssl_target_name_override", SERVER_NAME), ("grpc.enable_http_proxy", 0)]
    channel = grpc.aio.secure_channel(scene.server.endpoint, secrets, options=options)
    for verb, question in (
        (verbs.DESCRIBE, calendar_pb2.DescribeRequest()),
        (verbs.LIST_JOBS, site_pb2.ListJobsRequest()),
    ):
        call = channel.unary_unary(
            verb.path,
            request_serializer=type(question).SerializeToString,
            response_deserializer=verb.answer.FromString,
        )
        assert isinstance(await call(question, timeout=RAW_DEADLINE_S), verb.answer)
    await channel.close(None)

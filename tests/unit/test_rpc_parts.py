"""Parts of the transport that need no connection: skew, faults, peers, log lines, addresses."""

from __future__ import annotations

import grp
import io
import json
import logging
import os
from pathlib import Path
from typing import Any

import grpc
import pytest

from gridtravel.gridcore.booking.reservations import DeclineRule, ReservationRequest
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import (
    ConflictError,
    DeadlineError,
    GridError,
    InputError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridio.rpc.client.diagnosis import split_endpoint
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.rpc.codec import reservations
from gridtravel.gridio.rpc.codec.faults import (
    CODES,
    FAULT_KEY,
    HINT_LENGTH_MAX,
    code_of,
    details_of,
    fault_from,
    metadata_of,
)
from gridtravel.gridio.rpc.codec.site_messages import decode_json
from gridtravel.gridio.rpc.port_verbs import PORT_VERBS
from gridtravel.gridio.rpc.server.front_door import Admitting, FrontDoor
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.rpc.server.peers import Peer, map_caller
from gridtravel.gridio.sites.connections import DRIFT_MAX, IdentityNotProvenError, SkewMeter
from gridtravel.gridio.sites.forwarding import call
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.gridio.system.logs import (
    JsonLines,
    configure_logging,
    current_request,
    logging_context,
)
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry
from gridwire.v1 import common_pb2
from tests.support.builders import a_request, a_reservation
from tests.support.fake_services import FakeSite

# -- skew ------------------------------------------------------------------------------------------


def test_skew_is_the_middle_of_the_round_trip() -> None:
    """The site's time belongs to the middle; half of the round trip bounds the error."""
    meter = SkewMeter()
    assert meter.estimate(0.0) is None
    meter.measure(sent_at=100.0, received_at=100.4, site_time=105.2)
    skew = meter.estimate(100.4)
    assert skew is not None
    assert skew.skew_s == pytest.approx(5.0)
    assert skew.uncertainty_s == pytest.approx(0.2)


def test_shortest_round_trip_wins_until_drift_eats_it() -> None:
    """A slower exchange is passed over, unless the better one is so old that clocks may have
    drifted by more than the difference.
    """
    meter = SkewMeter()
    meter.measure(sent_at=0.0, received_at=0.02, site_time=1.01)
    meter.measure(sent_at=1.0, received_at=3.0, site_time=9.0)
    skew = meter.estimate(3.0)
    assert skew is not None
    assert skew.skew_s == pytest.approx(1.0)
    later = 3.0 + 1.0 / DRIFT_MAX
    meter.measure(sent_at=later, received_at=later + 1.0, site_time=later + 2.5)
    skew = meter.estimate(later + 1.0)
    assert skew is not None
    assert skew.skew_s == pytest.approx(2.0)


@pytest.mark.parametrize("site_time", [float("nan"), float("inf")])
def test_absurd_times_say_nothing(site_time: float) -> None:
    """A hostile clock, or our own set back during the exchange, leaves no estimate."""
    meter = SkewMeter()
    meter.measure(sent_at=1.0, received_at=2.0, site_time=site_time)
    meter.measure(sent_at=2.0, received_at=1.0, site_time=1.5)
    assert meter.estimate(2.0) is None


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("hint", ["", "say é instead"])
def test_each_fault_comes_back_as_itself(kind: type[GridError], hint: str) -> None:
    """Class, message and hint survive the journey through status and metadata."""
    fault = kind("no such é", hint=hint)
    back = fault_from(code_of(fault), details_of(fault), metadata_of(fault), attempted="Commit")
    assert type(back) is kind
    assert back.message == "Commit: no such é"
    assert back.hint == hint


def test_each_fault_has_a_code_of_its_own() -> None:
    """Two classes with one code could not be told apart again."""
    assert len(set(CODES.values())) == len(CODES)
    assert code_of(type("Special", (ConflictError,), {})("x", hint="")) is CODES[ConflictError]


def test_a_long_fault_fits_into_metadata() -> None:
    """Whatever a message holds, its status stays within what any gRPC peer accepts."""
    fault = InputError("\U0001f600\n" * 10_000, hint="\U0001f600" * 10_000)
    ((key, hint),) = metadata_of(fault)
    assert hint.isascii()
    assert len(key) + len(hint) + 3 * len(details_of(fault).encode()) < 10_000
    back = fault_from(code_of(fault), details_of(fault), metadata_of(fault), attempted="x")
    assert back.hint == "\U0001f600" * HINT_LENGTH_MAX
    assert "\n" not in back.message


@pytest.mark.parametrize("content", ["", "[]", "{", '{"hint": 3}', "[" * 100_000])
def test_hostile_fault_metadata(content: str) -> None:
    """A hint that is none is left out."""
    back = fault_from(grpc.StatusCode.NOT_FOUND, "x", [(FAULT_KEY, content)], attempted="y")
    assert (type(back), back.hint) == (NotFoundError, "")


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", UnavailableError),
        (grpc.StatusCode.CANCELLED, "", UnavailableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", DeadlineError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max", InputError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!", UnavailableError),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", NotFoundError),
        (grpc.StatusCode.INTERNAL, "stream error", GridError),
        (grpc.StatusCode.UNAUTHENTICATED, "who?", IdentityNotProvenError),
        (grpc.StatusCode.DATA_LOSS, None, GridError),
    ],
)
def test_what_the_transport_says(
    code: grpc.StatusCode, details: str | None, kind: type[GridError]
) -> None:
    """A status that no site raised becomes the nearest fault, with what was attempted."""
    back = fault_from(code, details, None, attempted="Reserve at lab")
    assert type(back) is kind
    assert back.message.startswith("Reserve at lab: ")


# -- peers -----------------------------------------------------------------------------------------

MAP = GridMap(
    [
        grid_map_entry("/O=grid/OU=users/CN=ada", ["ada", "physics"]),
        grid_map_entry("/O=grid/OU=users/CN=ada-laptop", ["ada", "maths"]),
        grid_map_entry("/O=grid/OU=managers/CN=north", ["@manager"]),
    ]
)


@pytest.mark.parametrize(
    ("peer", "login", "accounts", "role"),
    [
        (Peer(subject="/O=grid/OU=users/CN=ada"), "ada", ("ada", "physics"), Role.USER),
        (Peer(subject="/O=grid/OU=users/CN=bob"), "", (), Role.USER),
        (Peer(subject="/O=grid/OU=managers/CN=north"), "", (), Role.MANAGER),
        (Peer(subject="/O=grid/OU=managers/CN=south"), "", (), Role.USER),
        (Peer(subject="/O=grid/OU=sites/CN=west"), "", (), Role.SITE),
        (Peer(login="ada"), "ada", ("ada", "physics", "maths"), Role.USER),
        (Peer(login="root"), "root", ("root",), Role.ADMIN),
    ],
)
def test_callers(peer: Peer, login: str, accounts: tuple[str, ...], role: Role) -> None:
    """A manager is one only by the map, a site by its certificate, a stranger nobody."""
    caller = map_caller(peer, MAP, admins={"root"})
    assert (caller.login, caller.accounts, caller.role) == (login, accounts, role)
    assert caller.subject == peer.name


# -- log lines -------------------------------------------------------------------------------------


def test_one_line_an_event() -> None:
    """A line is JSON, has the context's fields, and a text of several lines stays one."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    with logging_context(request="call-1", site="lab"):
        assert current_request() == "call-1"
        logger.info("two\nlines", extra={"verb": "Reserve", "path": Path("/x")})
        try:
            raise ValueError("why")
        except ValueError:
            logger.exception("defect")
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert first["event"] == "two\nlines"
    assert (first["request"], first["site"], first["verb"]) == ("call-1", "lab", "Reserve")
    assert (first["level"], first["path"]) == ("info", "/x")
    assert first["time"].endswith("Z")
    assert "ValueError: why" in second["traceback"]
    assert current_request() == ""


def test_logging_is_configured_once() -> None:
    """Configuring again replaces, so that no event is written twice."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    stream = io.StringIO()
    try:
        configure_logging(stream=io.StringIO())
        handler = configure_logging(stream=stream)
        logging.getLogger("x").warning("once")
        assert len(stream.getvalue().splitlines()) == 1
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert root.handlers == before


# -- addresses and listeners -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [("lab.org:7000", "lab.org", 7000), ("[::1]:80", "::1", 80), ("10.0.0.1:1", "10.0.0.1", 1)],
)
def test_endpoints(endpoint: str, host: str, port: int) -> None:
    """Host and port, also of an address with colons."""
    assert split_endpoint(endpoint) == (host, port)


@pytest.mark.parametrize("endpoint", ["lab", "lab:", ":80", "lab:0", "lab:65536", "lab:x", ""])
def test_no_endpoint(endpoint: str) -> None:
    """What is no address is refused before anything is connected."""
    with pytest.raises(InputError, match="no address"):
        GrpcSite(endpoint, site="lab")


def test_tcp_needs_a_certificate(fake_site: FakeSite) -> None:
    """Neither end speaks over a network without one."""
    with pytest.raises(InputError, match="needs a certificate"):
        GrpcSite("lab.org:7000", site="lab")
    with pytest.raises(InputError, match="needs a certificate"):
        GridServer(fake_site, map_caller_of_nobody, address="127.0.0.1:0")
    with pytest.raises(InputError, match="an address or a local socket"):
        GridServer(fake_site, map_caller_of_nobody)


def map_caller_of_nobody(peer: Peer) -> Caller:
    """Everybody is nobody."""
    return Caller(subject=peer.name)


@pytest.fixture
def fake_site(tmp_path: Path) -> FakeSite:
    """A site that nobody asks."""
    return FakeSite(ManualClock(0), tmp_path)


def test_local_socket_path_is_bounded(tmp_path: Path) -> None:
    """A path that no socket can have is refused when it is configured."""
    with pytest.raises(InputError, match="at most 107 bytes"):
        LocalSocket(path=tmp_path / ("x" * 120))


async def test_unknown_group(tmp_path: Path) -> None:
    """A group that the machine does not have leaves no socket behind."""
    door = FrontDoor(
        local=LocalSocket(path=tmp_path / "s", group="no-such-group"), admitting=Admitting()
    )
    door.prepare()
    with pytest.raises(InputError, match="no group"):
        door.open()
    await door.close()
    assert os.listdir(tmp_path) == []


async def test_group_may_connect(tmp_path: Path) -> None:
    """A named group gets in, and nobody else."""
    group = grp.getgrgid(os.getgid()).gr_name
    door = FrontDoor(local=LocalSocket(path=tmp_path / "s", group=group), admitting=Admitting())
    door.prepare()
    door.open()
    status = os.stat(tmp_path / "s")
    assert (status.st_mode & 0o777, status.st_gid) == (0o660, os.getgid())
    await door.close()
    assert os.listdir(tmp_path) == []


# -- hostile fields --------------------------------------------------------------------------------


def _request_message() -> common_pb2.ReservationRequest:
    return reservations.REQUEST.encode(a_request())


def _reservation_message() -> common_pb2.Reservation:
    return reservations.encode_answer(a_reservation(), 0).reservation


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("latest_end", 2**62),
        ("earliest_start", -1),
        ("budget_millicredits", -1),
        ("features", ["a", ""]),
        ("features", ["x" * 200]),
        ("notify_email", "a@b\nBcc: c@d"),
        ("beneficiary", "x" * 1000),
        ("via", ["north", ""]),
        ("account", "\x1b[2J"),
        ("replaces", "no spaces"),
    ],
)
def test_absurd_request(field: str, value: Any) -> None:
    """An absurd value is refused by the name of its field."""
    message = _request_message()
    message.MergeFrom(common_pb2.ReservationRequest(**{field: value}))
    with pytest.raises(InputError, match=field):
        reservations.REQUEST.decode(message)


@pytest.mark.parametrize("field", ["request", "interval"])
def test_missing_part_of_a_reservation(field: str) -> None:
    """A reservation without its request or its time is none."""
    message = _reservation_message()
    message.ClearField(field)
    with pytest.raises(InputError, match=f"{field} is missing"):
        reservations.decode_reservation(message, 0)


def test_unknown_numbers() -> None:
    """A state that this version does not know is not guessed at."""
    message = _reservation_message()
    message.state = 99  # type: ignore[assignment] # what a newer site might say
    with pytest.raises(InputError, match=r"state has the unknown number 99"):
        reservations.decode_reservation(message, 0)
    message.state = common_pb2.RESERVATION_STATE_HELD
    with pytest.raises(InputError, match="hold_remaining_s is missing"):
        reservations.decode_reservation(message, 0)


def test_rule_of_a_newer_site() -> None:
    """A refusal by a rule that this version does not know stays a refusal."""
    told = reservations.DECLINE.decode(common_pb2.Decline(rule="moon-phase", message="wait"))
    assert (told.rule, told.message) == (DeclineRule.POLICY, "moon-phase: wait")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (a_request(until=2**70), "latest_end"),
        (a_request(notify_email="\ud800"), "notify_email"),
    ],
)
def test_what_cannot_be_sent(request_: ReservationRequest, field: str) -> None:
    """A value that no message can hold is the caller's mistake, by the name of its field."""
    with pytest.raises(InputError, match=field):
        PORT_VERBS["reserve"].words.message(call(CalendarPort.reserve, request_, ttl_s=1, job=None))


@pytest.mark.parametrize("content", ["", "{", "NaN", "[" * 100_000])
def test_query_answer_that_is_no_json(content: str) -> None:
    """Text that is no JSON, or too deep, is refused."""
    with pytest.raises(InputError, match="json"):
        decode_json(content)

"""The tables by which values and verbs cross the wire."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gridtravel.gridcore.booking.reservations import Begin, Offer
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridio.rpc import verbs
from gridtravel.gridio.rpc.codec.calendar_messages import NEWS
from gridtravel.gridio.rpc.codec.checks import build
from gridtravel.gridio.rpc.codec.reservations import TRIP
from gridtravel.gridio.rpc.codec.table import Table
from gridtravel.gridio.rpc.port_verbs import PORT_VERBS
from gridtravel.gridio.rpc.server.handlers import handlers_of
from gridtravel.gridio.rpc.verbs import CALENDAR_SERVICE, SITE_SERVICE, Verb
from gridtravel.gridio.sites.forwarding import ForwardingCalendar, ForwardingSite
from gridtravel.gridio.system.clock import ManualClock
from gridwire.v1 import calendar_pb2, common_pb2, site_pb2


def methods_of(port: type) -> set[str]:
    """What a port can be asked."""
    return {name for name in vars(port) if not name.startswith("_")}


def test_every_method_of_a_port_is_a_verb() -> None:
    """A method that a port gets must get its line in the table, and a way through a forwarder."""
    of_ports = methods_of(CalendarPort) | methods_of(SitePort)
    assert set(PORT_VERBS) == of_ports - {"put_file"}
    assert methods_of(ForwardingCalendar) == methods_of(CalendarPort)
    assert methods_of(ForwardingSite) == methods_of(SitePort)


def test_every_verb_is_answered() -> None:
    """Each verb of the protocol has a handler at the service that it belongs to."""
    known = {each for each in vars(verbs).values() if isinstance(each, Verb)}
    services = (CALENDAR_SERVICE, SITE_SERVICE)
    assert {verb for each in services for verb in handlers_of(each, ManualClock(0))} == known


def test_no_field_crosses_by_a_guess() -> None:
    """A field whose annotation has no rule must be given one where its table is made."""

    @dataclass(frozen=True)
    class Odd:
        start: complex

    with pytest.raises(KeyError, match="complex"):
        Table(Odd, common_pb2.Offer)


def test_a_value_that_a_message_has_no_place_for() -> None:
    """What is none of the choices of a message is our own mistake, and no empty message."""
    offer = Offer(start=0, start_until=1, nodes=1, resource_class="", unit_price_millicredits=0)
    with pytest.raises(TypeError, match="news"):
        NEWS.encode(offer)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"requests": [{"trip": {"acceptors": [{"site": "a"}, {"site": "\ud800"}]}}]}, "site"),
        ({"requests": [{"features": ["a", "\ud800"]}]}, "features"),
        ({"requests": 3}, "requests"),
    ],
)
def test_what_cannot_be_sent_is_named_wherever_it_is(fields: dict[str, object], name: str) -> None:
    """The innermost field is named, also of a message in a list of messages."""
    with pytest.raises(InputError, match=f"the value of {name} cannot be sent"):
        build(calendar_pb2.InquireRequest, fields)


def test_what_cannot_be_sent_as_an_argument() -> None:
    """Of a map the field itself is named: the keys are words of the user's."""
    with pytest.raises(InputError, match="the value of arguments cannot be sent"):
        build(site_pb2.QueryRequest, {"name": "why", "arguments": {"job": "\ud800"}})


def test_a_trip_of_an_earlier_release_begins_each_by_itself() -> None:
    """It says nothing of its begin; a number that only a later one knows is refused."""
    message = common_pb2.TripRef(trip_id="trip-1", leg="a", attempt=1)
    assert TRIP.decode(message).begin is Begin.EACH
    message.begin = 9  # type: ignore[assignment]  # as another release may
    with pytest.raises(InputError):
        TRIP.decode(message)

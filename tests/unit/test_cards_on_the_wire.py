"""Cards cross the wire whole, with what names their sites, and no longer than anybody reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.reservations import CARD_LENGTH_MAX, Acceptor, TripRef
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.handovers import Handover
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridcore.jobs.races import Race
from gridtravel.gridio.rpc.codec.calendar_messages import DESCRIPTION
from gridtravel.gridio.rpc.codec.reservations import REQUEST
from gridtravel.gridio.rpc.codec.site_messages import SPEC
from tests.oracles.wire_examples import DESCRIPTION as EXAMPLE
from tests.support.builders import a_request
from tests.support.cards import an_acceptor

ACCEPTORS = (an_acceptor("a"), an_acceptor("b"))
TRIP = TripRef(trip_id="trip-1", leg="here", acceptors=ACCEPTORS)
JOB = JobSpec(
    request_id="job-1",
    name="job",
    account="physics",
    nodes=1,
    limit_s=60,
    argv=("true",),
    reservation_id="lab.1",
)


def test_acceptors_of_a_leg() -> None:
    """As a hold brings them."""
    found = REQUEST.decode(REQUEST.encode(replace(a_request(), trip=TRIP)))
    assert found.trip is not None
    assert [each.card for each in found.trip.acceptors] == [each.card for each in ACCEPTORS]


def test_sites_that_a_job_names() -> None:
    """The giver of a stage's files, and the acceptors of a race."""
    giver = Handover(leg="first", site="a", endpoint="a:1", card=ACCEPTORS[0].card)
    found = SPEC.decode(SPEC.encode(replace(JOB, handover=giver)))
    assert found.handover is not None
    assert found.handover.card == giver.card
    race = Race(trip_id="t", copy="x", copies=("x", "y"), acceptors=ACCEPTORS, ends_at=9)
    found = SPEC.decode(SPEC.encode(replace(JOB, reservation_id="", race=race)))
    assert found.race is not None
    assert [each.card for each in found.race.acceptors] == [each.card for each in ACCEPTORS]


def test_what_a_site_tells_of_itself() -> None:
    """Its own card; a site of an older release has none."""
    told = replace(EXAMPLE, card=ACCEPTORS[0].card)
    assert DESCRIPTION.decode(DESCRIPTION.encode(told)).card == told.card
    message = DESCRIPTION.encode(told)
    message.ClearField("card")
    assert DESCRIPTION.decode(message).card == ""


@pytest.mark.parametrize("card", ["x" * (CARD_LENGTH_MAX + 1), "card1.\n"])
def test_what_no_card_can_be(card: str) -> None:
    """Too long, or more than a line: refused before anybody looks into it."""
    message = REQUEST.encode(replace(a_request(), trip=TRIP))
    message.trip.acceptors[0].card = card
    with pytest.raises(InputError, match="card"):
        REQUEST.decode(message)


def test_another_card_of_a_site_makes_no_other_request() -> None:
    """A site that started again has a new card, and the same request brings that."""
    other = replace(ACCEPTORS[0], card="another")
    assert replace(TRIP, acceptors=(other, ACCEPTORS[1])) == TRIP
    assert hash(other) == hash(ACCEPTORS[0])
    moved = replace(ACCEPTORS[0], endpoint="elsewhere:1")
    assert replace(TRIP, acceptors=(moved, ACCEPTORS[1])) != TRIP
    with pytest.raises(InputError):
        Acceptor(site="a", endpoint="", card="x" * (CARD_LENGTH_MAX + 1))

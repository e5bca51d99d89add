"""What excuses a site that did not learn an outcome: the world's own record, and nothing else."""

from __future__ import annotations

import pytest

from gridtravel.simulator.kernel.contacts import ContactLog

SITES = ("north", "east", "south")


class Time:
    """A clock that is set by hand."""

    is_ending = False

    def __init__(self) -> None:
        self.now_s = 0.0

    def time(self) -> float:
        """Seconds of the world."""
        return self.now_s


@pytest.fixture
def time() -> Time:
    """The world's time."""
    return Time()


@pytest.fixture
def log(time: Time) -> ContactLog:
    """A record in which nothing has happened."""
    return ContactLog(time)


def test_whoever_was_there_and_lost_nothing_has_no_excuse(log: ContactLog) -> None:
    """Also one that asked nobody: it should have."""
    assert log.why_unheard("north", SITES, 100.0, 135.0) == ""


def test_an_absence_excuses_when_too_little_time_is_left(log: ContactLog, time: Time) -> None:
    """Dead from the beginning of the window until shortly before its end."""
    time.now_s = 90.0
    log.gone("north", "dead")
    time.now_s = 125.0
    log.back("north", "dead")
    assert log.why_unheard("north", SITES, 100.0, 135.0) == "away or cut off"
    assert log.why_unheard("east", SITES, 100.0, 135.0) == ""


def test_a_short_absence_excuses_nothing(log: ContactLog, time: Time) -> None:
    """It is back, and there is time to ask."""
    time.now_s = 100.0
    log.gone("north", "dead")
    time.now_s = 105.0
    log.back("north", "dead")
    assert log.why_unheard("north", SITES, 100.0, 135.0) == ""


def test_cut_off_from_one_acceptor_a_majority_is_left(log: ContactLog, time: Time) -> None:
    """Of three one may be out of reach; two may not."""
    log.cut("trouble", frozenset({"south"}))
    assert log.why_unheard("north", SITES, 100.0, 135.0) == ""
    assert log.why_unheard("south", SITES, 100.0, 135.0) == "away or cut off"
    time.now_s = 110.0
    log.mended("trouble")
    assert log.why_unheard("south", SITES, 100.0, 135.0) == ""


def test_lost_messages_excuse_who_heard_no_majority(log: ContactLog, time: Time) -> None:
    """One that lost some and heard enough is told apart."""
    time.now_s = 110.0
    for other in ("east", "south", "east"):
        log.lost("north", other)
    assert log.why_unheard("north", SITES, 100.0, 135.0) == "heard no majority"
    log.heard("north", "east")
    assert log.why_unheard("north", SITES, 100.0, 135.0) == "messages lost before all was settled"
    assert log.why_unheard("north", SITES, 111.0, 146.0) == ""

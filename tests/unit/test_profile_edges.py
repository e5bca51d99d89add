"""What the availability profile refuses, and the questions that no search asks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError


def a_profile() -> AvailabilityProfile:
    """Four nodes, three of them booked during [10, 20)."""
    profile = AvailabilityProfile(4)
    profile.book(3, 10, 20)
    return profile


@pytest.mark.parametrize(
    "demand",
    [
        lambda profile: profile.book(-1, 0, 5),
        lambda profile: profile.unbook(-1, 0, 5),
        lambda profile: profile.unbook(1, 5, 5),
        lambda profile: profile.withdraw(-1, 0, 5),
        lambda profile: profile.withdraw(1, 5, 4),
        lambda profile: profile.cap(-1, 0, 5),
        lambda profile: profile.earliest_fit(-1, 5, 0),
        lambda profile: profile.earliest_fit(1, 0, 0),
        lambda profile: profile.min_free(5, 5),
        lambda profile: profile.max_free(5, 4),
    ],
)
def test_senseless_demands_change_nothing(
    demand: Callable[[AvailabilityProfile], object],
) -> None:
    """Fewer than no nodes and no time at all are mistakes, whoever makes them."""
    profile = a_profile()
    with pytest.raises(InputError):
        demand(profile)
    assert profile == a_profile()


def test_least_and_most_free() -> None:
    """During the whole of a stretch, and at some second of it."""
    profile = a_profile()
    assert (profile.min_free(5, 15), profile.max_free(5, 15)) == (1, 4)
    assert (profile.min_free(12, None), profile.max_free(12, 15)) == (1, 1)


def test_a_capacity_is_not_negative() -> None:
    """A site may have lost all its nodes, but not more."""
    assert AvailabilityProfile(0).steps() == [(0, 0)]
    with pytest.raises(InputError, match="capacity"):
        AvailabilityProfile(-1)


def test_steps_and_back() -> None:
    """What a profile lists makes it again; what none would list is refused."""
    profile = a_profile()
    assert AvailabilityProfile.from_steps(4, profile.steps()) == profile
    for steps in ([], [(5, 4), (5, 3)], [(0, 4), (5, 4)], [(0, 5)]):
        with pytest.raises(InputError, match="not the steps of a profile"):
            AvailabilityProfile.from_steps(4, steps)


def test_equality_and_what_a_failing_test_shows() -> None:
    """By content, and with nothing else."""
    assert a_profile() != AvailabilityProfile(4)
    assert a_profile() != "a profile"
    assert repr(a_profile()) == (
        "AvailabilityProfile(capacity=4, steps=[(0, 4), (10, 1), (20, 4)])"
    )


def test_a_plan_behind_endless_shortage_stays() -> None:
    """When too little is free from some second on for ever, nothing can move up to before it."""
    profile = AvailabilityProfile(4)
    profile.book(3, 10, None)
    assert profile.earlier(2, 5, 10, 50) == 50

"""Summaries, what changes between two of them, and the shadows that others keep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.summaries import (
    CalendarSummary,
    CalendarVersion,
    ClassSummary,
    ShadowCalendar,
    SummaryDelta,
    SummarySlot,
    delta_between,
)
from gridtravel.gridcore.errors import InputError


def a_class(name: str = "node", *, free: int = 1, start: int = 0) -> ClassSummary:
    """Four nodes and two slots of ten seconds, the first with so many free."""
    slots = (
        SummarySlot(start, start + 10, free, 10 * free),
        SummarySlot(start + 10, start + 20, 2, 30),
    )
    return ClassSummary(name=name, capacity=4, slots=slots)


def a_summary(
    number: int = 1,
    *classes: ClassSummary,
    epoch: str = "e",
    as_of: int | None = None,
    price: int = 0,
    site: str = "lab",
) -> CalendarSummary:
    """A summary of one class or of those given; it was made at ten times its number."""
    return CalendarSummary(
        site=site,
        version=CalendarVersion(epoch, number),
        as_of=10 * number if as_of is None else as_of,
        classes=classes or (a_class(),),
        millicredits_per_node_hour=price,
    )


def a_shadow(summary: CalendarSummary) -> ShadowCalendar:
    """A shadow that knows one summary."""
    shadow = ShadowCalendar("lab")
    assert shadow.replace(summary)
    return shadow


@pytest.mark.parametrize(
    ("slots", "named"),
    [
        ([(0, 10, 1, 10), (11, 20, 1, 9)], "overlap or leave a gap"),
        ([(0, 10, 1, 10), (9, 20, 1, 11)], "overlap or leave a gap"),
        ([(0, 0, 1, 0)], "overlap or leave a gap"),
        ([(0, 10, 5, 50)], "more free"),
        ([(0, 10, 2, 19)], "more free"),
        ([(0, 10, 2, 41)], "more free"),
        ([(0, 10, -1, 10)], "more free"),
    ],
)
def test_summaries_that_contradict_themselves(
    slots: list[tuple[int, int, int, int]], named: str
) -> None:
    """Slots follow on each other, and least, sum and capacity fit together."""
    with pytest.raises(InputError, match=named):
        ClassSummary(name="node", capacity=4, slots=tuple(SummarySlot(*slot) for slot in slots))


def test_each_class_is_named_once() -> None:
    """A delta goes by the name of the class."""
    with pytest.raises(InputError, match="names a resource class twice"):
        a_summary(1, a_class(), a_class())


def test_delta_holds_only_the_classes_that_changed() -> None:
    """And applying it gives the newer summary."""
    older = a_summary(1, a_class("slim"), a_class("wide"))
    newer = a_summary(2, a_class("slim"), a_class("wide", free=3))
    delta = delta_between(older, newer)
    assert [each.name for each in delta.classes] == ["wide"]
    shadow = a_shadow(older)
    assert shadow.update(delta)
    assert (shadow.summary, shadow.gaps) == (newer, 0)


@pytest.mark.parametrize(
    ("newer", "named"),
    [
        (a_summary(2, epoch="f"), "different sites or epochs"),
        (a_summary(2, site="hall"), "different sites or epochs"),
        (a_summary(0), "older than the one known"),
        (a_summary(1, as_of=9), "older than the one known"),
        (a_summary(2, a_class(), a_class("wide")), "different classes or prices"),
        (a_summary(2, a_class("wide")), "different classes or prices"),
        (a_summary(2, price=5), "different classes or prices"),
    ],
)
def test_changes_that_no_delta_can_tell(newer: CalendarSummary, named: str) -> None:
    """Then the full summary is sent: a delta would leave the shadow wrong without its knowing."""
    with pytest.raises(InputError, match=named):
        delta_between(a_summary(1), newer)


def test_a_gap_drops_what_is_known() -> None:
    """After a lost delta the shadow says that it knows nothing, until the next full summary."""
    first, second, third = (a_summary(n, a_class(free=n)) for n in (1, 2, 3))
    shadow = a_shadow(first)
    assert not shadow.update(delta_between(second, third))
    assert (shadow.summary, shadow.gaps, shadow.age_s(50)) == (None, 1, None)
    assert not shadow.update(delta_between(first, second))
    assert shadow.gaps == 2
    assert shadow.replace(third)
    assert shadow.summary == third


def test_a_class_never_heard_of_is_a_gap() -> None:
    """Rather than be forgotten silently."""
    shadow = a_shadow(a_summary(1))
    delta = SummaryDelta(
        site="lab",
        since=CalendarVersion("e", 1),
        version=CalendarVersion("e", 2),
        as_of=20,
        classes=(a_class("wide"),),
    )
    assert not shadow.update(delta)
    assert shadow.summary is None


def test_a_new_epoch_voids_the_old_numbers() -> None:
    """After a restart a lower number is newer, and a delta of the new epoch is a gap."""
    shadow = a_shadow(a_summary(7))
    delta = delta_between(a_summary(8, epoch="f"), a_summary(9, epoch="f"))
    assert not shadow.update(delta)
    shadow = a_shadow(a_summary(7))
    assert shadow.replace(a_summary(1, epoch="f"))
    assert shadow.summary == a_summary(1, epoch="f")


def test_late_and_doubled_news_change_nothing() -> None:
    """Within an epoch neither an older full summary nor an old delta can turn the shadow back."""
    first, second = a_summary(1, a_class(free=1)), a_summary(2, a_class(free=2))
    later = replace(second, as_of=25, classes=(a_class(free=2, start=5),))
    shadow = a_shadow(first)
    deltas = [delta_between(first, second), delta_between(second, later)]
    for delta in [deltas[0], *deltas, *deltas, *reversed(deltas)]:
        assert shadow.update(delta)
    assert shadow.summary == later
    assert not shadow.replace(first)
    assert not shadow.replace(second)
    assert shadow.replace(later)
    assert (shadow.summary, shadow.gaps) == (later, 0)


def test_news_of_another_site_are_a_mistake() -> None:
    """They are refused, and what is known stays."""
    shadow = a_shadow(a_summary(1))
    with pytest.raises(InputError, match="summary of 'hall' was sent for 'lab'"):
        shadow.replace(a_summary(2, site="hall"))
    delta = delta_between(a_summary(1, site="hall"), a_summary(2, site="hall"))
    with pytest.raises(InputError, match="change of 'hall' was sent for 'lab'"):
        shadow.update(delta)
    assert shadow.summary == a_summary(1)


def test_age() -> None:
    """Since the owner made it, and never negative when clocks differ."""
    shadow = a_shadow(a_summary(1, as_of=100))
    assert (shadow.age_s(130), shadow.age_s(90)) == (30, 0)


def test_versions_have_an_order() -> None:
    """Numbers count changes within an epoch."""
    assert CalendarVersion("e", 9) < CalendarVersion("e", 10)

"""Reservations that cannot be kept for the moment because nodes failed, and who is told how often.

The promise stands: when nodes come back in time, nothing was lost. Until then the newest
reservations count as broken first, since the older promise is kept first. The paper's site mails
its users (GUR and Catalina paper, section 3); the bound on mails is Catalina's (``res_status
--notify=N``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant

NOTICES_MAX = 3
"""Times an owner is told about one reservation."""
NOTICE_INTERVAL_S = 3_600
"""At least so long between two notices about one reservation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenReservation:
    """A promise that lacks nodes."""

    reservation: Reservation
    nodes_missing: int
    """At the worst second of its time that is left."""


def find_broken(
    reservations: Iterable[Reservation],
    availability: Mapping[str, AvailabilityProfile],
    now: Instant,
) -> list[BrokenReservation]:
    """Live reservations in whose time more is promised than there is, newest first.

    ``availability``: the calendar's profiles after a cycle, when waiting jobs have made way
    already.
    """
    live = [each for each in reservations if each.state.is_live and each.end > now]
    live.sort(key=lambda each: (each.created_at, each.reservation_id), reverse=True)
    broken = []
    left = {name: profile.copy() for name, profile in availability.items()}
    for each in live:
        profile = left.get(each.resource_class)
        if profile is None:
            continue
        start = max(each.start, now)
        missing = min(-profile.min_free(start, each.end), each.nodes)
        if missing > 0:
            broken.append(BrokenReservation(reservation=each, nodes_missing=missing))
            profile.unbook(missing, start, each.end)
    return broken


class NoticeBook:
    """Who has been told how often; in memory, for a notice too many after a restart does no
    harm.
    """

    def __init__(self, most: int = NOTICES_MAX, interval_s: int = NOTICE_INTERVAL_S) -> None:
        if most < 0 or interval_s < 0:
            raise InputError("notices and their interval must not be negative")
        self._most = most
        self._interval_s = interval_s
        self._told: dict[str, tuple[int, Instant]] = {}

    def due(self, broken: Iterable[BrokenReservation], now: Instant) -> list[BrokenReservation]:
        """Those whose owner is to be told now, and counts as told from now on. A reservation that
        is whole again is forgotten, so a new break is told anew."""
        known = list(broken)
        names = {each.reservation.reservation_id for each in known}
        self._told = {key: told for key, told in self._told.items() if key in names}
        due = []
        for each in known:
            key = each.reservation.reservation_id
            times, last = self._told.get(key, (0, now - self._interval_s))
            if times < self._most and now - last >= self._interval_s:
                self._told[key] = times + 1, now
                due.append(each)
        return due

"""The imprecise calendar (calendar paper, section 2): bookings that take whole nodes for whole
slots.

It is the exact ``AvailabilityProfile`` with one rule on top: what is booked is widened to the edges
of the slots it touches. Everything else follows. Inside a slot nothing changes, so a search for the
bare duration finds the same starts as one for whole slots would, and the profile's searches serve
as they are. With ``EXACT``, one level of one second, widening changes nothing and this *is* the
exact profile.

::

    booked: 2 nodes for 1000 s from 2560 on     the same, once the slot is split
    ├───────────┤########### (whole) ├──        ├───────────┤###|###|###|#  |   |   ├──
    0         2560                 5120         0         2560            3840    5120

Slots that come near are split (``advance``): what a booking no longer touches is given back. Since
a finer grid keeps every edge of the coarser one, a booking never needs anything it did not have
before, so every split can be honoured. That is why a slot is given away whole: one node for 30
minutes and four nodes for 7.5 minutes fit one slot of four nodes by area, and no order of finer
slots can serve both.

Room that appears, by a split or an early end, is used by ``backfill``: whatever has no fixed start
may move earlier. Nothing ever moves later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.capacity.slot_grid import NEVER, SlotGrid
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.simulator.imprecise.slot_booking import SlotBooking
from gridtravel.simulator.imprecise.slots import Slot, SlotState

WHOLE_PERMILLE = 1000


class ImpreciseCalendar:
    """Bookings of interchangeable nodes, slot by slot. Mutable, one owner; changed by its verbs
    only.

    ``threshold_permille``: the *resource threshold* (2.2), the share of a slot that is promised in
    advance, that is behind the fundamental slots; what comes last minute may have all. A booking
    larger than that share gets a slot that nobody else holds. ``speed_permille``: the
    *normalisation constant*; nodes of different speed are calendars of their own, because only
    alike nodes are interchangeable.
    """

    def __init__(
        self,
        nodes: int,
        ladder: SlotLadder,
        now: Instant = 0,
        *,
        horizon_min_s: int = 0,
        threshold_permille: int = WHOLE_PERMILLE,
        speed_permille: int = WHOLE_PERMILLE,
    ) -> None:
        if not 0 <= threshold_permille <= WHOLE_PERMILLE:
            raise InputError(f"a threshold is 0 to {WHOLE_PERMILLE} permille: {threshold_permille}")
        if speed_permille < 1:
            raise InputError(f"a speed must be positive: {speed_permille} permille")
        if horizon_min_s < 0:
            raise InputError(f"a horizon cannot be negative: {horizon_min_s} s")
        self.grid = SlotGrid.at(ladder, now)
        """The grid as of the last split; floors and ceilings are those of ``now``."""
        self.profile = AvailabilityProfile(nodes, self.grid.begins[0])
        self.now = now
        self.bookings: dict[str, SlotBooking] = {}
        self.horizon_min_s = horizon_min_s
        """The slots reach at least so far, however little is booked."""
        self.withheld = nodes - nodes * threshold_permille // WHOLE_PERMILLE
        """Nodes that no booking in advance may touch."""
        self.speed_permille = speed_permille
        self.has_new_room = False
        """True when a split or an end gave room back that ``backfill`` has not been asked to use.
        """
        self._loose_from = NEVER
        self._loose_until = -NEVER
        self.next_split = self.grid.next_split
        """When ``advance`` splits slots next; ``NEVER`` with one level."""

    # -- questions ---------------------------------------------------------------------------------

    @property
    def nodes(self) -> int:
        """Nodes owned."""
        return self.profile.capacity

    def duration_here_s(self, reference_s: int) -> int:
        """How long these nodes take for what takes ``reference_s`` at speed 1000; rounded up."""
        return -(-reference_s * WHOLE_PERMILLE // self.speed_permille)

    def first_fit(
        self, nodes: int, duration_s: int, earliest: Instant, before: Instant = NEVER
    ) -> Instant | None:
        """The first slot that can be the first of a booking without fixed start (2.3); ``None``:
        not before ``before``, or never.
        """
        edge = self.grid.ceil(max(earliest, self.now))
        profile = self.profile
        latest_end = None if before >= NEVER else before - 1 + duration_s
        if not self.withheld:
            return profile.earliest_fit(nodes, duration_s, edge, latest_end)
        near = self.grid.at_hand_until(self.now)
        if edge < near:
            last_minute = min(near, before) - 1 + duration_s
            start = profile.earliest_fit(nodes, duration_s, edge, last_minute)
            if start is not None:
                return start
            edge = near
        return profile.earliest_fit(self._needed(nodes), duration_s, edge, latest_end)

    def fits(self, nodes: int, duration_s: int, start: Instant) -> bool:
        """True when a booking may start exactly then (2.3, requests for a specific time)."""
        if start < self.now:
            return False
        is_advance = start >= self.grid.at_hand_until(self.now)
        needed = self._needed(nodes) if is_advance and self.withheld else nodes
        return self.profile.fits(needed, self.grid.floor(start), self.grid.ceil(start + duration_s))

    def earlier_start(self, booking_id: str) -> Instant:
        """Where a booking could move to, counting its own room as free; its start if nowhere.

        Looks only where room has appeared since the last ``backfill``: a booking that could not
        move then still cannot, unless a second that was in its way is freer now.
        """
        booking = self._booking(booking_id)
        planned, duration_s = booking.start, booking.duration_s
        if booking.is_fixed or planned <= self.now or planned <= self._loose_from:
            return planned
        first = max(self._loose_from - duration_s + 1, self.now)
        edge = self.grid.ceil(first)
        earlier = self.profile.earlier
        until = self._loose_until
        if not self.withheld:
            return earlier(booking.nodes, duration_s, edge, planned, until)
        near = self.grid.at_hand_until(self.now)
        if edge < near:
            start = earlier(booking.nodes, duration_s, edge, planned, min(until, near))
            if start < planned:
                return start
        return earlier(self._needed(booking.nodes), duration_s, max(edge, near), planned, until)

    def horizon(self) -> Instant:
        """End of the last slot: it covers all that is booked, and the least horizon."""
        booked = max((each.held_until for each in self.bookings.values()), default=self.now)
        return self.grid_now().horizon(max(booked, self.now + self.horizon_min_s))

    def slot_count(self) -> int:
        """Slots from now to the horizon: the size of the calendar as the paper counts it."""
        return self.grid_now().count(self.horizon())

    def slots(self) -> Iterator[Slot]:
        """Every slot from now to the horizon, with its state."""
        for start, end, level in self.grid_now().slots(self.horizon()):
            free = self.profile.min_free(start, end)
            limit = self.withheld if start >= self.grid.at_hand_until(self.now) else 0
            state = SlotState.PARTIAL
            if free == self.nodes:
                state = SlotState.FREE
            elif free <= limit:
                state = SlotState.FULL
            yield Slot(
                start=start,
                end=end,
                level=level,
                nodes=self.nodes,
                nodes_free=free,
                state=state,
                speed_permille=self.speed_permille,
            )

    def grid_now(self) -> SlotGrid:
        """The grid whose first slot is the present one."""
        return SlotGrid.at(self.grid.ladder, self.now)

    # -- changes -----------------------------------------------------------------------------------

    def book(
        self,
        booking_id: str,
        nodes: int,
        duration_s: int,
        start: Instant,
        *,
        is_fixed: bool = False,
    ) -> SlotBooking:
        """Take whole slots for ``[start, start + duration_s)``; ``ConflictError`` without room.

        A booking without fixed start begins with a slot, as ``first_fit`` says. A fixed one may
        begin anywhere: it holds the slot that contains its start, and after each split only the
        finest one that does, which is the last that is not too late.
        """
        if booking_id in self.bookings:
            raise ConflictError(
                f"booking {booking_id!r} exists already", hint="ask first_fit for what fits"
            )
        if start < self.now:
            raise ConflictError(
                f"a booking cannot start in the past: {start} < {self.now}",
                hint="ask first_fit for what fits",
            )
        held_from = self.grid.floor(start)
        if not is_fixed and held_from != start:
            raise InputError(f"{start} is not the start of a slot", hint="ask first_fit")
        if self.withheld and not self.fits(nodes, duration_s, start):
            raise ConflictError(
                f"{nodes} nodes at {start} would pass the resource threshold",
                hint="ask first_fit for what fits",
            )
        booking = SlotBooking(
            booking_id=booking_id,
            nodes=nodes,
            duration_s=duration_s,
            start=start,
            is_fixed=is_fixed,
            held_from=held_from,
            held_until=self.grid.ceil(start + duration_s),
        )
        self.profile.book(nodes, booking.held_from, booking.held_until)
        self.bookings[booking_id] = booking
        return booking

    def release(self, booking_id: str) -> SlotBooking:
        """A task is over or given up: the slots behind the present one are free again.

        Also an end that gives nothing back calls for a pass: moves of the last one left room."""
        booking = self._booking(booking_id)
        del self.bookings[booking_id]
        self.has_new_room = True
        self._give_back(booking.nodes, booking.held_from, booking.held_until)
        return booking

    def advance(self, now: Instant) -> None:
        """Let time pass: consume slots, split what comes near, append far slots (2.2)."""
        if now < self.now:
            raise InputError(f"time cannot go back from {self.now} to {now}")
        self.now = now
        self.profile.advance(now - now % self.grid.ladder.fundamental_s)
        if now < self.next_split:
            return
        unsplit = self.grid.begins[1]
        self.grid = grid = SlotGrid.at(self.grid.ladder, now)
        self.next_split = grid.next_split
        for booking in self.bookings.values():
            if booking.held_until > unsplit:
                self._refine(booking)
        if self.withheld:
            self._loosen(now, NEVER)
            self.has_new_room = True

    def backfill(self, order: Iterable[str]) -> list[str]:
        """Move bookings earlier, in this order, into room that has appeared (2.3); who moved.

        One pass, each to its earliest place; a later booking may use what an earlier one left, an
        earlier one gets its turn in the next pass. Bookings with a fixed start, and those that have
        begun, stay.
        """
        loose_from, loose_until = max(self._loose_from, self.now), self._loose_until
        self.has_new_room = False
        if loose_from >= loose_until:
            return []
        peak = self.profile.max_free(loose_from, loose_until)
        left_from, left_until = NEVER, -NEVER
        moved = []
        for booking_id in order:
            booking = self._booking(booking_id)
            if booking.nodes > peak:
                continue
            start, held_until = booking.start, booking.held_until
            earlier = self.earlier_start(booking_id)
            if earlier >= start:
                continue
            self.move(booking_id, earlier)
            moved.append(booking_id)
            left = max(start, booking.held_until)
            if left < held_until:
                left_from, left_until = min(left_from, left), max(left_until, held_until)
                peak = max(peak, self.profile.max_free(left, held_until))
        self._loose_from, self._loose_until = left_from, left_until
        return moved

    def move(self, booking_id: str, start: Instant) -> None:
        """Let a booking start earlier; ``ConflictError`` and no change when there is no room."""
        booking = self._booking(booking_id)
        if start >= booking.start or booking.is_fixed or booking.start <= self.now:
            raise ConflictError(
                f"{booking_id!r} cannot move from {booking.start} to {start}",
                hint="ask first_fit for what fits",
            )
        if start < self.now or self.grid.floor(start) != start:
            raise InputError(f"{start} is not the start of a slot to come", hint="ask first_fit")
        old_from, old_until = booking.held_from, booking.held_until
        held_until = self.grid.ceil(start + booking.duration_s)
        self.profile.book(booking.nodes, start, min(held_until, old_from))
        booking.start = booking.held_from = start
        booking.held_until = held_until
        left = max(old_from, held_until)
        if left < old_until:
            self.profile.unbook(booking.nodes, left, old_until)
            self._loosen(left, old_until)

    def validate(self) -> None:
        """Assert what links the fields: the profile is the sum of the bookings, edges are edges."""
        self.profile.validate()
        assert min(self.profile.free) >= 0, "no slot is promised beyond its nodes"
        again = AvailabilityProfile(self.nodes, self.profile.origin)
        for booking in self.bookings.values():
            booking.validate()
            assert booking.held_until == self.grid.ceil(booking.start + booking.duration_s)
            if booking.held_from > self.now:
                assert booking.held_from == self.grid.floor(booking.start), "whole slots"
            if booking.held_until > again.origin:
                again.book(booking.nodes, booking.held_from, booking.held_until)
        past = self.grid.ceil(self.now)
        again.advance(past)
        kept = self.profile.copy()
        kept.advance(past)
        assert kept == again, "the profile holds the bookings and nothing else"

    # -- inside ------------------------------------------------------------------------------------

    def _booking(self, booking_id: str) -> SlotBooking:
        booking = self.bookings.get(booking_id)
        if booking is None:
            raise NotFoundError(f"no booking {booking_id!r}", hint="name one that is there")
        return booking

    def _needed(self, nodes: int) -> int:
        """Free nodes that a booking in advance must find, so that its slots stay within the
        threshold.
        """
        return max(nodes, min(nodes + self.withheld, self.nodes))

    def _refine(self, booking: SlotBooking) -> None:
        """Keep only the finer slots that a booking touches."""
        old_from, old_until = booking.held_from, booking.held_until
        booking.held_until = self.grid.ceil(booking.start + booking.duration_s)
        if booking.start > self.now:
            booking.held_from = self.grid.floor(booking.start)
            self._give_back(booking.nodes, old_from, booking.held_from)
        self._give_back(booking.nodes, booking.held_until, old_until)

    def _give_back(self, nodes: int, start: Instant, end: Instant) -> None:
        """Room ahead of plan; the present slot stays taken, it was given away whole."""
        start = max(start, self.grid.ceil(self.now))
        if start < end:
            self.profile.unbook(nodes, start, end)
            self._loosen(start, end)
            self.has_new_room = True

    def _loosen(self, start: Instant, end: Instant) -> None:
        self._loose_from = min(self._loose_from, start)
        self._loose_until = max(self._loose_until, end)

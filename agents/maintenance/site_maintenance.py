"""What a site does by itself, beside its queue: standing reservations, word about broken ones, and
the prologue and epilogue of every reservation.

All of it is journaled before it is done, so a restart does nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gridtravel.agents.journal.events import HookBegun, NoticeGiven, StandingSkipped
from gridtravel.agents.maintenance.hooks import ReservationHooks
from gridtravel.gridcore.booking.reservations import (
    Decline,
    Reservation,
    ReservationEvent,
    ReservationState,
)
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.system.notify import Notice
from gridtravel.local_sched.reservations.broken import BrokenReservation, NoticeBook, find_broken
from gridtravel.local_sched.reservations.standing import (
    REQUEST_PREFIX,
    StandingReservation,
    keep_standing,
)
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore

log = logging.getLogger(__name__)

STANDING_INTERVAL_S: Final = 60
"""Standing reservations are looked after so often: the next instance comes into view within it."""


class SiteMaintenance:
    """Belongs to one agent and its event loop."""

    def __init__(self, core: AgentCore) -> None:
        self._core = core
        self._rules = core.parts.maintenance
        self._notices = NoticeBook(self._rules.notices_max, self._rules.notice_interval_s)
        self._standing_at: Instant | None = None
        """When standing reservations were last kept."""
        self._missing: dict[tuple[str, Instant], str] = {}
        """Instances that could not be made, and why, as it was logged."""
        self._notice_due: Instant | None = None
        self.hooks = ReservationHooks(core.calendar.site, self._rules, self._hook_failed)

    def next_due(self) -> Instant | None:
        """When time alone gives something to do."""
        moments = [each for each in (self._notice_due,) if each is not None]
        if self.standing() and self._standing_at is not None:
            moments.append(self._standing_at + STANDING_INTERVAL_S)
        return min(moments, default=None)

    async def close(self) -> None:
        """Hooks that run are ended."""
        await self.hooks.close()

    # -- standing reservations ---------------------------------------------------------------------

    def standing(self) -> tuple[StandingReservation, ...]:
        """The rules of the configuration, and those that administrators made; of two with one name
        the configuration's.
        """
        configured = self._rules.standing
        if not self._core.state.standing:
            return configured
        taken = {each.name for each in configured}
        made = self._core.state.standing.values()
        return (*configured, *(each for each in made if each.name not in taken))

    def standing_changed(self, now: Instant) -> None:
        """An administrator made or took back a rule: its instances follow at once."""
        self._standing_at = None
        self.keep_standing(now)

    def keep_standing(self, now: Instant) -> None:
        """Make the instances that are missing, take back those that no rule wants any more. Called
        in every iteration, works once a minute.
        """
        before = self._standing_at
        if before is not None and before <= now < before + STANDING_INTERVAL_S:
            return
        first_time, self._standing_at = before is None, now
        core, rules = self._core, self.standing()
        if first_time or rules:
            self._look_at_instances(rules, now)
        if not rules:
            return
        missing = keep_standing(
            core.calendar,
            core.scheduler,
            rules,
            now,
            record=core.record,
            skipped=core.state.skipped,
        )
        self._tell_missing(missing)

    def _look_at_instances(self, rules: Sequence[StandingReservation], now: Instant) -> None:
        """Those that were cancelled stay so, those that no rule wants are released, and all are
        open to whom their rules admit, the running ones too (a restart forgets that).
        """
        core = self._core
        horizon_s = core.calendar.rules.horizon_s
        wanted = {request_id for rule in rules for _, request_id in rule.instances(now, horizon_s)}
        access = {rule.prefix: rule.access for rule in rules}
        for each in list(core.calendar.reservations.values()):
            request_id = each.request.request_id
            if each.owner != SYSTEM_OWNER or not request_id.startswith(REQUEST_PREFIX):
                continue
            if each.state is ReservationState.RELEASED:
                if request_id in wanted and request_id not in core.state.skipped:
                    core.record([StandingSkipped(request_id=request_id, start=each.start)])
            elif each.state.is_live and each.start > now and request_id not in wanted:
                # Another kind of end, so that the rule makes it again when it wants it back.
                core.record(
                    core.calendar.decide_release(
                        each.reservation_id, None, now, event=ReservationEvent.SUPERSEDE
                    )
                )
            elif each.state.is_live:
                prefix = REQUEST_PREFIX + request_id.split("/")[1] + "/"
                if prefix in access:
                    core.scheduler.reservation_jobs.open_to(each.reservation_id, access[prefix])

    def _tell_missing(self, missing: dict[tuple[str, Instant], Decline]) -> None:
        for key, why in missing.items():
            if self._missing.get(key) != why.message:
                log.warning("standing reservation %s at %d is not made: %s", *key, why.message)
        self._missing = {key: why.message for key, why in missing.items()}

    # -- broken reservations and hooks -------------------------------------------------------------

    def look_after(self, now: Instant) -> None:
        """After a cycle, when waiting jobs have made way: who is to be told that a reservation
        lacks nodes, and which prologues and epilogues are due.
        """
        broken = self.broken(now)
        self._notice_due = now + max(self._rules.notice_interval_s, 1) if broken else None
        for each in self._notices.due(broken, now):
            self._tell_broken(each, now)
        if self._rules.prologue or self._rules.epilogue:
            self._run_hooks(now)

    def broken(self, now: Instant) -> list[BrokenReservation]:
        """The reservations that lack nodes by the plan of the last cycle."""
        core = self._core
        if not core.state.nodes_down:
            return []
        return find_broken(core.calendar.unordered_live(), self._room(now), now)

    def _room(self, now: Instant) -> dict[str, AvailabilityProfile]:
        """What is free by the plan, where a failed node is missing once: one that a job still has
        on its own account is missing as the job's as well.
        """
        availability = {name: profile.copy() for name, profile in self._core.calendar.free.items()}
        scheduler = self._core.scheduler
        for job in scheduler.running.values():
            pool = scheduler.pools.get(job.class_name)
            if pool is None or pool.nodes is None:
                continue  # of a shared class, where nothing is reserved
            lost = (job.node_mask & pool.nodes.down).bit_count()
            if lost and job.is_booked and job.booked_until > now:
                availability[job.class_name].unbook(lost, now, job.booked_until)
        return availability

    def _tell_broken(self, broken: BrokenReservation, now: Instant) -> None:
        core, kept = self._core, broken.reservation
        key, told = kept.reservation_id, core.state.notices.get(kept.reservation_id, 0)
        log.warning("reservation %s lacks %d nodes", key, broken.nodes_missing)
        if told >= self._rules.notices_max or not kept.request.notify_email:
            return
        core.record([NoticeGiven(reservation_id=key, at=now)])
        self._mail(
            kept,
            f"lacks {broken.nodes_missing} of its {kept.nodes} nodes",
            "Nodes of the site have failed. The reservation stands: when they are repaired in time,"
            f" nothing is lost.\nThis is notice {told + 1} of at most {self._rules.notices_max}"
            " about it.",
        )

    def _run_hooks(self, now: Instant) -> None:
        core = self._core
        for each in core.calendar.begun(now):
            if now < each.end and each.reservation_id not in core.state.begun:
                self._begin_hook(each, now, is_epilogue=False)
        for reservation_id in list(core.state.begun):
            kept = core.calendar.reservations.get(reservation_id)
            if kept is None or not kept.state.is_live:
                self._begin_hook(kept, now, is_epilogue=True, reservation_id=reservation_id)

    def _begin_hook(
        self,
        kept: Reservation | None,
        now: Instant,
        *,
        is_epilogue: bool,
        reservation_id: str = "",
    ) -> None:
        """Journal, then run. A reservation that was forgotten meanwhile (a daemon that was off for
        long) has nothing left to tell an epilogue.
        """
        key = reservation_id if kept is None else kept.reservation_id
        ticket = self._core.record([HookBegun(reservation_id=key, is_epilogue=is_epilogue, at=now)])
        if kept is None:
            log.warning("reservation %s is forgotten; its epilogue is left out", key)
            return
        names = self._core.state.fixed.get(key, ())
        self.hooks.run_soon(kept, ticket, is_epilogue=is_epilogue, node_names=names)

    def _hook_failed(self, kept: Reservation, what: str, fault: GridError) -> None:
        log.error("the %s of reservation %s failed: %s", what, kept.reservation_id, fault)
        self._mail(
            kept,
            f"began or ended without its {what}",
            f"The site's {what} failed: {fault}\nThe reservation itself is not affected.",
        )

    def _mail(self, kept: Reservation, what: str, text: str) -> None:
        site, key = kept.site, kept.reservation_id
        body = (
            f"Reservation {key} at {site} {what}.\n\n{text}\n\nNodes: {kept.nodes}"
            f" ({kept.resource_class})\nStart: {kept.start} End: {kept.end} (seconds since 1970"
            f" UTC)\nAll about it: catalina show-res {key}\n"
        )
        notice = Notice(
            to=kept.request.notify_email, subject=f"[{site}] reservation {key} {what}", text=body
        )
        self._core.notice_sender.send_soon(notice)

"""What a site does by itself, beside its queue: standing reservations, word about broken ones, and
the prologue and epilogue of every reservation.

All of it is journaled before it is done, so a restart does nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from agents.reservation_hooks import ReservationHooks
from agents.site_events import HookBegun, NoticeGiven, StandingSkipped
from gridcore.errors import GridError
from gridcore.instants import Instant
from gridcore.profile import AvailabilityProfile
from gridcore.reservations import Decline, Reservation, ReservationEvent, ReservationState
from gridio.notify import Notice
from local_sched.broken_reservations import BrokenReservation, NoticeBook, find_broken
from local_sched.standing_reservations import (
    REQUEST_PREFIX,
    StandingReservation,
    keep_standing,
)
from local_sched.user_reservations import SYSTEM_OWNER

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent

log = logging.getLogger(__name__)

STANDING_INTERVAL_S: Final = 60
"""Standing reservations are looked after so often: the next instance comes into view within it."""


class SiteUpkeep:
    """Belongs to one agent and its event loop."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._rules = agent.parts.upkeep
        self._notices = NoticeBook(self._rules.notices_max, self._rules.notice_interval_s)
        self._standing_at: Instant | None = None
        """When standing reservations were last kept."""
        self._missing: dict[tuple[str, Instant], str] = {}
        """Instances that could not be made, and why, as it was logged."""
        self._notice_due: Instant | None = None
        self.hooks = ReservationHooks(agent.calendar.site, self._rules, self._hook_failed)

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
        if not self._agent.state.standing:
            return configured
        taken = {each.name for each in configured}
        made = self._agent.state.standing.values()
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
        agent, rules = self._agent, self.standing()
        if first_time or rules:
            self._look_at_instances(rules, now)
        if not rules:
            return
        decision = keep_standing(
            agent.calendar,
            agent.scheduler,
            rules,
            now,
            record=agent.record,
            skipped=agent.state.skipped,
        )
        self._tell_missing({(name, start): why for name, start, why in decision.missing})

    def _look_at_instances(self, rules: Sequence[StandingReservation], now: Instant) -> None:
        """Those that were cancelled stay so, those that no rule wants are released, and all are
        open to whom their rules admit, the running ones too (a restart forgets that).
        """
        agent = self._agent
        horizon_s = agent.calendar.rules.horizon_s
        wanted = {request_id for rule in rules for _, request_id in rule.instances(now, horizon_s)}
        access = {rule.prefix: rule.access for rule in rules}
        for each in list(agent.calendar.reservations.values()):
            request_id = each.request.request_id
            if each.owner != SYSTEM_OWNER or not request_id.startswith(REQUEST_PREFIX):
                continue
            if each.state is ReservationState.RELEASED:
                if request_id in wanted and request_id not in agent.state.skipped:
                    agent.record([StandingSkipped(request_id=request_id, start=each.start)])
            elif each.state.is_live and each.start > now and request_id not in wanted:
                # Another kind of end, so that the rule makes it again when it wants it back.
                agent.record(
                    agent.calendar.decide_release(
                        each.reservation_id, None, now, event=ReservationEvent.SUPERSEDE
                    )
                )
            elif each.state.is_live:
                prefix = REQUEST_PREFIX + request_id.split("/")[1] + "/"
                if prefix in access:
                    agent.scheduler.reservation_jobs.open_to(each.reservation_id, access[prefix])

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
        agent = self._agent
        if not agent.state.nodes_down:
            return []
        return find_broken(agent.calendar.unordered_live(), self._room(now), now)

    def _room(self, now: Instant) -> dict[str, AvailabilityProfile]:
        """What is free by the plan, where a failed node is missing once: one that a job still has
        on its own account is missing as the job's as well.
        """
        room = {name: profile.copy() for name, profile in self._agent.calendar.free.items()}
        for job in self._agent.scheduler.running.values():
            nodes = self._agent.scheduler.pools[job.class_name].nodes
            lost = 0 if nodes is None else (job.node_mask & nodes.down).bit_count()
            if lost and job.is_booked and job.room_until > now:
                room[job.class_name].unbook(lost, now, job.room_until)
        return room

    def _tell_broken(self, broken: BrokenReservation, now: Instant) -> None:
        agent, kept = self._agent, broken.reservation
        key, told = kept.reservation_id, agent.state.notices.get(kept.reservation_id, 0)
        log.warning("reservation %s lacks %d nodes", key, broken.nodes_missing)
        if told >= self._rules.notices_max or not kept.request.notify_email:
            return
        agent.record([NoticeGiven(reservation_id=key, at=now)])
        self._mail(
            kept,
            f"lacks {broken.nodes_missing} of its {kept.nodes} nodes",
            "Nodes of the site have failed. The reservation stands: when they are repaired in time,"
            f" nothing is lost.\nThis is notice {told + 1} of at most {self._rules.notices_max}"
            " about it.",
        )

    def _run_hooks(self, now: Instant) -> None:
        agent = self._agent
        for each in agent.calendar.begun(now):
            if now < each.end and each.reservation_id not in agent.state.begun:
                self._begin_hook(each, now, is_epilogue=False)
        for reservation_id in list(agent.state.begun):
            kept = agent.calendar.reservations.get(reservation_id)
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
        ticket = self._agent.record(
            [HookBegun(reservation_id=key, is_epilogue=is_epilogue, at=now)]
        )
        if kept is None:
            log.warning("reservation %s is forgotten; its epilogue is left out", key)
            return
        names = self._agent.state.fixed.get(key, ())
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
        self._agent.post.send_soon(notice)

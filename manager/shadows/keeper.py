"""Keeping the shadows: one subscription a child, all of them merged into one stream.

A child that goes away is subscribed to again with growing pauses; after a gap or in a new epoch it
sends a full summary. There is no chance in the pauses, because each child has one parent: nobody
else comes back at the same moment.

A child that says what cannot be true is *isolated*: nothing of it is used, the log and
``Describe`` say why, the other children go on, and after a while it gets another chance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from aiostream import stream

from gridtravel.gridcore.booking.summaries import CalendarSummary, SummaryDelta
from gridtravel.gridcore.errors import GridError, InputError, UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.system.clock import Clock
from gridtravel.manager.shadows.children import Child, ChildContradiction, Standing, bare_names
from gridtravel.manager.shadows.roll_up import tells_more

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperRules:
    """Bounds of the upkeep, in seconds."""

    clock_skew_max_s: float = 5.0
    """A child whose clock is further off is isolated: its times would mean other moments here."""
    retry_min_s: float = 0.2
    retry_max_s: float = 15.0
    """Pauses before a lost child is tried again: doubled each time, up to this."""
    isolation_s: float = 60.0
    """Pause before an isolated child gets another chance."""
    silence_max_s: float = 95.0
    """A subscription that is silent for three heartbeats is dead."""
    describe_every_s: int = 60
    """How often a child is asked what it is: its clock and its children may change."""
    first_look_s: float = 2.0
    """How long a manager that has just started lets its callers wait for its first look."""


class ShadowKeeper:
    """All shadows of one manager. ``run`` keeps them; everybody else reads."""

    def __init__(
        self,
        site: str,
        children: Sequence[Child],
        clock: Clock,
        *,
        rules: KeeperRules | None = None,
        on_change: Callable[[], None] | None = None,
        parent: Child | None = None,
    ) -> None:
        names = [each.name for each in children]
        twice = [name for position, name in enumerate(names) if name in names[:position]]
        if twice:
            raise InputError(f"the child {twice[0]!r} is announced twice", hint="leave one out")
        if site in names:
            raise InputError(f"{site!r} cannot be its own child")
        if parent is not None and parent.name in (site, *names):
            raise InputError(f"{parent.name!r} cannot be the parent of {site!r}: that is a cycle")
        if not children:
            raise InputError(f"the manager {site!r} has no children")
        self.site = site
        self.children: dict[str, Child] = {each.name: each for each in children}
        """By name, in the order of the configuration."""
        self.parent = parent
        """Whom the manager may ask for more; it has no shadow."""
        self.rules = rules or KeeperRules()
        self.changes = 0
        """Grows whenever any shadow or any child's standing changes."""
        self._clock = clock
        self._on_change = on_change
        self._looked = asyncio.Event()

    def usable(self) -> list[Child]:
        """Children that may be asked for room, in their order."""
        return [each for each in self.children.values() if each.is_usable]

    def neighbour(self, name: str) -> Child | None:
        """The child or the parent of this name: whoever may have a part of a group."""
        if self.parent is not None and self.parent.name == name:
            return self.parent
        return self.children.get(name)

    def published(self, now: Instant, age_max_s: int) -> list[CalendarSummary]:
        """Shadows that are worth telling others of, in the order of the children."""
        return [
            each.summary
            for each in self.children.values()
            if each.summary is not None and (each.age_s(now) or 0) <= age_max_s
        ]

    def learn(self, name: str, summary: CalendarSummary | None) -> None:
        """A fresh summary that came with a refusal."""
        child = self.children[name]
        if summary is None or summary.site != name or child.standing is Standing.ISOLATED:
            return
        if child.shadow.replace(summary):
            self._changed()

    async def first_look(self) -> None:
        """Return when every child has been tried once, at the latest after ``first_look_s``."""
        if self._looked.is_set():
            return
        try:
            async with asyncio.timeout(self.rules.first_look_s):
                await self._looked.wait()
        except TimeoutError:
            log.info("not every child has answered yet", extra={"manager": self.site})

    async def run(self) -> None:
        """Keep all shadows, until cancelled."""
        watches = [self._watch(each) for each in self.children.values()]
        async with stream.merge(*watches).stream() as news:
            async for _ in news:
                self._changed()

    def _changed(self) -> None:
        self.changes += 1
        if all(each.standing is not Standing.NEW for each in self.children.values()):
            self._looked.set()
        if self._on_change is not None:
            self._on_change()

    async def _watch(self, child: Child) -> AsyncGenerator[Child, None]:
        """Follow one child for ever; yields it whenever something about it has changed."""
        pause_s = self.rules.retry_min_s
        while True:
            wait_s = self.rules.retry_min_s
            try:
                await self._introduce(child)
                async for is_news in self._listen(child):
                    pause_s = self.rules.retry_min_s
                    if is_news:
                        yield child
                child.gaps += 1
                log.info("a gap: asking for a full summary", extra={"child": child.name})
            except UnavailableError as fault:
                self._set_aside(child, Standing.LOST, str(fault))
                wait_s, pause_s = pause_s, min(2 * pause_s, self.rules.retry_max_s)
                yield child
            except GridError as fault:
                self._set_aside(child, Standing.ISOLATED, fault.message)
                wait_s = self.rules.isolation_s
                yield child
            except Exception as defect:
                # Whatever one child makes of us must not end the others' shadows.
                log.exception("a defect while following a child", extra={"child": child.name})
                self._set_aside(child, Standing.ISOLATED, f"a defect: {defect}")
                wait_s = self.rules.isolation_s
                yield child
            await self._clock.sleep_until(self._clock.now_precise() + wait_s)

    async def _introduce(self, child: Child) -> None:
        """Ask the child what it is, and whether that can be true."""
        asked_at = self._clock.now_precise()
        try:
            async with asyncio.timeout(child.answer_within_s):
                description = await child.calendar.describe()
        except TimeoutError:
            raise UnavailableError(
                f"{child.name} did not describe itself within {child.answer_within_s:g} s"
            ) from None
        answered_at = self._clock.now_precise()
        if description.site != child.name:
            raise ChildContradiction(
                f"it announces itself as {description.site!r}",
                hint="give the child its own name in the manager's configuration",
            )
        if description.is_manager != child.is_manager:
            kind = "a manager" if description.is_manager else "an agent"
            raise ChildContradiction(
                f"it is {kind}, which the configuration does not say",
                hint="set is_manager of this child in the manager's configuration",
            )
        skew_s = description.time_precise - (asked_at + answered_at) / 2
        self._check_clock(abs(skew_s) - (answered_at - asked_at) / 2, skew_s)
        below = bare_names(description.children)
        for above in (self.site, *((self.parent.name,) if self.parent is not None else ())):
            if above in below:
                raise ChildContradiction(
                    f"{above} is below it: the managers form a cycle",
                    hint="take one of the managers out of the other's children",
                )
        is_other = child.describe_as(description, self._clock.now())
        if is_other or child.standing is not Standing.IN_STEP:
            self._check_names(child)
        if child.standing is Standing.ISOLATED:
            log.info("gets another chance", extra={"child": child.name})
            child.standing, child.reason = Standing.LOST, ""

    def _check_clock(self, certainly_off_s: float, skew_s: float) -> None:
        if certainly_off_s > self.rules.clock_skew_max_s:
            way = "ahead" if skew_s > 0 else "behind"
            raise ChildContradiction(
                f"its clock is {abs(skew_s):.1f} s {way}, more than"
                f" {self.rules.clock_skew_max_s:g} s",
                hint="set the clocks of both machines by the network",
            )

    def _check_names(self, child: Child) -> None:
        """No site may be reached in two ways: its nodes would count twice. The child that stands
        later in the configuration is isolated.
        """
        order = list(self.children)
        for other in self.children.values():
            if other is child or other.standing is Standing.ISOLATED:
                continue
            shared = sorted(child.names & other.names)
            if not shared:
                continue
            if order.index(other.name) < order.index(child.name):
                raise ChildContradiction(
                    f"{shared[0]} is there twice: also by way of {other.name}",
                    hint="name it below one manager only",
                )
            why = f"{shared[0]} is there twice: also by way of {child.name}"
            self._set_aside(other, Standing.ISOLATED, why)

    async def _listen(self, child: Child) -> AsyncGenerator[bool, None]:
        """Take in one subscription; ends at a gap. False: the shadow has only been moved on in
        time, as a heartbeat does, so nobody above has to be told before our own heartbeat.
        """
        news_stream = child.calendar.subscribe()
        try:
            while True:
                news = await self._next(child, news_stream)
                known, standing = child.shadow.summary, child.standing
                if not self._take(child, news):
                    return
                yield standing is not Standing.IN_STEP or tells_more(known, child.shadow.summary)
                if self._clock.now() - child.described_at >= self.rules.describe_every_s:
                    await self._introduce(child)
        finally:
            close = getattr(news_stream, "aclose", None)
            if close is not None:
                await close()

    async def _next(
        self, child: Child, news_stream: AsyncIterator[CalendarSummary | SummaryDelta]
    ) -> CalendarSummary | SummaryDelta:
        try:
            async with asyncio.timeout(self.rules.silence_max_s):
                news = await anext(news_stream, None)
        except TimeoutError:
            raise UnavailableError(
                f"{child.name} has been silent for {self.rules.silence_max_s:g} s"
            ) from None
        if news is None:
            raise UnavailableError(f"the subscription to {child.name} ended")
        return news

    def _take(self, child: Child, news: CalendarSummary | SummaryDelta) -> bool:
        """Bring the shadow up to date; False when a full summary is needed."""
        if child.standing is Standing.ISOLATED:
            raise ChildContradiction(
                child.reason, hint="the child's configuration and the manager's must agree"
            )
        lead_s = float(news.as_of - self._clock.now())
        self._check_clock(abs(lead_s) - 1.0 if lead_s > 0 else 0.0, lead_s)
        if isinstance(news, SummaryDelta):
            if not child.shadow.update(news):
                return False
        else:
            child.shadow.replace(news)
        if child.standing is not Standing.IN_STEP:
            log.info("in step", extra={"child": child.name, "epoch": news.version.epoch})
        child.standing, child.reason = Standing.IN_STEP, ""
        return True

    def _set_aside(self, child: Child, standing: Standing, reason: str) -> None:
        if (child.standing, child.reason) != (standing, reason):
            level = logging.ERROR if standing is Standing.ISOLATED else logging.WARNING
            log.log(level, "%s: %s", standing.value, reason, extra={"child": child.name})
        child.standing, child.reason = standing, reason

"""Real processes, round after round: a trip is booked and something goes wrong.

Daemons are restarted as a service manager would, laptops are opened again by their users or never.
When all rounds are over everybody comes back, every command is said until it ends well, every trip
comes to its end; then the daemons are stopped, and ``found_books`` reads what they left.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass

from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.system.clock import Clock
from gridtravel.simulator.processes.attended_grid import RESTART_PAUSE_S, AttendedGrid
from gridtravel.simulator.processes.laptops import (
    EXIT_DECLINED,
    KILLED,
    Command,
    LiveLaptop,
    Said,
    Typist,
    sentenced,
)
from gridtravel.simulator.processes.live_grid import PASS_S, LiveGrid, LiveSite
from gridtravel.simulator.processes.mortal import Sentence
from gridtravel.simulator.processes.rounds import LATER_S, Return, RoundPlan, Trouble


@dataclass(slots=True)
class RoundResult:
    """What came of one round."""

    plan: RoundPlan
    laptop: LiveLaptop
    is_reached: bool = False
    """False: the command ended before its point came."""


class Campaign(AttendedGrid):
    """All rounds over one grid."""

    def __init__(self, grid: LiveGrid, typist: Typist, clock: Clock) -> None:
        super().__init__(grid, typist, clock)
        self.rounds: list[RoundResult] = []

    async def play(self, plan: RoundPlan) -> None:
        """One round."""
        laptop = self.new_laptop(f"laptop-{plan.number}")
        result = RoundResult(plan, laptop)
        self.rounds.append(result)
        trip = laptop.folder / "trip.toml"
        trip.write_text(self._metajob(plan))
        words = ["book", str(trip), "--json"]
        await self._look_after()
        if plan.strikes != "book":
            said = await self._typed(laptop, *words)
            laptop.hear(said)
            laptop.wants_cancel = plan.strikes == "cancel"
            words = [plan.strikes, laptop.trip_id or "none", "--json"]
        if plan.strikes == "amend":
            words += ["--earliest-start", self._later_start(plan, laptop)]
        if plan.strikes == "book" or laptop.state is TripState.BOOKED:
            said = await self._strike(result, words)
            self._judge(laptop, said)
            laptop.hear(said)
        await self._come_back(plan, laptop, said)
        if plan.is_cancelled and laptop.state is TripState.BOOKED:
            laptop.wants_cancel, laptop.is_settled = True, False
            await self.settle(laptop, tries=1)

    # -- trouble -----------------------------------------------------------------------------------

    async def _strike(self, result: RoundResult, words: list[str]) -> Said:
        """A command, and its trouble at the same time; returns when both are over."""
        plan, laptop = result.plan, result.laptop
        site = self.grid.sites[plan.site]
        more = None
        if plan.trouble is Trouble.LAPTOP_AT_WRITE:
            more = sentenced(laptop, Sentence(plan.stage, plan.laptop_write))
        if plan.trouble is Trouble.SITE_AT_WRITE:
            site.sentence(Sentence(plan.stage, plan.site_write))
        command = self._typist.type(laptop, *words, more=more)
        said, _ = await asyncio.gather(
            command.ended(self._clock), self._make_trouble(result, site, command)
        )
        if plan.trouble is Trouble.LAPTOP_AT_WRITE:
            result.is_reached = said.code == KILLED
        return said

    async def _make_trouble(self, result: RoundResult, site: LiveSite, command: Command) -> None:
        plan = result.plan
        match plan.trouble:
            case Trouble.SITE_AT_WRITE:
                await self._until(lambda: command.code is not None or not site.is_alive())
                site.spare()
                result.is_reached = not site.is_alive()
                if result.is_reached:
                    await self._back_after(site, plan.lasts_s)
            case Trouble.SITE_AT_MOMENT:
                await self._rest(plan.moment_s)
                await self._die(result, site, command)
                await self._back_after(site, plan.lasts_s)
            case Trouble.LAPTOP_AT_MOMENT:
                await self._rest(plan.laptop_moment_s)
                result.is_reached = command.signal(signal.SIGKILL)
            case Trouble.BOTH:
                await asyncio.gather(
                    self._kill_laptop(result, command), self._kill_site(result, site, command)
                )
            case Trouble.SITE_STOPPED:
                await self._rest(plan.moment_s)
                result.is_reached = command.code is None
                site.pause()
                await self._rest(plan.lasts_s)
                site.go_on()
            case Trouble.LAPTOP_STOPPED:
                await self._rest(plan.laptop_moment_s)
                result.is_reached = command.signal(signal.SIGSTOP)
                await self._rest(plan.lasts_s)
                command.signal(signal.SIGCONT)
            case Trouble.CUT_JOURNAL:
                await self._rest(plan.moment_s)
                await self._die(result, site, command)
                await self._cut(plan, site)
            case Trouble.FULL_DISK:
                await self._fill(result, site, command)
            case Trouble.OLDER_CLOCK:
                await self._rest(plan.moment_s)
                await self._die(result, site, command)
                await self._start(site, behind_s=plan.behind_s)
                await self._until(lambda: command.code is not None)
                await self._look_after()
                site.kill()
                await self._start(site)

    async def _die(self, result: RoundResult, site: LiveSite, command: Command) -> None:
        command.look()
        result.is_reached |= command.code is None
        site.kill()

    async def _kill_laptop(self, result: RoundResult, command: Command) -> None:
        await self._rest(result.plan.laptop_moment_s)
        result.is_reached |= command.signal(signal.SIGKILL)

    async def _kill_site(self, result: RoundResult, site: LiveSite, command: Command) -> None:
        await self._rest(result.plan.moment_s)
        await self._die(result, site, command)
        await self._back_after(site, result.plan.lasts_s)

    async def _cut(self, plan: RoundPlan, site: LiveSite) -> None:
        """Cut the dead daemon's journal and start it on what is left; if it refuses, put the copy
        back, as its message says.
        """
        cut = site.journal.cut(
            site.name, len(self.happened.cuts), plan.cut_part, in_log=plan.cut_in_log
        )
        self.happened.cuts.append(cut)
        told = site.log.stat().st_size
        if await site.start():
            cut.goes_on_with(site.records())
        cut.words = site.said_since(told)
        cut.is_owned_up = "older than what was promised" in cut.words
        if cut.kept is None:
            site.journal.restore()
            await self._start(site)

    async def _fill(self, result: RoundResult, site: LiveSite, command: Command) -> None:
        """A full disk for a while; the daemon ends when it cannot write, and is started again."""
        await self._rest(result.plan.moment_s)
        command.look()
        result.is_reached = command.code is None
        site.disk.fill(site.pid)
        deadline = self._clock.now_precise() + result.plan.lasts_s
        while self._clock.now_precise() < deadline:
            if not site.is_alive():
                self.happened.counts["daemons that ended on a full disk"] += 1
                if site.disk.is_mounted:
                    await site.start()
                await self._rest(RESTART_PAUSE_S)
            await self._rest(PASS_S)
        site.disk.empty(site.pid)
        if not site.is_alive():
            await self._start(site)

    async def _back_after(self, site: LiveSite, seconds: float) -> None:
        await self._rest(seconds)
        await self._start(site)

    # -- the user ----------------------------------------------------------------------------------

    async def _come_back(self, plan: RoundPlan, laptop: LiveLaptop, said: Said) -> None:
        """The user opens the laptop again, if the command did not end well."""
        laptop.find_trip()
        if said.code in (0, EXIT_DECLINED):
            laptop.is_settled = True
        elif said.code == KILLED and plan.back is Return.NEVER:
            laptop.is_lost = True
        else:
            if plan.back is Return.LATER:
                await self._rest(LATER_S)
            await self.settle(laptop, tries=1)

    # -- inside ------------------------------------------------------------------------------------

    def _metajob(self, plan: RoundPlan) -> str:
        """A program at each leg that writes down when it began."""
        earliest = int(self._clock.now_precise() + plan.lead_s)
        place = self.grid.evidence
        line = f"date +%s.%N >> '{place}'/$GRID_TRIP.$GRID_SITE; sleep 0.5"
        machines = "".join(
            f'[[machines]]\nname = "{site}"\nnodes_min = {plan.nodes}\nnodes_max = {plan.nodes}\n'
            for site in plan.legs
        )
        return (
            f'name = "round-{plan.number}"\nusage_pattern = "multiple"\n'
            f'nodes_total = {plan.nodes * len(plan.legs)}\nduration = "{plan.duration_s}s"\n'
            f'earliest_start = "{format_utc(earliest)}"\n'
            f'latest_end = "{format_utc(earliest + 3600)}"\n'
            f'[task]\ncommand = ["/bin/sh", "-c", """{line}"""]\n{machines}'
        )

    def _later_start(self, plan: RoundPlan, laptop: LiveLaptop) -> str:
        """To when the trip is amended."""
        legs = [leg for story in laptop.stories().values() for leg in story.legs]
        start = max((leg.start for leg in legs), default=self._clock.now() + 15)
        return format_utc(start + plan.later_s)

"""A grid of real processes that is looked after: daemons are started again as a service manager
would, users type their commands until they end well, and in the end everybody comes to rest.

What goes wrong meanwhile is for those who use it (``campaign``, ``crash_campaign``).
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.system.clock import Clock
from gridtravel.simulator.processes.disks import Cut
from gridtravel.simulator.processes.laptops import EXIT_DECLINED, LiveLaptop, Said, Typist
from gridtravel.simulator.processes.live_grid import PASS_S, LiveGrid, LiveSite

NO_ROOM_WORDS: Final = ("disk is full", "disk I/O error", "no room left")
"""What a daemon says that ends because it cannot write."""
RESTART_PAUSE_S: Final = 0.5
"""A service manager tries again after this."""
TRIES_MAX: Final = 12
ASK_AGAIN_S: Final = 2.0
END_WITHIN_S: Final = 20.0
"""After the last leg's end: by then every job is over and every reservation completed."""
LOOK_EVERY_S: Final = 0.3


@dataclass(slots=True)
class Happened:
    """What happened, beside what the journals say."""

    laptops: list[LiveLaptop] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    broken: list[tuple[str, str, str]] = field(default_factory=list)
    """(rule, text, about): what was seen to be wrong while it lived."""
    counts: Counter[str] = field(default_factory=Counter)


class AttendedGrid:
    """The grid, who starts its daemons again, and who types."""

    def __init__(self, grid: LiveGrid, typist: Typist, clock: Clock) -> None:
        self.grid = grid
        self.happened = Happened()
        self._typist = typist
        self._clock = clock

    def note_broken(self, rule: str, text: str, about: str) -> None:
        """Something is wrong, and was seen while it lived."""
        self.happened.broken.append((rule, text, about))

    # -- the daemons -------------------------------------------------------------------------------

    async def _back_after(self, site: LiveSite, seconds: float) -> None:
        await self._rest(seconds)
        await self._start(site)

    async def _start(self, site: LiveSite, *, behind_s: float = 0.0) -> None:
        """As a service manager does: again and again, and it is a fault when it never serves."""
        for _ in range(TRIES_MAX):
            if site.is_alive() or await site.start(behind_s=behind_s):
                return
            await self._rest(RESTART_PAUSE_S)
        self.note_broken("everybody comes back", site.last_words(), site.name)

    # -- the user ----------------------------------------------------------------------------------

    def new_laptop(self, name: str) -> LiveLaptop:
        """A laptop that has not been used yet."""
        folder = self.grid.folder.root / "laptops" / name
        folder.mkdir(parents=True)
        laptop = LiveLaptop(name, folder)
        self.happened.laptops.append(laptop)
        return laptop

    async def settle(self, laptop: LiveLaptop, *, tries: int) -> None:
        """Type what is left to type, until it ends well."""
        for attempt in range(tries):
            if laptop.is_lost or laptop.is_settled:
                return
            if attempt:
                await self._rest(ASK_AGAIN_S)
            if not laptop.find_trip():
                laptop.is_settled = True  # Nothing was begun.
                return
            is_booked = laptop.state is TripState.BOOKED
            verb = "cancel" if laptop.wants_cancel and is_booked else "resume"
            said = await self._typed(laptop, verb, laptop.trip_id, "--json")
            self._judge(laptop, said)
            laptop.hear(said)
            if said.code in (0, EXIT_DECLINED):
                laptop.is_settled = not (
                    laptop.wants_cancel and laptop.state is TripState.BOOKED and verb == "resume"
                )
            elif self._is_over(laptop):
                self.happened.counts["resumed when it was over"] += 1
                laptop.is_settled = True

    def _is_over(self, laptop: LiveLaptop) -> bool:
        """True when the time of every leg has come: jobs can be queued for it no more."""
        legs = [leg for story in laptop.stories().values() for leg in story.legs]
        return bool(legs) and all(leg.start <= self._clock.now() for leg in legs)

    def _judge(self, laptop: LiveLaptop, said: Said) -> None:
        if "Traceback" in said.err or said.code == -signal.SIGALRM:
            text = said.err.strip().splitlines()[-1] if said.err.strip() else "no word"
            self.note_broken("commands end well", text, laptop.trip_id or laptop.name)

    async def _typed(self, laptop: LiveLaptop, *words: str) -> Said:
        return await self._typist.type(laptop, *words).ended(self._clock)

    # -- the end -----------------------------------------------------------------------------------

    async def come_to_rest(self) -> None:
        """Everybody is back, every command has ended well, every trip's time is over."""
        await self._look_after()
        for laptop in self.happened.laptops:
            await self.settle(laptop, tries=TRIES_MAX)
            if not (laptop.is_settled or laptop.is_lost):
                text = f"{laptop.name}: `gur resume` does not succeed"
                self.note_broken("commands end well", text, laptop.trip_id)
        ends = [site.last_end() for site in self.grid.sites.values()]
        await self._clock.sleep_until(max(ends))
        while self._clock.now_precise() < max(ends) + END_WITHIN_S:
            if not any(site.is_busy() for site in self.grid.sites.values()):
                break
            await self._rest(LOOK_EVERY_S)
        await self._look_after()

    async def look_at_status(self) -> None:
        """What ``gur status`` shows of each trip, typed by its user. It may write down that a trip
        is over, so the logs are read before.
        """
        for laptop in self.happened.laptops:
            laptop.keep_log()
            if laptop.is_lost or not laptop.trip_id:
                continue
            said = await self._typed(laptop, "status", laptop.trip_id, "--json")
            self._judge(laptop, said)
            if said.code == 0:
                laptop.shown = TripState(said.answer["state"])

    async def _look_after(self) -> None:
        """Nobody is down without having been struck."""
        for site in self.grid.sites.values():
            if not site.is_alive():
                if any(word in site.last_words() for word in NO_ROOM_WORDS):
                    self.happened.counts["daemons that ended on a full disk"] += 1
                else:
                    self.note_broken("no defects", f"{site.name} ended by itself", site.name)
                await self._start(site)

    # -- inside ------------------------------------------------------------------------------------

    async def _rest(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.now_precise() + seconds)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self._rest(PASS_S)

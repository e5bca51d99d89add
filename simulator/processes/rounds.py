"""What is to go wrong in which round: plain values, from a seed.

Each round is one trip and one trouble. The kinds take turns; which site, at which write or moment,
in which command, and how who died comes back, is drawn.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from gridtravel.simulator.kernel.chance import Chance
from gridtravel.simulator.processes.live_grid import HOLD_S, SITES
from gridtravel.simulator.processes.mortal import Stage


class Trouble(enum.StrEnum):
    """What goes wrong in a round."""

    SITE_AT_WRITE = "kill -9 of a site at a write"
    LAPTOP_AT_WRITE = "kill -9 of the laptop at a write"
    SITE_AT_MOMENT = "kill -9 of a site at a moment"
    LAPTOP_AT_MOMENT = "kill -9 of the laptop at a moment"
    BOTH = "kill -9 of a site and the laptop"
    SITE_STOPPED = "SIGSTOP of a site"
    LAPTOP_STOPPED = "SIGSTOP of the laptop"
    CUT_JOURNAL = "a site's journal cut"
    FULL_DISK = "a site's disk full"
    OLDER_CLOCK = "a site restarted with an older clock"


class Return(enum.StrEnum):
    """When a laptop that died is opened again."""

    SOON = "soon"
    LATER = "later"
    NEVER = "never"


LEAD_S: Final = (12.0, 17.0)
"""A trip starts that long after it is asked for: after any hold, doubt and restart."""
MOMENTS_S: Final = (0.0, 0.2)
"""After the command was begun, which takes between a tenth and two tenths of a second."""
SITE_WRITES: Final = {"book": 8, "cancel": 4, "amend": 5}
"""A site writes about so often during a command."""
LAPTOP_WRITES: Final = {"book": 9, "cancel": 5, "amend": 5}
STOPPED_S: Final = (HOLD_S + 1.0, HOLD_S + 3.0)
"""Longer than a hold lives."""
FULL_S: Final = (1.0, 4.0)
BEHIND_S: Final = (2.0, 25.0)
CUT_LATE: Final = 0.96
"""Of the journal's log: the last trips."""
AWAY_S: Final = (0.0, HOLD_S + 2.0)
LATER_S: Final = HOLD_S + 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """One round."""

    number: int
    trouble: Trouble
    strikes: str
    """The command that is struck: ``book``, or ``cancel`` or ``amend`` of a trip that was booked in
    peace.
    """
    legs: tuple[str, ...]
    """Sites of the trip."""
    nodes: int
    """At each."""
    lead_s: float
    duration_s: int
    later_s: int
    """``amend`` moves it by so much."""
    site: str
    """Which site is struck, if one is."""
    stage: Stage
    site_write: int
    laptop_write: int
    moment_s: float
    laptop_moment_s: float
    lasts_s: float
    """How long a stop, a full disk or a site's absence lasts."""
    back: Return
    is_cancelled: bool
    """After ``book`` was struck and brought to rest, the trip is cancelled in peace."""
    behind_s: float
    cut_part: float
    """Where the journal is cut, as a part of its length."""
    cut_in_log: bool

    @property
    def point(self) -> str:
        """At which point it strikes, to tell points apart."""
        match self.trouble:
            case Trouble.SITE_AT_WRITE:
                return f"{self.strikes} {self.site} {self.stage} {self.site_write}"
            case Trouble.LAPTOP_AT_WRITE:
                return f"{self.strikes} {self.stage} {self.laptop_write}"
            case _:
                return f"{self.number}"


def plan_round(seed: int, number: int) -> RoundPlan:
    """The ``number``-th round (from 0) of a seed."""
    chance = Chance(seed, "processes").child(f"round {number}")
    troubles = list(Trouble)
    trouble = troubles[number % len(troubles)]
    strikes = chance.one_of(("book", "book", "book", "cancel", "amend"))
    legs = tuple(chance.some_of(list(SITES), 3 if chance.happens(0.7) else 2))
    if chance.happens(0.1):
        legs = legs[:1]
    cut_in_log = chance.happens(0.75)
    lasts_s = {
        Trouble.SITE_STOPPED: STOPPED_S,
        Trouble.LAPTOP_STOPPED: STOPPED_S,
        Trouble.FULL_DISK: FULL_S,
    }.get(trouble, AWAY_S)
    return RoundPlan(
        number=number,
        trouble=trouble,
        strikes=strikes,
        legs=legs,
        nodes=chance.whole(1, min(SITES[each] for each in legs)),
        lead_s=chance.seconds(*LEAD_S),
        duration_s=chance.whole(2, 4),
        later_s=chance.whole(1, 5),
        site=chance.one_of(legs),
        stage=chance.one_of(list(Stage)),
        site_write=chance.whole(1, SITE_WRITES[strikes]),
        laptop_write=chance.whole(1, LAPTOP_WRITES[strikes]),
        moment_s=chance.seconds(*MOMENTS_S),
        laptop_moment_s=chance.seconds(*MOMENTS_S),
        lasts_s=0.0 if chance.happens(0.3) and lasts_s == AWAY_S else chance.seconds(*lasts_s),
        back=chance.one_of(list(Return)),
        is_cancelled=chance.happens(0.25),
        behind_s=chance.seconds(*BEHIND_S),
        # The log near its end: what was cut off is excused, and should not be everything.
        cut_part=chance.seconds(CUT_LATE if cut_in_log else 0.0, 1.0),
        cut_in_log=cut_in_log,
    )

"""What a site does when slots that come near are split: the queue learns of the room, and so do the
managers.

The calendar keeps every start where it was told and gives back what reservations no longer touch
(``gridcore.slot_keeping``); the jobs of the queue move up into it with the next cycle (calendar
paper, section 2.3). Nothing is journaled: where the slots lie is a matter of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_sched.slot_splits import SplitWatch

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent
    from gridcore.instants import Instant


class SlotUpkeep:
    """Belongs to one agent and its event loop."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._watch = SplitWatch(agent.calendar.slots, agent.scheduler)

    def look(self, now: Instant) -> bool:
        """Before each cycle, after the calendar was told the time; True when there is room that
        nobody knew of.
        """
        is_split = self._watch.look(now)
        if is_split:
            self._agent.publisher.changed()
        return is_split

    def next_due(self) -> Instant:
        """When slots are split next; far away where there is one level."""
        return self._agent.calendar.slots.next_split

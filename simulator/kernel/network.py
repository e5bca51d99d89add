"""The network of a simulated world: every message is late, and some are lost, doubled or held up.

Here is what happens to a message on its way; who says it, and what a caller sees of it, is
``network_wire``'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from gridtravel.simulator.kernel.contacts import ContactLog
from gridtravel.simulator.kernel.processes import PointKind, SimulatedProcess, outside

if TYPE_CHECKING:
    from gridtravel.gridcore.ports import SiteServices
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.simulator.kernel.chance import Chance
    from gridtravel.simulator.kernel.event_log import EventLog
    from gridtravel.simulator.kernel.virtual_loop import VirtualLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConditions:
    """What the network does to messages; probabilities are of each message, either way."""

    latency_least_s: float = 0.002
    latency_most_s: float = 0.08
    """Drawn anew for each message, so that messages overtake each other."""
    loss: float = 0.0
    double: float = 0.0
    late: float = 0.0
    late_most_s: float = 40.0
    """A late message takes up to this long: longer than the lifetime of a hold."""
    notice: float = 0.5
    """Of losses and deaths: how often the other end finds out at once, because the connection
    breaks, instead of waiting for its deadline.
    """

    def calm(self) -> NetworkConditions:
        """The same network on a good day."""
        return replace(self, loss=0.0, double=0.0, late=0.0)


CLEAR: Final = NetworkConditions()
VOTES: Final = ("Vote", "Vote answer")
"""Messages about the outcome of trips, which the world keeps a record of."""


class Host(Protocol):
    """A party that can be called."""

    @property
    def name(self) -> str:
        """Its name in the world."""
        ...

    @property
    def clock(self) -> Clock:
        """Its own."""
        ...

    @property
    def life(self) -> SimulatedProcess | None:
        """The life that serves now; ``None`` while it is down."""
        ...

    def services(self) -> SiteServices | None:
        """What it serves; ``None`` while it is down or not ready."""
        ...

    def acknowledged(self, method: str, question: Any, answer: Any) -> None:
        """An answer leaves now (both are messages of gridwire); from here on somebody may rely on
        it.
        """
        ...


class Network:
    """Carries messages between parties. Everything drawn comes from ``chance``."""

    def __init__(
        self,
        loop: VirtualLoop,
        chance: Chance,
        event_log: EventLog,
        conditions: NetworkConditions = CLEAR,
    ) -> None:
        self.loop = loop
        self.chance = chance
        self.event_log = event_log
        self.conditions = conditions
        self.contacts = ContactLog(loop)
        """What really kept the parties apart, for the checkers."""
        self._hosts: dict[str, Host] = {}
        self._cuts: dict[str, frozenset[str]] = {}
        """Partitions by name: one side of each."""

    def join(self, host: Host) -> None:
        """From now on it can be called by its name."""
        self._hosts[host.name] = host

    def host(self, name: str) -> Host | None:
        """The party of that name, when it can be called at all."""
        return self._hosts.get(name)

    def cut(self, name: str, side: frozenset[str]) -> None:
        """Nothing passes between ``side`` and all others, until ``mend``."""
        self._cuts[name] = side
        self.contacts.cut(name, side)

    def mend(self, name: str) -> None:
        """End a partition."""
        self._cuts.pop(name, None)
        self.contacts.mended(name)

    def calm_down(self) -> None:
        """No more faults from now on."""
        self.conditions = self.conditions.calm()
        self._cuts.clear()
        self.contacts.all_mended()

    def is_cut(self, one: str, other: str) -> bool:
        """True when a partition lies between the two."""
        return any((one in side) != (other in side) for side in self._cuts.values())

    def delay_s(self) -> float:
        """How long the next message takes."""
        return self.chance.seconds(self.conditions.latency_least_s, self.conditions.latency_most_s)

    def notices(self) -> bool:
        """Whether the other end finds out at once."""
        return self.chance.happens(self.conditions.notice)

    def carry(
        self, sender: SimulatedProcess, target: str, what: str, arrive: Callable[[], None]
    ) -> list[float] | None:
        """Send a message; ``None`` when it is lost, else the delays of its copies.

        Counts, and gives the sender an occasion to crash right afterwards.
        """
        conditions, event_log = self.conditions, self.event_log
        event_log.messages[what] += 1
        delays: list[float] | None = None
        if self.is_cut(sender.party, target):
            event_log.fault("cut off", sender.party, "{} to {} meets a partition", what, target)
        elif self.chance.happens(conditions.loss):
            event_log.fault("lost message", sender.party, "{} to {} is lost", what, target)
        else:
            delays = [self._delay_of_one(sender, target, what)]
            if self.chance.happens(conditions.double):
                event_log.fault("doubled message", sender.party, "{} to {} twice", what, target)
                delays.append(self._delay_of_one(sender, target, what))
            for delay_s in delays:
                self.later(delay_s, arrive)
        if what in VOTES and (delays is None or min(delays) > self.conditions.latency_most_s):
            self.contacts.lost(sender.party, target)
        sender.passes(PointKind.SENT)
        return delays

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something as the world, not as whoever asks for it."""
        outside(self.loop.call_later, delay_s, action)

    def _delay_of_one(self, sender: SimulatedProcess, target: str, what: str) -> float:
        delay_s = self.delay_s()
        if self.chance.happens(self.conditions.late):
            delay_s += self.chance.seconds(0.5, self.conditions.late_most_s)
            self.event_log.fault(
                "late message", sender.party, "{} to {} takes {:.3f} s", what, target, delay_s
            )
        return delay_s

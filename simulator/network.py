"""The network of a simulated world: every message is late, and some are lost, doubled or held up.

A ``NetworkWire`` stands where the gRPC channel stands in production: above it the production
clients and their codec, behind it the production handlers (``gridio.rpc.local_wire``), so that
every verb there is travels as real bytes, with its real deadline and its real number of attempts.

What a caller sees is what the real client would show: ``UnavailableError`` when the connection
breaks or is refused, ``DeadlineError`` when nothing ever comes back, and then nobody can tell
whether the question or the answer was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from gridio.connections import ClockSkew, TransportName
from gridio.rpc.calendar_client import WireCalendar
from gridio.rpc.site_client import WireSite
from simulator.lives import Life, PointKind, outside
from simulator.network_wire import NetworkWire

if TYPE_CHECKING:
    from gridcore.callers import Caller
    from gridcore.ports import CalendarPort, SitePort, SiteServices
    from gridio.clock import Clock
    from simulator.chance import Chance
    from simulator.chronicle import Chronicle
    from simulator.virtual_loop import VirtualLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
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

    def calm(self) -> Weather:
        """The same network on a good day."""
        return replace(self, loss=0.0, double=0.0, late=0.0)


CLEAR: Final = Weather()


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
    def life(self) -> Life | None:
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
        self, loop: VirtualLoop, chance: Chance, chronicle: Chronicle, weather: Weather = CLEAR
    ) -> None:
        self.loop = loop
        self.chance = chance
        self.chronicle = chronicle
        self.weather = weather
        self._hosts: dict[str, Host] = {}
        self._cuts: dict[str, frozenset[str]] = {}
        """Partitions by name: one side of each."""

    def join(self, host: Host) -> None:
        """From now on it can be called by its name."""
        self._hosts[host.name] = host

    def host(self, name: str) -> Host | None:
        """The party of that name, when it can be called at all."""
        return self._hosts.get(name)

    def connect(self, source: Life, clock: Clock, target: str, caller: Caller) -> SiteConnection:
        """A connection for as long as ``source`` lives."""
        return SiteConnection(NetworkWire(self, source, target, caller), clock)

    def cut(self, name: str, side: frozenset[str]) -> None:
        """Nothing passes between ``side`` and all others, until ``mend``."""
        self._cuts[name] = side

    def mend(self, name: str) -> None:
        """End a partition."""
        self._cuts.pop(name, None)

    def calm_down(self) -> None:
        """No more faults from now on."""
        self.weather = self.weather.calm()
        self._cuts.clear()

    def is_cut(self, one: str, other: str) -> bool:
        """True when a partition lies between the two."""
        return any((one in side) != (other in side) for side in self._cuts.values())

    def delay_s(self) -> float:
        """How long the next message takes."""
        return self.chance.seconds(self.weather.latency_least_s, self.weather.latency_most_s)

    def notices(self) -> bool:
        """Whether the other end finds out at once."""
        return self.chance.happens(self.weather.notice)

    def carry(
        self, sender: Life, target: str, what: str, arrive: Callable[[], None]
    ) -> list[float] | None:
        """Send a message; ``None`` when it is lost, else the delays of its copies.

        Counts, and gives the sender an occasion to crash right afterwards.
        """
        weather, chronicle = self.weather, self.chronicle
        chronicle.messages[what] += 1
        delays: list[float] | None = None
        if self.is_cut(sender.party, target):
            chronicle.fault("cut off", sender.party, "{} to {} meets a partition", what, target)
        elif self.chance.happens(weather.loss):
            chronicle.fault("lost message", sender.party, "{} to {} is lost", what, target)
        else:
            delays = [self._delay_of_one(sender, target, what)]
            if self.chance.happens(weather.double):
                chronicle.fault("doubled message", sender.party, "{} to {} twice", what, target)
                delays.append(self._delay_of_one(sender, target, what))
            for delay_s in delays:
                self.later(delay_s, arrive)
        sender.passes(PointKind.SENT)
        return delays

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something as the world, not as whoever asks for it."""
        outside(self.loop.call_later, delay_s, action)

    def _delay_of_one(self, sender: Life, target: str, what: str) -> float:
        delay_s = self.delay_s()
        if self.chance.happens(self.weather.late):
            delay_s += self.chance.seconds(0.5, self.weather.late_most_s)
            self.chronicle.fault(
                "late message", sender.party, "{} to {} takes {:.3f} s", what, target, delay_s
            )
        return delay_s


class SiteConnection:
    """See ``gridio.connections.SiteConnection``; over a ``NetworkWire``."""

    def __init__(self, wire: NetworkWire, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock
        self._calendar = WireCalendar(wire, clock)
        self._site = WireSite(wire, clock)

    @property
    def calendar(self) -> CalendarPort:
        """The site's calendar."""
        return self._calendar

    @property
    def site(self) -> SitePort:
        """The site for its own users."""
        return self._site

    @property
    def transport(self) -> TransportName:
        """Nothing carries the calls."""
        return "inproc"

    @property
    def endpoint(self) -> str:
        """Where it leads."""
        return self._wire.endpoint

    def skew_s(self) -> ClockSkew | None:
        """Exact, because both clocks can be read at once."""
        site_clock = self._wire.target_clock
        if site_clock is None:
            return None
        skew_s = site_clock.now_precise() - self._clock.now_precise()
        return ClockSkew(skew_s=skew_s, uncertainty_s=0.0)

    async def close(self) -> None:
        """Nothing to end."""

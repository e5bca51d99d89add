"""The in-process twin of a connection: a site as an object beside us.

It ships with the product: simulations and tests of everything above the ports use it, and a daemon
that is its own client. Nothing here waits for anything but the site itself.
"""

from __future__ import annotations

from gridcore.callers import Caller
from gridcore.ports import CalendarPort, SitePort, SiteServices
from gridio.clock import Clock, SystemClock
from gridio.connections import ClockSkew, TransportName
from gridio.rpc.calendar_client import WireCalendar
from gridio.rpc.local_wire import LocalWire
from gridio.rpc.site_client import WireSite


class InprocSite:
    """``services`` as ``caller`` may use them, as a ``SiteConnection``.

    Values are handed over as they are, or, with ``through_codec``, as messages that were written
    and read again (about 10 µs more a call). When the site has a clock of its own (``site_clock``
    is not ``clock``), they always go through the codec: that is what turns the lifetimes of holds
    from the site's clock to ours.
    """

    def __init__(
        self,
        services: SiteServices,
        caller: Caller,
        *,
        through_codec: bool = False,
        clock: Clock | None = None,
        site_clock: Clock | None = None,
        name: str = "",
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._site_clock: Clock = site_clock or self._clock
        self._endpoint = f"inproc:{name}"
        self._calendar: CalendarPort
        self._site: SitePort
        offers_both = getattr(services, "site_port", None) is not None
        if through_codec or self._site_clock is not self._clock or not offers_both:
            wire = LocalWire(services, caller, clock=self._site_clock, endpoint=self._endpoint)
            self._calendar = WireCalendar(wire, self._clock)
            self._site = WireSite(wire, self._clock)
        else:
            self._calendar = services.calendar_port(caller)
            self._site = services.site_port(caller)

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
        """``inproc:`` and the name given."""
        return self._endpoint

    def skew_s(self) -> ClockSkew | None:
        """Exact, because both clocks can be read at once."""
        skew_s = self._site_clock.now_precise() - self._clock.now_precise()
        return ClockSkew(skew_s=skew_s, uncertainty_s=0.0)

    async def close(self) -> None:
        """Nothing to end: the services belong to somebody else."""

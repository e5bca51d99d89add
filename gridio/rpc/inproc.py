"""The in-process twin of a connection: a site as an object beside us.

It ships with the product, so that everything above the ports can be tested without a network.
Nothing here waits for anything but the site itself.
"""

from __future__ import annotations

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.ports import CalendarPort, SitePort, SiteServices
from gridtravel.gridio.rpc.client.wire_ports import WireCalendar, WireSite
from gridtravel.gridio.rpc.local_wire import LocalWire
from gridtravel.gridio.sites.connections import ClockSkew, TransportName
from gridtravel.gridio.system.clock import Clock, SystemClock


class InprocSite:
    """``services`` as ``caller`` may use them, as a ``SiteConnection``.

    Values are handed over as they are, or, with ``through_codec``, as messages that were written
    and read again (about 10 µs more a call).
    """

    def __init__(
        self,
        services: SiteServices,
        caller: Caller,
        *,
        through_codec: bool = False,
        clock: Clock | None = None,
        name: str = "",
    ) -> None:
        clock = clock or SystemClock()
        self.endpoint = f"inproc:{name}"
        self.transport: TransportName = "inproc"
        self.calendar: CalendarPort
        self.site: SitePort
        offers_both = getattr(services, "site_port", None) is not None
        if through_codec or not offers_both:
            wire = LocalWire(services, caller, clock=clock, endpoint=self.endpoint)
            self.calendar = WireCalendar(wire, clock)
            self.site = WireSite(wire, clock)
        else:
            self.calendar = services.calendar_port(caller)
            self.site = services.site_port(caller)

    def skew_s(self) -> ClockSkew | None:
        """None: both ends have the same clock."""
        return ClockSkew(skew_s=0.0, uncertainty_s=0.0)

    async def close(self) -> None:
        """Nothing to end: the services are not its own."""

"""Where a trip may go: the machines of its metajob with the connections that lead there, and who of
their sites keeps the trip's outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.booking.reservations import Acceptor, Decline, DeclineRule
from gridtravel.gridcore.trips.metajobs import MachineRequest
from gridtravel.gridcore.trips.trip_consensus import choose_acceptors
from gridtravel.gridio.sites.connections import SiteConnection

DEFAULT_ACCOUNT: Final = "default"
"""Account named when the metajob names none; a site charges the caller's own then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A machine of the metajob with the connection that leads to it."""

    request: MachineRequest
    connection: SiteConnection
    site: str
    """Name of the site in its certificate."""
    endpoint: str = ""
    """Where other sites reach it, whichever way leads there from here; empty: nobody but us has a
    way, such as our own SSH login.
    """
    features: tuple[str, ...] = ()
    """What the machine's name stands for at its site."""
    is_manager: bool = False
    only_sets: bool = False
    """It answers no inquiries: reservations can be set and cancelled there, and nothing else."""
    has_agent: bool = True
    """False: only a batch system's commands are there, and nobody who would fetch files."""
    commands: str = ""
    """Where those commands are, and of which system; empty: it has an agent."""
    card: str | None = None
    """The site's own word where other sites reach it, as it told it; empty: they cannot. ``None``:
    it was not asked, or did not answer.
    """

    @property
    def required_features(self) -> tuple[str, ...]:
        """What every node there must have: by the machine's name, and by the metajob's wish."""
        return tuple(sorted({*self.request.features, *self.features}))

    @property
    def account(self) -> str:
        """Who pays there."""
        return self.request.account or DEFAULT_ACCOUNT


def acceptors_of(
    destinations: Mapping[str, Destination], keepers: Sequence[str] = ()
) -> tuple[Acceptor, ...]:
    """Who keeps the outcome of a trip to these places (by leg): an odd number of different sites.
    ``keepers``: the sites that alone may; none: any.

    Two stages of a pipeline at one site are two commits, so that site keeps their outcome; it asks
    only itself. Managers are not among them, since sites prove to each other that they are sites;
    a manager asks like any participant, and so do its children, who learn the trip with their
    holds. Nor are sites that only this traveller reaches (by SSH, or on this computer), or that
    have no card: the others could not ask them. When none is left, nobody is an acceptor, and the
    traveller's log decides.
    """
    places = {each.site: each for each in destinations.values() if not each.is_manager}
    if len({each.site for each in destinations.values()}) < 2:
        is_alone = len(destinations) < 2
        return () if is_alone else tuple(_acceptor(each) for each in places.values())
    reached = tuple(
        site
        for site, each in places.items()
        if each.endpoint and each.card and (not keepers or site in keepers)
    )
    return tuple(_acceptor(places[site]) for site in choose_acceptors(reached) or reached)


def without_keeper(
    destinations: Mapping[str, Destination], keepers: Sequence[str]
) -> Decline | None:
    """Why a trip to these places (by leg) is not booked, when none of the sites that the user lets
    keep it can: without them its outcome would be kept by somebody else. A trip to one site needs
    nobody beside that.
    """
    sites = dict.fromkeys(each.site for each in destinations.values())
    if not keepers or len(sites) < 2 or acceptors_of(destinations, keepers):
        return None
    able = [each.site for each in acceptors_of(destinations)]
    message = (
        f"the trip may be kept by {', '.join(keepers)}, and none of them can among its sites"
        f" {', '.join(sites)}"
    )
    would_pass = f"keepers = {able} would do" if able else "none of these sites can keep a trip"
    return Decline(rule=DeclineRule.POLICY, message=f"{message}; {would_pass}")


def _acceptor(destination: Destination) -> Acceptor:
    return Acceptor(
        site=destination.site, endpoint=destination.endpoint, card=destination.card or ""
    )

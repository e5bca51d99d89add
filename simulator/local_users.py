"""A site's own users in a simulated world: they submit jobs and set reservations at the site."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridcore.callers import Caller
from gridcore.errors import GridError
from gridcore.jobs import JobSpec
from gridcore.reservations import Decline, ReservationRequest

if TYPE_CHECKING:
    from simulator.simulated_site import SimulatedSite
    from simulator.worlds import World

LOCAL = Caller(subject="login:bob", login="bob")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWish:
    """One job or reservation."""

    site: str
    name: str
    at_s: float
    nodes: int
    limit_s: int
    is_reservation: bool
    ahead_s: int = 0
    """How far ahead the reservation may start at the earliest."""


def let_them(world: World, wishes: Iterable[LocalWish]) -> None:
    """See to it that each is asked for at its time, if its site is up then."""
    for wish in wishes:
        _schedule(world, wish)


def _schedule(world: World, wish: LocalWish) -> None:
    def ask() -> None:
        site = world.sites[wish.site]
        if site.life is not None and site.agent is not None:
            site.life.start(_ask(world, site, wish), wish.name)

    world.network.later(wish.at_s, ask)


async def _ask(world: World, site: SimulatedSite, wish: LocalWish) -> None:
    agent, now = site.agent, site.clock.now()
    assert agent is not None, "checked when the task was made"
    port = agent.site_port(LOCAL)
    try:
        if wish.is_reservation:
            request = ReservationRequest(
                request_id=wish.name,
                account="bob",
                nodes_min=wish.nodes,
                nodes_max=wish.nodes,
                duration_s=wish.limit_s,
                earliest_start=now + wish.ahead_s,
                latest_end=now + wish.ahead_s + wish.limit_s + 600,
            )
            answer = await port.set_reservation(request, is_dry_run=False)
            told = "reservation"
        else:
            spec = JobSpec(
                request_id=wish.name,
                name=wish.name,
                account="bob",
                nodes=wish.nodes,
                limit_s=wish.limit_s,
                argv=("work",),
            )
            answer = await port.submit(spec)  # type: ignore[assignment]  # a job this time
            told = "job"
    except GridError as fault:
        world.chronicle.tell(site.name, "bob's {} fails: {}", wish.name, fault)
        return
    refused = isinstance(answer, Decline)
    world.chronicle.counts[f"local {told} {'declined' if refused else 'granted'}"] += 1

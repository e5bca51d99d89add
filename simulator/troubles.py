"""Troubles by script: what goes wrong in a simulated world at which moment, beside the weather."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.worlds import World


class TroubleKind(enum.StrEnum):
    """What goes wrong."""

    CRASH = "crash"
    """A party's process dies."""
    POWER_CUT = "power cut"
    """A site's machine goes dark, with all tasks on it."""
    PAUSE = "pause"
    """A process stands still and goes on later: SIGSTOP, a closed lid, a swapping machine."""
    PARTITION = "partition"
    """The parties named cannot be reached by the others."""
    FULL_DISK = "full disk"
    SLOW_DISK = "slow disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One of them."""

    kind: TroubleKind
    at_s: float
    parties: tuple[str, ...]
    lasts_s: float | None
    """``None``: for ever; only for the crash of a laptop."""
    write_s: float = 0.0
    """SLOW_DISK: what each write takes."""


def bring_about(world: World, troubles: Iterable[Trouble]) -> None:
    """See to it that each happens at its time."""
    for number, trouble in enumerate(troubles, 1):
        _schedule(world, trouble, f"trouble {number}")


def _schedule(world: World, trouble: Trouble, name: str) -> None:
    world.network.later(trouble.at_s, lambda: _begin(world, trouble, name))


def _begin(world: World, trouble: Trouble, name: str) -> None:
    chronicle, lasts_s = world.chronicle, trouble.lasts_s
    match trouble.kind:
        case TroubleKind.CRASH | TroubleKind.POWER_CUT:
            is_power_cut = trouble.kind is TroubleKind.POWER_CUT
            for party in trouble.parties:
                world.kill(party, f"by {name}", lasts_s, is_power_cut=is_power_cut)
        case TroubleKind.PAUSE:
            for party in trouble.parties:
                _pause(world, party, lasts_s or 0.0)
        case TroubleKind.PARTITION:
            together = ", ".join(trouble.parties)
            chronicle.fault("partition", "network", "cuts off {} for {} s", together, lasts_s)
            world.network.cut(name, frozenset(trouble.parties))
            world.network.later(lasts_s or 0.0, lambda: world.network.mend(name))
        case TroubleKind.FULL_DISK:
            _fill(world, trouble, is_full=True)
            world.network.later(lasts_s or 0.0, lambda: _fill(world, trouble, is_full=False))
        case TroubleKind.SLOW_DISK:
            chronicle.fault("slow disk", trouble.parties[0], "writes take {} s", trouble.write_s)
            _slow_down(world, trouble, trouble.write_s)
            world.network.later(lasts_s or 0.0, lambda: _slow_down(world, trouble, None))


def _pause(world: World, party: str, lasts_s: float) -> None:
    life = world.party(party).life
    if life is not None:
        world.chronicle.fault("pause", party, "stands still for {} s", lasts_s)
        life.pause()
        world.network.later(lasts_s, life.go_on)


def _fill(world: World, trouble: Trouble, *, is_full: bool) -> None:
    for party in trouble.parties:
        world.sites[party].disk_is_full = is_full and not world.is_calm


def _slow_down(world: World, trouble: Trouble, write_s: float | None) -> None:
    for party in trouble.parties:
        site = world.sites[party]
        site.write_s = site.plan.write_s if write_s is None or world.is_calm else write_s

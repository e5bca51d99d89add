"""What thousands of simulated worlds came to, as tables for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

if TYPE_CHECKING:
    from gridtravel.simulator.cli.torture import SeedResult, Summary
    from gridtravel.simulator.grid.exhaustive import Tally

STORIES_MAX: Final = 1
"""Stories printed; the seeds of the others are listed."""


def seeds_as_json(summary: Summary) -> dict[str, Any]:
    """Everything that was counted, and each failing seed with its broken promises."""
    return {
        "worlds": summary.worlds,
        "sites": summary.sites,
        "travellers": summary.travellers,
        "virtual_hours": round(summary.lasted_s / 3600, 2),
        "messages": summary.messages,
        "faults": dict(sorted(summary.faults.items())),
        "commands": dict(sorted(summary.counts.items())),
        "trips": dict(sorted(summary.outcomes.items())),
        "doubt_longest_s": round(summary.doubt_longest_s, 3),
        "failures": [
            {"seed": each.seed, "violations": list(each.violations)} for each in summary.failures
        ],
    }


def seeds_as_table(summary: Summary) -> Table:
    """One row a kind of thing."""
    table = Table(title=f"{summary.worlds} worlds", box=None, show_header=False)
    table.add_column("what")
    table.add_column("how many", justify="right")
    table.add_row("sites, travellers", f"{summary.sites}, {summary.travellers}")
    table.add_row("virtual hours", f"{summary.lasted_s / 3600:,.0f}")
    table.add_row("messages", f"{summary.messages:,}")
    for kind, count in sorted(summary.faults.items()):
        table.add_row(f"  fault: {kind}", f"{count:,}")
    for outcome, count in sorted(summary.outcomes.items()):
        table.add_row(f"  trips with a hold that are {outcome}", f"{count:,}")
    for what, count in sorted(summary.counts.items()):
        table.add_row(f"  {what}", f"{count:,}")
    table.add_row("longest doubt", f"{summary.doubt_longest_s:.1f} s")
    table.add_row("worlds with a broken promise", f"{len(summary.failures)}")
    return table


def story(result: SeedResult, command: str) -> list[str]:
    """A failing seed: what was broken, how it came to it, and how to see it again."""
    return [
        f"seed {result.seed}: {len(result.violations)} broken promises in a world of"
        f" {result.sites} sites and {result.travellers} travellers",
        *(f"  {each}" for each in result.violations),
        "",
        "how it came to it (virtual seconds; !! is a fault of the world, $ what a user typed)",
        *result.story,
        "",
        f"again: {command}",
    ]


def crashes_as_json(tallies: Mapping[tuple[str, str], Tally]) -> list[dict[str, Any]]:
    """One object a row of the table."""
    return [
        {
            "party": who,
            "at": where,
            "worlds": tally.worlds,
            "outcomes": dict(sorted(tally.outcomes.items())),
            "doubt_longest_s": round(tally.doubt_longest_s, 3),
            "failures": [
                {"crashes": [str(each.at) for each in crashes], "violation": text}
                for crashes, text in tally.failures
            ],
        }
        for (who, where), tally in tallies.items()
    ]


def crashes_as_table(tallies: Mapping[tuple[str, str], Tally]) -> Table:
    """Points tried, outcomes, longest doubt."""
    table = Table(title="one trip over three sites, a crash at every point", box=None)
    for name in ("who dies", "at each"):
        table.add_column(name)
    for name in ("worlds", "booked", "absent", "torn", "doubt", "broken"):
        table.add_column(name, justify="right")
    for (who, where), tally in tallies.items():
        table.add_row(
            who,
            where,
            f"{tally.worlds:,}",
            *(f"{tally.outcomes[each]:,}" for each in ("BOOKED", "ABSENT", "TORN")),
            f"{tally.doubt_longest_s:.1f} s",
            f"{len(tally.failures)}",
        )
    return table

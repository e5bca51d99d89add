"""What ``gurlab tree --out`` writes: tables, pictures and ``claims.json``, as the studies do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gridtravel.simulator.studies.charts import Panel, draw_bars
from gridtravel.simulator.studies.study import Claim, write_claims
from gridtravel.simulator.studies.tables import write_table
from gridtravel.simulator.tree.study import HORIZONS_S, TreeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFindings:
    """Everything that one call found."""

    main: TreeResult
    stale: Sequence[TreeResult]
    """The same tree with older and older shadows."""
    grown: Sequence[TreeResult]
    """Trees of more and more nodes."""
    deep: Sequence[TreeResult]
    """Trees of more and more levels."""

    @property
    def breaches(self) -> list[str]:
        """Promises broken anywhere."""
        every = (self.main, *self.stale, *self.grown, *self.deep)
        return [breach for each in every for breach in each.breaches]


COLUMNS = (
    "nodes",
    "levels",
    "update_interval_s",
    "booked",
    "refused",
    "without_outcome",
    "restarts",
    "promises_broken",
    "messages_a_booking",
    "inquiries_a_booking",
    "seconds_a_booking",
    "hit_rate",
    *(f"hit_rate_to_{horizon_s}_s" for horizon_s in HORIZONS_S),
)


def row_of(result: TreeResult) -> tuple[object, ...]:
    """One line of a table."""
    rates = [
        f"{each.hits / each.bookings:.4f}" if each.bookings else ""
        for each in result.by_horizon.values()
    ]
    return (
        result.nodes,
        result.levels,
        result.stale_s,
        result.booked,
        result.refused,
        result.unknown,
        result.restarts,
        len(result.breaches),
        f"{result.messages_a_booking:.3f}",
        f"{result.verbs['inquire'] / max(1, result.booked):.3f}",
        f"{result.seconds_a_booking:.3f}",
        f"{result.hit_rate:.4f}",
        *rates,
    )


def write_findings(out: Path, found: TreeFindings) -> list[Claim]:
    """All tables, pictures and claims into the folder ``out``."""
    write_table(out / "tree.csv", COLUMNS, [row_of(found.main)])
    for name, results in (
        ("staleness", found.stale),
        ("growth", found.grown),
        ("depth", found.deep),
    ):
        if results:
            write_table(out / f"tree-{name}.csv", COLUMNS, [row_of(each) for each in results])
            _draw(out, name, results)
    claims = _claims(found)
    write_claims(out / "claims.json", claims)
    return claims


def _draw(out: Path, name: str, results: Sequence[TreeResult]) -> None:
    labels = {
        "staleness": [f"updates every {each.stale_s:g} s" for each in results],
        "growth": [f"{each.nodes} nodes" for each in results],
        "depth": [f"{each.levels} levels" for each in results],
    }[name]
    rates = {
        f"start up to {horizon_s} s ahead": [
            each.by_horizon[horizon_s].hits / each.by_horizon[horizon_s].bookings
            if each.by_horizon[horizon_s].bookings
            else None
            for each in results
        ]
        for horizon_s in HORIZONS_S
    }
    panels = [
        Panel(
            title="messages a booking",
            labels=labels,
            series={
                "all": [each.messages_a_booking for each in results],
                "inquiries": [each.verbs["inquire"] / max(1, each.booked) for each in results],
            },
        ),
        Panel(title="share of bookings planned from shadows alone", labels=labels, series=rates),
    ]
    draw_bars(out, f"tree-{name}", panels, "")


def _claims(found: TreeFindings) -> list[Claim]:
    main = found.main
    claims = [
        Claim(
            id="tree-no-promise-broken",
            claim="no promise is broken while messages are lost and doubled and agents and"
            " managers die: every committed booking is at its sites when it starts",
            paper="multiple requests to different sub-managers either commit or abort atomically",
            ours={
                "booked": main.booked,
                "refused": main.refused,
                "without_outcome": main.unknown,
                "restarts": main.restarts,
                "broken": len(found.breaches),
            },
            holds=not found.breaches,
        )
    ]
    if found.grown:
        few, many = found.grown[0], found.grown[-1]
        claims.append(
            Claim(
                id="tree-messages-do-not-grow-with-nodes",
                claim="messages a booking in the largest tree are at most those in the smallest,"
                " and one more",
                paper="smaller tasks do not have to go up very far; the number of levels can be"
                " arbitrary (section 2.4)",
                ours={str(each.nodes): round(each.messages_a_booking, 3) for each in found.grown},
                holds=many.messages_a_booking <= few.messages_a_booking + 1,
            )
        )
    if found.deep:
        least = found.deep[0]
        claims.append(
            Claim(
                id="tree-messages-grow-with-depth",
                claim="each level more costs at most a hold and a commit for each of two parts",
                paper="a request is forwarded up until a manager responsible for a sufficient"
                " number of nodes is located (section 2.3)",
                ours={str(each.levels): round(each.messages_a_booking, 3) for each in found.deep},
                holds=all(
                    each.messages_a_booking
                    <= least.messages_a_booking + 4 * (each.levels - least.levels)
                    for each in found.deep
                ),
            )
        )
    if found.stale:
        fresh, old = found.stale[0], found.stale[-1]
        claims.append(
            Claim(
                id="tree-stale-shadows-cost-messages",
                claim="older shadows are right less often and cost more messages, and no promise",
                paper="a manager's copy of a calendar may not reflect the master one, and a"
                " request might fail; calendars are hints (section 2.4)",
                ours={
                    f"{each.stale_s:g}": {
                        "hit_rate": round(each.hit_rate, 4),
                        "messages_a_booking": round(each.messages_a_booking, 3),
                        "broken": len(each.breaches),
                    }
                    for each in found.stale
                },
                holds=old.hit_rate <= fresh.hit_rate
                and old.messages_a_booking >= fresh.messages_a_booking
                and not any(each.breaches for each in found.stale),
            )
        )
    return claims

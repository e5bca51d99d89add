"""What ``gur sites --trade`` shows."""

from __future__ import annotations

from io import StringIO

from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.gridcore.ports import SiteDescription
from gridtravel.gridio.terminal.console import TerminalConsole
from gridtravel.travel_agent.output.rendering import site_json, trade_table
from gridtravel.travel_agent.running.reports import SiteReport
from gridtravel.travel_agent.sites.config import MachineEntry

NORTH = SiteDescription(
    site="north",
    is_manager=True,
    classes=(),
    time_zone="UTC",
    time_precise=0.0,
    lead_s=10,
    hold_ttl_max_s=60,
    horizon_s=1000,
    millicredits_per_node_hour=0,
    software="test",
    login="ada",
    trade=(
        TradeAccount(member="north", borrowed_node_s=900),
        TradeAccount(member="east", lent_node_s=900, local_node_s=30),
    ),
)


def report(description: SiteDescription | None) -> SiteReport:
    """Of one machine."""
    machine = MachineEntry(machine="up-north", site="north", endpoint="north:7100")
    return SiteReport(machine=machine, description=description, skew=None)


def test_the_balance_of_each_member() -> None:
    """One line for each neighbour of a manager, the balance with its sign; a machine that is not
    in reach has none.
    """
    paper = StringIO()
    TerminalConsole(width=100, file=paper).print(trade_table([report(NORTH), report(None)]))
    lines = [line.split() for line in paper.getvalue().splitlines()]
    assert ["up-north", "north", "0", "900", "0", "-900"] in lines
    assert ["up-north", "east", "900", "0", "30", "+900"] in lines
    assert len(lines) == 3


def test_the_balance_for_scripts() -> None:
    """The same in JSON, only for managers."""
    told = site_json(report(NORTH))["trade"]
    assert [each["balance_node_s"] for each in told] == [-900, 900]
    assert "trade" not in site_json(report(None))

"""What is told of a market: tables for people, one object for scripts, CSV files and a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gridtravel.simulator.market.run import is_in_time
from gridtravel.simulator.market.sites import HARBOUR, MILLI, SITES
from gridtravel.simulator.studies.charts import draw_shares
from gridtravel.simulator.studies.tables import write_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from gridtravel.gridcore.booking.reservations import PassingTerms
    from gridtravel.simulator.market.buyer import Ask, Purchase
    from gridtravel.simulator.market.run import Market

PICTURE: Final = "shares"


def as_object(market: Market) -> dict[str, Any]:
    """Everything, sums in millicredits and times in seconds since the market opened."""
    return {
        "jobs": [_job_object(market, each) for each in market.purchases],
        "accounts": market.accounts,
        "granted": market.granted,
        "budgets": dict(market.budgets),
        "spent": {user: market.spent_by(user) for user in market.budgets},
        "faults": market.faults,
    }


def _job_object(market: Market, purchase: Purchase) -> dict[str, Any]:
    taken, view, order = purchase.taken, purchase.view, purchase.order
    since = market.seconds
    return {
        "job": order.name,
        "user": order.user,
        "site": None if taken is None else taken.site,
        "id": None if taken is None else taken.job_id,
        "price": None if taken is None else taken.price_millicredits,
        "budget": purchase.asks[-1].budget_millicredits,
        "paid": None if taken is None else purchase.paid_millicredits,
        "deadline_s": since(purchase.asks[-1].deadline),
        "ended_s": None if view is None or view.ended_at is None else since(view.ended_at),
        "state": None if view is None else view.state.value,
        "in_time": None if taken is None else is_in_time(purchase),
        "asks": [_ask_object(market, each) for each in purchase.asks],
    }


def _ask_object(market: Market, ask: Ask) -> dict[str, Any]:
    return {
        "site": ask.site,
        "deadline_s": market.seconds(ask.deadline),
        "budget": ask.budget_millicredits,
        "is_offer": ask.is_offer,
        "is_taken": ask.is_taken,
        "price": ask.price_millicredits,
        "rule": ask.rule or None,
        "refusal": ask.refusal or None,
        "would_pass": [
            {"deadline_s": market.seconds(each.deadline), "budget": each.budget_millicredits}
            for each in ask.passing
        ],
    }


# -- for people ------------------------------------------------------------------------------------


def tables(market: Market) -> list[Table]:
    """Who was asked and what was answered; what became of the jobs; the accounts."""
    return [_table_of_asks(market), _table_of_jobs(market), _table_of_accounts(market)]


def _table_of_asks(market: Market) -> Table:
    from rich.table import Table

    table = Table(
        "job", "user", "site", "by", "budget", "answer", "would pass", title="asked and answered"
    )
    for purchase in market.purchases:
        for ask in purchase.asks:
            table.add_row(
                purchase.order.name,
                purchase.order.user,
                ask.site,
                f"{market.seconds(ask.deadline):.0f}",
                credits_text(ask.budget_millicredits),
                _answer(ask),
                ", or ".join(_terms(market, each) for each in ask.passing),
            )
    return table


def _answer(ask: Ask) -> str:
    if ask.is_taken:
        told = f"admitted for {credits_text(ask.price_millicredits)}"
        return f"{told}, as offered" if ask.is_offer else told
    return f"refused: {ask.rule}" if ask.rule else f"taken back: {ask.refusal}"


def _terms(market: Market, terms: PassingTerms) -> str:
    by = f"by {market.seconds(terms.deadline):.0f}"
    if terms.budget_millicredits is None:
        return by
    return f"{by} for {credits_text(terms.budget_millicredits)}"


def _table_of_jobs(market: Market) -> Table:
    from rich.table import Table

    table = Table(
        "job", "user", "site", "price", "paid", "deadline", "ended", "in time", title="jobs"
    )
    for purchase in market.purchases:
        taken, view, order = purchase.taken, purchase.view, purchase.order
        if taken is None or view is None:
            table.add_row(order.name, order.user, "refused by all", *[""] * 5)
            continue
        table.add_row(
            order.name,
            order.user,
            taken.site,
            credits_text(taken.price_millicredits),
            credits_text(purchase.paid_millicredits),
            f"{market.seconds(taken.deadline):.0f}",
            "" if view.ended_at is None else f"{market.seconds(view.ended_at):.0f}",
            "yes" if is_in_time(purchase) else f"no: {view.state.value}",
        )
    return table


def _table_of_accounts(market: Market) -> Table:
    from rich.table import Table

    names = [site.name for site in SITES]
    table = Table("account", *names, "spent", "budget", title="credits left at each site")
    for user, budget in market.budgets.items():
        left = [credits_text(market.accounts[name][user]) for name in names]
        spent = credits_text(market.spent_by(user))
        table.add_row(user, *left, spent, credits_text(budget))
    for own in (":held", ":earned", ":granted"):
        table.add_row(own, *(credits_text(market.accounts[name][own]) for name in names), "", "")
    return table


def credits_text(millicredits: int) -> str:
    """As people read it."""
    return f"{millicredits / MILLI:.2f}"


# -- files -----------------------------------------------------------------------------------------


def write_files(market: Market, out: Path) -> None:
    """``jobs.csv``, ``asks.csv``, ``accounts.csv``, ``shares.csv`` and the picture of shares."""
    jobs = [_job_object(market, each) for each in market.purchases]
    columns = [key for key in jobs[0] if key != "asks"]
    write_table(out / "jobs.csv", columns, ([job[key] for key in columns] for job in jobs))
    asks = [(job["job"], ask) for job in jobs for ask in job["asks"]]
    columns = [key for key in asks[0][1] if key != "would_pass"]
    write_table(
        out / "asks.csv",
        ["job", *columns, "would_pass"],
        (
            [
                name,
                *(ask[key] for key in columns),
                " or ".join(f"{each['deadline_s']} {each['budget']}" for each in ask["would_pass"]),
            ]
            for name, ask in asks
        ),
    )
    write_table(
        out / "accounts.csv",
        ["site", "account", "millicredits"],
        (
            [site, account, balance]
            for site, kept in market.accounts.items()
            for account, balance in sorted(kept.items())
        ),
    )
    _write_shares(market, out)


def _write_shares(market: Market, out: Path) -> None:
    shared = [
        (each.taken.job_id, each)
        for each in market.purchases
        if each.taken is not None and each.taken.site == HARBOUR.name
    ]
    names = {job_id: each.order.name for job_id, each in shared}
    write_table(
        out / "shares.csv",
        ["seconds", "job", "cpu_s", "share"],
        (
            [
                f"{market.seconds(each.at):.3f}",
                names[each.job_id],
                f"{each.cpu_s:.2f}",
                f"{each.share:.4f}",
            ]
            for each in market.samples
            if each.job_id in names
        ),
    )
    moments = market.sampled_at
    by_job = {job_id: dict.fromkeys(moments, 0.0) for job_id in names}
    for each in market.samples:
        if each.job_id in by_job:
            by_job[each.job_id][each.at] = each.share
    draw_shares(
        out,
        PICTURE,
        [market.seconds(each) for each in moments],
        {names[job_id]: list(shares.values()) for job_id, shares in by_job.items()},
        {each.order.name: market.seconds(each.taken.deadline) for _, each in shared if each.taken},
        f"{HARBOUR.name}: {HARBOUR.nodes} processor, policy {HARBOUR.policy}; dashed: deadlines",
    )

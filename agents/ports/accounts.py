"""Accounts over the wire (docs/accounting.md): what one has and where it went, for whoever may
charge it; credits given and given back, by administrators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from gridtravel.agents.ports.access import account_of
from gridtravel.agents.ports.arguments import number, number_or, only, text_or_none, word
from gridtravel.gridcore.booking.reservations import check_id
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import ConflictError, InputError

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore
    from gridtravel.gridio.ledger.ledger import Ledger

LINES_MAX: Final = 10_000
LINES_USUAL: Final = 20


def account(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """What an account has, what is held of it, and its last entries."""
    only(arguments, "account", "lines")
    ledger = _ledger(core)
    wanted = arguments.get("account", "")
    name = (
        wanted if caller.role is Role.ADMIN and wanted else account_of(caller, wanted, is_paid=True)
    )
    lines = number_or(arguments, "lines", LINES_USUAL, LINES_MAX)
    return {
        "account": name,
        "available": ledger.available(name),
        "held": ledger.held(name),
        "lines": [asdict(each) for each in ledger.statement(name, lines_max=lines)],
    }


def accounts(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """What every account has; of whoever is no administrator, those that he may charge."""
    only(arguments)
    kept = _ledger(core).accounts()
    if caller.role is Role.ADMIN:
        return {"accounts": kept}
    own = (*caller.accounts, caller.owner)
    return {"accounts": {name: kept[name] for name in own if name in kept}}


async def grant(core: AgentCore, arguments: Mapping[str, str]) -> object:
    """Give an account credits, or take some back: ``millicredits`` with a minus."""
    only(arguments, "account", "millicredits", "note", "request")
    ledger, name = _ledger(core), word(arguments, "account")
    request_id = word(arguments, "request")
    check_id("account", name)
    check_id("request id", request_id)
    text = word(arguments, "millicredits")
    amount = number({"millicredits": text.removeprefix("-")}, "millicredits")
    short = ledger.grant(
        name,
        -amount if text.startswith("-") else amount,
        request_id=request_id,
        note=text_or_none(arguments, "note") or "",
        at=core.clock.now(),
    )
    if short is not None:
        raise ConflictError(
            f"account {name} has {short.available} millicredits available, not {short.wanted}",
            hint=f"see: catalina account {name}",
        )
    return {"account": name, "available": ledger.available(name)}


async def refund(core: AgentCore, arguments: Mapping[str, str]) -> object:
    """Give back what was paid for something, or a part of it."""
    only(arguments, "reference", "millicredits", "note", "request")
    ledger, reference = _ledger(core), word(arguments, "reference")
    request_id = word(arguments, "request")
    check_id("request id", request_id)
    amount = number(arguments, "millicredits")
    note = text_or_none(arguments, "note") or ""
    ledger.refund(reference, amount, request_id=request_id, note=note, at=core.clock.now())
    hold = ledger.hold_of(reference)
    assert hold is not None, "it was refunded"
    return {"reference": reference, "account": hold.account, "charged": hold.charged}


def _ledger(core: AgentCore) -> Ledger:
    ledger = core.parts.ledger
    if ledger is None:
        raise InputError(
            f"{core.calendar.site} keeps no accounts: nobody pays there",
            hint="a site does with [ledger] enabled = true",
        )
    return ledger

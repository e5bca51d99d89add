"""Domain values to protobuf messages and back: what only the calendar service says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.gridcore.ports import ClassDescription, SiteDescription
from gridtravel.gridio.rpc.codec.checks import refuse
from gridtravel.gridio.rpc.codec.reservations import (
    ANY_NODES,
    AVAILABILITY,
    CARD,
    DECLINE,
    DELTA,
    SUMMARY,
)
from gridtravel.gridio.rpc.codec.table import OneOf, Table, many
from gridwire.v1 import calendar_pb2 as pb

REQUESTS_MAX: Final = 256
"""Windows in one inquiry: each may cost the owner a search of its whole calendar."""

DESCRIPTION: Final = Table(
    SiteDescription,
    pb.SiteDescription,
    classes=many(Table(ClassDescription, pb.ClassDescription, "classes.", nodes=ANY_NODES)),
    trade=many(Table(TradeAccount, pb.TradeAccount, "trade.")),
    card=CARD,
)

NEWS: Final = OneOf(pb.CalendarNews, "news", summary=SUMMARY, delta=DELTA)

ANSWER: Final = OneOf(
    pb.InquireAnswer, "answer", "answers.", availability=AVAILABILITY, decline=DECLINE
)
"""Of one window."""


def check_number(answers: Sequence[object], expected: int) -> None:
    """Refuse any other number of answers: then nobody knows which is whose."""
    if len(answers) != expected:
        refuse("answers", f"has {len(answers)} entries for {expected} requests")

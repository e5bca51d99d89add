"""Domain values to protobuf messages and back: what only the calendar service says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from gridcore.ports import ClassDescription, SiteDescription
from gridcore.reservations import NODES_LIMIT, Availability, Decline, Offer, ReservationRequest
from gridcore.summaries import CalendarSummary, SummaryDelta
from gridcore.trade import TradeAccount
from gridio.rpc.codec import (
    decode_classes,
    decode_decline,
    decode_request,
    decode_summary,
    decode_version,
    encode_class_summary,
    encode_decline,
    encode_request,
    encode_summary,
    encode_version,
)
from gridio.rpc.codec_checks import count, instant, items, label, labels, moment, refuse
from gridwire.v1 import calendar_pb2 as pb
from gridwire.v1 import common_pb2

REQUESTS_MAX: Final = 256
"""Windows in one inquiry: each may cost the owner a search of its whole calendar."""

OFFERS_MAX: Final = 65_536
"""Offers in one answer; the owner's own bound is far lower."""


def encode_description(description: SiteDescription) -> pb.SiteDescription:
    """What a site tells of itself."""
    return pb.SiteDescription(
        site=description.site,
        is_manager=description.is_manager,
        classes=[
            pb.ClassDescription(name=each.name, nodes=each.nodes, features=each.features)
            for each in description.classes
        ],
        time_zone=description.time_zone,
        time_precise=description.time_precise,
        lead_s=description.lead_s,
        hold_ttl_max_s=description.hold_ttl_max_s,
        horizon_s=description.horizon_s,
        millicredits_per_node_hour=description.millicredits_per_node_hour,
        software=description.software,
        login=description.login,
        children=description.children,
        trade=[
            pb.TradeAccount(
                member=each.member,
                lent_node_s=each.lent_node_s,
                borrowed_node_s=each.borrowed_node_s,
                local_node_s=each.local_node_s,
            )
            for each in description.trade
        ],
    )


def decode_description(message: pb.SiteDescription) -> SiteDescription:
    """The reverse of ``encode_description``."""
    return SiteDescription(
        site=label("site", message.site),
        is_manager=message.is_manager,
        classes=tuple(
            ClassDescription(
                name=label("classes.name", each.name),
                nodes=count("classes.nodes", each.nodes, 0, NODES_LIMIT),
                features=labels("classes.features", each.features),
            )
            for each in items("classes", message.classes)
        ),
        time_zone=label("time_zone", message.time_zone),
        time_precise=moment("time_precise", message.time_precise),
        lead_s=count("lead_s", message.lead_s),
        hold_ttl_max_s=count("hold_ttl_max_s", message.hold_ttl_max_s),
        horizon_s=count("horizon_s", message.horizon_s),
        millicredits_per_node_hour=count(
            "millicredits_per_node_hour", message.millicredits_per_node_hour
        ),
        software=label("software", message.software),
        login=label("login", message.login),
        children=labels("children", message.children),
        trade=tuple(
            TradeAccount(
                member=label("trade.member", each.member),
                lent_node_s=count("trade.lent_node_s", each.lent_node_s),
                borrowed_node_s=count("trade.borrowed_node_s", each.borrowed_node_s),
                local_node_s=count("trade.local_node_s", each.local_node_s),
            )
            for each in items("trade", message.trade)
        ),
    )


def encode_inquiry(requests: Sequence[ReservationRequest]) -> pb.InquireRequest:
    """Several windows in one call."""
    return pb.InquireRequest(requests=[encode_request(each) for each in requests])


def decode_inquiry(message: pb.InquireRequest) -> list[ReservationRequest]:
    """The reverse of ``encode_inquiry``."""
    return [decode_request(each) for each in items("requests", message.requests, REQUESTS_MAX)]


def encode_availability(availability: Availability) -> common_pb2.Availability:
    """The positive answer to one window."""
    return common_pb2.Availability(
        offers=[
            common_pb2.Offer(
                start=offer.start,
                start_until=offer.start_until,
                nodes=offer.nodes,
                resource_class=offer.resource_class,
                unit_price_millicredits=offer.unit_price_millicredits,
            )
            for offer in availability.offers
        ],
        version=encode_version(availability.version),
        known_until=availability.known_until,
    )


def decode_availability(message: common_pb2.Availability) -> Availability:
    """The reverse of ``encode_availability``."""
    if not message.HasField("version"):
        refuse("availability.version", "is missing")
    offers = tuple(
        _decode_offer(each) for each in items("availability.offers", message.offers, OFFERS_MAX)
    )
    if any(later.start < earlier.start for earlier, later in pairwise(offers)):
        refuse("availability.offers", "is not in order of start")
    return Availability(
        offers=offers,
        version=decode_version(message.version),
        known_until=instant("availability.known_until", message.known_until),
    )


def _decode_offer(message: common_pb2.Offer) -> Offer:
    start = instant("offer.start", message.start)
    start_until = instant("offer.start_until", message.start_until)
    if start_until <= start:
        refuse("offer.start_until", "is not after its start")
    return Offer(
        start=start,
        start_until=start_until,
        nodes=count("offer.nodes", message.nodes, 1, NODES_LIMIT),
        resource_class=label("offer.resource_class", message.resource_class),
        unit_price_millicredits=count(
            "offer.unit_price_millicredits", message.unit_price_millicredits
        ),
    )


def encode_answers(answers: Sequence[Availability | Decline]) -> pb.InquireReply:
    """One answer a window, in order."""
    return pb.InquireReply(
        answers=[
            pb.InquireAnswer(availability=encode_availability(each))
            if isinstance(each, Availability)
            else pb.InquireAnswer(decline=encode_decline(each))
            for each in answers
        ]
    )


def decode_answers(message: pb.InquireReply, expected: int) -> list[Availability | Decline]:
    """The reverse of ``encode_answers``; unless there are exactly ``expected``, nobody knows which
    answer is whose.
    """
    if len(message.answers) != expected:
        refuse("answers", f"has {len(message.answers)} entries for {expected} requests")
    answers: list[Availability | Decline] = []
    for each in message.answers:
        which = each.WhichOneof("answer")
        if which == "availability":
            answers.append(decode_availability(each.availability))
        elif which == "decline":
            answers.append(decode_decline(each.decline))
        else:
            refuse("answers.answer", "is missing")
    return answers


def encode_news(news: CalendarSummary | SummaryDelta) -> pb.CalendarNews:
    """A full summary or a delta."""
    if isinstance(news, CalendarSummary):
        return pb.CalendarNews(summary=encode_summary(news))
    return pb.CalendarNews(
        delta=common_pb2.SummaryDelta(
            site=news.site,
            since=encode_version(news.since),
            version=encode_version(news.version),
            as_of=news.as_of,
            classes=[encode_class_summary(each) for each in news.classes],
        )
    )


def decode_news(message: pb.CalendarNews) -> CalendarSummary | SummaryDelta:
    """The reverse of ``encode_news``."""
    which = message.WhichOneof("news")
    if which == "summary":
        return decode_summary(message.summary)
    if which != "delta":
        refuse("news", "is missing")
    delta = message.delta
    if not delta.HasField("since") or not delta.HasField("version"):
        refuse("delta.version", "is missing")
    return SummaryDelta(
        site=label("delta.site", delta.site),
        since=decode_version(delta.since),
        version=decode_version(delta.version),
        as_of=instant("delta.as_of", delta.as_of),
        classes=decode_classes(delta.classes),
    )

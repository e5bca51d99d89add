"""The search behind an inquiry: which starts are possible, with how many nodes, at what price; or
why none is.

Pure functions. Nodes, bounds and prices are those of the owner's book; the free room to search is
given beside it, since a limit or a change of a reservation makes it differ from the book's. A
refusal says what would work instead: the earliest start at which the request would fit, and the
largest size that fits its window.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Offer,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.timing.instants import Instant, Interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gridtravel.gridcore.booking.calendar_book import CalendarBook
    from gridtravel.gridcore.booking.calendar_rules import ResourceClass
    from gridtravel.gridcore.booking.quotes import Quote
    from gridtravel.gridcore.capacity.profile import AvailabilityProfile


def find(
    book: CalendarBook,
    request: ReservationRequest,
    now: Instant,
    availability: Mapping[str, AvailabilityProfile],
    *,
    lead_s: int,
    quote: Quote | None = None,
) -> Availability | Decline:
    """All starts for ``request`` in ``availability``, or a ``Decline``.

    ``lead_s``: nothing may start sooner than ``now + lead_s``. ``quote``: holds for the request,
    which then has what was quoted, at that price, or nothing. ``Decline.earliest`` is without it.
    """
    asked = request
    classes = _fitting_classes(book, request, quote)
    if quote is not None:
        request = quote.narrowed(request)
    soonest = max(request.earliest_start, now + lead_s)
    horizon = now + book.rules.horizon_s
    latest_end = min(request.latest_end, horizon)
    offers = _offers(
        book, classes, request, soonest, latest_end, availability, request.nodes_min, quote
    )
    affordable = _within_budget(offers, request)
    if affordable:
        return _bounded(book, affordable, latest_end - request.duration_s + 1)
    rule, message = _shortage(book, classes, request, now, lead_s, offers)
    smaller = _offers(book, classes, request, soonest, latest_end, availability, 1, quote)
    return Decline(
        rule=rule,
        message=f"{book.site}: {message}",
        earliest=_earliest(book, asked, now + lead_s, horizon, availability),
        nodes_now=max((_nodes_paid(offer, request) for offer in smaller), default=0),
        site=book.site,
    )


def find_running(
    book: CalendarBook,
    request: ReservationRequest,
    now: Instant,
    availability: Mapping[str, AvailabilityProfile],
    running: Reservation,
    *,
    quote: Quote | None = None,
) -> Availability | Decline:
    """How a reservation that is running could be changed: its start and its class stay, and only
    the room from ``now`` on counts. One offer, or a ``Decline``; a ``Decline`` also
    where ``availability`` begins after ``now``, because the clock stepped back.
    """
    start, end = running.start, running.start + request.duration_s

    def refuse(rule: DeclineRule, message: str, nodes_now: int = 0) -> Decline:
        told = f"{book.site}: {running.reservation_id} is running: {message}"
        return Decline(rule=rule, message=told, nodes_now=nodes_now, site=book.site)

    if start < request.earliest_start or request.latest_end < end:
        return refuse(DeclineRule.STATE, "its start cannot move, only its end")
    if end <= now:
        return refuse(DeclineRule.WINDOW_PAST, f"it would have ended {now - end} s ago")
    name = running.resource_class
    if now < availability[name].origin:
        wait_s = availability[name].origin - now
        return refuse(
            DeclineRule.STATE, f"the clock stepped back behind what is known; ask in {wait_s} s"
        )
    classes = [each for each in _fitting_classes(book, request, quote) if each.name == name]
    is_possible = bool(classes) and end <= now + book.rules.horizon_s
    offer = Offer(
        start=start,
        start_until=start + 1,
        nodes=max(0, availability[name].min_free(now, end)) if is_possible else 0,
        resource_class=name,
        unit_price_millicredits=_unit_price(book, quote, name, start, request.duration_s),
    )
    nodes = _nodes_paid(offer, request)
    if nodes < request.nodes_min:
        unpaid = [offer] if offer.nodes >= request.nodes_min else []
        rule, message = _shortage(book, classes, request, now, start - now, unpaid)
        return refuse(rule, message, nodes)
    paid = (replace(offer, nodes=nodes),)
    return Availability(offers=paid, version=book.version, known_until=start + 1)


def find_within(
    book: CalendarBook,
    request: ReservationRequest,
    now: Instant,
    old: Reservation,
    *,
    lead_s: int,
    quote: Quote | None = None,
) -> Availability | None:
    """``old`` at its start and with what ``request`` leaves it; ``None`` where that would need
    anything ``old`` does not have. One offer.

    Whoever only gives back needs no room: that holds also where nodes have failed since, where a
    slot has less than its threshold left, or where the site's limits became narrower.
    """
    if quote is not None:
        request = quote.narrowed(request)
    new = Interval(old.start, old.start + request.duration_s)
    nodes = min(old.nodes, request.nodes_max)
    is_running = old.start <= now
    is_in_window = request.earliest_start <= new.start and new.end <= request.latest_end
    is_in_time = new.end > now if is_running else new.start >= now + lead_s
    known_since = book.free[old.resource_class].origin
    if not (is_in_window and is_in_time and new.end <= old.end and known_since <= now):
        return None
    if all(each.name != old.resource_class for each in _fitting_classes(book, request, quote)):
        return None
    price = _unit_price(book, quote, old.resource_class, new.start, request.duration_s)
    offer = Offer(
        start=new.start,
        start_until=new.start + 1,
        nodes=nodes,
        resource_class=old.resource_class,
        unit_price_millicredits=price,
    )
    paid = _nodes_paid(offer, request)
    if paid < request.nodes_min or not book.has_room_of(
        replace(old, interval=new, nodes=paid), now
    ):
        return None
    offers = (replace(offer, nodes=paid),)
    return Availability(offers=offers, version=book.version, known_until=new.start + 1)


def _fitting_classes(
    book: CalendarBook, request: ReservationRequest, quote: Quote | None
) -> list[ResourceClass]:
    wanted = set(request.features)
    return [
        each
        for each in book.classes.values()
        if wanted <= set(each.features) and (quote is None or quote.resource_class == each.name)
    ]


def _unit_price(
    book: CalendarBook, quote: Quote | None, name: str, start: Instant, duration_s: int
) -> int:
    """What a node costs: what was quoted, else by the tariff."""
    if quote is not None:
        return quote.unit_price_millicredits
    return book.tariff.unit_price_millicredits(name, start, duration_s)


def _priced(
    book: CalendarBook, quote: Quote | None, name: str, run: tuple[Instant, Instant], length_s: int
) -> Iterator[tuple[Instant, Instant, int]]:
    """A run of starts, cut where the price of ``length_s`` seconds changes: ``(first, until, unit
    price)``, the price being that of each start.
    """
    first, until = run
    price = _unit_price(book, quote, name, first, length_s)
    step_s = 0 if quote is not None else book.tariff.price_step_s
    if step_s:
        for edge in range(first - first % step_s + step_s, until, step_s):
            other = book.tariff.unit_price_millicredits(name, edge, length_s)
            if other != price:
                yield first, edge, price
                first, price = edge, other
    yield first, until, price


def _shortage(
    book: CalendarBook,
    classes: list[ResourceClass],
    request: ReservationRequest,
    now: Instant,
    lead_s: int,
    offers: list[Offer],
) -> tuple[DeclineRule, str]:
    """Why nothing could be offered; ``offers`` are those that only the budget forbids. Reasons that
    hold at any time come first.
    """
    duration_s, nodes = request.duration_s, request.nodes_min
    if not classes and request.features:
        known = sorted({feature for each in book.classes.values() for feature in each.features})
        return DeclineRule.FEATURES, (
            f"no nodes with all of {', '.join(request.features)};"
            f" known features: {', '.join(known) or 'none'}"
        )
    largest = max((each.nodes for each in classes), default=0)
    if nodes > largest:
        return DeclineRule.TOO_LARGE, f"{nodes} nodes were asked for, {largest} is all there is"
    if request.latest_end <= now:
        return DeclineRule.WINDOW_PAST, f"the window ended {now - request.latest_end} s ago"
    soonest = max(request.earliest_start, now + lead_s)
    if soonest + duration_s > now + book.rules.horizon_s:
        return DeclineRule.BEYOND_HORIZON, (
            f"reservations must end within {book.rules.horizon_s} s from now"
        )
    if soonest + duration_s > request.latest_end:
        return DeclineRule.START_TOO_SOON, (
            f"the start must be at least {lead_s} s ahead:"
            f" no {duration_s} s are left within the window asked for"
        )
    if offers:
        cheapest = min(offer.unit_price_millicredits for offer in offers) * nodes
        return DeclineRule.BUDGET, (
            f"the least price is {cheapest} millicredits for {nodes} nodes,"
            f" the budget is {request.budget_millicredits}"
        )
    return DeclineRule.NO_ROOM, f"no room for {nodes} nodes for {duration_s} s within the window"


def _offers(
    book: CalendarBook,
    classes: list[ResourceClass],
    request: ReservationRequest,
    soonest: Instant,
    latest_end: Instant,
    availability: Mapping[str, AvailabilityProfile],
    nodes_min: int,
    quote: Quote | None,
) -> list[Offer]:
    """Every run of possible starts at one price in every fitting class, in order of start, then
    price, then class.
    """
    offers = [
        Offer(
            start=first,
            start_until=until,
            nodes=nodes,
            resource_class=each.name,
            unit_price_millicredits=price,
        )
        for each in classes
        for *run, nodes in availability[each.name].starts(
            request.duration_s, soonest, latest_end, nodes_min, request.nodes_max
        )
        for first, until, price in _priced(
            book, quote, each.name, (run[0], run[1]), request.duration_s
        )
    ]
    offers.sort(
        key=lambda offer: (
            offer.start,
            offer.unit_price_millicredits,
            -offer.nodes,
            offer.resource_class,
        )
    )
    return offers


def _nodes_paid(offer: Offer, request: ReservationRequest) -> int:
    """How many of the nodes offered the budget pays for."""
    budget, unit = request.budget_millicredits, offer.unit_price_millicredits
    return offer.nodes if budget is None or unit == 0 else min(offer.nodes, budget // unit)


def _within_budget(offers: list[Offer], request: ReservationRequest) -> list[Offer]:
    """The offers that the budget pays for, each cut to the number of nodes it pays for."""
    if request.budget_millicredits is None:
        return offers
    paid = [(offer, _nodes_paid(offer, request)) for offer in offers]
    return [replace(offer, nodes=nodes) for offer, nodes in paid if nodes >= request.nodes_min]


def _bounded(book: CalendarBook, offers: list[Offer], known_until: Instant) -> Availability:
    """Cut a long answer short, and say up to where it is complete.

    At least everything that starts first is told, whatever the bound, so that asking again from
    there on makes progress.
    """
    bound = book.rules.offers_max
    if len(offers) > bound:
        cut = offers[bound].start
        if cut == offers[0].start:
            cut = next((offer.start for offer in offers if offer.start > cut), known_until)
        known_until = cut
        offers = [offer for offer in offers if offer.start < cut]
    return Availability(offers=tuple(offers), version=book.version, known_until=known_until)


def _earliest(
    book: CalendarBook,
    request: ReservationRequest,
    soonest: Instant,
    horizon: Instant,
    availability: Mapping[str, AvailabilityProfile],
) -> Instant | None:
    """Earliest start for ``nodes_min`` nodes that the budget pays for, never before the one asked
    for, whatever the window's end.
    """
    found = []
    budget, nodes, length_s = request.budget_millicredits, request.nodes_min, request.duration_s
    soonest = max(soonest, request.earliest_start)
    for each in _fitting_classes(book, request, None):
        room = availability[each.name]
        start = room.earliest_fit(nodes, length_s, soonest, horizon)
        if start is not None and budget is not None:
            runs = room.starts(length_s, start, horizon, nodes, nodes)
            start = next(
                (
                    first
                    for *run, _ in runs
                    for first, _, unit in _priced(book, None, each.name, (run[0], run[1]), length_s)
                    if unit * nodes <= budget
                ),
                None,
            )
        if start is not None:
            found.append(start)
    return min(found, default=None)

"""What is asked of a calendar, what it answers, and the states a reservation passes through.

Values only: nothing here changes. Everything that affects the life of a reservation is the table
``TRANSITIONS``; an event that the table does not name for a state changes nothing.

The verbs follow the calendar paper, section 2.4 (inquiry and reserve as a variation on two-phase
commit), with holds that have a lifetime (which the paper does not have). A refusal is a
``Decline``, which says what would work instead.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.errors import ConflictError, InputError
from gridtravel.gridcore.identifiers import ID_LENGTH_MAX as ID_LENGTH_MAX
from gridtravel.gridcore.identifiers import check_id as check_id
from gridtravel.gridcore.timing.instants import Instant, Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridtravel.gridcore.booking.summaries import CalendarSummary, CalendarVersion

CARD_LENGTH_MAX: Final = 8_192
"""Characters of a site's card; one with a certificate of three host names has some 1,300."""
QUOTE_LENGTH_MAX: Final = 4_096
"""Characters of a site's quote; one has some 500."""
HOPS_MAX: Final = 16
"""Most managers a request may come through."""
NODES_LIMIT: Final = 10_000_000
DURATION_LIMIT_S: Final = 10 * 366 * 86_400
BUDGET_LIMIT_MILLICREDITS: Final = 10**15
"""A trillion credits; every budget below it is exact as a JSON number too."""


class ReservationState(enum.StrEnum):
    """Where a reservation stands in its owner's book."""

    HELD = "HELD"
    """Phase one: room is kept until ``hold_expires_at``."""
    COMMITTED = "COMMITTED"
    """Phase two: promised; survives crash and power loss. Running between its start and its end."""
    RELEASED = "RELEASED"
    """Undone by its holder, before or during its time."""
    EXPIRED = "EXPIRED"
    """A hold whose lifetime ended without a commit."""
    SUPERSEDED = "SUPERSEDED"
    """Replaced by one that was committed, or a hold that became the new form of a trip's leg."""
    COMPLETED = "COMPLETED"
    """Its time is over."""

    @property
    def is_live(self) -> bool:
        """True while the reservation occupies room."""
        return self in (ReservationState.HELD, ReservationState.COMMITTED)


class ReservationEvent(enum.StrEnum):
    """What can happen to a reservation."""

    COMMIT = "commit"
    RELEASE = "release"
    EXPIRE = "expire"
    SUPERSEDE = "supersede"
    MERGE = "merge"
    """A hold gives its time and size to the leg of a trip that it was to replace."""
    COMPLETE = "complete"
    WITHDRAW = "withdraw"
    """A hold of a trip whose outcome could not be learned in time: it ends, and is never committed
    later, whatever the outcome is.
    """


_S, _E = ReservationState, ReservationEvent

TRANSITIONS: Final[Mapping[ReservationState, Mapping[ReservationEvent, ReservationState]]] = (
    MappingProxyType(
        {
            _S.HELD: {
                _E.COMMIT: _S.COMMITTED,
                _E.RELEASE: _S.RELEASED,
                _E.EXPIRE: _S.EXPIRED,
                _E.WITHDRAW: _S.EXPIRED,
                _E.MERGE: _S.SUPERSEDED,
            },
            _S.COMMITTED: {
                _E.RELEASE: _S.RELEASED,
                _E.SUPERSEDE: _S.SUPERSEDED,
                _E.COMPLETE: _S.COMPLETED,
            },
            _S.RELEASED: {},
            _S.EXPIRED: {},
            _S.SUPERSEDED: {},
            _S.COMPLETED: {},
        }
    )
)


def next_state(state: ReservationState, event: ReservationEvent) -> ReservationState:
    """The state after ``event``; ``ConflictError`` when the table does not allow it."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise ConflictError(
            f"cannot {event} a reservation that is {state}",
            hint="ask how it stands now, and go on from there",
        ) from None


def check_quote_length(quote: str) -> None:
    """Refuse a quote that nobody would read; ``InputError``."""
    if len(quote) > QUOTE_LENGTH_MAX:
        raise InputError(f"a quote has {len(quote)} characters, {QUOTE_LENGTH_MAX} is the most")


def check_card_length(card: str) -> None:
    """Refuse a card that nobody would read; ``InputError``."""
    if len(card) > CARD_LENGTH_MAX:
        raise InputError(
            f"the card of a site has {len(card)} characters, {CARD_LENGTH_MAX} is the most"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptor:
    """A site that keeps the outcome of a trip, and where the other participants reach it.

    The same site at the same endpoint is the same acceptor, whichever of its cards came with it: a
    site that starts again has a new one, and a request that is said again brings that.
    """

    site: str
    endpoint: str
    """As the traveller knows it, for people. Nobody connects to it."""
    card: str = field(default="", compare=False, repr=False)
    """The site's own word where it is reached, under its signature (``gridio.trust.cards``). Empty
    only in what was journaled before there were cards: such a site is not asked.
    """

    def __post_init__(self) -> None:
        check_id("site", self.site)
        check_card_length(self.card)


class Begin(enum.StrEnum):
    """When a leg of a trip begins (docs/protocol.md, section 3)."""

    EACH = "each"
    """Each leg by itself: when its commit is known and it is not late."""
    TOGETHER = "together"
    """Every leg of a start or none: when all of them are ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripLeg:
    """A leg of a trip as all participants know it."""

    leg: str
    site: str
    start: Instant
    has_agent: bool = True
    """False: nobody is there who could say that the leg is ready, so the trip's owner does."""

    def __post_init__(self) -> None:
        check_id("leg name", self.leg)
        check_id("site", self.site)


@dataclass(frozen=True, slots=True, kw_only=True)
class TripRef:
    """The trip a reservation is a leg of. Every participant learns all participants with the first
    hold.
    """

    trip_id: str
    leg: str
    """Name of this leg, unique within the trip."""
    attempt: int = 1
    """Number of the attempt to make the trip whole; each has an outcome of its own. It gives the
    order of attempts.
    """
    nonce: str = ""
    """Chosen by chance with each attempt, and part of its name: a laptop whose log was restored
    from a backup counts anew. Empty in journals of earlier releases.
    """
    participants: tuple[str, ...] = ()
    """Names of all sites that hold a leg, in the order of the legs; the same at every participant.
    """
    acceptors: tuple[Acceptor, ...] = ()
    """Sites that keep the outcome of the attempt, 2F+1 of them; empty: the single participant
    decides alone, by its own book.
    """
    legs: tuple[TripLeg, ...] = ()
    """All legs, the same at every participant. Empty in journals of earlier releases."""
    ends_at: Instant = 0
    """When the last leg ends; acceptors remember the outcome until then."""
    begin: Begin = Begin.EACH

    def __post_init__(self) -> None:
        check_id("trip id", self.trip_id)
        check_id("leg name", self.leg)
        if self.attempt < 1:
            raise InputError(f"attempts are counted from 1: {self.attempt}")
        check_id("trip attempt", self.cancellation)
        if len({each.leg for each in self.legs}) < len(self.legs):
            raise InputError(f"trip {self.trip_id} names a leg twice")

    @property
    def instance(self) -> str:
        """Names the attempt wherever its outcome is asked for."""
        return attempt_name(self.trip_id, self.attempt, self.nonce)

    @property
    def cancellation(self) -> str:
        """Names the question whether the attempt, once committed, was cancelled as a whole."""
        return f"{self.instance}/cancel"

    def readiness(self, leg: str) -> str:
        """Names the question whether a leg of the attempt is ready to begin."""
        return f"{self.instance}/ready/{leg}"

    def is_leg_of(self, site: str) -> bool:
        """True when this leg is held by ``site`` itself, and not by a manager above it."""
        return any(each.leg == self.leg and each.site == site for each in self.legs)

    @property
    def starts_at(self) -> Instant:
        """When the first leg starts; 0 where the legs are not known."""
        return min((each.start for each in self.legs), default=0)


def attempt_name(trip_id: str, attempt: int, nonce: str) -> str:
    """The name under which an attempt's outcome is kept."""
    return f"{trip_id}/{attempt}.{nonce}" if nonce else f"{trip_id}/{attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRequest:
    """A request for ``nodes_min`` to ``nodes_max`` nodes for ``duration_s`` seconds in a window.

    The paper's six parameters (GUR and Catalina paper, section 3) and what the calendars need
    beside them. ``nodes_min == nodes_max`` asks for an exact number. An exact start is a window of
    exactly ``duration_s``.
    """

    request_id: str
    """Saying it twice equals saying it once."""
    account: str
    """Charge account."""
    nodes_min: int
    nodes_max: int
    duration_s: int
    earliest_start: Instant
    latest_end: Instant
    features: tuple[str, ...] = ()
    """Every node granted must have all of them. Sorted, without doubles."""
    budget_millicredits: int | None = None
    """Most that may be charged; ``None``: no limit."""
    start_is_fixed: bool = True
    """False: once granted, the owner may move it earlier (never later) when room appears, as
    imprecise calendars do (calendar paper, section 2.3).
    """
    notify_email: str = ""
    """Where the owner reports a failure; empty: nowhere."""
    trip: TripRef | None = None
    replaces: str | None = None
    """Reservation that ends when this one is committed, or a leg that takes this one's form then
    (``gridcore.booking.leg_change``); until then the room of both counts once (make before break).
    """
    beneficiary: str = ""
    """Subject for whom a manager asks; honoured only on the channel of a trusted manager."""
    via: tuple[str, ...] = ()
    """Managers that it has come through, in order, each once. It never goes up past one of them
    again, so a request that is passed on cannot go round.
    """
    quote: str = field(default="", compare=False, repr=False)
    """Of the offer that it takes (``Offer.quote``): then the price held is that of the offer, or
    the request is refused by the rule ``QUOTE``. Empty: the price is the tariff's at the time of
    the request. Nobody keeps it once the price is held: an entry of a book has none.
    """

    def __post_init__(self) -> None:
        check_id("request id", self.request_id)
        if not self.account or len(self.account) > ID_LENGTH_MAX:
            raise InputError(
                "the account is missing or too long", hint=f"1 to {ID_LENGTH_MAX} characters"
            )
        if not 1 <= self.nodes_min <= self.nodes_max <= NODES_LIMIT:
            raise InputError(
                f"nodes must satisfy 1 <= min <= max <= {NODES_LIMIT}:"
                f" min {self.nodes_min}, max {self.nodes_max}"
            )
        if not 1 <= self.duration_s <= DURATION_LIMIT_S:
            raise InputError(
                f"the duration must be 1 to {DURATION_LIMIT_S} seconds: {self.duration_s}"
            )
        if self.earliest_start < 0:
            raise InputError(f"the earliest start lies before 1970: {self.earliest_start}")
        window_s = self.latest_end - self.earliest_start
        if window_s < self.duration_s:
            raise InputError(
                f"the window of {window_s} s is shorter than the duration of {self.duration_s} s",
                hint="allow a later end or an earlier start, or ask for less time",
            )
        if self.budget_millicredits is not None and self.budget_millicredits < 0:
            raise InputError("the budget must not be negative")
        if list(self.features) != sorted(set(self.features)):
            object.__setattr__(self, "features", tuple(sorted(set(self.features))))
        if self.via:
            self._check_via()
        check_quote_length(self.quote)

    def _check_via(self) -> None:
        if len(self.via) > HOPS_MAX or len(set(self.via)) < len(self.via):
            raise InputError(
                f"the request went through {len(self.via)} managers, or through one twice",
                hint=f"at most {HOPS_MAX}, each once",
            )
        for name in self.via:
            check_id("manager's name", name)

    def through(self, manager: str) -> ReservationRequest:
        """The request as ``manager`` passes it on; ``InputError`` after ``HOPS_MAX`` managers."""
        return self if manager in self.via else replace(self, via=(*self.via, manager))

    def at(
        self, start: Instant, nodes: int, *, request_id: str | None = None
    ) -> ReservationRequest:
        """The same request for exactly ``nodes`` nodes from exactly ``start``."""
        return replace(
            self,
            nodes_min=nodes,
            nodes_max=nodes,
            earliest_start=start,
            latest_end=start + self.duration_s,
            request_id=request_id or self.request_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Room, as of one version of a calendar: up to ``nodes`` nodes for any start in ``[start,
    start_until)``, of those that were asked for.
    """

    start: Instant
    start_until: Instant
    nodes: int
    resource_class: str
    unit_price_millicredits: int
    """For one node over the whole duration asked for, the same for each start."""
    quote: str = field(default="", repr=False)
    """The site's signed word that it keeps to this price, for the request that brings it
    (``ReservationRequest.quote``); empty: it gives none.
    """
    quote_expires_at: Instant | None = None
    """First second, on the site's clock, at which the quote no longer holds; ``None``: there is
    none.
    """

    def price_millicredits(self, nodes: int) -> int:
        """Charge for ``nodes`` nodes over the whole duration."""
        return self.unit_price_millicredits * nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """The positive answer to an inquiry: offers in order of their start, never overlapping within a
    resource class.
    """

    offers: tuple[Offer, ...]
    version: CalendarVersion
    known_until: Instant
    """Starts before this instant that no offer names are not possible; beyond it the answer is
    silent: ask again.
    """


class DeclineRule(enum.StrEnum):
    """The rule or shortage behind a refusal."""

    NO_ROOM = "no-room"
    TOO_LARGE = "too-large"
    FEATURES = "features"
    START_TOO_SOON = "start-too-soon"
    BEYOND_HORIZON = "beyond-horizon"
    WINDOW_PAST = "window-past"
    BUDGET = "budget"
    QUOTE = "quote"
    """The quote that came with the request does not hold for it: ask again what it costs."""
    DEADLINE = "deadline"
    """It is past, or cannot be kept beside what is promised already."""
    ACCOUNT = "account"
    LIMIT_RESERVATIONS = "limit-reservations"
    LIMIT_NODES = "limit-nodes"
    LIMIT_DURATION = "limit-duration"
    LIMIT_NODE_SECONDS = "limit-node-seconds"
    LIMIT_JOBS = "limit-jobs"
    TRADE = "balance-of-trade"
    FINISHED = "finished"
    """The request id was used, and what it booked has ended: a late duplicate cannot revive it."""
    STATE = "state"
    """The reservation's state does not allow the verb."""
    TRIP = "trip"
    """What the request says of its trip contradicts what was said here before, or by others."""
    SUSPENDED = "suspended"
    POLICY = "policy"
    CHANGED = "changed"
    """What was offered is gone; ask again."""

    @property
    def may_pass(self) -> bool:
        """True when the same request may be granted a moment later: room comes and goes, a site
        begins again, and whoever asks again has a new quote. Every other rule refuses it again.
        """
        return self in (
            DeclineRule.NO_ROOM,
            DeclineRule.CHANGED,
            DeclineRule.QUOTE,
            DeclineRule.TRADE,
            DeclineRule.SUSPENDED,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassingTerms:
    """A deadline and a budget with which a refused job would be admitted at that moment."""

    deadline: Instant
    budget_millicredits: int | None = None
    """``None``: it said no budget, and needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decline:
    """A refusal. ``earliest`` and ``nodes_now`` are what would work instead, as far as the owner
    can tell.
    """

    rule: DeclineRule
    message: str
    """One line: which rule, which window, what would pass."""
    earliest: Instant | None = None
    """Earliest start, not before the one asked for, at which ``nodes_min`` nodes would be granted
    if the window were long enough; ``None``: never, or unknown. Nothing earlier is possible, so a
    search may jump there.
    """
    nodes_now: int = 0
    """Largest number of nodes that could be had within the window and the budget asked for."""
    site: str = ""
    """Who refuses."""
    summary: CalendarSummary | None = None
    """Fresh summary for a shadow that turned out stale."""
    passing: tuple[PassingTerms, ...] = ()
    """Of a job whose deadline or budget a policy refuses; the least change first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationPart:
    """A manager's reservation is made of its children's."""

    site: str
    reservation_id: str
    nodes: int
    endpoint: str = ""
    """Address of the site's services."""
    contact: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """An entry in its owner's book, as the owner sees it. Only the owner makes or changes one."""

    reservation_id: str
    site: str
    owner: str
    """Subject or login that may use and undo it, as the channel proved it."""
    request: ReservationRequest
    resource_class: str
    nodes: int
    interval: Interval
    state: ReservationState
    created_at: Instant
    price_millicredits: int = 0
    hold_expires_at: Instant | None = None
    """While HELD: when it expires, on the owner's clock. Always before ``interval.start``."""
    contact: str = ""
    """``host:port`` where the first node of a leg can be reached by the other legs; empty: the site
    has none.
    """
    parts: tuple[ReservationPart, ...] = field(default=())
    granted_by: str = ""
    """The manager further up that granted what ``site`` could not place; empty: ``site`` itself."""
    job_id: str = ""
    """The job that came with the hold and is bound by the commit; empty: none, or not committed.
    The book itself does not know it: whoever answers for the site adds it.
    """

    @property
    def start(self) -> Instant:
        """First second of the reservation."""
        return self.interval.start

    @property
    def end(self) -> Instant:
        """First second after the reservation."""
        return self.interval.end

    def after(self, event: ReservationEvent) -> Reservation:
        """The reservation as ``event`` leaves it; ``ConflictError`` when not allowed."""
        return replace(self, state=next_state(self.state, event))

    def phase(self, now: Instant) -> str:
        """State for people: a committed reservation within its time is ``ACTIVE``."""
        if self.state is ReservationState.COMMITTED and self.interval.contains(now):
            return "ACTIVE"
        return self.state.value

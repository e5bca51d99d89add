from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TripBegin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRIP_BEGIN_UNSPECIFIED: _ClassVar[TripBegin]
    TRIP_BEGIN_EACH: _ClassVar[TripBegin]
    TRIP_BEGIN_TOGETHER: _ClassVar[TripBegin]

class ReservationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESERVATION_STATE_UNSPECIFIED: _ClassVar[ReservationState]
    RESERVATION_STATE_HELD: _ClassVar[ReservationState]
    RESERVATION_STATE_COMMITTED: _ClassVar[ReservationState]
    RESERVATION_STATE_RELEASED: _ClassVar[ReservationState]
    RESERVATION_STATE_EXPIRED: _ClassVar[ReservationState]
    RESERVATION_STATE_SUPERSEDED: _ClassVar[ReservationState]
    RESERVATION_STATE_COMPLETED: _ClassVar[ReservationState]
TRIP_BEGIN_UNSPECIFIED: TripBegin
TRIP_BEGIN_EACH: TripBegin
TRIP_BEGIN_TOGETHER: TripBegin
RESERVATION_STATE_UNSPECIFIED: ReservationState
RESERVATION_STATE_HELD: ReservationState
RESERVATION_STATE_COMMITTED: ReservationState
RESERVATION_STATE_RELEASED: ReservationState
RESERVATION_STATE_EXPIRED: ReservationState
RESERVATION_STATE_SUPERSEDED: ReservationState
RESERVATION_STATE_COMPLETED: ReservationState

class Interval(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class TripRef(_message.Message):
    __slots__ = ("trip_id", "leg", "participants", "acceptors", "attempt", "ends_at", "nonce", "legs", "begin")
    TRIP_ID_FIELD_NUMBER: _ClassVar[int]
    LEG_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTORS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    LEGS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    trip_id: str
    leg: str
    participants: _containers.RepeatedScalarFieldContainer[str]
    acceptors: _containers.RepeatedCompositeFieldContainer[Acceptor]
    attempt: int
    ends_at: int
    nonce: str
    legs: _containers.RepeatedCompositeFieldContainer[TripLeg]
    begin: TripBegin
    def __init__(self, trip_id: _Optional[str] = ..., leg: _Optional[str] = ..., participants: _Optional[_Iterable[str]] = ..., acceptors: _Optional[_Iterable[_Union[Acceptor, _Mapping]]] = ..., attempt: _Optional[int] = ..., ends_at: _Optional[int] = ..., nonce: _Optional[str] = ..., legs: _Optional[_Iterable[_Union[TripLeg, _Mapping]]] = ..., begin: _Optional[_Union[TripBegin, str]] = ...) -> None: ...

class TripLeg(_message.Message):
    __slots__ = ("leg", "site", "start", "lacks_agent")
    LEG_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    LACKS_AGENT_FIELD_NUMBER: _ClassVar[int]
    leg: str
    site: str
    start: int
    lacks_agent: bool
    def __init__(self, leg: _Optional[str] = ..., site: _Optional[str] = ..., start: _Optional[int] = ..., lacks_agent: _Optional[bool] = ...) -> None: ...

class Acceptor(_message.Message):
    __slots__ = ("site", "endpoint", "card")
    SITE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    site: str
    endpoint: str
    card: str
    def __init__(self, site: _Optional[str] = ..., endpoint: _Optional[str] = ..., card: _Optional[str] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("contacts",)
    CONTACTS_FIELD_NUMBER: _ClassVar[int]
    contacts: _containers.RepeatedCompositeFieldContainer[LegContact]
    def __init__(self, contacts: _Optional[_Iterable[_Union[LegContact, _Mapping]]] = ...) -> None: ...

class LegContact(_message.Message):
    __slots__ = ("leg", "contact")
    LEG_FIELD_NUMBER: _ClassVar[int]
    CONTACT_FIELD_NUMBER: _ClassVar[int]
    leg: str
    contact: str
    def __init__(self, leg: _Optional[str] = ..., contact: _Optional[str] = ...) -> None: ...

class ReservationRequest(_message.Message):
    __slots__ = ("request_id", "account", "nodes_min", "nodes_max", "duration_s", "earliest_start", "latest_end", "features", "budget_millicredits", "start_may_advance", "notify_email", "trip", "replaces", "beneficiary", "via", "quote")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    NODES_MIN_FIELD_NUMBER: _ClassVar[int]
    NODES_MAX_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_START_FIELD_NUMBER: _ClassVar[int]
    LATEST_END_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    BUDGET_MILLICREDITS_FIELD_NUMBER: _ClassVar[int]
    START_MAY_ADVANCE_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_EMAIL_FIELD_NUMBER: _ClassVar[int]
    TRIP_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    BENEFICIARY_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    account: str
    nodes_min: int
    nodes_max: int
    duration_s: int
    earliest_start: int
    latest_end: int
    features: _containers.RepeatedScalarFieldContainer[str]
    budget_millicredits: int
    start_may_advance: bool
    notify_email: str
    trip: TripRef
    replaces: str
    beneficiary: str
    via: _containers.RepeatedScalarFieldContainer[str]
    quote: str
    def __init__(self, request_id: _Optional[str] = ..., account: _Optional[str] = ..., nodes_min: _Optional[int] = ..., nodes_max: _Optional[int] = ..., duration_s: _Optional[int] = ..., earliest_start: _Optional[int] = ..., latest_end: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., budget_millicredits: _Optional[int] = ..., start_may_advance: _Optional[bool] = ..., notify_email: _Optional[str] = ..., trip: _Optional[_Union[TripRef, _Mapping]] = ..., replaces: _Optional[str] = ..., beneficiary: _Optional[str] = ..., via: _Optional[_Iterable[str]] = ..., quote: _Optional[str] = ...) -> None: ...

class CalendarVersion(_message.Message):
    __slots__ = ("epoch", "number")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    epoch: str
    number: int
    def __init__(self, epoch: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("start", "start_until", "nodes", "resource_class", "unit_price_millicredits", "quote", "quote_expires_at")
    START_FIELD_NUMBER: _ClassVar[int]
    START_UNTIL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLASS_FIELD_NUMBER: _ClassVar[int]
    UNIT_PRICE_MILLICREDITS_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    QUOTE_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    start: int
    start_until: int
    nodes: int
    resource_class: str
    unit_price_millicredits: int
    quote: str
    quote_expires_at: int
    def __init__(self, start: _Optional[int] = ..., start_until: _Optional[int] = ..., nodes: _Optional[int] = ..., resource_class: _Optional[str] = ..., unit_price_millicredits: _Optional[int] = ..., quote: _Optional[str] = ..., quote_expires_at: _Optional[int] = ...) -> None: ...

class Availability(_message.Message):
    __slots__ = ("offers", "version", "known_until")
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    KNOWN_UNTIL_FIELD_NUMBER: _ClassVar[int]
    offers: _containers.RepeatedCompositeFieldContainer[Offer]
    version: CalendarVersion
    known_until: int
    def __init__(self, offers: _Optional[_Iterable[_Union[Offer, _Mapping]]] = ..., version: _Optional[_Union[CalendarVersion, _Mapping]] = ..., known_until: _Optional[int] = ...) -> None: ...

class Decline(_message.Message):
    __slots__ = ("rule", "message", "earliest", "nodes_now", "site", "summary", "passing")
    RULE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    NODES_NOW_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    PASSING_FIELD_NUMBER: _ClassVar[int]
    rule: str
    message: str
    earliest: int
    nodes_now: int
    site: str
    summary: CalendarSummary
    passing: _containers.RepeatedCompositeFieldContainer[PassingTerms]
    def __init__(self, rule: _Optional[str] = ..., message: _Optional[str] = ..., earliest: _Optional[int] = ..., nodes_now: _Optional[int] = ..., site: _Optional[str] = ..., summary: _Optional[_Union[CalendarSummary, _Mapping]] = ..., passing: _Optional[_Iterable[_Union[PassingTerms, _Mapping]]] = ...) -> None: ...

class PassingTerms(_message.Message):
    __slots__ = ("deadline", "budget_millicredits")
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    BUDGET_MILLICREDITS_FIELD_NUMBER: _ClassVar[int]
    deadline: int
    budget_millicredits: int
    def __init__(self, deadline: _Optional[int] = ..., budget_millicredits: _Optional[int] = ...) -> None: ...

class ReservationPart(_message.Message):
    __slots__ = ("site", "reservation_id", "nodes", "endpoint", "contact")
    SITE_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONTACT_FIELD_NUMBER: _ClassVar[int]
    site: str
    reservation_id: str
    nodes: int
    endpoint: str
    contact: str
    def __init__(self, site: _Optional[str] = ..., reservation_id: _Optional[str] = ..., nodes: _Optional[int] = ..., endpoint: _Optional[str] = ..., contact: _Optional[str] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("reservation_id", "site", "owner", "request", "resource_class", "nodes", "interval", "state", "created_at", "price_millicredits", "hold_remaining_s", "contact", "parts", "granted_by", "job_id")
    RESERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLASS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    PRICE_MILLICREDITS_FIELD_NUMBER: _ClassVar[int]
    HOLD_REMAINING_S_FIELD_NUMBER: _ClassVar[int]
    CONTACT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_BY_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    reservation_id: str
    site: str
    owner: str
    request: ReservationRequest
    resource_class: str
    nodes: int
    interval: Interval
    state: ReservationState
    created_at: int
    price_millicredits: int
    hold_remaining_s: int
    contact: str
    parts: _containers.RepeatedCompositeFieldContainer[ReservationPart]
    granted_by: str
    job_id: str
    def __init__(self, reservation_id: _Optional[str] = ..., site: _Optional[str] = ..., owner: _Optional[str] = ..., request: _Optional[_Union[ReservationRequest, _Mapping]] = ..., resource_class: _Optional[str] = ..., nodes: _Optional[int] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., state: _Optional[_Union[ReservationState, str]] = ..., created_at: _Optional[int] = ..., price_millicredits: _Optional[int] = ..., hold_remaining_s: _Optional[int] = ..., contact: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[ReservationPart, _Mapping]]] = ..., granted_by: _Optional[str] = ..., job_id: _Optional[str] = ...) -> None: ...

class SummarySlot(_message.Message):
    __slots__ = ("start", "end", "free_min", "free_node_s")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FREE_MIN_FIELD_NUMBER: _ClassVar[int]
    FREE_NODE_S_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    free_min: int
    free_node_s: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., free_min: _Optional[int] = ..., free_node_s: _Optional[int] = ...) -> None: ...

class ClassSummary(_message.Message):
    __slots__ = ("name", "capacity", "features", "slots")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    capacity: int
    features: _containers.RepeatedScalarFieldContainer[str]
    slots: _containers.RepeatedCompositeFieldContainer[SummarySlot]
    def __init__(self, name: _Optional[str] = ..., capacity: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., slots: _Optional[_Iterable[_Union[SummarySlot, _Mapping]]] = ...) -> None: ...

class CalendarSummary(_message.Message):
    __slots__ = ("site", "version", "as_of", "classes", "millicredits_per_node_hour")
    SITE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    MILLICREDITS_PER_NODE_HOUR_FIELD_NUMBER: _ClassVar[int]
    site: str
    version: CalendarVersion
    as_of: int
    classes: _containers.RepeatedCompositeFieldContainer[ClassSummary]
    millicredits_per_node_hour: int
    def __init__(self, site: _Optional[str] = ..., version: _Optional[_Union[CalendarVersion, _Mapping]] = ..., as_of: _Optional[int] = ..., classes: _Optional[_Iterable[_Union[ClassSummary, _Mapping]]] = ..., millicredits_per_node_hour: _Optional[int] = ...) -> None: ...

class SummaryDelta(_message.Message):
    __slots__ = ("site", "since", "version", "as_of", "classes")
    SITE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    site: str
    since: CalendarVersion
    version: CalendarVersion
    as_of: int
    classes: _containers.RepeatedCompositeFieldContainer[ClassSummary]
    def __init__(self, site: _Optional[str] = ..., since: _Optional[_Union[CalendarVersion, _Mapping]] = ..., version: _Optional[_Union[CalendarVersion, _Mapping]] = ..., as_of: _Optional[int] = ..., classes: _Optional[_Iterable[_Union[ClassSummary, _Mapping]]] = ...) -> None: ...

class ReservationOrDecline(_message.Message):
    __slots__ = ("reservation", "decline")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    DECLINE_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    decline: Decline
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ..., decline: _Optional[_Union[Decline, _Mapping]] = ...) -> None: ...

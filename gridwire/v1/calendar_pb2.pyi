from gridwire.v1 import common_pb2 as _common_pb2
from gridwire.v1 import site_pb2 as _site_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TripOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRIP_OUTCOME_UNSPECIFIED: _ClassVar[TripOutcome]
    TRIP_OUTCOME_COMMIT: _ClassVar[TripOutcome]
    TRIP_OUTCOME_ABORT: _ClassVar[TripOutcome]

class VotePhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VOTE_PHASE_UNSPECIFIED: _ClassVar[VotePhase]
    VOTE_PHASE_PREPARE: _ClassVar[VotePhase]
    VOTE_PHASE_ACCEPT: _ClassVar[VotePhase]
    VOTE_PHASE_LEARN: _ClassVar[VotePhase]
    VOTE_PHASE_SETTLE: _ClassVar[VotePhase]
TRIP_OUTCOME_UNSPECIFIED: TripOutcome
TRIP_OUTCOME_COMMIT: TripOutcome
TRIP_OUTCOME_ABORT: TripOutcome
VOTE_PHASE_UNSPECIFIED: VotePhase
VOTE_PHASE_PREPARE: VotePhase
VOTE_PHASE_ACCEPT: VotePhase
VOTE_PHASE_LEARN: VotePhase
VOTE_PHASE_SETTLE: VotePhase

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClassDescription(_message.Message):
    __slots__ = ("name", "nodes", "features")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    name: str
    nodes: int
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., nodes: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class SiteDescription(_message.Message):
    __slots__ = ("site", "is_manager", "classes", "time_zone", "time_precise", "lead_s", "hold_ttl_max_s", "horizon_s", "millicredits_per_node_hour", "software", "login", "children", "trade", "card")
    SITE_FIELD_NUMBER: _ClassVar[int]
    IS_MANAGER_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    TIME_PRECISE_FIELD_NUMBER: _ClassVar[int]
    LEAD_S_FIELD_NUMBER: _ClassVar[int]
    HOLD_TTL_MAX_S_FIELD_NUMBER: _ClassVar[int]
    HORIZON_S_FIELD_NUMBER: _ClassVar[int]
    MILLICREDITS_PER_NODE_HOUR_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    LOGIN_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    TRADE_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    site: str
    is_manager: bool
    classes: _containers.RepeatedCompositeFieldContainer[ClassDescription]
    time_zone: str
    time_precise: float
    lead_s: int
    hold_ttl_max_s: int
    horizon_s: int
    millicredits_per_node_hour: int
    software: str
    login: str
    children: _containers.RepeatedScalarFieldContainer[str]
    trade: _containers.RepeatedCompositeFieldContainer[TradeAccount]
    card: str
    def __init__(self, site: _Optional[str] = ..., is_manager: _Optional[bool] = ..., classes: _Optional[_Iterable[_Union[ClassDescription, _Mapping]]] = ..., time_zone: _Optional[str] = ..., time_precise: _Optional[float] = ..., lead_s: _Optional[int] = ..., hold_ttl_max_s: _Optional[int] = ..., horizon_s: _Optional[int] = ..., millicredits_per_node_hour: _Optional[int] = ..., software: _Optional[str] = ..., login: _Optional[str] = ..., children: _Optional[_Iterable[str]] = ..., trade: _Optional[_Iterable[_Union[TradeAccount, _Mapping]]] = ..., card: _Optional[str] = ...) -> None: ...

class TradeAccount(_message.Message):
    __slots__ = ("member", "lent_node_s", "borrowed_node_s", "local_node_s")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    LENT_NODE_S_FIELD_NUMBER: _ClassVar[int]
    BORROWED_NODE_S_FIELD_NUMBER: _ClassVar[int]
    LOCAL_NODE_S_FIELD_NUMBER: _ClassVar[int]
    member: str
    lent_node_s: int
    borrowed_node_s: int
    local_node_s: int
    def __init__(self, member: _Optional[str] = ..., lent_node_s: _Optional[int] = ..., borrowed_node_s: _Optional[int] = ..., local_node_s: _Optional[int] = ...) -> None: ...

class InquireRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[_common_pb2.ReservationRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[_common_pb2.ReservationRequest, _Mapping]]] = ...) -> None: ...

class InquireAnswer(_message.Message):
    __slots__ = ("availability", "decline")
    AVAILABILITY_FIELD_NUMBER: _ClassVar[int]
    DECLINE_FIELD_NUMBER: _ClassVar[int]
    availability: _common_pb2.Availability
    decline: _common_pb2.Decline
    def __init__(self, availability: _Optional[_Union[_common_pb2.Availability, _Mapping]] = ..., decline: _Optional[_Union[_common_pb2.Decline, _Mapping]] = ...) -> None: ...

class InquireReply(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[InquireAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[InquireAnswer, _Mapping]]] = ...) -> None: ...

class ReserveRequest(_message.Message):
    __slots__ = ("request", "ttl_s", "job")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TTL_S_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    request: _common_pb2.ReservationRequest
    ttl_s: int
    job: HeldJob
    def __init__(self, request: _Optional[_Union[_common_pb2.ReservationRequest, _Mapping]] = ..., ttl_s: _Optional[int] = ..., job: _Optional[_Union[HeldJob, _Mapping]] = ...) -> None: ...

class HeldJob(_message.Message):
    __slots__ = ("spec",)
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: _site_pb2.JobSpec
    def __init__(self, spec: _Optional[_Union[_site_pb2.JobSpec, _Mapping]] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("reservation_id", "manifest")
    RESERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    reservation_id: str
    manifest: _common_pb2.Manifest
    def __init__(self, reservation_id: _Optional[str] = ..., manifest: _Optional[_Union[_common_pb2.Manifest, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("reservation_id", "request_id")
    RESERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    reservation_id: str
    request_id: str
    def __init__(self, reservation_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReleaseReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AmendRequest(_message.Message):
    __slots__ = ("reservation_id", "request")
    RESERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    reservation_id: str
    request: _common_pb2.ReservationRequest
    def __init__(self, reservation_id: _Optional[str] = ..., request: _Optional[_Union[_common_pb2.ReservationRequest, _Mapping]] = ...) -> None: ...

class Ballot(_message.Message):
    __slots__ = ("round", "proposer")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PROPOSER_FIELD_NUMBER: _ClassVar[int]
    round: int
    proposer: str
    def __init__(self, round: _Optional[int] = ..., proposer: _Optional[str] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("instance", "phase", "ballot", "outcome", "manifest", "beside")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    BALLOT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    phase: VotePhase
    ballot: Ballot
    outcome: TripOutcome
    manifest: _common_pb2.Manifest
    beside: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, instance: _Optional[str] = ..., phase: _Optional[_Union[VotePhase, str]] = ..., ballot: _Optional[_Union[Ballot, _Mapping]] = ..., outcome: _Optional[_Union[TripOutcome, str]] = ..., manifest: _Optional[_Union[_common_pb2.Manifest, _Mapping]] = ..., beside: _Optional[_Iterable[str]] = ...) -> None: ...

class VoteReply(_message.Message):
    __slots__ = ("acceptor", "is_granted", "promised", "accepted_ballot", "accepted", "accepted_manifest", "beside")
    ACCEPTOR_FIELD_NUMBER: _ClassVar[int]
    IS_GRANTED_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_BALLOT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_MANIFEST_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    acceptor: str
    is_granted: bool
    promised: Ballot
    accepted_ballot: Ballot
    accepted: TripOutcome
    accepted_manifest: _common_pb2.Manifest
    beside: _containers.RepeatedCompositeFieldContainer[VoteReply]
    def __init__(self, acceptor: _Optional[str] = ..., is_granted: _Optional[bool] = ..., promised: _Optional[_Union[Ballot, _Mapping]] = ..., accepted_ballot: _Optional[_Union[Ballot, _Mapping]] = ..., accepted: _Optional[_Union[TripOutcome, str]] = ..., accepted_manifest: _Optional[_Union[_common_pb2.Manifest, _Mapping]] = ..., beside: _Optional[_Iterable[_Union[VoteReply, _Mapping]]] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CalendarNews(_message.Message):
    __slots__ = ("summary", "delta")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    summary: _common_pb2.CalendarSummary
    delta: _common_pb2.SummaryDelta
    def __init__(self, summary: _Optional[_Union[_common_pb2.CalendarSummary, _Mapping]] = ..., delta: _Optional[_Union[_common_pb2.SummaryDelta, _Mapping]] = ...) -> None: ...

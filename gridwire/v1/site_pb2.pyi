from gridwire.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_QUEUED: _ClassVar[JobState]
    JOB_STATE_STARTING: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_COMPLETED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
    JOB_STATE_TIMED_OUT: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_QUEUED: JobState
JOB_STATE_STARTING: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_COMPLETED: JobState
JOB_STATE_FAILED: JobState
JOB_STATE_TIMED_OUT: JobState
JOB_STATE_CANCELLED: JobState

class SetReservationRequest(_message.Message):
    __slots__ = ("request", "is_dry_run")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    IS_DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    request: _common_pb2.ReservationRequest
    is_dry_run: bool
    def __init__(self, request: _Optional[_Union[_common_pb2.ReservationRequest, _Mapping]] = ..., is_dry_run: _Optional[bool] = ...) -> None: ...

class ListReservationsRequest(_message.Message):
    __slots__ = ("everybody",)
    EVERYBODY_FIELD_NUMBER: _ClassVar[int]
    everybody: bool
    def __init__(self, everybody: _Optional[bool] = ...) -> None: ...

class ListReservationsReply(_message.Message):
    __slots__ = ("reservations",)
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    reservations: _containers.RepeatedCompositeFieldContainer[_common_pb2.Reservation]
    def __init__(self, reservations: _Optional[_Iterable[_Union[_common_pb2.Reservation, _Mapping]]] = ...) -> None: ...

class BindRequest(_message.Message):
    __slots__ = ("reservation_id", "job_ids")
    RESERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    reservation_id: str
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, reservation_id: _Optional[str] = ..., job_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class BindJobRequest(_message.Message):
    __slots__ = ("job_id", "reservation_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    reservation_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., reservation_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class BindReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Variable(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Companion(_message.Message):
    __slots__ = ("leg", "site", "nodes", "contact")
    LEG_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CONTACT_FIELD_NUMBER: _ClassVar[int]
    leg: str
    site: str
    nodes: int
    contact: str
    def __init__(self, leg: _Optional[str] = ..., site: _Optional[str] = ..., nodes: _Optional[int] = ..., contact: _Optional[str] = ...) -> None: ...

class HandedFile(_message.Message):
    __slots__ = ("source", "destination")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    source: str
    destination: str
    def __init__(self, source: _Optional[str] = ..., destination: _Optional[str] = ...) -> None: ...

class Handover(_message.Message):
    __slots__ = ("leg", "site", "endpoint", "files", "card")
    LEG_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    leg: str
    site: str
    endpoint: str
    files: _containers.RepeatedCompositeFieldContainer[HandedFile]
    card: str
    def __init__(self, leg: _Optional[str] = ..., site: _Optional[str] = ..., endpoint: _Optional[str] = ..., files: _Optional[_Iterable[_Union[HandedFile, _Mapping]]] = ..., card: _Optional[str] = ...) -> None: ...

class Race(_message.Message):
    __slots__ = ("trip_id", "copy", "copies", "acceptors", "ends_at", "sites")
    TRIP_ID_FIELD_NUMBER: _ClassVar[int]
    COPY_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    ACCEPTORS_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    trip_id: str
    copy: str
    copies: _containers.RepeatedScalarFieldContainer[str]
    acceptors: _containers.RepeatedCompositeFieldContainer[_common_pb2.Acceptor]
    ends_at: int
    sites: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, trip_id: _Optional[str] = ..., copy: _Optional[str] = ..., copies: _Optional[_Iterable[str]] = ..., acceptors: _Optional[_Iterable[_Union[_common_pb2.Acceptor, _Mapping]]] = ..., ends_at: _Optional[int] = ..., sites: _Optional[_Iterable[str]] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("request_id", "name", "account", "nodes", "limit_s", "argv", "script", "environment", "reservation_id", "features", "notify_email", "quality_of_service", "companions", "leg_before", "leg_after", "handover", "race", "inputs", "relayed_from", "gives", "deadline", "budget_millicredits", "estimate_s", "is_restartable", "memory_mb", "disk_mb")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_EMAIL_FIELD_NUMBER: _ClassVar[int]
    QUALITY_OF_SERVICE_FIELD_NUMBER: _ClassVar[int]
    COMPANIONS_FIELD_NUMBER: _ClassVar[int]
    LEG_BEFORE_FIELD_NUMBER: _ClassVar[int]
    LEG_AFTER_FIELD_NUMBER: _ClassVar[int]
    HANDOVER_FIELD_NUMBER: _ClassVar[int]
    RACE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    RELAYED_FROM_FIELD_NUMBER: _ClassVar[int]
    GIVES_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    BUDGET_MILLICREDITS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_S_FIELD_NUMBER: _ClassVar[int]
    IS_RESTARTABLE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    DISK_MB_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    account: str
    nodes: int
    limit_s: int
    argv: _containers.RepeatedScalarFieldContainer[str]
    script: str
    environment: _containers.RepeatedCompositeFieldContainer[Variable]
    reservation_id: str
    features: _containers.RepeatedScalarFieldContainer[str]
    notify_email: str
    quality_of_service: str
    companions: _containers.RepeatedCompositeFieldContainer[Companion]
    leg_before: str
    leg_after: str
    handover: Handover
    race: Race
    inputs: _containers.RepeatedCompositeFieldContainer[InputFile]
    relayed_from: str
    gives: HandoverGrant
    deadline: int
    budget_millicredits: int
    estimate_s: int
    is_restartable: bool
    memory_mb: int
    disk_mb: int
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., account: _Optional[str] = ..., nodes: _Optional[int] = ..., limit_s: _Optional[int] = ..., argv: _Optional[_Iterable[str]] = ..., script: _Optional[str] = ..., environment: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., reservation_id: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., notify_email: _Optional[str] = ..., quality_of_service: _Optional[str] = ..., companions: _Optional[_Iterable[_Union[Companion, _Mapping]]] = ..., leg_before: _Optional[str] = ..., leg_after: _Optional[str] = ..., handover: _Optional[_Union[Handover, _Mapping]] = ..., race: _Optional[_Union[Race, _Mapping]] = ..., inputs: _Optional[_Iterable[_Union[InputFile, _Mapping]]] = ..., relayed_from: _Optional[str] = ..., gives: _Optional[_Union[HandoverGrant, _Mapping]] = ..., deadline: _Optional[int] = ..., budget_millicredits: _Optional[int] = ..., estimate_s: _Optional[int] = ..., is_restartable: _Optional[bool] = ..., memory_mb: _Optional[int] = ..., disk_mb: _Optional[int] = ...) -> None: ...

class JobTerms(_message.Message):
    __slots__ = ("agreed_at", "price_millicredits", "deadline", "node_numbers")
    AGREED_AT_FIELD_NUMBER: _ClassVar[int]
    PRICE_MILLICREDITS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    NODE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    agreed_at: float
    price_millicredits: int
    deadline: int
    node_numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, agreed_at: _Optional[float] = ..., price_millicredits: _Optional[int] = ..., deadline: _Optional[int] = ..., node_numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class InputFile(_message.Message):
    __slots__ = ("path", "size_bytes", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    size_bytes: int
    sha256: str
    def __init__(self, path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class HandoverGrant(_message.Message):
    __slots__ = ("leg", "site", "paths")
    LEG_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    leg: str
    site: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, leg: _Optional[str] = ..., site: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("job_id", "site", "owner", "spec", "state", "submitted_at", "planned_start", "started_at", "started_precise", "ended_at", "exit_code", "node_names", "reason", "terms", "shares")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    PLANNED_START_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_PRECISE_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    NODE_NAMES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    site: str
    owner: str
    spec: JobSpec
    state: JobState
    submitted_at: int
    planned_start: int
    started_at: int
    started_precise: float
    ended_at: int
    exit_code: int
    node_names: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    terms: JobTerms
    shares: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, job_id: _Optional[str] = ..., site: _Optional[str] = ..., owner: _Optional[str] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., state: _Optional[_Union[JobState, str]] = ..., submitted_at: _Optional[int] = ..., planned_start: _Optional[int] = ..., started_at: _Optional[int] = ..., started_precise: _Optional[float] = ..., ended_at: _Optional[int] = ..., exit_code: _Optional[int] = ..., node_names: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., terms: _Optional[_Union[JobTerms, _Mapping]] = ..., shares: _Optional[_Iterable[float]] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("spec",)
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: JobSpec
    def __init__(self, spec: _Optional[_Union[JobSpec, _Mapping]] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("job", "decline")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DECLINE_FIELD_NUMBER: _ClassVar[int]
    job: Job
    decline: _common_pb2.Decline
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., decline: _Optional[_Union[_common_pb2.Decline, _Mapping]] = ...) -> None: ...

class NameInputsRequest(_message.Message):
    __slots__ = ("reservation_id", "inputs")
    RESERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    reservation_id: str
    inputs: _containers.RepeatedCompositeFieldContainer[InputFile]
    def __init__(self, reservation_id: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[InputFile, _Mapping]]] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("job_ids", "everybody")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    EVERYBODY_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    everybody: bool
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ..., everybody: _Optional[bool] = ...) -> None: ...

class ListJobsReply(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class WatchJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class FollowOutputRequest(_message.Message):
    __slots__ = ("job_id", "stream", "offset")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    stream: str
    offset: int
    def __init__(self, job_id: _Optional[str] = ..., stream: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("offset", "content")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    content: bytes
    def __init__(self, offset: _Optional[int] = ..., content: _Optional[bytes] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("name", "arguments")
    class ArgumentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    arguments: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., arguments: _Optional[_Mapping[str, str]] = ...) -> None: ...

class QueryReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class FileStatus(_message.Message):
    __slots__ = ("path", "size_bytes", "is_folder", "mode", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_FOLDER_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    size_bytes: int
    is_folder: bool
    mode: int
    sha256: str
    def __init__(self, path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., is_folder: _Optional[bool] = ..., mode: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class ListFilesRequest(_message.Message):
    __slots__ = ("area", "path", "with_checksums")
    AREA_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    WITH_CHECKSUMS_FIELD_NUMBER: _ClassVar[int]
    area: str
    path: str
    with_checksums: bool
    def __init__(self, area: _Optional[str] = ..., path: _Optional[str] = ..., with_checksums: _Optional[bool] = ...) -> None: ...

class ListFilesReply(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[FileStatus]
    def __init__(self, files: _Optional[_Iterable[_Union[FileStatus, _Mapping]]] = ...) -> None: ...

class GetFileRequest(_message.Message):
    __slots__ = ("area", "path", "offset")
    AREA_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    area: str
    path: str
    offset: int
    def __init__(self, area: _Optional[str] = ..., path: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class PutFileRequest(_message.Message):
    __slots__ = ("head", "chunk")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    head: PutFileHead
    chunk: Chunk
    def __init__(self, head: _Optional[_Union[PutFileHead, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class PutFileHead(_message.Message):
    __slots__ = ("area", "path", "mode", "sha256")
    AREA_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    area: str
    path: str
    mode: int
    sha256: str
    def __init__(self, area: _Optional[str] = ..., path: _Optional[str] = ..., mode: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

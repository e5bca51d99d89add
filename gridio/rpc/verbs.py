"""Every verb of the protocol: its name on the wire, its messages, its deadline, its retries.

Client and server read the same table, so that neither can know a verb the other does not. Every
verb is idempotent (requests carry ids), so each may be said again while no answer has come.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from gridwire.v1 import calendar_pb2, common_pb2, site_pb2

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)

LOOK_DEADLINE_S: Final = 10.0
"""For verbs that read a calendar or a queue in memory."""

PROMISE_DEADLINE_S: Final = 15.0
"""For verbs that write to a journal, on a disk that may be busy, or wait for a tree of managers."""

WORK_DEADLINE_S: Final = 60.0
"""For verbs that wait for a resource manager or read files."""

STREAM_DEADLINE_S: Final = 24 * 3600.0
"""For streams: they end with ``DeadlineError`` after a day; who still wants one asks again."""

ATTEMPTS: Final = 3
"""How often a verb is sent while the site cannot be reached."""

ATTEMPTS_PERSISTENT: Final = 10
"""The same for verbs whose loss costs a user room or a booking: commit and release."""

ATTEMPTS_ONCE: Final = 1
"""For a verb whose content can be read only once: an upload."""


class Kind(enum.Enum):
    """How many messages go each way."""

    UNARY = "one question, one answer"
    REPLY_STREAM = "one question, many answers"
    REQUEST_STREAM = "many questions, one answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb(Generic[Q, A]):
    """One method of one service."""

    service: str
    method: str
    question: type[Q]
    answer: type[A]
    deadline_s: float
    """What a client waits at most when its caller does not say otherwise."""
    attempts_max: int = ATTEMPTS
    kind: Kind = Kind.UNARY
    path: str = field(init=False)
    """Name on the wire."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", f"/{self.service}/{self.method}")


AnyVerb = Verb[Any, Any]

CALENDAR_SERVICE: Final = "gridwire.v1.CalendarService"
SITE_SERVICE: Final = "gridwire.v1.SiteService"


def _calendar(
    method: str, question: type[Q], answer: type[A], deadline_s: float, **more: Any
) -> Verb[Q, A]:
    return Verb(
        service=CALENDAR_SERVICE,
        method=method,
        question=question,
        answer=answer,
        deadline_s=deadline_s,
        **more,
    )


def _site(
    method: str, question: type[Q], answer: type[A], deadline_s: float, **more: Any
) -> Verb[Q, A]:
    return Verb(
        service=SITE_SERVICE,
        method=method,
        question=question,
        answer=answer,
        deadline_s=deadline_s,
        **more,
    )


_c, _v, _s = calendar_pb2, common_pb2, site_pb2
_STREAM: Final[dict[str, Any]] = {"kind": Kind.REPLY_STREAM}
_PERSISTENT: Final[dict[str, Any]] = {"attempts_max": ATTEMPTS_PERSISTENT}

DESCRIBE: Final = _calendar("Describe", _c.DescribeRequest, _c.SiteDescription, LOOK_DEADLINE_S)
INQUIRE: Final = _calendar("Inquire", _c.InquireRequest, _c.InquireReply, LOOK_DEADLINE_S)
RESERVE: Final = _calendar(
    "Reserve", _c.ReserveRequest, _v.ReservationOrDecline, PROMISE_DEADLINE_S
)
COMMIT: Final = _calendar(
    "Commit", _c.CommitRequest, _v.ReservationOrDecline, PROMISE_DEADLINE_S, **_PERSISTENT
)
RELEASE: Final = _calendar(
    "Release", _c.ReleaseRequest, _c.ReleaseReply, PROMISE_DEADLINE_S, **_PERSISTENT
)
AMEND: Final = _calendar("Amend", _c.AmendRequest, _v.ReservationOrDecline, PROMISE_DEADLINE_S)
VOTE: Final = _calendar("Vote", _c.VoteRequest, _c.VoteReply, PROMISE_DEADLINE_S)
SUBSCRIBE: Final = _calendar(
    "Subscribe", _c.SubscribeRequest, _c.CalendarNews, STREAM_DEADLINE_S, **_STREAM
)

SET_RESERVATION: Final = _site(
    "SetReservation", _s.SetReservationRequest, _v.ReservationOrDecline, PROMISE_DEADLINE_S
)
LIST_RESERVATIONS: Final = _site(
    "ListReservations", _s.ListReservationsRequest, _s.ListReservationsReply, LOOK_DEADLINE_S
)
BIND: Final = _site("Bind", _s.BindRequest, _s.BindReply, PROMISE_DEADLINE_S)
UNBIND: Final = _site("Unbind", _s.BindRequest, _s.BindReply, PROMISE_DEADLINE_S)
BIND_JOB: Final = _site("BindJob", _s.BindJobRequest, _s.BindReply, PROMISE_DEADLINE_S)
UNBIND_JOB: Final = _site("UnbindJob", _s.BindJobRequest, _s.BindReply, PROMISE_DEADLINE_S)
SUBMIT: Final = _site("Submit", _s.SubmitRequest, _s.SubmitReply, WORK_DEADLINE_S)
NAME_INPUTS: Final = _site("NameInputs", _s.NameInputsRequest, _s.Job, PROMISE_DEADLINE_S)
CANCEL_JOB: Final = _site("CancelJob", _s.CancelJobRequest, _s.Job, WORK_DEADLINE_S)
LIST_JOBS: Final = _site("ListJobs", _s.ListJobsRequest, _s.ListJobsReply, LOOK_DEADLINE_S)
WATCH_JOB: Final = _site("WatchJob", _s.WatchJobRequest, _s.Job, STREAM_DEADLINE_S, **_STREAM)
FOLLOW_OUTPUT: Final = _site(
    "FollowOutput", _s.FollowOutputRequest, _s.Chunk, STREAM_DEADLINE_S, **_STREAM
)
QUERY: Final = _site("Query", _s.QueryRequest, _s.QueryReply, WORK_DEADLINE_S)
ORDER: Final = _site("Order", _s.QueryRequest, _s.QueryReply, WORK_DEADLINE_S)
LIST_FILES: Final = _site("ListFiles", _s.ListFilesRequest, _s.ListFilesReply, WORK_DEADLINE_S)
GET_FILE: Final = _site("GetFile", _s.GetFileRequest, _s.Chunk, STREAM_DEADLINE_S, **_STREAM)
PUT_FILE: Final = _site(
    "PutFile",
    _s.PutFileRequest,
    _s.FileStatus,
    STREAM_DEADLINE_S,
    attempts_max=ATTEMPTS_ONCE,
    kind=Kind.REQUEST_STREAM,
)

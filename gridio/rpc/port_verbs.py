"""Every method of the ports as a verb of the wire: how its words and its answer become messages.

Client and server read the same table. A word crosses as its annotation in the port's Protocol says
(``codec.table``), unless the table has a rule for it. An upload is in no table: its words come one
by one (``WireSite.put_file``, ``server.handlers``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf.message import Message

from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridio.rpc import verbs
from gridtravel.gridio.rpc.codec.calendar_messages import ANSWER, DESCRIPTION, NEWS, REQUESTS_MAX
from gridtravel.gridio.rpc.codec.checks import build, refuse
from gridtravel.gridio.rpc.codec.reservations import (
    MANIFEST,
    REQUEST,
    an_id,
    decode_answer,
    decode_reservation,
    encode_answer,
    reservation_fields,
)
from gridtravel.gridio.rpc.codec.site_messages import (
    ARGUMENTS,
    CHUNK,
    FILE,
    HELD_JOB,
    INPUTS,
    JOB,
    SPEC,
    SUBMISSION,
    a_path,
    cut,
    decode_json,
    encode_json,
    ids,
    stream_name,
)
from gridtravel.gridio.rpc.codec.table import (
    AS_IS,
    Absence,
    Check,
    Rule,
    as_is,
    listed,
    nested,
    rule_of,
)
from gridtravel.gridio.rpc.codec.votes import QUESTION, decode_vote_answer, encode_vote_answer
from gridtravel.gridio.rpc.verbs import AnyVerb
from gridtravel.gridio.sites.forwarding import Call
from gridwire.v1 import calendar_pb2, site_pb2


class Words:
    """The words of a method, and the question that carries them."""

    def __init__(
        self, method: Callable[..., Any], question: type[Message], rules: Mapping[str, Rule | Check]
    ) -> None:
        parameters = list(inspect.signature(method).parameters.values())[1:]
        self.method = method.__name__
        self._question = question
        table = {each.name: rule_of(each.name, str(each.annotation), rules) for each in parameters}
        self._reads = [(name, rule.read or as_is) for name, rule in table.items()]
        self._writes = [(name, rule.write) for name, rule in table.items() if rule.write]
        self._positional = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]

    def message(self, call: Call[Any, Any]) -> Message:
        """The question; an ``InputError`` when no message can hold the words."""
        said = dict(zip(self._positional, call.words, strict=True), **call.named)
        for name, write in self._writes:
            said[name] = write(said[name])
        return build(self._question, said)

    def call(self, question: Message) -> Call[Any, Any]:
        """What ``question``, which may be hostile, asks of a port."""
        heard = {name: read(name, getattr(question, name)) for name, read in self._reads}
        words = tuple([heard.pop(name) for name in self._positional])
        return Call(self.method, words, heard)


class VoteWords(Words):
    """The one question that is a value by itself."""

    def __init__(self) -> None:
        super().__init__(CalendarPort.vote, verbs.VOTE.question, {"question": AS_IS})

    def message(self, call: Call[Any, Any]) -> Message:
        """See ``Words``."""
        return build(verbs.VOTE.question, QUESTION.fields(call.words[0]))

    def call(self, question: Any) -> Call[Any, Any]:
        """See ``Words``."""
        return Call(self.method, (QUESTION.decode(question),), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How an answer crosses."""

    encode: Callable[[Any, float], Message]
    """Takes the answer, and the moment at which it is made."""
    decode: Callable[[Any, float], Any]
    """Takes the message, and the moment at which the question was sent."""
    cut: Callable[[Any], Iterable[Any]] = lambda value: (value,)
    """What is too large for one message, in pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortVerb:
    """A method of a port, as a verb."""

    verb: AnyVerb
    words: Words
    answer: Answer


def _plain(codec: Any) -> Answer:
    """An answer that is the same whenever it is read."""
    return Answer(
        encode=lambda value, _: codec.encode(value), decode=lambda message, _: codec.decode(message)
    )


def _list(reply: type[Message], name: str, codec: Any) -> Answer:
    """Answers in the field ``name``."""
    return Answer(
        encode=lambda values, _: reply(**{name: [codec.fields(each) for each in values]}),
        decode=lambda message, _: [codec.decode(each) for each in getattr(message, name)],
    )


def _nothing(reply: type[Message]) -> Answer:
    """It is done."""
    return Answer(encode=lambda _, __: reply(), decode=lambda _, __: None)


_DATED: Final = Answer(encode=encode_answer, decode=decode_answer)
"""A reservation or a refusal; the lifetime of a hold counts from the moment of the answer."""

_DATED_LIST: Final = Answer(
    encode=lambda found, now: site_pb2.ListReservationsReply(
        reservations=[reservation_fields(each, now) for each in found]
    ),
    decode=lambda message, asked_at: [
        decode_reservation(each, asked_at) for each in message.reservations
    ],
)

_VOTED: Final = Answer(
    encode=lambda answer, _: encode_vote_answer(answer),
    decode=lambda message, _: decode_vote_answer(message),
)

_JSON: Final = Answer(
    encode=lambda value, _: site_pb2.QueryReply(json=encode_json(value)),
    decode=lambda message, _: decode_json(message.json),
)

_CHUNKS: Final = replace(_plain(CHUNK), cut=cut)

_REQUEST: Final = nested(REQUEST, Absence.DEFAULT)
_HELD_JOB: Final = Rule(
    read=lambda _, message: HELD_JOB.decode(message) if message.HasField("spec") else None,
    write=lambda job: None if job is None else HELD_JOB.fields(job),
)
"""Of a request to hold; most have none."""
_RELEASED: Final = _nothing(calendar_pb2.ReleaseReply)
_BOUND: Final = _nothing(site_pb2.BindReply)


def _verb(
    method: Callable[..., Any], verb: AnyVerb, answer: Answer, **rules: Rule | Check
) -> PortVerb:
    return PortVerb(verb=verb, words=Words(method, verb.question, rules), answer=answer)


_TABLE: Final = (
    _verb(CalendarPort.describe, verbs.DESCRIBE, _plain(DESCRIPTION)),
    _verb(
        CalendarPort.inquire,
        verbs.INQUIRE,
        _list(calendar_pb2.InquireReply, "answers", ANSWER),
        requests=listed(REQUEST, REQUESTS_MAX),
    ),
    _verb(
        CalendarPort.reserve, verbs.RESERVE, _DATED, request=_REQUEST, ttl_s=AS_IS, job=_HELD_JOB
    ),
    _verb(
        CalendarPort.commit,
        verbs.COMMIT,
        _DATED,
        reservation_id=an_id,
        manifest=nested(MANIFEST, Absence.DEFAULT),
    ),
    _verb(CalendarPort.release, verbs.RELEASE, _RELEASED, reservation_id=an_id),
    _verb(CalendarPort.release_request, verbs.RELEASE, _RELEASED, request_id=an_id),
    _verb(CalendarPort.amend, verbs.AMEND, _DATED, reservation_id=an_id, request=_REQUEST),
    PortVerb(verb=verbs.VOTE, words=VoteWords(), answer=_VOTED),
    _verb(CalendarPort.subscribe, verbs.SUBSCRIBE, _plain(NEWS)),
    _verb(SitePort.set_reservation, verbs.SET_RESERVATION, _DATED, request=_REQUEST),
    _verb(SitePort.reservations, verbs.LIST_RESERVATIONS, _DATED_LIST),
    _verb(SitePort.bind, verbs.BIND, _BOUND, reservation_id=an_id, job_ids=ids),
    _verb(SitePort.unbind, verbs.UNBIND, _BOUND, reservation_id=an_id, job_ids=ids),
    _verb(SitePort.bind_job, verbs.BIND_JOB, _BOUND, job_id=an_id, reservation_ids=ids),
    _verb(SitePort.unbind_job, verbs.UNBIND_JOB, _BOUND, job_id=an_id, reservation_ids=ids),
    _verb(SitePort.submit, verbs.SUBMIT, _plain(SUBMISSION), spec=nested(SPEC, Absence.DEFAULT)),
    _verb(
        SitePort.name_inputs,
        verbs.NAME_INPUTS,
        _plain(JOB),
        reservation_id=an_id,
        inputs=INPUTS,
    ),
    _verb(SitePort.cancel_job, verbs.CANCEL_JOB, _plain(JOB), job_id=an_id),
    _verb(SitePort.jobs, verbs.LIST_JOBS, _list(site_pb2.ListJobsReply, "jobs", JOB), job_ids=ids),
    _verb(SitePort.watch_job, verbs.WATCH_JOB, _plain(JOB), job_id=an_id),
    _verb(SitePort.follow_output, verbs.FOLLOW_OUTPUT, _CHUNKS, job_id=an_id, stream=stream_name),
    _verb(SitePort.query, verbs.QUERY, _JSON, arguments=ARGUMENTS),
    _verb(SitePort.order, verbs.ORDER, _JSON, arguments=ARGUMENTS),
    _verb(
        SitePort.list_files,
        verbs.LIST_FILES,
        _list(site_pb2.ListFilesReply, "files", FILE),
        area=an_id,
        path=a_path,
    ),
    _verb(SitePort.get_file, verbs.GET_FILE, _CHUNKS, area=an_id, path=a_path),
)

PORT_VERBS: Final = {each.words.method: each for each in _TABLE}
"""By the method's name, which the two ports do not share."""

_BY_PATH: Final = {each.verb.path: each for each in _TABLE}
_RELEASES: Final = {"reservation_id": "release", "request_id": "release_request"}


def port_verb(verb: AnyVerb, question: Message) -> PortVerb:
    """What ``question`` means; of a release it says itself what is released."""
    if verb is not verbs.RELEASE:
        return _BY_PATH[verb.path]
    which = question.WhichOneof("what")
    if which is None:
        refuse("what", "is missing")
    return PORT_VERBS[_RELEASES[which]]

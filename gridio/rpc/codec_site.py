"""Domain values to protobuf messages and back: what only the site service says, jobs and files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from gridcore.errors import InputError
from gridcore.handovers import HANDED_FILES_MAX, HandedFile, Handover
from gridcore.jobs import Companion, JobSpec, JobState, JobView
from gridcore.ports import FileStatus, OutputChunk
from gridcore.races import COPIES_MAX, Race
from gridcore.reservations import Decline
from gridio.rpc.codec import (
    ADDRESS_LENGTH_MAX,
    EMAIL_LENGTH_MAX,
    SUBJECT_LENGTH_MAX,
    decode_acceptors,
    decode_decline,
    decode_id,
    encode_acceptors,
    encode_decline,
)
from gridio.rpc.codec_checks import (
    COUNT_MAX,
    ITEMS_MAX,
    build,
    count,
    instant,
    items,
    label,
    labels,
    moment,
    refuse,
    text,
)
from gridwire.v1 import site_pb2 as pb

CHUNK_BYTES_MAX: Final = 1 << 20
"""Content of one message of a stream: a quarter of what a message may have."""

NODE_NAMES_MAX: Final = 131_072
ENVIRONMENT_MAX: Final = 16_384
"""Variables of a job; their bytes are bounded by the value itself."""

ARGUMENTS_MAX: Final = 65_536
PATH_LENGTH_MAX: Final = 4_096
MODE_MAX: Final = 0o7777
JSON_LENGTH_MAX: Final = 4 << 20

_STATE_NUMBERS: Final = {state: pb.JobState.Value(f"JOB_STATE_{state.name}") for state in JobState}
_STATES: Final = {number: state for state, number in _STATE_NUMBERS.items()}


def encode_spec(spec: JobSpec) -> pb.JobSpec:
    """What to run."""
    return build(
        pb.JobSpec,
        request_id=spec.request_id,
        name=spec.name,
        account=spec.account,
        nodes=spec.nodes,
        limit_s=spec.limit_s,
        argv=spec.argv,
        script=spec.script,
        environment=[
            build(pb.Variable, name=name, value=value) for name, value in spec.environment
        ],
        reservation_id=spec.reservation_id,
        features=spec.features,
        notify_email=spec.notify_email,
        quality_of_service=spec.quality_of_service,
        companions=[
            build(
                pb.Companion,
                leg=each.leg,
                site=each.site,
                nodes=each.nodes,
                contact=each.contact,
            )
            for each in spec.companions
        ],
        leg_before=spec.leg_before,
        leg_after=spec.leg_after,
        handover=None if spec.handover is None else _encode_handover(spec.handover),
        race=None if spec.race is None else _encode_race(spec.race),
    )


def decode_spec(message: pb.JobSpec) -> JobSpec:
    """The reverse of ``encode_spec``; the value itself checks command, environment and sizes."""
    if len(message.argv) > ARGUMENTS_MAX:
        refuse("argv", f"has more than {ARGUMENTS_MAX} entries")
    environment = items("environment", message.environment, ENVIRONMENT_MAX)
    return JobSpec(
        request_id=message.request_id,
        name=message.name,
        account=label("account", message.account),
        nodes=message.nodes,
        limit_s=count("limit_s", message.limit_s),
        argv=tuple(message.argv),
        script=message.script,
        environment=tuple((each.name, each.value) for each in environment),
        reservation_id=decode_id("reservation_id", message.reservation_id)
        if message.reservation_id
        else "",
        features=labels("features", message.features),
        notify_email=label("notify_email", message.notify_email, EMAIL_LENGTH_MAX),
        quality_of_service=label("quality_of_service", message.quality_of_service),
        companions=tuple(
            Companion(
                leg=each.leg,
                site=each.site,
                nodes=count("nodes", each.nodes),
                contact=label("contact", each.contact),
            )
            for each in items("companions", message.companions)
        ),
        leg_before=label("leg_before", message.leg_before),
        leg_after=label("leg_after", message.leg_after),
        handover=_decode_handover(message.handover) if message.HasField("handover") else None,
        race=_decode_race(message.race) if message.HasField("race") else None,
    )


def _encode_race(race: Race) -> pb.Race:
    return build(
        pb.Race,
        trip_id=race.trip_id,
        copy=race.copy,
        copies=race.copies,
        acceptors=encode_acceptors(race.acceptors),
        ends_at=race.ends_at,
    )


def _decode_race(message: pb.Race) -> Race:
    return Race(
        trip_id=label("race.trip_id", message.trip_id),
        copy=label("race.copy", message.copy),
        copies=labels("race.copies", message.copies, COPIES_MAX),
        acceptors=decode_acceptors("race.acceptors", message.acceptors),
        ends_at=instant("race.ends_at", message.ends_at),
    )


def _encode_handover(handover: Handover) -> pb.Handover:
    return build(
        pb.Handover,
        leg=handover.leg,
        site=handover.site,
        endpoint=handover.endpoint,
        files=[
            build(pb.HandedFile, source=each.source, destination=each.destination)
            for each in handover.files
        ],
    )


def _decode_handover(message: pb.Handover) -> Handover:
    return Handover(
        leg=message.leg,
        site=message.site,
        endpoint=label("handover.endpoint", message.endpoint, ADDRESS_LENGTH_MAX),
        files=tuple(
            HandedFile(source=each.source, destination=each.destination)
            for each in items("handover.files", message.files, HANDED_FILES_MAX)
        ),
    )


def encode_job(job: JobView) -> pb.Job:
    """A job as its site shows it."""
    return pb.Job(
        job_id=job.job_id,
        site=job.site,
        owner=job.owner,
        spec=encode_spec(job.spec),
        state=_STATE_NUMBERS[job.state],  # type: ignore[arg-type] # a plain int at run time
        submitted_at=job.submitted_at,
        planned_start=job.planned_start,
        started_at=job.started_at,
        started_precise=job.started_precise,
        ended_at=job.ended_at,
        exit_code=job.exit_code,
        node_names=job.node_names,
        reason=job.reason,
    )


def decode_job(message: pb.Job) -> JobView:
    """The reverse of ``encode_job``."""
    if not message.HasField("spec"):
        refuse("job.spec", "is missing")
    state = _STATES.get(message.state)
    if state is None:
        refuse("job.state", f"has the unknown number {message.state}")
    return JobView(
        job_id=decode_id("job.job_id", message.job_id),
        site=label("job.site", message.site),
        owner=label("job.owner", message.owner, SUBJECT_LENGTH_MAX),
        spec=decode_spec(message.spec),
        state=state,
        submitted_at=instant("job.submitted_at", message.submitted_at),
        planned_start=instant("job.planned_start", message.planned_start)
        if message.HasField("planned_start")
        else None,
        started_at=instant("job.started_at", message.started_at)
        if message.HasField("started_at")
        else None,
        started_precise=moment("job.started_precise", message.started_precise)
        if message.HasField("started_precise")
        else None,
        ended_at=instant("job.ended_at", message.ended_at)
        if message.HasField("ended_at")
        else None,
        exit_code=message.exit_code if message.HasField("exit_code") else None,
        node_names=labels("job.node_names", message.node_names, NODE_NAMES_MAX),
        reason=text("job.reason", message.reason),
    )


def encode_submission(answer: JobView | Decline) -> pb.SubmitReply:
    """The answer to submit."""
    if isinstance(answer, JobView):
        return pb.SubmitReply(job=encode_job(answer))
    return pb.SubmitReply(decline=encode_decline(answer))


def decode_submission(message: pb.SubmitReply) -> JobView | Decline:
    """The reverse of ``encode_submission``."""
    which = message.WhichOneof("answer")
    if which == "job":
        return decode_job(message.job)
    if which == "decline":
        return decode_decline(message.decline)
    refuse("answer", "is missing")


def encode_chunks(chunk: OutputChunk) -> Iterator[pb.Chunk]:
    """``chunk`` in messages of at most ``CHUNK_BYTES_MAX`` bytes; an empty one is one message."""
    content = chunk.content
    if len(content) <= CHUNK_BYTES_MAX:
        yield build(pb.Chunk, offset=chunk.offset, content=content)
        return
    for first in range(0, len(content), CHUNK_BYTES_MAX):
        piece = bytes(content[first : first + CHUNK_BYTES_MAX])
        yield build(pb.Chunk, offset=chunk.offset + first, content=piece)


def decode_chunk(message: pb.Chunk) -> OutputChunk:
    """A piece of a stream."""
    return OutputChunk(
        offset=count("chunk.offset", message.offset, 0, COUNT_MAX), content=message.content
    )


def encode_file(status: FileStatus) -> pb.FileStatus:
    """A file in an area."""
    return pb.FileStatus(
        path=status.path,
        size_bytes=status.size_bytes,
        is_folder=status.is_folder,
        mode=status.mode,
        sha256=status.sha256,
    )


def decode_file(message: pb.FileStatus) -> FileStatus:
    """The reverse of ``encode_file``. Whether the path stays within the area is for others to
    check.
    """
    return FileStatus(
        path=decode_path("file.path", message.path),
        size_bytes=count("file.size_bytes", message.size_bytes),
        is_folder=message.is_folder,
        mode=count("file.mode", message.mode, 0, MODE_MAX),
        sha256=decode_sha256("file.sha256", message.sha256),
    )


def decode_path(field: str, value: str) -> str:
    """``value`` when it can be a path at all; which paths an area allows is decided by its site."""
    if len(value) > PATH_LENGTH_MAX or "\0" in value:
        refuse(field, f"is longer than {PATH_LENGTH_MAX} characters or has a NUL character")
    return value


def decode_sha256(field: str, value: str) -> str:
    """``value`` when it is 64 lower-case hexadecimal digits, or empty."""
    if value and (len(value) != 64 or set(value) - set("0123456789abcdef")):
        refuse(field, "is no SHA-256 in lower-case hexadecimal")
    return value


def encode_json(value: object) -> str:
    """The answer to a query, as the text that crosses the wire."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def decode_json(content: str) -> object:
    """The reverse of ``encode_json``."""
    if len(content) > JSON_LENGTH_MAX:
        refuse("json", f"is longer than {JSON_LENGTH_MAX} characters")
    try:
        value: object = json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InputError("the field json is no JSON text") from None
    return value


def _no_constant(name: str) -> object:
    raise ValueError(name)


def decode_ids(field: str, values: Sequence[str]) -> list[str]:
    """Ids of jobs or reservations, each one checked."""
    if len(values) > ITEMS_MAX:
        refuse(field, f"has more than {ITEMS_MAX} entries")
    return [decode_id(field, each) for each in values]

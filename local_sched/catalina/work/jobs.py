"""What ``catalina`` does with jobs. Each function is one command; none prints, but ``output``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    PassingTerms,
    check_id,
)
from gridtravel.gridcore.errors import ConflictError, GridError, InputError, UnavailableError
from gridtravel.gridcore.jobs.commands import check_runnable, check_script
from gridtravel.gridcore.jobs.job import SCRIPT_BYTES_MAX, JobSpec, JobState
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_in_zone
from gridtravel.gridio.cli_frame import code_of
from gridtravel.local_sched.catalina.answers import Answer, error_object
from gridtravel.local_sched.catalina.json_forms import job_json, with_texts
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.tables import credits_text
from gridtravel.local_sched.catalina.words import (
    read_account,
    read_credits,
    read_email,
    read_features,
    read_ids,
    read_length,
    read_name,
    read_time,
    read_variables,
)
from gridtravel.local_sched.catalina.work.questions import ask
from gridtravel.local_sched.catalina.work.reservation_requests import ANY_ACCOUNT
from gridtravel.local_sched.catalina.work.reservations import declined

STANDARD_INPUT: Final = "-"
OUTPUT_BYTES_MAX: Final = 16 << 20
"""Of an output that is kept in memory for ``--json``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWords:
    """The options of ``submit`` as they were written; empty: not given."""

    command: Sequence[str] = ()
    script: str = ""
    nodes: int = 1
    limit: str = ""
    account: str = ""
    reservation: str = ""
    name: str = ""
    variables: Sequence[str] = ()
    features: str = ""
    email: str = ""
    quality_of_service: str = ""
    budget: str = ""
    estimate: str = ""
    is_restartable: bool = False
    memory_mb: int | None = None
    disk_mb: int | None = None
    request_id: str = ""


def job_spec(
    words: JobWords,
    environment: Mapping[str, str],
    stdin: BinaryIO,
    new_id: Callable[[str], str],
) -> JobSpec:
    """The job that is meant, but for its deadline, which only the site's clock can tell. Only
    reads; a script is text to us and is never run here.
    """
    if bool(words.command) == bool(words.script):
        raise InputError(
            "give a command or a script, one of both",
            hint="catalina submit --limit 1h -- COMMAND ...,  or --script FILE",
        )
    if not words.limit and not words.estimate:
        raise InputError("how long may the job run?", hint="--limit 1h, or --limit 3600")
    if words.request_id:
        check_id("request id", words.request_id)
    if words.reservation:
        check_id("reservation id", words.reservation)
    script = read_script(words.script, stdin) if words.script else ""
    usual_name = Path(words.script or words.command[0]).name.strip("-") or "job"
    spec = JobSpec(
        request_id=words.request_id or new_id("job"),
        name=read_name(words.name or "".join(filter(str.isprintable, usual_name))[:128]),
        account=read_account(words.account) or ANY_ACCOUNT,
        nodes=words.nodes,
        limit_s=read_length(words.limit or words.estimate, "limit"),
        argv=tuple(words.command),
        script=script,
        environment=read_variables(words.variables, environment),
        reservation_id=words.reservation,
        features=read_features(words.features),
        notify_email=read_email(words.email),
        quality_of_service=words.quality_of_service,
        budget_millicredits=read_credits(words.budget, "budget") if words.budget else None,
        estimate_s=read_length(words.estimate, "estimate") if words.estimate else None,
        is_restartable=words.is_restartable,
        memory_mb=words.memory_mb,
        disk_mb=words.disk_mb,
    )
    check_runnable(spec)
    return spec


def read_script(path: str, stdin: BinaryIO) -> str:
    """The text of a script; never more of it is read than may be sent."""
    try:
        if path == STANDARD_INPUT:
            content = stdin.read(SCRIPT_BYTES_MAX + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(SCRIPT_BYTES_MAX + 1)
    except (OSError, ValueError) as fault:
        told = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
        raise InputError(
            f"cannot read the script {path[:120]!r}: {told}", hint="name a script that you may read"
        ) from None
    if len(content) > SCRIPT_BYTES_MAX:
        raise InputError(
            f"the script {path[:120]!r} is larger than {SCRIPT_BYTES_MAX} bytes",
            hint="leave data out of it: put them into a file that the script reads",
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"the script {path[:120]!r} is no text in UTF-8") from None
    if "\0" in text:
        raise InputError(f"the script {path[:120]!r} contains a NUL character")
    check_script(text, f"the script {path[:120]!r}")
    return text


async def submit_job(
    session: Session, spec: JobSpec, *, deadline: str = "", dry_run: bool = False
) -> Answer:
    """``submit``: queue a job, or start it inside a reservation."""
    notes: list[str] = []
    if deadline:
        spec = replace(spec, deadline=await _deadline(session, deadline, spec.request_id, notes))
    if dry_run:
        return await _quote(session, spec, notes)
    view = await session.site.submit(spec)
    if isinstance(view, Decline):
        return declined(session, view, notes)
    line = f"job {view.job_id}  {view.state}"
    if view.planned_start is not None:
        line += f", planned for {format_in_zone(view.planned_start, session.zone)}"
    if view.terms is not None:
        line += f", price {credits_text(view.terms.price_millicredits)}"
        if view.terms.deadline is not None:
            line += f", over by {format_in_zone(view.terms.deadline, session.zone)}"
    return Answer(as_object=job_json(view), shown=[line], notes=notes)


async def _quote(session: Session, spec: JobSpec, notes: Sequence[str]) -> Answer:
    """What would be said to the job; nothing is kept for it."""
    if spec.reservation_id:
        raise InputError("a job inside a reservation is paid for by that: nothing is to be quoted")
    words = {
        "nodes": spec.nodes,
        "limit_s": spec.limit_s,
        "features": ",".join(spec.features),
        "account": spec.account,
        "qos": spec.quality_of_service,
        "deadline": spec.deadline,
        "budget_millicredits": spec.budget_millicredits,
        "estimate_s": spec.estimate_s,
        "memory_mb": spec.memory_mb,
        "disk_mb": spec.disk_mb,
    }
    said = {name: str(value) for name, value in words.items() if value not in (None, "")}
    answer = await ask(session, "quote", said)
    if (refusal := answer["declined"]) is not None:
        passing = tuple(
            PassingTerms(deadline=each["deadline"], budget_millicredits=each["budget"])
            for each in refusal["would_pass"]
        )
        rule = DeclineRule(refusal["rule"])
        return declined(
            session, Decline(rule=rule, message=refusal["message"], passing=passing), notes
        )
    line = f"class {answer['class']}, "
    line += "price " if answer["is_agreed"] else "at most "
    line += credits_text(answer["price"])
    if answer["deadline"] is not None:
        line += f", over by {format_in_zone(answer['deadline'], session.zone)}"
    shown = ["would be taken; nothing was submitted", line]
    return Answer(as_object=with_texts(answer), shown=shown, notes=notes)


async def _deadline(session: Session, text: str, request_id: str, notes: list[str]) -> Instant:
    """The instant that is meant. "+1h" is another one each time the same command is given, so the
    words are read as of the moment at which they give what this request asked for before.
    """
    meant = read_time(session, text, notes)
    for view in await session.site.jobs():
        known = view.spec.deadline
        if view.spec.request_id == request_id and known is not None:
            again = read_time(session.earlier(meant - known), text, [])
            return known if again == known else meant
    return meant


async def delete_jobs(session: Session, words: Sequence[str]) -> Answer:
    """``del-job``: each of them, past single errors, and the exit code tells of these."""
    results: list[dict[str, Any]] = []
    lines: list[str] = []
    faults: list[GridError] = []
    for each in read_ids(words, "job"):
        if faults and isinstance(faults[-1], UnavailableError):
            results.append({"job": each, "cancelled": False, **error_object(faults[-1])})
            continue
        try:
            state = await _delete(session, each)
        except GridError as fault:
            faults.append(fault)
            results.append({"job": each, "cancelled": False, **error_object(fault)})
            continue
        is_over = state is JobState.CANCELLED
        lines.append(f"job {each} is {'cancelled' if is_over else 'being stopped'}")
        results.append({"job": each, "cancelled": True, "state": state.value})
    return Answer(
        as_object={"results": results}, shown=lines, faults=faults, exit_code=code_of(faults)
    )


async def _delete(session: Session, job_id: str) -> JobState:
    view = await session.site.cancel_job(job_id)
    if view.state.is_over and view.state is not JobState.CANCELLED:
        raise ConflictError(
            f"job {job_id} had ended: {view.state}",
            hint=f"see: catalina history --state {view.state}",
        )
    return view.state


async def job_output(
    session: Session, job_id: str, stream: str, write: Callable[[bytes], None], *, as_json: bool
) -> Answer:
    """``output``: what a job writes, from its beginning until it is over, as the bytes come; for
    scripts in one piece.
    """
    (wanted,) = read_ids([job_id], "job")
    kept = bytearray()
    count = 0
    async for chunk in session.site.follow_output(wanted, stream, 0):
        count += len(chunk.content)
        if as_json:
            kept += chunk.content[: max(OUTPUT_BYTES_MAX - len(kept), 0)]
        else:
            write(chunk.content)
    as_object = {
        "job": wanted,
        "stream": stream,
        "bytes": count,
        "text": kept.decode("utf-8", "replace"),
        "is_cut": as_json and count > len(kept),
    }
    return Answer(as_object=as_object)

"""A job's files at a far end: the wrapper that the batch system starts, and what is read of them.

A job is queued in its reservation while that is only held. Its wrapper begins the program when the
mark of the commit is there and every input lies in the working folder, and waits for neither longer
than ``latest_begin``: then it ends, and writes down what was missing (docs/decisions/0034).

The wrapper runs the program once, whatever the batch system does (some start a job again when a
node is lost), tells it about its trip (docs/leg-environment.md), and writes down when it began and
how it ended. A batch system forgets a job that is over; the files do not.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gridtravel.gridcore.booking.reservations import Begin, Reservation
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import Companion, JobSpec, JobState, JobView
from gridtravel.gridcore.number_text import is_count, read_decimal
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.batch.systems import name_of, public_id
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.records import EventCodec
from gridtravel.gridio.sites.trip_participation import BEGIN_WITHIN_S

_KIND: Final = "job"
VANISHED_S: Final = 15
"""A job that its batch system does not list, and that has not begun, may still be on its way into
the list for so long; files of a node may need as long to be seen.
"""
TOGETHER_WITHIN_S: Final = 5
"""A leg that begins with others is waited for so long: it was ready by the start or it is not, and
only clocks and a network's file system may be late.
"""
END_BEFORE_S: Final = 2
"""A wrapper that waits gives up so long before its reservation ends, while it can say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What was submitted, as it is written down."""

    spec: JobSpec
    submitted_at: Instant
    latest_end: Instant
    """End of its reservation; 0: it has none."""


_CODEC: Final = EventCodec({_KIND: JobRecord})

WRAPPER: Final = r"""#!/bin/sh
home=$1 area=$2
cd "$area" || exit 125
umask 077
book=@BOOK@ latest=@LATEST@
[ -z "$book" ] || book=${home%/jobs/*}/book/$book
has() {
    if [ -f "$2" ] && [ "$(wc -c < "$2")" -eq "$1" ]; then return; fi
    lacks=${lacks:-"its input $2 is missing"}
}
may_begin() {
    lacks=
    if [ -z "$book" ]; then return; fi
    if [ -e "$book/released" ]; then lacks='its reservation was released' latest=0
    elif [ ! -e "$book/committed" ]; then lacks='its reservation was never committed'
    else . "$home/inputs"; fi
    [ -z "$lacks" ]
}
until may_begin; do
    if [ "$(date +%s)" -ge "$latest" ]; then
        mkdir "$home/once" 2> /dev/null || exit 0
        printf '%s' "$lacks" | tr '\n\t' '  ' > "$home/idle.new" && mv "$home/idle.new" "$home/idle"
        exit 0
    fi
    sleep 1
done
mkdir "$home/once" 2> /dev/null || exit 0
if [ -n "$PE_HOSTFILE" ]; then
    nodes=$(awk '{ for (i = 0; i < $2; i++) print $1 }' "$PE_HOSTFILE" | paste -s -d , -)
elif [ -n "$SLURM_JOB_NODELIST" ]; then
    nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -s -d , -)
else nodes=$(hostname); fi
@EXPORTS@
if [ -n "$book" ] && [ -s "$book/committed" ]; then
    GRID_COMPANIONS=$(cat "$book/committed"); export GRID_COMPANIONS
fi
GRID_NODELIST=$nodes; export GRID_NODELIST
printf '%s\n' "$nodes" > "$home/hosts"
now=$(date +%s.%N); case $now in *N) now=$(date +%s) ;; esac
printf '%s\n' "$now" > "$home/started"
"$home/program" > "$area/$GRID_JOB.stdout" 2> "$area/$GRID_JOB.stderr" < /dev/null
code=$?
printf '%s %s\n' "$code" "$(date +%s)" > "$home/ended.new" && mv "$home/ended.new" "$home/ended"
exit "$code"
"""


def program_text(spec: JobSpec) -> str:
    """What the wrapper executes: the user's script as it is, or the command's words, quoted."""
    return spec.script or f"#!/bin/sh\nexec {shlex.join(spec.argv)}\n"


def wrapper_text(spec: JobSpec, job_id: str, site: str, reservation: Reservation | None) -> str:
    """The wrapper with the job's variables. Names that begin with ``GRID_`` are the site's."""
    variables = {k: v for k, v in spec.environment if not k.startswith("GRID_")}
    variables |= {"GRID_JOB": job_id, "GRID_SITE": site, "GRID_NODES": str(spec.nodes)}
    if reservation is not None:
        variables["GRID_RESERVATION"] = reservation.reservation_id
        variables["GRID_START"] = str(reservation.start)
        variables["GRID_END"] = str(reservation.end)
        trip = reservation.request.trip
        if trip is not None:
            variables["GRID_TRIP"] = trip.trip_id
            variables["GRID_LEG"] = trip.leg
            variables["GRID_CONTACT"] = reservation.contact
            variables["GRID_COMPANIONS"] = companions_text(spec.companions)
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    book = "" if reservation is None else name_of(site, reservation.reservation_id)
    latest = 0 if reservation is None else latest_begin(reservation)
    text = WRAPPER.replace("@BOOK@", shlex.quote(book)).replace("@LATEST@", str(latest))
    return text.replace("@EXPORTS@", exports)


def companions_text(companions: Sequence[Companion]) -> str:
    """``GRID_COMPANIONS``: the other legs as JSON."""
    return json.dumps(
        [
            {"leg": each.leg, "site": each.site, "nodes": each.nodes, "contact": each.contact}
            for each in companions
        ]
    )


def latest_begin(reservation: Reservation) -> Instant:
    """Until when a job waits for what it needs to begin, on its node's clock."""
    trip = reservation.request.trip
    is_together = trip is not None and trip.begin is Begin.TOGETHER
    within_s = TOGETHER_WITHIN_S if is_together else BEGIN_WITHIN_S
    return min(reservation.start + within_s, reservation.end - END_BEFORE_S)


def inputs_text(spec: JobSpec) -> str:
    """What the wrapper looks for before it begins, as it executes it. Files have their names only
    when they are whole and their checksum was right (``FarAreas``), so that their size will do.
    """
    if spec.relayed_from:
        return f"lacks='the files of stage {spec.relayed_from} have not come'\n"
    return "".join(f"has {each.size_bytes} {shlex.quote(each.path)}\n" for each in spec.inputs)


def with_inputs(spec: JobSpec, brought: Sequence[InputFile]) -> JobSpec:
    """The job once it is known which files the traveller brings from the stage before."""
    return replace(spec, inputs=(*spec.inputs, *brought), relayed_from="")


def to_line(record: JobRecord) -> str:
    """The record as ASCII without a line break."""
    return _CODEC.encode(record, at=record.submitted_at).body.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """One job as its files tell of it."""

    name: str
    record: JobRecord
    marks: dict[str, str] = field(default_factory=dict)
    """First line of ``id``, ``started``, ``hosts``, ``ended``, ``cancelled`` and ``idle`` (what it
    lacked), where they are; ``released``: its reservation was.
    """

    def view(self, listed: str, *, site: str, owner: str, now: Instant) -> JobView:
        """The job as its owner sees it. ``listed``: how the batch system lists it; empty: it does
        not.
        """
        started = _number(self.marks.get("started", ""))
        code_text, _, ended_text = self.marks.get("ended", "").partition(" ")
        ended = _number(ended_text)
        code = int(code_text) if is_count(code_text) else None
        state, reason = self._state(listed, code, now, has_started=started is not None)
        return JobView(
            job_id=public_id(site, self.name),
            site=site,
            owner=owner,
            spec=self.record.spec,
            state=state,
            submitted_at=self.record.submitted_at,
            started_at=int(started) if started is not None else None,
            started_precise=started,
            ended_at=int(ended) if ended is not None else (now if state.is_over else None),
            exit_code=(128 - code if code > 128 else code) if code is not None else None,
            node_names=tuple(each for each in self.marks.get("hosts", "").split(",") if each),
            reason=reason,
        )

    def _state(
        self, listed: str, code: int | None, now: Instant, *, has_started: bool
    ) -> tuple[JobState, str]:
        is_withdrawn = "cancelled" in self.marks or "released" in self.marks
        if code is not None and not (is_withdrawn and code > 128):
            is_late = code > 128 and 0 < self.record.latest_end <= now
            if is_late:
                return JobState.TIMED_OUT, "ended with its reservation"
            return (JobState.COMPLETED, "") if code == 0 else (JobState.FAILED, f"exit code {code}")
        if "idle" in self.marks:
            return JobState.CANCELLED, self.marks["idle"]
        if listed == "broken":
            return JobState.FAILED, "the batch system could not start it"
        if listed and not is_withdrawn:
            return (JobState.RUNNING if has_started else JobState.QUEUED), ""
        if "cancelled" in self.marks:
            return JobState.CANCELLED, ""
        end = self.record.latest_end or self.record.submitted_at + self.record.spec.limit_s
        if has_started and 0 < end <= now:
            return JobState.TIMED_OUT, "ended by the batch system"
        if "released" in self.marks:
            return JobState.CANCELLED, "its reservation was released"
        if has_started:
            return JobState.FAILED, "ended by the batch system without a word"
        if now - self.record.submitted_at < VANISHED_S:
            return JobState.QUEUED, ""
        return JobState.FAILED, "the batch system no longer has it; its reservation may be gone"


def read_jobs(lines: Iterable[str]) -> list[JobFiles]:
    """What ``b_job`` printed, in order."""
    jobs: list[JobFiles] = []
    name, marks = "", dict[str, str]()
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "job":
            name, marks = rest, {}
        elif kind == "spec" and name:
            record = _CODEC.decode(Record(kind=_KIND, at=0, body=rest.encode()))
            assert isinstance(record, JobRecord), "the codec knows one kind"
            jobs.append(JobFiles(name=name, record=record, marks=marks))
        else:
            marks[kind] = rest
    return jobs


def _number(text: str) -> float | None:
    try:
        return read_decimal(text)
    except ValueError:
        return None

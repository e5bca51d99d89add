"""A job's files at a far end: the wrapper that the batch system starts, and what is read of them.

The wrapper runs the program once, whatever the batch system does (some start a job again when a
node is lost), tells it about its trip (docs/leg-environment.md), and writes down when it began and
how it ended. A batch system forgets a job that is over; the files do not.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridcore.number_text import is_count, read_decimal
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.batch.systems import public_id
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.records import EventCodec

_KIND: Final = "job"
VANISHED_S: Final = 15
"""A job that its batch system does not list, and that has not begun, may still be on its way into
the list for so long; files of a node may need as long to be seen.
"""


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
mkdir "$home/once" 2> /dev/null || exit 0
cd "$area" || exit 125
umask 077
if [ -n "$PE_HOSTFILE" ]; then
    nodes=$(awk '{ for (i = 0; i < $2; i++) print $1 }' "$PE_HOSTFILE" | paste -s -d , -)
elif [ -n "$SLURM_JOB_NODELIST" ]; then
    nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -s -d , -)
else nodes=$(hostname); fi
@EXPORTS@
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
            variables["GRID_COMPANIONS"] = json.dumps(
                [
                    {
                        "leg": each.leg,
                        "site": each.site,
                        "nodes": each.nodes,
                        "contact": each.contact,
                    }
                    for each in spec.companions
                ]
            )
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    return WRAPPER.replace("@EXPORTS@", exports)


def to_line(record: JobRecord) -> str:
    """The record as one line of ASCII."""
    return _CODEC.encode(record, at=record.submitted_at).body.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """One job as its files tell of it."""

    name: str
    record: JobRecord
    marks: dict[str, str] = field(default_factory=dict)
    """First line of ``id``, ``started``, ``hosts``, ``ended`` and ``cancelled``, where they are."""

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
        if code is not None and not ("cancelled" in self.marks and code > 128):
            is_late = code > 128 and 0 < self.record.latest_end <= now
            if is_late:
                return JobState.TIMED_OUT, "ended with its reservation"
            return (JobState.COMPLETED, "") if code == 0 else (JobState.FAILED, f"exit code {code}")
        if listed == "broken":
            return JobState.FAILED, "the batch system could not start it"
        if listed and "cancelled" not in self.marks:
            return (JobState.RUNNING if has_started else JobState.QUEUED), ""
        if "cancelled" in self.marks:
            return JobState.CANCELLED, ""
        end = self.record.latest_end or self.record.submitted_at + self.record.spec.limit_s
        if has_started:
            if 0 < end <= now:
                return JobState.TIMED_OUT, "ended by the batch system"
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

"""Jobs of a site that has only a batch system's commands: queued once, and found again by name.

A job that comes with a hold is queued in its reservation at once. It begins when that is committed
(``job_files``); when the reservation is released the batch system drops it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
)
from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.jobs.commands import check_runnable
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridcore.jobs.tasks import refuse_site_variable
from gridtravel.gridio.batch.job_files import (
    JobRecord,
    inputs_text,
    program_text,
    read_jobs,
    to_line,
    with_inputs,
    wrapper_text,
)
from gridtravel.gridio.batch.shell import Shell
from gridtravel.gridio.batch.systems import JOB_PREFIX, BatchSystem, job_name, name_of, public_id
from gridtravel.gridio.system.clock import Clock

JOBS: Final = 'b_part listed; b_jobs; b_part jobs; for b_each in "$@"; do b_job "$b_each"; done'
"""Asks for the jobs that are named; ``BatchJobs.views`` reads the answer."""
_SUBMIT: Final = 'b_part said; b_once "$@"; '
_BIND: Final = '[ ! -s "jobs/$1/id" ] || b_keep "book/$2/job" "$1"; '
_NAME: Final = 'b_keep "jobs/$1/spec" "$2"; b_keep "jobs/$1/inputs" "$3"; set -- "$1"; '
_LOOK: Final = f'set -- "$1"; {JOBS}'


class BatchJobs:
    """Queues jobs as the account that the shell has at the far end."""

    def __init__(self, shell: Shell, system: BatchSystem, clock: Clock, *, site: str) -> None:
        self._shell = shell
        self._system = system
        self._clock = clock
        self._site = site

    def refuse(self, spec: JobSpec) -> Decline | None:
        """Why nobody there could run it. ``InputError``: nobody anywhere could."""
        for name, _ in spec.environment:
            refuse_site_variable(name)
        check_runnable(spec)
        if spec.race is not None:
            return self._decline(
                "it has no agent that asks the other sites whether its copy has won the race"
            )
        if spec.handover is not None:
            return self._decline(
                f"it has no agent that could wait for stage {spec.handover.leg} and fetch its files"
            )
        return None

    async def queue(
        self, spec: JobSpec, reservation: Reservation | None, *, is_held: bool = False
    ) -> JobView | Decline:
        """Hand in, once, what is not refused; without a reservation it waits in the batch system's
        own queue. ``is_held``: it came with the hold of ``reservation``, which remembers it.
        """
        inside, limit_s, end = "", spec.limit_s, 0
        if reservation is not None:
            inside = name_of(self._site, reservation.reservation_id)
            end = reservation.end
            limit_s = min(limit_s, reservation.interval.duration_s)
            if reservation.state not in (ReservationState.COMMITTED, ReservationState.HELD):
                return self._decline(f"{spec.reservation_id} is {reservation.state}")
        name = job_name(spec.request_id)
        job_id = public_id(self._site, name)
        await self._shell.begin()
        record = JobRecord(spec=spec, submitted_at=self._far_now(), latest_end=end)
        answer = await self._shell.ask(
            _SUBMIT + (_BIND if is_held else "") + _LOOK,
            name,
            inside,
            str(spec.nodes),
            str(limit_s),
            str(end),
            spec.reservation_id or job_id,
            to_line(record),
            program_text(spec),
            wrapper_text(spec, job_id, self._site, reservation),
            inputs_text(spec),
            account=spec.account,
        )
        said = answer.lines("said")
        if said[-1:] == ["busy"]:
            raise UnavailableError(
                f"{self._site} is still at work on {spec.request_id}", hint="ask again"
            )
        if said and said[-1].startswith("refused"):
            return self._decline(said[-1].removeprefix("refused").strip() or "it does not say why")
        (view,) = self.views(answer.parts, answer.user, answer.now)
        if view.spec != spec:
            raise InputError(f"{spec.request_id} was used for another job")
        return view

    def views(self, parts: Mapping[str, str], user: str, now: int) -> list[JobView]:
        """The jobs of an answer to ``JOBS``."""
        listed = self._system.read_jobs(parts["listed"])
        return [
            each.view(listed.get(each.name, ""), site=self._site, owner=user, now=now)
            for each in read_jobs(parts["jobs"].splitlines())
        ]

    async def name_inputs(self, job_id: str, inputs: Sequence[InputFile]) -> JobView:
        """See ``SitePort``."""
        name = name_of(self._site, job_id, prefix=JOB_PREFIX)
        answer = await self._shell.ask(JOBS, name)
        (job,) = read_jobs(answer.lines("jobs"))
        spec = job.record.spec
        if not spec.relayed_from:
            if not set(inputs) <= set(spec.inputs):
                raise InputError(f"the inputs of job {job_id} are named, and are others")
        else:
            named = with_inputs(spec, inputs)
            record = to_line(replace(job.record, spec=named))
            answer = await self._shell.ask(_NAME + JOBS, name, record, inputs_text(named))
        (view,) = self.views(answer.parts, answer.user, answer.now)
        return view

    def _far_now(self) -> int:
        skew = self._shell.skew_s()
        return int(self._clock.now_precise() + (skew.skew_s if skew is not None else 0.0))

    def _decline(self, message: str) -> Decline:
        return Decline(rule=DeclineRule.POLICY, message=f"{self._site}: {message}", site=self._site)

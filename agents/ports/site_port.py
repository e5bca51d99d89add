"""The site's services at a node, for one caller (``gridcore.ports.SitePort``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gridtravel.agents.journal.events import (
    JobAccepted,
    JobBound,
    JobMakesWay,
    ReservationBound,
    TripRegistered,
)
from gridtravel.agents.ports.access import account_of, is_mine, may_take, require_login
from gridtravel.agents.ports.calendar_port import CalendarEndpoint
from gridtravel.agents.ports.orders import carry_out, set_system_reservation
from gridtravel.agents.ports.queries import QUOTE, answer_query
from gridtravel.agents.ports.submissions import accepted, price_of, refuse_into, refuse_price
from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationRequest
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.gridcore.jobs.commands import check_runnable
from gridtravel.gridcore.jobs.handovers import HandoverGrant
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridcore.jobs.tasks import refuse_site_variable
from gridtravel.gridcore.ports import FileStatus, OutputChunk
from gridtravel.gridcore.trips.registers import register_of_race
from gridtravel.gridio.sites.neighbours import Named
from gridtravel.gridio.system.alarms import Alarm
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER
from gridtravel.local_sched.resource_managers.base import OutputStream
from gridtravel.local_sched.resource_managers.task_limits import TaskLimits
from gridtravel.local_sched.scheduling.jobs import Job

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore


class SiteEndpoint:
    """One caller at the agent's site services."""

    def __init__(self, core: AgentCore, caller: Caller) -> None:
        self._core = core
        self._caller = caller

    # -- reservations ------------------------------------------------------------------------------

    async def set_reservation(
        self, request: ReservationRequest, *, is_dry_run: bool
    ) -> Reservation | Decline:
        """See ``SitePort``. What is charged to the account ``system`` is the site's own, such as
        maintenance, and for its administrators.
        """
        if request.account == SYSTEM_OWNER:
            return await set_system_reservation(
                self._core, self._caller, request, is_dry_run=is_dry_run
            )
        desk = CalendarEndpoint(self._core, self._caller)
        return await desk.set_at_once(request, is_dry_run=is_dry_run)

    async def reservations(self, *, everybody: bool) -> list[Reservation]:
        """See ``SitePort``. What others reserved is shown without who they are."""
        core = self._core
        kept = sorted(
            (core.shown(each) for each in core.calendar.reservations.values()),
            key=lambda each: (each.start, each.reservation_id),
        )
        mine = [each for each in kept if is_mine(self._caller, each.owner)]
        if not everybody:
            return mine
        return [
            each if is_mine(self._caller, each.owner) else _anonymous(each)
            for each in kept
            if each.state.is_live or is_mine(self._caller, each.owner)
        ]

    async def bind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """See ``SitePort``."""
        self._own_reservation(reservation_id)
        for job_id in job_ids:
            self._own_job(job_id)
        listed = self._core.jobs.bound_jobs.get(reservation_id, ())
        await self._bind_reservation(reservation_id, (*listed, *job_ids))

    async def unbind(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        """See ``SitePort``."""
        self._own_reservation(reservation_id)
        listed = self._core.jobs.bound_jobs.get(reservation_id, ())
        await self._bind_reservation(reservation_id, [j for j in listed if j not in job_ids])

    async def bind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """See ``SitePort``."""
        self._own_job(job_id)
        waiting = self._core.scheduler.waiting.get(job_id)
        for reservation_id in reservation_ids:
            if waiting is None or not self._admits(reservation_id, waiting):
                self._own_reservation(reservation_id)
        listed = self._core.jobs.bound_reservations.get(job_id, ())
        await self._bind_job(job_id, (*listed, *reservation_ids))

    async def unbind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        """See ``SitePort``."""
        self._own_job(job_id)
        listed = self._core.jobs.bound_reservations.get(job_id, ())
        await self._bind_job(job_id, [r for r in listed if r not in reservation_ids])

    # -- jobs --------------------------------------------------------------------------------------

    async def submit(self, spec: JobSpec) -> JobView | Decline:
        """See ``SitePort``."""
        core = self._core
        owner = require_login(self._caller, "submit jobs")
        if spec.waits_for_files and not spec.reservation_id:
            raise InputError("only a job inside a reservation waits for files")
        if spec.deadline is not None:
            await core.runner.measure()  # a policy decides by what others have had so far
        asked = replace(
            spec, account=account_of(self._caller, spec.account, is_paid=core.cashier.collects)
        )
        known = core.jobs.find_request(owner, asked.request_id)
        if known is not None:
            if known.spec != asked:
                raise InputError(
                    f"request id {asked.request_id!r} was used for another job",
                    hint="use a new id for each job",
                )
            await core.record([]).durable()
            return core.view(known.job_id)
        for name, _ in asked.environment:
            refuse_site_variable(name)
        self._check_cards(asked)
        check_runnable(asked)
        registering: tuple[TripRegistered, ...] = ()
        if asked.race is not None:
            race = register_of_race(asked.race, owner)
            named = core.trips.registering(race, core.clock.now())
            if isinstance(named, Decline):
                return named
            registering = named
        job = self._refuse(asked, owner) or accepted(core, asked, owner)
        if isinstance(job, Decline):
            await core.record(registering).durable()  # the other copies need this site's votes
            return job
        job_id = job.job_id
        price = price_of(core, job)
        poor = refuse_price(core, asked, price) or core.cashier.hold_for_job(
            job_id, asked.account, price, job.submitted_at
        )
        if poor is not None:
            return poor
        event = JobAccepted(
            job_id=job_id,
            owner=owner,
            spec=asked,
            at=job.submitted_at,
            class_name=job.class_name,
            terms=job.terms,
        )
        kills = [
            JobMakesWay(
                job_id=killed,
                for_job=job_id,
                free_from=free_from,
                again_at=dict(job.plan)[killed],
                at=job.submitted_at,
            )
            for killed, free_from in job.kills
        ]
        ticket = core.record([*registering, event, *kills])
        core.runner.queue(job_id, job)
        await ticket.durable()
        core.runner.end_for_others(each.job_id for each in kills)
        return core.view(job_id)

    async def name_inputs(self, reservation_id: str, inputs: Sequence[InputFile]) -> JobView:
        """See ``SitePort``."""
        self._own_reservation(reservation_id)
        core = self._core
        job_id = core.jobs.legs.bound.get(reservation_id, "")
        view = core.jobs.views.get(job_id)
        if view is None or view.state.is_over:
            raise NotFoundError(
                f"{core.calendar.site}: no job in {reservation_id} waits for files",
                hint="see what became of it: gur status",
            )
        await core.inputs.name(view, inputs)
        return core.view(job_id)

    async def cancel_job(self, job_id: str) -> JobView:
        """See ``SitePort``."""
        self._own_job(job_id)
        await self._core.runner.cancel(job_id)
        return self._core.view(job_id)

    async def jobs(self, *, job_ids: Sequence[str] = (), everybody: bool = False) -> list[JobView]:
        """See ``SitePort``. Of others' jobs the command and environment are not shown."""
        core = self._core
        if job_ids:
            shown = [self._shown(core.jobs.get(job_id, None).job_id) for job_id in job_ids]
        else:
            shown = [
                self._shown(view.job_id)
                for view in list(core.jobs.views.values())
                if everybody or is_mine(self._caller, view.owner)
            ]
        await core.record([]).durable()
        return shown

    async def watch_job(self, job_id: str) -> AsyncIterator[JobView]:
        """See ``SitePort``."""
        self._own_job(job_id)
        core, alarm = self._core, Alarm(self._core.clock)
        core.job_listeners[alarm] = job_id
        try:
            while True:
                view = core.view(job_id)
                await core.record([]).durable()
                yield view
                if view.state.is_over:
                    return
                await alarm.wait(None)
        finally:
            alarm.close()
            del core.job_listeners[alarm]

    async def follow_output(
        self, job_id: str, stream: str, offset: int
    ) -> AsyncIterator[OutputChunk]:
        """See ``SitePort``. Waits for a job that has not started; of one that ran again it is the
        output of its last execution.
        """
        self._own_job(job_id)
        if stream not in (OutputStream.STDOUT, OutputStream.STDERR):
            raise InputError(f"no stream {stream!r}", hint="stdout or stderr")
        async for view in self.watch_job(job_id):
            if view.started_precise is not None or view.state.is_over:
                break
        at = offset
        manager = self._core.parts.resource_manager
        try:
            execution_id = self._core.jobs.execution_id(job_id)
            async for content in manager.follow(execution_id, OutputStream(stream), offset):
                yield OutputChunk(offset=at, content=content)
                at += len(content)
        except NotFoundError:
            # It was over before anything was launched, so there is nothing to read.
            return

    async def order(self, name: str, arguments: Mapping[str, str]) -> object:
        """See ``SitePort``."""
        return await carry_out(self._core, self._caller, name, arguments)

    async def query(self, name: str, arguments: Mapping[str, str]) -> object:
        """See ``SitePort``. A planned start is told only when it is journaled, since a restart
        makes no start later that was told.
        """
        if name == QUOTE:
            await self._core.runner.measure()  # as before an admission
        answer = answer_query(self._core, self._caller, name, arguments)
        await self._core.record([]).durable()
        return answer

    # -- files -------------------------------------------------------------------------------------

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """See ``SitePort``."""
        self._check_readable(area, path)
        return await self._core.parts.work_dirs.list_files(
            area, path, with_checksums=with_checksums
        )

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """See ``SitePort``."""
        self._check_readable(area, path)
        async for chunk in self._core.parts.work_dirs.get_file(area, path, offset):
            yield chunk

    async def put_file(
        self,
        area: str,
        path: str,
        chunks: AsyncIterator[OutputChunk],
        *,
        mode: int,
        sha256: str,
    ) -> FileStatus:
        """See ``SitePort``."""
        login = self._own_area(area)
        status = await self._core.parts.work_dirs.put_file(
            area,
            login,
            path,
            chunks,
            mode=mode,
            sha256=sha256,
            area_max_bytes=self._limits_of(area, login).area_max_bytes,
        )
        await self._core.inputs.arrived(area, status)
        return status

    async def _bind_reservation(self, reservation_id: str, job_ids: Sequence[str]) -> None:
        core = self._core
        listed = tuple(dict.fromkeys(job_ids))
        ticket = core.record([ReservationBound(reservation_id=reservation_id, job_ids=listed)])
        core.scheduler.bind_reservation(reservation_id, listed)
        await ticket.durable()

    async def _bind_job(self, job_id: str, reservation_ids: Sequence[str]) -> None:
        core = self._core
        listed = tuple(dict.fromkeys(reservation_ids))
        if not core.scheduler.is_in_line(job_id):
            raise ConflictError(
                f"job {job_id} does not wait any more, its start is settled",
                hint="see what became of it: catalina history",
            )
        ticket = core.record([JobBound(job_id=job_id, reservation_ids=listed)])
        core.scheduler.bind_job(job_id, listed, core.clock.now())
        await ticket.durable()

    # -- who may -----------------------------------------------------------------------------------

    def _own_reservation(self, reservation_id: str) -> Reservation:
        owner = require_login(self._caller, "use reservations")
        by = None if self._caller.role is Role.ADMIN else owner
        return self._core.calendar.get(reservation_id, by)

    def _own_job(self, job_id: str) -> JobView:
        owner = require_login(self._caller, "use jobs")
        by = None if self._caller.role is Role.ADMIN else owner
        return self._core.jobs.get(job_id, by)

    def _own_area(self, area: str) -> str:
        """The login that owns an area; areas are named after reservations and jobs. A job is
        remembered longer than the reservation that it ran in, and so are its results.
        """
        if area in self._core.calendar.reservations:
            return self._own_reservation(area).owner
        for view in self._core.jobs.views.values():
            if view.spec.reservation_id == area:
                return self._own_job(view.job_id).owner
        return self._own_job(area).owner

    def _limits_of(self, area: str, login: str) -> TaskLimits:
        """What jobs that work in an area may use."""
        kept = self._core.calendar.reservations.get(area)
        of_job = self._core.jobs.classes.get(area, "")
        class_name = of_job if kept is None else kept.resource_class
        return self._core.parts.task_limits.of(class_name, login)

    def _check_readable(self, area: str, path: str) -> None:
        """An area may be read by its owner, and what a handover names by the site that it names."""
        kept = self._core.calendar.reservations.get(area)
        if kept is None or not may_take(self._caller, kept, self._grants(kept), path):
            self._own_area(area)

    def _grants(self, leg: Reservation) -> Iterator[HandoverGrant]:
        """What the jobs of a leg give to other stages."""
        for view in self._core.jobs.views.values():
            is_its_job = view.spec.reservation_id == leg.reservation_id and view.owner == leg.owner
            if is_its_job and view.spec.gives is not None:
                yield view.spec.gives

    def _shown(self, job_id: str) -> JobView:
        view = self._core.view(job_id)
        if is_mine(self._caller, view.owner):
            return view
        hidden = replace(
            view.spec,
            request_id="hidden",
            name="hidden",
            account="hidden",
            argv=("hidden",),
            script="",
            environment=(),
            notify_email="",
            reservation_id="",
            companions=(),
            leg_before="",
            leg_after="",
            handover=None,
            inputs=(),
            relayed_from="",
            gives=None,
            deadline=None,
            budget_millicredits=None,
            estimate_s=None,
        )
        return replace(view, spec=hidden, owner="somebody", reason="", terms=None)

    def _admits(self, reservation_id: str, job: Job) -> bool:
        """True for a reservation of the site whose rule lets the job in, whoever owns it."""
        kept = self._core.calendar.reservations.get(reservation_id)
        if kept is None or kept.owner != SYSTEM_OWNER:
            return False
        return not self._core.scheduler.reservation_jobs.refuses(job, kept)

    def _check_cards(self, spec: JobSpec) -> None:
        """Refuse a job that has this site ask others whom no card proves; ``InputError``."""
        named: list[Named] = [] if spec.race is None else [*spec.race.acceptors]
        if spec.handover is not None:
            named.append(spec.handover)
        self._core.neighbours.check(named, self._core.clock.now())

    def _refuse(self, spec: JobSpec, owner: str) -> Decline | None:
        """Refusals that follow from the reservation the job names."""
        if not spec.reservation_id:
            return None
        now = self._core.clock.now()
        job = Job("", spec.nodes, spec.limit_s, now, owner, spec.account, "", spec)
        if self._admits(spec.reservation_id, job):
            reservation = self._core.calendar.get(spec.reservation_id)
        else:
            reservation = self._own_reservation(spec.reservation_id)
        return refuse_into(self._core, spec, reservation)


def _anonymous(reservation: Reservation) -> Reservation:
    """What strangers see of a reservation: when and how many, not whose and what for."""
    request = replace(
        reservation.request, account="hidden", request_id="hidden", notify_email="", trip=None
    )
    return replace(reservation, owner="somebody", request=request, contact="", job_id="")

"""The calendar port of a site that has only a batch system's commands.

Nothing here promises: each answer is what the batch system says to a command at that moment. What a
calendar does and a batch system cannot is done as far as it goes, and docs/batch-sites.md says how
far: a hold is a reservation that the next run of ours lets go when its lifetime is over, and
availability is the yes or no to some starts.

Every start that is asked about costs a command. So they lie close together where the window begins
and ever farther apart behind (``ladder``), all on round moments: two such sites that are asked the
same question try the same moments, and can have a start in common. Moments at which something known
ends come on top (``candidates``), because that is when room appears.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from gridtravel.gridcore.booking.quotes import GIVES_NONE, refuse_quote
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary, CalendarVersion, SummaryDelta
from gridtravel.gridcore.errors import InputError, NotFoundError, UnavailableError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.ports import ClassDescription, SiteDescription
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion
from gridtravel.gridio.batch.answers import Refusals, one_start
from gridtravel.gridio.batch.batch_jobs import BatchJobs
from gridtravel.gridio.batch.far_book import RESOURCE_CLASS, Entry, Wish, read_entries, to_line
from gridtravel.gridio.batch.job_files import companions_text, read_jobs
from gridtravel.gridio.batch.job_files import to_line as job_line
from gridtravel.gridio.batch.shell import Answer, Shell
from gridtravel.gridio.batch.systems import (
    RESERVATION_PREFIX,
    BatchReservation,
    BatchSystem,
    name_of,
    read_count,
    reservation_name,
)

LEAD_S: Final = 10
"""Starts are offered from so far ahead on: holding, deciding and committing a trip takes some
commands, each of them up to a second or two.
"""
SET_LEAD_S: Final = 2
"""What was offered may be set until so shortly before; the batch system refuses what is past."""
HORIZON_S: Final = 366 * 86_400
LISTED_MAX: Final = 100
"""Reservations of the book that are shown, the newest first."""
HOLD_GRACE_S: Final = 30
"""A hold is let go so long after its lifetime: nobody is in a hurry, and clocks differ."""

ROUND_S: Final = (15, 60, 300, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 604_800)
"""Distances between starts, in seconds: whole parts of a day, or whole days."""
LADDER_MAX: Final = 32
"""Starts of a ladder: 12 span an hour, 23 two weeks; who looks a quarter ahead asks again."""
ENDS_MAX: Final = 24
"""Known ends that are tried on top, the earliest first."""

_LOOK: Final = "b_expire; b_part list; b_list; b_part ends; b_ends; b_part book; b_entry"
_KNOWN: Final = "b_part list; b_list; b_part book; "
_ONE: Final = _KNOWN + 'b_entry "$1"'
_ALL: Final = (
    _KNOWN + f'for b_each in $(ls -t book | head -n {LISTED_MAX}); do b_entry "$b_each"; done'
)
_ROOM: Final = (
    "b_length=$1 b_least=$2 b_most=$3; shift 3; b_part room\n"
    "while [ $# -gt 2 ]; do\n"
    '  printf "%s %s\\n" "$3" "$(b_room "$1" "$2" "$b_length" "$b_least" "$b_most")"; shift 3\n'
    "done"
)
_RESERVE: Final = 'b_part said; b_reserve "$@"; ' + _ONE
_WITH_JOB: Final = _ONE + '; b_part jobs; [ -z "$b_bound" ] || b_job "$b_bound"'
_COMMIT: Final = 'b_part said; b_commit "$@"; ' + _ONE
_RELEASE: Final = 'b_release "$1"'
_HAND_OVER: Final = (
    'grep -l -F -e "\\"reservation_id\\":\\"$3\\"" jobs/*/spec 2> /dev/null | head -n 1'
)
_MOVE: Final = '[ ! -d "areas/$1" ] || [ -e "areas/$2" ] || mv "areas/$1" "areas/$2"'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """One name of ours, in the book and in the batch system."""

    answer: Answer
    entry: Entry | None
    kept: BatchReservation | None


class BatchCalendar:
    """``CalendarPort`` over a batch system's commands, for the account that runs them."""

    def __init__(
        self,
        shell: Shell,
        system: BatchSystem,
        jobs: BatchJobs,
        *,
        site: str,
        features: frozenset[str],
    ) -> None:
        self._shell = shell
        self._system = system
        self._jobs = jobs
        self._site = site
        self._features = features
        self._refuse = Refusals(site, system.name)

    async def describe(self) -> SiteDescription:
        """What can be said of it: its size, its clock, and whom the login is there."""
        answer = await self._shell.ask("b_part size; b_size")
        nodes = self._system.read_size(answer.parts["size"], self._shell.options.queue)
        features = tuple(sorted(self._features))
        return SiteDescription(
            site=self._site,
            is_manager=False,
            classes=(ClassDescription(name=RESOURCE_CLASS, nodes=nodes, features=features),),
            time_zone="UTC",
            time_precise=answer.at,
            lead_s=LEAD_S,
            hold_ttl_max_s=0,
            horizon_s=HORIZON_S,
            millicredits_per_node_hour=0,
            software=f"{self._system.name} by its commands",
            login=answer.user,
        )

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Ask about some starts of each window; see ``candidates``."""
        return [await self._inquire(request) for request in requests]

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: HeldJob | None = None
    ) -> Reservation | Decline:
        """Set a reservation at the first of the starts that can be had, and queue its job there. It
        stays when its lifetime is over, until a later run of ours comes by.
        """
        if job is not None and (refusal := self._jobs.refuse(job.spec)) is not None:
            return refusal
        held = await self._reserve(request, ttl_s)
        if job is None or isinstance(held, Decline) or held.state is not ReservationState.HELD:
            return held
        spec = job.bound(held.reservation_id, {})
        queued = await self._jobs.queue(spec, held, is_held=True)
        if isinstance(queued, Decline):
            await self.release(held.reservation_id)
            return queued
        return held

    async def _reserve(self, request: ReservationRequest, ttl_s: int) -> Reservation | Decline:
        refusal = self._cannot_replace(request)
        if refusal is None and request.quote:
            refusal = refuse_quote(self._site, GIVES_NONE)
        if refusal is not None:
            return refusal
        name = reservation_name(request.request_id)
        found = await self._look(_LOOK + ' "$1"', name)
        now = found.answer.now
        if found.entry is not None:
            again = self._said_again(found, request)
            if again is not None:
                return again
        starts = self._starts(found.answer, request, SET_LEAD_S)
        if isinstance(starts, Decline):
            return starts
        # A trip that its sites decide may be decided already when the lifetime ends.
        is_ours_alone = request.trip is None or not request.trip.acceptors
        until = str(now + ttl_s + HOLD_GRACE_S) if is_ours_alone else ""
        wish = to_line(Wish(request=request, asked_at=now))
        answer = await self._shell.ask(
            _RESERVE,
            name,
            wish,
            until,
            *self._shape(request),
            *self._triples(starts, request),
            account=request.account,
        )
        return self._granted(answer, name, request)

    async def commit(
        self, reservation_id: str, *, manifest: Manifest = NO_CONTACTS
    ) -> Reservation | Decline:
        """Keep a reservation for good; the batch system has had it since ``reserve``. Its job may
        begin from now on, so one that has begun already without it is refused.
        """
        name = name_of(self._site, reservation_id, prefix=RESERVATION_PREFIX)
        found = await self._look(_WITH_JOB, name)
        reservation = self._reservation(found)
        if reservation is not None and reservation.state is ReservationState.HELD:
            words = self._told_with_commit(found, manifest)
            found = await self._look(_COMMIT, name, str(reservation.start), *words)
            reservation = self._reservation(found)
        if reservation is None:
            raise NotFoundError(
                f"{self._site} knows no {reservation_id}",
                hint="it may be over and forgotten; see what there is: gur status",
            )
        if found.answer.lines("said") == ["late"]:
            return self._refuse.decline(
                DeclineRule.STATE,
                f"{reservation_id} has begun without its commit, and its job runs nothing",
            )
        fine = (ReservationState.COMMITTED, ReservationState.COMPLETED)
        if reservation.state not in fine:
            return self._refuse.decline(
                DeclineRule.STATE,
                f"{reservation_id} is gone: it was released, or the site took it away",
            )
        if found.kept is not None and found.kept.is_broken:
            return self._refuse.decline(
                DeclineRule.CHANGED, f"some nodes of {reservation_id} are out of order"
            )
        return reservation

    def _told_with_commit(self, found: _Found, manifest: Manifest) -> tuple[str, str]:
        """``GRID_COMPANIONS`` of the job of a reservation, and the job as it is written down from
        then on; both empty where there is none.
        """
        for each in read_jobs(found.answer.lines("jobs")):
            spec = each.record.spec
            told = replace(
                spec,
                companions=tuple(
                    replace(one, contact=manifest.contact_of(one.leg)) for one in spec.companions
                ),
            )
            text = companions_text(told.companions)
            return text, job_line(replace(each.record, spec=told))
        return "", ""

    async def release(self, reservation_id: str) -> None:
        """Delete it, with the jobs that wait or run in it. An id that is not ours is nobody's."""
        try:
            name = name_of(self._site, reservation_id, prefix=RESERVATION_PREFIX)
        except NotFoundError:
            return
        await self._shell.ask(_RELEASE, name)

    async def release_request(self, request_id: str) -> None:
        """The same by the request, which can book nothing from here on."""
        await self._shell.ask(_RELEASE, reservation_name(request_id))

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """Set another reservation, then delete the old one: both need room for a moment. The files
        move along; a job that was submitted into the old one would be deleted with it.
        """
        if request.quote:
            return refuse_quote(self._site, GIVES_NONE)
        old = name_of(self._site, reservation_id, prefix=RESERVATION_PREFIX)
        new = reservation_name(request.request_id)
        if new == old:
            raise InputError(f"{request.request_id} was used for another request")
        found = await self._look(_ONE + f"; b_part jobs; {_HAND_OVER}", old, new, reservation_id)
        before = self._reservation(found)
        if before is None or not before.state.is_live:
            return self._refuse.decline(
                DeclineRule.STATE, f"{reservation_id} is over or was released"
            )
        if found.answer.lines("jobs"):
            return self._refuse.decline(
                DeclineRule.STATE,
                f"a job was submitted into {reservation_id}, and would go with it",
            )
        granted = await self.reserve(request, ttl_s=0)
        if isinstance(granted, Decline):
            return granted
        after = await self.commit(granted.reservation_id)
        if isinstance(after, Reservation):
            await self._shell.ask(_MOVE, reservation_id, after.reservation_id)
            await self.release(reservation_id)
        return after

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """A batch system keeps no outcome of a trip."""
        raise NotFoundError(
            f"{self._site} has no agent and keeps no outcome: {question.instance}",
            hint="ask a site of the trip that has an agent",
        )

    def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """A batch system publishes nothing."""
        raise NotFoundError(
            f"{self._site} has no agent and publishes no summary", hint="inquire instead"
        )

    # -- also for the site port --------------------------------------------------------------------

    async def dry_run(self, request: ReservationRequest) -> Reservation | Decline:
        """What ``reserve`` would set now."""
        availability = await self._inquire(request)
        if isinstance(availability, Decline):
            return availability
        answer = await self._shell.ask("")
        first = availability.offers[0]
        entry = Entry(
            name=reservation_name(request.request_id),
            wish=Wish(request=request, asked_at=answer.now),
            granted_start=first.start,
            is_committed=True,
        )
        kept = BatchReservation(
            name=entry.name,
            start=first.start,
            end=first.start + request.duration_s,
            nodes=first.nodes,
        )
        made = entry.as_reservation(kept, site=self._site, owner=answer.user, now=answer.now)
        assert made is not None, "it has a start"
        return made

    async def reservations(self) -> list[Reservation]:
        """Those of the account, the newest first."""
        answer = await self._shell.ask(_ALL)
        kept = self._kept(answer)
        found = [
            self._reservation(_Found(answer=answer, entry=entry, kept=kept.get(name)))
            for name, entry in read_entries(answer.lines("book")).items()
        ]
        return [each for each in found if each is not None]

    async def reservation(self, reservation_id: str) -> Reservation:
        """One of the account's; ``NotFoundError`` when there is none."""
        name = name_of(self._site, reservation_id, prefix=RESERVATION_PREFIX)
        reservation = self._reservation(await self._look(_ONE, name))
        if reservation is None:
            raise NotFoundError(
                f"{self._site} knows no {reservation_id}",
                hint="it may be over and forgotten; see what there is: gur status",
            )
        return reservation

    # -- inside ------------------------------------------------------------------------------------

    def _cannot_replace(self, request: ReservationRequest) -> Decline | None:
        """A batch system knows one form of a reservation; a second one beside it would need all of
        its room, and nobody to choose between them.
        """
        if request.replaces is None:
            return None
        return self._refuse.decline(
            DeclineRule.STATE,
            "a batch system cannot hold a change beside what is booked; cancel it and book again",
        )

    async def _inquire(self, request: ReservationRequest) -> Availability | Decline:
        refusal = self._cannot_replace(request)
        if refusal is not None:
            return refusal
        looked = await self._shell.ask("b_expire; b_part ends; b_ends")
        starts = self._starts(looked, request, LEAD_S)
        if isinstance(starts, Decline):
            return starts
        answer = await self._shell.ask(
            _ROOM,
            *self._shape(request),
            *self._triples(starts, request),
            account=request.account,
        )
        offers, refusals = [], []
        for line in answer.lines("room"):
            start, verdict, words = [*line.split(" ", 2), ""][:3]
            if verdict == "room" and (nodes := read_count(words)) >= request.nodes_min:
                offers.append(one_start(read_count(start), nodes))
            else:
                refusals.append(self._system.read_refusal(words))
        if not offers:
            return self._refuse.no_room(request, refusals)
        version = CalendarVersion(epoch=self._site, number=answer.now)
        return Availability(offers=tuple(offers), version=version, known_until=starts[-1] + 1)

    def _starts(
        self, answer: Answer, request: ReservationRequest, lead_s: int
    ) -> list[Instant] | Decline:
        """The starts to try, or why the request cannot be served at all."""
        missing = [each for each in request.features if each not in self._features]
        if missing:
            return self._refuse.decline(
                DeclineRule.FEATURES, f"its nodes are not known to have {', '.join(missing)}"
            )
        soonest = answer.now + lead_s
        first, last = max(request.earliest_start, soonest), request.latest_end - request.duration_s
        if first > last:
            return self._refuse.decline(
                DeclineRule.START_TOO_SOON,
                f"a start must be at least {lead_s} s ahead: not before {format_utc(soonest)}",
                earliest=soonest,
            )
        return candidates(first, last, self._system.read_ends(answer.parts.get("ends", "")))

    def _said_again(
        self, found: _Found, request: ReservationRequest
    ) -> Reservation | Decline | None:
        """The answer to a request id that is known; ``None``: it was refused before, so try."""
        assert found.entry is not None
        if found.entry.wish.request != request:
            raise InputError(f"{request.request_id} was used for another request")
        reservation = self._reservation(found)
        if found.entry.is_released or (reservation is not None and not reservation.state.is_live):
            return self._refuse.finished(request)
        return reservation

    def _granted(
        self, answer: Answer, name: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """What the far end made of the starts it was to try."""
        lines = answer.lines("said")
        if lines[-1:] == ["finished"]:
            return self._refuse.finished(request)
        if lines[-1:] == ["busy"]:
            raise UnavailableError(
                f"{self._site} is still at work on {request.request_id}", hint="ask again"
            )
        found = self._found(answer, name)
        reservation = self._reservation(found) if found.kept is not None else None
        if reservation is not None:
            return reservation
        refusals = [self._system.read_refusal(line.partition(" no ")[2]) for line in lines]
        return self._refuse.no_room(request, refusals)

    def _shape(self, request: ReservationRequest) -> tuple[str, str, str]:
        return str(request.duration_s), str(request.nodes_min), str(request.nodes_max)

    def _triples(self, starts: Sequence[Instant], request: ReservationRequest) -> list[str]:
        """Start and end as the commands take them, and the start as we do."""
        stamp = self._system.stamp
        return [
            word
            for start in starts
            for word in (stamp(start), stamp(start + request.duration_s), str(start))
        ]

    async def _look(self, body: str, name: str, *more: str) -> _Found:
        return self._found(await self._shell.ask(body, name, *more), name)

    def _found(self, answer: Answer, name: str) -> _Found:
        entry = read_entries(answer.lines("book")).get(name)
        return _Found(answer=answer, entry=entry, kept=self._kept(answer).get(name))

    def _kept(self, answer: Answer) -> dict[str, BatchReservation]:
        return {each.name: each for each in self._system.read_list(answer.parts["list"])}

    def _reservation(self, found: _Found) -> Reservation | None:
        if found.entry is None:
            return None
        return found.entry.as_reservation(
            found.kept, site=self._site, owner=found.answer.user, now=found.answer.now
        )


def ladder(first: Instant, last: Instant) -> list[Instant]:
    """Starts from ``first`` to ``last``, at most ``LADDER_MAX``; both are among them unless it is
    longer.
    """
    if last < first:
        return []
    starts, at = [first], first
    while len(starts) < LADDER_MAX:
        step_s = next((each for each in ROUND_S if 2 * each >= at - first), ROUND_S[-1])
        at = (at // step_s + 1) * step_s
        if at >= last:
            break
        starts.append(at)
    if last != first and len(starts) < LADDER_MAX:
        starts.append(last)
    return starts


def candidates(first: Instant, last: Instant, ends: Iterable[Instant]) -> list[Instant]:
    """The ladder, and those of ``ends`` that lie within, in order."""
    inside = islice(sorted({each for each in ends if first < each <= last}), ENDS_MAX)
    return sorted({*ladder(first, last), *inside})

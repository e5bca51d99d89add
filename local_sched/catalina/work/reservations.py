"""What ``catalina`` does with reservations. Each function is one command; none prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gridtravel.gridcore.booking.reservations import (
    Decline,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.errors import (
    ConflictError,
    GridError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridio.cli_frame import EXIT_DECLINED, code_of
from gridtravel.local_sched.catalina.answers import Answer, error_object
from gridtravel.local_sched.catalina.json_forms import decline_json, offer_json, reservation_json
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.tables import (
    decline_lines,
    offers_table,
    reservation_lines,
    reservations_table,
)
from gridtravel.local_sched.catalina.words import read_account, read_ids, read_user
from gridtravel.local_sched.catalina.work.reservation_requests import (
    ReservationWords,
    as_said_first,
    changed_request,
    new_request,
)

OFFERS_SHOWN = 40


async def set_reservation(session: Session, words: ReservationWords, *, dry_run: bool) -> Answer:
    """``set-res``: reserve at the earliest start that the queue and the site's limits allow."""
    notes: list[str] = []
    known = await _known_request(session, words)
    request = as_said_first(
        session,
        known,
        lambda then: new_request(then, words, notes if then is session else []),
    )
    granted = await session.site.set_reservation(request, is_dry_run=dry_run)
    if isinstance(granted, Decline):
        return declined(session, granted, notes)
    return _granted(session, granted, notes, dry_run=dry_run)


async def modify_reservation(
    session: Session, reservation_id: str, words: ReservationWords, *, dry_run: bool
) -> Answer:
    """``modify-res``: another window or size in one step; refused, the old stays."""
    notes: list[str] = []
    (wanted,) = read_ids([reservation_id], "reservation")
    old = await own_reservation(session, wanted)
    if words == ReservationWords(request_id=words.request_id):
        raise InputError("nothing is to be changed", hint="see: catalina modify-res --help")
    if old.state is not ReservationState.COMMITTED:
        raise ConflictError(
            f"reservation {wanted} is {old.state} and cannot be changed",
            hint="make another one: catalina set-res",
        )
    request = as_said_first(
        session,
        old.request if old.request.request_id == words.request_id else None,
        lambda then: changed_request(then, old, words, notes if then is session else []),
    )
    if not dry_run:
        answer = await session.calendar.amend(wanted, request)
    elif old.start <= session.now:
        raise InputError(
            f"reservation {wanted} is running, and only the change itself can tell",
            hint="leave out --dry-run; when the change is refused, all stays as it is",
        )
    else:
        answer = await session.site.set_reservation(
            replace(request, replaces=wanted), is_dry_run=True
        )
    if isinstance(answer, Decline):
        return declined(session, answer, [*notes, f"reservation {wanted} stays as it was"])
    return _granted(session, replace(answer, reservation_id=wanted), notes, dry_run=dry_run)


async def cancel_reservations(session: Session, words: Sequence[str]) -> Answer:
    """``cancel-res``: each of them, past single errors, and the exit code tells of these."""
    ids = read_ids(words, "reservation")
    known = await _all_reservations(session)
    results: list[dict[str, Any]] = []
    lines: list[str] = []
    faults: list[GridError] = []
    for each in ids:
        if faults and isinstance(faults[-1], UnavailableError):
            # The others would fail the same way, and each would be waited for.
            results.append({"reservation": each, "cancelled": False, **error_object(faults[-1])})
            continue
        try:
            lines.append(await _cancel(session, each, known.get(each)))
            results.append({"reservation": each, "cancelled": True})
        except GridError as fault:
            faults.append(fault)
            results.append({"reservation": each, "cancelled": False, **error_object(fault)})
    return Answer(
        as_object={"results": results}, shown=lines, faults=faults, exit_code=code_of(faults)
    )


async def _cancel(session: Session, reservation_id: str, known: Reservation | None) -> str:
    """A site lets anything be released, also what it never had; who cancels wants to know."""
    if known is None:
        raise _not_found(reservation_id)
    if known.state is ReservationState.COMPLETED:
        raise ConflictError(
            f"reservation {reservation_id} cannot be cancelled: its time is over",
            hint="see: catalina show-res --over",
        )
    await session.calendar.release(reservation_id)
    if not known.state.is_live:
        return f"reservation {reservation_id} was {known.state} already"
    return f"reservation {reservation_id} is cancelled"


async def bind_reservation(
    session: Session, reservation_id: str, words: Sequence[str], *, undo: bool
) -> Answer:
    """``bind-res`` and ``unbind-res``: only the jobs listed may use the reservation."""
    (wanted,) = read_ids([reservation_id], "reservation")
    jobs = read_ids(words, "job")
    await (session.site.unbind if undo else session.site.bind)(wanted, jobs)
    listed = (await _bindings(session))["reservations"].get(wanted, [])
    line = f"reservation {wanted} is kept for {', '.join(listed)}"
    if not listed:
        line = f"reservation {wanted} is its owner's again"
    return Answer(as_object={"reservation": wanted, "jobs": listed}, shown=[line])


async def bind_job(session: Session, job_id: str, words: Sequence[str], *, undo: bool) -> Answer:
    """``bind-job`` and ``unbind-job``: the job runs in one of these reservations or not at all."""
    (wanted,) = read_ids([job_id], "job")
    reservations = read_ids(words, "reservation")
    await (session.site.unbind_job if undo else session.site.bind_job)(wanted, reservations)
    listed = (await _bindings(session))["jobs"].get(wanted, [])
    line = f"job {wanted} runs only in {', '.join(listed)}"
    if not listed:
        line = f"job {wanted} is in the open queue"
    return Answer(as_object={"job": wanted, "reservations": listed}, shown=[line])


async def show_reservations(
    session: Session,
    words: Sequence[str],
    *,
    user: str,
    account: str,
    mine: bool,
    over: bool,
) -> Answer:
    """``show-res``: everybody's, or those named with all there is to know of them."""
    user, account = read_user(user), read_account(account)
    found = await session.site.reservations(everybody=not mine)
    if words:
        ids = read_ids(words, "reservation")
        by_id = {each.reservation_id: each for each in found}
        missing = [key for key in ids if key not in by_id]
        if missing:
            raise _not_found(missing[0])
        found = [by_id[key] for key in ids]
    elif not over:
        found = [each for each in found if each.state.is_live]
    found = [
        each
        for each in found
        if (not user or each.owner == user) and (not account or each.request.account == account)
    ]
    bindings = await _bindings(session)
    bound, named = bindings["reservations"], bindings["node_names"]
    now = session.now
    objects = [
        reservation_json(each, now, bound.get(each.reservation_id, []))
        | {"node_names": named.get(each.reservation_id, [])}
        for each in found
    ]
    shown: list[Any] = []
    if words:
        for each in found:
            shown += reservation_lines(each, session, bound.get(each.reservation_id, []))
            if names := named.get(each.reservation_id):
                shown.append(f"  these    {', '.join(names)}")
    elif found:
        shown = [reservations_table(found, session, bound)]
    else:
        shown = ["no reservations"]
    return Answer(as_object={"reservations": objects}, shown=shown)


async def show_windows(session: Session, words: ReservationWords) -> Answer:
    """``show-windows``: where a user-settable reservation of this shape would be granted now."""
    notes: list[str] = []
    request = new_request(session, words, notes)
    (found,) = await session.calendar.inquire([request])
    if isinstance(found, Decline):
        return declined(session, found, notes)
    shown = offers_table(found.offers[:OFFERS_SHOWN], session)
    if len(found.offers) > OFFERS_SHOWN:
        notes.append(f"the first {OFFERS_SHOWN} of {len(found.offers)} windows; --json has all")
    if found.known_until + request.duration_s <= min(
        request.latest_end, session.now + session.description.horizon_s
    ):
        notes.append("the answer was cut; ask again with a later --earliest-start")
    return Answer(
        as_object={"windows": [offer_json(each) for each in found.offers]},
        shown=[shown],
        notes=notes,
    )


def declined(session: Session, decline: Decline, notes: Sequence[str]) -> Answer:
    """A refusal: which rule, and what would pass."""
    return Answer(
        as_object=decline_json(decline),
        shown=decline_lines(decline, session),
        notes=notes,
        exit_code=EXIT_DECLINED,
    )


def _granted(
    session: Session, reservation: Reservation, notes: Sequence[str], *, dry_run: bool
) -> Answer:
    as_object = reservation_json(reservation, session.now)
    lines = reservation_lines(reservation, session, [])
    if dry_run:
        as_object |= {"reservation": None, "dry_run": True}
        lines = ["would be granted; nothing was changed", *lines[1:]]
    return Answer(as_object=as_object, shown=lines, notes=notes)


async def own_reservation(session: Session, reservation_id: str) -> Reservation:
    """One of the caller's; whose it is, or that there is none, is told apart."""
    for each in await session.site.reservations(everybody=False):
        if each.reservation_id == reservation_id:
            return each
    if reservation_id in await _all_reservations(session):
        raise NotAuthorisedError(
            f"reservation {reservation_id} belongs to somebody else",
            hint="see yours: catalina show-res --mine",
        )
    raise _not_found(reservation_id)


async def _known_request(session: Session, words: ReservationWords) -> ReservationRequest | None:
    """What the caller asked for under this id before; ``None``: nothing that is still known."""
    if not words.request_id:
        return None
    mine = await session.site.reservations(everybody=False)
    asked = (each.request for each in mine if each.request.request_id == words.request_id)
    return next(asked, None)


async def _all_reservations(session: Session) -> Mapping[str, Reservation]:
    found = await session.site.reservations(everybody=True)
    return {each.reservation_id: each for each in found}


async def _bindings(session: Session) -> dict[str, dict[str, list[str]]]:
    found = await session.site.query("bindings", {})
    if not isinstance(found, dict):
        raise GridError(
            "the site's list of bindings cannot be read",
            hint="the site's agent is of another version: ask whoever runs it",
        )
    return {key: dict(found.get(key, {})) for key in ("reservations", "jobs", "node_names")}


def _not_found(reservation_id: str) -> NotFoundError:
    return NotFoundError(
        f"there is no reservation {reservation_id!r}", hint="see: catalina show-res --over"
    )

"""Who may do what at a node, beyond owning things."""

from __future__ import annotations

from collections.abc import Iterable

from gridtravel.gridcore.booking.reservations import Reservation, ReservationRequest
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import NotAuthorisedError
from gridtravel.gridcore.jobs.handovers import HandoverGrant
from gridtravel.gridio.trust.identity import GridIdentity
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER

DEFAULT_ACCOUNT = "default"
"""The account named by a request that leaves the choice to the site."""


def require_login(caller: Caller, verb: str) -> str:
    """The caller's owner name; ``NotAuthorisedError`` for somebody whom the site maps to nobody."""
    if caller.owner == SYSTEM_OWNER:
        raise NotAuthorisedError(
            f"the name {SYSTEM_OWNER!r} is the site's own, and nobody may {verb} as it",
            hint="have whoever runs the site map you to a login of yours",
        )
    if not caller.login:
        raise NotAuthorisedError(
            f"{caller.subject} is known here, but mapped to no account, and may not {verb}",
            hint="ask the site for an entry in its grid-mapfile",
        )
    return caller.owner


def account_of(caller: Caller, wanted: str, *, is_paid: bool = False) -> str:
    """The account to charge: the one wanted, or the caller's first where the site may choose.

    Whom no accounts are named for may write any on what he books. ``is_paid``: accounts have
    credits here, and then there is his own and no other.
    """
    if wanted in ("", DEFAULT_ACCOUNT):
        return caller.accounts[0] if caller.accounts else caller.owner
    if wanted == SYSTEM_OWNER:
        raise NotAuthorisedError(
            f"the account {SYSTEM_OWNER!r} is the site's own",
            hint="administrators: catalina create-system-res",
        )
    if not caller.may_charge(wanted) or (
        is_paid and not caller.accounts and wanted != caller.owner
    ):
        known = ", ".join(caller.accounts or (caller.owner,))
        raise NotAuthorisedError(
            f"{caller.login} may not charge the account {wanted!r}", hint=f"yours here: {known}"
        )
    return wanted


def came_through(request: ReservationRequest, manager: Caller) -> bool:
    """True for what ``manager`` has asked for on behalf of somebody. Managers write themselves into
    a request that they pass on, and nobody can write there for them: this is asked of each request.
    """
    identity = GridIdentity.parse(manager.subject)
    return bool(request.beneficiary) and identity is not None and identity.name in request.via


def is_mine(caller: Caller, owner: str) -> bool:
    """True for what the caller owns; of an administrator's view for everything."""
    if caller.role is Role.ADMIN:
        return True
    return bool(caller.login) and owner == caller.owner


def travels_with(caller: Caller, reservation: Reservation) -> bool:
    """True for another site that travels with the trip which the reservation belongs to: it may ask
    how the leg has ended.
    """
    trip = reservation.request.trip
    return bool(caller.site) and trip is not None and caller.site in trip.participants


def may_take(
    caller: Caller, reservation: Reservation, grants: Iterable[HandoverGrant], path: str
) -> bool:
    """True for another site of the trip that the leg's own job hands this path over to. What
    nobody was promised, such as the leg's output, stays with its owner.
    """
    return travels_with(caller, reservation) and any(
        each.site == caller.site and each.covers(path) for each in grants
    )

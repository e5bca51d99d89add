"""Who a caller is, and what it may do: from what the channel proves to login, accounts and role."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.agents.ports.access import (
    DEFAULT_ACCOUNT,
    account_of,
    came_through,
    is_mine,
    may_take,
    require_login,
    travels_with,
)
from gridtravel.gridcore.booking.reservations import TripRef
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import NotAuthorisedError
from gridtravel.gridcore.jobs.handovers import HandoverGrant
from gridtravel.gridio.rpc.server.peers import Peer, map_caller
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER
from tests.support.builders import a_request, a_reservation

USERS, MANAGERS, SITES = "/O=grid/OU=users/CN=", "/O=grid/OU=managers/CN=", "/O=grid/OU=sites/CN="
MAP = GridMap(
    [
        grid_map_entry(f"{USERS}ada", ["ada", "physics", "chemistry"]),
        grid_map_entry(f"{USERS}ada2", ["ada", "biology", "physics"]),
        grid_map_entry(f"{USERS}root", ["root"]),
        grid_map_entry(f"{MANAGERS}north", ["@manager"]),
        grid_map_entry(f"{SITES}beta", ["@site"]),
        grid_map_entry("/C=US/CN=old grid", ["old"]),
    ]
)


def by_certificate(subject: str, admins: tuple[str, ...] = ()) -> Caller:
    """Over TLS."""
    return map_caller(Peer(subject=subject, address="10.0.0.1"), MAP, admins)


def by_login(login: str, admins: tuple[str, ...] = ()) -> Caller:
    """Over the local socket."""
    return map_caller(Peer(login=login, address="local"), MAP, admins)


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (
            by_certificate(f"{USERS}ada"),
            ("ada", ("ada", "physics", "chemistry"), Role.USER, "", "ada"),
        ),
        (by_certificate(f"{USERS}eve"), ("", (), Role.USER, "", f"{USERS}eve")),
        (by_certificate("/C=US/CN=old grid"), ("old", ("old",), Role.USER, "", "old")),
        (by_certificate(f"{MANAGERS}north"), ("", (), Role.MANAGER, "", f"{MANAGERS}north")),
        (by_certificate(f"{MANAGERS}south"), ("", (), Role.USER, "", f"{MANAGERS}south")),
        (by_certificate(f"{SITES}beta"), ("", (), Role.SITE, "beta", f"{SITES}beta")),
        (by_certificate(f"{SITES}gamma"), ("", (), Role.SITE, "gamma", f"{SITES}gamma")),
        (
            by_certificate(f"{USERS}ada", ("ada",)),
            ("ada", ("ada", "physics", "chemistry"), Role.ADMIN, "", "ada"),
        ),
        (by_certificate(f"{USERS}eve", ("", "eve")), ("", (), Role.USER, "", f"{USERS}eve")),
        (
            by_login("ada"),
            ("ada", ("ada", "physics", "chemistry", "biology"), Role.USER, "", "ada"),
        ),
        (by_login("eve"), ("eve", ("eve",), Role.USER, "", "eve")),
        (by_login("root", ("root",)), ("root", ("root",), Role.ADMIN, "", "root")),
        (by_login("ada", ("root",)).role, Role.USER),
    ],
)
def test_who_is_who(caller: Caller | Role, expected: object) -> None:
    """Login, accounts, role and site of whatever a channel can prove: a manager is one only where
    the file says so, a site by its certificate alone, an administrator by a login that is mapped.
    """
    if isinstance(caller, Caller):
        told = (caller.login, caller.accounts, caller.role, caller.site, caller.owner)
        assert told == expected
    else:
        assert caller is expected


def test_a_peer_has_one_name() -> None:
    """The subject, or the login with its mark, so that neither can be taken for the other."""
    assert (
        Peer(subject=f"{USERS}ada").name == f"{USERS}ada" == by_certificate(f"{USERS}ada").subject
    )
    assert Peer(login="ada").name == "login:ada" == by_login("ada").subject


def test_an_action_needs_a_login() -> None:
    """Whoever is mapped to nobody may only look, and nobody is the site itself."""
    assert require_login(by_login("ada"), "reserve") == "ada"
    with pytest.raises(NotAuthorisedError, match="mapped to no account"):
        require_login(by_certificate(f"{USERS}eve"), "reserve")
    for caller in (by_login(SYSTEM_OWNER), Caller(subject=SYSTEM_OWNER)):
        with pytest.raises(NotAuthorisedError, match="the site's own"):
            require_login(caller, "reserve")


def test_an_account_must_be_the_callers() -> None:
    """Where the site may choose it is the first one; the site's own account is nobody's."""
    ada = by_certificate(f"{USERS}ada")
    assert [account_of(ada, each) for each in ("", DEFAULT_ACCOUNT)] == ["ada", "ada"]
    assert account_of(ada, "physics") == "physics"
    for wanted in ("biology", "Physics", "ada2"):
        with pytest.raises(NotAuthorisedError, match="may not charge"):
            account_of(ada, wanted)
    anything = Caller(subject="login:tim", login="tim")
    assert account_of(anything, "") == "tim"
    assert account_of(anything, "physics") == "physics"
    assert anything.may_charge("physics")
    assert not ada.may_charge("biology")
    for caller in (ada, anything, replace(ada, accounts=(SYSTEM_OWNER,))):
        with pytest.raises(NotAuthorisedError, match="the site's own"):
            account_of(caller, SYSTEM_OWNER)


def test_a_manager_has_what_came_through_it() -> None:
    """On behalf of somebody, and with its own name among those that passed the request on."""
    request = a_request(beneficiary=f"{USERS}ada", via=("top", "north"))
    assert came_through(request, by_certificate(f"{MANAGERS}north"))
    assert not came_through(request, by_certificate(f"{MANAGERS}south"))
    assert not came_through(replace(request, via=("top",)), by_certificate(f"{MANAGERS}north"))
    assert not came_through(replace(request, beneficiary=""), by_certificate(f"{MANAGERS}north"))
    assert not came_through(request, Caller(subject="north", role=Role.MANAGER))


def test_owners_and_administrators_see_all_of_a_thing() -> None:
    """Whoever is mapped to nobody owns nothing, not even under their own subject."""
    assert is_mine(by_login("ada"), "ada")
    assert not is_mine(by_login("ada"), "eve")
    assert is_mine(by_login("root", ("root",)), "eve")
    stranger = by_certificate(f"{USERS}eve")
    assert not is_mine(stranger, stranger.owner)


def test_sites_of_a_trip_may_ask_how_its_legs_ended() -> None:
    """The reservation's own trip leads there; another site, or a plain reservation, is not told."""
    trip = TripRef(trip_id="t", leg="a", participants=("lab", "beta"))
    leg = a_reservation(request=a_request(trip=trip))
    assert travels_with(by_certificate(f"{SITES}beta"), leg)
    assert not travels_with(by_certificate(f"{SITES}gamma"), leg)
    assert not travels_with(by_certificate(f"{USERS}ada"), leg)
    assert not travels_with(by_certificate(f"{SITES}beta"), a_reservation())
    nameless = a_reservation(request=a_request(trip=replace(trip, participants=("",))))
    assert not travels_with(by_certificate(f"{USERS}ada"), nameless)


def test_sites_of_a_trip_may_take_what_the_leg_hands_over() -> None:
    """Nothing else of it, and no other site that."""
    trip = TripRef(trip_id="t", leg="a", participants=("lab", "beta", "gamma"))
    leg = a_reservation(request=a_request(trip=trip))
    grants = (HandoverGrant(leg="b", site="beta", paths=("out",)),)
    beta, gamma = (by_certificate(f"{SITES}{name}") for name in ("beta", "gamma"))
    assert may_take(beta, leg, grants, "out")
    assert may_take(beta, leg, grants, "out/deep/file")
    assert not may_take(beta, leg, grants, "outside")
    assert not may_take(beta, leg, grants, "stdout")
    assert not may_take(gamma, leg, grants, "out")
    assert not may_take(beta, a_reservation(), grants, "out")

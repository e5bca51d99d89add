"""Who gets a connection: the rules of the front door, without a socket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridio.rpc.refusal_line import LINE_BYTES_MAX, refusal_in, refusal_line
from gridtravel.gridio.rpc.server.admission import (
    DESCRIPTORS_EACH,
    DESCRIPTORS_KEPT,
    HANDSHAKE_S,
    Admission,
    ConnectionLimits,
    Guest,
    Refused,
    network_of,
)
from gridtravel.gridio.rpc.server.connections_table import ConnectionsTable

SMALL = ConnectionLimits(
    per_login=2, local=3, administrators=1, per_address=2, unproven=3, per_certificate=1, network=2
)
ADA, GRACE, MARY, ROOT = 1001, 1002, 1003, 0


def comes(admission: Admission, uid: int, now: float = 0.0) -> Guest | Refused:
    """Somebody at the local socket."""
    return admission.admit_local(uid, login=f"uid {uid}", is_admin=uid == ROOT, now=now)[0]


def asked(guest: Guest | Refused) -> Guest:
    """Somebody who was let in, and has asked something."""
    assert isinstance(guest, Guest), guest
    guest.has_asked = True
    return guest


def test_a_login_cannot_take_the_places_of_others() -> None:
    """Over its own limit a login is told so; another one gets in."""
    admission = Admission(SMALL)
    for _ in range(2):
        asked(comes(admission, ADA))
    refused = comes(admission, ADA)
    assert isinstance(refused, Refused)
    assert "uid 1001 has 2 connections" in refused.reason
    assert isinstance(comes(admission, GRACE), Guest)


def test_places_are_kept_for_administrators() -> None:
    """When all ordinary places are taken, an administrator still gets in, and nobody else."""
    admission = Admission(SMALL)
    for uid in (ADA, ADA, GRACE):
        asked(comes(admission, uid))
    assert isinstance(comes(admission, MARY), Refused)
    kept = asked(comes(admission, ROOT))
    assert kept.is_reserved
    assert isinstance(comes(admission, ROOT), Refused)
    admission.gone(kept)
    assert isinstance(comes(admission, MARY), Refused)
    assert isinstance(comes(admission, ROOT), Guest)


def test_who_says_nothing_makes_way() -> None:
    """A place that has been silent for longer than a handshake goes to a newcomer of the login."""
    admission = Admission(SMALL)
    first = comes(admission, ADA)
    comes(admission, ADA)
    assert isinstance(comes(admission, ADA, HANDSHAKE_S / 2), Refused)
    guest, leaves = admission.admit_local(ADA, login="ada", is_admin=False, now=HANDSHAKE_S)
    assert isinstance(guest, Guest)
    assert leaves is first
    admission.validate()


def test_an_address_counts_until_a_certificate_is_proven() -> None:
    """Many who prove themselves may share an address; few who do not."""
    admission = Admission(SMALL)
    for subject in ("/CN=ada", "/CN=grace"):
        guest, _ = admission.admit_from("192.0.2.7", 0.0)
        assert isinstance(guest, Guest)
        assert admission.proven(guest, subject) is None
    for _ in range(2):
        assert isinstance(admission.admit_from("192.0.2.7", 0.0)[0], Guest)
    refused, _ = admission.admit_from("192.0.2.7", 0.0)
    assert isinstance(refused, Refused)
    assert "192.0.2.7" in refused.reason
    assert isinstance(admission.admit_from("192.0.2.8", 0.0)[0], Guest)


def test_a_certificate_has_its_own_limit() -> None:
    """Also from many addresses; and all certificates together have one."""
    admission = Admission(SMALL)
    guests = [admission.admit_from(f"192.0.2.{number}", 0.0)[0] for number in range(3)]
    first, second, third = (each for each in guests if isinstance(each, Guest))
    assert admission.proven(first, "/CN=ada") is None
    assert admission.proven(first, "/CN=ada") is None
    over = admission.proven(second, "/CN=ada")
    assert over is not None
    assert "/CN=ada has 1 connections" in over.reason
    assert admission.proven(second, "/CN=grace") is None
    full = admission.proven(third, "/CN=mary")
    assert full is not None
    assert "all 2 places" in full.reason


def test_from_many_addresses_the_oldest_silent_one_makes_way() -> None:
    """A flood from everywhere takes turns; it does not shut the door."""
    admission = Admission(SMALL)
    first, _ = admission.admit_from("192.0.2.1", 0.0)
    for number in (2, 3):
        admission.admit_from(f"192.0.2.{number}", 1.0)
    assert isinstance(admission.admit_from("192.0.2.4", HANDSHAKE_S / 2)[0], Refused)
    guest, leaves = admission.admit_from("192.0.2.4", HANDSHAKE_S)
    assert isinstance(guest, Guest)
    assert leaves is first


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["local", "network", "asks", "goes"]),
            st.integers(0, 5),
            st.floats(0, 3),
        ),
        max_size=60,
    )
)
def test_sums_are_right_and_bounds_hold(story: list[tuple[str, int, float]]) -> None:
    """Whatever happens in whatever order, nobody counts twice and no bound is passed."""
    admission = Admission(SMALL)
    seen: list[Guest] = []
    now = 0.0
    for what, who, pause_s in story:
        now += pause_s
        found: Guest | Refused | None = None
        if what == "local":
            found = comes(admission, who, now)
        elif what == "network":
            found, _ = admission.admit_from(f"192.0.2.{who}", now)
        elif seen and what == "asks":
            guest = seen[who % len(seen)]
            if guest.uid is None:
                admission.proven(guest, f"/CN={who}")
            else:
                guest.has_asked = True
        elif seen:
            admission.gone(seen[who % len(seen)])
        if isinstance(found, Guest):
            seen.append(found)
        admission.validate()
        local = [each for each in admission.guests if each.uid is not None]
        assert len(local) <= SMALL.local + SMALL.administrators
        assert len(admission.guests) - len(local) <= SMALL.unproven + SMALL.network


def test_ipv6_counts_by_network() -> None:
    """One machine has all addresses of a /64; a mapped IPv4 address is that address."""
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("somewhere") == "somewhere"


def test_limits_fit_into_the_descriptors() -> None:
    """Where a process may have few files open, there are fewer places, and a note says so."""
    full = ConnectionLimits()
    assert full.within(full.descriptors + DESCRIPTORS_KEPT) == full
    few = full.within(1024)
    assert few.descriptors + DESCRIPTORS_KEPT <= 1024 + DESCRIPTORS_EACH * full.administrators
    assert few.administrators == full.administrators
    limits, note = ConnectionsTable()._within(1024)
    assert limits == few
    assert "LimitNOFILE" in note
    assert ConnectionsTable()._within(1 << 20) == (full, "")
    with pytest.raises(InputError, match="per_login"):
        ConnectionLimits(per_login=0)


def test_the_line_that_turns_away() -> None:
    """It is read as it was written, bounded, and shown as text."""
    fault = refusal_in(refusal_line("too many", "wait"), "Describe at lab")
    assert isinstance(fault, UnavailableError)
    assert (fault.message, fault.hint) == ("Describe at lab: too many", "wait")
    assert len(refusal_line("\U0001f600" * 500, "x" * 500)) <= LINE_BYTES_MAX
    rude = refusal_in(refusal_line("a\r\x1b[2Jb", "c"), "x")
    assert rude is not None
    assert rude.message == "x: a??[2Jb"
    assert refusal_in(b"HTTP/1.1 400", "x") is None
    for broken in (b"grid-refused 1 {", b"grid-refused 1 []", b'grid-refused 1 {"reason":1}\n'):
        assert isinstance(refusal_in(broken, "x"), UnavailableError)

"""What the legs of a trip are told of each other with the commit."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.manifests import MANIFEST_LEGS_MAX, Manifest


def test_the_same_contacts_make_the_same_manifest() -> None:
    """It is part of a value that is compared: the order in which holds came does not show."""
    one = Manifest(contacts=(("sea", "lab:21000"), ("air", "[::1]:21001")))
    other = Manifest(contacts=(("air", "[::1]:21001"), ("sea", "lab:21000")))
    assert one == other
    assert hash(one) == hash(other)
    assert one.contact_of("sea") == "lab:21000"


def test_an_empty_manifest_knows_nobody() -> None:
    """Trips without tasks have one too."""
    assert Manifest().contact_of("sea") == ""


@pytest.mark.parametrize(
    "contacts",
    [
        (("sea", "lab"),),
        (("sea", ":1"),),
        (("sea", "lab:0"),),
        (("sea", "lab:65536"),),
        (("sea", "lab:x"),),
        (("sea", "l\x1bab:1"),),
        (("sea", "l" * 300 + ":1"),),
        (("", "lab:1"),),
        (("a leg", "lab:1"),),
        (("sea", "lab:1"), ("sea", "lab:2")),
        tuple((f"leg{n}", "lab:1") for n in range(MANIFEST_LEGS_MAX + 1)),
    ],
)
def test_what_is_no_manifest_is_refused(contacts: tuple[tuple[str, str], ...]) -> None:
    """It comes from strangers: names, addresses and their number have bounds."""
    with pytest.raises(InputError):
        Manifest(contacts=contacts)

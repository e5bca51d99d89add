from __future__ import annotations

import itertools
import string

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridio.trust.credentials import Credential, check_credential
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, parse_grid_map, render_grid_map
from gridtravel.gridio.trust.identity import GridIdentity, Role, read_certificate
from tests.support.certificate_scenes import NOW, a_user, an_authority

ACCOUNTS = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=12)
PRINTABLE = st.characters(exclude_categories=["C", "Z"], include_characters=" ")
SUBJECTS = st.text(PRINTABLE, min_size=1, max_size=20).map(lambda text: f"/CN={text}")
LINES = st.dictionaries(
    SUBJECTS, st.lists(ACCOUNTS, min_size=1, max_size=4, unique=True), max_size=6
)
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", fullmatch=True)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Credential:
    """One good credential, made once: making keys is the slow part."""
    folder = tmp_path_factory.mktemp("grid")
    return a_user(an_authority(folder), folder)


@given(lines=LINES)
def test_writing_and_reading_a_map_gives_the_same_map(lines: dict[str, list[str]]) -> None:
    """render is the inverse of parse, whatever printable characters a subject contains."""
    grid_map = GridMap(grid_map_entry(subject, names) for subject, names in lines.items())
    assert parse_grid_map(render_grid_map(grid_map)).entries == grid_map.entries


@given(text=st.text(alphabet=st.sampled_from('"/\\O=a ,@#\n\t\x00\u2028é'), max_size=60))
def test_no_text_crashes_the_parser(text: str) -> None:
    """Any text is a map or one InputError with a line number."""
    message = "grid-mapfile, line "
    try:
        parse_grid_map(text)
    except InputError as fault:
        message = str(fault)
    assert message.startswith("grid-mapfile, line ")
    assert "\n" not in message


@given(grid=NAMES, role=st.sampled_from(list(Role)), name=NAMES)
def test_identity_and_subject_are_one_to_one(grid: str, role: Role, name: str) -> None:
    """Parsing the subject of an identity gives the identity back."""
    identity = GridIdentity(grid=grid, role=role, name=name)
    assert GridIdentity.parse(identity.subject) == identity


# The parser warns of a serial below zero, which some of these have, and goes on.
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_a_changed_byte_is_noticed_and_never_crashes(user: Credential) -> None:
    """One wrong byte in what was signed is noticed; anywhere else it is at least no crash.

    Around the signed part an encoding may differ and mean the same, such as unused bits of the
    signature's bit string.
    """
    certificate = read_certificate(user.cert_pem)
    der = certificate.public_bytes(Encoding.DER)
    begin = der.index(certificate.tbs_certificate_bytes)
    signed = range(begin, begin + len(certificate.tbs_certificate_bytes))
    for place, flip in itertools.product(range(len(der)), (0x01, 0x07, 0x20, 0xFF)):
        wrong = der[:place] + bytes([der[place] ^ flip]) + der[place + 1 :]
        changed = Credential(cert_pem=wrong, key_pem=user.key_pem, root_pem=user.root_pem)
        problems = check_credential(changed, NOW)
        assert problems or place not in signed, (place, flip)
        for problem in problems:
            assert isinstance(problem, GridError)
            assert str(problem).isprintable()


def test_the_unchanged_certificate_passes(user: Credential) -> None:
    """The counterpart of the test above: what it starts from is good."""
    assert check_credential(user, NOW) == []

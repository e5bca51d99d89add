from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.trust.gridmap import (
    GridMap,
    GridMapEntry,
    add_to_grid_map,
    grid_map_entry,
    load_grid_map,
    parse_grid_map,
    write_grid_map,
)
from gridtravel.gridio.trust.identity import Role

KENNETH = "/O=grid/OU=users/CN=kenneth"
NORTH = "/O=grid/OU=managers/CN=north"
SCENE = f"""
# who is who
"{KENNETH}"   kenneth,sys200, TG-STA040001N   # the author
   "{NORTH}"\t@manager
/O=grid/OU=users/CN=martha martha
"/DC=org/CN=Some \\"Body\\" # 2" body\r
"""


def test_a_map_answers_login_accounts_and_role() -> None:
    """The first name is login and default account; `@` is a role; all others are nobody."""
    grid_map = parse_grid_map(SCENE)
    assert len(grid_map) == 4
    assert grid_map.login_of(KENNETH) == "kenneth"
    assert grid_map.accounts_of(KENNETH) == ("kenneth", "sys200", "TG-STA040001N")
    assert grid_map.role_of(KENNETH) is Role.USER
    assert grid_map.login_of(NORTH) is None
    assert grid_map.role_of(NORTH) is Role.MANAGER
    assert grid_map.login_of('/DC=org/CN=Some "Body" # 2') == "body"
    assert grid_map.subjects_of("martha") == ("/O=grid/OU=users/CN=martha",)
    stranger = "/O=grid/OU=users/CN=stranger"
    assert grid_map.login_of(stranger) is None
    assert grid_map.accounts_of(stranger) == ()
    assert grid_map.role_of(stranger) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("just words here", "not an entry"),
        (f'"{KENNETH}"', "not an entry"),
        (f'"{KENNETH} kenneth', "not an entry"),
        (f'"{KENNETH}" kenneth martha', "not an entry"),
        (f'"{KENNETH}" kenneth,', "not an entry"),
        ('"CN=kenneth" kenneth', "is not a subject"),
        ('"" kenneth', "is not a subject"),
        (f'"{KENNETH}" ken/neth', "no name of a login"),
        (f'"{KENNETH}" $(reboot)', "no name of a login"),
        (f'"{KENNETH}" kenneth,kenneth', "given twice"),
        (f'"{KENNETH}" @wizard', "is no role"),
        (f'"{KENNETH}" @manager', "issued to a user and cannot act as a manager"),
        (f'"{NORTH}" @manager\n"{NORTH}" north', "line 3: .* given in line 2 already"),
    ],
)
def test_a_wrong_line_is_told_with_its_number(line: str, message: str) -> None:
    """The file's name and the line's number begin the message; nothing of the file is used."""
    with pytest.raises(InputError, match=message) as caught:
        parse_grid_map(f"# first\n{line}\n", "site.map")
    number = line.count("\n") + 2
    assert str(caught.value).startswith(f"site.map, line {number}: ")
    assert "\n" not in str(caught.value)


def test_a_manager_may_have_accounts_or_a_login() -> None:
    """A role can charge accounts; a site may also map a manager's subject to a login of its own."""
    entry = grid_map_entry(NORTH, ["@manager", "pool"])
    assert (entry.role, entry.login, entry.accounts) == (Role.MANAGER, None, ("pool",))
    assert grid_map_entry(NORTH, ["north"]).login == "north"


def test_an_entry_is_a_login_or_a_role() -> None:
    """Neither and both are refused, and so is a login that is not the first account."""
    with pytest.raises(InputError, match="either a login or a role"):
        GridMapEntry(subject=KENNETH)
    with pytest.raises(InputError, match="either a login or a role"):
        GridMapEntry(subject=NORTH, login="north", role=Role.MANAGER, accounts=("north",))
    with pytest.raises(InputError, match="first account"):
        GridMapEntry(subject=KENNETH, login="kenneth", accounts=("sys200",))


def test_adding_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    """A new subject is one more line; comments stay; the same again changes nothing; another
    meaning is refused.
    """
    path = tmp_path / "grid-mapfile"
    path.write_text(f'# mine\n"{NORTH}" @manager')
    entry = grid_map_entry(KENNETH, ["kenneth", "sys200"])
    assert add_to_grid_map(path, entry)
    written = path.read_text()
    assert written == f'# mine\n"{NORTH}" @manager\n"{KENNETH}"  kenneth,sys200\n'
    assert not add_to_grid_map(path, entry)
    with pytest.raises(InputError, match="to kenneth,sys200, not to root"):
        add_to_grid_map(path, grid_map_entry(KENNETH, ["root"]))
    assert path.read_text() == written


def test_a_file_that_is_no_text_is_refused_with_its_line(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are one clear line, not a traceback; a missing file too."""
    path = tmp_path / "grid-mapfile"
    path.write_bytes(b"# fine\n\xff\xfe\n")
    with pytest.raises(InputError, match="line 2: this is not UTF-8"):
        load_grid_map(path)
    with pytest.raises(InputError, match="there is no grid-mapfile at"):
        load_grid_map(tmp_path / "none")


ADA = "/O=grid/OU=users/CN=ada"


def two_entries() -> GridMap:
    """A user with two accounts, and a manager."""
    return GridMap([grid_map_entry(ADA, ["ada", "physics"]), grid_map_entry(NORTH, ["@manager"])])


def test_maps_are_equal_by_their_entries() -> None:
    """Equal maps have equal hashes; a map is no other thing."""
    assert two_entries() == two_entries()
    assert hash(two_entries()) == hash(two_entries())
    assert two_entries() != GridMap([grid_map_entry(ADA, ["ada"])])
    assert two_entries() != GridMap()
    assert two_entries() != [ADA, NORTH]
    assert two_entries().logins() == ["ada"]
    with pytest.raises(InputError, match="given twice"):
        GridMap([grid_map_entry(ADA, ["ada"])] * 2)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """In columns, and readable by everybody; an older file is replaced."""
    path = tmp_path / "grid-mapfile"
    path.write_text("old")
    write_grid_map(path, two_entries())
    lines = path.read_text().splitlines()
    assert lines == [f'"{ADA}"       ada,physics', f'"{NORTH}"  @manager']
    assert path.stat().st_mode & 0o777 == 0o644
    assert load_grid_map(path) == two_entries()
    write_grid_map(path, GridMap())
    assert path.read_text() == ""


def test_as_many_accounts_as_allowed() -> None:
    """256 with the login; one more is refused, and so is a role that no line gives."""
    many = [f"a{number}" for number in range(256)]
    assert len(grid_map_entry(ADA, many).accounts) == 256
    with pytest.raises(InputError, match="more than 256 accounts"):
        grid_map_entry(ADA, [*many, "one-more"])
    with pytest.raises(InputError, match="not a role"):
        GridMapEntry(subject="/C=US/CN=x", role=Role.USER)


def test_a_file_that_is_no_text_or_too_long(tmp_path: Path) -> None:
    """The line is named; of a file that is too long nothing is read."""
    path = tmp_path / "grid-mapfile"
    path.write_bytes(b'# one\n"' + ADA.encode() + b'" ada\n\xff\n')
    with pytest.raises(InputError, match="line 3: this is not UTF-8"):
        load_grid_map(path)
    for text, line in ((b"\xff\n", 1), (b"\n\xff\n", 2)):
        path.write_bytes(text)
        with pytest.raises(InputError, match=f"line {line}: this is not UTF-8"):
            load_grid_map(path)
    with path.open("wb") as stream:
        stream.truncate(16 * 1024 * 1024 + 1)
    with pytest.raises(InputError, match="larger than 16777216 bytes"):
        load_grid_map(path)


@pytest.mark.parametrize("before", ["", "# mine\n", "# mine"])
def test_a_line_is_added_behind_what_is_there(tmp_path: Path, before: str) -> None:
    """Whether the last line was ended or not, and no empty line comes in between."""
    path = tmp_path / "grid-mapfile"
    path.write_text(before)
    assert add_to_grid_map(path, grid_map_entry(ADA, ["ada"]))
    assert path.read_text().splitlines() == [*before.splitlines(), f'"{ADA}"  ada']

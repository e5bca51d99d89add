from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.system.private_files import make_private_folder, read_bounded, write_whole


def test_an_existing_file_is_replaced_only_when_told(tmp_path: Path) -> None:
    """Without `replace` the old content stays, and nothing temporary is left either way."""
    path = tmp_path / "key.pem"
    write_whole(path, b"old", mode=0o600, replace=False)
    with pytest.raises(InputError, match=r"exists already and was left alone .*--force"):
        write_whole(path, b"new", mode=0o600, replace=False)
    assert path.read_bytes() == b"old"
    write_whole(path, b"new", mode=0o640, replace=True)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["key.pem"]


def test_places_that_cannot_be_written_are_input_errors(tmp_path: Path) -> None:
    """A file in the way of a folder, or a folder in the way of a file, is one line and no
    traceback.
    """
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")
    with pytest.raises(InputError, match="is not a folder"):
        make_private_folder(in_the_way)
    with pytest.raises(InputError, match="cannot make the folder"):
        make_private_folder(in_the_way / "below")
    with pytest.raises(InputError, match="cannot write"):
        write_whole(tmp_path / "none" / "file", b"", mode=0o600, replace=True)
    with pytest.raises(InputError, match="cannot write"):
        write_whole(tmp_path, b"", mode=0o600, replace=True)
    with pytest.raises(InputError, match="cannot read the map"):
        read_bounded(tmp_path, size_max=10, what="map")


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    """A folder that its owner opened to a group is not closed behind their back."""
    tmp_path.chmod(0o750)
    make_private_folder(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o750

"""Writing small files that must be whole and must not be read by strangers: keys, certificates,
grid-mapfiles.

A file is written beside its name, forced to disk and then renamed, so that a reader or a crash sees
the old content or the new one, never a part. Bulk data and journals are written elsewhere.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from gridtravel.gridcore.errors import InputError

PRIVATE_FILE_MODE = 0o600
PUBLIC_FILE_MODE = 0o644
PRIVATE_FOLDER_MODE = 0o700
SECRET_BYTES_MAX = 4096


def make_private_folder(folder: Path) -> None:
    """Make ``folder`` and its missing parents with mode 0700; a folder that exists keeps the mode
    its owner gave it.
    """
    try:
        for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            missing.mkdir(mode=PRIVATE_FOLDER_MODE, exist_ok=True)
    except OSError as fault:
        raise InputError(
            f"cannot make the folder {folder}: {fault.strerror}",
            hint="make room there, or name a place where you may write",
        ) from fault
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder", hint="name another one")


def write_whole(path: Path, content: bytes, *, mode: int, replace: bool) -> None:
    """Write ``content`` to ``path`` at once, readable as ``mode`` says.

    With ``replace`` false an existing file is an ``InputError`` and stays as it is, also when two
    writers race: the name is taken by a hard link, which fails when the name exists, where a look
    before the rename would leave a gap.
    """
    try:
        descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(stream.fileno(), mode)
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            if replace:
                os.replace(beside, path)
            else:
                os.link(beside, path)
        finally:
            Path(beside).unlink(missing_ok=True)
        _sync_folder(path.parent)
    except FileExistsError as fault:
        raise InputError(
            f"{path} exists already and was left alone", hint="use --force to replace it"
        ) from fault
    except OSError as fault:
        raise InputError(
            f"cannot write {path}: {fault.strerror}",
            hint="make room there, or name a place where you may write",
        ) from fault


def read_bounded(path: Path, *, size_max: int, what: str, hint: str = "") -> bytes:
    """The content of the regular file ``path``, at most ``size_max`` bytes. ``what`` names its
    purpose in the ``InputError`` when it cannot be had, ``hint`` says what to do then.

    A pipe or a device could keep the reader waiting, or have no end: it is never opened.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with path.open("rb") as stream:
                content = stream.read(size_max + 1)
    except (FileNotFoundError, NotADirectoryError) as fault:
        raise InputError(f"there is no {what} at {path}", hint=hint) from fault
    except OSError as fault:
        raise InputError(f"cannot read the {what} {path}: {fault.strerror}", hint=hint) from fault
    if not stat.S_ISREG(mode):
        raise InputError(f"cannot read the {what} {path}: it is no regular file", hint=hint)
    if len(content) > size_max:
        raise InputError(f"{path} is no {what}: it is larger than {size_max} bytes", hint=hint)
    return content


def _sync_folder(folder: Path) -> None:
    """Force the new name to disk too: a rename that is only in memory is lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_secret(path: Path) -> str:
    """The one line of text in a file that nobody else may read, such as a password.

    ``InputError`` when it cannot be read, holds more than that, or others may read it.
    """
    content = read_bounded(path, size_max=SECRET_BYTES_MAX, what="secret")
    if path.stat().st_mode & 0o077:
        raise InputError(f"others may read the secret in {path}", hint=f"chmod 600 {path}")
    text = content.decode("utf-8", "replace").rstrip("\n")
    if not text or not text.isprintable() or "\N{REPLACEMENT CHARACTER}" in text:
        raise InputError(
            f"{path} does not hold one line of text",
            hint="write the secret there, and nothing else",
        )
    return text

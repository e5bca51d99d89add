"""The bytes of an append-only journal file: frames, each chained to the one before by its checks.

    file   = MAGIC head frame*          frame = length crc check payload
    head   = a frame whose payload is JSON: the epoch, and the sequence before the first record
    payload of a frame = the records of one append, each as
                         (length of kind, at, length of body, kind, body)

``crc`` is over the payload and the ``crc`` of the frame before, ``check`` over length and ``crc``.
A file that ends within a frame was cut by a crash, in the middle of a write that nobody was told
had succeeded: the frame is left out. Anything else that does not fit is damage.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from gridcore.errors import InputError
from gridio.journal import JournalDamaged, Record

MAGIC: Final = b"GRIDLOG1"
"""The beginning of each file, with the version of the format."""

_FRAME: Final = struct.Struct(">QII")
_RECORD: Final = struct.Struct(">BqI")

RESTORE_HINT: Final = "restore this file from a copy, or move it away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a file says of itself."""

    epoch: str
    base: int
    """Sequence before the file's first record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One append, read back."""

    records: tuple[Record, ...]
    crc: int
    """What the next frame's checks start from."""
    end: int
    """Where the next frame begins, in bytes from the beginning of the file."""


def framed(payload: bytes, crc: int) -> tuple[bytes, int]:
    """A frame behind the one with ``crc``, and its own."""
    own = zlib.crc32(payload, crc)
    return _FRAME.pack(len(payload), own, _check(len(payload), own)) + payload, own


def new_file(head: Head) -> tuple[bytes, int]:
    """The beginning of a file, and the ``crc`` that its first frame follows."""
    frame, crc = framed(json.dumps({"epoch": head.epoch, "base": head.base}).encode(), 0)
    return MAGIC + frame, crc


def payload_of(records: Sequence[Record]) -> bytes:
    """The records of one append."""
    parts: list[bytes] = []
    for each in records:
        kind = each.kind.encode()
        parts += (_RECORD.pack(len(kind), each.at, len(each.body)), kind, each.body)
    return b"".join(parts)


def read_head(file: BinaryIO, path: Path) -> tuple[Head, int, int] | None:
    """The head of the file, the ``crc`` after it and where it ends; ``None`` when it was never
    written to its end.
    """
    magic = file.read(len(MAGIC))
    if not MAGIC.startswith(magic):
        raise JournalDamaged(f"{path} is not a journal of this program", hint=RESTORE_HINT)
    if len(magic) < len(MAGIC):
        return None
    found = _read_payload(file, 0, path)
    if found is None:
        return None
    payload, crc = found
    try:
        fields = json.loads(payload)
        head = Head(epoch=str(fields["epoch"]), base=int(fields["base"]))
    except (ValueError, TypeError, KeyError):
        raise _damaged(path, "its head is not one") from None
    return head, crc, file.tell()


def read_frames(file: BinaryIO, crc: int, path: Path) -> Iterator[Frame]:
    """The frames from where ``file`` stands, up to the end or a frame that a crash cut off."""
    while True:
        found = _read_payload(file, crc, path)
        if found is None:
            return
        payload, crc = found
        yield Frame(records=tuple(_records(payload, path)), crc=crc, end=file.tell())


def _read_payload(file: BinaryIO, before: int, path: Path) -> tuple[bytes, int] | None:
    start = file.tell()
    head = file.read(_FRAME.size)
    if len(head) < _FRAME.size:
        return None
    length, crc, check = _FRAME.unpack(head)
    if check != _check(length, crc):
        # A power failure may leave the length of a file without its content.
        if _is_empty(head) and all(
            _is_empty(rest) for rest in iter(lambda: file.read(1 << 16), b"")
        ):
            return None
        raise _damaged(path, f"the entry at byte {start} has no beginning")
    payload = file.read(length)
    if len(payload) < length:
        return None
    if zlib.crc32(payload, before) != crc:
        if not file.read(1):
            return None
        raise _damaged(path, f"the entry at byte {start} is not the one that was written")
    return payload, crc


def _records(payload: bytes, path: Path) -> Iterator[Record]:
    at = 0
    try:
        while at < len(payload):
            kind_length, instant, body_length = _RECORD.unpack_from(payload, at)
            kind_at = at + _RECORD.size
            body_at = kind_at + kind_length
            at = body_at + body_length
            if at > len(payload):
                raise _damaged(path, "a record is longer than its entry")
            yield Record(
                kind=payload[kind_at:body_at].decode("ascii"), at=instant, body=payload[body_at:at]
            )
    except (struct.error, InputError, UnicodeDecodeError) as fault:
        raise _damaged(path, f"a record cannot be read ({fault})") from fault


def _check(length: int, crc: int) -> int:
    return zlib.crc32(struct.pack(">QI", length, crc))


def _is_empty(content: bytes) -> bool:
    return not any(content)


def _damaged(path: Path, what: str) -> JournalDamaged:
    return JournalDamaged(f"the journal {path} is damaged: {what}", hint=RESTORE_HINT)

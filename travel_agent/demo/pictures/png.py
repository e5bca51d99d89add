"""A picture as a PNG file, by the standard library alone.

Travels with the programs that draw.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

SIGNATURE = b"\x89PNG\r\n\x1a\n"
TRUE_COLOUR = 2
Colour = tuple[int, int, int]
"""Red, green, blue: 0 to 255."""


def write_png(path: Path, rows: Sequence[Sequence[Colour]]) -> None:
    """Write rows of pixels, the topmost first; whole or not at all."""
    width, height = len(rows[0]), len(rows)
    header = struct.pack(">IIBBBBB", width, height, 8, TRUE_COLOUR, 0, 0, 0)
    # Each line begins with its filter: none.
    lines = b"".join(b"\0" + bytes(part for pixel in row for part in pixel) for row in rows)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_bytes(SIGNATURE + b"".join(_chunk(kind, body) for kind, body in chunks))
    unfinished.replace(path)


def _chunk(kind: bytes, body: bytes) -> bytes:
    checksum = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)

"""What a picture shows, read back."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from gridtravel.travel_agent.demo.pictures import png


def read_png(path: Path) -> list[list[png.Colour]]:
    """The pixels of a true-colour PNG without filters; every checksum is looked at."""
    content = path.read_bytes()
    assert content.startswith(png.SIGNATURE)
    at, chunks = len(png.SIGNATURE), {}
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", content[at + 8 + length : at + 12 + length])
        assert zlib.crc32(kind + body) == checksum
        chunks[kind] = body
        at += 12 + length
    width, height, depth, colours = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colours) == (8, png.TRUE_COLOUR)
    lines = zlib.decompress(chunks[b"IDAT"])
    assert len(lines) == height * (1 + 3 * width)
    rows = []
    for y in range(height):
        line = lines[y * (1 + 3 * width) : (y + 1) * (1 + 3 * width)]
        assert line[0] == 0
        rows.append([(line[x], line[x + 1], line[x + 2]) for x in range(1, len(line), 3)])
    return rows

"""The part of a disk that nothing but the daemon's own records may use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import UnavailableError

RESERVE_DIVISOR: Final = 20
RESERVE_BYTES_MAX: Final = 1 << 30
"""Unless the site says otherwise: a twentieth of the disk, at most 1 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReserve:
    """So many bytes of the file system of ``folder`` are to stay free."""

    folder: Path
    free_bytes: int
    """0: nothing is reserved."""

    @classmethod
    def of(cls, folder: Path, free_bytes: int | None) -> DiskReserve:
        """``None``: what suits the disk."""
        if free_bytes is None:
            disk = os.statvfs(folder)
            free_bytes = min(RESERVE_BYTES_MAX, disk.f_blocks * disk.f_frsize // RESERVE_DIVISOR)
        return cls(folder=folder, free_bytes=free_bytes)

    def check(self, site: str) -> None:
        """Raise ``UnavailableError`` when less is free."""
        if self.free_bytes == 0:
            return
        disk = os.statvfs(self.folder)
        left = disk.f_bavail * disk.f_frsize
        if left < self.free_bytes:
            raise UnavailableError(
                f"the disk of {site} is full: {left >> 20} MiB are left, and"
                f" {self.free_bytes >> 20} MiB stay reserved for its own records",
                hint="fetch and remove files of earlier jobs, or tell the site's administrators",
            )

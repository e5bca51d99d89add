"""Where a study finds its log, and how it cuts stretches out of it by the calendar of the site."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.simulator.replay.swf import TraceJob, read_header

CHECKOUT: Final = Path(__file__).resolve().parents[2]


def find_log(given: Path | None, name: str) -> Path:
    """The log given, else ``name`` in the shared folder; ``InputError`` says where it was looked
    for.
    """
    shared = Path(os.environ.get("GRID_SHARED") or CHECKOUT.parent / "shared")
    path = given if given is not None else shared / "traces" / name
    if not path.is_file():
        raise InputError(
            f"the log {path} is missing",
            hint="give --trace PATH, or set GRID_SHARED to the folder that holds traces/"
            f"{name} (from the Parallel Workloads Archive)",
        )
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTime:
    """The log's clock as people at the site read it: header fields UnixStartTime and
    TimeZoneString.
    """

    origin: Instant
    zone: ZoneInfo

    @classmethod
    def of(cls, path: Path) -> SiteTime:
        """From the log's header; ``InputError`` when it does not say."""
        header = read_header(path)
        words = header.get("UnixStartTime", "").split()
        name = header.get("TimeZoneString", "").strip()
        if not words or not is_count(words[0]) or not name:
            raise InputError(f"{path}: the header lacks UnixStartTime or TimeZoneString")
        try:
            return cls(origin=int(words[0]), zone=ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise InputError(f"{path}: unknown time zone {name[:40]!r}") from None

    def month_of(self, job: TraceJob) -> tuple[int, int]:
        """Year and month of submission, local."""
        local = self._local(job)
        return local.year, local.month

    def day_of(self, job: TraceJob) -> int:
        """Day of the month of submission, local, from 1."""
        return self._local(job).day

    def month_begin(self, month: tuple[int, int]) -> Instant:
        """First second of a month, in seconds of the log."""
        return int(datetime(*month, 1, tzinfo=self.zone).timestamp()) - self.origin

    def _local(self, job: TraceJob) -> datetime:
        return datetime.fromtimestamp(self.origin + job.submit, self.zone)


def of_month(
    jobs: Sequence[TraceJob], clock: SiteTime, month: tuple[int, int], limit: int | None
) -> list[TraceJob]:
    """The jobs submitted in a month, local time; ``InputError`` when there are none."""
    found = [job for job in jobs if clock.month_of(job) == month][:limit]
    if not found:
        raise InputError(f"the log has no job of {month[0]}-{month[1]:02}")
    return found


def with_true_requests(jobs: Sequence[TraceJob]) -> list[TraceJob]:
    """The same jobs of users who know their run times to the second."""
    return [job._replace(estimate_s=job.run_s) for job in jobs]

"""How many files and sockets this process may have open at once."""

from __future__ import annotations

import contextlib
import resource


def allow_open_files(wanted: int) -> int:
    """Raise the soft limit to ``wanted`` where it is lower, as far as the hard limit allows; the
    limit that holds now.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def open_files_allowed() -> int | None:
    """The hard limit; ``None``: there is none."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if hard == resource.RLIM_INFINITY else hard

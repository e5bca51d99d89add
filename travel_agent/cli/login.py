"""``gur login``: a short-lived certificate from an authority whose folder the user may read.

For a personal grid and for demonstrations. Where the authority is an institution's, its operator
runs ``gurd ca user`` and hands the folder over.
"""

from __future__ import annotations

import getpass
from pathlib import Path

from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.trust.authority import Authority
from gridtravel.travel_agent.sites.config import config_path, load_grid_config


def log_in(authority_folder: Path, user: str, hours: int) -> dict[str, str]:
    """Write a fresh credential to where the user's configuration expects it."""
    clock = SystemClock()
    path = config_path()
    folder = load_grid_config().credential_folder if path.exists() else path.parent / "credential"
    authority = Authority.open(authority_folder, RandomIds(clock))
    credential = authority.issue_user(
        user or getpass.getuser(), folder, clock.now(), lifetime_s=hours * 3600, force=True
    )
    return {
        "subject": credential.subject,
        "until": format_utc(credential.not_after),
        "folder": str(folder),
    }

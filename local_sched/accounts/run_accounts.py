"""As whom a task of this machine runs: the owner's account, or the daemon's.

Who may act for an account was decided before (certificate, grid-mapfile); this is only about what
the operating system lets the daemon do.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gridtravel.gridcore.errors import InputError

NO_GROUP: Final = 65_534
"""The group that owns nothing."""


class RunAs(StrEnum):
    """``LOGIN``: each task as its owner. ``DAEMON``: all as the daemon's user, for demonstrations.

    With ``DAEMON`` a task can touch whatever the daemon can, its journal and keys included.
    """

    LOGIN = "login"
    DAEMON = "daemon"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAccount:
    """An account resolved to what the kernel wants to know."""

    login: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str | None
    """The home folder; None when accounts share the daemon's user, and the sandbox has to do."""


def resolve_account(login: str, run_as: RunAs) -> RunAccount:
    """The account a task of ``login`` runs as.

    May wait for a directory service, so call it in a thread. Raises ``InputError`` when the account
    does not exist, or when the daemon cannot become it.
    """
    own_uid = os.geteuid()
    if run_as is RunAs.DAEMON:
        return RunAccount(login=login, uid=own_uid, gid=os.getegid(), groups=(), home=None)
    try:
        entry = pwd.getpwnam(login)
    except (KeyError, ValueError) as fault:
        raise InputError(
            f"this machine has no account {login!r}",
            hint="create it, map the user to another account, or set run_as = 'daemon'",
        ) from fault
    if own_uid not in (0, entry.pw_uid):
        raise InputError(
            f"this daemon (uid {own_uid}) cannot start tasks as {login!r} (uid {entry.pw_uid})",
            hint="run it as root, or set run_as = 'daemon' to run all tasks as its own user",
        )
    return RunAccount(
        login=login,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(sorted(os.getgrouplist(login, entry.pw_gid))),
        home=entry.pw_dir,
    )


def account_of_number(uid: int) -> RunAccount:
    """The account with this number. One that was deleted is still a number, in no group.

    May wait for a directory service, so call it in a thread.
    """
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return RunAccount(login=str(uid), uid=uid, gid=NO_GROUP, groups=(), home=None)
    return RunAccount(
        login=entry.pw_name,
        uid=uid,
        gid=entry.pw_gid,
        groups=tuple(sorted(os.getgrouplist(entry.pw_name, entry.pw_gid))),
        home=entry.pw_dir,
    )

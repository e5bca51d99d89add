"""The state folder of a node, and whether the logins whose jobs run here can work there.

    STATE/agent.journal ...    the book and what belongs to it: the daemon's alone, mode 0600
    STATE/areas/AREA/          files of a leg or a job (``agents.jobs.work_dirs``): its login's
    alone STATE/tasks/               records and sandboxes (``task_folders``): the daemon's, the
    logins'

With ``run_as = "login"`` under root, tasks run as their owners, who work below ``work_dirs`` and
``tasks/work``. So everybody may pass through the state folder, nobody may list it, and whatever
lies in it guards itself (docs/decisions/0024). Else it is the daemon's alone, as are all tasks.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from gridtravel import local_sched
from gridtravel.agents.jobs.environment import BARRIER
from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.accounts.run_accounts import (
    RunAccount,
    RunAs,
    resolve_account,
)

PASS: Final = 0o711
"""Mode of a folder that everybody may pass through and only its owner may list or change."""
PRIVATE: Final = 0o600


def is_for_logins(run_as: RunAs) -> bool:
    """True where tasks run under other accounts than the daemon's."""
    return run_as is RunAs.LOGIN and os.geteuid() == 0


def make_state_folder(state: Path, run_as: RunAs, private: str) -> None:
    """Make the folder, or open an older one to those who have to pass. ``private``: how the names
    of files begin that nobody but the daemon may read, such as a copy of the journal that somebody
    has put back.
    """
    if not is_for_logins(run_as):
        state.mkdir(parents=True, mode=0o700, exist_ok=True)
        return
    for missing in reversed([each for each in (state, *state.parents) if not each.exists()]):
        missing.mkdir(mode=PASS, exist_ok=True)
        missing.chmod(PASS)  # the umask of a service is often 0077
    for file in sorted(state.glob(f"{private}*")):
        if file.is_file() and not file.is_symlink():
            file.chmod(PRIVATE)
    state.chmod(stat.S_IMODE(state.stat().st_mode) | 0o011)


async def check_logins(
    state: Path, run_as: RunAs, logins: Iterable[str], files: AccountFiles
) -> list[str]:
    """What will not work for jobs of these logins, one note each.

    Raises ``InputError`` when jobs of a login that this machine knows could never run: the daemon
    cannot become that account, or the account cannot reach the state folder.
    """
    if run_as is RunAs.DAEMON:
        return []
    notes, accounts = [], []
    for login in sorted(set(logins)):
        try:
            accounts.append(await asyncio.to_thread(_account_of, login, run_as))
        except KeyError:
            notes.append(f"jobs of {login} fail: this machine has no such account")
    if not is_for_logins(run_as):
        return notes
    # Most folders are open to everybody, and then nobody has to be tried.
    folders = _not_open_to_all(state)
    for account in accounts if folders else ():
        closed, _ = await _tried(account, files, folders=folders)
        if closed:
            raise InputError(
                f"jobs of {account.login} cannot reach their files in {state}:"
                f" {account.login} may not pass {closed}",
                hint=f"chmod o+x {closed}, or set site.state to a folder below open ones",
            )
    # What keeps one login away from Python keeps them all.
    ordinary = next((each for each in accounts if each.uid != os.geteuid()), None)
    if ordinary is not None:
        needed = [BARRIER, sys.executable, os.__file__, local_sched.__file__]
        _, unread = await _tried(ordinary, files, needed=needed)
        if unread:
            why = f"{ordinary.login} may not read {unread}"
            notes.append(f"trips with a barrier fail, other jobs run: {why}")
    return notes


# -- inside ----------------------------------------------------------------------------------------


def _not_open_to_all(state: Path) -> list[Path]:
    """The folders above the state folder, as it is named and where it lies, that some may not pass.
    What is missing the daemon makes.
    """
    above = dict.fromkeys((*reversed(state.absolute().parents), *reversed(state.resolve().parents)))
    return [each for each in above if each.is_dir() and not each.stat().st_mode & stat.S_IXOTH]


def _account_of(login: str, run_as: RunAs) -> RunAccount:
    """``KeyError`` when the machine has no such account."""
    pwd.getpwnam(login)
    return resolve_account(login, run_as)


async def _tried(
    account: RunAccount,
    files: AccountFiles,
    *,
    folders: Sequence[Path] = (),
    needed: Sequence[str] = (),
) -> tuple[str, str]:
    """The first folder that the account cannot pass, and the first file that it cannot read.
    Groups, access lists and network file systems have their say too; where they do not answer in
    time, it is the first.
    """
    try:
        facts, _ = await files.ask(
            account.uid,
            "try_paths",
            Path("/"),
            folders=[str(each) for each in folders],
            files=list(needed),
        )
    except UnavailableError:
        return str(folders[0]) if folders else "", needed[0] if needed else ""
    return facts["closed"], facts["unread"]

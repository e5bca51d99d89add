"""The state folder: whose it is, who may pass, and what is said before a job fails for it."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtravel.agents.config.state_folder import check_logins, make_state_folder
from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.accounts.run_accounts import RunAs

NOT_ROOT = 54_321


def mode(path: Path) -> int:
    """Its permissions."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As root, under the umask of a service."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("service")
def test_logins_pass_and_do_not_look(tmp_path: Path) -> None:
    """Also through folders that the daemon makes on the way, whatever its umask."""
    make_state_folder(tmp_path / "lib" / "lab", RunAs.LOGIN, "agent.journal")
    assert mode(tmp_path / "lib") == mode(tmp_path / "lib" / "lab") == 0o711


@pytest.mark.usefixtures("service")
def test_a_folder_of_an_older_daemon_is_opened_and_its_book_is_not(tmp_path: Path) -> None:
    """It was nobody else's, so the files in it may have been readable: a copy of the journal that
    was put back, for one. What the administrator allowed stays.
    """
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    for name in ("agent.journal", "agent.journal-wal", "agent.journal.copy"):
        (state / name).touch()
        (state / name).chmod(0o644)
    (state / "agent.journal.link").symlink_to(tmp_path)
    make_state_folder(state, RunAs.LOGIN, "agent.journal")
    assert mode(state) == 0o711
    assert {mode(each) for each in state.iterdir() if not each.is_symlink()} == {0o600}
    assert mode(tmp_path) == 0o700
    state.chmod(0o755)
    make_state_folder(state, RunAs.LOGIN, "agent.journal")
    assert mode(state) == 0o755


@pytest.mark.usefixtures("service")
async def test_where_all_tasks_are_the_daemons_the_folder_is_too(tmp_path: Path) -> None:
    """Nobody has to pass, so nobody may; and no login can be in the way."""
    make_state_folder(tmp_path / "state", RunAs.DAEMON, "agent.journal")
    assert mode(tmp_path / "state") == 0o700
    assert (
        await check_logins(tmp_path / "state", RunAs.DAEMON, ["no-such-login"], AccountFiles())
        == []
    )


async def test_a_daemon_without_privilege_says_whose_jobs_it_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its start, not when the first job has waited for hours. Its own user's it can."""
    monkeypatch.setattr("os.geteuid", lambda: NOT_ROOT)
    notes = await check_logins(tmp_path / "state", RunAs.LOGIN, ["no-such-login"], AccountFiles())
    assert notes == ["jobs of no-such-login fail: this machine has no such account"]
    with pytest.raises(InputError, match="cannot start tasks as 'root'"):
        await check_logins(
            tmp_path / "state", RunAs.LOGIN, ["no-such-login", "root"], AccountFiles()
        )
    own = pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.undo()
    assert await check_logins(tmp_path / "state", RunAs.LOGIN, [own], AccountFiles()) == []

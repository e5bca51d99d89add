"""A site that runs jobs as their owners' accounts: two real accounts, and root's daemon.

The accounts are made with ``useradd`` under names that nobody has, and removed. Nothing else of the
machine is changed; the site lies in a folder of its own that ordinary users may pass.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, write_grid_map
from tests.support.gur_runner import PATIENCE_S, Said

USERS: Final = ("ada", "grace")
SITE: Final = "lab"
SERVICE_UMASK: Final = 0o077
"""As deploy/systemd sets it."""
SOCKET_GROUP: Final = grp.getgrgid(100).gr_name
"""Whose members may use the site's local socket; on every Debian it is ``users``."""
MISSING: Final = (
    "NOT TESTED: jobs under accounts of their own, run_as = 'login'."
    " It takes root, and useradd and userdel (Debian: apt install passwd)"
)


@contextmanager
def two_accounts() -> Iterator[dict[str, pwd.struct_passwd]]:
    """An account for each user, a member of ``SOCKET_GROUP`` that may log in by a key; the test is
    skipped, loudly, where none can be made.
    """
    if os.geteuid() != 0 or not shutil.which("useradd") or not shutil.which("userdel"):
        pytest.skip(MISSING)
    names = {user: f"grid{os.getpid()}{user[0]}" for user in USERS}
    try:
        for name in names.values():
            command = ["useradd", "--no-create-home", "--no-log-init", "--user-group"]
            # "*": no password is right, and sshd does not take the account for a locked one.
            command += ["--groups", SOCKET_GROUP, "--password", "*"]
            with _alone_with_accounts():
                done = subprocess.run(
                    [*command, "--home-dir", "/nonexistent", "--shell", "/bin/sh", name],
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if done.returncode != 0:
                pytest.skip(f"{MISSING}: {done.stderr.strip()}")
        yield {user: pwd.getpwnam(name) for user, name in names.items()}
    finally:
        for name in names.values():
            with contextlib.suppress(KeyError), _alone_with_accounts():
                pwd.getpwnam(name)
                subprocess.run(["userdel", name], capture_output=True, check=True)


@contextmanager
def _alone_with_accounts() -> Iterator[None]:
    """useradd and userdel give up at once when somebody else changes the machine's accounts, such
    as another worker of the same tests.
    """
    with open(Path(tempfile.gettempdir()) / "gridtravel-tests-accounts.lock", "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@dataclass
class LoginSite:
    """One site with the default ``run_as``, its users and their laptops."""

    root: Path
    accounts: dict[str, pwd.struct_passwd]
    credentials: dict[str, Credential] = field(default_factory=dict)
    daemon: subprocess.Popen[str] | None = None
    endpoint: str = ""

    @property
    def config(self) -> Path:
        """The site's file."""
        return self.root / "site" / "site.toml"

    @property
    def state(self) -> Path:
        """The daemon's folder."""
        return self.root / "site" / "state"

    @property
    def socket(self) -> Path:
        """Where members of ``SOCKET_GROUP`` reach it on its own machine."""
        return self.state / "agent.sock"

    @property
    def log(self) -> str:
        """What the daemon said."""
        return (self.root / "log").read_text()

    def lay_out(self) -> None:
        """A grid with this site and its users."""
        now = SystemClock().now()
        authority = Authority.create(self.root / "authority", "grid", RandomIds(), now)
        (self.root / "site").mkdir(mode=0o711)
        authority.issue_site(SITE, self.root / "site" / "credential", now, hosts=["127.0.0.1"])
        for user in USERS:
            folder = self.root / user / "credential"
            self.credentials[user] = authority.issue_user(user, folder, now)
        entries = [
            grid_map_entry(self.credentials[user].subject, [self.accounts[user].pw_name])
            for user in USERS
        ]
        write_grid_map(self.root / "site" / "grid-mapfile", GridMap(entries))
        self.config.write_text(
            f'[site]\nname = "{SITE}"\nlisten = "127.0.0.1:0"\n'
            f'socket_group = "{SOCKET_GROUP}"\n'
            '[[classes]]\nname = "node"\nnodes = 4\n[queue]\nkill_grace_s = 1\n'
        )

    def start(self) -> None:
        """Serve (again); returns when it does."""
        with (self.root / "log").open("a") as log:
            self.daemon = subprocess.Popen(
                [*_GURD, "agent", "--exit-with-parent", "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                umask=SERVICE_UMASK,
            )
        assert self.daemon.stdout is not None
        assert select.select([self.daemon.stdout], [], [], PATIENCE_S)[0], self.log
        line = self.daemon.stdout.readline()
        assert line.startswith("ready "), self.log
        self.endpoint = line.removeprefix("ready ").strip()

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon; its jobs go on."""
        daemon, self.daemon = self.daemon, None
        if daemon is not None:
            daemon.send_signal(number)
            assert daemon.stdout is not None
            daemon.stdout.close()
            daemon.wait(PATIENCE_S)

    def connect(self, user: str) -> GrpcSite:
        """A user's connection."""
        return GrpcSite(self.endpoint, self.credentials[user], site=SITE)

    def machines(self, user: str) -> Path:
        """The list of machines on a user's laptop."""
        home = self.root / user
        (home / "sites.toml").write_text(
            f'credential = "{home / "credential"}"\ntime_zone = "UTC"\n'
            f'[machines.{SITE}]\nsite = "{SITE}"\nendpoint = "{self.endpoint}"\n'
        )
        return home / "sites.toml"

    def gur(self, user: str, *words: str) -> Said:
        """A command on a user's laptop."""
        own = {
            "GUR_CONFIG": str(self.machines(user)),
            "GUR_STATE": str(self.root / user / "state"),
        }
        return _run(
            [sys.executable, "-m", "gridtravel.travel_agent.cli.main", *words],
            {**os.environ, **own},
        )

    def check_config(self) -> Said:
        """What ``gurd check-config`` says."""
        return _run([*_GURD, "check-config", str(self.config)], dict(os.environ))

    def as_account(self, user: str, script: str, *words: str | Path) -> Said:
        """A line of shell, typed by the user on the site's machine."""
        account = self.accounts[user]
        own = (sys.executable, "-I", "-S", "-c", _BECOME, str(account.pw_uid), str(account.pw_gid))
        return _run([*own, "sh", "-c", script, "sh", *map(str, words)], {"LC_ALL": "C"})


@contextmanager
def login_site() -> Iterator[LoginSite]:
    """The site, laid out and not started; everything is gone afterwards."""
    with two_accounts() as accounts, tempfile.TemporaryDirectory(dir="/tmp") as name:
        root = Path(name)
        root.chmod(0o711)
        site = LoginSite(root, accounts)
        try:
            site.lay_out()
            yield site
        finally:
            site.end()
            for account in accounts.values():
                _kill_all_of(account.pw_uid)


_GURD: Final = (sys.executable, "-m", "gridtravel.gurd.cli")
_BECOME: Final = (
    "import os, sys; os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1]));"
    "os.execv('/bin/sh', sys.argv[3:])"
)
"""Not ``subprocess.run(user=...)``: that forks, which threads of gRPC in this process forbid."""


def _run(argv: Sequence[str], environment: dict[str, str]) -> Said:
    done = subprocess.run(
        argv,
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def _kill_all_of(uid: int) -> None:
    """An account is not removed under its processes; these can be nobody else's."""
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if each.name.isdigit() and each.stat().st_uid == uid:
                os.kill(int(each.name), signal.SIGKILL)

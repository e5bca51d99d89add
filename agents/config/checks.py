"""Whether a node's daemon would start with a configuration: what it leads to on this machine, said
of the keys that lead there.

``gurd check-config`` and ``gurd agent`` ask the same, so what the one calls good the other starts
(docs/decisions/0032). ``site_file`` has judged the words before.
"""

from __future__ import annotations

import os
import pwd
import shutil
from dataclasses import dataclass
from typing import Final

from gridtravel.agents.config.site_file import SiteConfig
from gridtravel.agents.config.state_folder import check_logins
from gridtravel.agents.own_card import OwnCard
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.config_file import at_key
from gridtravel.gridio.daemon_checks import (
    check_command,
    check_listen,
    check_state_folder,
    prove,
)
from gridtravel.gridio.journal.lock import is_owned
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.gridmap import GridMap, load_grid_map
from gridtravel.gridio.trust.identity import Role
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.accounts.run_accounts import RunAs
from gridtravel.local_sched.resource_managers import slurm

ENDPOINT_FILE: Final = "endpoint"
JOURNAL_FILE: Final = "agent.journal"
LEDGER_FILE: Final = "ledger"
AREAS_FOLDER: Final = "areas"
TASKS_FOLDER: Final = "tasks"
SLURM_COMMANDS: Final = ("sbatch", "squeue", "scancel")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReady:
    """A daemon could start: what was read on the way, and what will not work nevertheless."""

    credential: Credential
    grid_map: GridMap
    notes: tuple[str, ...]


async def check_site(config: SiteConfig, now: Instant, files: AccountFiles) -> SiteReady:
    """Everything that would end ``gurd agent`` before it serves; a fault has file, line and key.

    Where a daemon serves with this state folder, its own address and socket are not asked for.
    """
    site = config.file.site
    with config.source.told():
        with at_key("site", "state"):
            check_state_folder(
                config.state,
                files=(JOURNAL_FILE, f"{JOURNAL_FILE}.lock", LEDGER_FILE, ENDPOINT_FILE),
                folders=(AREAS_FOLDER, TASKS_FOLDER),
            )
        is_served = is_owned(config.state / JOURNAL_FILE)
        with at_key("site", "credential"):
            credential = prove(config.credential, Role.SITE, config.name, now)
        with at_key("site", "grid_mapfile"):
            grid_map = load_grid_map(config.grid_mapfile)
        with at_key("site", "listen"):
            check_listen(site.listen, is_served=is_served)
        _check_socket(config, is_served=is_served)
        for number, rule in enumerate(config.maintenance.standing):
            with at_key("standing", number):
                rule.check_here(config.classes, config.rules.horizon_s, now)
        for key, words in (
            ("prologue", config.maintenance.prologue),
            ("epilogue", config.maintenance.epilogue),
        ):
            with at_key("hooks", key):
                check_command(words)
        with at_key("notify", "command"):
            check_command(config.file.notify.command)
        _check_back_end(config)
        _check_shared_classes(config)
        with at_key("host", "run_as"):
            run_as = RunAs(config.file.host.run_as)
            notes = await check_logins(config.state, run_as, grid_map.logins(), files)
    card = OwnCard(credential, advertise=site.advertise, listen=site.listen)
    if problem := card.problem(now):
        notes.append(f"no other site can reach {config.name}: {problem}")
    if crowded := config.file.connections.note():
        notes.append(crowded)
    if is_served:
        notes.append(f"a daemon serves with {config.state}: its address was not tried")
    return SiteReady(
        credential=credential,
        grid_map=grid_map,
        notes=(*notes, *_unknown_admins(site.admins, grid_map)),
    )


def _check_socket(config: SiteConfig, *, is_served: bool) -> None:
    site = config.file.site
    with at_key("site", "socket" if site.socket else "state"):
        local = LocalSocket(path=config.socket, group=site.socket_group)
        local.check(config.state, is_served=is_served)
    with at_key("site", "socket_group"):
        local.check_group()


def _check_back_end(config: SiteConfig) -> None:
    """The commands of ``[slurm]``, as the daemon will look for them."""
    slurm = config.file.slurm
    if slurm is None:
        return
    with at_key("slurm"):
        for command in SLURM_COMMANDS:
            if shutil.which(command, path=os.environ.get("PATH", os.defpath)) is None:
                raise InputError(
                    f"there is no command {command} on this machine",
                    hint="install Slurm's commands, or start the daemon with their folder in PATH",
                )
    with at_key("slurm", "conf"):
        if slurm.conf and not (config.path.parent / slurm.conf).is_file():
            raise InputError(f"there is no file {config.path.parent / slurm.conf}")


def _check_shared_classes(config: SiteConfig) -> None:
    """Shares that nobody enforces would be promises that nobody keeps."""
    processors = len(os.sched_getaffinity(0))
    for number, each in enumerate(config.all_classes):
        if each.name not in config.shared:
            continue
        if config.file.slurm is not None and not slurm.CAN_SHARE:
            with at_key("classes", number, "policy"):
                policy = config.shared[each.name].policy_name
                raise InputError(
                    f"{policy} divides nodes between jobs, and the back end slurm cannot",
                    hint="name a policy that gives each job whole nodes",
                )
        processors -= each.nodes
        if config.file.slurm is None and processors < 0:
            with at_key("classes", number, "nodes"):
                raise InputError(
                    f"this machine has {-processors} processors too few for its shared nodes",
                    hint="a shared node of this machine is one of its processors",
                )


def _unknown_admins(admins: list[str], grid_map: GridMap) -> list[str]:
    """Administrators that nobody can be: no login of this machine, and not in the grid-mapfile."""
    notes = []
    for login in admins:
        try:
            pwd.getpwnam(login)
        except (KeyError, ValueError):
            if login not in grid_map.logins():
                notes.append(
                    f"the administrator {login[:80]!r} is neither an account of this machine nor in"
                    " the grid-mapfile"
                )
    return notes

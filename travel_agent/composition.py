"""Chooses the real adapters for the travel agent: the system's clock, the user's files, and gRPC,
SSH, or whichever of them leads to a site.

What connects is imported with the first connection, so that whatever is wrong with a file is said
at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import Clock, SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.choices import SearchChoice, TransportChoice
from gridtravel.travel_agent.sites.config import (
    GridConfig,
    MachineEntry,
    load_grid_config,
    state_folder,
)
from gridtravel.travel_agent.sites.fallback import FallbackSite, Way

if TYPE_CHECKING:
    from gridtravel.gridio.batch.options import BatchOptions
    from gridtravel.gridio.batch.running import CommandRunner
    from gridtravel.gridio.ssh.prompting import Prompter


def open_travel_agent(
    config: GridConfig | None = None,
    state: Path | None = None,
    *,
    transport: TransportChoice = TransportChoice.AUTO,
    search: SearchChoice | None = None,
    tell: Callable[[str], None] = lambda _: None,
    prompter: Prompter | None = None,
) -> TravelAgent:
    """A travel agent as the user's configuration describes it.

    ``search``: which one looks for trips; default: as the configuration says. ``tell``: is told
    when a site is reached by another way than the first, and which of several trips is meant.
    ``prompter``: answers what SSH servers ask; without one they get keys only.
    """
    clock = SystemClock()
    settings = config or load_grid_config()
    if search is not None:
        settings = replace(settings, search=search)
    connector = _Connector(settings, transport, tell, prompter, clock)
    return TravelAgent(
        settings,
        state or state_folder(),
        connector.connect,
        clock=clock,
        ids=RandomIds(clock),
        tell=tell,
    )


class _Connector:
    """Makes the connection to each machine of the list."""

    def __init__(
        self,
        settings: GridConfig,
        transport: TransportChoice,
        tell: Callable[[str], None],
        prompter: Prompter | None,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._tell = tell
        self._prompter = prompter
        self._clock = clock

    def connect(self, entry: MachineEntry) -> SiteConnection:
        """By the ways that the machine has and the user allows; nothing is connected yet."""
        if entry.batch is not None:
            return self._by_commands(entry, entry.batch)
        ways: list[Way] = []
        if entry.endpoint and self._transport is not TransportChoice.SSH:
            ways.append(Way(name="grpc", connect=lambda: self._by_grpc(entry)))
        if entry.ssh and self._transport is not TransportChoice.GRPC:
            ways.append(Way(name="ssh", connect=lambda: self._by_ssh(entry)))
        if not ways:
            missing = "ssh" if self._transport is TransportChoice.SSH else "endpoint"
            raise InputError(
                f"{entry.machine} has no way by {self._transport} ({self._settings.path})",
                hint=f"add {missing} = ... to it, or leave --transport at auto",
            )
        if len(ways) == 1:
            return ways[0].connect()
        return FallbackSite(entry.site, ways, tell=self._tell)

    def _by_grpc(self, entry: MachineEntry) -> SiteConnection:
        from gridtravel.gridio.rpc.client.diagnosis import UNIX_SCHEME
        from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
        from gridtravel.gridio.trust.anchor import load_anchor
        from gridtravel.gridio.trust.credentials import load_credential, require_credential
        from gridtravel.gridio.trust.identity import Role

        role = Role.MANAGER if entry.is_manager else Role.SITE
        folder = self._settings.credential_folder
        if entry.endpoint.startswith(UNIX_SCHEME):
            return GrpcSite(
                entry.endpoint,
                site=entry.site,
                role=role,
                anchor=load_anchor(folder),
                clock=self._clock,
            )
        credential = load_credential(folder)
        require_credential(credential, self._clock.now())
        return GrpcSite(entry.endpoint, credential, site=entry.site, role=role, clock=self._clock)

    def _by_commands(self, entry: MachineEntry, options: BatchOptions) -> SiteConnection:
        from gridtravel.gridio.batch.batch_site import BatchSite
        from gridtravel.gridio.batch.local_runner import LocalRunner
        from gridtravel.gridio.ssh.login_runner import LoginRunner

        if self._transport is TransportChoice.GRPC:
            raise InputError(
                f"{entry.machine} has no way by grpc: it has no agent, only the commands of its"
                f" {options.system} ({self._settings.path})",
                hint="leave --transport at auto",
            )
        runner: CommandRunner = LocalRunner()
        if entry.ssh:
            runner = LoginRunner(
                entry.ssh, config=self._settings.ssh_config, prompter=self._prompter
            )
        return BatchSite(
            runner, options, site=entry.site, features=entry.features, clock=self._clock
        )

    def _by_ssh(self, entry: MachineEntry) -> SiteConnection:
        from gridtravel.gridio.ssh.ssh_site import SshSite
        from gridtravel.gridio.trust.anchor import load_anchor
        from gridtravel.gridio.trust.identity import Role

        return SshSite(
            entry.ssh,
            agent_socket=entry.ssh_socket,
            site=entry.site,
            role=Role.MANAGER if entry.is_manager else Role.SITE,
            anchor=load_anchor(self._settings.credential_folder),
            config=self._settings.ssh_config,
            prompter=self._prompter,
            clock=self._clock,
        )

"""Chooses the real adapters for the travel agent: the system's clock, the user's files, gRPC.

What connects is imported with the first connection, so that whatever is wrong with a file is said
at once.
"""

from __future__ import annotations

from pathlib import Path

from gridcore.errors import NotAuthorisedError
from gridio.clock import SystemClock
from gridio.connections import SiteConnection
from gridio.ids import RandomIds
from travel_agent.agent import TravelAgent
from travel_agent.grid_config import GridConfig, MachineEntry, load_grid_config, state_folder


def open_travel_agent(config: GridConfig | None = None, state: Path | None = None) -> TravelAgent:
    """A travel agent as the user's configuration describes it."""
    clock = SystemClock()
    settings = config or load_grid_config()

    def connect(entry: MachineEntry) -> SiteConnection:
        from gridio.credentials import load_credential, require_credential
        from gridio.identity import Role
        from gridio.rpc.client import GrpcSite
        from gridio.rpc.diagnosis import UNIX_SCHEME

        if entry.endpoint.startswith(UNIX_SCHEME):
            return GrpcSite(entry.endpoint, site=entry.site, clock=clock)
        folder = settings.credential_folder
        if not folder.is_dir():
            raise NotAuthorisedError(f"there is no credential at {folder}", hint="run `gur login`")
        credential = load_credential(folder)
        require_credential(credential, clock.now())
        role = Role.MANAGER if entry.is_manager else Role.SITE
        return GrpcSite(entry.endpoint, credential, site=entry.site, role=role, clock=clock)

    return TravelAgent(
        settings, state or state_folder(), connect, clock=clock, ids=RandomIds(clock)
    )

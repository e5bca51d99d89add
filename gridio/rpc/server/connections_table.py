"""``[connections]`` of a daemon's configuration: how many connections it takes, and from whom."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from gridtravel.gridio.config_file import ConfigTable
from gridtravel.gridio.rpc.server.admission import DESCRIPTORS_KEPT, ConnectionLimits
from gridtravel.gridio.system.open_files import allow_open_files, open_files_allowed

_MOST: Final = 100_000
_Places = Annotated[int, Field(ge=1, le=_MOST)]
_DEFAULT: Final = ConnectionLimits()


class ConnectionsTable(ConfigTable):
    """``[connections]``: at once, unless it says otherwise. The fields are those of
    ``ConnectionLimits``.
    """

    per_login: _Places = _DEFAULT.per_login
    local: _Places = _DEFAULT.local
    administrators: Annotated[int, Field(ge=0, le=_MOST)] = _DEFAULT.administrators
    per_address: _Places = _DEFAULT.per_address
    unproven: _Places = _DEFAULT.unproven
    per_certificate: _Places = _DEFAULT.per_certificate
    network: _Places = _DEFAULT.network
    silence_s: Annotated[float, Field(ge=3, le=600)] = _DEFAULT.silence_s

    def limits(self) -> ConnectionLimits:
        """As the front door wants them."""
        return ConnectionLimits(**self.model_dump())

    def limits_here(self) -> tuple[ConnectionLimits, str]:
        """The limits that this process has descriptors for, after it has asked for more; and a note
        when that is fewer than the table says, else nothing.
        """
        wished = self.limits()
        return self._within(allow_open_files(wished.descriptors + DESCRIPTORS_KEPT))

    def note(self) -> str:
        """What ``limits_here`` would note, changing nothing."""
        allowed = open_files_allowed()
        return "" if allowed is None else self._within(allowed)[1]

    def _within(self, allowed: int) -> tuple[ConnectionLimits, str]:
        wished = self.limits()
        limits = wished.within(allowed)
        if limits == wished:
            return limits, ""
        return limits, (
            f"connections: a process may have {allowed} files open here, so that there are"
            f" {limits.local} places at the local socket instead of {wished.local}, and"
            f" {limits.network} instead of {wished.network} for the network; raise the limit"
            " (LimitNOFILE= of systemd, ulimit -Hn)"
        )

"""Which search the user wants."""

from __future__ import annotations

import enum


class SearchChoice(enum.StrEnum):
    """The ``--search`` of a command."""

    AUTO = "auto"
    """Sweep, unless one of the sites can only set and cancel reservations."""
    SWEEP = "sweep"
    """Inquiries, then the provably earliest start."""
    PROBE = "probe"
    """The paper's: test reservations that are set and cancelled."""
